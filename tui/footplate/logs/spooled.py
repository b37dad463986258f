"""The lines of a log's copy: its pieces one after the other, and a line where one began anew or older ones are not kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from footplate.logs.arrivals import Arrivals
from footplate.logs.index import LineIndex
from footplate.logs.lines import Pattern, Place
from footplate.logs.sanitise import size_text
from footplate.logs.spool_state import Piece, State, read_state, state_mark


class _Mark:
    """A line that no log has, between its pieces."""

    def __init__(self, text: str, moment: datetime | None = None) -> None:
        self.text = text.encode()
        self.moment = moment


class SpooledLines:
    """Lines of the copy in a folder, which this or another process appends to, and which may not be there yet."""

    def __init__(self, folder: Path, name: str) -> None:
        """`name` is the log file as the workspace names it."""
        self.folder = folder
        self.name = name
        self.restarts = 0
        self._seen = (-1, 0, 0)
        self._state: State | None = None
        self._stretches: list[tuple[int, LineIndex | _Mark]] = []  # each with the number of its first line
        self._pieces: list[Piece] = []  # that have a stretch
        self._redraws = 0  # of stretches that are gone
        self._closed = False

    @property
    def size(self) -> int:
        """Bytes of all pieces that are known so far."""
        return sum(one.size for _, one in self._stretches if isinstance(one, LineIndex))

    @property
    def redraws(self) -> int:
        """How often lines that had their end were drawn over."""
        return self._redraws + sum(one.redraws for _, one in self._stretches if isinstance(one, LineIndex))

    @property
    def lines(self) -> int:
        """Lines known so far, marks included."""
        stretches = self._stretches
        if not stretches:
            return 0
        first, one = stretches[-1]
        return first + _length(one)

    def complete(self, number: int) -> bool:
        """Whether a line has its end."""
        found = self._find(number)
        if found is None:
            return False
        one, line = found
        return isinstance(one, _Mark) or one.complete(line) or one is not self._stretches[-1][1]

    def scan(self) -> bool:
        """Take in up to 1 MiB more. Raises OSError where a piece cannot be read."""
        if self._closed:
            return False
        changed = self._look()
        while self._stretches:
            last = self._stretches[-1][1]
            if isinstance(last, LineIndex):
                if last.scan():
                    if last.restarts:  # shortened in place: the disk had lost what was not vouched for
                        self._forget()
                        self.restarts += 1
                    return True
                if last.size < self._pieces[-1].size and (self.folder / self._pieces[-1].file).exists():
                    return changed
            following = self._following()
            if following is None:
                return changed
            self._open(following)
            changed = True
        return changed

    def display(self, number: int) -> tuple[bytes, int]:
        """At most 8 KiB of a line, and how many bytes of it were left out."""
        found = self._find(number)
        if found is None:
            return b"", 0
        one, line = found
        return (one.text, 0) if isinstance(one, _Mark) else one.display(line)

    def raw(self, number: int) -> bytes:
        """The whole of a line, byte for byte; nothing for a mark, which is no part of the log."""
        found = self._find(number)
        return found[0].raw(found[1]) if found is not None and isinstance(found[0], LineIndex) else b""

    def search(self, pattern: Pattern, start: int, direction: int = 1) -> Iterator[int]:
        """The numbers of the lines that match; marks do not."""
        stretches = list(self._stretches)
        at = bisect_right(stretches, start if direction > 0 else min(start, self.lines - 1), key=_first) - 1
        while 0 <= at < len(stretches):
            first, one = stretches[at]
            if isinstance(one, LineIndex):
                begin = start - first if direction > 0 else min(start - first, one.lines - 1)
                for line in one.search(pattern, begin, direction):
                    yield first + line
            at += direction

    def place(self, number: int) -> Place:
        """The log file, and the number here: it stays the same while nothing older is let go."""
        return Place(self.name, number)

    def tag(self, number: int) -> str:
        """None: it is one log."""
        return ""

    def time(self, number: int) -> datetime | None:
        """When a line was written as it says itself, else when it arrived here."""
        found = self._find(number)
        if found is None:
            return None
        one, line = found
        return one.moment if isinstance(one, _Mark) else one.time(line)

    def close(self) -> None:
        """Let go of the files."""
        self._closed = True
        self._forget()

    def _look(self) -> bool:
        """Read the state anew where it was replaced; whether lines came or went by that."""
        mark = state_mark(self.folder)
        if mark == self._seen:
            return False
        state = read_state(self.folder)
        if state is None:
            return False  # removed: what was open can still be read
        self._seen, self._state = mark, state
        if self._pieces and self._pieces[0].number != state.pieces[0].number:
            self._forget()
            self.restarts += 1
        if not self._pieces:
            if state.lost:
                self._add(_Mark(f"··· {size_text(state.lost)} before this are no longer kept on this machine ···"))
            self._open(state.pieces[0])
            return bool(self.restarts or state.lost)
        self._pieces = [next((new for new in state.pieces if new.number == old.number), old) for old in self._pieces]
        return False

    def _following(self) -> Piece | None:
        """The piece after the last one that was opened."""
        pieces = self._state.pieces if self._state else ()
        return next((piece for piece in pieces if piece.number > self._pieces[-1].number), None)

    def _open(self, piece: Piece) -> None:
        if piece.began is not None and self._stretches:
            moment = datetime.fromtimestamp(piece.began, UTC)
            self._add(_Mark(f"── the log began anew here, {moment.astimezone():%H:%M:%S} ──", moment))
        self._pieces.append(piece)
        self._add(LineIndex(self.folder / piece.file, self.name, Arrivals(self.folder / piece.times), UTC))

    def _add(self, one: LineIndex | _Mark) -> None:
        self._stretches.append((self.lines, one))

    def _forget(self) -> None:
        stretches = self._stretches
        self._stretches, self._pieces, self._seen = [], [], (-1, 0, 0)
        for _, one in stretches:
            if isinstance(one, LineIndex):
                self._redraws += one.redraws
                one.close()

    def _find(self, number: int) -> tuple[LineIndex | _Mark, int] | None:
        """The stretch that a line is in, and its number there."""
        stretches = self._stretches
        at = bisect_right(stretches, number, key=_first) - 1
        if at < 0:
            return None
        first, one = stretches[at]
        return (one, number - first) if number - first < _length(one) else None


def _first(stretch: tuple[int, LineIndex | _Mark]) -> int:
    return stretch[0]


def _length(one: LineIndex | _Mark) -> int:
    return 1 if isinstance(one, _Mark) else one.lines
