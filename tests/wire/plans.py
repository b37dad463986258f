"""How a job goes on the server: how long each state lasts, what it logs, what it measures, how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


def training_line(index: int) -> str:
    """A line of a training log."""
    epoch, step = divmod(index, 40)
    return f"epoch {epoch} step {step}/40 loss {2.0 / (1 + index / 50):.4f} 412.7 images/s"


def training_metrics(epoch: int, epochs: int, skill: float) -> dict[str, float]:
    """What a training logs after an epoch; `skill` from 0 to 1 is what it ends near."""
    done = (epoch + 1) / epochs
    accuracy = 0.5 + (0.5 * skill) * (1 - math.exp(-3 * done))
    return {
        "loss": round(1.4 * math.exp(-2 * done) + 0.05, 5),
        "val_acc": round(accuracy, 5),
        "best_val_acc": round(accuracy, 5),
        "learning_rate": round(0.002 * (1 + math.cos(math.pi * done)) / 2, 8),
    }


@dataclass(frozen=True)
class JobPlan:
    """The seconds of each state, the log and the metrics of a job, and its end."""

    starting: float = 2.0
    preparing: float = 10.0
    """The image is pulled, the data mounted; `image_build` seconds come before it, with a log of their own."""
    image_build: float = 0.0
    running: float = 60.0
    finalizing: float = 3.0
    ends: str = "Completed"
    """Completed or Failed."""
    error: str = "User program failed with RuntimeError: CUDA out of memory."
    lines_per_second: float = 2.0
    line: Callable[[int], str] = training_line
    epochs: int = 15
    metrics: Callable[[int, int, float], dict[str, float]] = training_metrics
    skill: float = 0.9
    writes_to: str = ""
    """The named output that it writes a file to, in place of a model in its default output."""
