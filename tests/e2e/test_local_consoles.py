"""A store that an older footplate left while its jobs ran, and two consoles that submit at once: nothing lost, nothing twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.at_work import all_jobs, ended, job_file, supervisor_pid, until, until_job

from footplate.local import processes
from footplate.local.store import _SCHEMAS, SCHEMA_VERSION, Store, now
from footplate.workspace import ClusterSpec
from footplate.workspace.open import open_workspace

SUBMIT = """
import asyncio, sys
from pathlib import Path
from footplate.jobfile.document import parse
from footplate.workspace.open import open_workspace

async def main(name):
    workspace = open_workspace("local")
    for number in range(5):
        file = parse("command: sleep 0.2; echo x >> outputs/ran\\nenvironment: azureml:e:1\\ncompute: birds\\n", None, Path("/"))
        await workspace.submit(file, f"{name}-{number}")

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def old_supervisor() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for the supervisor of a job that the older footplate started."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def old_store(home, supervisor):
    """A store of version 1: one job runs, one lost its supervisor, one has ended."""
    home.mkdir(exist_ok=True)
    with closing(sqlite3.connect(home / "footplate.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in _SCHEMAS[0].split(";\n"):
            db.execute(statement)
        started = processes.start_time(supervisor.pid)
        rows = [
            ("runs", "Running", None, supervisor.pid, started),
            ("lost", "Running", None, supervisor.pid, started - 1),  # its pid is somebody else's now
            ("done", "Completed", now(), 1, 1.0),
        ]
        for name, status, end, pid, began in rows:
            (home / "jobs" / name).mkdir(parents=True)
            db.execute(
                "INSERT INTO job (name, display_name, type, status, experiment, compute, created, started, ended, nodes, "
                "ranks_per_node, command, plan, supervisor_pid, supervisor_started) "
                "VALUES (?, ?, 'command', ?, 'x', 'local', ?, ?, ?, 1, 1, 'true', '{}', ?, ?)",
                (name, name, status, now(), now(), end, pid, began),
            )
        db.execute("INSERT INTO slot VALUES ('local', 0, 'runs')")
        db.execute("INSERT INTO slot VALUES ('local', 1, 'lost')")
        db.execute("PRAGMA user_version = 1")


async def test_a_store_of_the_last_version_comes_along_with_the_jobs_that_run(home, tmp_path, old_supervisor):
    old_store(home, old_supervisor)
    workspace = open_workspace("local")
    with closing(sqlite3.connect(home / "footplate.db.v1")) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (1,)
        assert kept.execute("SELECT count(*) FROM job WHERE status = 'Running'").fetchone() == (2,)
    with Store(home).read() as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    statuses = {job.name: job.status for job in await all_jobs(workspace)}
    assert statuses == {"runs": "Running", "lost": "Failed", "done": "Completed"}
    (local,) = await workspace.clusters()
    assert (local.busy_nodes, local.max_nodes) == (1, 4)
    first = (await workspace.nodes("local"))[0]
    assert (first.job, first.state) == ("runs", "running")
    await workspace.submit(job_file(tmp_path, "true"), "new")
    assert (await ended(workspace, "new")).status == "Completed"
    with Store(home).write() as db:  # how the older supervisor, which still runs, writes its end down
        db.execute(
            "UPDATE job SET status = 'Completed', error = NULL, note = '', ended = ? WHERE name = 'runs'", (now(),)
        )
        db.execute("DELETE FROM slot WHERE job = 'runs'")
    assert (await workspace.job("runs")).status == "Completed"
    assert (await workspace.cluster("local")).busy_nodes == 0
    await workspace.close()


def console(name: str) -> subprocess.Popen[bytes]:
    """A process that submits five jobs."""
    return subprocess.Popen([sys.executable, "-c", SUBMIT, name])


async def test_two_consoles_submit_at_once_and_every_job_runs_once(workspace, home):
    await workspace.create_cluster(ClusterSpec("birds", "cores-1", 0, 2, 60))
    consoles = [console(name) for name in ("a", "b")]
    most = 0

    def all_done() -> bool:
        nonlocal most
        with Store(home).read() as db:
            most = max(most, db.execute("SELECT count(*) FROM slot").fetchone()[0])
            return db.execute("SELECT count(*) FROM job WHERE ended IS NOT NULL").fetchone()[0] == 10

    until(all_done)
    assert [one.wait() for one in consoles] == [0, 0]
    jobs = await all_jobs(workspace)
    assert {job.status for job in jobs} == {"Completed"}
    assert len(jobs) == 10
    assert most == 2
    for job in jobs:
        assert (home / "jobs" / job.name / "outputs" / "ran").read_text() == "x\n"
    # In the order they came: nobody starts before somebody has made room who came before those ahead.
    ordered = sorted(jobs, key=lambda job: job.created)
    for place, job in enumerate(ordered[2:], start=2):
        assert sum(other.ended <= job.started for other in ordered[:place]) >= place - 1


async def test_a_supervisor_killed_while_it_prepares_leaves_no_node_held(workspace, home, tmp_path):
    more = "inputs: {d: {type: uri_folder, path: 'azureml:birds@latest'}}\n"
    await workspace.submit(job_file(tmp_path, "true ${{inputs.d}}", more), "doomed")
    await until_job(workspace, "doomed", lambda job: job.note.startswith("drawing"))
    os.kill(supervisor_pid(home, "doomed"), signal.SIGKILL)
    job = await ended(workspace, "doomed")
    assert (job.status, job.started) == ("Failed", None)
    assert (await workspace.cluster("local")).busy_nodes == 0
