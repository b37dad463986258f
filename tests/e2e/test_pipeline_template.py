"""The pipeline template on this machine: drawn, trained, evaluated and registered, and compared with what is registered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.commands import Inside

ROOT = Path(__file__).resolve().parents[2]
SMALLER = {
    "birds.py birds --seed": "birds.py birds --train 24 --val 12 --test 8 --seed",
    "--batch_size 20": "--batch_size 8 --image_size 32",
    "num_epochs: 15": "num_epochs: 1",
}
COMPARED = {
    "  # registered:\n  #   type: custom_model\n  #   path: azureml:birds@latest\n": (
        "  registered:\n    type: custom_model\n    path: azureml:birds@latest\n"
    ),
    "      # registered: ${{parent.inputs.registered}}\n": "      registered: ${{parent.inputs.registered}}\n",
}


def written(folder: Path, name: str, changes: dict[str, str]) -> str:
    """The template beside its component and its code, with some of its text changed."""
    text = (ROOT / "jobs" / "pipeline.yml").read_text(encoding="utf-8")
    for before, after in changes.items():
        assert text.count(before) == 1
        text = text.replace(before, after)
    (folder / "jobs" / name).write_text(text, encoding="utf-8")
    return f"jobs/{name}"


@pytest.mark.long
def test_it_registers_a_model_and_then_one_that_is_no_worse(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra local is not installed")
    for name in ("jobs", "trainer"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    footplate = Inside(tmp_path)
    for version, changes in ((1, SMALLER), (2, SMALLER | COMPARED)):
        file = written(tmp_path, f"small{version}.yml", changes)
        ended = footplate("launch", file, "--name", f"flow{version}", "--follow", seconds=900)
        assert ended.returncode == 0, ended.stderr
        model = footplate.json("model", "show", f"birds:{version}")
        assert model["type"] == "custom_model"
        downloaded = footplate.json("model", "download", f"birds:{version}", "--to", f"got{version}")
        assert downloaded
        (found,) = (tmp_path / f"got{version}").rglob("evaluation.json")
        assert {"model.json", "model.onnx", "model.safetensors"} <= {path.name for path in found.parent.iterdir()}
        evaluation = json.loads(found.read_text())
        assert (evaluation["split"], evaluation["pictures"], evaluation["worse"]) == ("test", 8, False)
        assert ("registered" in evaluation) == (version == 2)
