"""The nodes of this machine's clusters: who holds them, who waits for them, and which are there now."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from footplate.local import machine
from footplate.local.store import Store, now
from footplate.settings import Settings
from footplate.workspace.errors import NotFound, QuotaExceeded

LOCAL = "local"
"""The cluster that is there from the start: this machine; its nodes share all cores and GPUs."""

_NAMED_IN_A_NOTE = 3
_SHARED = 4
"""Nodes of `local` unless the settings say otherwise: a sweep's trials run at once, and wait honestly beyond."""


def keep_local(store: Store, settings: Settings) -> None:
    """Write `local` into the store as the settings have it, so that supervisors, which read none, see the same."""
    count = settings.local.nodes or (1 if machine.gpus() else _SHARED)
    wanted = (LOCAL, machine.cores(), machine.gpus(), count, count)
    columns = "name, cores, gpus, min_nodes, max_nodes"
    with store.read() as db:
        found = db.execute(f"SELECT {columns} FROM cluster WHERE name = ?", (LOCAL,)).fetchone()
    if found is None or tuple(found) != wanted:
        with store.write() as db:
            db.execute(
                f"INSERT OR REPLACE INTO cluster ({columns}, idle_seconds, tier, created) VALUES (?, ?, ?, ?, ?, 0, ?, ?)",
                (*wanted, "Dedicated", now()),
            )


def find(db: sqlite3.Connection, cluster: str) -> sqlite3.Row:
    """A cluster's row. Raises NotFound."""
    found: sqlite3.Row | None = db.execute("SELECT * FROM cluster WHERE name = ?", (cluster,)).fetchone()
    if found is None:
        known = ", ".join(row[0] for row in db.execute("SELECT name FROM cluster ORDER BY name LIMIT 10"))
        raise NotFound(f"There is no cluster {cluster!r} on this machine.", f"Known: {known}.")
    return found


def many(count: int) -> str:
    """`1 node`, `3 nodes`."""
    return f"{count} node{'' if count == 1 else 's'}"


def check(db: sqlite3.Connection, cluster: str, count: int) -> None:
    """Raise NotFound for a cluster that is not there, and QuotaExceeded for more nodes than it can ever have."""
    most = find(db, cluster)["max_nodes"]
    if count > most:
        if cluster == LOCAL:
            how = "set `local.nodes` in the settings (FOOTPLATE_LOCAL_NODES)"
        else:
            how = f"give the cluster more: footplate cluster update {cluster} --max-instances {count}"
        raise QuotaExceeded(
            f"The job wants {many(count)}; cluster {cluster!r} can have {most}.",
            f"Set resources.instance_count to {most} or less, or {how}.",
        )


@dataclass(frozen=True)
class Line:
    """Who holds the nodes of one cluster, and who waits for them, in the order they came."""

    cluster: sqlite3.Row
    holders: tuple[str, ...]
    free: tuple[int, ...]
    blocked: int
    queue: tuple[str, ...]
    wanted: Mapping[str, int]

    @classmethod
    def read(cls, db: sqlite3.Connection, name: str) -> Line:
        """The line at a cluster as it is now. Raises NotFound where the cluster is gone."""
        cluster = find(db, name)
        held = db.execute(
            "SELECT slot.node, slot.job FROM slot JOIN job ON job.name = slot.job WHERE cluster = ? ORDER BY job.rowid",
            (name,),
        ).fetchall()
        blocked = {
            row[0] for row in db.execute("SELECT node FROM node WHERE cluster = ? AND state = 'blocked'", (name,))
        }
        taken = {node for node, _ in held} | blocked
        wanted = waiting(db, name)
        return cls(
            cluster,
            tuple(dict.fromkeys(job for _, job in held)),
            tuple(node for node in range(cluster["max_nodes"]) if node not in taken),
            len(blocked),
            tuple(wanted),
            wanted,
        )

    def may_start(self, job: str) -> bool:
        """Whether it is a waiting job's turn, and enough nodes are free."""
        return self.queue[:1] == (job,) and len(self.free) >= self.wanted[job]

    def reasons(self) -> dict[str, str]:
        """Why each waiting job waits, in one line; none for one that may start."""
        first = (*self.holders, *self.queue[:_NAMED_IN_A_NOTE])
        quota = f"; {self.blocked} cannot be had, the quota is full (a rehearsal)" if self.blocked else ""
        found = {}
        for place, job in enumerate(self.queue):
            if self.may_start(job):
                continue
            count = len(self.holders) + place
            named = ", ".join(first[: min(count, _NAMED_IN_A_NOTE)])
            more = f" and {count - _NAMED_IN_A_NOTE} more" if count > _NAMED_IN_A_NOTE else ""
            nodes = f"{len(self.free)} of {self.cluster['max_nodes']} nodes are free, the job wants {self.wanted[job]}"
            found[job] = f"{nodes}{quota}; ahead: {named}{more}" if named else nodes + quota
        return found


def claim(db: sqlite3.Connection, job: str, compute: str) -> bool:
    """Claim nodes for a waiting job within one write transaction, where it is its turn: first come, first served.

    Raises NotFound where the cluster is gone.
    """
    line = Line.read(db, compute)
    if not line.may_start(job):
        return False
    there = set(_there(db, line.cluster))
    chosen = sorted(line.free, key=lambda node: (node not in there, node))[: line.wanted[job]]
    db.executemany("INSERT INTO slot VALUES (?, ?, ?)", [(compute, node, job) for node in chosen])
    db.executemany(
        "INSERT INTO node (cluster, node, since) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET freed = NULL, state = ''",
        [(compute, node, now()) for node in chosen],
    )
    return True


def waiting(db: sqlite3.Connection, cluster: str) -> dict[str, int]:
    """Command jobs that hold no node yet, with how many they want, in the order they came: by row, as clocks are set back."""
    return {
        name: wanted
        for name, wanted in db.execute(
            "SELECT name, nodes FROM job WHERE ended IS NULL AND compute = ? AND type = 'command' "
            "AND name NOT IN (SELECT job FROM slot) ORDER BY rowid",
            (cluster,),
        )
    }


def next_in_line(db: sqlite3.Connection, cluster: str) -> tuple[int | None, float | None]:
    """The supervisor of the job whose turn comes next: pid and start time."""
    found = db.execute(
        "SELECT supervisor_pid, supervisor_started FROM job WHERE ended IS NULL AND compute = ? AND type = 'command' "
        "AND name NOT IN (SELECT job FROM slot) ORDER BY rowid LIMIT 1",
        (cluster,),
    ).fetchone()
    return (None, None) if found is None else (found[0], found[1])


def there(db: sqlite3.Connection, cluster: sqlite3.Row) -> list[tuple[int, str | None, str]]:
    """The nodes that are there now: number, the job that holds it, and the state that was written down of it."""
    holders = dict(db.execute("SELECT node, job FROM slot WHERE cluster = ?", (cluster["name"],)).fetchall())
    states = dict(db.execute("SELECT node, state FROM node WHERE cluster = ?", (cluster["name"],)).fetchall())
    return [(node, holders.get(node), states.get(node, "")) for node in _there(db, cluster)]


def _there(db: sqlite3.Connection, cluster: sqlite3.Row) -> list[int]:
    """Numbers of the nodes that have not scaled down: held ones, the least number, and those that were freed just now."""
    name = cluster["name"]
    held = {row[0] for row in db.execute("SELECT node FROM slot WHERE cluster = ?", (name,))}
    freed = db.execute("SELECT node, freed FROM node WHERE cluster = ? AND freed IS NOT NULL", (name,)).fetchall()
    idle = sorted(
        # abs: a clock that was set back a year must not keep nodes for a year
        (node for node, at in freed if node < cluster["max_nodes"] and abs(now() - at) < cluster["idle_seconds"]),
    )
    found = held | set(idle)
    for node in range(cluster["max_nodes"]):  # up to the least number, the lowest first
        if len(found) >= cluster["min_nodes"]:
            break
        found.add(node)
    return sorted(found)


def threads(db: sqlite3.Connection, job: sqlite3.Row, ranks_per_node: int) -> int:
    """Threads that each rank of a job that holds its nodes should use, so that ranks do not take each other's cores.

    A made cluster's node has its cores for itself. Those of `local` are shared by all nodes that are held then, and by the
    trials that run at once where the job is one.
    """
    cluster = find(db, job["compute"])
    if cluster["name"] != LOCAL:
        return max(1, int(cluster["cores"]) // ranks_per_node)
    held = int(db.execute("SELECT count(*) FROM slot WHERE cluster = ?", (LOCAL,)).fetchone()[0])
    siblings = 0
    if job["parent"] is not None:
        found = db.execute(
            "SELECT json_extract(work, '$.at_once') FROM job WHERE name = ? AND json_valid(work)", (job["parent"],)
        ).fetchone()
        siblings = int(job["nodes"]) * int((found and found[0]) or 1)
    share = max(1, held, min(int(siblings), int(cluster["max_nodes"])))
    return max(1, int(cluster["cores"]) // share // ranks_per_node)


def devices(db: sqlite3.Connection, job: sqlite3.Row) -> tuple[str, ...]:
    """CUDA_VISIBLE_DEVICES of each node that a job holds, in order; empty where all see all: on `local`, and without GPUs.

    A made cluster's nodes take the machine's GPUs in turn, so that two nodes share one only where there are too few.
    """
    cluster, there = find(db, job["compute"]), machine.gpus()
    if cluster["name"] == LOCAL or not there:
        return ()
    held = db.execute("SELECT node FROM slot WHERE job = ? ORDER BY node", (job["name"],)).fetchall()
    gpus = int(cluster["gpus"])
    return tuple(",".join(str((node * gpus + number) % there) for number in range(gpus)) for (node,) in held)
