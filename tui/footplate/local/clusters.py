"""The clusters of this machine: made, changed and deleted, with their nodes, sizes and quota."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from footplate.local import machine, nodes
from footplate.local.store import Store, now
from footplate.settings import Settings
from footplate.workspace import Cluster, ClusterSpec, Conflict, Invalid, Node, Quota, QuotaExceeded, Size
from footplate.workspace.names import as_tier, check_cluster_name

MOST_NODES = 100
"""Azure's own default for a cluster."""


class Clusters:
    """Every method reads the store anew; nodes come and go by what is written there, no process looks after them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    def list(self) -> Sequence[Cluster]:
        """All clusters, by name, `local` first."""
        with self._read() as db:
            rows = db.execute("SELECT * FROM cluster ORDER BY name != ?, name", (nodes.LOCAL,)).fetchall()
            return [_cluster(db, row) for row in rows]

    def create(self, spec: ClusterSpec) -> Cluster:
        """Make a cluster; it is there at once. Raises Invalid (name, size, counts, tier), Conflict (exists)."""
        name = spec.name
        check_cluster_name(name)
        size = self._size(spec.size)
        _check_counts(spec.min_nodes, spec.max_nodes, spec.idle_seconds)
        tier = as_tier(spec.tier)
        nodes.keep_local(self._store, self._settings)
        values = (name, size.cores, size.gpus, spec.min_nodes, spec.max_nodes, spec.idle_seconds, tier, now())
        with self._store.write() as db:
            if db.execute("SELECT 1 FROM cluster WHERE lower(name) = lower(?)", (name,)).fetchone():
                raise Conflict(f"There is a cluster {name!r} already.", "Give another name, or change that one.")
            db.execute(f"INSERT INTO cluster VALUES ({', '.join('?' * len(values))})", values)
            return _cluster(db, nodes.find(db, name))

    def update(
        self, name: str, min_nodes: int | None = None, max_nodes: int | None = None, idle_seconds: int | None = None
    ) -> Cluster:
        """Change what is given. Raises NotFound, Invalid, and Conflict where a waiting job wants more nodes."""
        nodes.keep_local(self._store, self._settings)
        with self._store.write() as db:
            row = nodes.find(db, name)
            if name == nodes.LOCAL:
                raise Invalid(
                    f"The nodes of {name!r} are a setting.", "Set `local.nodes` in the settings, or make a cluster."
                )
            least = row["min_nodes"] if min_nodes is None else min_nodes
            most = row["max_nodes"] if max_nodes is None else max_nodes
            idle = row["idle_seconds"] if idle_seconds is None else idle_seconds
            _check_counts(least, most, idle)
            for job, wanted in nodes.waiting(db, name).items():
                if wanted > most:
                    raise Conflict(
                        f"Job {job!r} waits for {nodes.many(wanted)} of {name!r}.",
                        "Cancel it, or leave the cluster so many.",
                    )
            db.execute(
                "UPDATE cluster SET min_nodes = ?, max_nodes = ?, idle_seconds = ? WHERE name = ?",
                (least, most, idle, name),
            )
            return _cluster(db, nodes.find(db, name))

    def delete(self, name: str) -> None:
        """Remove a cluster. Raises NotFound, Invalid for `local`, Conflict while jobs hold its nodes or wait for them."""
        nodes.keep_local(self._store, self._settings)
        with self._store.write() as db:
            nodes.find(db, name)
            if name == nodes.LOCAL:
                raise Invalid(f"The cluster {name!r} is this machine.", "Only clusters that were made can be deleted.")
            holders = [row[0] for row in db.execute("SELECT DISTINCT job FROM slot WHERE cluster = ?", (name,))]
            named = db.execute("SELECT name FROM job WHERE ended IS NULL AND compute = ? ORDER BY rowid", (name,))
            jobs = list(dict.fromkeys([*holders, *(row[0] for row in named)]))
            if jobs:
                more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""
                raise Conflict(
                    f"Cluster {name!r} is in use by {', '.join(jobs[:3])}{more}.", "Wait for their end, or cancel them."
                )
            db.execute("DELETE FROM node WHERE cluster = ?", (name,))
            db.execute("DELETE FROM cluster WHERE name = ?", (name,))

    def nodes(self, name: str) -> Sequence[Node]:
        """The nodes that are there now: idle ones go after the cluster's idle seconds. Raises NotFound."""
        with self._read() as db:
            found = nodes.there(db, nodes.find(db, name))
            states = dict(db.execute("SELECT name, status FROM job WHERE ended IS NULL").fetchall())
        return [
            Node(f"{name}-{number}", _node_state(states.get(job) if job else None, state, job), job, "127.0.0.1")
            for number, job, state in found
        ]

    def sizes(self) -> Sequence[Size]:
        """`cores-N` up to this machine's cores, and `gpus-N` with their share of the cores."""
        cores, gpus = machine.cores(), machine.gpus()
        memory = machine.memory_gb()
        return [
            *(Size(f"cores-{n}", n, 0, round(memory * n / cores, 1), "this machine") for n in range(1, cores + 1)),
            *(
                Size(f"gpus-{n}", max(1, cores * n // gpus), n, round(memory * n / gpus, 1), "this machine")
                for n in range(1, gpus + 1)
            ),
        ]

    def quota(self) -> Sequence[Quota]:
        """Cores (and GPUs) that held nodes stand for, against what this machine has; nodes may stand for more than there is."""
        with self._read() as db:
            held = db.execute(
                "SELECT cluster.name, cluster.cores, cluster.gpus, cluster.max_nodes, count(*) AS held "
                "FROM slot JOIN cluster ON cluster.name = slot.cluster GROUP BY cluster.name"
            ).fetchall()
        cores = gpus = 0
        for row in held:
            # The nodes of `local` share the machine, the others have their size each.
            shared = row["max_nodes"] if row["name"] == nodes.LOCAL else 1
            cores += -(-row["cores"] * row["held"] // shared)
            gpus += -(-row["gpus"] * row["held"] // shared)
        found = [Quota("cores of this machine", cores, machine.cores())]
        return [*found, Quota("GPUs of this machine", gpus, machine.gpus())] if machine.gpus() else found

    def _size(self, name: str) -> Size:
        known = {size.name: size for size in self.sizes()}
        if found := known.get(name.lower()):
            return found
        if re.fullmatch(r"(cores|gpus)-[1-9][0-9]*", name.lower()):
            raise QuotaExceeded(
                f"This machine has no {name}: it has {machine.cores()} cores and {machine.gpus()} GPUs.",
                f"The largest size is {list(known)[-1]}.",
            )
        from footplate.jobfile.faults import nearest  # reads YAML, which a list need not wait for

        near = nearest(name, known)
        raise Invalid(
            f"There is no size {name!r} on this machine.",
            f"Did you mean {near}?" if near else f"Known: {', '.join(list(known)[:8])}.",
        )

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        nodes.keep_local(self._store, self._settings)
        with self._store.read() as db:
            yield db


def _check_counts(least: int, most: int, idle_seconds: int) -> None:
    if not 0 <= least <= most <= MOST_NODES:
        raise Invalid(
            f"A cluster cannot have {least} to {most} nodes.", f"Give 0 ≤ min_instances ≤ max_instances ≤ {MOST_NODES}."
        )
    if idle_seconds < 0:
        raise Invalid(f"A node cannot idle for {idle_seconds} s before it goes.", "Give 0 s or more.")


def _cluster(db: sqlite3.Connection, row: sqlite3.Row) -> Cluster:
    name, cores, gpus = row["name"], row["cores"], row["gpus"]
    busy = db.execute("SELECT count(*) FROM slot WHERE cluster = ?", (name,)).fetchone()[0]
    blocked = db.execute("SELECT count(*) FROM node WHERE cluster = ? AND state = 'blocked'", (name,)).fetchone()[0]
    if name == nodes.LOCAL:
        size = f"this machine, {cores} cores" + (f", {gpus} GPUs" if gpus else "")
    else:
        size = f"gpus-{gpus}" if gpus else f"cores-{cores}"
    return Cluster(
        name=name,
        type="Local",
        size=size,
        state="Succeeded",
        min_nodes=row["min_nodes"],
        max_nodes=row["max_nodes"],
        busy_nodes=busy,
        cores_per_node=cores,
        gpus_per_node=gpus,
        idle_seconds=row["idle_seconds"],
        queued_jobs=len(nodes.waiting(db, name)),
        tier=row["tier"],
        error=f"The quota is full (a rehearsal): {nodes.many(blocked)} cannot be had." if blocked else "",
    )


def _node_state(job_status: str | None, state: str, job: str | None) -> str:
    """A held node's state by its job's status, another's by what was written down of it."""
    if job is not None:
        return "running" if job_status in ("Running", "NotResponding", "Finalizing", "CancelRequested") else "preparing"
    return {"blocked": "unusable", "": "idle"}.get(state, state)
