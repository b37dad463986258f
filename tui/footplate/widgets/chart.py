"""A line chart in braille dots: one curve or several over one x axis, with the latest values named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from footplate.logs.sanitise import clean
from footplate.widgets.columns import fit

Point = tuple[float, float]

BLOCKS = "▁▂▃▄▅▆▇█"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # Unicode's braille bits, by row and column of a cell
_SIGNS = ("●", "▲", "■", "◆", "○", "△")
GAP_NOTE = "NaN/inf"
GAP_SIGN = "×"


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: its name, which is data, and its points (x, y) in the order of x."""

    name: str
    points: Sequence[Point]

    @property
    def latest(self) -> float | None:
        """The last y that is a number; None where there is none."""
        return next((y for x, y in reversed(self.points) if _drawable(x) and _drawable(y)), None)

    @property
    def finite(self) -> list[Point]:
        """The points that can be drawn."""
        return [(x, y) for x, y in self.points if _drawable(x) and _drawable(y)]


class Chart(Widget):
    """Draws one curve or several with labelled axes; a single point is shown as a number, no data as a text.

    Points that are NaN or infinite are left out of the curve, marked at the foot of the plot, and counted beside its
    name.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--axis",
        "chart--gap",
        *(f"chart--series-{number}" for number in range(1, 5)),
    }

    DEFAULT_CSS = """
    Chart {
        width: 1fr;
        height: 1fr;
        & > .chart--axis { color: $text-muted; }
        & > .chart--gap { color: $text-error; }
        & > .chart--series-1 { color: $text-accent; }
        & > .chart--series-2 { color: $text-primary; }
        & > .chart--series-3 { color: $foreground; }
        & > .chart--series-4 { color: $text-secondary; }
    }
    """

    def __init__(
        self,
        series: Sequence[Series] = (),
        *,
        x_name: str = "step",
        empty: str = "No metrics yet",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._series = tuple(series)
        self._x_name = x_name
        self._empty = empty
        self._drawn: tuple[int, int] | None = None
        self._lines: list[Strip] = []

    def show(self, series: Iterable[Series]) -> None:
        """Draw these curves, in this order, in place of those before."""
        self._series = tuple(series)
        self._drawn = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line: the legend, the plot with its y axis, or the x axis."""
        if self._drawn != (self.size.width, self.size.height):
            self._drawn = (self.size.width, self.size.height)
            self._lines = self._draw(*self._drawn)
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.crop_extend(0, self.size.width, self.rich_style)

    def notify_style_update(self) -> None:
        """Forget what was drawn with the old styles."""
        super().notify_style_update()
        self._drawn = None

    def _style(self, position: int) -> Style:
        if position < 0:
            return self.get_component_rich_style("chart--gap")
        return self.get_component_rich_style(f"chart--series-{position % 4 + 1}")

    def _draw(self, width: int, height: int) -> list[Strip]:
        axis = self.get_component_rich_style("chart--axis")
        curves = [series.finite for series in self._series]
        if not any(curves):
            counts = sum(len(series.points) for series in self._series)
            text = self._empty if not counts else f"all {counts:,} values so far are {GAP_NOTE}"
            return [Strip([Segment(clean(text), axis)])]
        legend = self._legend(width)
        plot_height = height - len(legend) - 1
        if max(map(len, curves)) < 2:  # a curve needs two points; of one the number says all
            x = next(curve[0][0] for curve in curves if curve)
            text = f"one value, at {clean(self._x_name)} {number_text(x)}"
            return [*legend, Strip([Segment(fit(text, width), axis)])]
        if plot_height < 2 or width < 16:
            return legend
        return [*legend, *self._plot(curves, width, plot_height, axis)]

    def _legend(self, width: int) -> list[Strip]:
        """Return the lines that name each curve with its latest value."""
        axis, base = self.get_component_rich_style("chart--axis"), self.rich_style
        lines: list[list[Segment]] = [[]]
        used = 0
        for position, series in enumerate(self._series):
            latest = series.latest
            skipped = len(series.points) - len(series.finite)
            value = "–" if latest is None else number_text(latest)
            note = f" ({skipped:,} {GAP_NOTE})" if skipped else ""
            name = clean(series.name)
            entry = [
                Segment(f"{_SIGNS[position % len(_SIGNS)]} {name} ", self._style(position)),
                Segment(value, base + Style(bold=True)),
                Segment(note, axis),
            ]
            length = sum(segment.cell_length for segment in entry)
            if used and used + 3 + length > width:
                lines.append([])
                used = 0
            elif used:
                lines[-1].append(Segment("   ", base))
                used += 3
            lines[-1].extend(entry)
            used += length
        return [Strip(segments) for segments in lines]

    def _plot(self, curves: list[list[Point]], width: int, height: int, axis: Style) -> list[Strip]:
        xs = [x for series in self._series for x, _ in series.points if _drawable(x)]
        ys = [y for curve in curves for _, y in curve]
        low, high = _padded(min(ys), max(ys))
        left, right = min(xs), max(xs)
        labels = axis_labels(low, high, height)
        margin = max(map(len, labels.values()))
        columns = width - margin - 2
        if columns < 4:
            return []
        canvas = _Canvas(columns, height)
        for position, series in enumerate(self._series):
            canvas.curve(curves[position], (left, right), (low, high), position)
            canvas.gaps([x for x, y in series.points if _drawable(x) and not _drawable(y)], (left, right))
        lines = []
        for row in range(height):
            tick = "┤" if row in labels else "│"
            segments = [Segment(f"{labels.get(row, ''):>{margin}} {tick}", axis)]
            segments.extend(Segment(text, self._style(owner)) for text, owner in canvas.runs(row))
            lines.append(Strip(segments))
        first, last = number_text(left), f"{clean(self._x_name)} {number_text(right)}"
        bottom = fit(first, max(0, columns - len(last))) + last
        lines.append(Strip([Segment(" " * (margin + 2) + fit(bottom, columns), axis)]))
        return lines


class _Canvas:
    """A grid of braille cells, two dots wide and four high each, which knows whose curve is in a cell."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._bits = [[0] * columns for _ in range(rows)]
        self._owners = [[0] * columns for _ in range(rows)]
        self._signs: dict[int, str] = {}

    def curve(self, points: Sequence[Point], xs: Point, ys: Point, owner: int) -> None:
        """Draw a curve through the points, all of them numbers."""
        high = self.rows * 4 - 1
        y_scale = high / (ys[1] - ys[0])
        before: tuple[int, int] | None = None
        for x, y in points:
            here = self._across(x, xs), high - round((y - ys[0]) * y_scale)
            if here != before:
                self._line(before or here, here, owner)
                before = here

    def gaps(self, places: Sequence[float], xs: Point) -> None:
        """Mark at the foot of the plot where values are that cannot be drawn."""
        for x in places:
            column = self._across(x, xs) // 2
            if 0 <= column < self.columns:
                self._signs[column] = GAP_SIGN

    def runs(self, row: int) -> list[tuple[str, int]]:
        """Return one row of cells as (text, owner), neighbours of one owner together; -1 owns the marks."""
        runs: list[tuple[str, int]] = []
        foot = row == self.rows - 1
        for column, (bits, owner) in enumerate(zip(self._bits[row], self._owners[row], strict=True)):
            char = chr(0x2800 + bits) if bits else " "
            if foot and column in self._signs:
                char, owner = self._signs[column], -1
            if runs and runs[-1][1] == owner:
                runs[-1] = (runs[-1][0] + char, owner)
            else:
                runs.append((char, owner))
        return runs

    def _across(self, x: float, xs: Point) -> int:
        return round((x - xs[0]) * (self.columns * 2 - 1) / (xs[1] - xs[0])) if xs[1] > xs[0] else 0

    def _line(self, start: tuple[int, int], end: tuple[int, int], owner: int) -> None:
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * step // steps
            y = start[1] + (end[1] - start[1]) * step // steps
            self._bits[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
            self._owners[y // 4][x // 2] = owner


def number_text(value: float) -> str:
    """Return a number with the four digits that matter: `0.8713`, `12.5`, `30`, `1.2e-07`, `1,204,000`."""
    if not isfinite(value):
        return "NaN" if value != value else "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def axis_labels(low: float, high: float, rows: int) -> dict[int, str]:
    """Return what to write beside which row (0 is the top): round numbers, all with the same number of decimals."""
    step = _round_up((high - low) / max(1, min(rows - 1, rows // 3 + 1)))
    decimals = max(0, -floor(log10(step)))
    labels: dict[int, str] = {}
    tick = floor(low / step) * step
    while tick <= high + step / 1000:
        row = round((high - tick) / (high - low) * (rows - 1))
        if tick >= low - step / 1000 and 0 <= row < rows:
            large = max(abs(low), abs(high)) >= 1e7 or decimals > 6
            labels[row] = f"{tick:.2e}" if large else f"{tick + 0.0:,.{decimals}f}"
        tick += step
    return labels


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the values as a curve of block characters, at most `width` cells; those that are no number stay blank.

    Of more values than cells, each cell shows the last of its share, so that the newest is always seen.
    """
    if width <= 0 or not values:
        return ""
    if len(values) > width:
        values = [values[(cell + 1) * len(values) // width - 1] for cell in range(width)]
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return " " * len(values)
    low, high = min(finite), max(finite)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    middle = 0 if scale else len(BLOCKS) // 2 - 1
    return "".join(BLOCKS[middle + round((value - low) * scale)] if isfinite(value) else " " for value in values)


def _drawable(value: float) -> bool:
    # Beyond that, differences of two values overflow.
    return isfinite(value) and abs(value) < 1e150


def _padded(low: float, high: float) -> Point:
    """Return a range that is wide enough to divide by."""
    size = max(abs(low), abs(high))
    if high - low > max(size * 1e-9, 1e-150):
        return low, high
    if size < 1e-150:
        return 0.0, 1.0  # what is counted is never below none
    pad = size * 0.1
    return low - pad, high + pad


def _round_up(step: float) -> float:
    """Return the next of 1, 2, 2.5, 5 or 10 times a power of ten."""
    power = 10.0 ** floor(log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if factor * power >= step * 0.999)
