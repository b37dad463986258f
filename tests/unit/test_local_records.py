"""Jobs of this machine and their folders while others act on the same ones: deleted, deleted again, waited behind."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from footplate.jobfile import Plan
from footplate.local import nodes, packages, processes
from footplate.local.command_job import CommandJob
from footplate.local.data import DataAssets
from footplate.local.environment import Setting
from footplate.local.guard import Guard
from footplate.local.jobs import Jobs
from footplate.local.launcher import Launcher
from footplate.local.metrics import Metrics
from footplate.local.reconcile import reconcile
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace import Invalid


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "home")
    made.prepare()
    nodes.keep_local(made, Settings())
    return made


@pytest.fixture
def jobs(store: Store) -> Jobs:
    return Jobs(store, Settings(), DataAssets(store))


def put(store: Store, name: str, ended: float | None) -> Path:
    """A job's record, looked after by this process, and its folder with one log."""
    columns = "name, display_name, type, status, experiment, compute, created, nodes, ranks_per_node, command, plan"
    row = (name, name, "command", "Completed" if ended else "Queued", "e", "local", 0, 1, 1, "", "{}")
    me = os.getpid(), processes.start_time(os.getpid())
    with store.write() as db:
        db.execute(
            f"INSERT INTO job ({columns}, ended, supervisor_pid, supervisor_started) VALUES ({', '.join('?' * 14)})",
            (*row, ended, *me),
        )
    folder = store.home / "jobs" / name
    (folder / "user_logs").mkdir(parents=True)
    (folder / "user_logs" / "std_log.txt").write_text("kept\n")
    return folder


def test_a_second_deletion_leaves_a_new_job_of_the_name_alone(store, jobs, monkeypatch):
    put(store, "birds", ended=1.0)
    old = jobs._row("birds")
    jobs.delete("birds")
    folder = put(store, "birds", ended=None)
    monkeypatch.setattr(jobs, "_row", lambda name: old)  # what the other console read before
    jobs.delete("birds")
    assert (folder / "user_logs" / "std_log.txt").read_text() == "kept\n"


def test_a_deletion_that_cannot_be_written_down_takes_no_files(store, jobs):
    folder = put(store, "birds", ended=1.0)
    with store.write() as db:
        db.execute("CREATE TABLE holder (job TEXT REFERENCES job (name) DEFERRABLE INITIALLY DEFERRED)")
        db.execute("INSERT INTO holder VALUES ('birds')")
    with pytest.raises(sqlite3.IntegrityError):  # at the commit
        jobs.delete("birds")
    assert jobs.job("birds").name == "birds"
    assert (folder / "user_logs" / "std_log.txt").read_text() == "kept\n"


def test_a_job_in_line_goes_on_where_the_one_ahead_of_it_was_deleted(store, monkeypatch):
    monkeypatch.setattr("footplate.local.groups.adopt_orphans", lambda: None)  # of the tests' own process
    put(store, "waits", ended=None)
    waiting = CommandJob(store.home, "waits", lambda: False, lambda _: None)
    with store.read() as db:
        waiting._row = db.execute("SELECT * FROM job WHERE name = 'waits'").fetchone()
        cluster = nodes.find(db, nodes.LOCAL)
    waiting._metrics = Jobs(store, Settings(), DataAssets(store))._metrics
    line = nodes.Line(cluster, (), (), 0, ("gone", "waits"), {"gone": 1, "waits": 1})
    assert waiting._see_to_those_ahead(line) > 0


def test_what_is_said_of_a_file_whose_name_is_not_utf8_is_recorded(store, jobs, monkeypatch):
    monkeypatch.setattr("footplate.local.groups.adopt_orphans", lambda: None)
    put(store, "birds", ended=None)
    CommandJob(store.home, "birds", lambda: False, lambda _: None)._set_status("Preparing", "copying v\udcf6gel")
    assert (jobs.job("birds").status, jobs.job("birds").note) == ("Preparing", "copying v?gel")


def test_outputs_that_the_code_brings_along_do_not_replace_what_a_preempted_run_wrote(tmp_path):
    (tmp_path / "code" / "outputs").mkdir(parents=True)
    (tmp_path / "code" / "outputs" / "checkpoint").write_text("epoch 0")
    for name in ("outputs", "logs"):
        (tmp_path / name).mkdir()
    with Guard() as guard:
        launcher = Launcher(tmp_path, Plan("true", 1, 1, ""), Setting("birds", "e", sys.executable), guard)
        launcher.make_node_folders()
        (tmp_path / "node-0" / "outputs" / "checkpoint").write_text("epoch 7")
        shutil.rmtree(tmp_path / "node-0")
        launcher.make_node_folders()
    assert (tmp_path / "node-0" / "outputs" / "checkpoint").read_text() == "epoch 7"


def test_a_run_whose_end_cannot_be_written_ends_no_list(store, jobs):
    put(store, "birds", ended=None)
    with store.write() as db:
        db.execute("UPDATE job SET supervisor_started = 1, mlflow_run_id = 'r' WHERE name = 'birds'")
    with closing(sqlite3.connect(store.home / "mlflow.db")) as db, db:
        db.execute("CREATE TABLE alembic_version (version_num)")
        db.execute("INSERT INTO alembic_version VALUES ('of another MLflow')")

    def none() -> str:
        raise Invalid("The Python that is to run jobs is not there.")

    reconcile(store, Metrics(store.home, none))
    assert jobs.job("birds").status == "Failed"


@pytest.mark.parametrize(
    ("says", "lacking"),
    [
        ("print('a warning')\nprint('[\"torch\"]')", ["no-such-package"]),
        ("raise SystemExit('broken')", []),
        ("print('[]')", ["torch", "no-such-package"]),
    ],
)
def test_only_what_a_python_says_itself_is_told_as_missing(tmp_path, says, lacking):
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{says}\n")
    python.chmod(0o755)
    assert packages.missing(str(python), ["torch", "no-such-package"], lambda: False) == lacking
