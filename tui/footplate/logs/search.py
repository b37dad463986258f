"""Search of a log file for what a person typed, over the lines as they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from footplate.logs.lines import Lines, Pattern
from footplate.logs.sanitise import parse_line

_SLICE_SECONDS = 2.0
_LINE_SECONDS = 0.02  # for drawing
_AT_ONCE = 128 * 1024

T = TypeVar("T", str, bytes)


@dataclass(frozen=True, slots=True)
class Patient(Generic[T]):
    """A regular expression whose matching lets other threads run, and which gives up in time.

    `re` does neither: one expression that backtracks badly, typed by anybody, would stop the whole console for good.
    """

    pattern: Any
    seconds: float

    def search(self, data: T, start: int = 0) -> Any:
        """The first match from `start` on, or None. Raises TimeoutError."""
        return self.pattern.search(data, start, concurrent=True, timeout=self.seconds)

    def finditer(self, data: T) -> Iterator[Any]:
        """All matches. Raises TimeoutError."""
        found: Iterator[Any] = self.pattern.finditer(data, concurrent=True, timeout=self.seconds)
        return found


@dataclass(frozen=True, slots=True)
class Brief:
    """An expression without line ends in it, put to many lines a stretch at a time: `re` stops all threads while it matches."""

    pattern: re.Pattern[bytes]

    def search(self, data: bytes, start: int = 0, /) -> re.Match[bytes] | None:
        """The first match from `start` on, or None."""
        while start < len(data):
            end = data.find(b"\n", start + _AT_ONCE)
            end = len(data) if end < 0 else end
            if found := self.pattern.search(data, start, end):
                return found
            start = end + 1
        return None


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for: in the bytes of the file, and in the text of a line as it is shown."""

    data: Pattern
    shown: re.Pattern[str] | Patient[str]

    def lines(self, index: Lines, start: int, direction: int = 1) -> Iterator[int]:
        """Yield the lines that match, from `start` on (`direction` 1) or back (-1).

        What matches only in an escape sequence, or in a state of the line that was overwritten, is no match. Nor is
        a text found across a change of colour.
        """
        for number in index.search(self.data, start, direction):
            line = parse_line(*index.display(number))
            if line.cut or self.shown.search(line.text):
                yield number

    def next_line(self, index: Lines, start: int, direction: int = 1) -> int | None:
        """Return the first line that matches from `start` on or back, starting over at the file's other end."""
        found = next(self.lines(index, start, direction), None)
        if found is not None:
            return found
        return next(self.lines(index, 0 if direction > 0 else index.lines - 1, direction), None)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a shown line the matches are; nowhere where the expression takes too long for drawing."""
        shown = replace(self.shown, seconds=_LINE_SECONDS) if isinstance(self.shown, Patient) else self.shown
        try:
            return [match.span() for match in shown.finditer(text) if match[0]]
        except TimeoutError:
            return []


def compile_search(wanted: str) -> Search:
    """Return the search for a text: a regular expression, or plain text where it is no valid one.

    Without a capital letter it matches either case.
    """
    flags = re.MULTILINE | (re.NOFLAG if any(char.isupper() for char in wanted) else re.IGNORECASE)
    literal = re.escape(wanted)
    if literal.replace("\\ ", " ") != wanted:
        import regex  # seldom needed at all, and not free at start-up

        try:
            data = regex.compile(wanted.encode(errors="replace"), int(flags))
            shown = regex.compile(wanted, int(flags))
            return Search(Patient(data, _SLICE_SECONDS), Patient(shown, _SLICE_SECONDS))
        except regex.error:
            return _plain(literal, flags)
    return _plain(literal, flags)


def why_plain(wanted: str) -> str:
    """Why a text is looked for as it stands: what makes it no regular expression; empty where it is one."""
    if re.escape(wanted).replace("\\ ", " ") == wanted:
        return ""
    import regex

    try:
        regex.compile(wanted.encode(errors="replace"), int(re.MULTILINE))
        return ""
    except regex.error as error:
        return str(error)


def _plain(literal: str, flags: re.RegexFlag) -> Search:
    return Search(Brief(re.compile(literal.encode(errors="replace"), flags)), re.compile(literal, flags))
