"""The commands on models: register, models, model."""

from __future__ import annotations

from pathlib import Path

import click

from footplate import words
from footplate.cli import names
from footplate.cli.download import count_of_files
from footplate.cli.frame import Frame, common, fielded
from footplate.cli.progress import Transfer, with_upload
from footplate.operations import download
from footplate.workspace import Invalid, Model, Workspace


@click.command("register")
@click.argument("job", shell_complete=names.jobs)
@click.option(
    "--model", "name", metavar="NAME", required=True, help="The model's name; the version is the next free one."
)
@click.option(
    "--output", metavar="NAME", help="The output that is the model; without it outputs/model, else what was written."
)
@common
@click.pass_obj
def register_command(frame: Frame, job: str, name: str, output: str | None) -> None:
    """Register the model that a JOB wrote; of a sweep that of its best trial."""
    model = frame.run(lambda workspace: with_upload(workspace, workspace.register(name, job, output=output)))
    frame.result(
        model.document(),
        f"{model.reference} is registered. Deploy it: footplate deploy --model {model.reference} --endpoint NAME",
    )


@click.command("models")
@common
@click.pass_obj
def models_command(frame: Frame) -> None:
    """List models, newest first."""
    found = frame.run(lambda workspace: workspace.models())
    frame.table(
        [model.document() for model in found],
        ("MODEL", "TYPE", "SIZE", "AGE", "JOB", "CLASSES"),
        [
            (
                m.reference,
                m.type,
                words.size(m.size),
                words.age(m.created),
                m.job or "",
                ", ".join(m.class_names),
            )
            for m in found
        ],
        "No models. footplate register JOB --model NAME makes one from a job.",
    )


@click.group("model")
def model_group() -> None:
    """Show, download or delete one model."""


@model_group.command("show")
@click.argument("reference", shell_complete=names.models)
@common
@click.pass_obj
def show_command(frame: Frame, reference: str) -> None:
    """Show a model, NAME:VERSION."""
    model = frame.run(lambda workspace: workspace.model(reference))
    frame.result(model.document(), lambda: fielded(model.document(), 14))


@model_group.command("download")
@click.argument("reference", shell_complete=names.models)
@click.option(
    "--to", "folder", metavar="FOLDER", type=click.Path(path_type=Path), help="Where to; without it ./NAME-VERSION."
)
@common
@click.pass_obj
def download_command(frame: Frame, reference: str, folder: Path | None) -> None:
    """Download a model's files, NAME:VERSION.

    A file that is there already (on Azure: one of the same size) is not fetched again: an interrupted download goes on.
    """

    async def work(workspace: Workspace) -> download.Fetched:
        model = await workspace.model(reference)
        with Transfer(f"downloading {model.reference}") as progress:
            target = folder or Path(f"{model.name}-{model.version}")
            return await download.model(workspace, model.reference, target, progress)

    fetched = frame.run(work)
    frame.result(
        {"model": fetched.name, "folder": str(fetched.folder), "files": fetched.files},
        f"{fetched.name}: {count_of_files(fetched.files)} in {fetched.folder}",
    )


@model_group.command("delete")
@click.argument("reference", shell_complete=names.models)
@common
@click.pass_obj
def delete_command(frame: Frame, reference: str) -> None:
    """Delete a model, NAME:VERSION."""
    if ":" not in reference.removeprefix("azureml:") and "@" not in reference:
        raise Invalid(
            f"{reference!r} names no version: nothing was deleted.",
            f"Write NAME:VERSION, or {reference}@latest for the newest; footplate models lists them.",
        )

    async def work(workspace: Workspace) -> Model:
        model = await workspace.model(reference)
        await workspace.delete_model(model.reference)
        return model

    model = frame.run(work)
    frame.result(model.document(), f"{model.reference} is deleted.")


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (register_command, models_command, model_group):
        group.add_command(command)
