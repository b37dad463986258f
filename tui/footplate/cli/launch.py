"""The commands that start jobs: launch, rerun."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from footplate import words
from footplate.cli import names
from footplate.cli.following import copy_log, ended, status_lines
from footplate.cli.frame import Frame, common
from footplate.cli.progress import with_upload
from footplate.jobfile import JobFile
from footplate.workspace import Job, Workspace


def _changes(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that both share."""
    for option in (
        click.option("--force", is_flag=True, help="Go on whatever errors the check finds."),
        click.option("--follow", "follows", is_flag=True, help="Stream the log until the job has ended."),
        click.option("--name", "new_name", metavar="NAME", help="The job's name, in place of a made one."),
        click.option("--compute", metavar="NAME", help="The cluster that runs it.", shell_complete=names.clusters),
        click.option(
            "--set", "changes", metavar="PATH=VALUE", multiple=True, help="Change a value, as in inputs.num_epochs=5."
        ),
    ):
        command = option(command)
    return command


@click.command("launch")
@click.argument("file")
@_changes
@click.option("--dry-run", is_flag=True, help="Show what would run; start nothing.")
@common
@click.pass_obj
def launch_command(
    frame: Frame,
    file: str,
    changes: tuple[str, ...],
    compute: str | None,
    new_name: str | None,
    dry_run: bool,
    follows: bool,
    force: bool,
) -> None:
    """Start a job from a job FILE, or from a template by its bare name.

    The file is checked first, as `footplate check` does, and against the workspace; faults go to stderr. Errors end the launch
    with exit code 2 before anything is started, unless --force; warnings never do. A dry run shows what it can whatever is found.
    """
    from footplate.cli import launching  # with all rules of the check, which a list of jobs need not wait for

    job_file = launching.prepare(file, changes, compute, new_name)
    if dry_run:
        launching.dry_run(frame, job_file, force)
        return
    _show(frame, frame.run(lambda workspace: _start(frame, workspace, job_file, follows, force)), follows)


@click.command("rerun")
@click.argument("name", shell_complete=names.jobs)
@_changes
@click.option("--dry-run", is_flag=True, help="Show what would run; start nothing.")
@common
@click.pass_obj
def rerun_command(
    frame: Frame,
    name: str,
    changes: tuple[str, ...],
    compute: str | None,
    new_name: str | None,
    dry_run: bool,
    follows: bool,
    force: bool,
) -> None:
    """Launch a past job again: the file that it was submitted with, under a name of its own.

    Nothing else is changed but what --set, --compute and --name say. The file is checked as `launch` does.
    """
    from footplate.operations import launch
    from footplate.operations.clone import clone

    async def file_of(workspace: Workspace) -> JobFile:
        again = await clone(workspace, name)
        for note in again.notes:
            frame.note(note)
        return launch.changed(again.job_file, changes, compute, new_name)

    async def work(workspace: Workspace) -> Job:
        return await _start(frame, workspace, await file_of(workspace), follows, force)

    if dry_run:
        from footplate.cli import launching  # with all rules of the check

        launching.dry_run(frame, frame.run(file_of), force)
        return
    _show(frame, frame.run(work), follows)


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (launch_command, rerun_command):
        group.add_command(command)


async def _start(frame: Frame, workspace: Workspace, job_file: JobFile, follows: bool, force: bool) -> Job:
    """Check the file, submit it, and follow its log where that is wanted. Gives the job as it was last seen."""
    from footplate.cli import launching

    await launching.refuse_errors(frame, workspace, job_file, force)
    job = await with_upload(workspace, workspace.submit(job_file))
    ranks = "" if job.type != "command" else f": {words.ranks(job.nodes, job.ranks_per_node)}"
    frame.say(f"{job.name} is {job.status} on {job.compute}{ranks}")
    if not follows:
        return job
    return (await copy_log(frame, workspace, job.name, follows=True, seen=status_lines(frame.note))).job


def _show(frame: Frame, job: Job, follows: bool) -> None:
    frame.result(job.document(), ended(job) if follows else f"Follow it: footplate logs {job.name} --follow")
    if follows and job.status != "Completed":
        sys.exit(1)
