"""Jobs whose supervisor is gone: every reader sets them right before it reads."""

from __future__ import annotations

import json
import platform
import sqlite3

from footplate.local import groups, processes, records
from footplate.local.metrics import Metrics, NoMlflow
from footplate.local.store import Store, now
from footplate.workspace import WorkspaceError

PARENTS = ("sweep", "pipeline")
"""Jobs whose own process runs nothing itself: where it is gone, another goes on in its place."""

MOST_RESTARTS = 20
"""A process that ends again and again, killed for want of memory say, is not started for ever."""


def reconcile(store: Store, metrics: Metrics) -> None:
    """Find active jobs whose supervisor has ended: kill what is left of them and record their end.

    A sweep or pipeline gets a new supervisor instead, which goes on. A supervisor is known by pid and start time. One
    transaction, so that two readers do it once.
    """
    with store.read() as db:
        if not _orphans(db):
            return
    with store.write() as db:
        ended = [(job, status) for job in _orphans(db) if (status := _set_right(db, store, job))]
    for job, status in ended:
        if job["mlflow_run_id"]:
            _finish_run(metrics, job, status)


def _orphans(db: sqlite3.Connection) -> list[sqlite3.Row]:
    rows = db.execute(
        "SELECT name, type, supervisor_pid, supervisor_started, cancel_requested, mlflow_run_id, work, parameters "
        "FROM job WHERE ended IS NULL AND host IN ('', ?)",
        (platform.node(),),  # whether another machine's live can be seen only there
    )
    return [row for row in rows if not processes.alive(row["supervisor_pid"], row["supervisor_started"])]


def _set_right(db: sqlite3.Connection, store: Store, job: sqlite3.Row) -> str:
    """Go on with an orphan, or end it; gives the status with which it ended."""
    work = records.mapping(job["work"])
    restarts = int(work.get("restarts", 0))
    if job["type"] in PARENTS and restarts < MOST_RESTARTS:
        from footplate.local import supervisors  # seldom needed, and lists are quick

        try:
            supervisors.start(db, store, job["name"])
        except OSError as error:
            return end(db, job, f"its supervisor ended unexpectedly, and no other could be started: {error}")
        work = {**work, "restarts": restarts + 1}
        db.execute("UPDATE job SET work = ? WHERE name = ?", (json.dumps(work), job["name"]))
        return ""
    ranks = db.execute("SELECT pid, started FROM rank WHERE job = ?", (job["name"],))
    mark = groups.mark(job["supervisor_pid"], job["supervisor_started"])
    groups.kill_leftovers([groups.Group(pid, started) for pid, started in ranks], mark)
    return end(
        db,
        job,
        f"its supervisor (pid {job['supervisor_pid']}) ended unexpectedly, killed or with the machine; "
        "system_logs/supervisor.log has its last words",
    )


def end(db: sqlite3.Connection, job: sqlite3.Row, error: str) -> str:
    """End a job whose supervisor is gone, within a transaction; gives the status: Canceled where that was asked, else Failed."""
    status = "Canceled" if job["cancel_requested"] else "Failed"
    db.execute(
        "UPDATE job SET status = ?, error = ?, ended = ? WHERE name = ?",
        (status, None if status == "Canceled" else error, now(), job["name"]),
    )
    db.execute(records.KEEP_NOTE, (job["name"],))
    db.execute("DELETE FROM slot WHERE job = ?", (job["name"],))
    if job["type"] in PARENTS:  # nobody is left to look after them
        db.execute(
            "UPDATE job SET cancel_requested = 1, status = 'CancelRequested', note = '' WHERE parent = ? AND ended IS NULL",
            (job["name"],),
        )
    return status


def _finish_run(metrics: Metrics, job: sqlite3.Row, status: str) -> None:
    try:
        metrics.finish(job["mlflow_run_id"], status, records.parameter_texts(job["parameters"]))
    except (WorkspaceError, NoMlflow):
        # The job's own record is right already and is what everything here shows; only `mlflow ui` would differ.
        return
