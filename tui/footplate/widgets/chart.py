"""A chart in braille dots: one curve or several over one x axis, with the latest values named; and sparklines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import ClassVar

from textual.strip import Strip
from textual.widget import Widget

from footplate.operations.scales import number_text
from footplate.operations.series import Series
from footplate.widgets.chart_drawing import SERIES_COLOURS, STYLE_NAMES, Look, Styles, draw

__all__ = ["Chart", "Charting", "Series", "number_text", "sparkline"]

BLOCKS = "▁▂▃▄▅▆▇█"


class Charting(Widget):
    """What draws charts: their styles."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chart--{name}" for name in STYLE_NAMES}

    DEFAULT_CSS = (
        """
    Charting {
        & > .chart--axis { color: $text-muted; }
        & > .chart--gap { color: $text-error; }
        & > .chart--cursor { color: $text-warning; }
        & > .chart--faint { color: #585858; }
        & > .chart--title { text-style: bold; }
    """
        + "".join(f"& > .chart--series-{at} {{ color: {colour}; }}\n" for at, colour in enumerate(SERIES_COLOURS, 1))
        + "}"
    )

    def chart_styles(self) -> Styles:
        """The styles by name, as they are now."""
        styles = {name: self.get_component_rich_style(f"chart--{name}") for name in STYLE_NAMES}
        return {**styles, "base": self.rich_style}


class Chart(Charting):
    """Draws one curve or several with labelled axes; a single point is shown as a number, no data as a text.

    Points that are NaN or infinite are left out of the curve, marked at the foot of the plot, and counted beside its
    name.
    """

    DEFAULT_CSS = """
    Chart { width: 1fr; height: 1fr; }
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
        self._look = Look(x_name=x_name, empty=empty)
        self._drawn: tuple[int, int] | None = None
        self._lines: list[Strip] = []

    def show(self, series: Iterable[Series], look: Look | None = None) -> None:
        """Draw these curves, in this order, in place of those before."""
        self._series = tuple(series)
        self._look = look or self._look
        self._drawn = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line: the legend, the plot with its y axis, or the x axis."""
        if self._drawn != (self.size.width, self.size.height):
            self._drawn = (self.size.width, self.size.height)
            self._lines = draw(self._series, self._look, *self._drawn, self.chart_styles())
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.crop_extend(0, self.size.width, self.rich_style)

    def notify_style_update(self) -> None:
        """Forget what was drawn with the old styles."""
        super().notify_style_update()
        self._drawn = None


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
