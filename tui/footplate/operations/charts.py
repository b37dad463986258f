"""A chart as a picture: SVG written here, PNG drawn with Pillow; axes, legend, a light and a dark ground."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from xml.sax.saxutils import escape, quoteattr

from footplate.logs.sanitise import clean
from footplate.operations.scales import Scale, number_text, time_ticks
from footplate.operations.series import Point, Series, envelope, extent, heights
from footplate.workspace import Unexpected

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont
    from PIL.ImageFont import ImageFont as BitmapFont

_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 76, 20, 48, 46
_LINE_HEIGHT = 20
_LIGHT = {"ground": "#ffffff", "text": "#202020", "muted": "#6a6a6a", "grid": "#e3e3e3", "gap": "#c0392b"}
_DARK = {"ground": "#121212", "text": "#e4e4e4", "muted": "#9a9a9a", "grid": "#303030", "gap": "#ff8787"}
_CURVES_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#5b5b5b", "#b8860b")
_CURVES_DARK = ("#87d7ff", "#ffd787", "#afd787", "#d787d7", "#d0d0d0", "#ffaf87")
"""Told apart by people who see few colours, too (after Okabe and Ito's palette on white)."""
_DASHES = ((), (7, 4), (2, 3))


@dataclass(frozen=True)
class Figure:
    """What a picture shows. `note` is what was done to the curves, as smoothing; it stands in the picture."""

    title: str
    series: Sequence[Series]
    x_name: str = "step"
    log: bool = False
    window: Point | None = None
    note: str = ""
    dark: bool = False
    width: int = 900
    height: int = 480


class _Paper(Protocol):
    """What a figure is drawn on."""

    def line(self, points: Sequence[Point], colour: str, width: float, dash: Sequence[int] = ()) -> None: ...

    def text(self, x: float, y: float, text: str, colour: str, anchor: str, bold: bool = False) -> None: ...

    def dot(self, x: float, y: float, colour: str) -> None: ...

    def length(self, text: str) -> float: ...


def save(figure: Figure, file: Path, ending: str = ".svg") -> None:
    """Write a figure as `.svg` or `.png`, whatever the file is called. Raises Unexpected where it cannot be written."""
    try:
        if ending == ".png":
            _png(figure).save(file, "PNG")
        else:
            file.write_text(svg(figure), encoding="utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unexpected(
            f"{file} could not be written: {reason}.", "Free space there, or name another file."
        ) from error


def free_name(folder: Path, *parts: str, ending: str = ".svg") -> Path:
    """A file's name made of what is shown, which does not exist yet."""
    stem = "-".join(re.sub(r"[^\w.=-]+", "_", clean(part)).strip("_.")[:60] for part in parts if part) or "chart"
    number = 1
    while (file := folder / f"{stem}{f'-{number}' if number > 1 else ''}{ending}").exists():
        number += 1
    return file


def svg(figure: Figure) -> str:
    """A figure as an SVG document."""
    paper = _Svg(figure)
    _draw(figure, paper)
    ground = (_DARK if figure.dark else _LIGHT)["ground"]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{figure.width}" height="{figure.height}" '
            f'viewBox="0 0 {figure.width} {figure.height}" font-family="sans-serif" font-size="13" role="img">',
            f"<title>{escape(clean(figure.title))}</title>",
            f'<rect width="100%" height="100%" fill="{ground}"/>',
            *paper.parts,
            "</svg>",
            "",
        ]
    )


def _draw(figure: Figure, paper: _Paper) -> None:
    inks = _DARK if figure.dark else _LIGHT
    colours = _CURVES_DARK if figure.dark else _CURVES_LIGHT
    paper.text(_MARGIN_LEFT, 24, clean(figure.title), inks["text"], "start", bold=True)
    if figure.note:
        paper.text(figure.width - _MARGIN_RIGHT, 24, clean(figure.note), inks["muted"], "end")
    top = _legend(figure, paper, inks, colours)
    left, right = _MARGIN_LEFT, figure.width - _MARGIN_RIGHT
    bottom = figure.height - _MARGIN_BOTTOM
    window = figure.window or extent(figure.series) or (0.0, 1.0)
    every = [*figure.series, *(one.raw for one in figure.series if one.raw is not None)]
    seen = [ends for one in every if (ends := heights(one, window)) is not None]
    if not seen:
        count = sum(one.count for one in figure.series)
        said = f"all {count:,} values are {'0, below, ' if figure.log else ''}NaN or infinite" if count else "no values"
        paper.text((left + right) / 2, (top + bottom) / 2, said, inks["muted"], "middle")
        return
    across = Scale.over(*window)
    up = Scale.over(min(low for low, _ in seen), max(high for _, high in seen), figure.log)

    def x_at(x: float) -> float:
        return left + across.at(x) * (right - left)

    def y_at(y: float) -> float:
        return bottom - up.at(y) * (bottom - top)

    for tick, text in up.ticks(max(2, int((bottom - top) / 60))):
        paper.line([(left, y_at(tick)), (right, y_at(tick))], inks["grid"], 1)
        paper.text(left - 8, y_at(tick) + 4, text, inks["muted"], "end")
    time = figure.x_name == "time"
    most = max(2, (right - left) // 110)
    ticks = time_ticks(across.low, across.high, most) if time else across.ticks(most)
    for tick, text in ticks:
        if not time and window[0] == window[1]:
            continue
        paper.line([(x_at(tick), bottom), (x_at(tick), bottom + 4)], inks["muted"], 1)
        paper.text(x_at(tick), bottom + 18, text, inks["muted"], "middle")
    paper.line([(left, bottom), (right, bottom)], inks["muted"], 1)
    paper.text(right, bottom + 36, figure.x_name, inks["muted"], "end")
    for raw in (one.raw for one in figure.series if one.raw is not None):
        _curve(paper, raw, window, (left, right), x_at, y_at, inks["grid"], 1, ())
    for position, one in enumerate(figure.series):
        colour = colours[position % len(colours)]
        dash = _DASHES[position // len(colours) % len(_DASHES)]
        _curve(paper, one, window, (left, right), x_at, y_at, colour, 2, dash)
        for x in one.gaps:
            if window[0] <= x <= window[1]:
                at = x_at(x)
                paper.line([(at - 4, bottom - 11), (at + 4, bottom - 3)], inks["gap"], 1.5)
                paper.line([(at - 4, bottom - 3), (at + 4, bottom - 11)], inks["gap"], 1.5)


def _curve(
    paper: _Paper,
    one: Series,
    window: Point,
    ends: tuple[int, int],
    x_at: Any,
    y_at: Any,
    colour: str,
    width: float,
    dash: Sequence[int],
) -> None:
    """A curve as a line; of many points in one pixel, its least and most there."""
    columns = (ends[1] - ends[0]) * 2
    inside = [(x, y) for x, y in zip(one.xs, one.ys, strict=True) if window[0] <= x <= window[1]]
    if len(inside) == 1:
        paper.dot(x_at(inside[0][0]), y_at(inside[0][1]), colour)
        return
    if len(inside) <= columns:
        path = [(x_at(x), y_at(y)) for x, y in inside]
    else:
        path = []
        for slot in envelope(one, window, columns):
            x = ends[0] + slot.column / 2
            path += [(x, y_at(y)) for y in dict.fromkeys(slot[1:])]
    paper.line(path, colour, width, dash)


def _legend(figure: Figure, paper: _Paper, inks: dict[str, str], colours: Sequence[str]) -> int:
    """Names and latest values; gives where the plot begins."""
    x, y = float(_MARGIN_LEFT), _MARGIN_TOP
    for position, one in enumerate(figure.series):
        value = "–" if one.latest is None else number_text((one.raw or one).latest or 0.0)
        gaps = f" ({len(one.gaps):,} NaN/inf)" if one.gaps and not figure.log else f" ({len(one.gaps):,} not drawn)"
        text = f"{clean(one.name)}  {value}{gaps if one.gaps else ''}"
        length = paper.length(text) + 44
        if x > _MARGIN_LEFT and x + length > figure.width - _MARGIN_RIGHT:
            x, y = float(_MARGIN_LEFT), y + _LINE_HEIGHT
        dash = _DASHES[position // len(colours) % len(_DASHES)]
        paper.line([(x, y - 4), (x + 18, y - 4)], colours[position % len(colours)], 3, dash)
        paper.text(x + 24, y, text, inks["text"], "start")
        x += length
    return y + 14


class _Svg:
    """A figure as parts of an SVG document."""

    def __init__(self, figure: Figure) -> None:
        self.parts: list[str] = []

    def line(self, points: Sequence[Point], colour: str, width: float, dash: Sequence[int] = ()) -> None:
        if len(points) < 2:
            return
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{",".join(map(str, dash))}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"'
            f' stroke-linejoin="round"{dashed}/>'
        )

    def text(self, x: float, y: float, text: str, colour: str, anchor: str, bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor={quoteattr(anchor)}{weight}>{escape(text)}</text>'
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def length(self, text: str) -> float:
        return len(text) * 7.5


class _Pillow:
    """A figure on a picture twice the size, for smooth lines when it is made smaller."""

    def __init__(self, figure: Figure) -> None:
        from PIL import Image, ImageDraw, ImageFont

        ground = (_DARK if figure.dark else _LIGHT)["ground"]
        self.picture = Image.new("RGB", (figure.width * 2, figure.height * 2), ground)
        self._draw = ImageDraw.Draw(self.picture)
        self._font: FreeTypeFont | BitmapFont = ImageFont.load_default(26)

    def line(self, points: Sequence[Point], colour: str, width: float, dash: Sequence[int] = ()) -> None:
        doubled = [(x * 2, y * 2) for x, y in points]
        for part in _dashed(doubled, [length * 2 for length in dash]) if dash else [doubled]:
            if len(part) > 1:
                self._draw.line(part, fill=colour, width=max(1, round(width * 2)), joint="curve")

    def text(self, x: float, y: float, text: str, colour: str, anchor: str, bold: bool = False) -> None:
        side = {"start": "l", "middle": "m", "end": "r"}[anchor]
        stroke = 1 if bold else 0
        self._draw.text(
            (x * 2, y * 2),
            text,
            fill=colour,
            font=self._font,
            anchor=f"{side}s",
            stroke_width=stroke,
            stroke_fill=colour,
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        self._draw.ellipse((x * 2 - 8, y * 2 - 8, x * 2 + 8, y * 2 + 8), fill=colour)

    def length(self, text: str) -> float:
        return float(self._font.getlength(text)) / 2


def _png(figure: Figure) -> Any:
    from PIL import Image

    paper = _Pillow(figure)
    _draw(figure, paper)
    return paper.picture.resize((figure.width, figure.height), Image.Resampling.LANCZOS)


def _dashed(points: Sequence[Point], dash: Sequence[int]) -> list[list[Point]]:
    """A line cut into its dashes, which Pillow does not draw itself."""
    parts: list[list[Point]] = []
    on, left = True, float(dash[0])
    current = [points[0]] if points else []
    for (x0, y0), (x1, y1) in pairwise(points):
        length, done = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5, 0.0
        while length - done > left:
            done += left
            cut = x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length
            if on:
                parts.append([*current, cut])
            on, left, current = not on, float(dash[1 if on else 0]), [cut]
        left -= length - done
        if on:
            current.append((x1, y1))
    return [*parts, current] if on else parts
