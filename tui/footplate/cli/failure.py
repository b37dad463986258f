"""The command `failure`: why a job failed, from the logs and exit codes of all its ranks."""

from __future__ import annotations

from collections.abc import Iterator

import click

from footplate.cli import names as known
from footplate.cli.frame import Frame, columned, common
from footplate.logs.sanitise import clean
from footplate.operations.failure import Failure, failure
from footplate.workspace import Invalid

_MOST_RANKS = 64


@click.command("failure")
@click.argument("name", shell_complete=known.jobs)
@common
@click.pass_obj
def failure_command(frame: Frame, name: str) -> None:
    """Say why the job NAME failed: the earliest true exception of all its ranks, how each ended, and what to do next."""
    found = frame.run(lambda workspace: failure(workspace, name))
    if found.job.status == "Completed":
        raise Invalid(f"Job {name!r} has not failed: Completed.", f"footplate logs {name} shows what it wrote.")
    if found.job.status != "Failed":
        frame.note(f"{found.job.name} has not failed: {found.job.status}. Its logs are read all the same.")
    frame.result(found.document(), lambda: "\n".join(_told(found)))


def _told(found: Failure) -> Iterator[str]:
    card = found.card
    yield clean(card.headline)
    yield f"{clean(card.sentence)} {clean(card.next_step)}"
    if where := _where(found):
        yield where
    if card.lines:
        yield ""
        yield from (f"  | {clean(line)}" for line in card.lines)
    for then in card.then:
        yield f"It led to {clean(then)}".partition("\n")[0]
    if len(card.ranks) > 1:
        yield ""
        rows = [
            (
                f"rank {one.rank}",
                f"node {one.node}",
                one.ended or "end not told",
                one.progress.told or "–",
                one.said or one.last_line or "wrote nothing",
            )
            for one in card.ranks[:_MOST_RANKS]
        ]
        yield columned([("RANK", "NODE", "END", "CAME TO", "SAID LAST"), *rows])
        if len(card.ranks) > _MOST_RANKS:
            yield f"… and {len(card.ranks) - _MOST_RANKS} ranks more; --json has them all."
    if card.never_arrived:
        yield f"Never arrived at the rendezvous: rank {', '.join(map(str, card.never_arrived))}."


def _where(found: Failure) -> str:
    """The place in the code, and in the log."""
    card = found.card
    places = []
    if card.origin is not None:
        inside = f" in {card.origin.function}" if card.origin.function else ""
        places.append(f"{card.origin.file}:{card.origin.line}{inside}")
    if card.file:
        line = f" line {card.line:,}" if card.line is not None else ""
        places.append(f"{card.file}{line} of {found.job.name}")
    return clean("   ".join(places))


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(failure_command)
