"""Jobs whose supervisor is gone: every reader sets them right before it reads."""

from __future__ import annotations

import sqlite3

from footplate.local import groups, processes
from footplate.local.metrics import Metrics, NoMlflow
from footplate.local.store import Store, now
from footplate.workspace import Unexpected


def reconcile(store: Store, metrics: Metrics) -> None:
    """Find active jobs whose supervisor has ended, kill what is left of them, and record their end.

    A supervisor is known by pid and start time. One transaction, so that two readers do it once.
    """
    with store.read() as db:
        if not _orphans(db):
            return
    with store.write() as db:
        orphans = _orphans(db)
        for job in orphans:
            ranks = db.execute("SELECT pid, started FROM rank WHERE job = ?", (job["name"],))
            mark = groups.mark(job["supervisor_pid"], job["supervisor_started"])
            groups.kill_leftovers([groups.Group(pid, started) for pid, started in ranks], mark)
            if job["cancel_requested"]:
                status, error = "Canceled", None
            else:
                status = "Failed"
                error = (
                    f"its supervisor (pid {job['supervisor_pid']}) ended unexpectedly, killed or with the machine; "
                    "system_logs/supervisor.log has its last words"
                )
            db.execute(
                "UPDATE job SET status = ?, error = ?, note = '', ended = ? WHERE name = ?",
                (status, error, now(), job["name"]),
            )
            db.execute("DELETE FROM slot WHERE job = ?", (job["name"],))
    for job in orphans:
        if job["mlflow_run_id"]:
            _finish_run(metrics, job["mlflow_run_id"], "Canceled" if job["cancel_requested"] else "Failed")


def _orphans(db: sqlite3.Connection) -> list[sqlite3.Row]:
    rows = db.execute(
        "SELECT name, supervisor_pid, supervisor_started, cancel_requested, mlflow_run_id FROM job WHERE ended IS NULL"
    )
    return [row for row in rows if not processes.alive(row["supervisor_pid"], row["supervisor_started"])]


def _finish_run(metrics: Metrics, run_id: str, status: str) -> None:
    try:
        metrics.finish(run_id, status)
    except (Unexpected, NoMlflow):
        # The job's own record is right already and is what everything here shows; only `mlflow ui` would differ.
        return
