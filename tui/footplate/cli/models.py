"""The commands on models: register, models, model."""

from __future__ import annotations

import click

from footplate import words
from footplate.cli.frame import Frame, common, fielded
from footplate.workspace import Model, Workspace


@click.command("register")
@click.argument("job")
@click.option(
    "--model", "name", metavar="NAME", required=True, help="The model's name; the version is the next free one."
)
@common
@click.pass_obj
def register_command(frame: Frame, job: str, name: str) -> None:
    """Register the model that a JOB wrote."""
    model = frame.run(lambda workspace: workspace.register(name, job))
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
    """Show or delete one model."""


@model_group.command("show")
@click.argument("reference")
@common
@click.pass_obj
def show_command(frame: Frame, reference: str) -> None:
    """Show a model, NAME:VERSION."""
    model = frame.run(lambda workspace: workspace.model(reference))
    frame.result(model.document(), lambda: fielded(model.document(), 14))


@model_group.command("delete")
@click.argument("reference")
@common
@click.pass_obj
def delete_command(frame: Frame, reference: str) -> None:
    """Delete a model, NAME:VERSION."""

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
