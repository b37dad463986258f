"""Horizontal bars with percentages: how sure a model is of each class, or how traffic is split."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from footplate.logs.sanitise import clean
from footplate.widgets.columns import fit

EIGHTHS = " ▏▎▍▌▋▊▉█"
PERCENT = len(" 100.0 %")


class Bar(NamedTuple):
    """One bar: its label, which is data, and its length between 0 and 1."""

    label: str
    value: float


class Bars(ScrollView, can_focus=True):
    """Draws one bar a line, in the order given, the first one accented; scrolls where they are more than the lines."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"bars--first", "bars--bar", "bars--note"}

    DEFAULT_CSS = """
    Bars {
        width: 1fr;
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        & > .bars--first { color: $text-accent; }
        & > .bars--bar { color: $text-muted; }
        & > .bars--note { color: $text-muted; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_lines(-1)", "Up", show=False),
        Binding("down,j", "scroll_lines(1)", "Down", show=False),
        Binding("pageup", "scroll_pages(-1)", "Page up", show=False),
        Binding("pagedown", "scroll_pages(1)", "Page down", show=False),
        Binding("home,g", "scroll_lines(-999999)", "Top", show=False),
        Binding("end,G", "scroll_lines(999999)", "Bottom", show=False),
    ]

    def __init__(
        self,
        bars: Sequence[Bar] = (),
        *,
        empty: str = "",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._bars: list[Bar] = []
        self._empty = empty
        self.show(bars)

    def show(self, bars: Sequence[Bar]) -> None:
        """Draw these bars in place of those before."""
        self._bars = [Bar(clean(label), value) for label, value in bars]
        self.virtual_size = Size(0, max(1, len(self._bars)))
        if self.is_mounted:
            self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll by so many lines, as far as there are any."""
        top = max(0, min(self.scroll_offset.y + lines, self.max_scroll_y))
        self.scroll_to(y=top, animate=False, force=True)

    def action_scroll_pages(self, direction: int) -> None:
        """Scroll by a page, less the one line that shows where it was."""
        self.action_scroll_lines(direction * max(1, self.size.height - 1))

    def render_line(self, y: int) -> Strip:
        """Draw one bar: label, bar, percentage."""
        width, base = self.scrollable_content_region.width, self.rich_style
        index = self.scroll_offset.y + y
        if index >= len(self._bars):
            text = clean(self._empty) if index == 0 else ""
            return Strip([Segment(fit(text, width), self.get_component_rich_style("bars--note"))], width)
        label, value = self._bars[index]
        first = self.get_component_rich_style("bars--first")
        label_width = self._label_width(width)
        bar_width = max(0, width - label_width - 1 - PERCENT)
        segments = [
            Segment(fit(label, label_width) + " ", base + Style(bold=True) if index == 0 else base),
            Segment(bar_text(value, bar_width), first if index == 0 else self.get_component_rich_style("bars--bar")),
            Segment(percent_text(value), base + Style(bold=True) if index == 0 else base),
        ]
        return Strip(segments).crop_extend(0, width, base)

    def _label_width(self, width: int) -> int:
        """Labels get what the longest needs, but never more than half of what the percentage leaves."""
        longest = max((cell_len(bar.label) for bar in self._bars), default=0)
        return max(1, min(longest, (width - PERCENT) // 2))


def bar_text(value: float, width: int) -> str:
    """Return a bar of `width` cells, full at 1, in eighths of a cell; something above zero is never drawn as nothing."""
    share = min(max(value, 0.0), 1.0) if isfinite(value) else 0.0
    eighths = round(share * width * 8)
    if share > 0 and width > 0:
        eighths = max(1, eighths)
    return fit("█" * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else ""), width)


def percent_text(value: float) -> str:
    """Return a share as a percentage, right-aligned; one that rounds to 100 or 0 but is not is not said to be."""
    if not isfinite(value):
        return "NaN".rjust(PERCENT)
    percent = value * 100
    if 99.95 <= percent < 100:
        text = ">99.9 %"
    elif 0 < percent < 0.05:
        text = "<0.1 %"
    else:
        text = f"{percent:.1f} %"
    return text.rjust(PERCENT)
