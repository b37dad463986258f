"""How a parsed log line is drawn: spans to segments, with what a search found marked in them."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from footplate.logs.sanitise import Colour, Line
from footplate.logs.sanitise import Style as LineStyle


def line_segments(line: Line, base: Style) -> list[Segment]:
    """Return the line's spans as segments on the widget's own style."""
    return [Segment(text, base + _rich_style(style)) for text, style in line.spans]


def mark_spans(segments: list[Segment], spans: list[tuple[int, int]], style: Style) -> list[Segment]:
    """Return the same text with `style` over each of the spans (first and last character, in order)."""
    if not spans:
        return segments
    pieces: list[Segment] = []
    begin = 0
    for segment in segments:
        text, position, end = segment.text, begin, begin + len(segment.text)
        for span in spans:
            first, last = max(span[0], begin), min(span[1], end)
            if first < last:
                pieces.append(Segment(text[position - begin : first - begin], segment.style))
                pieces.append(Segment(text[first - begin : last - begin], style))
                position = last
        pieces.append(Segment(text[position - begin :], segment.style))
        begin = end
    return [piece for piece in pieces if piece.text]


@lru_cache(1024)
def _rich_style(style: LineStyle) -> Style:
    return Style(
        color=_rich_colour(style.foreground),
        bgcolor=_rich_colour(style.background),
        bold=style.bold or None,
        dim=style.dim or None,
        italic=style.italic or None,
        underline=style.underline or None,
        reverse=style.reverse or None,
    )


def _rich_colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)
