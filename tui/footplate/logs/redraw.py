"""Lines that a progress bar drew over by stepping up to them, and what each was left with.

Nested bars (tqdm) go down to the inner bar and up again at every update; rich draws all its lines anew. So a step up leads
back to a line that is there already, and a line end below the last one only begins a new line at the bottom.

Only what is a bar is drawn over: a line that overwrote itself or says how far something is (45%, 3it/s), an empty one, or one that
is erased first. Other text stays, and the step up counts for nothing.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable

STEP = re.compile(rb"\x1b(?!\[\d*m)\[\d{0,3}[ABEF](?:\x1b\[\d{0,3}[ABEF])*")
"""Steps up (A, F) and down (B, E), several at once."""

HEIGHT = 64
"""Lines above the last one to which a step leads at most."""

_ONE = re.compile(rb"\x1b\[(\d{0,3})([ABEF])")
_ERASE = re.compile(rb"\r?\x1b\[[012]?[JK]")
_UNFINISHED = re.compile(rb"(?:\x1b\[\d{0,3}[ABEF])+(?:\r?(?:\x1b(?:\[[012]?)?)?)\Z|\x1b(?:\[\d{0,3})?\Z")
_LINE_END = re.compile(rb"\n")
_PROGRESS = re.compile(rb"\d ?%|\d(?:it|s|B)/(?:s|it)\b")
_LOOKED_AT = 4096
_LONGEST_STEPS = 256


def unfinished(data: bytes) -> int:
    """How many of the last bytes cannot be understood before more come: a sequence in part, a step before what may erase."""
    if b"\x1b" not in data[-_LONGEST_STEPS:]:
        return 0
    found = _UNFINISHED.search(data, max(0, len(data) - _LONGEST_STEPS))
    return len(data) - found.start() if found else 0


class Redraw:
    """What is known of lines that were drawn over, as the log is read on.

    `rows` has, by line, where the bytes stand that it was left with. `present` is the line written to last, and where its
    text since then begins; None where that is the last line, and no bar.
    """

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}
        self.present: tuple[int, int] | None = None
        self.drawn_over = 0
        self._depth = 0  # lines between the present one and the last
        self._segment = 0

    def feed(
        self, data: bytes, base: int, line: int, starts: Callable[[int], int], read: Callable[[int, int], bytes]
    ) -> array[int]:
        """Read on: `data` stands at offset `base`, in or above line `line`, the last one. Returns where new lines begin.

        `starts(n)` tells where a line before `base` begins, `read(offset, length)` reads bytes of the file.
        """
        ends: array[int] = array("Q")
        first, at = line, 0
        if self.present is None:
            self._depth, self._segment = 0, starts(line)

        def begin_of(row: int) -> int:
            return ends[row - first - 1] if row > first else starts(row)

        def held(begin: int, end: int) -> bytes:
            return data[begin - base : end - base] if begin >= base else read(begin, end - begin)

        for step in STEP.finditer(data):
            line = self._lines(data, at, step.start(), base, line, ends, held)
            at = step.end()
            row = line - self._depth
            wanted = row - sum((int(count or 1)) * (1 if way in b"AF" else -1) for count, way in _ONE.findall(step[0]))
            target = min(max(wanted, line - HEIGHT, 0), line)
            if target == row:
                continue
            goes_up = target < row and target not in self.rows and not _ERASE.match(data, at)
            if goes_up and not _is_bar(begin_of(target), begin_of(target + 1), held):
                continue
            self._leave(row, line, base + step.start(), held)
            self._depth, self._segment = line - target, base + at
        line = self._lines(data, at, len(data), base, line, ends, held)
        self.present = (line - self._depth, self._segment) if self._depth or line in self.rows else None
        return ends

    def _lines(
        self, data: bytes, at: int, end: int, base: int, line: int, ends: array[int], held: Callable[[int, int], bytes]
    ) -> int:
        """Take text without steps in; returns the number of the last line."""
        while self._depth or line in self.rows:
            found = data.find(b"\n", at, end)
            if found < 0:
                return line
            self._leave(line - self._depth, line, base + found, held)
            if self._depth:
                self._depth -= 1
            else:
                line += 1
                ends.append(base + found + 1)
            at = found + 1
            self._segment = base + at
        before = len(ends)
        ends.extend(base + found.end() for found in _LINE_END.finditer(data, at, end))
        if len(ends) > before:
            self._segment = ends[-1]
        return line + len(ends) - before

    def _leave(self, row: int, line: int, end: int, held: Callable[[int, int], bytes]) -> None:
        """The text since `_segment`, if there is any, is what the row now is."""
        text = end > self._segment and (
            end - self._segment > _LOOKED_AT or held(self._segment, end).strip(b"\r") != b""
        )
        if text or row not in self.rows:
            self.rows[row] = (self._segment, end)
            self.drawn_over += row < line


def _is_bar(begin: int, end: int, held: Callable[[int, int], bytes]) -> bool:
    """Whether a line, its line end included, may be drawn over: it overwrote itself, says how far something is, or is empty."""
    text = held(max(begin, end - _LOOKED_AT), end).rstrip(b"\r\n")
    return not text.strip() or b"\r" in text or b"\x1b[2K" in text or _PROGRESS.search(text) is not None
