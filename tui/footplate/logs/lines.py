"""What a log view draws, whatever it is made of: one file, one filtered, several ranks merged."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple, Protocol


class Pattern(Protocol):
    """What a search needs of a compiled expression over bytes."""

    def search(self, data: bytes, start: int = 0, /) -> Any:
        """The first match from `start` on, or None."""


class Place(NamedTuple):
    """Where a line really stands: the log file as the workspace names it ("" where it has no such name), its number there."""

    file: str
    line: int


class Lines(Protocol):
    """Numbered lines, counted from 0, that may become more. One thread calls `scan()`; others may use the rest at any time."""

    @property
    def restarts(self) -> int:
        """How often the lines turned out to be others than before; line numbers of before then mean nothing any more."""

    @property
    def redraws(self) -> int:
        """How often lines that had their end were drawn over after all, by a progress bar that stepped up to them.

        What was kept of how lines look is out of date then.
        """

    @property
    def size(self) -> int:
        """Bytes known so far, of all that is behind these lines."""

    @property
    def lines(self) -> int:
        """Lines known so far, an unfinished last one included."""

    def complete(self, number: int) -> bool:
        """Whether a line has its end, and so stays as it is unless a progress bar draws over it (`redraws`)."""

    def scan(self) -> bool:
        """Take in a piece of what is new and return whether there was any. Raises OSError where it cannot be read."""

    def display(self, number: int) -> tuple[bytes, int]:
        """At most 8 KiB of a line without its line end, and how many bytes of it were left out."""

    def raw(self, number: int) -> bytes:
        """The whole of a line, byte for byte, without its newline."""

    def search(self, pattern: Pattern, start: int, direction: int = 1) -> Iterator[int]:
        """The numbers of the lines that match, from `start` on (`direction` 1) or back (-1)."""

    def place(self, number: int) -> Place:
        """Which line of which file this is."""

    def tag(self, number: int) -> str:
        """What tells the sources of merged lines apart (`r3`); empty where there is one only."""

    def time(self, number: int) -> datetime | None:
        """When a line was written as it says itself, else when it arrived here (UTC); None where neither is known."""

    def close(self) -> None:
        """Let go of the files; there are no lines from then on."""
