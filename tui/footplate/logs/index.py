"""Where each line of a growing log file begins: a line index that one thread builds while another reads lines.

The file is only counted: how many lines begin before each quarter of a MiB. Where exactly the lines of one such block
begin is found when a line of it is looked at. So a log of millions of lines opens as fast as it can be read, and costs
a few bytes a block.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from footplate.logs.sanitise import DISPLAY_LIMIT, last_state

READ = 1024 * 1024
"""Bytes read by one `scan()`, and searched at a time: `re` holds the interpreter for as long, some 5 ms at most."""

BLOCK = 256 * 1024
"""Bytes of the file between two counts."""

_HELD_BLOCKS = 16
_SEAM = 64 * 1024  # overlap of the pieces of a line longer than one read, in a search
_TAIL = 64  # bytes before the end that must still be there when a file has grown

_UP = b"\x1b[A"
# Nested progress bars (tqdm) step down to the inner bar and up again at every update. A newline straight after a step
# up begins no line: what follows is the next state of the same one, as after a carriage return.
_LINE_END = re.compile(rb"\n")
_LINE_END_AMONG_UPS = re.compile(rb"(?<!\x1b\[A)\n")  # ten times slower


class _End(NamedTuple):
    """How far the file is known: bytes, line ends in them, and whether text follows the last line end."""

    size: int
    line_ends: int
    open: bool

    @property
    def lines(self) -> int:
        """Lines, an unfinished last one included."""
        return self.line_ends + self.open


class Pattern(Protocol):
    """What a search needs of a compiled expression over bytes."""

    def search(self, data: bytes, start: int = 0, /) -> Any:
        """The first match from `start` on, or None."""


@dataclass(slots=True)
class _Map:
    """One generation of the file: replaced as a whole when the file was truncated or replaced."""

    descriptor: int
    inode: tuple[int, int]
    end: _End = field(default_factory=lambda: _End(0, 0, False))
    tail: bytes = b""
    before: array[int] = field(default_factory=lambda: array("Q", [0]))  # line ends before each block's first byte
    held: dict[int, tuple[int, array[int]]] = field(default_factory=dict)  # of a block: known size, where lines end


class LineIndex:
    """The lines of an append-only file which may not exist yet, may grow, and may be truncated or replaced.

    One thread calls `scan()`; others may at any time use everything else. `restarts` counts how often the file
    turned out to be another one; line numbers of before then mean nothing any more. Lines are counted from 0.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restarts = 0
        self._map: _Map | None = None
        self._lock = threading.Lock()  # over the descriptor, which a restart closes, and the blocks held
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes indexed so far."""
        current = self._map
        return current.end.size if current else 0

    @property
    def lines(self) -> int:
        """Lines known so far, an unfinished last one included."""
        current = self._map
        return current.end.lines if current else 0

    def complete(self, number: int) -> bool:
        """Whether line `number` has its line end, and so will never change."""
        current = self._map
        return current is not None and 0 <= number < current.end.line_ends

    def scan(self) -> bool:
        """Index up to 1 MiB more and return whether there was anything new; call until False, then wait a little.

        Raises `OSError` where the file is there but cannot be read.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return False
        inode = (status.st_dev, status.st_ino)
        current = self._map
        if current is None or current.inode != inode or status.st_size < current.end.size:
            return self._begin(current)
        size = current.end.size
        if status.st_size == size:
            return False
        if current.tail and self._pread(current, size - len(current.tail), len(current.tail)) != current.tail:
            return self._begin(current)
        data = self._pread(current, size, READ)
        if data:
            _count(current, data)
        return bool(data)

    def line(self, number: int) -> bytes:
        """Return what there is to show of a line: at most 8 KiB; see `display`."""
        return self.display(number)[0]

    def display(self, number: int) -> tuple[bytes, int]:
        """Return at most 8 KiB of a line without its line end, and how many bytes of it were left out.

        Of a longer line which ends in a carriage return's last state (a progress bar) that state is returned.
        """
        with self._lock:
            current = self._map
            if current is None or not 0 <= number < current.end.lines:
                return b"", 0
            start, end = _bounds(current, number)
            if end - start <= DISPLAY_LIMIT:
                return os.pread(current.descriptor, end - start, start).rstrip(b"\r\n"), 0
            tail = os.pread(current.descriptor, DISPLAY_LIMIT, end - DISPLAY_LIMIT).rstrip(b"\r\n")
            state = last_state(tail)
            if len(state) < len(tail):
                return state, 0
            head = os.pread(current.descriptor, DISPLAY_LIMIT, start)
            return head, end - start - len(head)

    def raw(self, number: int) -> bytes:
        """Return the whole of a line, byte for byte, without its newline."""
        with self._lock:
            current = self._map
            if current is None or not 0 <= number < current.end.lines:
                return b""
            start, end = _bounds(current, number)
            return os.pread(current.descriptor, end - start, start).removesuffix(b"\n")

    def search(self, pattern: Pattern, start: int, direction: int = 1) -> Iterator[int]:
        """Yield the numbers of the lines that match, from line `start` on (`direction` 1) or back (-1).

        The pattern sees many lines at once: anchors need `re.MULTILINE`. Ends early when the file is replaced.
        """
        current, limit = self._map, self.lines
        if current is None or not limit:
            return
        number = min(max(start, 0), limit - 1) if direction < 0 else max(start, 0)
        while 0 <= number < limit:
            with self._lock:
                if current is not self._map:
                    return
                first, last = _slice(current, number, limit, direction)
                begin, end = _bounds(current, first)[0], _bounds(current, last)[1]
            if end - begin > READ:  # one line longer than a read: in pieces
                pieces = (self._pread(current, at, min(READ + _SEAM, end - at)) for at in range(begin, end, READ))
                found = [first] if any(map(pattern.search, pieces)) else []
            else:
                found = list(self._matches(current, pattern, begin, self._pread(current, begin, end - begin)))
            yield from found if direction > 0 else reversed(found)
            number = last + 1 if direction > 0 else first - 1

    def close(self) -> None:
        """Let go of the file; the index holds no lines from then on."""
        with self._lock:
            self._closed = True
            self._release()

    def _begin(self, old: _Map | None) -> bool:
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
    """Take what follows the known end into account."""
    size, line_ends, _ = current.end
    seen = current.tail[-len(_UP) :]  # a step up may lie across two reads
    text = seen + data
    ups = _UP + b"\n" in text
    begin = len(seen)
    while begin < len(text):
        end = min(len(text), begin + BLOCK - size % BLOCK)
        line_ends += text.count(b"\n", begin, end)
        if ups:
            line_ends -= text.count(_UP + b"\n", max(0, begin - len(_UP)), end)
        size += end - begin
        if size % BLOCK == 0:
            current.before.append(line_ends)
        begin = end
    current.tail = (current.tail + data[-_TAIL:])[-_TAIL:]
    current.end = _End(size, line_ends, not text.endswith(b"\n") or text.endswith(_UP + b"\n"))


def _block(current: _Map, number: int) -> array[int]:
    """Return where lines end in a block, as file offsets of what follows."""
    begin = number * BLOCK
    size = min(BLOCK, current.end.size - begin)
    held = current.held.get(number)
    if held is not None and held[0] == size:
        return held[1]
    lead = min(begin, len(_UP))
    data = os.pread(current.descriptor, size + lead, begin - lead)
    base = begin - lead
    pattern = _LINE_END_AMONG_UPS if _UP + b"\n" in data else _LINE_END
    ends = array("Q", [base + match.end() for match in pattern.finditer(data, lead)])
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
