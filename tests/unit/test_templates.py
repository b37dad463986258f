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

from footplate.jobfile import read
from footplate.jobfile.check import check_file
from footplate.jobfile.plan import sweep_plan

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ["train.yml", "train-distributed.yml", "train-frozen.yml", "sweep.yml"]


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
        sent = (job if template.name == "sweep.yml" else job._to_job())._to_rest_object()
    assert sent.properties.job_type == ("Sweep" if template.name == "sweep.yml" else "Command")
    code = job.trial.code if template.name == "sweep.yml" else job.code
    assert Path(code).resolve() == ROOT / "trainer" or str(code).endswith("trainer")
    assert job.experiment_name == "birds"


def command_of(job: dict[str, Any]) -> str:
    """The command; a sweep has it in its trial."""
    command: str = job.get("trial", job)["command"]
    return command


def test_every_input_is_used_and_every_use_is_an_input(template: Path) -> None:
    job = content(template)
    used = re.findall(r"\$\{\{(\w+)\.(\w+)\}\}", command_of(job))
    there = [(section, name) for section in ("inputs", "outputs", "search_space") for name in job.get(section, ())]
    assert sorted(used) == sorted(there)


def test_a_check_finds_nothing(template: Path) -> None:
    job_file, faults = check_file(template)
    assert job_file is not None
    assert [fault.sentence for fault in faults] == []


def test_the_script_knows_every_argument(template: Path, flags: set[str]) -> None:
    command = command_of(content(template))
    pairs = re.findall(r"(--\w+) \"?\$\{\{(?:inputs|search_space)\.(\w+)\}\}", command)
    assert all(flag == f"--{name}" for flag, name in pairs)
    assert {flag for flag, _ in pairs} <= flags
    assert {"--data", "--output_dir", "--num_epochs", "--learning_rate", "--momentum"} <= {flag for flag, _ in pairs}


def test_the_two_templates_train_the_same_way() -> None:
    one, two = (content(ROOT / "jobs" / name) for name in ("train.yml", "train-distributed.yml"))
    processes = two["distribution"]["process_count_per_instance"]
    assert two["distribution"]["type"] == "pytorch"
    assert "distribution" not in one
    # As many pictures a step: the batch is a process's, so it halves where the processes double.
    assert one["inputs"]["batch_size"] == processes * two["inputs"]["batch_size"]
    same = {"num_epochs", "learning_rate", "momentum", "image_size", "architecture", "weights"}
    assert {name: one["inputs"][name] for name in same} == {name: two["inputs"][name] for name in same}
    assert one["inputs"]["weights"] == "none"  # so that no network is needed


def test_the_sweep_is_microsofts_with_both_values_passed_on() -> None:
    """Source: Microsoft's article on training PyTorch models, whose command line passes neither of the two values on."""
    sweep, one = content(ROOT / "jobs" / "sweep.yml"), content(ROOT / "jobs" / "train.yml")
    assert sweep["search_space"] == {
        "learning_rate": {"type": "uniform", "min_value": 0.0005, "max_value": 0.005},
        "momentum": {"type": "uniform", "min_value": 0.9, "max_value": 0.99},
    }
    assert sweep["sampling_algorithm"] == "random"
    assert sweep["objective"] == {"goal": "maximize", "primary_metric": "best_val_acc"}
    policy = sweep["early_termination"]
    assert policy == {"type": "bandit", "slack_factor": 0.15, "evaluation_interval": 1, "delay_evaluation": 10}
    assert sweep["limits"] == {"max_total_trials": 8, "max_concurrent_trials": 4}
    assert sweep["inputs"]["num_epochs"] > policy["delay_evaluation"]  # else it would stop nothing
    assert sweep["inputs"] == {
        name: value for name, value in one["inputs"].items() if name not in sweep["search_space"]
    }
    assert sweep["trial"]["code"] == one["code"]
    assert sweep["trial"]["environment"] == one["environment"]


def test_the_sweeps_trials_differ_in_what_is_swept_alone() -> None:
    planned = sweep_plan(read(ROOT / "jobs" / "sweep.yml"))
    commands = [trial.plan.command for trial in planned.trials]
    assert len(set(commands)) == len(commands) == 3
    for trial in planned.trials:
        for name, value in trial.values.items():
            assert f"--{name} {value} " in trial.plan.command
