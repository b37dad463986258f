"""What a validation leaves to look at: curve, confusions and the most wrong pictures, as numbers and as pictures.

A rank counts in a `Tally` of its own; rank 0 merges them and writes the report, a folder beside the model: `report.json`
holds every number, `curve.png`, `confusion.png` and `most_wrong.png` show them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import report_pictures
import torch
from artefact import first_line
from pictures import printable
from PIL import Image

KEPT = 20
"""How many of the most wrong pictures are kept."""


@dataclass(frozen=True)
class Mistake:
    """A picture that was taken for another class; `probability` is what the model gave that class, `loss` in nats."""

    index: int
    label: int
    predicted: int
    probability: float
    loss: float


class Tally:
    """Who was taken for whom over one validation, and the pictures the model was most wrong about.

    `confusion`: int64 (classes, classes), a row for what is there, a column for what was said. `mistakes`: worst first.
    Small, and can be pickled: ranks hand theirs over with `distributed.gathered`.
    """

    def __init__(self, classes: int) -> None:
        self.confusion = torch.zeros((classes, classes), dtype=torch.int64)
        self.mistakes: list[Mistake] = []

    def add(self, indices: Sequence[int], scores: torch.Tensor, labels: torch.Tensor) -> None:
        """Counts a batch: `indices` say which pictures these are, `scores` is (n, classes) before softmax."""
        scores, labels = scores.detach().float().cpu(), labels.detach().cpu()
        predicted = scores.argmax(1)
        classes = len(self.confusion)
        self.confusion += torch.bincount(labels * classes + predicted, minlength=classes**2).view(classes, classes)
        logarithms = torch.log_softmax(scores, dim=1)
        for row in (predicted != labels).nonzero().flatten().tolist():
            label, said = int(labels[row]), int(predicted[row])
            probability, loss = float(logarithms[row, said].exp()), -float(logarithms[row, label])
            self.mistakes.append(Mistake(indices[row], label, said, probability, loss))
        self._keep_the_worst()

    def merge(self, other: Tally) -> None:
        """Adds what another rank has counted."""
        self.confusion += other.confusion
        self.mistakes += other.mistakes
        self._keep_the_worst()

    def _keep_the_worst(self) -> None:
        self.mistakes = sorted(self.mistakes, key=lambda mistake: (-mistake.loss, mistake.index))[:KEPT]

    @property
    def pictures(self) -> int:
        """How many were counted."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The part that was right; 0 of none."""
        return int(self.confusion.diagonal().sum()) / max(1, self.pictures)

    def by_class(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """Pictures, recall and precision of each class; None where there is nothing to divide by."""
        there, said = self.confusion.sum(1).tolist(), self.confusion.sum(0).tolist()
        right = self.confusion.diagonal().tolist()
        return [
            {
                "label": label,
                "pictures": there[i],
                "recall": right[i] / there[i] if there[i] else None,
                "precision": right[i] / said[i] if said[i] else None,
            }
            for i, label in enumerate(classes)
        ]


def write(
    folder: Path,
    classes: Sequence[str],
    history: Sequence[Mapping[str, float]],
    tally: Tally,
    picture: Callable[[int], Image.Image],
    name: Callable[[int], str],
) -> str:
    """Writes the report and returns a sentence about it; what cannot be written or drawn is told there, never raised.

    `history`: an epoch's metrics each, in order, with `epoch` among them. `picture` and `name` give the upright picture
    and the file's name of an index that the tally counted.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        document = numbers(classes, history, tally, name)
        (folder / "report.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        drawn = {
            "curve.png": report_pictures.curve(history),
            "confusion.png": report_pictures.confusion(tally.confusion.tolist(), classes),
            "most_wrong.png": report_pictures.contact_sheet(
                [(picture(wrong.index), captions(wrong, classes, name(wrong.index))) for wrong in tally.mistakes]
            ),
        }
        for file, image in drawn.items():
            if image is not None:
                image.save(folder / file)
            elif (folder / file).exists():
                (folder / file).unlink()
    except Exception as error:  # noqa: BLE001 - a report must not end a training, whatever a drawing library lets out
        return f"The report in {folder} is not whole: {first_line(error)}"
    worst = f"the {len(tally.mistakes)} most wrong" if tally.mistakes else "none wrong"
    return f"The report is in {folder}: the curve, the confusions, and {worst} of {tally.pictures} pictures."


def numbers(
    classes: Sequence[str], history: Sequence[Mapping[str, float]], tally: Tally, name: Callable[[int], str]
) -> dict[str, Any]:
    """The report as a JSON document; a number that is not finite is null."""
    return {
        "pictures": tally.pictures,
        "accuracy": tally.accuracy,
        "classes": tally.by_class(classes),
        "confusion": tally.confusion.tolist(),
        "most_wrong": [
            {
                "file": name(wrong.index),
                **asdict(wrong),
                "label": classes[wrong.label],
                "predicted": classes[wrong.predicted],
            }
            for wrong in tally.mistakes
        ],
        "history": [
            {key: value if math.isfinite(value) else None for key, value in epoch.items()} for epoch in history
        ],
    }


def captions(wrong: Mistake, classes: Sequence[str], file: str) -> tuple[str, str]:
    """What stands below a picture: what it was taken for, and what it is in which file."""
    said = f"{wrong.probability:.0%} {printable(classes[wrong.predicted])}"
    return f"said {said}", f"is {printable(classes[wrong.label])}: {printable(Path(file).name)}"
