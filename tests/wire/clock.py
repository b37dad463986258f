"""The server's clock and its agenda: what happens at a moment, in order, when the clock gets there."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

NEVER = "0001-01-01T00:00:00+00:00"
"""How the service writes the end of what has not ended."""


def stamp(moment: datetime) -> str:
    """A moment as the service writes it: seven digits and the offset."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "0+00:00"


class Clock:
    """A clock that runs `speed` times as fast as time, or only when it is moved (speed 0)."""

    def __init__(self, speed: float = 0.0) -> None:
        """Start at the present."""
        self.speed = speed
        self._base = datetime.now(UTC)
        self._since = time.monotonic()
        self._agenda: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._present: datetime | None = None

    @property
    def now(self) -> datetime:
        """The moment it is; while something on the agenda happens, the moment for which that was set."""
        if self._present is not None:
            return self._present
        return self._base + timedelta(seconds=(time.monotonic() - self._since) * self.speed)

    @now.setter
    def now(self, moment: datetime) -> None:
        self._base, self._since = moment, time.monotonic()

    @contextmanager
    def at(self, moment: datetime) -> Iterator[None]:
        """Inside, it is that moment: to seed what is said to have been made then."""
        before, self._present = self._present, moment
        try:
            yield
        finally:
            self._present = before

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Put an act on the agenda."""
        heapq.heappush(self._agenda, (self.now + timedelta(seconds=seconds), next(self._order), act))

    def settle(self) -> None:
        """Let everything happen that is due, each at its moment; what it puts on the agenda too, if that is due."""
        now = self.now
        while self._agenda and self._agenda[0][0] <= now:
            self._present, _, act = heapq.heappop(self._agenda)
            try:
                act()
            finally:
                self._present = None
