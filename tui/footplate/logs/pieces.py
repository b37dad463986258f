"""A long text as the lines of a log view, cut into pieces that it can draw."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from footplate.logs.lines import Pattern, Place


class Pieces:
    """Lines of a given text, none longer than `length` characters. They are there as a whole, and stay as they are."""

    def __init__(self, text: str, length: int) -> None:
        self.restarts = self.redraws = 0
        self._pieces: list[bytes] = [
            line[at : at + length].encode(errors="replace")
            for line in (text.split("\n") if text else ())
            for at in range(0, max(1, len(line)), length)
        ]
        self._size = sum(map(len, self._pieces))
        self._seen = False

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return self._size

    @property
    def lines(self) -> int:
        """Pieces."""
        return len(self._pieces)

    def complete(self, number: int) -> bool:
        """Every piece is."""
        return 0 <= number < len(self._pieces)

    def scan(self) -> bool:
        """All is there from the start: something new only once."""
        seen, self._seen = self._seen, True
        return not seen

    def display(self, number: int) -> tuple[bytes, int]:
        """A piece; none is longer than what can be drawn."""
        return self.raw(number), 0

    def raw(self, number: int) -> bytes:
        """A piece."""
        return self._pieces[number] if self.complete(number) else b""

    def search(self, pattern: Pattern, start: int, direction: int = 1) -> Iterator[int]:
        """The numbers of the pieces that match."""
        numbers = range(max(start, 0), self.lines) if direction > 0 else range(min(start, self.lines - 1), -1, -1)
        return (number for number in numbers if pattern.search(self._pieces[number]))

    def place(self, number: int) -> Place:
        """A piece is where it is counted."""
        return Place("", number)

    def tag(self, number: int) -> str:
        """There is one source only."""
        return ""

    def time(self, number: int) -> datetime | None:
        """A piece has none."""
        return None

    def close(self) -> None:
        """Let go of the text."""
        self._pieces = []
