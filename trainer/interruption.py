"""When a training saves and when it stops: SIGTERM and the clock of one rank, made into a decision that all take at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

import torch
from distributed import Ranks
from errors import Preempted

EVERY_STEPS = 2
"""Steps between two looks at the store, in which others may have asked to save or to stop."""

Decision = Literal["go on", "save", "stop"]


class Interruption:
    """Asked by all ranks after the same steps, it gives all of them the same answer.

    A rank that wants something says so in the store, for the next time that all ask. In between lies at least one step, and
    no rank ends a step before all others have come to it: by then all of them read the same.
    """

    def __init__(self, ranks: Ranks, minutes: float) -> None:
        self.ranks, self._seconds = ranks, minutes * 60
        self._saved = time.monotonic()
        self._terminated = False
        self._asked = 0
        self.training = False
        """While training, SIGTERM waits for the next decision; before and after, it ends the process at once."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes SIGTERM while it lasts."""
        before = signal.signal(signal.SIGTERM, self._on_term)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def _on_term(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True
        if not self.training:
            raise Preempted("SIGTERM came while nothing was being trained, so there was nothing to keep.")

    def after_step(self, step: int) -> Decision:
        """The decision after a step of the optimizer."""
        return self._decide(False) if step % EVERY_STEPS == 0 else "go on"

    def after_epoch(self) -> Decision:
        """The decision after an epoch's validation."""
        return self._decide(True)

    def saved(self) -> None:
        """A checkpoint was written: the clock starts anew."""
        self._saved = time.monotonic()

    def _decide(self, epoch_ended: bool) -> Decision:
        store, every_epoch = self.ranks.store, self._seconds == 0
        due = not every_epoch and time.monotonic() - self._saved > self._seconds
        by_all: Decision = "save" if every_epoch and epoch_ended else "go on"
        mine: Decision = "stop" if self._terminated else "save" if due and self.ranks.first else "go on"
        if store is None:
            return mine if mine != "go on" else by_all
        if self.ranks.device.type == "cuda":
            torch.cuda.synchronize()  # a GPU's steps end later than the calls that start them
        self._asked += 1
        key = f"decision/{self._asked}"
        found = store.get(key).decode() if store.check([key]) else ""
        if mine != "go on":
            store.set(f"decision/{self._asked + 1}", mine)
        return "stop" if found == "stop" else "save" if found == "save" else by_all
