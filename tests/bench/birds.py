"""What the trained network makes of freshly drawn birds, against a linear model on their pixels.

Run by hand, about two minutes a seed:  python -m tests.bench.birds [SEED]…
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml
from PIL import Image
from tests.bench.figures import Figure, publish

ROOT = Path(__file__).resolve().parents[2]
TRAINER, JOB = ROOT / "trainer", ROOT / "jobs" / "train-distributed.yml"
SEEDS = (31, 32, 33, 34)
CLASSES = ("chicken", "turkey")
ERROR_BUDGET = 0.25
"""A quarter of the linear model's mistakes: with its usual 0.6 right, 0.9 for the network."""

Floats = npt.NDArray[np.float64]


def pixels(folder: Path, side: int, crop: float = 128 / 146) -> tuple[Floats, Floats]:
    """The middle squares of a split's pictures as rows of numbers, and their labels 0 or 1."""
    rows, labels = [], []
    for label, name in enumerate(CLASSES):
        for path in sorted((folder / name).iterdir()):
            with Image.open(path) as picture:
                edge = min(picture.size) * crop
                left, top = (picture.width - edge) / 2, (picture.height - edge) / 2
                square = picture.convert("RGB").resize(
                    (side, side), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge)
                )
            rows.append(np.asarray(square, dtype=np.float64).ravel() / 255)
            labels.append(float(label))
    return np.array(rows), np.array(labels)


def linear_accuracy(data: Path, sides: Sequence[int] = (32, 64, 128)) -> float:
    """The best validation accuracy of a logistic regression on pixels; size and strength are chosen on validation.

    That choice flatters the linear model.
    """
    best = 0.0
    for side in sides:
        x, y = pixels(data / "train", side)
        x_val, y_val = pixels(data / "val", side)
        middle = x.mean(0)
        x, x_val = x - middle, x_val - middle
        gram, gram_val = x @ x.T, x_val @ x.T
        scale = float(np.trace(gram)) / len(y)
        for strength in 10.0 ** np.arange(-6, 2):
            weights, bias = logistic(gram / scale, y, float(strength))
            right = (gram_val / scale @ weights + bias > 0) == y_val
            best = max(best, float(right.mean()))
    return best


def logistic(gram: Floats, y: Floats, strength: float) -> tuple[Floats, float]:
    """Ridge logistic regression in its dual form, by Newton's method: a weight a training picture, and the bias."""
    n = len(y)
    weights, bias = np.zeros(n), 0.0
    system = np.ones((n + 1, n + 1))
    system[n, n] = 0
    for _ in range(50):
        scores = gram @ weights + bias
        chance = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
        slope = np.maximum(chance * (1 - chance), 1e-6)
        system[:n, :n] = gram + np.diag(strength * n / slope)
        solved = np.linalg.solve(system, np.append(scores + (y - chance) / slope, 0))
        moved = float(np.abs(solved[:n] - weights).max())
        weights, bias = solved[:n], float(solved[n])
        if moved < 1e-8:
            break
    return weights, bias


def train(data: Path, output: Path, seed: int) -> tuple[float, float]:
    """Trains as the template for two ranks does; returns the best validation accuracy and the seconds."""
    inputs = yaml.safe_load(JOB.read_text())["inputs"]
    arguments = [f"--{name}={value}" for name, value in inputs.items() if name not in ("data", "output_dir")]
    command = [sys.executable, "train.py", f"--data={data}", f"--output_dir={output}", f"--seed={seed}", *arguments]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    common.pop("MLFLOW_TRACKING_URI", None)
    began = time.monotonic()
    ranks = [
        subprocess.Popen(
            command, cwd=TRAINER, env={**common, "RANK": str(i), "LOCAL_RANK": str(i)}, stdout=subprocess.DEVNULL
        )
        for i in range(2)
    ]
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise RuntimeError(f"The ranks ended with {codes}.")
    seconds = time.monotonic() - began
    metrics = json.loads((output / "model" / "model.json").read_text())["metrics"]
    return float(metrics["best_val_acc"]), seconds


def onnx_accuracy(model: Path, split: Path) -> float:
    """The share of a split's pictures that the exported model names rightly."""
    import onnxruntime

    shape = json.loads((model / "model.json").read_text())["preprocessing"]
    x, y = pixels(split, shape["crop"], shape["crop"] / shape["resize"])
    images = x.reshape(len(x), shape["crop"], shape["crop"], 3)
    images = ((images - shape["mean"]) / shape["std"]).transpose(0, 3, 1, 2).astype(np.float32)
    session = onnxruntime.InferenceSession(str(model / "model.onnx"), providers=["CPUExecutionProvider"])
    scores = session.run(None, {"images": images})[0]
    return float((scores.argmax(1) == y).mean())


def measure(seeds: Sequence[int] = SEEDS) -> list[Figure]:
    """The figures of each seed: mistakes on validation against the linear model's, kept-out styles, seconds."""
    figures = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            data, output = Path(folder, "birds"), Path(folder, "outputs")
            command = [sys.executable, str(TRAINER / "birds.py"), str(data), f"--seed={seed}"]
            began = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            drawn = time.monotonic() - began
            linear = linear_accuracy(data)
            accuracy, seconds = train(data, output, seed)
            kept_out = onnx_accuracy(output / "model", data / "test")
        figures += [
            Figure(f"seed {seed}: network's mistakes, linear model's", 1 - accuracy, "", 1 - linear, ERROR_BUDGET),
            Figure(f"seed {seed}: network's accuracy, linear model's", accuracy, "", linear),
            Figure(f"seed {seed}: accuracy on kept-out styles", kept_out, ""),
            Figure(f"seed {seed}: drawing", drawn, "s"),
            Figure(f"seed {seed}: training on two ranks", seconds, "s"),
        ]
        print(f"seed {seed}: network {accuracy:.3f}, linear {linear:.3f}, kept-out {kept_out:.3f}, {seconds:.0f} s")
    return figures


if __name__ == "__main__":
    sys.exit(0 if publish("birds", measure([int(word) for word in sys.argv[1:]] or SEEDS)) else 1)
