"""A search through a log that grows: the next match at once, all of them counted meanwhile, off the screen's thread."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

from footplate.logs.lines import Lines
from footplate.logs.search import Search
from footplate.widgets.log_read import update_interval

MOST_COUNTED = 100_000
"""Lines that match after which they are counted no further: each is looked at as it is shown, which takes its time."""


class Unwanted(Exception):
    """Ends a search in the middle of a slice's turn."""


class _WhileWanted:
    """A pattern whose search ends, at the next slice of the log, when nobody waits for it any more."""

    def __init__(self, pattern: Any, stop: threading.Event) -> None:
        self._pattern, self._stop = pattern, stop

    def search(self, data: bytes, start: int = 0, /) -> Any:
        """The first match from `start` on, or None. Raises Unwanted."""
        if self._stop.is_set():
            raise Unwanted
        return self._pattern.search(data, start)


class Finder:
    """Finds and counts the lines of a log that match. `tell` is called in threads, with the line a step led to or none.

    The numbers of all lines that match are kept; where they are known up to the log's end, a step needs no reading.
    """

    def __init__(self, lines: Lines, search: Search, tell: Callable[[Finder], object]) -> None:
        self.error = ""
        self.busy = False
        """Whether a step is under way."""
        self.line: int | None = None
        """The match that is stood on."""
        self.arrivals = 0
        """Steps that are done."""
        self.counted = False
        """Whether all that is there has been counted."""
        self._lines, self._tell = lines, tell
        self._stop, self._grown = threading.Event(), threading.Event()
        self._search: Search = replace(search, data=_WhileWanted(search.data, self._stop))
        self._hits = array("Q")
        self._covered = 0  # lines before this one have been counted
        self._lock = threading.Lock()

    def start(self, at: int) -> None:
        """Go to the first match from a line on, then count."""
        self.busy = True
        threading.Thread(target=self._run, args=(at,), name="footplate-log-search", daemon=True).start()

    def stop(self) -> None:
        """Nobody wants to know any more."""
        self._stop.set()
        self._grown.set()

    def grow(self) -> None:
        """There are more lines than when it was counted."""
        self.counted = False
        self._grown.set()

    def step(self, here: int, direction: int) -> bool:
        """Go to the next match after a line, or before; whether that is done already. Starts over at the log's ends."""
        with self._lock:
            if self.counted and not self.error:
                if self._hits:
                    found = bisect_right(self._hits, here) if direction > 0 else bisect_left(self._hits, here) - 1
                    self.line = self._hits[found % len(self._hits)]
                self.arrivals += 1
                return True
        self.busy = True
        threading.Thread(
            target=self._seek, args=(here + direction, direction), name="footplate-log-seek", daemon=True
        ).start()
        return False

    @property
    def too_many(self) -> bool:
        """Whether there are more than are counted."""
        return len(self._hits) > MOST_COUNTED

    def count(self) -> int:
        """Lines that match, as far as they are counted."""
        return len(self._hits)

    def ordinal(self) -> int | None:
        """The how-manyth match is stood on, counted from 1; None where that is not known yet."""
        with self._lock:
            if self.line is None or not (self.counted or self.line < self._covered):
                return None
            return bisect_left(self._hits, self.line) + 1

    def _run(self, at: int) -> None:
        self._seek(at, 1)
        while not self._stop.is_set() and not self.error:
            self._grown.clear()
            self._guarded(self._count)
            self._tell(self)
            self._grown.wait()

    def _seek(self, at: int, direction: int) -> None:
        def seek() -> None:
            self.line = self._search.next_line(self._lines, at if at >= 0 else self._lines.lines - 1, direction)

        self._guarded(seek)
        self.arrivals += 1
        self.busy = False
        if not self._stop.is_set():
            self._tell(self)

    def _count(self) -> None:
        """Count on to the present end; a line that is not whole may match later, or no more."""
        if self.too_many:
            return
        told, end = monotonic(), self._lines.lines
        whole = end if self._lines.complete(end - 1) else end - 1
        with self._lock:
            while self._hits and self._hits[-1] >= self._covered:
                self._hits.pop()
        for number in self._search.lines(self._lines, self._covered):
            if self._stop.is_set() or self.too_many:
                return
            with self._lock:
                self._hits.append(number)
                if number < whole:
                    self._covered = max(self._covered, number + 1)
            if monotonic() - told > update_interval():
                told = monotonic()
                self._tell(self)
        with self._lock:
            self._covered = max(self._covered, whole)
            self.counted = not self._grown.is_set()

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Unwanted:
            pass  # it was stopped: nobody is told
        except TimeoutError:
            self.error = "the search was given up: this expression takes too long"
        except OSError as fault:
            self.error = f"the search failed: {fault.strerror or fault}"


class Matches:
    """The search of a view: what it has found, and the steps that were pressed for while it was under way."""

    def __init__(self, hear: Callable[[Finder], object]) -> None:
        self.finder: Finder | None = None
        self._hear = hear
        self._steps = self._arrivals = 0

    @property
    def line(self) -> int | None:
        """The match that is stood on."""
        return self.finder.line if self.finder is not None else None

    def arrived(self) -> bool:
        """Whether a step is done since this was asked the last time."""
        arrivals, self._arrivals = self._arrivals, self.finder.arrivals if self.finder is not None else 0
        return self._arrivals > arrivals

    def start(self, lines: Lines, search: Search, at: int) -> None:
        """Search from a line on, in place of what was searched for before."""
        self.stop()
        self.finder = Finder(lines, search, self._hear)
        self.finder.start(at)

    def stop(self) -> None:
        """Search no more."""
        if self.finder is not None:
            self.finder.stop()
        self.finder, self._steps, self._arrivals = None, 0, 0

    def grow(self) -> None:
        """There are more lines."""
        if self.finder is not None:
            self.finder.grow()

    def step(self, direction: int) -> None:
        """Go to the next match, or the one before, after the steps that are still to be done."""
        self._steps += direction

    def advance(self, seen: range) -> bool:
        """Do what steps can be done now; whether any led somewhere at once. `seen` are the lines in sight."""
        finder, moved = self.finder, False
        while finder is not None and not finder.busy and self._steps and not finder.error:
            direction = 1 if self._steps > 0 else -1
            self._steps -= direction
            here = finder.line
            if not moved and (
                here is None or here not in seen
            ):  # it was scrolled away from: go on from what is read now
                here = seen.start - 1 if direction > 0 else seen.stop
            moved = finder.step(here or 0, direction)
        return moved

    @property
    def text(self) -> str:
        """What was found, in words."""
        finder = self.finder
        if finder is None or finder.error:
            return finder.error if finder is not None else ""
        if finder.line is None:
            return "searching …" if finder.busy else "no match"
        ordinal = finder.ordinal()
        if ordinal is None:
            return f"line {finder.line + 1:,}"
        if finder.too_many:
            return f"{ordinal:,} of more than {MOST_COUNTED:,}"
        return f"{ordinal:,} of {finder.count():,}{'' if finder.counted else ' so far'}"
