"""The pipeline template: Azure's own client takes it, a check finds nothing, and its scripts know what it passes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from footplate.jobfile.check import check_file

ROOT = Path(__file__).resolve().parents[2]
PIPELINE, COMPONENT = ROOT / "jobs" / "pipeline.yml", ROOT / "jobs" / "components" / "evaluate.yml"
SOURCES = {
    name: [ROOT / "trainer" / f"{file}.py" for file in (name, *more)]
    for name, more in {"birds": (), "train": ("arguments",), "evaluate": (), "packages": ()}.items()
}
"""Where each script's arguments stand: to ask it for its help would import torch."""

COMPARED = [
    ("  # registered:\n  #   type: custom_model\n  #   path: azureml:birds@latest\n",
     "  registered:\n    type: custom_model\n    path: azureml:birds@latest\n"),
    ("      # registered: ${{parent.inputs.registered}}\n", "      registered: ${{parent.inputs.registered}}\n"),
]  # fmt: skip
"""What its comments say to write in order to compare with the registered model."""


@pytest.fixture(params=["as it stands", "with the registered model"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The template; and in a copy of the folders, as its comments tell to change it."""
    if request.param == "as it stands":
        return PIPELINE
    text = PIPELINE.read_text(encoding="utf-8")
    for before, after in COMPARED:
        assert before in text
        text = text.replace(before, after)
    (tmp_path / "jobs").mkdir()
    for name in ("jobs/components", "trainer"):
        (tmp_path / name).symlink_to(ROOT / name)
    file = tmp_path / "jobs" / "pipeline.yml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_check_finds_nothing(pipeline: Path) -> None:
    for file in (pipeline, COMPONENT):
        job_file, faults = check_file(file)
        assert job_file is not None
        assert [fault.sentence for fault in faults] == []


def test_azures_client_loads_validates_and_sends_it(pipeline: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from azure.ai.ml import load_job

        job = load_job(pipeline)
        found = job._customized_validate()
        sent = job._to_rest_object().properties
    assert found.passed, found
    assert sent.job_type == "Pipeline"
    assert list(sent.jobs) == ["draw", "train", "evaluate", "register"]
    assert (sent.outputs["model"].job_output_type, job.outputs["model"].name) == ("custom_model", "birds")
    assert sent.settings["default_compute"] == "serverless"


def steps() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(PIPELINE.read_text(encoding="utf-8"))["jobs"]
    found["evaluate"] = {**yaml.safe_load(COMPONENT.read_text(encoding="utf-8")), "given": found["evaluate"]["inputs"]}
    return found


def test_every_input_is_used_and_the_scripts_know_every_argument() -> None:
    for name, step in steps().items():
        command = step["command"]
        used = set(re.findall(r"\$\{\{inputs\.(\w+)\}\}", command))
        assert used == set(step["inputs"]), name
        assert set(step.get("given", ())) <= set(step["inputs"])
        assert step["environment"].endswith("/acpt-pytorch-2.8-cuda12.6/labels/latest")
        for script, words in re.findall(r"python (\w+)\.py([^&]*)", command):
            known = {flag for file in SOURCES[script] for flag in re.findall(r'"(--\w+)"', file.read_text("utf-8"))}
            assert set(re.findall(r"--\w+", words)) <= known, (name, script)


def packages(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """packages.py beside a requirements.txt that names what no registry has, with pip told to ask none."""
    folder.joinpath("packages.py").write_bytes((ROOT / "trainer" / "packages.py").read_bytes())
    folder.joinpath("requirements.txt").write_text("pillow>=1  # there\nno-such-package-here>=2\n")
    environment = {**os.environ, "TMPDIR": str(folder), "PIP_NO_INDEX": "1", **variables}
    command = [sys.executable, str(folder / "packages.py")]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def test_missing_packages_are_installed_on_azure_alone_and_their_lack_ends_nothing(tmp_path: Path) -> None:
    here = packages(tmp_path)
    assert (here.returncode, here.stdout, here.stderr) == (0, "", "")
    there = packages(tmp_path, AZUREML_ARM_SUBSCRIPTION="0")
    assert there.returncode == 0
    assert there.stdout == "Installing no-such-package-here>=2, which this image lacks.\n"
    assert "could not be installed; the job goes on without" in there.stderr


def test_the_requirements_are_what_the_console_itself_asks_for_locally() -> None:
    """Each package is in the extra that this machine's trainings run with."""
    import tomllib

    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["local"]
    base = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[<>=!~\[; ]", line)[0] for line in [*extra, *base]} | {"mlflow-skinny"}
    lines = [line for line in (ROOT / "trainer" / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    assert {re.split(r"[<>=]", line)[0] for line in lines} <= names, json.dumps(sorted(names))
