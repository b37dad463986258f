"""The command `logs`, and what the other commands that follow a job share with it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import click

from footplate import words
from footplate.cli import names
from footplate.cli.frame import Frame, common
from footplate.cli.log_output import LogOutput
from footplate.operations import follow, logs
from footplate.workspace import Job, Workspace


@click.command("logs")
@click.argument("name", shell_complete=names.jobs)
@click.option("--file", "path", metavar="PATH", help="Which log file; without it the first user log (rank 0).")
@click.option("--follow", "follows", is_flag=True, help="Go on until the job has ended.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines, and what comes.")
@click.option("--since", metavar="AGE|TIME", help="Only lines written since then: 5m, 2h, 2026-01-31T14:00.")
@click.option("--grep", metavar="REGEX", help="Only lines that match; without a capital letter in either case.")
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Only lines that say this level or above; tracebacks are errors.",
)
@click.option(
    "--context", type=click.IntRange(min=0), default=0, metavar="N", help="With N lines before and after each."
)
@click.option("--timestamps", is_flag=True, help="Each line after the time it says, else when it arrived (UTC).")
@common
@click.pass_obj
def logs_command(
    frame: Frame,
    name: str,
    path: str | None,
    follows: bool,
    tail: int | None,
    since: str | None,
    grep: str | None,
    level: str | None,
    context: int,
    timestamps: bool,
) -> None:
    """Print a job's log: as it is to a file or pipe, made safe on a terminal."""
    chosen = logs.choice(grep, level, since, context, tail) if grep or level or since or tail is not None else None
    if chosen is None and timestamps:
        chosen = logs.Choice()

    async def work(workspace: Workspace) -> tuple[follow.Copied, list[str]]:
        copied = await copy_log(frame, workspace, name, path, follows=follows, chosen=chosen, stamped=timestamps)
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


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(logs_command)


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
    chosen: logs.Choice | None = None,
    stamped: bool = False,
) -> follow.Copied:
    """Print a job's log, whole or the chosen lines; of one that wrote none itself the first there is, with a sentence so."""
    with log_output(frame) as log:

        async def copy(path: str | None, follows: bool) -> follow.Copied:
            if chosen is None:
                return await follow.copy_log(workspace, name, log, path, follow=follows, seen=seen, say=frame.note)
            write = functools.partial(log.line, stamped=stamped)
            return await logs.print_log(workspace, name, chosen, write, path, follow=follows, say=frame.note)

        copied = await copy(path, follows)
        others = [] if copied.file is not None else await workspace.log_files(name)
        if not others:
            return copied
        if copied.job.type in ("sweep", "pipeline"):
            why = "it runs no command of its own; footplate children tells whose logs there are"
        else:
            why = f"its command has written no log{' yet' if copied.job.active else ''}"
        frame.note(f"{name} is {copied.job.status}; {why}. This is {others[0].path}:")
        return await copy(others[0].path, False)


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
