"""Where each line of a growing log file begins: a line index that one thread builds while another reads lines.

The file is only counted: how many lines begin before each quarter of a MiB. Where exactly the lines of one such block
begin is found when a line of it is looked at. So a log of millions of lines opens as fast as it can be read, and costs
a few bytes a block. Where progress bars step up over lines, `Redraw` says what these lines were left with.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from time import time
from typing import NamedTuple

from footplate.logs.arrivals import Arrivals
from footplate.logs.lines import Pattern, Place
from footplate.logs.redraw import STEP, Redraw, unfinished
from footplate.logs.sanitise import DISPLAY_LIMIT, last_state, parse_line

READ = 1024 * 1024
"""Bytes read by one `scan()`, and searched at a time."""

BLOCK = 256 * 1024
"""Bytes of the file between two counts."""

_HELD_BLOCKS = 16
_SEAM = 64 * 1024  # overlap of the pieces of a line longer than one read, in a search
_TAIL = 64  # bytes before the end that must still be there when a file has grown
_LINE_END = re.compile(rb"\n")


class _End(NamedTuple):
    """How far the file is known: bytes, line ends in them, and whether text follows the last line end."""

    size: int
    line_ends: int
    open: bool

    @property
    def lines(self) -> int:
        """Lines, an unfinished last one included."""
        return self.line_ends + self.open


@dataclass(slots=True)
class _Map:
    """One generation of the file: replaced as a whole when the file was truncated or replaced."""

    descriptor: int
    inode: tuple[int, int]
    end: _End = field(default_factory=lambda: _End(0, 0, False))
    waiting: int = 0  # bytes after the end that are an escape sequence in part
    tail: bytes = b""
    before: array[int] = field(default_factory=lambda: array("Q", [0]))  # line ends before each block's first byte
    held: dict[int, tuple[int, array[int]]] = field(default_factory=dict)  # of a block: known size, where lines end
    kept: dict[int, array[int]] = field(default_factory=dict)  # the same of blocks in which bars were drawn over lines
    redraw: Redraw | None = None


class LineIndex:
    """The lines of an append-only file which may not exist yet, may grow, and may be truncated or replaced.

    One thread calls `scan()`; others may at any time use everything else. `restarts` counts how often the file
    turned out to be another one; line numbers of before then mean nothing any more. Lines are counted from 0.
    """

    def __init__(
        self, path: Path, name: str = "", arrivals: Arrivals | None = None, zone: tzinfo | None = None
    ) -> None:
        """`name` is the file as a workspace names it; `zone` is where times without a zone were written (None: here)."""
        self.path = path
        self.name = name
        self.restarts = 0
        self.redraws = 0
        self._zone = zone
        self._told_arrivals = arrivals
        self._arrivals = arrivals or Arrivals()
        self._map: _Map | None = None
        self._lock = threading.Lock()  # over the descriptor, which a restart closes, and the blocks held
        self._closed = False
        self._looked = False

    @property
    def size(self) -> int:
        """Bytes indexed so far."""
        current = self._map
        return current.end.size + current.waiting if current else 0

    @property
    def lines(self) -> int:
        """Lines known so far, an unfinished last one included."""
        current = self._map
        return current.end.lines if current else 0

    def complete(self, number: int) -> bool:
        """Whether line `number` has its line end, and so stays as it is unless it is drawn over (`redraws`)."""
        current = self._map
        return current is not None and 0 <= number < current.end.line_ends

    def scan(self) -> bool:
        """Index up to 1 MiB more and return whether there was anything new; call until False, then wait a little.

        Raises `OSError` where the file is there but cannot be read.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._looked = True
            return False
        inode = (status.st_dev, status.st_ino)
        current = self._map
        if current is None or current.inode != inode or status.st_size < current.end.size:
            return self._begin(current, status.st_size)
        size = current.end.size
        if status.st_size == size + current.waiting:
            return False
        if current.tail and self._pread(current, size - len(current.tail), len(current.tail)) != current.tail:
            return self._begin(current, status.st_size)
        data = self._pread(current, size, READ)
        if self._told_arrivals is not None:
            self._told_arrivals.refresh()
        else:
            self._arrivals.note(size, time())
        if data:
            redraws = current.redraw.drawn_over if current.redraw else 0
            self._take(current, data)
            self.redraws += (current.redraw.drawn_over if current.redraw else 0) - redraws
        return bool(data)

    def display(self, number: int) -> tuple[bytes, int]:
        """Return at most 8 KiB of a line without its line end, and how many bytes of it were left out.

        Of a longer line which ends in a carriage return's last state (a progress bar) that state is returned.
        """
        with self._lock:
            current = self._map
            if current is None or not 0 <= number < current.end.lines:
                return b"", 0
            start, end = _shown(current, number)
            if end - start <= DISPLAY_LIMIT:
                return os.pread(current.descriptor, end - start, start).rstrip(b"\r\n"), 0
            tail = os.pread(current.descriptor, DISPLAY_LIMIT, end - DISPLAY_LIMIT).rstrip(b"\r\n")
            state = last_state(tail)
            if len(state) < len(tail):
                return state, 0
            head = os.pread(current.descriptor, DISPLAY_LIMIT, start)
            return head, end - start - len(head)

    def raw(self, number: int) -> bytes:
        """Return the whole of a line, byte for byte, without its newline; what was drawn over it stands in a later one."""
        with self._lock:
            current = self._map
            if current is None or not 0 <= number < current.end.lines:
                return b""
            start, end = _bounds(current, number)
            return os.pread(current.descriptor, end - start, start).removesuffix(b"\n")

    def place(self, number: int) -> Place:
        """The file as the workspace names it, and the line's number."""
        return Place(self.name, number)

    def tag(self, number: int) -> str:
        """None: it is one file."""
        return ""

    def time(self, number: int) -> datetime | None:
        """When a line was written as it says itself, else when it arrived here; None where neither is known."""
        with self._lock:
            current = self._map
            if current is None or not 0 <= number < current.end.lines:
                return None
            start = _shown(current, number)[0]
        from footplate.logs.times import time_in  # its expressions are not free, and a log may open without

        arrived = self._arrivals.at(start)
        near = arrived or datetime.now(UTC)
        return time_in(parse_line(*self.display(number)).text, self._zone, near) or arrived

    def search(self, pattern: Pattern, start: int, direction: int = 1) -> Iterator[int]:
        """Yield the numbers of the lines that match, from line `start` on (`direction` 1) or back (-1).

        The pattern sees many lines at once: anchors need `re.MULTILINE`. Ends early when the file is replaced.
        """
        current, limit = self._map, self.lines
        if current is None or not limit:
            return
        drawn = sorted(current.redraw.rows) if current.redraw else []
        number = min(max(start, 0), limit - 1) if direction < 0 else max(start, 0)
        while 0 <= number < limit:
            with self._lock:
                if current is not self._map:
                    return
                first, last = _slice(current, number, limit, direction)
                begin, end = _bounds(current, first)[0], _bounds(current, last)[1]
            over = drawn[bisect_left(drawn, first) : bisect_right(drawn, last)]
            if over and first == last:
                found = []
            elif end - begin > READ:  # one line longer than a read: in pieces
                pieces = (self._pread(current, at, min(READ + _SEAM, end - at)) for at in range(begin, end, READ))
                found = [first] if any(map(pattern.search, pieces)) else []
            else:
                found = list(self._matches(current, pattern, begin, self._pread(current, begin, end - begin)))
            if over:  # of lines that were drawn over, what they were left with counts
                left = [line for line in over if pattern.search(self.display(line)[0])]
                found = sorted(set(found).difference(over).union(left))
            yield from found if direction > 0 else reversed(found)
            number = last + 1 if direction > 0 else first - 1

    def close(self) -> None:
        """Let go of the file; the index holds no lines from then on."""
        with self._lock:
            self._closed = True
            self._release()

    def _begin(self, old: _Map | None, size: int) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        status = os.fstat(descriptor)
        with self._lock:
            self._release()
            if self._closed:
                os.close(descriptor)
                return False
            self._map = _Map(descriptor, (status.st_dev, status.st_ino))
            if old is not None:
                self.restarts += 1
        if self._told_arrivals is None:
            self._arrivals = Arrivals()
            if not self._looked:  # what was there at the first look came nobody knows when
                self._arrivals.note(0, None)
                self._arrivals.note(size, time())
        self._looked = True
        return old is not None or self.scan()

    def _release(self) -> None:
        if self._map is not None:
            with contextlib.suppress(OSError):
                os.close(self._map.descriptor)
            self._map = None

    def _pread(self, current: _Map, start: int, length: int) -> bytes:
        """Read from a generation that is still held; nothing where it was let go meanwhile."""
        with self._lock:
            return os.pread(current.descriptor, length, start) if current is self._map else b""

    def _take(self, current: _Map, data: bytes) -> None:
        """Take what follows the known end into account; an escape sequence in part waits for its rest."""

        def starts(line: int) -> int:
            with self._lock:
                return _line_end(current, line) if current is self._map else current.end.size

        def read(start: int, length: int) -> bytes:
            return self._pread(current, start, length)

        waiting = unfinished(data)
        if waiting:
            data = data[:-waiting]
        redraw = current.redraw
        if (redraw is None or redraw.present is None) and not STEP.search(data):
            _count(current, data)
        elif data:
            current.redraw = redraw = redraw or Redraw()
            size, line_ends, _ = current.end
            _count_ends(current, data, redraw.feed(data, size, line_ends, starts, read), read)
        current.waiting = waiting

    def _matches(self, current: _Map, pattern: Pattern, begin: int, data: bytes) -> Iterator[int]:
        """Yield the lines that match within whole lines of the file, which begin at `begin`; each once."""
        match = pattern.search(data)
        while match:
            with self._lock:
                if current is not self._map:
                    return
                number = _line_at(current, begin + match.start())
                after = _bounds(current, number)[1] - begin
            yield number
            match = pattern.search(data, after) if after < len(data) else None


def _count(current: _Map, data: bytes) -> None:
    """Count the lines of what follows the known end, in which nothing is drawn over."""
    if not data:
        return
    size, line_ends, _ = current.end
    if (kept := current.kept.get(size // BLOCK)) is not None:
        kept.extend(size + found.end() for found in _LINE_END.finditer(data, 0, BLOCK - size % BLOCK))
    begin = 0
    while begin < len(data):
        end = min(len(data), begin + BLOCK - size % BLOCK)
        line_ends += data.count(b"\n", begin, end)
        size += end - begin
        if size % BLOCK == 0:
            current.before.append(line_ends)
        begin = end
    _advance(current, data, _End(size, line_ends, not data.endswith(b"\n")))


def _count_ends(current: _Map, data: bytes, ends: array[int], read: Callable[[int, int], bytes]) -> None:
    """The same for lines that were found to begin at `ends`: other line ends begin none, so the blocks remember theirs."""
    size, line_ends, _ = current.end
    after = size + len(data)
    for block in range(size // BLOCK, (after - 1) // BLOCK + 1):
        begin = block * BLOCK
        kept = current.kept.get(block)
        if kept is None:
            before = read(begin, size - begin) if begin < size else b""
            kept = array("Q", [begin + found.end() for found in _LINE_END.finditer(before)])
        first, last = bisect_right(ends, begin), bisect_right(ends, begin + BLOCK)
        kept.extend(ends[first:last])
        current.kept[block] = kept
        if begin + BLOCK <= after:
            current.before.append(line_ends + last)
    _advance(current, data, _End(after, line_ends + len(ends), not ends or ends[-1] < after))


def _advance(current: _Map, data: bytes, end: _End) -> None:
    current.tail = (current.tail + data[-_TAIL:])[-_TAIL:]
    current.end = end


def _shown(current: _Map, number: int) -> tuple[int, int]:
    """Return where what a line was left with begins and ends."""
    redraw = current.redraw
    if redraw is None:
        return _bounds(current, number)
    present = redraw.present
    if present is not None and present[0] == number:
        start, end = present[1], current.end.size
        if end > start and os.pread(current.descriptor, min(64, end - start), start).strip(b"\r"):
            return start, end
    return redraw.rows.get(number) or _bounds(current, number)


def _block(current: _Map, number: int) -> array[int]:
    """Return where lines end in a block, as file offsets of what follows."""
    if (kept := current.kept.get(number)) is not None:
        return kept
    begin = number * BLOCK
    size = min(BLOCK, current.end.size - begin)
    held = current.held.get(number)
    if held is not None and held[0] == size:
        return held[1]
    data = os.pread(current.descriptor, size, begin)
    ends = array("Q", [begin + match.end() for match in _LINE_END.finditer(data)])
    if len(current.held) >= _HELD_BLOCKS:
        current.held.pop(next(iter(current.held)))
    current.held[number] = (size, ends)
    return ends


def _line_end(current: _Map, count: int) -> int:
    """Return the offset after the line end that is the `count`th of the file; 0 for none, the size for one too many."""
    if count <= 0:
        return 0
    if count > current.end.line_ends:
        return current.end.size
    block = bisect_left(current.before, count) - 1
    ends, place = _block(current, block), count - current.before[block] - 1
    # Fewer than were counted: the file was changed in place, which the next scan will find.
    return ends[place] if place < len(ends) else current.end.size


def _bounds(current: _Map, number: int) -> tuple[int, int]:
    """Return where a line begins and ends; the newline belongs to it."""
    start = _line_end(current, number)
    return start, max(start, _line_end(current, number + 1))


def _line_at(current: _Map, offset: int) -> int:
    """Return the number of the line that a byte belongs to."""
    block = min(offset // BLOCK, len(current.before) - 1)
    return current.before[block] + bisect_right(_block(current, block), offset)


def _slice(current: _Map, number: int, limit: int, direction: int) -> tuple[int, int]:
    """Return the first and last of the lines, from `number` on or back, that fit into one read; at least one."""
    start, end = _bounds(current, number)
    if direction > 0:
        return number, max(number, min(limit, _line_at(current, min(start + READ, current.end.size))) - 1)
    first = _line_at(current, max(end - READ, 0))
    if _bounds(current, first)[0] < end - READ:
        first += 1
    return min(first, number), number
