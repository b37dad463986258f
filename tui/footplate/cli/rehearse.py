"""The command `rehearse`: what befalls jobs on Azure, done to one on this machine."""

from __future__ import annotations

import click

from footplate.cli import names as known
from footplate.cli.frame import Frame, common
from footplate.workspace.contract import REHEARSALS


@click.command("rehearse")
@click.argument("name", shell_complete=known.jobs)
@click.argument("act", type=click.Choice(list(REHEARSALS)))
@common
@click.pass_obj
def rehearse_command(frame: Frame, name: str, act: str) -> None:
    """Do to the job NAME of the local workspace on purpose what befalls jobs on Azure.

    preempt takes a node away: only outputs stay, and the job queues again. kill-rank kills its last rank. stop-heartbeat stops
    that rank until resume-heartbeat. fill-quota has nobody get a free node of its cluster until free-quota; for these two NAME
    may be a cluster.
    """
    said = frame.run(lambda workspace: workspace.rehearse(name, act))
    frame.result({"name": name, "act": act, "message": said}, said)


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(rehearse_command)
