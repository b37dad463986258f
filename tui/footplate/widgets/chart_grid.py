"""Charts in pages, as many at once as are legible, with one cursor over all of them."""

from __future__ import annotations

import asyncio
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from footplate.actions import actions
from footplate.faults import unforeseen
from footplate.logs.sanitise import clean
from footplate.operations.metrics import Axis, Panel, Source, series_of
from footplate.operations.scales import text_of
from footplate.operations.series import SMOOTHINGS, Point, Series, extent
from footplate.widgets.chart import Charting
from footplate.widgets.chart_drawing import Look, Styles, draw
from footplate.widgets.columns import fit
from footplate.widgets.virtual_table import CURSOR_SIGN

LEAST_CELL = (36, 8)
"""Columns and rows below which a chart is not legible."""
BEST_CELL_WIDTH = 60
"""From that width on, more charts side by side are better than wider ones."""
_ZOOM = 2.0
_SENTENCE_WIDTH = 72


@dataclass(frozen=True)
class Shape:
    """How charts share the room: so many side by side and below each other."""

    across: int
    down: int

    @property
    def count(self) -> int:
        """Charts on a page."""
        return self.across * self.down


def shape_of(count: int, width: int, height: int) -> Shape:
    """The shape for so many charts: all on one page where that is legible, and then as near to twice as wide as high."""
    most_across, most_down = max(1, width // LEAST_CELL[0]), max(1, height // LEAST_CELL[1])
    best, worth = Shape(most_across, most_down), -1.0
    for across in range(1, most_across + 1):
        down = min(most_down, -(-count // across))
        shown = min(count, across * down)
        cell = width / across, height / down
        legible = min(cell[0] / BEST_CELL_WIDTH, 1.0) * min(cell[1] / 12, 1.0)
        score = shown * 10 + legible * 5 - (across * down - shown) * 0.5 if shown < count else 1e6 + legible * 100
        score -= abs(cell[0] / max(1.0, cell[1]) - 5) * 0.1
        if score > worth:
            best, worth = Shape(across, max(1, down)), score
    return best


@dataclass(frozen=True)
class _Request:
    """What one drawing needs, handed to a thread."""

    panels: tuple[Panel, ...]
    shape: Shape
    size: tuple[int, int]
    axis: Axis
    smoothing: float
    look: Look
    styles: Styles
    selected: int


class ChartGrid(Charting, can_focus=True):
    """A page of charts. Keys only change what is wanted; curves are prepared and drawn in a thread, the newest wish next."""

    DEFAULT_CSS = """
    ChartGrid { width: 1fr; height: 1fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding(a.keys, a.id, a.title, show=False) for a in actions("chart")]

    class Changed(Message):
        """What is on screen, or how it is looked at, changed."""

    def __init__(self, *, signs_only: bool = False, id: str | None = None) -> None:
        """`signs_only`: the curves' names stand elsewhere, a chart shows their signs."""
        super().__init__(id=id)
        self.panels: tuple[Panel, ...] = ()
        self.empty = "No metrics yet."
        self.selected = 0
        self.full = False
        self.asked_axis: Axis = "step"
        self.only_axis: Axis | None = None
        """The one axis that what is shown has; None where it has both."""
        self.smoothing = SMOOTHINGS[0]
        self.log_scale = False
        self.window: Point | None = None
        self.cursor: float | None = None
        self._signs_only = signs_only
        self._lines: list[Strip] = []
        self._prepared: dict[tuple[str, str], tuple[tuple[object, ...], Series]] = {}
        self._shown: dict[str, list[Series]] = {}
        self._busy = False
        self._wanted = False
        self._last_fault = ""

    # What the owner tells

    @property
    def axis(self) -> Axis:
        """What the x axis is now."""
        return self.only_axis or self.asked_axis

    def show(self, panels: Sequence[Panel], empty: str, only_axis: Axis | None = None) -> None:
        """Show these panels; the selected one stays selected where it is still there."""
        before, axis = self.panel, self.axis
        self.only_axis = only_axis
        if self.axis != axis:
            self.window = self.cursor = None
        self.panels, self.empty = tuple(panels), empty
        key = before.key if before else ""
        self.selected = next((at for at, panel in enumerate(self.panels) if panel.key == key), 0)
        self.full = self.full and bool(self.panels)
        self.redraw()

    @property
    def panel(self) -> Panel | None:
        """The selected chart."""
        return self.panels[self.selected] if self.selected < len(self.panels) else None

    @property
    def shape(self) -> Shape:
        """How the charts share the room now."""
        if self.full or not self.panels:
            return Shape(1, 1)
        return shape_of(len(self.panels), self.size.width, self.size.height)

    @property
    def on_page(self) -> range:
        """The panels in sight."""
        if self.full:
            return range(self.selected, min(self.selected + 1, len(self.panels)))
        count = self.shape.count
        start = self.selected // count * count
        return range(start, min(start + count, len(self.panels)))

    def series_shown(self) -> list[Series]:
        """The selected chart's curves as they are on screen."""
        return self._shown.get(self.panel.key, []) if self.panel else []

    @property
    def look(self) -> Look:
        """How charts are looked at now."""
        x_name = "time" if self.axis == "time" else "step"
        return Look(x_name, text_of(x_name), log=self.log_scale, window=self.window, cursor=self.cursor)

    def leave(self) -> bool:
        """Take back the last thing that hides something: the cursor, the zoom, the chart alone; whether there was one."""
        if self.cursor is not None:
            self.cursor = None
        elif self.window is not None:
            self.window = None
        elif self.full:
            self.full = False
        else:
            return False
        self.redraw()
        return True

    # Keys

    def action_cursor(self, steps: int) -> None:
        """Move the cursor to another value of the selected chart, at least a cell away."""
        xs = sorted({x for one in self.series_shown() for x in self._stops(one)})
        if not xs:
            return
        if self.cursor is None:
            self.cursor = xs[-1] if steps < 0 else xs[0]
            steps -= 1 if steps > 0 else -1
        here = self.cursor
        for _ in range(abs(steps)):
            at = bisect_right(xs, here) if steps > 0 else bisect_left(xs, here) - 1
            if not 0 <= at < len(xs):
                break
            here = xs[at]
        self.cursor = here
        self._follow()
        self.redraw()

    def _stops(self, one: Series) -> Sequence[float]:
        """Where the cursor may stand: a value a cell, where there are more values than cells."""
        left, right = self.window or extent([one]) or (0.0, 0.0)
        cells = max(4, self.size.width // self.shape.across - 8)
        xs = one.xs
        start, end = max(0, bisect_left(xs, left) - 1), min(len(xs), bisect_right(xs, right) + 1)
        if end - start <= cells:
            return [*xs[start:end], *one.gaps[: cells * 4]]
        width = (right - left) / cells
        places = [bisect_left(xs, left + cell * width, start, end) for cell in range(cells + 1)]
        return [xs[place] for place in dict.fromkeys((max(0, start), *places, end - 1)) if place < end]

    def _follow(self) -> None:
        """Move the window with the cursor."""
        if self.window is None or self.cursor is None:
            return
        left, right = self.window
        if not left <= self.cursor <= right:
            shift = self.cursor - (left if self.cursor < left else right)
            self.window = left + shift, right + shift

    def action_cursor_end(self, direction: int) -> None:
        """Put the cursor on the first or the last value in sight."""
        ends = self.window or extent(self.series_shown())
        if ends is not None:
            self.cursor = ends[0] if direction < 0 else ends[1]
            self.redraw()

    def action_select(self, step: int) -> None:
        """Select another chart; the page follows."""
        if self.panels:
            self.selected = max(0, min(self.selected + step, len(self.panels) - 1))
            self.redraw()

    def action_page(self, direction: int) -> None:
        """The page before or after."""
        self.action_select(direction * (1 if self.full else self.shape.count))

    def action_full(self) -> None:
        """Show the selected chart alone, or all again."""
        if self.panels:
            self.full = not self.full
            self.redraw()

    def action_zoom(self, direction: int) -> None:
        """Halve or double the part of the x axis that is seen, round the cursor, else up to the newest values."""
        whole = extent(self.series_shown())
        if whole is None or whole[0] == whole[1]:
            return
        left, right = self.window or whole
        width = (right - left) / (_ZOOM if direction > 0 else 1 / _ZOOM)
        middle = self.cursor if self.cursor is not None else right - width / 2
        left = max(whole[0], min(middle - width / 2, whole[1] - width))
        right = min(left + width, whole[1])
        if right - left >= (whole[1] - whole[0]) * 0.999:
            self.window = None
        elif right - left > max(abs(whole[0]), abs(whole[1])) * 1e-9:
            self.window = left, right
        self.redraw()

    def action_whole(self) -> None:
        """Show all of the x axis."""
        self.window = None
        self.redraw()

    def action_log(self) -> None:
        """A logarithmic y axis, or a linear one."""
        self.log_scale = not self.log_scale
        self.redraw()

    def action_axis(self) -> None:
        """Steps or time along the x axis."""
        if self.only_axis is not None:
            raise SkipAction
        self.asked_axis = "time" if self.axis == "step" else "step"
        self.window = self.cursor = None
        self.redraw()

    def action_smooth(self) -> None:
        """The next weight of smoothing."""
        self.smoothing = SMOOTHINGS[(SMOOTHINGS.index(self.smoothing) + 1) % len(SMOOTHINGS)]
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Select the chart that was clicked; a second click shows it alone."""
        at = event.get_content_offset(self)
        if at is None or not self.panels:
            return
        shape = self.shape
        cell = at.y * shape.down // max(1, self.size.height) * shape.across + at.x * shape.across // max(
            1, self.size.width
        )
        if cell < len(self.on_page):
            self.selected = self.on_page[cell]
            if event.chain == 2:
                self.full = not self.full
            self.redraw()

    # Drawing

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.redraw()

    def notify_style_update(self) -> None:
        """Draw with the new styles."""
        super().notify_style_update()
        if self.is_attached and self._lines:
            self.redraw()

    def redraw(self) -> None:
        """Draw soon what is wanted now; while a drawing is under way once after it, while nobody sees it when somebody does."""
        if self._busy or not (self.is_attached and self.is_on_screen):
            self._wanted = True
            return
        self._busy = True
        self._wanted = False
        self._draw()

    def on_show(self) -> None:
        """Draw what was wanted while nobody saw it."""
        if self._wanted:
            self.redraw()

    @work(group="charts")
    async def _draw(self) -> None:
        try:
            while True:
                self._wanted = False
                request = self._request()
                if request is not None:
                    drawn = await asyncio.to_thread(self._in_thread, request)
                    self._lines, self._shown, self._prepared = drawn
                    self.refresh()
                    self.post_message(self.Changed())
                if not self._wanted:
                    break
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            if repr(error) != self._last_fault:  # a fault that comes back each second is told once
                self._last_fault = repr(error)
                self.app.notify(unforeseen(error), severity="error", markup=False, timeout=12)
        finally:
            self._busy = False

    def _request(self) -> _Request | None:
        width, height = self.size
        if not width or not height:
            return None
        page = self.on_page
        panels = tuple(self.panels[at] for at in page)
        look = replace(self.look, empty=self.empty, signs_only=self._signs_only)
        selected = self.selected - page.start if len(self.panels) > 1 and not self.full else -1
        return _Request(
            panels, self.shape, (width, height), self.axis, self.smoothing, look, self.chart_styles(), selected
        )

    def _in_thread(
        self, request: _Request
    ) -> tuple[list[Strip], dict[str, list[Series]], dict[tuple[str, str], tuple[tuple[object, ...], Series]]]:
        """Prepare the curves in sight, those that changed, and draw them."""
        before, prepared = self._prepared, {}
        shown: dict[str, list[Series]] = {}
        for panel in request.panels:
            shown[panel.key] = []
            for source in panel.sources:
                stamp = (source.points, source.begin, request.axis, request.smoothing, request.look.log)
                known = before.get((panel.key, source.name))
                if known is None or not _same(known[0], stamp):
                    known = (stamp, self._series(source, request))
                prepared[panel.key, source.name] = known
                shown[panel.key].append(known[1])
        return _page(request, shown), shown, prepared

    def _series(self, source: Source, request: _Request) -> Series:
        return series_of(source, request.axis, request.smoothing, request.look.log)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the page as it was drawn last."""
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.crop_extend(0, self.size.width, self.rich_style)


def _same(known: tuple[object, ...], stamp: tuple[object, ...]) -> bool:
    return known[0] is stamp[0] and known[1:] == stamp[1:]


def _page(request: _Request, shown: Mapping[str, Sequence[Series]]) -> list[Strip]:
    """The lines of a page: cells side by side, each with a column for the sign of the selected chart."""
    width, height = request.size
    base = request.styles["base"]
    if not request.panels:
        texts = ["", *textwrap.wrap(request.look.empty, max(20, min(width - 4, _SENTENCE_WIDTH)))]
        return [Strip([Segment(fit(f"  {clean(text)}", width), request.styles["axis"])]) for text in texts]
    shape = request.shape
    lines: list[Strip] = []
    for row in range(shape.down):
        tall = height * (row + 1) // shape.down - height * row // shape.down
        cells = []
        for across in range(shape.across):
            wide = width * (across + 1) // shape.across - width * across // shape.across
            at = row * shape.across + across
            cells.append((wide, _cell(request, at, shown, wide - 2, tall) if at < len(request.panels) else []))
        for y in range(tall):
            strips = []
            for across, (wide, cell) in enumerate(cells):
                chosen = y == 0 and row * shape.across + across == request.selected
                strips.append(Strip([Segment(CURSOR_SIGN if chosen else " ", request.styles["title"])]))
                strips.append((cell[y] if y < len(cell) else Strip([])).crop_extend(0, wide - 1, base))
            lines.append(Strip.join(strips))
    return lines


def _cell(request: _Request, at: int, shown: Mapping[str, Sequence[Series]], width: int, height: int) -> list[Strip]:
    panel = request.panels[at]
    styles = dict(request.styles)
    if at == request.selected:
        styles["title"] = styles["title"] + Style(underline=True)
    gap = 1 if request.shape.down > 1 else 0
    return draw(
        shown[panel.key],
        replace(request.look, title=panel.title, from_zero=panel.from_zero),
        width,
        height - gap,
        styles,
    )
