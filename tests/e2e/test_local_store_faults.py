"""A store that is out of order for a while: healthy jobs go on, and the exit code decides what is recorded."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.at_work import children_of, ended, gone, job_file, ranks, supervisor_pid, until, until_job

from footplate.local.store import Store

UNTIL_GO = "until test -e outputs/go; do sleep 0.05; done"


@contextmanager
def locked_store(home: Path, readable: bool) -> Iterator[None]:
    """Hold the store's write lock, or all of the store."""
    with closing(sqlite3.connect(home / "footplate.db", timeout=30, isolation_level=None)) as db:
        if not readable:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN IMMEDIATE")
        if not readable:
            db.execute("UPDATE job SET note = note")
        yield
        db.execute("ROLLBACK")


def supervisor_says(home: Path, job: str, words: str) -> bool:
    """Whether the supervisor's log has these words."""
    return words in (home / "jobs" / job / "system_logs" / "supervisor.log").read_text()


def exit_codes(home: Path) -> list[int | None]:
    """The recorded exit codes of all ranks."""
    with Store(home).read() as db:
        return [row[0] for row in db.execute("SELECT exit_code FROM rank ORDER BY rank")]


@pytest.mark.parametrize("readable", [True, False])
async def test_a_job_that_ends_while_the_store_is_locked_is_completed(workspace, home, tmp_path, readable):
    await workspace.submit(job_file(tmp_path, UNTIL_GO, ranks(2)), "healthy")
    await until_job(workspace, "healthy", lambda job: job.status == "Running")
    with locked_store(home, readable):
        (home / "jobs" / "healthy" / "outputs" / "go").touch()
        until(lambda: supervisor_says(home, "healthy", "Rank 1 ended with exit code 0"))
        until(lambda: supervisor_says(home, "healthy", "The job goes on; its record follows"))
        until(lambda: supervisor_says(home, "healthy", "Z Completed"))
    job = await ended(workspace, "healthy")
    assert (job.status, job.error) == ("Completed", None)
    assert exit_codes(home) == [0, 0]
    (cluster,) = await workspace.clusters()
    assert cluster.busy_nodes == 0


async def test_a_job_runs_on_while_the_store_can_be_neither_read_nor_written(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, UNTIL_GO), "patient")
    await until_job(workspace, "patient", lambda job: job.status == "Running")
    with locked_store(home, readable=False):
        until(lambda: supervisor_says(home, "patient", "The job goes on; its record follows"))
    assert (await workspace.job("patient")).status == "Running"
    (home / "jobs" / "patient" / "outputs" / "go").touch()
    assert (await ended(workspace, "patient")).status == "Completed"


async def test_a_failure_keeps_its_own_reason_while_the_store_is_locked(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, f"{UNTIL_GO}; echo no pictures; exit 3"), "failing")
    await until_job(workspace, "failing", lambda job: job.status == "Running")
    with locked_store(home, readable=True):
        (home / "jobs" / "failing" / "outputs" / "go").touch()
        until(lambda: supervisor_says(home, "failing", "Z Failed"))
    job = await ended(workspace, "failing")
    assert (job.status, job.error) == ("Failed", "no pictures (exit code 3)")
    assert exit_codes(home) == [3]


async def test_a_full_disk_at_the_end_of_a_job_only_delays_its_record(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, f"echo $$ > outputs/new; mv outputs/new outputs/pid; {UNTIL_GO}"), "full")
    await until_job(workspace, "full", lambda job: job.status == "Running")
    outputs = home / "jobs" / "full" / "outputs"
    until((outputs / "pid").exists)
    supervisor, rank = supervisor_pid(home, "full"), int((outputs / "pid").read_text())
    watchdog = next(pid for pid in children_of(supervisor) if pid != rank)
    limits = resource.prlimit(supervisor, resource.RLIMIT_FSIZE)
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (0, limits[1]))  # as on a full disk, no file can grow
    (outputs / "go").touch()
    until(lambda: gone([watchdog]))  # it goes after the rank's exit code should have been written
    assert exit_codes(home) == [None]
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, limits)
    job = await ended(workspace, "full")
    assert (job.status, job.error) == ("Completed", None)
    assert exit_codes(home) == [0]


async def test_a_job_that_comes_while_the_store_is_locked_starts_afterwards(one_node, workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, UNTIL_GO), "before")
    await until_job(workspace, "before", lambda job: job.status == "Running")
    await workspace.submit(job_file(tmp_path, "true"), "waiting")
    await until_job(workspace, "waiting", lambda job: job.note)
    with locked_store(home, readable=False):
        until(lambda: supervisor_says(home, "waiting", "The job goes on; its record follows"))
    (home / "jobs" / "before" / "outputs" / "go").touch()
    assert (await ended(workspace, "waiting")).status == "Completed"
