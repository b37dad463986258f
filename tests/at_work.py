"""Homes, job files and waiting, for the tests that run real jobs on this machine."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from tests import metrics_template

from footplate.jobfile import JobFile
from footplate.jobfile.document import parse
from footplate.local import processes
from footplate.local.store import Store
from footplate.workspace import Conflict, Job, JobFilter, Workspace
from footplate.workspace.open import open_workspace

DEADLINE_SECONDS = 60.0

WAIT = "while true; do sleep 0.1; done"
"""A command that goes on until it is ended."""

PIDS_OF_A_FAMILY = """
(while true; do sleep 0.1; done) &
echo $! > outputs/grandchild-$RANK.pid.new; mv outputs/grandchild-$RANK.pid.new outputs/grandchild-$RANK.pid
echo $$ > outputs/rank-$RANK.pid.new; mv outputs/rank-$RANK.pid.new outputs/rank-$RANK.pid
while true; do sleep 0.1; done
"""
"""A command whose every rank has a child; both write their pids into the outputs and go on until they are ended."""


def until(condition: Callable[[], object], deadline_seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until the condition holds; fail where it does not within the deadline."""
    end = time.monotonic() + deadline_seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come to hold"
        time.sleep(0.02)


async def until_job(
    workspace: Workspace, name: str, condition: Callable[[Job], object], deadline_seconds: float = DEADLINE_SECONDS
) -> Job:
    """Wait until the condition holds for a job, and return it."""
    end = time.monotonic() + deadline_seconds
    while not condition(job := await workspace.job(name)):
        assert time.monotonic() < end, f"the condition did not come to hold; the job is {job}"
        await asyncio.sleep(0.02)
    return job


async def ended(workspace: Workspace, name: str) -> Job:
    """Wait for a job's end, and return it."""
    return await until_job(workspace, name, lambda job: not job.active)


async def log(workspace: Workspace, name: str, path: str = "user_logs/std_log.txt") -> str:
    """A whole log as text."""
    return (await workspace.read_log(name, path, 0, 1_000_000)).data.decode()


async def all_jobs(workspace: Workspace, matching: JobFilter | None = None) -> list[Job]:
    """All jobs that match."""
    return [job async for page in workspace.jobs(matching or JobFilter()) for job in page]


def job_file(folder: Path, command: str, more: str = "") -> JobFile:
    """A job file in a folder, whose command is taken word by word."""
    lines = "\n".join(f"  {line}" for line in command.strip().splitlines())
    return parse(f"command: |\n{lines}\nenvironment: azureml:any@latest\n{more}", folder / "small.yml", folder)


def ranks(count: int) -> str:
    """The lines of a job file for so many ranks on one node."""
    return f"distribution: {{type: pytorch, process_count_per_instance: {count}}}\n"


@pytest.fixture(scope="session")
def metrics_store() -> Path:
    """An MLflow store, made once: it takes seconds."""
    made = metrics_template.template()
    if made is None:
        pytest.skip("mlflow is not installed: no metrics' store")
    return made


@pytest.fixture
def home(tmp_path: Path, metrics_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new home with a metrics' store; `FOOTPLATE_HOME` names it."""
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copy(metrics_store, folder / "mlflow.db")
    monkeypatch.setenv("FOOTPLATE_HOME", str(folder))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "no-settings.toml"))
    monkeypatch.setenv("FOOTPLATE_LOCAL_PYTHON", sys.executable)
    return folder


@pytest.fixture
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster `local` of workspaces opened from now on has one node, for which jobs wait."""
    monkeypatch.setenv("FOOTPLATE_LOCAL_NODES", "1")


@pytest.fixture
async def workspace(home: Path) -> AsyncIterator[Workspace]:
    """The local workspace in a new home; jobs that still go on at the end are cancelled."""
    opened = open_workspace("local")
    yield opened
    going_on = [job.name for job in await all_jobs(opened) if job.active]
    for name in going_on:
        with suppress(Conflict):  # it may end in between
            await opened.cancel(name)
    for name in going_on:
        await ended(opened, name)
    await opened.close()


def family(home: Path, job: str, count: int) -> list[int]:
    """Wait for the ranks of PIDS_OF_A_FAMILY to have written their pids, and return all of them."""
    outputs = home / "jobs" / job / "outputs"
    names = [outputs / f"{kind}-{rank}.pid" for kind in ("rank", "grandchild") for rank in range(count)]
    until(lambda: all(name.exists() for name in names))
    return [int(name.read_text()) for name in names]


def gone(pids: list[int]) -> bool:
    """Whether none of the processes runs any more; a zombie does not run."""
    return all(processes.start_time(pid) is None for pid in pids)


def supervisor_pid(home: Path, job: str) -> int:
    """The pid of a job's supervisor, from the store, without setting anything right."""
    with Store(home).read() as db:
        return int(db.execute("SELECT supervisor_pid FROM job WHERE name = ?", (job,)).fetchone()[0])


def run_statuses(home: Path) -> dict[str, str]:
    """MLflow's own statuses by run."""
    with closing(sqlite3.connect(home / "mlflow.db")) as db:
        return dict(db.execute("SELECT run_uuid, status FROM runs").fetchall())


def children_of(pid: int) -> list[int]:
    """The pids of a process's children."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def damage_metrics_store(home: Path, damage: str) -> None:
    """Do to MLflow's store what a user's script could."""
    file = home / "mlflow.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        if damage == "tables":
            db.execute("DROP TABLE latest_metrics")
            db.execute("DROP TABLE metrics")
        if damage == "version":
            db.execute("DELETE FROM alembic_version")
        if damage == "values":
            run = db.execute("SELECT run_uuid FROM runs ORDER BY start_time DESC").fetchone()[0]
            for table in ("metrics", "latest_metrics"):
                db.execute(
                    f'INSERT INTO {table} ("key", value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, 0, ?)',
                    ("val_acc", "high", "today", "first", run),
                )
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if damage in ("text", "empty"):
        file.write_text("birds\n" * 1000 if damage == "text" else "")
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:100_000])
    if damage == "folder":
        file.unlink()
        file.mkdir()
