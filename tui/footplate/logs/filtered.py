"""The lines of a log that a person wants to see: a search, levels, a stretch of time, and context round what is found."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Any

from footplate.logs.levels import Level, begins_traceback, candidates, level_at, level_of, traceback_end
from footplate.logs.lines import Lines, Pattern, Place
from footplate.logs.sanitise import parse_line
from footplate.logs.search import Brief, Search
from footplate.logs.where import first_since

_SLICE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines: those that a search finds (`inverse`: the others), of a level and above, written from `since` to `until`.

    `before` and `after` are the lines of context round each.
    """

    search: Search | None = None
    inverse: bool = False
    before: int = 0
    after: int = 0
    least: Level = Level.NONE
    since: datetime | None = None
    until: datetime | None = None


class _Closed(Exception):
    """Ends a search through the lines."""


class Filtered:
    """Lines of others, themselves lines. Between two groups with context stands a mark that says how much was left out.

    `scan()` takes in what is new of the others too, and then looks through it in slices. `close()` leaves the others open. A
    line without a time belongs to the stretch that the line before it is in; where no line has one, none is shown.
    """

    def __init__(self, base: Lines, wanted: Wanted) -> None:
        self.base = base
        self.wanted = wanted
        self.restarts = 0
        self.fault = ""
        """Why no more lines are looked for: an expression that takes too long."""
        self._base_restarts = base.restarts
        self._closed = False
        self._lock = threading.Lock()  # over the entries, whose end may be replaced
        self._candidates = candidates(wanted.least) if wanted.least else None
        self._begin()

    def _begin(self) -> None:
        # Of line n of the others 2n + 1; of a mark before it 2n.
        self._entries: array[int] = array("Q")
        self._solid = 0  # entries that will not change
        self._examined = 0  # lines of the others before this one are decided
        self._low: int | None = 0 if self.wanted.since is None else None
        self._next = 0  # the line after the last entry's
        self._context = 0  # lines before this one are context of a hit
        self._provided = False  # entries after the solid ones may change
        self._seen: tuple[int, int, int] | None = None  # what the provided ones were made of

    # What is there

    @property
    def size(self) -> int:
        """Bytes known of the others."""
        return self.base.size

    @property
    def redraws(self) -> int:
        """As of the others."""
        return self.base.redraws

    @property
    def lines(self) -> int:
        """Lines that are wanted, with context and marks."""
        return len(self._entries)

    @property
    def examined(self) -> int:
        """Lines of the others that have been looked at."""
        return self._examined

    def complete(self, number: int) -> bool:
        """Whether an entry will not change."""
        entry = self._entry(number)
        return entry is not None and number < self._solid and self.base.complete(entry >> 1)

    def base_number(self, number: int) -> int | None:
        """Which line of the others this is; of a mark, the line after it. None for no entry."""
        entry = self._entry(number)
        return None if entry is None else entry >> 1

    def nearest(self, base_number: int) -> int:
        """The entry of a line of the others, else the first one after it."""
        with self._lock:
            return bisect_left(self._entries, 2 * base_number + 1)

    def display(self, number: int) -> tuple[bytes, int]:
        """What there is to show of a line, and how many bytes are left out."""
        line = self._line(number)
        return (self._mark(number), 0) if line is None else self.base.display(line)

    def raw(self, number: int) -> bytes:
        """The whole of a line; nothing for a mark."""
        line = self._line(number)
        return b"" if line is None else self.base.raw(line)

    def place(self, number: int) -> Place:
        """Where the line stands in its file; a mark stands where the line after it does."""
        return self.base.place(self.base_number(number) or 0)

    def tag(self, number: int) -> str:
        """As of the others."""
        line = self._line(number)
        return "" if line is None else self.base.tag(line)

    def time(self, number: int) -> datetime | None:
        """As of the others."""
        line = self._line(number)
        return None if line is None else self.base.time(line)

    def search(self, pattern: Pattern, start: int, direction: int = 1) -> Iterator[int]:
        """The numbers of entries whose lines match."""
        start = min(max(start, 0), self.lines - 1) if direction < 0 else start
        first = self.base_number(start)
        if first is None:
            return
        for line in self.base.search(pattern, first, direction):
            at = self.nearest(line)
            if self._line(at) == line and (at >= start if direction > 0 else at <= start):
                yield at

    def close(self) -> None:
        """Look no further; the lines behind these stay open."""
        self._closed = True

    # Building

    def scan(self) -> bool:
        """Take in what is new, and look through some of it; whether there was anything new."""
        grown = self.base.scan()
        if self._closed:
            return False
        if self.base.restarts != self._base_restarts:
            with self._lock:
                self._begin()
            self._base_restarts, self.restarts = self.base.restarts, self.restarts + 1
            grown = True
        try:
            return (not self.fault and self._look()) or grown
        except TimeoutError:
            self.fault = "This expression takes too long: make it simpler."
            return True
        except _Closed:
            return False

    def _look(self) -> bool:
        """Decide about more lines, for a slice of time; whether anything changed."""
        known = self.base.lines
        limit = known if known and self.base.complete(known - 1) else max(0, known - 1)
        stop = self._until(limit)
        begin = self._from(self._until(known))
        if begin is None:
            self._examined = stop
            return False
        before = (self._examined, self._solid)
        if begin < stop:
            deadline, self._examined = 0.0, begin
            for line in self._hits(begin, stop):
                deadline = (
                    deadline or monotonic() + _SLICE_SECONDS
                )  # from the first on: a search begun anew costs as much again
                self._add(line)
                self._examined = line + 1
                if monotonic() > deadline:
                    break
            self._fill(min(self._context, self._examined))
            if not self._provided:
                self._solid = len(self._entries)
        moved = (self._examined, self._solid) != before
        if moved and self._examined < stop:
            return True
        seen = (self.base.size, known, self._examined)
        if seen == self._seen:
            return moved
        self._provide(self._until(known))
        self._seen = seen
        return True

    def _from(self, end: int) -> int | None:
        """The first line to be decided about; None while none before `end` is known to be young enough."""
        if self._low is None and self.wanted.since is not None:
            first = first_since(self.base, self.wanted.since)
            if first is None or first >= end:
                return None
            self._low = first
            self._next = first
        return max(self._examined, self._low or 0)

    def _until(self, limit: int) -> int:
        if self.wanted.until is None:
            return limit
        first = first_since(self.base, self.wanted.until)
        return limit if first is None else min(limit, first)

    def _hits(self, begin: int, stop: int) -> Iterator[int]:
        """The wanted lines among those from `begin` to `stop`, and `_examined` moved to where the rest must wait."""
        search = self.wanted.search
        if self._candidates is not None:
            for line in self._grave(begin, stop):
                if search is None or self._found(search, line):
                    yield line
            return
        if search is None:
            found: Iterator[int] = iter(range(begin, stop))
        else:
            found = self._searched(search, begin, stop)
            if self.wanted.inverse:
                found = _others(found, begin, stop)
        yield from found
        self._examined = stop

    def _searched(self, search: Search, begin: int, stop: int) -> Iterator[int]:
        for line in replace(search, data=_WhileOpen(search.data, self)).lines(self.base, begin):
            if line >= stop:
                return
            yield line

    def _grave(self, begin: int, stop: int) -> Iterator[int]:
        """The lines of the level and above; of a traceback, which is an error, all lines."""
        assert self._candidates is not None
        base, least = self.base, self.wanted.least
        while begin < stop and level_of(_text(base, begin)) is Level.NONE and level_at(base, begin) >= least:
            yield begin  # the rest of a traceback in which a slice ended
            begin += 1
        for line in base.search(_WhileOpen(Brief(self._candidates), self), begin):
            if line >= stop:
                break
            if line < begin:
                continue
            text = _text(base, line)
            if begins_traceback(text):
                end = traceback_end(base, line, stop)
                if end is None:  # more of it may come
                    self._examined = line
                    return
                yield from range(line, end)
                begin = end
            elif level_of(text) >= least:
                yield line
        self._examined = stop

    def _found(self, search: Search, line: int) -> bool:
        return bool(search.shown.search(_text(self.base, line))) != self.wanted.inverse

    def _provide(self, known: int) -> None:
        """Show what cannot be decided for good yet: a last line without its end, a traceback that may go on."""
        self._drop_provided()
        wanted, kept = self.wanted, (self._next, self._context)
        for line in range(max(self._examined, self._low or 0), known):
            if wanted.least and level_at(self.base, line) < wanted.least:
                continue
            if wanted.search is None or self._found(wanted.search, line):
                self._add(line)
        self._fill(min(self._context, known))
        self._next, self._context = kept
        self._provided = len(self._entries) > self._solid

    def _drop_provided(self) -> None:
        if self._provided:
            with self._lock:
                del self._entries[self._solid :]
            self._provided, self._seen = False, None

    def _add(self, line: int) -> None:
        """Take in a hit with the context before it, and what was due after the one before."""
        self._fill(min(self._context, line))
        first = max(self._next, line - self.wanted.before, self._low or 0)
        self._drop_provided()
        with self._lock:
            if first > self._next and self._entries and (self.wanted.before or self.wanted.after):
                self._entries.append(2 * first)
            self._entries.extend(range(2 * first + 1, 2 * line + 2, 2))
        self._next = line + 1
        self._context = line + 1 + self.wanted.after

    def _fill(self, to: int) -> None:
        """Take in the context after the last hit, as far as there is any."""
        if to > self._next:
            self._drop_provided()
            with self._lock:
                self._entries.extend(range(2 * self._next + 1, 2 * to + 1, 2))
            self._next = to

    def _entry(self, number: int) -> int | None:
        with self._lock:
            return self._entries[number] if 0 <= number < len(self._entries) else None

    def _line(self, number: int) -> int | None:
        """The line of the others that an entry is; None for a mark, or where there is no such entry."""
        entry = self._entry(number)
        return entry >> 1 if entry is not None and entry & 1 else None

    def _mark(self, number: int) -> bytes:
        entry, before = self._entry(number), self._entry(number - 1)
        if entry is None or before is None:
            return b""
        left_out = (entry >> 1) - (before >> 1) - 1
        return f"··· {left_out:,} {'line' if left_out == 1 else 'lines'} ···".encode()


class _WhileOpen:
    """A pattern whose search ends with the lines that wanted it."""

    def __init__(self, pattern: Pattern, owner: Filtered) -> None:
        self._pattern, self._owner = pattern, owner

    def search(self, data: bytes, start: int = 0, /) -> Any:
        """The first match from `start` on, or None. Raises _Closed."""
        if self._owner._closed:
            raise _Closed
        return self._pattern.search(data, start)


def _others(found: Iterator[int], begin: int, stop: int) -> Iterator[int]:
    """The lines from `begin` to `stop` that are not among those found, which come in order."""
    for line in found:
        yield from range(begin, line)
        begin = line + 1
    yield from range(begin, stop)


def _text(lines: Lines, number: int) -> str:
    return parse_line(*lines.display(number)).text
