"""The clusters of this machine: how many nodes there are, who holds them, and who waits for them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from footplate.workspace import Cluster, NotFound, QuotaExceeded

LOCAL = "local"
"""The cluster that is there from the start: this machine, one node with all its cores."""

_NODES = 1
_NAMED_IN_A_NOTE = 3


def cores() -> int:
    """Cores that processes of this user may use."""
    return len(os.sched_getaffinity(0))


def gpus() -> int:
    """GPUs that NVIDIA's driver shows; 0 without the driver."""
    folder = Path("/proc/driver/nvidia/gpus")
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def check(compute: str, nodes: int) -> None:
    """Raise NotFound for a cluster that is not there, and QuotaExceeded for more nodes than it can ever have."""
    if compute != LOCAL:
        raise NotFound(f"There is no cluster {compute!r} on this machine.", f"Launch with the compute {LOCAL!r}.")
    if nodes > _NODES:
        raise QuotaExceeded(
            f"The job wants {nodes} nodes; cluster {compute!r} has {_NODES}.",
            "Set resources.instance_count to 1; distribution.process_count_per_instance may be more.",
        )


def state(db: sqlite3.Connection) -> list[Cluster]:
    """All clusters as they are now."""
    busy = db.execute("SELECT count(*) FROM slot WHERE cluster = ?", (LOCAL,)).fetchone()[0]
    return [
        Cluster(
            name=LOCAL,
            type="Local",
            size=f"this machine, {cores()} cores" + (f", {gpus()} GPUs" if gpus() else ""),
            state="Succeeded",
            min_nodes=_NODES,
            max_nodes=_NODES,
            busy_nodes=busy,
            cores_per_node=cores(),
            gpus_per_node=gpus(),
            idle_seconds=0,
            queued_jobs=len(_waiting(db, LOCAL)),
        )
    ]


def claim(db: sqlite3.Connection, job: str) -> str:
    """Claim nodes for a job within one write transaction: first come, first served.

    Returns nothing when the job holds its nodes, else why it waits.
    """
    compute, nodes = db.execute("SELECT compute, nodes FROM job WHERE name = ?", (job,)).fetchone()
    holders = db.execute(
        "SELECT slot.node, slot.job FROM slot JOIN job ON job.name = slot.job WHERE cluster = ? ORDER BY job.created",
        (compute,),
    ).fetchall()
    waiting = _waiting(db, compute)
    before = waiting[: waiting.index(job)]
    free = [node for node in range(_NODES) if node not in {node for node, _ in holders}]
    if not before and len(free) >= nodes:
        db.executemany("INSERT INTO slot VALUES (?, ?, ?)", [(compute, node, job) for node in free[:nodes]])
        return ""
    ahead = [*dict.fromkeys(holder for _, holder in holders), *before]
    named = ", ".join(ahead[:_NAMED_IN_A_NOTE])
    more = f" and {len(ahead) - _NAMED_IN_A_NOTE} more" if len(ahead) > _NAMED_IN_A_NOTE else ""
    return f"{len(holders)} of {_NODES} nodes busy; ahead: {named}{more}"


def _waiting(db: sqlite3.Connection, compute: str) -> list[str]:
    """Jobs that have not ended and hold no node, in the order they came."""
    return [
        row[0]
        for row in db.execute(
            "SELECT name FROM job WHERE ended IS NULL AND compute = ? AND name NOT IN (SELECT job FROM slot) "
            "ORDER BY created, rowid",
            (compute,),
        )
    ]
