"""Scoring scripts that users stumbled over, deployed and invoked: what is wrong with each is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import served
from tests.commands import Inside

from footplate.local.endpoints import Endpoints
from footplate.local.store import Store
from footplate.settings import Settings

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "score"
NAMES = {"ndarray": "s01_returns_ndarray_like.py", "dumps": "s02_double_dumps.py", "init": "s04_init_raises.py"}


@pytest.fixture(scope="module")
def footplate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """The commands in a home of their own; a deployment file a script; every endpoint goes at the end."""
    pytest.importorskip("azureml_inference_server_http", reason="the scoring server is not installed")
    if not CASES.is_dir():
        pytest.skip(f"the case scripts are not at {CASES}")
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "weights" / "outputs").mkdir(parents=True)
    (folder / "weights" / "outputs" / "weights.bin").write_bytes(b"weights")
    (folder / "red.png").write_bytes(served.picture("red"))
    for name, script in NAMES.items():
        (folder / f"{name}.yml").write_text(
            f"name: {name}\nendpoint_name: cases\nmodel: {{path: ./weights}}\n"
            f"code_configuration: {{code: {CASES}, scoring_script: {script}}}\n"
            "environment: azureml:env:1\ninstance_type: Standard_DS3_v2\ninstance_count: 1\n"
        )
    commands = Inside(folder)
    yield commands
    endpoints = Endpoints(Store(commands.home), Settings())
    for endpoint in endpoints.list():
        endpoints.delete(endpoint.name)


def test_each_case_script_is_explained(footplate: Inside) -> None:
    assert footplate.json("deploy", "ndarray.yml")["state"] == "Succeeded"
    assert "--format tensor" in footplate("invoke", "cases", "red.png").stderr
    done = footplate("invoke", "cases", "red.png", "--format", "tensor", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert "TypeError: Object of type Arr is not JSON serializable." in error
    assert "Let run() return lists, numbers and texts." in error

    assert footplate.json("deploy", "dumps.yml", "--no-traffic")["state"] == "Succeeded"
    answer = footplate.json("invoke", "cases", "red.png", "--deployment", "dumps", "--format", "tensor")
    assert answer["label"] == "cat"
    assert "JSON within JSON text" in answer["notes"][0]
    said = footplate("invoke", "cases", "red.png", "--deployment", "dumps", "--format", "tensor").stdout
    assert said.startswith("red.png: cat\n")
    assert "JSON within JSON text" in said

    failed = footplate("deploy", "init.yml", "--no-traffic")
    assert failed.returncode == 1
    for words in ("FileNotFoundError", "Traceback", "in init", "outputs/", "weights.bin"):
        assert words in failed.stderr, failed.stderr
