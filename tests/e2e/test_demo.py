"""The whole line by its one command: train on two processes, register, deploy, predict; then remove all of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.at_work import until
from tests.commands import Footplate

DEMO_SECONDS = 400
FIELDS = "job status world_size best_val_acc model endpoint deployment prediction picture truth seconds"


@pytest.fixture
def footplate(tmp_path: Path) -> Iterator[Footplate]:
    """The commands on a home of their own; what a failed test left running is ended as an operator would."""
    command = Footplate(tmp_path)
    yield command
    for job in command.json("jobs"):
        if job["ended"] is None:
            command("cancel", job["name"])
    for endpoint in command.json("endpoints"):
        command("endpoint", "delete", endpoint["name"])
    until(lambda: processes_of(command.home) == [])


def processes_of(home: Path) -> list[str]:
    """Pid and arguments of every process that names the home in its arguments, its environment or its folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes()
            told = [arguments, (process / "environ").read_bytes(), os.fsencode((process / "cwd").readlink())]
        except OSError:  # it has ended, or is somebody else's
            continue
        if process.name != str(os.getpid()) and any(os.fsencode(home) in text for text in told):
            found.append(f"{process.name} {arguments!r}")
    return found


@pytest.mark.slow
def test_the_demo_predicts_right_and_clean_leaves_nothing_of_it(footplate):
    pytest.importorskip("torch", reason="torch is not installed: the demo cannot train")
    pytest.importorskip("mlflow", reason="mlflow is not installed: the demo cannot log metrics")
    made = footplate.json("demo", seconds=DEMO_SECONDS)
    assert set(FIELDS.split()) == set(made)
    assert (made["status"], made["world_size"]) == ("Completed", 2)
    assert 0.9 <= made["best_val_acc"] <= 1
    assert made["prediction"]["label"] == made["truth"]
    assert 0.5 < made["prediction"]["probability"] <= 1
    assert (made["model"], made["endpoint"], made["deployment"]) == ("birds:1", "birds", "blue")
    assert Path(made["picture"]).parent.name == made["truth"]

    assert [(job["name"], job["status"]) for job in footplate.json("jobs")] == [(made["job"], "Completed")]
    assert [f"{model['name']}:{model['version']}" for model in footplate.json("models")] == [made["model"]]
    assert [endpoint["name"] for endpoint in footplate.json("endpoints")] == [made["endpoint"]]
    assert footplate.json("metrics", made["job"])["best_val_acc"][-1]["value"] == made["best_val_acc"]
    assert footplate.json("invoke", made["endpoint"], made["picture"])["label"] == made["truth"]
    assert processes_of(footplate.home) != []  # the gateway and its server

    removed = footplate.json("demo", "--clean")["removed"]
    assert removed == {"endpoints": [made["endpoint"]], "models": [made["model"]], "jobs": [made["job"]]}
    assert [footplate.json(what) for what in ("jobs", "models", "endpoints")] == [[], [], []]
    until(lambda: processes_of(footplate.home) == [])
    assert footplate("demo", "--clean").stdout == "There is nothing to remove.\n"
