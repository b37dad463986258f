"""The model artefact: `model/` with the weights as plain tensors, `model.json` and, at the end, `model.onnx`.

The folder is written beside its place and takes it by a rename, so what stands there is always whole.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import warnings
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import networks
import torch
import torchvision
from data import Preprocessing
from safetensors.torch import load_file, save_file

FORMAT = 1
WEIGHTS, ONNX, MANIFEST = "model.safetensors", "model.onnx", "model.json"


@dataclass(frozen=True)
class Recipe:
    """What is known of a model before it is trained."""

    architecture: str
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    arguments: dict[str, str | int | float]


def write(folder: Path, recipe: Recipe, network: torch.nn.Module, metrics: dict[str, float | int]) -> None:
    """Puts the network in place of whatever model the folder held, without an ONNX file."""
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
        "weights": {"file": WEIGHTS, "sha256": sha256(new / WEIGHTS)},
        "onnx": None,
        "metrics": metrics,
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "torchvision": str(torchvision.__version__),
        },
        "arguments": recipe.arguments,
        "git_commit": git_commit(),
        # datetime.UTC is of Python 3.11, and Azure's curated PyTorch images have 3.10.
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),  # noqa: UP017
    }
    finish(new, folder, manifest)


def add_onnx(folder: Path, images: torch.Tensor) -> str:
    """Exports the written model, compares its scores on `images` (n, 3, h, w), and returns what came of it, in words.

    Where the export is not possible or the scores differ, the artefact stays as it was, without ONNX.
    """
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    network = networks.build(manifest["architecture"], len(manifest["classes"]))
    network.load_state_dict(load_file(folder / WEIGHTS))
    network.eval()
    new = fresh(folder)
    shutil.copyfile(folder / WEIGHTS, new / WEIGHTS)
    try:
        export(network, images[:1], new / ONNX)
    except (RuntimeError, ImportError, torch.onnx.errors.OnnxExporterError) as error:
        shutil.rmtree(new)
        return f"No ONNX file: the export failed ({str(error).splitlines()[0]}). Install onnx to have one."
    difference = largest_difference(network, new / ONNX, images)
    if difference is not None and difference > 1e-4:
        shutil.rmtree(new)
        return f"No ONNX file: its scores differ from torch's by {difference:.1g}."
    manifest["onnx"] = {"file": ONNX, "sha256": sha256(new / ONNX)}
    finish(new, folder, manifest)
    if difference is None:
        return "The ONNX file is written but not compared with torch, as onnxruntime is not installed."
    return (
        f"The ONNX file gives the same scores as torch on {len(images)} pictures (largest difference {difference:.1g})."
    )


def export(network: torch.nn.Module, image: torch.Tensor, path: Path) -> None:
    """Writes ONNX with any batch, height and width, through TorchScript: a tenth of the other exporter's time."""
    axes = {"images": {0: "batch", 2: "height", 3: "width"}, "scores": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecation notes
        torch.onnx.export(
            network,
            (image,),
            str(path),
            input_names=["images"],
            output_names=["scores"],
            dynamic_axes=axes,
            dynamo=False,
        )


def largest_difference(network: torch.nn.Module, onnx: Path, images: torch.Tensor) -> float | None:
    """The largest difference of any score between torch and ONNX; None without onnxruntime."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    scores = torch.from_numpy(session.run(None, {"images": images.numpy()})[0])
    with torch.inference_mode():
        return float((network(images) - scores).abs().max())


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
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
