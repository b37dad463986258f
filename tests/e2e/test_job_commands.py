"""The commands on jobs that are there, run to their end: rerun, watch, archive, update, download, clean."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from tests.commands import Inside

from footplate.local.store import Store

JOB = """\
command: >-
  echo hello; echo x > outputs/a.txt; mkdir outputs/deep; echo yy > outputs/deep/b.txt; echo 1,2 > ${{outputs.table}}/t.csv
environment: azureml:env:1
experiment_name: tests
tags: {owner: me, kind: test}
outputs: {table: {type: uri_folder}}
"""


@pytest.fixture
def footplate(tmp_path: Path, metrics_store: Path) -> Inside:
    """The commands in a home of their own, with the file `job.yml`."""
    commands = Inside(tmp_path)
    commands.home.mkdir()
    shutil.copy(metrics_store, commands.home / "mlflow.db")
    (tmp_path / "job.yml").write_text(JOB)
    return commands


def test_a_past_job_is_launched_again_unchanged_or_with_changes(footplate):
    first = footplate.json("launch", "job.yml", "--name", "one", "--follow")
    again = footplate.json("rerun", "one", "--follow")
    assert again["name"] == "one-2"
    for key in ("display_name", "name", "created", "started", "ended", "duration_s"):
        first.pop(key)
        again.pop(key)
    assert again == first
    other = footplate.json("rerun", "one", "--name", "three", "--set", "tags.owner=you", "--follow")
    assert (other["name"], other["tags"]["owner"], other["status"]) == ("three", "you", "Completed")
    assert footplate("rerun", "nobody").returncode == 2
    refused = footplate("rerun", "one", "--set", "colour=red")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert [job["name"] for job in footplate.json("jobs")] == ["three", "one-2", "one"]


def test_watching_tells_each_status_and_value_once_and_ends_as_the_job_does(footplate, tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed: a job cannot log metrics")
    script = "import mlflow; [mlflow.log_metric('acc', v, step=s) for s, v in ((1, .5), (2, .75))]; raise SystemExit(3)"
    (tmp_path / "bad.yml").write_text(f'command: python -c "{script}"\nenvironment: azureml:env:1\n')
    footplate.json("launch", "bad.yml", "--name", "bad")
    done = footplate("watch", "bad")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("  ")] == ["  acc 0.500  step 1", "  acc 0.750  step 2"]
    assert "· Running" in lines
    assert lines[-1].startswith("bad is Failed")
    assert len(lines) == len(set(lines))
    found = footplate("watch", "bad", "--json")
    assert (found.returncode, json.loads(found.stdout)["status"]) == (1, "Failed")
    assert "acc 0.750" in found.stderr
    footplate.json("launch", "job.yml", "--name", "good")
    assert footplate.json("watch", "good")["status"] == "Completed"
    assert footplate("watch", "nobody").returncode == 2


def test_archived_jobs_are_hidden_and_restored_and_one_fault_keeps_no_other(footplate):
    for name in ("one", "two"):
        footplate.json("launch", "job.yml", "--name", name, "--follow")
    found = footplate.json("archive", "one", "nobody", "two", code=2)
    assert [("error" in one and bool(one["error"])) for one in found] == [False, True, False]
    assert footplate.json("jobs") == []
    assert [job["name"] for job in footplate.json("jobs", "--archived")] == ["two", "one"]
    assert footplate("restore", "one").stdout == "one is restored\n"
    assert [job["name"] for job in footplate.json("jobs")] == ["one"]


def test_tags_and_display_name_are_changed(footplate):
    footplate.json("launch", "job.yml", "--name", "one", "--follow")
    changed = footplate.json("update", "one", "--display-name", "the first", "--tag", "a=b=c", "--remove-tag", "kind")
    assert (changed["display_name"], changed["tags"]) == ("the first", {"owner": "me", "a": "b=c"})
    assert footplate.json("job", "one")["tags"] == changed["tags"]
    for wrong in ((), ("--tag", "nothing"), ("--tag", "=x"), ("--tag", "a=1", "--remove-tag", "a")):
        done = footplate("update", "one", *wrong)
        assert (done.returncode, done.stdout) == (2, ""), wrong
    assert footplate("update", "one", "--tag", "a=b", "--read-only").returncode == 4


def test_outputs_are_downloaded_each_into_its_folder(footplate, tmp_path):
    footplate.json("launch", "job.yml", "--name", "one", "--follow")
    found = footplate.json("download", "one")
    assert [(one["name"], one["files"]) for one in found["outputs"]] == [("default", 2), ("table", 1)]
    files = {path.relative_to(tmp_path / "one").as_posix() for path in (tmp_path / "one").rglob("*") if path.is_file()}
    assert files == {"default/a.txt", "default/deep/b.txt", "table/t.csv"}
    assert footplate("download", "one", "--output", "table", "--to", "there").returncode == 0
    assert (tmp_path / "there" / "table" / "t.csv").read_text() == "1,2\n"
    (tmp_path / "one" / "table" / "t.csv").write_text("something of mine")
    refused = footplate("download", "one", "--output", "table")
    assert refused.returncode == 1
    assert (tmp_path / "one" / "table" / "t.csv").read_text() == "something of mine"
    wrong = footplate("download", "one", "--output", "tabel")
    assert (wrong.returncode, "default, table" in wrong.stderr) == (2, True)
    (tmp_path / "file").write_text("")
    assert "a file is in its way" in footplate("download", "one", "--to", "file").stderr


def test_a_job_that_wrote_nothing_has_nothing_to_download(footplate, tmp_path):
    (tmp_path / "nothing.yml").write_text("command: 'true'\nenvironment: azureml:env:1\n")
    footplate.json("launch", "nothing.yml", "--name", "empty", "--follow")
    done = footplate("download", "empty")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "empty").exists()


def test_a_pipelines_logs_and_outputs_are_said_to_be_its_steps(footplate, tmp_path):
    step = "{command: 'echo step; echo x > outputs/x', environment: 'azureml:env:1'}"
    (tmp_path / "line.yml").write_text(f"type: pipeline\njobs:\n  only: {step}\n")
    done = footplate("launch", "line.yml", "--name", "line", "--follow")
    assert (done.returncode, "its command" in done.stderr) == (0, False)
    assert "line is Completed; it runs no command of its own" in done.stderr
    refused = footplate("download", "line")
    assert (refused.returncode, "footplate children line" in refused.stderr) == (2, True)
    (child,) = footplate.json("children", "line")
    assert footplate("logs", child["name"]).stdout == "step\n"
    assert footplate.json("download", child["name"])["outputs"][0]["files"] == 1


def test_a_job_that_is_no_parent_has_no_children_and_serves_nothing(footplate):
    footplate.json("launch", "job.yml", "--name", "one", "--follow")
    assert footplate.json("children", "one") == []
    assert footplate.json("services", "one") == []
    assert footplate("children", "one").stdout == "one has no trials or steps.\n"
    for command in ("children", "services"):
        assert footplate(command, "nobody").returncode == 2


def grow_old(home: Path, name: str, days: float) -> None:
    """Let a job have ended so many days ago."""
    with Store(home).write() as db:
        db.execute("UPDATE job SET ended = ? WHERE name = ?", (time.time() - days * 86400, name))


def test_no_model_is_deleted_by_a_bare_name(footplate):
    footplate.json("launch", "job.yml", "--name", "one", "--follow")
    for version in ("1", "2"):
        assert footplate.json("register", "one", "--model", "birds")["version"] == version
    done = footplate("model", "delete", "birds")
    assert (done.returncode, "'birds' names no version" in done.stderr) == (2, True)
    assert footplate.json("model", "delete", "birds@latest")["version"] == "2"
    assert [model["version"] for model in footplate.json("models")] == ["1"]
    refused = footplate("register", "one", "--model", "x" * 300)
    assert (refused.returncode, "255 at most" in refused.stderr) == (2, True)


def test_a_job_without_a_log_that_has_ended_is_not_told_to_have_none_yet(footplate):
    footplate.json("launch", "job.yml", "--name", "one", "--follow")
    shutil.rmtree(footplate.home / "jobs" / "one")
    assert footplate("logs", "one").stderr == "one is Completed and has written no log.\n"


def test_clean_frees_what_old_jobs_hold_and_says_how_much(footplate, tmp_path):
    (tmp_path / "big.yml").write_text(
        "command: 'head -c 1000000 /dev/zero > outputs/big; head -c 500000 /dev/zero > outputs/model'\n"
        "environment: azureml:env:1\n"
    )
    for name in ("old", "young"):
        footplate.json("launch", "big.yml", "--name", name, "--follow")
    grow_old(footplate.home, "old", 31)
    # A model that was registered without a copy shares the file: its bytes stay.
    os.link(footplate.home / "jobs" / "old" / "outputs" / "model", tmp_path / "kept")
    would = footplate.json("clean", "--dry-run")
    assert (would["removed"], [one["name"] for one in would["jobs"]]) == (False, ["old"])
    assert 1_000_000 <= would["bytes"] < 1_400_000
    asked = footplate("clean")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "Nobody can be asked here" in asked.stderr
    assert len(footplate.json("jobs")) == 2
    assert footplate("clean", "--yes", "--read-only").returncode == 4
    freed = footplate.json("clean", "--yes")
    assert (freed["removed"], freed["bytes"]) == (True, would["bytes"])
    assert [job["name"] for job in footplate.json("jobs")] == ["young"]
    assert not (footplate.home / "jobs" / "old").exists()
    assert (tmp_path / "kept").stat().st_size == 500_000
    assert "nothing to free" in footplate("clean", "--yes").stdout
    assert footplate("clean", "--older-than", "soon").returncode == 2
    assert footplate.json("clean", "--older-than", "0m", "--yes")["jobs"][0]["name"] == "young"


def test_clean_leaves_a_job_that_goes_on(footplate, tmp_path):
    (tmp_path / "long.yml").write_text("command: while true; do sleep 0.1; done\nenvironment: azureml:env:1\n")
    footplate.json("launch", "long.yml", "--name", "long")
    assert footplate.json("clean", "--older-than", "0m", "--yes")["jobs"] == []
    footplate("cancel", "long")
    assert footplate("watch", "long").returncode == 1


def test_a_followed_sweep_tells_its_decisions_and_its_trials_are_listed_and_cleaned_with_it(footplate, tmp_path):
    (tmp_path / "sweep.yml").write_text(
        "type: sweep\ntrial:\n  command: echo trial with ${{search_space.x}}; echo x > outputs/m.txt\n"
        "  environment: azureml:env:1\nsearch_space: {x: {type: choice, values: [1, 2]}}\nsampling_algorithm: grid\n"
        "objective: {goal: maximize, primary_metric: acc}\nlimits: {max_total_trials: 2, max_concurrent_trials: 2}\n"
    )
    done = footplate("launch", "sweep.yml", "--name", "search", "--follow")
    assert "search_0" in done.stdout, done.stderr
    trials = footplate.json("children", "search")
    assert [(trial["name"], trial["parent"], trial["parameters"]) for trial in trials] == [
        ("search_0", "search", {"x": 1}),
        ("search_1", "search", {"x": 2}),
    ]
    assert footplate("children", "search").stdout.splitlines()[0].split()[:4] == ["NAME", "STATUS", "ACC", "X"]
    assert [job["name"] for job in footplate.json("jobs")] == ["search"]
    (freed,) = footplate.json("clean", "--older-than", "0m", "--yes")["jobs"]
    assert freed["name"] == "search"
    assert [path for path in (footplate.home / "jobs").iterdir() if not path.name.startswith(".")] == []
    assert footplate("job", "search_0").returncode == 2
