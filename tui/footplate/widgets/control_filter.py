"""The last line of defence: a filter over everything the app draws, so that no control character reaches the terminal."""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class ControlFilter(LineFilter):
    """Drops C0, C1 and bidirectional controls from every segment that is text.

    Keep one instance and return it from `App.get_line_filters()`: strips cache what a filter made of them. Controls
    have no width, so lines keep theirs. Lone surrogates, which cannot be written to a terminal, become U+FFFD.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with harmful text removed; the same list where there is none."""
        if all(text.isascii() and text.isprintable() for text, _, _ in segments):
            return segments
        return [segment if segment.control else _safe(segment) for segment in segments]


def _safe(segment: Segment) -> Segment:
    text = _SURROGATE.sub("\ufffd", _CONTROL.sub("", segment.text))
    return segment if text == segment.text else Segment(text, segment.style)
