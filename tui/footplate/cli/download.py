"""The command download: what a job wrote, into a folder of this machine."""

from __future__ import annotations

from pathlib import Path

import click

from footplate.cli import names
from footplate.cli.frame import Frame, common
from footplate.cli.progress import Transfer
from footplate.operations import download
from footplate.workspace import Workspace


@click.command("download")
@click.argument("name", shell_complete=names.jobs)
@click.option("--output", metavar="NAME", help="Only this output; `default` is what was written to ./outputs.")
@click.option(
    "--to", "folder", metavar="FOLDER", type=click.Path(path_type=Path), help="Where to; without it ./NAME of the job."
)
@common
@click.pass_obj
def download_command(frame: Frame, name: str, output: str | None, folder: Path | None) -> None:
    """Download a job's outputs, each into a folder of its name below FOLDER.

    A file that is there already (on Azure: one of the same size) is not fetched again: an interrupted download goes on.
    """

    async def work(workspace: Workspace) -> list[download.Fetched]:
        with Transfer(f"downloading {name}") as progress:
            return await download.outputs(workspace, name, folder or Path(name), output, progress)

    fetched = frame.run(work)
    frame.result(
        {
            "job": name,
            "outputs": [{"name": one.name, "folder": str(one.folder), "files": one.files} for one in fetched],
        },
        "\n".join(f"{one.name}: {count_of_files(one.files)} in {one.folder}" for one in fetched),
    )


def count_of_files(files: int) -> str:
    """`1 file`, `3 files`."""
    return f"{files} file{'' if files == 1 else 's'}"


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(download_command)
