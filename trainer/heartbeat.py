"""A sign of life from every rank, once a second, in the store where the ranks have met; it tells who is missing.

A thread sends it, so that a rank that loads data or waits is known to live, together with where its training has come to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from torch._C._distributed_c10d import Store

PERIOD_SECONDS = 1.0
LOOK_SECONDS = 1.8
"""How long a rank that is about to give up looks at the others: long enough for a beat, short enough to be still heard."""

QUIET_SECONDS = 30.0


@dataclass
class Beat:
    """The last sign of a rank, and when it was new here."""

    text: bytes = b""
    heard: float = 0.0

    @property
    def place(self) -> str:
        """Where the rank said it was."""
        return self.text.partition(b" ")[2].decode(errors="replace")


class Pulse:
    """This rank's beat, and what it hears of the others'."""

    def __init__(self, store: Store, rank: int, world_size: int, say: Callable[[str], None]) -> None:
        # A connection of its own: one that the training waits on would hold up the beat.
        self._own, self._store = store.clone(), store
        self.rank, self.world_size, self._say = rank, world_size, say
        self.place = "the start"
        self.beats = [Beat(heard=time.monotonic()) for _ in range(world_size)]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the beat."""
        self._ended.set()
        self._thread.join(5)

    def _run(self) -> None:
        number, told = 0, set[int]()
        while not self._ended.is_set():
            number += 1
            try:
                self._own.set(f"beat/{self.rank}", f"{number} {self.place}")
                if self.rank == 0:
                    self.listen(self._own)
                    self._tell(told)
            except RuntimeError:  # rank 0, which keeps the store, has gone: the training itself will find that out
                return
            self._ended.wait(PERIOD_SECONDS)

    def _tell(self, told: set[int]) -> None:
        for rank, beat in enumerate(self.beats):
            quiet = time.monotonic() - beat.heard
            if quiet > QUIET_SECONDS and rank not in told:
                told.add(rank)
                self._say(
                    f"Rank {rank} has not been heard of for {quiet:.0f} s; it was at {beat.place or 'the start'}."
                )
            elif quiet < QUIET_SECONDS and rank in told:
                told.discard(rank)
                self._say(f"Rank {rank} is heard of again.")

    def listen(self, store: Store) -> None:
        """Reads the others' beats; raises `RuntimeError` when the store is gone."""
        for rank, beat in enumerate(self.beats):
            key = f"beat/{rank}"
            text = store.get(key) if rank != self.rank and store.check([key]) else b""
            if rank == self.rank or text != beat.text:
                beat.text, beat.heard = text, time.monotonic()

    def silent_seconds(self, rank: int) -> float:
        """How long nothing new was heard of a rank."""
        self.listen(self._store)
        return time.monotonic() - self.beats[rank].heard

    def leave_word(self, sentence: str) -> None:
        """Tells the others why this rank ends."""
        try:
            self._store.set(f"ended/{self.rank}", sentence)
        except RuntimeError:
            return  # nobody keeps the store any more

    def culprits(self) -> str:
        """Which ranks are the cause of a failed exchange, in words, after a short look at all of them."""
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        try:
            self._store.set(f"stopping/{self.rank}", self.place)
            self.listen(self._store)
            before = [beat.text for beat in self.beats]
            until = time.monotonic() + LOOK_SECONDS
            while time.monotonic() < until:
                time.sleep(PERIOD_SECONDS / 5)
                words = [(rank, key) for rank in others if self._store.check([key := f"ended/{rank}"])]
                if words:
                    rank, key = words[0]
                    return f"rank {rank}, which ended: {self._store.get(key).decode(errors='replace')}"
            self.listen(self._store)
            going = [rank for rank in others if not self._store.check([f"stopping/{rank}"])]
            if self.rank == 0:
                time.sleep(PERIOD_SECONDS / 2)  # the store ends with this rank: let the others look, too
        except RuntimeError:
            return "rank 0, which kept the ranks' meeting point"
        silent = [rank for rank in going if self.beats[rank].text == before[rank]]
        named = [f"rank {rank} (last heard of at {self.beats[rank].place or 'the start'})" for rank in silent or going]
        return ", ".join(named) if named else "another rank"
