"""The training templates: jobs that Azure's own client loads, whose every input reaches the training script."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ["train.yml", "train-distributed.yml"]


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> Path:
    return ROOT / "jobs" / request.param


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """What the training script's help names."""
    command = [sys.executable, str(ROOT / "trainer" / "train.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return set(re.findall(r"--\w+", done.stdout))


def content(template: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(template.read_text(encoding="utf-8"))
    return document


def test_azures_client_loads_it(template: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from azure.ai.ml import load_job

        job = load_job(template)
        sent = job._to_job()._to_rest_object()
    assert sent.properties.job_type == "Command"
    assert Path(job.code).resolve() == ROOT / "trainer" or str(job.code).endswith("trainer")
    assert job.experiment_name == "birds"


def test_every_input_is_used_and_every_use_is_an_input(template: Path) -> None:
    job = content(template)
    used = re.findall(r"\$\{\{inputs\.(\w+)\}\}", job["command"])
    assert sorted(used) == sorted(job["inputs"])


def test_the_script_knows_every_argument(template: Path, flags: set[str]) -> None:
    command = content(template)["command"]
    pairs = re.findall(r"(--\w+) \"?\$\{\{inputs\.(\w+)\}\}", command)
    assert all(flag == f"--{name}" for flag, name in pairs)
    assert {flag for flag, _ in pairs} <= flags
    assert {"--data", "--output_dir", "--num_epochs", "--learning_rate", "--momentum"} <= {flag for flag, _ in pairs}


def test_the_two_templates_train_the_same_way() -> None:
    one, two = (content(ROOT / "jobs" / name) for name in TEMPLATES)
    processes = two["distribution"]["process_count_per_instance"]
    assert two["distribution"]["type"] == "pytorch"
    assert "distribution" not in one
    # As many pictures a step: the batch is a process's, so it halves where the processes double.
    assert one["inputs"]["batch_size"] == processes * two["inputs"]["batch_size"]
    same = {"num_epochs", "learning_rate", "momentum", "image_size", "architecture", "weights"}
    assert {name: one["inputs"][name] for name in same} == {name: two["inputs"][name] for name in same}
    assert one["inputs"]["weights"] == "none"  # so that no network is needed
