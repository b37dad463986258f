"""The commands that follow a job, and what `launch --follow` shares with them: logs, watch."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from footplate import words
from footplate.cli import names
from footplate.cli.frame import Frame, common
from footplate.cli.log_output import LogOutput
from footplate.operations import follow
from footplate.operations.watch import watch
from footplate.workspace import Job, MetricPoint, Workspace


@click.command("logs")
@click.argument("name", shell_complete=names.jobs)
@click.option("--file", "path", metavar="PATH", help="Which log file; without it the first user log (rank 0).")
@click.option("--follow", "follows", is_flag=True, help="Go on until the job has ended.")
@common
@click.pass_obj
def logs_command(frame: Frame, name: str, path: str | None, follows: bool) -> None:
    """Print a job's log: as it is to a file or pipe, made safe on a terminal."""

    async def work(workspace: Workspace) -> tuple[follow.Copied, list[str]]:
        copied = await copy_log(frame, workspace, name, path, follows=follows)
        return copied, [file.path for file in await workspace.log_files(name)]

    copied, files = frame.run(work)
    job = copied.job
    if frame.json:
        frame.result({"job": job.name, "status": job.status, "file": copied.file, "files": files}, "")
    elif copied.file is None:
        frame.note(
            f"{job.name} is {job.status} and has written no log{' yet' if job.active else ''}. {job.note}".rstrip()
        )
    if follows and job.status != "Completed":
        frame.note(ended(job))
        sys.exit(1)


@click.command("watch")
@click.argument("name", shell_complete=names.jobs)
@common
@click.pass_obj
def watch_command(frame: Frame, name: str) -> None:
    """Watch a job until it has ended: each change of its status and each value that it logs, a line each.

    Ends with 0 for a job that completed, else with 1.
    """

    def measured(metric: str, point: MetricPoint) -> None:
        frame.say(f"  {metric} {words.number(point.value)}  step {point.step}")

    status = status_lines(frame.say)
    job = frame.run(
        lambda workspace: watch(workspace, name, lambda one: status(one) if one.active else None, measured, frame.note)
    )
    frame.result(job.document(), ended(job))
    if job.status != "Completed":
        sys.exit(1)


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (logs_command, watch_command):
        group.add_command(command)


def log_output(frame: Frame) -> LogOutput:
    """Where a log goes: stdout, or stderr when stdout holds one JSON document."""
    return LogOutput(sys.stderr if frame.json else sys.stdout)


async def copy_log(
    frame: Frame,
    workspace: Workspace,
    name: str,
    path: str | None = None,
    *,
    follows: bool,
    seen: Callable[[Job], None] | None = None,
) -> follow.Copied:
    """Print a job's log; of one that wrote none itself the first there is, with a sentence that says so."""
    with log_output(frame) as log:
        copied = await follow.copy_log(workspace, name, log, path, follow=follows, seen=seen)
        others = [] if copied.file is not None else await workspace.log_files(name)
        if not others:
            return copied
        if copied.job.type in ("sweep", "pipeline"):
            why = "it runs no command of its own; footplate children tells whose logs there are"
        else:
            why = f"its command has written no log{' yet' if copied.job.active else ''}"
        frame.note(f"{name} is {copied.job.status}; {why}. This is {others[0].path}:")
        return await follow.copy_log(workspace, name, log, others[0].path)


def status_lines(say: Callable[[str], None]) -> Callable[[Job], None]:
    """Say each status, and each note, once; of a sweep also each new best trial."""
    last = ""

    def look(job: Job) -> None:
        nonlocal last
        best = f", best so far {job.best_child}" if job.best_child and job.best_child not in job.note else ""
        line = f"{job.status}{f': {job.note}' if job.note else ''}{best}"
        if line != last:
            last = line
            say(f"· {line}")

    return look


def ended(job: Job) -> str:
    """How a job ended, in a line."""
    seconds = job.seconds()
    took = f" after {words.span(seconds)}" if seconds is not None else ""
    best = f"; best trial {job.best_child}" if job.best_child else ""
    return f"{job.name} is {job.status}{took}{f': {job.error}' if job.error else ''}{best}"
