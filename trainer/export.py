"""The written model as ONNX, compared with torch before it is let into the artefact."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import artefact
import torch
from artefact import ONNX, WEIGHTS

TOLERANCE = 1e-4
"""The largest difference of any score between torch and ONNX, in units of the largest score where that is above 1."""


class NotExported(Exception):
    """Why there is no ONNX file, in words."""


def to_onnx(folder: Path, images: torch.Tensor) -> str:
    """Adds `model.onnx` to the artefact in `folder` and returns what came of it, in a sentence.

    `images`: (n, 3, h, w), preprocessed as the model takes them, n at least 1. Where the export is not possible or the
    scores differ from torch's, the artefact stays as it was, without ONNX.
    """
    model = artefact.load(folder)
    new = artefact.fresh(folder)
    try:
        difference = write(model.network, images, new / ONNX)
    except NotExported as reason:
        shutil.rmtree(new)
        return f"No ONNX file: {reason} The model is served by torch all the same."
    shutil.copyfile(folder / WEIGHTS, new / WEIGHTS)
    entry = {"file": ONNX, "sha256": artefact.sha256(new / ONNX)}
    artefact.finish(new, folder, {**model.manifest, "onnx": entry})
    if difference is None:
        return "The ONNX file is written but not compared with torch, as onnxruntime is not installed."
    return (
        f"The ONNX file gives the same scores as torch on {len(images)} pictures (largest difference {difference:.1g})."
    )


def write(network: torch.nn.Module, images: torch.Tensor, path: Path) -> float | None:
    """Writes the file and returns its largest difference from torch, None where onnxruntime is not installed.

    The batch is free; height and width too, where the network and the exporter bear it. Raises `NotExported`.
    """
    other = torch.nn.functional.pad(images[:1], (0, 32, 0, 64))
    tries = [[images, images[:1], other]] if takes(network, other) else []
    reason = ""
    for batches in [*tries, [images, images[:1]]]:
        try:
            export(network, images[:1], path, free_sizes=len(batches) == 3)
            difference = largest_difference(network, path, batches)
        except Exception as error:  # noqa: BLE001 - exporters and runtimes let anything out on a network they do not know
            reason = f"the export failed ({artefact.first_line(error).rstrip('.')})."
            continue
        if difference is None or difference <= TOLERANCE:
            return difference
        reason = f"its scores differ from torch's by {difference:.1g}."
    raise NotExported(reason)


def takes(network: torch.nn.Module, images: torch.Tensor) -> bool:
    """Whether the network itself takes pictures of this size; many transformers take one size alone."""
    try:
        with torch.inference_mode():
            network(images)
    except (RuntimeError, AssertionError, ValueError):
        return False
    return True


def export(network: torch.nn.Module, image: torch.Tensor, path: Path, free_sizes: bool) -> None:
    """Writes ONNX through TorchScript: a tenth of the other exporter's time, and it needs no onnxscript."""
    sides = {2: "height", 3: "width"} if free_sizes else {}
    with warnings.catch_warnings(), silent():
        warnings.simplefilter("ignore")  # the exporter warns of itself
        torch.onnx.export(
            network,
            (image,),
            str(path),
            input_names=["images"],
            output_names=["scores"],
            dynamic_axes={"images": {0: "batch", **sides}, "scores": {0: "batch"}},
            dynamo=False,
        )


@contextmanager
def silent() -> Iterator[None]:
    """Keeps the standard output empty: the exporter writes a whole graph to it when it fails, past Python's own stream."""
    c_library = ctypes.CDLL(None)
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        sys.stdout.flush()
        c_library.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def largest_difference(network: torch.nn.Module, onnx: Path, batches: Sequence[torch.Tensor]) -> float | None:
    """The largest difference of any score between torch and ONNX; None without onnxruntime.

    Relative to the largest score where that is above 1: in 32 bits a score of 1000 has no more digits than one of 1.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch in batches:
        scores = torch.from_numpy(session.run(None, {"images": batch.numpy()})[0])
        with torch.inference_mode():
            expected = network(batch)
        difference = float((expected - scores).abs().max() / expected.abs().max().clamp(min=1))
        worst = max(worst, difference) if math.isfinite(difference) else math.inf
    return worst
