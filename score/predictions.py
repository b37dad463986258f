"""A model's outputs become labels with probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


class ModelFailed(Exception):
    """A model whose outputs say nothing; its text is a plain sentence."""


def predictions(logits: npt.NDArray[np.float32], classes: Sequence[str]) -> list[dict[str, Any]]:
    """For each row of (batch, classes): the best label, its probability, and all classes by falling probability.

    Raises `ModelFailed` where the outputs are not finite.
    """
    if not np.isfinite(logits).all():
        raise ModelFailed("The model's outputs are not finite numbers; its weights or the request's numbers overflow.")
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    return [_prediction(row, classes) for row in probabilities]


def _prediction(row: npt.NDArray[np.float64], classes: Sequence[str]) -> dict[str, Any]:
    order = np.argsort(-row, kind="stable")
    scores = [{"label": classes[index], "probability": float(row[index])} for index in order]
    return {**scores[0], "scores": scores}
