"""A home on a network file system, as the kernel's list of mounts tells it: a rollback journal, and all goes on as on a disk."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.at_work import WAIT, all_jobs, ended, job_file, supervisor_pid, until, until_job

from footplate import mounts
from footplate.jobfile.document import parse
from footplate.local import processes
from footplate.local.metrics import Metrics
from footplate.local.store import Store
from footplate.workspace import Conflict
from footplate.workspace.open import open_workspace

PIPELINE = """
type: pipeline
jobs:
  one: {command: 'touch ${{outputs.o}}/x', environment: 'azureml:e:1', outputs: {o: }}
  two: {command: 'test -e ${{inputs.d}}/x', environment: 'azureml:e:1', inputs: {d: '${{parent.jobs.one.outputs.o}}'}}
"""

SWEEP = (
    "type: sweep\ntrial: {command: 'sleep 600 # ${{search_space.x}}', environment: 'azureml:e:1'}\n"
    "search_space: {x: {type: choice, values: [1]}}\nsampling_algorithm: grid\n"
    "objective: {goal: maximize, primary_metric: acc}\nlimits: {max_total_trials: 1}\n"
)


@pytest.fixture
def nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path lies on NFS."""
    monkeypatch.setattr(mounts, "kind_of", lambda path: "nfs4")


def journal(file: Path) -> str:
    with closing(sqlite3.connect(file)) as db:
        return str(db.execute("PRAGMA journal_mode").fetchone()[0])


async def test_jobs_sweeps_and_two_consoles_work_without_a_write_ahead_log(nfs, home, tmp_path):
    consoles = [open_workspace("local") for _ in range(2)]
    workspace = consoles[0]
    assert journal(home / "footplate.db") == "delete"
    sweep = (
        "type: sweep\ntrial: {command: 'true # ${{search_space.x}}', environment: 'azureml:e:1'}\n"
        "search_space: {x: {type: choice, values: [1, 2]}}\nsampling_algorithm: grid\n"
        "objective: {goal: maximize, primary_metric: acc}\nlimits: {max_total_trials: 2, max_concurrent_trials: 2}\n"
    )
    await workspace.submit(parse(sweep, tmp_path / "sweep.yml", tmp_path), "s")
    await workspace.submit(parse(PIPELINE, tmp_path / "pipeline.yml", tmp_path), "p")
    await asyncio.gather(
        *(consoles[number % 2].submit(job_file(tmp_path, "true"), f"j{number}") for number in range(6))
    )
    for name in ("s", "p", *(f"j{number}" for number in range(6))):
        assert (await ended(workspace, name)).status == "Completed"
    assert len(await all_jobs(consoles[1])) == 8
    assert {job.status for job in await consoles[1].children("p")} == {"Completed"}
    assert journal(home / "footplate.db") == "delete"
    for console in consoles:
        await console.close()


async def test_another_machine_that_shares_the_home_leaves_this_ones_jobs_to_it(
    nfs, workspace, home, tmp_path, monkeypatch
):
    await workspace.submit(parse(SWEEP, tmp_path / "sweep.yml", tmp_path), "s")
    await workspace.submit(job_file(tmp_path, WAIT), "j")
    await until_job(workspace, "s", lambda job: "1 active" in job.note)
    await until_job(workspace, "j", lambda job: job.status == "Running")
    pids = {name: supervisor_pid(home, name) for name in ("s", "j")}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: processes.start_time(pid) is None)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("platform.node", lambda: "elsewhere")
        assert (await workspace.job("j")).status == "Running"  # its processes cannot be seen from there
        assert (await workspace.job("s")).status == "Running"
        assert supervisor_pid(home, "s") == pids["s"]
        assert (await workspace.cancel("j")).status == "CancelRequested"
    assert (await workspace.job("j")).status == "Canceled"
    assert (await workspace.job("s")).status == "Running"
    assert supervisor_pid(home, "s") != pids["s"]


async def test_a_home_that_moves_takes_the_journal_of_its_new_place_when_nobody_uses_it(home, tmp_path, monkeypatch):
    store = Store(home)
    store.prepare()
    assert journal(store.file) == "wal"
    monkeypatch.setattr(mounts, "kind_of", lambda path: "nfs4")
    with store.read() as db:
        db.execute("SELECT count(*) FROM job").fetchone()
        Store(home, busy_seconds=0.1).prepare()  # in use: it goes on as it is
    assert journal(store.file) == "wal"
    store.prepare()
    assert journal(store.file) == "delete"
    monkeypatch.undo()
    store.prepare()
    assert journal(store.file) == "wal"


def test_the_metrics_store_is_made_with_the_journal_of_its_place(nfs, tmp_path, monkeypatch):
    def made(self, act, arguments, stop=None, lock=None):
        with closing(sqlite3.connect(tmp_path / ".mlflow-new.db")) as db:
            db.execute("CREATE TABLE runs (x)")
        return {}

    monkeypatch.setattr(Metrics, "_mlflow", made)
    metrics = Metrics(tmp_path, lambda: "python")
    metrics._create_store(lambda: False)
    assert journal(metrics.file) == "delete"


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_what_the_kernel_calls_a_network_file_system_is_one(monkeypatch, tmp_path, kind):
    mount = f"30 22 0:25 / {tmp_path} rw - {kind} server:/home rw"
    assert mounts.file_system(tmp_path / "home", f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{mount}\n") in mounts.NETWORK


async def test_a_job_whose_machine_never_comes_back_is_not_said_to_run_and_can_be_ended(
    nfs, workspace, home, tmp_path, monkeypatch
):
    await workspace.submit(parse(SWEEP, tmp_path / "sweep.yml", tmp_path), "s")
    await until_job(workspace, "s", lambda job: "1 active" in job.note)
    await until_job(workspace, "s_0", lambda job: job.status == "Running")
    folders = [home / "jobs" / name for name in ("s", "s_0")]
    until((folders[0] / ".heartbeat").exists)
    with closing(sqlite3.connect(home / "footplate.db")) as db:  # the sweep's own process sees no network here
        db.execute("UPDATE job SET host = ? WHERE name = 's_0'", (platform.node(),))
        db.commit()
    (folders[1] / ".heartbeat").touch()
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    with pytest.raises(Conflict, match="not NotResponding"):
        await workspace.cancel("s", force=True)
    assert (await workspace.job("s")).status == "Running"
    with closing(sqlite3.connect(home / "footplate.db")) as db:
        pids = [pid for (pid,) in db.execute("SELECT supervisor_pid FROM job")]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: processes.start_time(pid) is None)
    for folder in folders:
        os.utime(folder / ".heartbeat", (1, (folder / ".heartbeat").stat().st_mtime - 600))
    for job in (await workspace.job("s"), (await all_jobs(workspace))[0], (await workspace.children("s"))[0]):
        assert job.status == "NotResponding"
        assert job.active
        assert "for 10m" in job.note
        assert f"footplate cancel {job.name} --force" in job.note
    ended_now = await workspace.cancel("s", force=True)
    assert (ended_now.status, "gave no sign of life" in ended_now.note) == ("Canceled", True)
    assert (await workspace.job("s_0")).status == "Canceled"
    assert (await workspace.cancel("s", force=True)).status == "Canceled"
    monkeypatch.undo()  # the machine comes back: nothing goes on
    assert {(await workspace.job(name)).status for name in ("s", "s_0")} == {"Canceled"}
