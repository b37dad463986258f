"""Where to go in a log: a place, the moment that is read in another log, the first error, the line that a failure card is about."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from footplate.logs.lines import Lines, Place
from footplate.logs.merged import Merged
from footplate.logs.where import first_since, number_of
from footplate.widgets.file_tree import tag_of
from footplate.widgets.log_view import LogView

if TYPE_CHECKING:
    from footplate.logs.card import Card

Goal = Callable[[Lines], int | None]
"""The line to go to, among these lines; None as long as it is not there."""

_ERROR = re.compile(
    rb"Traceback \(most recent call last\)|^(?:\[rank\d+\]:? *)?[\w.]*(?:Error|Exception): |\b(?:CRITICAL|FATAL)\b"
    rb"|Fatal Python error|\bKilled\b|core dumped",
    re.MULTILINE,
)
_MOST_ANCHOR = 200
_LOOK_BACK = 50


def at_place(place: Place) -> Goal:
    """A line of a file, in the log of that file or among those of all ranks."""

    def at(lines: Lines) -> int | None:
        return lines.number(tag_of(place.file), place.line) if isinstance(lines, Merged) else number_of(lines, place)

    return at


def place_read(view: LogView) -> Place | None:
    """Which line of which file is read."""
    return view.lines.place(view.here) if view.lines is not None and view.total_lines else None


def same_moment(view: LogView) -> Goal | None:
    """The moment that is read; None while the end is followed, or where no line nearby tells when it was written."""
    lines = view.lines
    if view.follow or lines is None or not view.total_lines:
        return None
    here = view.here
    times = (lines.time(number) for number in range(here, max(-1, here - _LOOK_BACK), -1))
    when = next((time for time in times if time is not None), None)
    if when is None:
        return None
    moment = when

    def at(others: Lines) -> int | None:
        found = first_since(others, moment)
        return None if found is None or found >= others.lines else found

    return at


def first_error(lines: Lines) -> int | None:
    """The first line that tells an error. Reads as far as that: call it in a thread."""
    return next(lines.search(_ERROR, 0), None)


def line_of(card: Card, lines: Lines) -> int | None:
    """The line that a card is about where its number is not known, sought from the end. Call it in a thread."""
    pattern = re.compile(re.escape(card.anchor[:_MOST_ANCHOR].encode(errors="replace")))
    found = lines.search(pattern, lines.lines - 1, -1)
    return next((number for number in found if lines.place(number).file in ("", card.file)), None)
