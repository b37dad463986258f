"""Rehearsals on this machine: what befalls jobs on Azure, done to one on purpose, so that its operator has seen it before."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Sequence

from footplate.local import nodes, processes
from footplate.local.store import Store
from footplate.workspace.errors import Conflict, Invalid, NotFound


class Rehearsals:
    """Each act takes a job's name (those on nodes also a cluster's) and says in a sentence what was done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._acts: dict[str, Callable[[str], str]] = {  # the names of contract.REHEARSALS
            "preempt": self._preempt,
            "kill-rank": self._kill_rank,
            "stop-heartbeat": self._stop_heartbeat,
            "resume-heartbeat": self._resume_heartbeat,
            "fill-quota": self._fill_quota,
            "free-quota": self._free_quota,
        }

    def act(self, name: str, act: str) -> str:
        """Do one act. Raises Invalid for an unknown act, NotFound, Conflict where there is nothing to do it to."""
        if act not in self._acts:
            raise Invalid(f"There is no rehearsal {act!r}.", f"Known: {', '.join(self._acts)}.")
        return self._acts[act](name)

    def _preempt(self, name: str) -> str:
        """Take the job's last node away: its ranks die at once; `command_job` wipes its folders and queues the job again."""
        with self._store.write() as db:
            row, ranks = self._running(db, name)
            db.execute("UPDATE job SET work = json_set(work, '$.preempt', 1) WHERE name = ?", (name,))
        for rank in ranks[-(row["ranks_per_node"] or 1) :]:
            _signal(rank, signal.SIGKILL)
        return (
            f"A node of job {name!r} was preempted: what lay in its working folders is lost, its outputs stay, and it goes back "
            "into line."
        )

    def _kill_rank(self, name: str) -> str:
        with self._store.read() as db:
            ranks = self._running(db, name)[1]
        _signal(ranks[-1], signal.SIGKILL)
        return f"Rank {ranks[-1]['rank']} of job {name!r} was killed (SIGKILL)."

    def _stop_heartbeat(self, name: str) -> str:
        with self._store.read() as db:
            ranks = self._running(db, name)[1]
        _signal(ranks[-1], signal.SIGSTOP)
        return (
            f"Rank {ranks[-1]['rank']} of job {name!r} is stopped (SIGSTOP) and gives no sign of life; resume-heartbeat lets it "
            "go on."
        )

    def _resume_heartbeat(self, name: str) -> str:
        with self._store.read() as db:
            ranks = self._running(db, name)[1]
        for rank in ranks:
            _signal(rank, signal.SIGCONT)
        return f"The ranks of job {name!r} go on."

    def _fill_quota(self, name: str) -> str:
        """Have somebody else hold all that is free of a cluster, given by its own name or that of a job on it."""
        with self._store.write() as db:
            cluster = self._cluster(db, name)
            line = nodes.Line.read(db, cluster)
            if not line.free:
                raise Conflict(f"No node of cluster {cluster!r} is free.", "Its quota is as full as it can be.")
            db.executemany(
                "INSERT INTO node (cluster, node, since, state) VALUES (?, ?, 0, 'blocked') "
                "ON CONFLICT DO UPDATE SET state = 'blocked', freed = NULL",
                [(cluster, node) for node in line.free],
            )
        return f"The quota is full: {nodes.many(len(line.free))} of cluster {cluster!r} cannot be had until free-quota."

    def _free_quota(self, name: str) -> str:
        with self._store.write() as db:
            cluster = self._cluster(db, name)
            count = db.execute("DELETE FROM node WHERE cluster = ? AND state = 'blocked'", (cluster,)).rowcount
            waiting = nodes.next_in_line(db, cluster)
        if not count:
            raise Conflict(f"The quota of cluster {cluster!r} is not full.", "fill-quota fills it.")
        processes.wake(*waiting)
        return f"The quota is free again: {nodes.many(count)} of cluster {cluster!r} can be had."

    def _running(self, db: sqlite3.Connection, name: str) -> tuple[sqlite3.Row, Sequence[sqlite3.Row]]:
        """A job whose ranks run, and those ranks."""
        row = db.execute("SELECT * FROM job WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise NotFound(f"There is no job {name!r} on this machine.", "The list of jobs has the names.")
        ranks = db.execute("SELECT * FROM rank WHERE job = ? AND exit_code IS NULL ORDER BY rank", (name,)).fetchall()
        ranks = [rank for rank in ranks if processes.alive(rank["pid"], rank["started"])]
        if row["ended"] is not None or not ranks:
            raise Conflict(
                f"Job {name!r} is {row['status']}: none of its ranks runs.",
                "Rehearse on a job that is Running; of a sweep or pipeline take a child.",
            )
        return row, ranks

    def _cluster(self, db: sqlite3.Connection, name: str) -> str:
        row = db.execute("SELECT compute FROM job WHERE name = ?", (name,)).fetchone()
        return str(nodes.find(db, row["compute"] if row else name)["name"])


def _signal(rank: sqlite3.Row, number: signal.Signals) -> None:
    """Signal a rank's process group, if it is still that rank's."""
    if processes.alive(rank["pid"], rank["started"]):
        try:
            os.killpg(rank["pid"], number)
        except ProcessLookupError:
            return  # it ended in between
