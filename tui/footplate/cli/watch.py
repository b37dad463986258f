"""The command `watch`: wait for the end of jobs, or for a condition of jobs, clusters and endpoints."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence

import click

from footplate import words
from footplate.cli import names as known
from footplate.cli.following import ended, status_lines
from footplate.cli.frame import Frame, common
from footplate.operations import alert_actions, alert_rules
from footplate.operations.alert_rules import Rule
from footplate.operations.watch import EXIT_CODES, Outcome, Telling, find, watch
from footplate.workspace import Invalid, Job, MetricPoint, Workspace


@click.command("watch")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=known.jobs)
@click.option("--for", "until", metavar="CONDITION", help="Until this holds, as failed, stalled=30m or val_acc>0.9.")
@click.option("--timeout", metavar="TIME", help="Give up after 90s, 30m, 12h or 2d; ends with 3.")
@click.option("--run", "command", metavar="COMMAND", help="Run this, without a shell, for each NAME when it is known.")
@common
@click.pass_obj
def watch_command(
    frame: Frame, names: tuple[str, ...], until: str | None, timeout: str | None, command: str | None
) -> None:
    """Watch jobs until they have ended: each change of status and each value that they log, a line each.

    NAME may be an endpoint or a cluster too (endpoint:NAME and cluster:NAME where a job is called the same): it is watched until
    it is no longer being changed.

    \b
    --for waits for a condition instead:
      a job        failed, finished, stalled, stalled=30m, METRIC>0.9, METRIC<0.1, METRIC=nan
      a cluster    unusable, idle, idle=30m
      an endpoint  unhealthy
    METRIC is a regular expression for the whole name.

    \b
    Ends with 0 when all completed, or the condition held for all; 1 when a job failed, was canceled, or ended before the
    condition held, or a change failed; 2 for a wrong name or condition; 3 when the time was up, or the workspace did not
    answer; 4 when one is not signed in. Of several the highest counts.

    --run gets FOOTPLATE_ALERT_EVENT (completed, failed, met, unmet, timeout), _NAME, _KIND, _WORKSPACE, _STATUS, _TEXT, _TIME,
    _METRIC and _VALUE in its environment.
    """
    condition = alert_rules.condition(until) if until is not None else None
    limit = alert_rules.duration(timeout) if timeout is not None else None
    argv = _split(command) if command is not None else ()

    async def work(workspace: Workspace) -> list[Outcome]:
        found = [await find(workspace, name) for name in dict.fromkeys(names)]
        return list(await asyncio.gather(*(one(workspace, kind, name) for kind, name in found)))

    async def one(workspace: Workspace, kind: str, name: str) -> Outcome:
        telling = _telling(frame, name if len(names) > 1 else "")
        came = await _within(limit, workspace, kind, name, condition, telling)
        if argv:
            fields = alert_actions.variables(came.as_finding(), workspace.name)
            if fault := await alert_actions.run(tuple(argv), fields):
                frame.note(fault)
        return came

    came = frame.run(work)
    frame.results([one.document() for one in came], "\n".join(map(_line, came)))
    if code := max(EXIT_CODES[one.outcome] for one in came):
        sys.exit(code)


async def _within(
    limit: float | None, workspace: Workspace, kind: str, name: str, condition: Rule | None, telling: Telling
) -> Outcome:
    last: list[Job] = []

    def seen(job: Job) -> None:
        last[:] = [job]
        telling.seen(job)

    try:
        async with asyncio.timeout(limit):
            return await watch(workspace, kind, name, condition, Telling(seen, telling.measured, telling.note))
    except TimeoutError:
        status = f" is {last[0].status}" if last else ""
        text = f"{name}{status}: the time was up after {words.span(limit)}"
        return Outcome(kind, name, "timeout", text, last[0] if last else None)


def _telling(frame: Frame, name: str) -> Telling:
    """Lines on one thing, with its name before them where several are watched."""
    before = f"{name} " if name else ""

    def measured(metric: str, point: MetricPoint) -> None:
        frame.say(f"{before}  {metric} {words.number(point.value)}  step {point.step}")

    return Telling(status_lines(lambda line: frame.say(f"{before}{line}")), measured, frame.note)


def _line(came: Outcome) -> str:
    if isinstance(came.thing, Job) and came.outcome in ("completed", "failed"):
        return ended(came.thing)
    return came.text


def _split(command: str) -> Sequence[str]:
    """A command's words. Raises Invalid."""
    try:
        argv = shlex.split(command)
    except ValueError:
        argv = []
    if not argv:
        raise Invalid(f"--run {command!r} is no command.", "Give a program and its words; quotes must be closed.")
    return argv


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(watch_command)
