"""The command `alerts`: what consoles watch and what they told; things put on the watch list and taken off it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from footplate import words
from footplate.cli import names as known
from footplate.cli.frame import Frame, columned, common
from footplate.operations.alert_store import Told, Watched, store_of
from footplate.operations.watch import find
from footplate.workspace import NotFound, Workspace
from footplate.workspace.errors import Invalid
from footplate.workspace.model import iso


@click.command("alerts")
@click.option("--watch", "on", metavar="NAME", multiple=True, shell_complete=known.jobs, help="Watch this from now on.")
@click.option("--unwatch", "off", metavar="NAME", multiple=True, help="Watch this no more.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many, newest first.")
@common
@click.pass_obj
def alerts_command(frame: Frame, on: tuple[str, ...], off: tuple[str, ...], limit: int) -> None:
    """List what is watched and what was told.

    NAME is a job, else an endpoint, else a cluster; endpoint:NAME, cluster:NAME and job:NAME say which. What is watched is told
    by the console, at once where one is open, else at its next start.
    """

    async def work(workspace: Workspace) -> tuple[str, list[Watched], list[Told]]:
        store = store_of(workspace.name)
        for name in on:
            kind, found = await find(workspace, name)
            if kind == "job" and not (job := await workspace.job(found)).active:
                raise Invalid(f"{found} is {job.status}: there is nothing to wait for.")
            store.watch(kind, found)
        for name in off:
            there = [one for one in store.watched() if name in (one.name, f"{one.kind}:{one.name}")]
            if not there:
                raise NotFound(f"{name!r} is not watched.", "footplate alerts lists what is.")
            for one in there:
                store.unwatch(one.kind, one.name)
        return workspace.name, store.watched(), store.history(limit)

    workspace, watched, told = frame.run(work)
    now = datetime.now(UTC)
    document = {
        "watched": [{"kind": w.kind, "name": w.name, "since": iso(_moment(w.since))} for w in watched],
        "told": [
            one.finding.document(workspace) | {"told": iso(_moment(one.when)), "fault": one.fault or None}
            for one in told
        ],
    }
    rows = [(words.age(_moment(w.since), now), w.kind, w.name) for w in watched]
    lines = [columned([("WATCHED", "KIND", "NAME"), *rows]) if rows else "Nothing is watched."]
    events = [
        (words.age(_moment(one.when), now), one.finding.event, " · ".join(filter(None, (one.finding.text, one.fault))))
        for one in told
    ]
    lines.append(columned([("TOLD", "EVENT", "ALERT"), *events]) if events else "Nothing was told.")
    frame.result(document, "\n\n".join(lines))


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(alerts_command)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
