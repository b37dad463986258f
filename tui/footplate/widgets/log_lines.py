"""How a log line becomes cells: spans to segments, secrets masked, matches marked, escapes as text, rows of a wrapped line."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from footplate.logs.mask import MASK, secrets
from footplate.logs.sanitise import DISPLAY_LIMIT, PLAIN, Colour, Line
from footplate.logs.sanitise import Style as LineStyle
from footplate.logs.save import visible


def masked_line(line: Line) -> Line:
    """Return the line with the secrets in it masked."""
    spans = secrets(line.text)
    if not spans:
        return line
    pieces: list[tuple[str, LineStyle]] = []
    begin = 0
    for text, style in line.spans:
        end, position = begin + len(text), begin
        for first, last in spans:
            if first < end and last > begin:
                pieces.append((text[position - begin : max(first, begin) - begin], style))
                if first >= begin:
                    pieces.append((MASK, style))
                position = min(last, end)
        pieces.append((text[position - begin :], style))
        begin = end
    return replace(line, spans=tuple(piece for piece in pieces if piece[0]))


def raw_line(data: bytes, cut: int) -> Line:
    """Return a line as its bytes are: escape sequences, carriage returns and bytes that are no UTF-8 as text."""
    cut += max(0, len(data) - DISPLAY_LIMIT)
    text = visible(data[:DISPLAY_LIMIT])
    return Line(((text, PLAIN),) if text else (), False, cut)


def line_segments(line: Line, base: Style, level: Style | None = None) -> list[Segment]:
    """Return the line's spans as segments on the widget's own style; what has no style of its own gets its level's."""
    plain = base if level is None else base + level
    return [Segment(text, plain if style is PLAIN else base + _rich_style(style)) for text, style in line.spans]


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


def row_starts(text: str, width: int) -> list[int]:
    """Return the cells at which the screen rows of a wrapped text begin; no wide letter is cut in two."""
    if text.isascii():
        return list(range(0, max(1, len(text)), max(1, width)))
    starts, column = [0], 0
    for letter in text:
        size = get_character_cell_size(letter)
        if column + size - starts[-1] > width and column > starts[-1]:
            starts.append(column)
        column += size
    return starts


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
