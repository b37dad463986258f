"""Draws one chart as lines of text: its legend, its curves in braille dots, its axes; needs no widget, so a thread can do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from footplate.logs.sanitise import clean
from footplate.operations.scales import Scale, number_text
from footplate.operations.series import Point, Series, column_of, envelope, extent, heights
from footplate.widgets.chart_canvas import CURSOR, FAINT, GAPS, NOBODY, Canvas
from footplate.widgets.columns import fit

SIGNS = "●▲■◆○△□◇"
SERIES_COLOURS = ("$text-accent", "$text-warning", "$text-success", "#d787d7", "$foreground", "#ffaf87")
COLOURS = len(SERIES_COLOURS)
GAP_NOTE = "NaN/inf"
LEAST_WIDTH, LEAST_HEIGHT = 16, 2

Styles = Mapping[str, Style]
STYLE_NAMES = ("axis", "gap", "cursor", "faint", "title", *(f"series-{number}" for number in range(1, COLOURS + 1)))
"""Component classes, each after the widget's own prefix; and `base`."""


@dataclass(frozen=True)
class Look:
    """How a chart is looked at: what its x axis is, the part of it that is seen, the cursor; a logarithmic y axis."""

    x_name: str = "step"
    x_text: Callable[[float], str] = number_text
    empty: str = "No metrics yet"
    log: bool = False
    window: Point | None = None
    cursor: float | None = None
    title: str = ""
    signs_only: bool = False
    """Whether the curves' names stand elsewhere."""
    from_zero: bool = False


def draw(series: Sequence[Series], look: Look, width: int, height: int, styles: Styles) -> list[Strip]:
    """The chart's lines, at most `height`, each at most `width` cells."""
    count = sum(one.count for one in series)
    if not any(one.xs for one in series):
        text = look.empty
        if count:
            text = f"all {count:,} values so far are {'0, below, or ' if look.log else ''}{GAP_NOTE}"
        head = _legend(series, look, width, styles) if count else []
        return [*head, Strip([Segment(fit(clean(text), width), styles["axis"])])][:height]
    legend = _legend(series, look, width, styles)
    if (
        max(len(one.xs) for one in series) < 2 and look.window is None
    ):  # a curve needs two points; of one the number says all
        x = max(one.xs[0] for one in series if one.xs)
        each = " each" if sum(len(one.xs) for one in series) > 1 else ""
        text = f"one value{each}, at {clean(look.x_name)} {look.x_text(x)}"
        return [*legend, Strip([Segment(fit(text, width), styles["axis"])])][:height]
    spare = height - len(legend) - 1
    if spare < LEAST_HEIGHT and len(legend) > 1:
        legend = legend[: max(1, height - 1 - LEAST_HEIGHT)]
        spare = height - len(legend) - 1
    if spare < LEAST_HEIGHT or width < LEAST_WIDTH:
        return legend[:height]
    return [*legend, *_plot(series, look, width, spare, styles)]


def _legend(series: Sequence[Series], look: Look, width: int, styles: Styles) -> list[Strip]:
    """The lines that name each curve with its latest value, or its value at the cursor.

    Under a title that names the metric, each curve has its sign and value only where its name stands elsewhere.
    """
    axis, base = styles["axis"], styles["base"]
    entries = []
    for position, one in enumerate(series):
        if look.title and not one.count:
            continue
        value, note = _reading(one, look)
        name = "" if look.signs_only else f"{clean(one.name)} "
        style = styles[f"series-{position % COLOURS + 1}"]
        entries.append(
            [
                Segment(f"{SIGNS[position % len(SIGNS)]} {name}", style),
                Segment(value, base + Style(bold=True)),
                Segment(note, axis),
            ]
        )
    lines: list[list[Segment]] = [[]]
    used = 0
    if look.title:
        lines[0].append(Segment(clean(look.title), styles["title"]))
        used = lines[0][0].cell_length
    for entry in entries:
        length = sum(segment.cell_length for segment in entry)
        if used and used + 3 + length > width:
            lines.append([])
            used = 0
        elif used:
            lines[-1].append(Segment("   ", base))
            used += 3
        lines[-1].extend(entry)
        used += length
    return [Strip(segments).crop(0, width) for segments in lines]


def _reading(one: Series, look: Look) -> tuple[str, str]:
    """The value that stands beside a curve's name, as it was logged, and what is to be known of it."""
    logged = one.raw or one
    if look.cursor is not None and (found := logged.near(look.cursor)) is not None:
        x, y = found
        shown = one.near(x) if one.raw is not None else None
        note = f" ~{number_text(shown[1])}" if shown is not None and shown[1] == shown[1] and shown[1] != y else ""
        away = "" if x == look.cursor else f" at {look.x_text(x)}"
        return number_text(y), note + away
    note = f" ~{number_text(one.latest)}" if one.raw is not None and one.latest is not None else ""
    if one.gaps:
        kind = GAP_NOTE if not look.log else f"{GAP_NOTE} or ≤ 0" if any(y <= 0 for y in one.odd) else GAP_NOTE
        note += f" ({len(one.gaps):,} {kind})"
    if one.shared:
        note += f" ({one.shared:,} at a step that has one)"
    return "–" if logged.latest is None else number_text(logged.latest), note


def _plot(series: Sequence[Series], look: Look, width: int, height: int, styles: Styles) -> list[Strip]:
    window = look.window or extent(series) or (0.0, 1.0)
    every = (*series, *(one.raw for one in series if one.raw is not None))
    seen = [ends for one in every if (ends := heights(one, window)) is not None]
    if not seen:
        return [Strip([Segment(fit("no value in this part", width), styles["axis"])])]
    low, high = min(low for low, _ in seen), max(high for _, high in seen)
    scale = Scale.over(min(0.0, low) if look.from_zero and not look.log else low, high, look.log)
    labels = scale.rows(height)
    margin = max(map(len, labels.values()), default=0)
    columns = width - margin - 2
    if columns < 4:
        return []
    canvas = Canvas(columns, height)
    drawn = [(position, envelope(one, window, canvas.dots)) for position, one in enumerate(series)]
    for one in series:
        if one.raw is not None:
            canvas.curve(envelope(one.raw, window, canvas.dots), scale, FAINT)
    for position, slots in drawn:
        canvas.curve(slots, scale, position)
    for one in series:
        canvas.gaps(column_of(x, window, canvas.dots) for x in one.gaps if window[0] <= x <= window[1])
    if len(drawn) > 1:
        for position, slots in drawn:
            canvas.name_curve(slots, scale, position, SIGNS[position % len(SIGNS)])
    at = None
    if look.cursor is not None and window[0] <= look.cursor <= window[1]:
        at = column_of(look.cursor, window, canvas.dots)
        canvas.line_at(at)
    lines = []
    for row in range(height):
        tick = "┤" if row in labels else "│"
        segments = [Segment(f"{labels.get(row, ''):>{margin}} {tick}", styles["axis"])]
        segments.extend(Segment(text, owner_style(owner, styles)) for text, owner in canvas.runs(row))
        lines.append(Strip(segments))
    return [*lines, _x_axis(look, window, margin, columns, None if at is None else at // 2, styles)]


def owner_style(owner: int, styles: Styles) -> Style:
    """The style of what a canvas says who owns."""
    if owner >= 0:
        return styles[f"series-{owner % COLOURS + 1}"]
    return styles[{NOBODY: "base", GAPS: "gap", CURSOR: "cursor", FAINT: "faint"}[owner]]


def _x_axis(look: Look, window: Point, margin: int, columns: int, at: int | None, styles: Styles) -> Strip:
    """The ends of the axis, with the axis' name; the cursor's place below its line."""
    axis = styles["axis"]
    name = clean(look.x_name)
    first, last = look.x_text(window[0]), f"{name} {look.x_text(window[1])}"
    text = fit(fit(first, max(0, columns - len(last))) + last, columns)
    segments = [Segment(" " * (margin + 2), axis)]
    mark = "" if look.cursor is None else look.x_text(look.cursor)
    if at is None or not mark or len(mark) > columns:
        return Strip([*segments, Segment(text, axis)])
    start = max(0, min(at - len(mark) // 2, columns - len(mark)))
    before, after = text[: max(0, start - 1)], text[start + len(mark) + 1 :]
    # A number that is cut in half would be another number.
    before = before if start > len(first) else ""
    after = after if columns - start - len(mark) > len(last) else ""
    return Strip(
        [
            *segments,
            Segment(fit(before, start), axis),
            Segment(mark, styles["cursor"] + Style(bold=True)),
            Segment(fit(after, max(0, columns - start - len(mark))), axis),
        ]
    )
