"""The model artefact: `model/` with the weights as plain tensors, `model.json` and, at the end, `model.onnx`.

The folder is written beside its place and takes it by a rename, so what stands there is always whole.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import networks
import numpy
import PIL
import torch
import torchvision
from data import Preprocessing
from errors import BadInput
from pictures import MAX_PIXELS
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

FORMAT = 1
LIMITS = {"body_bytes": 32 * 1024 * 1024, "pixels": MAX_PIXELS, "batch": 64}
"""What one scoring request may hold; whoever serves the model may write other numbers into its model.json."""

WEIGHTS, ONNX, MANIFEST = "model.safetensors", "model.onnx", "model.json"


@dataclass(frozen=True)
class Recipe:
    """What is known of a model before it is trained."""

    architecture: str
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    arguments: dict[str, str | int | float]


@dataclass(frozen=True)
class Model:
    """A written artefact, read back: its `model.json`, and the network in evaluation mode on the CPU."""

    folder: Path
    manifest: dict[str, Any]
    network: torch.nn.Module

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names in the order of the outputs."""
        return tuple(self.manifest["classes"])

    @property
    def preprocessing(self) -> Preprocessing:
        """What turns a picture into the network's input."""
        block = self.manifest["preprocessing"]
        return Preprocessing(**{**block, "mean": tuple(block["mean"]), "std": tuple(block["std"])})


def save(folder: Path, recipe: Recipe, network: torch.nn.Module, metrics: dict[str, float | int]) -> None:
    """Puts the network in place of whatever model the folder held, without an ONNX file (`export.to_onnx` adds it)."""
    new = fresh(folder)
    # A copy laid out the usual way: training may have it channels last, which safetensors refuses.
    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    save_file(state, str(new / WEIGHTS), metadata={"format": "pt"})
    crop = recipe.preprocessing.crop
    manifest = {
        "format": FORMAT,
        "architecture": recipe.architecture,
        "classes": list(recipe.classes),
        "preprocessing": asdict(recipe.preprocessing),
        "input_shape": [3, crop, crop],
        "limits": LIMITS,
        "weights": {"file": WEIGHTS, "sha256": sha256(new / WEIGHTS)},
        "onnx": None,
        "metrics": metrics,
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "torchvision": str(torchvision.__version__),
            "pillow": PIL.__version__,
            "numpy": numpy.__version__,
        },
        "arguments": recipe.arguments,
        "git_commit": git_commit(),
        # datetime.UTC is of Python 3.11, and Azure's curated PyTorch images have 3.10.
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),  # noqa: UP017
    }
    finish(new, folder, manifest)


def load(folder: Path) -> Model:
    """Reads a written artefact back; raises `BadInput` where it is none, or its files are not those it was written with."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        weights = folder / Path(manifest["weights"]["file"]).name
        if manifest["format"] != FORMAT:
            raise BadInput(
                f"{path} has format {manifest['format']}, and this trainer reads {FORMAT}. Use the footplate that wrote it."
            )
        if sha256(weights) != manifest["weights"]["sha256"]:
            raise BadInput(f"{weights} was changed since {MANIFEST} was written. Download or register the model again.")
        size = manifest["preprocessing"]["crop"]
        network = networks.build(manifest["architecture"], len(manifest["classes"]), size)
        network.load_state_dict(load_file(weights))
    except FileNotFoundError as error:
        raise BadInput(f"There is no {error.filename}. Give the folder that a training wrote.") from error
    except (OSError, ValueError, KeyError, TypeError, SafetensorError, RuntimeError) as error:
        raise BadInput(f"The model in {folder} cannot be read: {first_line(error)}") from error
    return Model(folder, manifest, network.eval())


def fresh(folder: Path) -> Path:
    """An empty folder beside the model's, to write the next one in."""
    new = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    return new


def finish(new: Path, folder: Path, manifest: dict[str, Any]) -> None:
    """Writes `model.json` last, then lets the new folder take the old one's place."""
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (new / MANIFEST).write_text(text, encoding="utf-8")
    old = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def sha256(path: Path) -> str:
    """The file's digest in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1024 * 1024):
            digest.update(block)
    return digest.hexdigest()


def first_line(error: BaseException) -> str:
    """An error's first line; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def git_commit() -> str | None:
    """The commit of this file, where it lies in a git checkout that tracks it (a job's copy does not)."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", *words], cwd=here.parent, capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    return git("rev-parse", "HEAD") if git("ls-files", "--error-unmatch", here.name) else None
