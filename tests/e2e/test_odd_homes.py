"""Homes whose paths hold what a URL would read as its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from footplate.local.metrics import Metrics


@pytest.mark.long
@pytest.mark.parametrize("name", ["h?x=1 %20", "h#a%zz"])
def test_mlflow_and_footplate_find_the_same_store_and_artifacts(tmp_path, name):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    home = tmp_path / name
    home.mkdir()
    metrics = Metrics(home, lambda: sys.executable)
    run = metrics.create_run("aviary", "wren", {})
    variables = {"MLFLOW_TRACKING_URI": metrics.uri, "MLFLOW_RUN_ID": run.run_id, "MLFLOW_DISABLE_TELEMETRY": "true"}
    script = "import mlflow; mlflow.log_metric('val_acc', .5, step=1); mlflow.log_text('hello', 'note.txt')"
    subprocess.run([sys.executable, "-c", script], env={**os.environ, **variables}, check=True, cwd=tmp_path)
    assert [point.value for point in metrics.read(run.run_id)["val_acc"]] == [0.5]
    assert metrics.headlines([run.run_id]) == {run.run_id: ("val_acc", 0.5)}
    assert [path.read_text() for path in home.rglob("note.txt")] == ["hello"]
    strange = Metrics(home, lambda: sys.executable, known=frozenset())
    assert [point.value for point in strange.read(run.run_id)["val_acc"]] == [0.5]
    assert [path.name for path in tmp_path.iterdir()] == [name]
