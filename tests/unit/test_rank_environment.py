"""What a rank's environment is made of, and which Python runs jobs."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from footplate.jobfile import Plan
from footplate.local import python, references
from footplate.local.environment import Setting, rank_environment
from footplate.settings import LocalSettings, Settings
from footplate.workspace import Invalid

PLAN = Plan("true", 1, 1, "")


def python_found(setting, tmp_path):
    environment = rank_environment(setting, PLAN, 0, [29500], tmp_path / "shims")
    script = "python -c 'import sys; print(sys.prefix)'"
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_python_on_a_jobs_path_is_the_one_that_runs_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert python_found(Setting("job", "x", sys.executable), tmp_path) == sys.prefix
    assert not (tmp_path / "shims").exists()


def test_a_python_of_another_name_becomes_python_and_keeps_its_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    folder = tmp_path / "a folder's bin"
    folder.mkdir()
    special = folder / "python-special"
    special.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    special.chmod(0o755)
    assert python_found(Setting("job", "x", str(special)), tmp_path) == sys.prefix


def test_what_the_job_file_sets_wins_over_the_shell(monkeypatch, tmp_path):
    monkeypatch.setenv("BIRD", "of the shell")
    monkeypatch.setenv("OTHER", "of the shell")
    plan = Plan("true", 1, 1, "", {"BIRD": "of the file", "PYTHONUNBUFFERED": "0"})
    environment = rank_environment(Setting("job", "x", sys.executable), plan, 0, [29500], tmp_path)
    assert (environment["BIRD"], environment["OTHER"], environment["PYTHONUNBUFFERED"]) == (
        "of the file",
        "of the shell",
        "0",
    )


@pytest.mark.parametrize(
    ("distribution", "own"),
    [
        ("", {}),
        ("pytorch", {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "NODE_RANK": "1", "MASTER_ADDR": "127.0.0.1"}),
        ("mpi", {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}),
    ],
)
def test_a_rank_gets_its_own_place_and_not_that_of_the_job_the_console_runs_in(
    monkeypatch, tmp_path, distribution, own
):
    placed = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "TF_CONFIG", "AZUREML_SWEEP_lr")
    outer = (*placed, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE")
    for name in outer:
        monkeypatch.setenv(name, "of the outer job")
    plan = Plan("true", 2, 2, distribution)
    environment = rank_environment(Setting("job", "x", sys.executable), plan, 3, [29500], tmp_path)
    assert {name: environment[name] for name in outer if name in environment} == own
    assert environment["AZUREML_CR_NODE_RANK"] == "1"


def test_each_node_sees_the_gpus_that_are_its_own_unless_the_file_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    seen = []
    for setting in (Setting("job", "x", sys.executable, devices=("0,1", "2,3")), Setting("job", "x", sys.executable)):
        plan = Plan("true", 2, 2, "pytorch")
        seen.append([rank_environment(setting, plan, r, [1], tmp_path)["CUDA_VISIBLE_DEVICES"] for r in range(4)])
    assert seen == [["0,1", "0,1", "2,3", "2,3"], ["7"] * 4]
    own = Plan("true", 1, 1, "", {"CUDA_VISIBLE_DEVICES": "5"})
    setting = Setting("job", "x", sys.executable, devices=("0",))
    assert rank_environment(setting, own, 0, [1], tmp_path)["CUDA_VISIBLE_DEVICES"] == "5"


def test_the_python_of_the_settings_runs_jobs_with_its_links_kept(tmp_path):
    link = tmp_path / "python-link"
    link.symlink_to(sys.executable)
    assert python.for_jobs(Settings(local=LocalSettings(python=str(link)))) == str(link)
    assert python.for_jobs(Settings(local=LocalSettings(python="bash"))) == shutil.which("bash")


def test_a_python_that_is_not_there_is_refused_with_the_settings_name(tmp_path):
    with pytest.raises(Invalid, match=r"local\.python"):
        python.for_jobs(Settings(local=LocalSettings(python=str(tmp_path / "nothing"))))


def test_without_a_setting_some_python_runs_jobs():
    found = python.for_jobs(Settings())
    assert subprocess.run([found, "-c", "pass"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("reference", "parsed"),
    [
        ("birds", ("birds", None)),
        ("birds@latest", ("birds", None)),
        ("azureml:birds:12", ("birds", 12)),
        ("birds:1", ("birds", 1)),
    ],
)
def test_references_give_name_and_version(reference, parsed):
    assert references.parse(reference, "model") == parsed


@pytest.mark.parametrize(
    "reference", ["", "azureml:", "@latest", ":1", "birds:", "birds:one", "birds@best", "birds:1:2", "birds:-1"]
)
def test_what_is_no_reference_is_refused(reference):
    with pytest.raises(Invalid, match="names no model"):
        references.parse(reference, "model")
