"""MLflow's store on this machine: made once, read by SQL, and by MLflow's own client where the schema is unknown."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from tests.at_work import job_file, log, ranks, until_job

from footplate.local.metrics import Metrics
from footplate.workspace import NotFound, Unexpected
from footplate.workspace.open import open_workspace


def log_with_mlflow(metrics: Metrics, run_id: str, script: str) -> None:
    """Run a script as a job's rank would be: attached to the run by its environment."""
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": metrics.uri,
        "MLFLOW_RUN_ID": run_id,
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    subprocess.run([sys.executable, "-c", f"import mlflow\n{script}"], env=environment, check=True)


def run_row(metrics: Metrics, run_id: str) -> sqlite3.Row:
    with closing(sqlite3.connect(metrics.file)) as db:
        db.row_factory = sqlite3.Row
        row: sqlite3.Row = db.execute(
            "SELECT runs.*, experiments.name AS experiment FROM runs JOIN experiments USING (experiment_id) WHERE run_uuid = ?",
            (run_id,),
        ).fetchone()
        return row


@pytest.fixture
def metrics(tmp_path, metrics_store):
    shutil.copy(metrics_store, tmp_path / "mlflow.db")
    return Metrics(tmp_path, lambda: sys.executable)


def test_jobs_that_come_first_at_once_make_one_store(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    script = (
        "import sys; from pathlib import Path; from footplate.local.metrics import Metrics;"
        "print(Metrics(Path(sys.argv[1]), lambda: sys.executable).create_run('aviary', sys.argv[2], {}).run_id)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], stdout=subprocess.PIPE)
        for name in ("a", "b", "c")
    ]
    runs = [process.communicate()[0].decode().strip() for process in started]
    metrics = Metrics(tmp_path, lambda: sys.executable)
    assert [run_row(metrics, run)["name"] for run in runs] == ["a", "b", "c"]
    assert {run_row(metrics, run)["experiment"] for run in runs} == {"aviary"}
    with closing(sqlite3.connect(metrics.file)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["mlflow.db"]


async def test_the_first_job_says_that_it_makes_the_store(workspace, home, tmp_path):
    (home / "mlflow.db").unlink()
    python = tmp_path / "python"  # one that takes its time, as mlflow's import does on a busy machine
    python.write_text(f'#!/bin/sh\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.05; done\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOOTPLATE_LOCAL_PYTHON", str(python))
        other = open_workspace("local")
        await other.submit(job_file(tmp_path, "echo done"), "first")
        await other.close()
    job = await until_job(workspace, "first", lambda job: job.status == "Preparing" and job.note)
    assert job.note == "making the workspace's metrics store, once"
    (tmp_path / "go").touch()
    job = await until_job(workspace, "first", lambda job: not job.active)
    assert (job.status, job.note) == ("Completed", "")
    assert await log(workspace, "first") == "done\n"


async def test_what_each_rank_uses_is_sampled_beside_it(workspace, home, tmp_path):
    pytest.importorskip("psutil", reason="psutil is not installed: nothing is sampled")
    busy = 'if [ "$RANK" = 0 ]; then while true; do :; done; else setsid sleep 600; fi'
    await workspace.submit(job_file(tmp_path, busy, ranks(2)), "busy")
    end = time.monotonic() + 60
    while not (cpu := (await workspace.usage("busy")).series.get("cpu_percent/rank 0")):
        assert time.monotonic() < end
        await asyncio.sleep(0.1)
    series = (await workspace.usage("busy")).series
    assert cpu[-1].value > 10, "it computes all the time"
    assert series["cpu_percent/rank 1"][-1].value < cpu[-1].value / 2, "it sleeps"
    assert series["memory_gb/rank 0"][-1].value > 0.001
    assert series["memory_gb/rank 1"][-1].value > 0.001
    assert {"machine_cpu_percent", "machine_memory_percent", "disk_write_mb_per_second"} <= set(series)
    assert abs(cpu[-1].time.timestamp() - time.time()) < 60
    assert await workspace.usage("busy") is await workspace.usage("busy"), "an unchanged file is read once"
    await workspace.cancel("busy")
    await until_job(workspace, "busy", lambda job: not job.active)
    with pytest.raises(NotFound):
        await workspace.usage("nobody")


def test_a_look_reads_what_is_new_of_a_run_and_keeps_the_rest(metrics):
    run = metrics.create_run("aviary", "wren", {})

    def insert(*rows: tuple[str, float, int]) -> None:
        with closing(sqlite3.connect(metrics.file)) as db, db:
            for key, value, step in rows:
                db.execute(
                    'INSERT INTO metrics ("key", value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, 0, ?)',
                    (key, value, step * 1000, step, run.run_id),
                )

    insert(("loss", 3.0, 1), ("loss", 2.0, 2), ("acc", 0.5, 1))
    first = metrics.read(run.run_id)
    assert metrics.read(run.run_id)["loss"] is first["loss"], "nothing is new"
    insert(("loss", 1.0, 3), ("loss", 4.0, 0))
    second = metrics.read(run.run_id)
    assert second["acc"] is first["acc"]
    assert [(point.step, point.value) for point in second["loss"]] == [(0, 4.0), (1, 3.0), (2, 2.0), (3, 1.0)]
    assert len(first["loss"]) == 2, "what was handed out stays as it is"
    shutil.copy(metrics.file, new := metrics.file.with_name("new.db"))
    with closing(sqlite3.connect(new)) as db, db:
        db.execute("DELETE FROM metrics WHERE step > 0")
    new.replace(metrics.file)
    assert {name: len(points) for name, points in metrics.read(run.run_id).items()} == {"loss": 1}, "another store"


def test_a_script_finds_its_run_with_name_and_tags_and_may_start_it(metrics):
    run = metrics.create_run("aviary", "wren", {"mlflow.source.name": "wren-1"})
    log_with_mlflow(
        metrics,
        run.run_id,
        "with mlflow.start_run() as run:\n"
        "    assert run.data.tags['mlflow.source.name'] == 'wren-1'\n"
        "    assert run.info.run_name == 'wren'\n"
        f"    assert run.info.run_id == '{run.run_id}'\n"
        "    mlflow.log_metric('loss', 1.5, step=3)\n"
        "    mlflow.log_text('hello', 'note.txt')\n",
    )
    assert [(point.step, point.value) for point in metrics.read(run.run_id)["loss"]] == [(3, 1.5)]
    assert [path.read_text() for path in metrics.file.parent.rglob("note.txt")] == ["hello"]
    metrics.finish(run.run_id, "Failed")
    assert run_row(metrics, run.run_id)["status"] == "FAILED"


def test_values_that_are_no_numbers_come_back_as_they_were_logged(metrics):
    run = metrics.create_run("aviary", "wren", {})
    log_with_mlflow(
        metrics, run.run_id, "mlflow.log_metrics({'n': float('nan'), 'up': float('inf'), 'down': -float('inf')})"
    )
    values = {name: points[0].value for name, points in metrics.read(run.run_id).items()}
    assert math.isnan(values["n"])
    assert (values["up"], values["down"]) == (math.inf, -math.inf)


def test_a_list_shows_the_best_metric_to_show(metrics):
    logged = {
        "best": {"a": 1, "val_acc": 0.5, "best_val_acc": 0.75},
        "val": {"a": 1, "val_acc": 0.5},
        "first": {"b": 2, "a": 1, "system/cpu": 9},
    }
    runs = {name: metrics.create_run("aviary", name, {}).run_id for name in (*logged, "none")}
    with closing(sqlite3.connect(metrics.file)) as db, db:
        for name, values in logged.items():
            for key, value in values.items():
                db.execute("INSERT INTO latest_metrics VALUES (?, ?, 0, 0, 0, ?)", (key, value, runs[name]))
    assert metrics.headlines(list(runs.values())) == {
        runs["best"]: ("best_val_acc", 0.75),
        runs["val"]: ("val_acc", 0.5),
        runs["first"]: ("a", 1.0),
    }
    assert metrics.headlines([]) == {}


def test_an_experiment_in_mlflows_bin_is_taken_out_for_a_new_job(metrics):
    first = metrics.create_run("aviary", "wren", {})
    with closing(sqlite3.connect(metrics.file)) as db, db:
        db.execute("UPDATE experiments SET lifecycle_stage = 'deleted' WHERE name = 'aviary'")
    second = metrics.create_run("aviary", "wren", {})
    assert second.experiment_id == first.experiment_id
    log_with_mlflow(metrics, second.run_id, "mlflow.log_metric('a', 1)")
    assert "a" in metrics.read(second.run_id)


@pytest.mark.long
def test_a_store_of_an_unknown_schema_is_left_to_mlflows_client(metrics):
    strange = Metrics(metrics.file.parent, lambda: sys.executable, known=frozenset())
    run = strange.create_run("aviary", "wren", {"mlflow.source.name": "wren-1"})
    log_with_mlflow(strange, run.run_id, "[mlflow.log_metric('a', v, step=s) for s, v in ((2, .2), (1, .1))]")
    assert strange.read(run.run_id) == metrics.read(run.run_id)
    assert [point.value for point in strange.read(run.run_id)["a"]] == [0.1, 0.2]
    assert strange.headlines([run.run_id]) == {}
    strange.finish(run.run_id, "Canceled")
    assert run_row(metrics, run.run_id)["status"] == "KILLED"
    strange.delete(run.run_id)
    assert run_row(metrics, run.run_id)["lifecycle_stage"] == "deleted"


def test_a_damaged_store_is_a_sentence(metrics):
    metrics.file.write_bytes(b"not a database" * 100)
    with pytest.raises(Unexpected, match="cannot be used"):
        metrics.read("x" * 32)


def test_a_python_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(Unexpected, match="could not be"):
        Metrics(tmp_path, lambda: "/not/there/python").create_run("aviary", "wren", {})
    assert not (tmp_path / "mlflow.db").exists()
