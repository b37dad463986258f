"""Where each line of a growing log file begins: a line index that one thread builds while another reads lines.

Only offsets are held (8 bytes a line); lines are read from the file when they are looked at, so a log of millions of
lines opens at once and costs little memory.
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

from footplate.logs.sanitise import DISPLAY_LIMIT, last_state

BLOCK = 1024 * 1024
"""Bytes read by one `scan()`, and searched at a time: `re` holds the interpreter for a block, some 5 ms at most."""

_SEAM = 64 * 1024  # overlap of the pieces of a line longer than a block, in a search
_NEWLINE = re.compile(rb"\n")
_UP = b"\x1b[A"
# Nested progress bars (tqdm) step down to the inner bar and up again at every update. A newline straight after a step
# up begins no line: what follows is the next state of the same one, as after a carriage return.
_NEWLINE_NOT_AFTER_UP = re.compile(rb"(?<!\x1b\[A)\n")
_TAIL = 64  # bytes before the end that must still be there when a file has grown


@dataclass(slots=True)
class _Map:
    """One generation of the file: replaced as a whole when the file was truncated or replaced."""

    descriptor: int
    inode: tuple[int, int]
    starts: array[int] = field(default_factory=lambda: array("Q", [0]))  # of every line; the last may not be begun
    size: int = 0
    tail: bytes = b""


class LineIndex:
    """The lines of an append-only file which may not exist yet, may grow, and may be truncated or replaced.

    One thread calls `scan()`; another may at any time use everything else. `restarts` counts how often the file
    turned out to be another one; line numbers of before then mean nothing any more. Lines are counted from 0.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restarts = 0
        self._map: _Map | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes indexed so far."""
        return self._map.size if self._map else 0

    @property
    def lines(self) -> int:
        """Lines known so far, an unfinished last one included."""
        return _lines(self._map) if self._map else 0

    def complete(self, number: int) -> bool:
        """Whether line `number` has its line end, and so will never change."""
        return self._map is not None and 0 <= number < len(self._map.starts) - 1

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
        if current is None or current.inode != inode or status.st_size < current.size:
            return self._begin(current)
        if status.st_size == current.size:
            return False
        if current.tail and self._pread(current, current.size - len(current.tail), len(current.tail)) != current.tail:
            return self._begin(current)
        block = self._pread(current, current.size, BLOCK)
        if not block:
            return False
        seen = current.tail[-len(_UP) :]  # a step up may lie across two blocks
        data, base = seen + block, current.size - len(seen)
        line_end = _NEWLINE_NOT_AFTER_UP if _UP + b"\n" in data else _NEWLINE
        current.starts.extend(array("Q", [base + match.end() for match in line_end.finditer(data, len(seen))]))
        current.tail = (current.tail + block[-_TAIL:])[-_TAIL:]
        current.size += len(block)
        return True

    def line(self, number: int) -> bytes:
        """Return what there is to show of a line: at most 8 KiB; see `display`."""
        return self.display(number)[0]

    def display(self, number: int) -> tuple[bytes, int]:
        """Return at most 8 KiB of a line without its line end, and how many bytes of it were left out.

        Of a longer line which ends in a carriage return's last state (a progress bar) that state is returned.
        """
        with self._lock:
            current = self._map
            if current is None or not 0 <= number < _lines(current):
                return b"", 0
            start, end = _bounds(current, number)
            length = end - start
            if length <= DISPLAY_LIMIT:
                return os.pread(current.descriptor, length, start).rstrip(b"\r\n"), 0
            tail = os.pread(current.descriptor, DISPLAY_LIMIT, end - DISPLAY_LIMIT).rstrip(b"\r\n")
            state = last_state(tail)
            if len(state) < len(tail):
                return state, 0
            head = os.pread(current.descriptor, DISPLAY_LIMIT, start)
            return head, length - len(head)

    def raw(self, number: int) -> bytes:
        """Return the whole of a line, byte for byte, without its newline."""
        with self._lock:
            current = self._map
            if current is None or not 0 <= number < _lines(current):
                return b""
            start, end = _bounds(current, number)
            data = os.pread(current.descriptor, end - start, start)
        return data.removesuffix(b"\n")

    def search(self, pattern: re.Pattern[bytes], start: int, direction: int = 1) -> Iterator[int]:
        """Yield the numbers of the lines that match, from line `start` on (`direction` 1) or back (-1).

        The pattern sees many lines at once: anchors need `re.MULTILINE`. Ends early when the file is replaced.
        """
        current, limit = self._map, self.lines
        if current is None or not limit:
            return
        number = min(max(start, 0), limit - 1) if direction < 0 else max(start, 0)
        while 0 <= number < limit and current is self._map:
            first, last = self._slice(current, number, limit, direction)
            found = self._matches(current, pattern, first, last)
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

    def _slice(self, current: _Map, number: int, limit: int, direction: int) -> tuple[int, int]:
        """Return the first and last line of about a block of lines from `number` on or back; at least one line."""
        starts = current.starts
        if direction > 0:
            known = min(limit + 1, len(starts))
            return number, max(bisect_right(starts, starts[number] + BLOCK, number + 1, known) - 2, number)
        begin = max(_bounds(current, number)[1] - BLOCK, 0)
        return min(bisect_left(starts, begin, 0, number + 1), number), number

    def _matches(self, current: _Map, pattern: re.Pattern[bytes], first: int, last: int) -> list[int]:
        start, end = _bounds(current, first)[0], _bounds(current, last)[1]
        if end - start > BLOCK:  # one line longer than a block: in pieces
            return [first] if self._in_pieces(current, pattern, start, end) else []
        data = self._pread(current, start, end - start)
        found: list[int] = []
        match = pattern.search(data)
        while match:
            number = bisect_right(current.starts, start + match.start(), first, last + 1) - 1
            found.append(number)
            if number >= last:
                break
            match = pattern.search(data, current.starts[number + 1] - start)
        return found

    def _in_pieces(self, current: _Map, pattern: re.Pattern[bytes], start: int, end: int) -> bool:
        return any(
            pattern.search(self._pread(current, at, min(BLOCK + _SEAM, end - at))) for at in range(start, end, BLOCK)
        )


def _lines(current: _Map) -> int:
    count = len(current.starts)
    return count if current.size > current.starts[count - 1] else count - 1


def _bounds(current: _Map, number: int) -> tuple[int, int]:
    """Return where a line begins and ends; the newline belongs to it."""
    starts = current.starts
    return starts[number], starts[number + 1] if number + 1 < len(starts) else current.size
