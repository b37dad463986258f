"""Finding a line again: by where it really stands, or by when it was written."""

from __future__ import annotations

from datetime import datetime

from footplate.logs.lines import Lines, Place

_NEAR = 2000
"""Lines looked through for one that has a time, or is of the file wanted."""


def number_of(lines: Lines, place: Place) -> int | None:
    """Return the number that a line has among these; None where it is not among them.

    Lines of one file stand in their order whatever stands between them.
    """
    low, high = 0, lines.lines
    if low < high and place.line < high and lines.place(place.line) == place:
        return place.line
    while low < high:
        middle = (low + high) // 2
        near = next((n for n in range(middle, min(high, middle + _NEAR)) if lines.place(n).file == place.file), None)
        if near is None or (at := lines.place(near).line) > place.line:
            high = middle
        elif at < place.line:
            low = near + 1
        else:
            return near
    return None


def first_at(lines: Lines, line: int) -> int:
    """Return the first of these that stands at that line of its file or behind it; for lines of one file."""
    low, high = 0, lines.lines
    while low < high:
        middle = (low + high) // 2
        if lines.place(middle).line < line:
            low = middle + 1
        else:
            high = middle
    return low


def first_since(lines: Lines, when: datetime) -> int | None:
    """Return the first line written at a time or after it; None where no line says when it was written.

    The times are taken to go up; a line without one stands with the line before it. The number of lines where all are older.
    """
    low, high, known = 0, lines.lines, False
    while low < high:
        middle = (low + high) // 2
        near, time = middle, None
        for near in range(middle, min(high, middle + _NEAR)):
            if (time := lines.time(near)) is not None:
                break
        if time is None:
            high = middle
        elif time < when:
            low, known = near + 1, True
        else:
            high, known = middle, True
    while known and low < lines.lines and lines.time(low) is None:
        low += 1
    return low if known else None
