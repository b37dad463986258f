"""How far a training came, as its log tells it: the last epoch and step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LOOK_BACK = 2000
"""Lines from the end in which a word of progress is looked for."""

_NUMBER = r"[\"']?\s*[:=#\[(]?\s*(\d{1,12})(?:\s*(?:/|of)\s*(\d{1,12}))?"
_EPOCH = re.compile(rf"(?i)\bepochs?\b{_NUMBER}")
_STEP = re.compile(rf"(?i)\b(?:global[_ ]?step|train[_ ]?step|step|iter(?:ation)?|batch)s?\b{_NUMBER}")
_BAR = re.compile(r"\d%\|[^|]*\|\s*(\d{1,12})/(\d{1,12}) \[")


@dataclass(frozen=True, slots=True)
class Progress:
    """The last epoch and step, with how many there are to be where the log says so."""

    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None

    @property
    def told(self) -> str:
        """As in `epoch 3/30, step 120`; empty where nothing is known."""
        parts = [("epoch", self.epoch, self.epochs), ("step", self.step, self.steps)]
        return ", ".join(
            f"{name} {at}/{of}" if of is not None else f"{name} {at}" for name, at, of in parts if at is not None
        )


def tells_progress(text: str) -> bool:
    """Whether a line tells of an epoch or a step."""
    return bool(_EPOCH.search(text) or _STEP.search(text) or ("%|" in text and _BAR.search(text)))


def last_progress(lines: Sequence[str]) -> Progress:
    """The last epoch and the last step that the lines tell."""
    epoch: tuple[int | None, int | None] = (None, None)
    step: tuple[int | None, int | None] = (None, None)
    for text in reversed(lines[-_LOOK_BACK:]):
        if epoch[0] is None and (found := _EPOCH.search(text)):
            epoch = _numbers(found)
        if step[0] is None and (found := _STEP.search(text) or _BAR.search(text)):
            step = _numbers(found)
        if epoch[0] is not None and step[0] is not None:
            break
    return Progress(*epoch, *step)


def _numbers(found: re.Match[str]) -> tuple[int, int | None]:
    return int(found[1]), int(found[2]) if found[2] else None
