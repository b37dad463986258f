"""What is asked before a rehearsal: which bad day it is to be, and whether what it takes away may go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from footplate.screens.choose import ChooseScreen
from footplate.screens.dialogs import ConfirmDialog
from footplate.widgets.virtual_table import Cell, Column, Row
from footplate.workspace import Job
from footplate.workspace.contract import REHEARSALS

if TYPE_CHECKING:
    from footplate.app import FootplateApp

_ON_AZURE: Mapping[str, str] = {
    "preempt": "a low-priority node is taken back: the job queues again and starts anew from its outputs",
    "kill-rank": "a rank runs out of memory (137): the launcher ends the others, the job fails",
    "stop-heartbeat": "a rank hangs: the job shows NotResponding, collectives wait for their time-out",
    "resume-heartbeat": "what hung goes on",
    "fill-quota": "somebody else has the cores: jobs that need a node wait, and say so",
    "free-quota": "the cores are free again: the first in line starts",
}
"""How each shows on Azure."""

_OF_CLUSTERS = ("fill-quota", "free-quota")
_COSTS: Mapping[str, str] = {
    "preempt": "What the job wrote outside its outputs is lost, and it goes back into line.",
    "kill-rank": "The job fails, unless its own code survives the loss of a rank.",
}
"""What is asked about first: it cannot be taken back."""

_WIDEST = 24


async def on_job(console: FootplateApp, job: Job) -> None:
    """Choose what befalls a job, or the cluster it is on. Call it in a worker."""
    await _rehearse(console, {act: job.compute if act in _OF_CLUSTERS else job.name for act in REHEARSALS})


async def on_cluster(console: FootplateApp, cluster: str, job: str | None) -> None:
    """Choose what befalls a cluster, or the job on one of its nodes. Call it in a worker."""
    await _rehearse(console, {act: cluster if act in _OF_CLUSTERS else job or "" for act in REHEARSALS})


async def _rehearse(console: FootplateApp, targets: Mapping[str, str]) -> None:
    if console.cannot("rehearse"):
        return
    possible = [act for act in REHEARSALS if targets[act]]
    rows = [Row(act, (act, REHEARSALS[act], Cell(targets[act], "muted"))) for act in possible]
    columns = (
        Column("act", "REHEARSE", 17, priority=100),
        Column("what", "WHAT IS DONE HERE", None, minimum=30, priority=90),
        Column("target", "TO", min(_WIDEST, max(map(len, targets.values()))), priority=80),
    )
    act = await console.push_screen_wait(
        ChooseScreen("Rehearse a bad day", columns, rows, lambda key: f"On Azure {_ON_AZURE[key]}.")
    )
    if act is None:
        return
    name = targets[act]
    if cost := _COSTS.get(act):
        title = f"Preempt a node of {name}?" if act == "preempt" else f"Kill the last rank of {name}?"
        text = f"{cost}\nWorkspace {console.workspace_name}."
        if not await console.push_screen_wait(ConfirmDialog(title, text, "Preempt" if act == "preempt" else "Kill")):
            return
    said = await console.attempt(console.workspace.rehearse(name, act))
    if said is not None:
        console.notify(said, title="rehearsal", severity="warning", markup=False, timeout=10)
