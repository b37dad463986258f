"""What the score folder promises: it stands alone, shares one file with the trainer, and explains a faulty model folder."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from footplate.paths import asset

SCORE = asset("score")
PREPROCESSING = {
    "resize": 146,
    "crop": 128,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "interpolation": "bilinear",
}

# Reads each folder given on the command line and prints what became of it: one process for all, as in a deployment.
READ_ALL = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from artefact import BadModel, open_artefact
from engine import open_engine
answers = []
for folder in sys.argv[2:]:
    try:
        open_engine(open_artefact(Path(folder)))
        answers.append("loaded")
    except BadModel as fault:
        answers.append(str(fault))
print(json.dumps(answers))
"""


def read_all(*folders: Path) -> list[str]:
    command = [sys.executable, "-c", READ_ALL, str(SCORE), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers: list[str] = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) == len(folders)
    return answers


def artefact(folder: Path, **changes: Any) -> Path:
    """A folder with a model.json whose weights are no weights, which is enough for what is read before they are loaded."""
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    document = {
        "format": 1,
        "architecture": "resnet18",
        "classes": ["chicken", "turkey"],
        "preprocessing": PREPROCESSING,
        "input_shape": [3, 128, 128],
        "weights": {"file": "model.safetensors", "sha256": hashlib.sha256(b"weights").hexdigest()},
        "onnx": None,
        "metrics": {},
        "versions": {},
        "arguments": {},
        "git_commit": None,
        "created": "2026-01-01T00:00:00Z",
    }
    (folder / "model.json").write_text(json.dumps(document | changes), encoding="utf-8")
    return folder


def test_trainer_and_score_share_pictures_byte_for_byte() -> None:
    assert (SCORE / "pictures.py").read_bytes() == (asset("trainer") / "pictures.py").read_bytes()


def test_score_imports_nothing_of_the_rest() -> None:
    own = {path.stem for path in SCORE.glob("*.py")}
    allowed = {"PIL", "numpy", "onnxruntime", "torch", "torchvision", "safetensors"}
    for path in SCORE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                assert top in own | allowed | set(sys.stdlib_module_names), f"{path.name} imports {name}"
                assert top not in {"pickle", "footplate"}, path.name


def test_faulty_model_folders_are_explained(tmp_path: Path) -> None:
    sha = hashlib.sha256(b"weights").hexdigest()
    cases = {
        artefact(tmp_path / "future", format=7): "format 7, and this score.py reads format 1",
        artefact(tmp_path / "changed", weights={"file": "model.safetensors", "sha256": "0" * 64}): "is not the file",
        artefact(tmp_path / "outside", weights={"file": "../model.safetensors", "sha256": sha}): "without a folder",
        artefact(tmp_path / "gone", weights={"file": "other.safetensors", "sha256": sha}): "Neither the weights",
        artefact(tmp_path / "classes", classes=[]): "classes",
        artefact(tmp_path / "block", preprocessing=PREPROCESSING | {"crop": -1}): "preprocessing.crop",
        artefact(tmp_path / "shape", input_shape=[1, 28, 28]): "input_shape",
        artefact(tmp_path / "limit", limits={"batch": 0}): "limits.batch",
        artefact(tmp_path / "no limit", limits={"pixels": 10**12}): "from 1 to 400000000",
        artefact(tmp_path / "odd limit", limits={"bytes": 1}): "body_bytes, pixels, batch and nothing else",
        artefact(tmp_path / "unknown", architecture="resnet7"): "no architecture 'resnet7'",
        artefact(tmp_path / "damaged"): "cannot be read",
        tmp_path / "none": "does not exist",
    }
    (tmp_path / "empty").mkdir()
    cases[tmp_path / "empty"] = "no model.json"
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "model.json").write_text("{", encoding="utf-8")
    cases[tmp_path / "text"] = "cannot be read as JSON"
    artefact(tmp_path / "two" / "first")
    artefact(tmp_path / "two" / "second")
    cases[tmp_path / "two"] = "several models"
    for folder, answer in zip(cases, read_all(*cases), strict=True):
        sentence, *listing = answer.splitlines()
        assert cases[folder] in sentence, answer
        assert listing[0].startswith("The model folder "), answer
    # The tree shows names and sizes, so that a wrong depth is seen at once.
    assert "    model.json  " in read_all(tmp_path / "two")[0]
    assert "model.safetensors  7 bytes" in read_all(tmp_path / "future")[0]


def test_the_model_is_found_however_deep_azure_mounts_it(tmp_path: Path) -> None:
    artefact(tmp_path / "top" / "1" / "outputs" / "model", weights={"file": "model.safetensors", "sha256": "0" * 64})
    assert "is not the file" in read_all(tmp_path / "top")[0]


def test_the_nearest_model_wins_over_a_deeper_one(tmp_path: Path) -> None:
    artefact(tmp_path / "near", format=7)
    artefact(tmp_path / "near" / "old" / "model")
    assert "format 7" in read_all(tmp_path / "near")[0]


# Reads limits from model.json and a body by them, then the CPU limits of the folders that follow.
LIMITED = """
import io, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from types import SimpleNamespace
from artefact import open_artefact
from bodies import BadRequest, read_body, read_content
from threads import cpu_limit, threads
limits = open_artefact(Path(sys.argv[2])).limits
answers = []
for body in (b"x" * 11, b'{"images": ["", "", ""]}'):
    try:
        body = read_body(SimpleNamespace(method="POST", stream=io.BytesIO(body)), limits) if len(body) < 12 else body
        read_content("application/json", body, limits)
    except BadRequest as fault:
        answers.append([fault.status, str(fault)])
print(json.dumps([answers, [cpu_limit(Path(folder)) for folder in sys.argv[3:]], threads()]))
"""


def test_limits_are_model_jsons_and_threads_the_instances(tmp_path: Path) -> None:
    folder = artefact(tmp_path / "model", limits={"body_bytes": 10, "batch": 2})
    groups = {"second": {"cpu.max": "150000 100000"}, "none": {"cpu.max": "max 100000"}, "nothing": {}}
    groups["first"] = {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}
    groups["first-none"] = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}
    for name, files in groups.items():
        for file, text in files.items():
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(text + "\n")
    command = [sys.executable, "-c", LIMITED, str(SCORE), str(folder), *(str(tmp_path / name) for name in groups)]
    for variables, expected in (({"OMP_NUM_THREADS": "3"}, 3), ({"WORKER_COUNT": "1000"}, 1)):
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
        answers, found, count = json.loads(done.stdout)
        assert [status for status, _ in answers] == [413, 400]
        assert "There are 3 pictures; one request takes 1 to 2." in answers[1][1]
        assert found == [1.5, None, None, 4.0, None]
        assert count == expected


MODULES = [path.stem for path in SCORE.glob("*.py") if path.stem != "score"]


@pytest.mark.parametrize("module", MODULES)
def test_no_module_of_the_score_folder_imports_torch_at_the_start(module: str) -> None:
    script = f"import sys; sys.path.insert(0, {str(SCORE)!r}); import {module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
