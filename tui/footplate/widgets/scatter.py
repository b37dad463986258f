"""One parameter against one metric: a sign a trial, the selected and the best one told apart by sign as well as colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from footplate.logs.sanitise import clean
from footplate.operations.scales import Scale, drawable, number_text
from footplate.widgets.chart import Charting
from footplate.widgets.chart_canvas import CURSOR, Canvas
from footplate.widgets.chart_drawing import LEAST_HEIGHT, LEAST_WIDTH, Styles, owner_style
from footplate.widgets.columns import fit

DOT, BEST, CHOSEN = "•", "★", "◆"
_MOST_TEXTS = 12


@dataclass(frozen=True, slots=True)
class Spot:
    """One trial: its name, its value of the parameter, a number or a text, and its metric; None where it has none."""

    key: str
    x: float | str
    y: float | None


class Scatter(Charting):
    """Spots over a linear or logarithmic axis, or over texts in their order; at the foot those without a metric."""

    DEFAULT_CSS = """
    Scatter { width: 1fr; height: 1fr; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._spots: tuple[Spot, ...] = ()
        self._names = ("", "")
        self._log = False
        self._best: str | None = None
        self._chosen: str | None = None
        self._lines: list[Strip] = []

    def show(
        self, spots: Sequence[Spot], *, x_name: str, y_name: str, log: bool, best: str | None, chosen: str | None
    ) -> None:
        """Draw these in place of those before; `log` counts where all values are above 0."""
        self._spots, self._names, self._log = tuple(spots), (x_name, y_name), log
        self._best, self._chosen = best, chosen
        self.refresh()

    def choose(self, key: str | None) -> None:
        """Tell another spot apart."""
        if key != self._chosen:
            self._chosen = key
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line; there are few spots, so the whole is drawn for each first line."""
        if y == 0 or not self._lines:
            self._lines = self._draw(self.size.width, self.size.height, self.chart_styles())
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.crop_extend(0, self.size.width, self.rich_style)

    def _draw(self, width: int, height: int, styles: Styles) -> list[Strip]:
        axis = styles["axis"]
        x_name, y_name = map(clean, self._names)
        texts = list(dict.fromkeys(str(spot.x) for spot in self._spots))
        if not any(isinstance(spot.x, str) for spot in self._spots):
            texts = []
        drawn = [spot for spot in self._spots if spot.y is not None and drawable(spot.y)]
        numbers = [self._x(spot, texts) for spot in self._spots]
        log = self._log and not texts and bool(numbers) and min(numbers) > 0
        about, said = f"{y_name} over {x_name}{' (log)' if log else ''}", self._said()
        room = width - cell_len(said)
        head = [Strip([Segment(fit(about, max(0, room - 1)) + " ", styles["title"]), Segment(said, styles["cursor"])])]
        if not drawn:
            return [*head, Strip([Segment(fit(f"No trial has logged {y_name} yet.", width), axis)])]
        if len(texts) > _MOST_TEXTS:
            return [
                *head,
                Strip([Segment(fit(f"{len(texts)} different texts have no order to be drawn in.", width), axis)]),
            ]
        if width < LEAST_WIDTH or height - 2 < LEAST_HEIGHT:
            return head
        ys = [spot.y for spot in drawn if spot.y is not None]
        up, rows = Scale.over(min(ys), max(ys)), height - 2
        labels = up.rows(rows)
        margin = max(map(len, labels.values()), default=0)
        columns = width - margin - 2
        if columns < 4:
            return head
        across = Scale(-0.5, len(texts) - 0.5) if texts else Scale.over(min(numbers), max(numbers), log)
        canvas = Canvas(columns, rows)

        def column(spot: Spot) -> int:
            return round(across.at(self._x(spot, texts)) * (canvas.dots - 1))

        canvas.gaps(column(spot) for spot in self._spots if spot not in drawn and spot.y is not None)
        order = sorted(drawn, key=lambda spot: (spot.key == self._chosen, spot.key == self._best))
        for spot in order:  # the selected one last, so that no other lies on it
            sign, owner = self._sign(spot.key)
            canvas.scatter([(column(spot), spot.y or 0.0)], up, owner, sign)
        lines = []
        for row in range(rows):
            tick = "┤" if row in labels else "│"
            segments = [Segment(f"{labels.get(row, ''):>{margin}} {tick}", axis)]
            for text, owner in canvas.runs(row):
                segments.append(Segment(text, owner_style(owner, styles)))
            lines.append(Strip(segments))
        bottom = _ticks(across, texts, columns)
        return [*head, *lines, Strip([Segment(" " * (margin + 2) + bottom, axis)])]

    def _x(self, spot: Spot, texts: Sequence[str]) -> float:
        """A number as it is where all are numbers; else the place of its text."""
        return float(texts.index(str(spot.x))) if texts else float(spot.x)

    def _sign(self, key: str) -> tuple[str, int]:
        if key == self._chosen:
            return (BEST if key == self._best else CHOSEN), CURSOR
        return (BEST, 2) if key == self._best else (DOT, 0)

    def _said(self) -> str:
        """What the selected one is."""
        spot = next((spot for spot in self._spots if spot.key == self._chosen), None)
        if spot is None:
            return ""
        x = spot.x if isinstance(spot.x, str) else number_text(spot.x)
        return f"{self._sign(spot.key)[0]} {clean(x)} → {'no value' if spot.y is None else number_text(spot.y)}"


def _ticks(across: Scale, texts: Sequence[str], columns: int) -> str:
    """The x axis as one line: numbers at their places, or the texts; one that has no room is left out."""
    if texts:
        found = [(float(at), clean(text)) for at, text in enumerate(texts)]
    else:
        found = across.ticks(max(2, columns // 12))
        if across.log and log10(across.high / across.low) < 1:
            found = [(across.low, number_text(across.low)), (across.high, number_text(across.high))]
    line = [" "] * columns
    used = -1
    for value, text in found:
        start = max(0, min(round(across.at(value) * (columns - 1)) - len(text) // 2, columns - len(text)))
        if start <= used:
            continue
        line[start : start + len(text)] = list(text)
        used = start + len(text)
    return fit("".join(line), columns)
