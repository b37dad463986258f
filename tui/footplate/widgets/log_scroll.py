"""Lines scrolled by rows, wrapped or not, of which only what is in sight is ever laid out; one or several can be chosen."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from footplate.logs.lines import Place
from footplate.widgets.log_paint import Painter
from footplate.widgets.log_rows import Spot, in_sight, last_top, moved

SIDEWAYS = 16
WHEEL = 3
SAID_ROWS = 3


class LogScroll(ScrollView, can_focus=True):
    """Draws `total_lines` lines by its painter, from any of them on.

    Following is on at first; scrolling up ends it. What there is to read, the class below knows.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log--match",
        "log--current",
        "log--note",
        "log--mark",
        "log--chosen",
        "log--error",
        "log--warning",
    }

    DEFAULT_CSS = """
    LogScroll {
        width: 1fr;
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        & > .log--match { background: $warning-muted; color: $text-warning; }
        & > .log--current { background: $warning; color: $background; text-style: bold; }
        & > .log--note { color: $text-muted; }
        & > .log--mark { color: $accent; }
        & > .log--chosen { background: $primary-muted; }
        & > .log--error { color: $text-error; }
        & > .log--warning { color: $text-warning; }
    }
    """

    follow: reactive[bool] = reactive(True)
    """Whether the view stays at the end of the log."""

    total_lines: reactive[int] = reactive(0)
    """Lines known so far."""

    new_lines: reactive[int] = reactive(0)
    """Lines that came since following ended; 0 while following."""

    wrap: reactive[bool] = reactive(False)
    """Whether lines go on in the next row rather than beyond the edge."""

    times: reactive[bool] = reactive(False)
    """Whether each line has the time it was written, or arrived, before it."""

    raw: reactive[bool] = reactive(False)
    """Whether every byte is shown, escape sequences and secrets too."""

    cursor: reactive[int | None] = reactive(None)
    """The line that was chosen; None where none is."""

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._left = 0
        self._top_row = (0, 0)  # (line, row): the row of the top line that is the first on screen
        self._sight: tuple[object, list[Spot]] | None = None
        self._lines_at_stop = 0
        self._painter = Painter()
        self._painter.styles = self._style
        self._drawn_tag_width = 0
        self._styles: dict[str, Style] = {}
        self._pinned: int | None = None  # the other end of what is chosen, by `v` pressed again

    # What is in sight, and what of it is chosen

    def visible_lines(self) -> range:
        """Return the numbers of the lines on screen, counted from 0."""
        spots = self._spots()
        return range(spots[0][0], spots[-1][0] + 1) if spots else range(0)

    @property
    def here(self) -> int:
        """The line that is meant where none is named: the chosen one, else the last when following, or the first in sight."""
        seen = self.visible_lines()
        if self.cursor is not None:
            return self.cursor
        return max(0, (seen.stop - 1) if self.follow else seen.start)

    @property
    def chosen(self) -> range:
        """The lines that are chosen; none where nothing was."""
        if self.cursor is None:
            return range(0)
        other = self.cursor if self._pinned is None else self._pinned
        return range(min(other, self.cursor), max(other, self.cursor) + 1)

    def cut_line(self) -> int | None:
        """The line in sight that is not shown whole, the one that is meant before all others."""
        seen = self.visible_lines()
        meant = [self.cursor] if self.cursor is not None else [self.here, *seen]
        return next((number for number in meant if number < self.total_lines and self._is_cut(number)), None)

    def _is_cut(self, number: int) -> bool:
        painted = self._painter.painted(number)
        return bool(painted.cut) or (not self.wrap and painted.body.cell_length > self._text_width())

    def set_marks(self, marks: frozenset[Place]) -> None:
        """Show which lines are marked."""
        widened = bool(marks) != bool(self._painter.marks)
        self._painter.marks = marks
        if widened:
            self._lay_out()
        self.refresh()

    def go_to(self, line: int) -> None:
        """Bring a line into sight, and choose it."""
        if self.total_lines:
            self.follow = False
            self.cursor = max(0, min(line, self.total_lines - 1))
            self._bring(self.cursor)

    # Keys

    def action_move(self, step: int) -> None:
        """Scroll by `step` rows, or move what is chosen by as many lines."""
        if self.cursor is not None:
            self._move_cursor(self.cursor + step)
        else:
            self._scroll_by(step)

    def action_page(self, direction: int) -> None:
        """Scroll by a page, less the one row that shows where it was."""
        page = direction * max(1, self.scrollable_content_region.height - 1)
        if self.cursor is not None:
            self._move_cursor(self.cursor + page)
        else:
            self._scroll_by(page)

    def action_top(self) -> None:
        """Go to the first line."""
        if self.cursor is not None:
            self._move_cursor(0)
        else:
            self.follow = False
            self._scroll_to_spot((0, 0))

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        if self.cursor is not None:
            self._move_cursor(self.total_lines - 1)
        else:
            self.follow = True

    def action_sideways(self, direction: int) -> None:
        """Scroll to the left or the right."""
        left = max(0, self._left + direction * SIDEWAYS)
        if self.wrap or (direction > 0 and not self._any_beyond()):
            return
        if left != self._left:
            self._left = left
            self.refresh()

    def action_wrap(self) -> None:
        """Wrap lines, or let them go on beyond the edge."""
        self.wrap = not self.wrap

    def action_times(self) -> None:
        """Show when each line was written, or no more."""
        self.times = not self.times

    def action_raw(self) -> None:
        """Show every byte, or the text as a terminal would."""
        self.raw = not self.raw

    def action_choose(self) -> None:
        """Choose a line; pressed again, move from there and choose all between."""
        if not self.total_lines:
            return
        if self.cursor is None:
            chosen = self.here
            self.follow = False
            self.cursor = min(chosen, self.total_lines - 1)
        else:
            self._pinned = self.cursor if self._pinned is None else None
            self.refresh()

    def choose_nothing(self) -> bool:
        """Let go of what is chosen; False where nothing is."""
        if self.cursor is None:
            return False
        self._pinned = self.cursor = None
        return True

    # Changes

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """End following when somebody scrolls up, by whatever means."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and round(new_value) < self.max_scroll_y:
            self.follow = False

    def watch_follow(self, follow: bool) -> None:
        """Go to the end, or count new lines from now on."""
        self._lines_at_stop = self.total_lines
        self.new_lines = 0
        if follow:
            self._pinned = self.cursor = None
            self._to_end()

    def watch_wrap(self) -> None:
        """Lay out anew, with the same line on top."""
        self._left = 0
        self._lay_out()

    def watch_times(self) -> None:
        """Lay out anew."""
        self._lay_out()

    def watch_raw(self) -> None:
        """Lay out anew."""
        self._lay_out()

    def watch_cursor(self) -> None:
        """Show what is chosen."""
        self.refresh()

    def on_resize(self) -> None:
        """Stay at the end, and with a chosen line that what is said above has just pushed out of sight."""
        self._lay_out()
        if self.cursor is not None and 0 <= self.cursor - self.visible_lines().stop < SAID_ROWS:
            self._bring(self.cursor)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll by rows, also within a long line."""
        self._wheel(event, -WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll by rows, also within a long line."""
        self._wheel(event, WHEEL)

    def on_click(self, event: events.Click) -> None:
        """Choose the line under the mouse."""
        offset = event.get_content_offset(self)
        spots = self._spots()
        if offset is not None and offset.y < len(spots):
            self.follow = False
            self._pinned = None
            self.cursor = spots[offset.y][0]

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Draw one row of the screen."""
        width, spots = self.scrollable_content_region.width, self._spots()
        if y < len(spots):
            number, row = spots[y]
            strip = self._painter.row(number, row, self._left, width, number in self.chosen)
            if self._painter.tag_width != self._drawn_tag_width:  # a wider one than those before
                self._drawn_tag_width = self._painter.tag_width
                self.call_later(self._lay_out)
            return strip
        text = self._instead(width, y) if not self.total_lines else ""
        return Strip([Segment(text, self._style("log--note"))] if text else []).crop_extend(0, width, self.rich_style)

    def _instead(self, width: int, y: int) -> str:
        """What stands in a row where there are no lines."""
        return ""

    def notify_style_update(self) -> None:
        """Forget what was drawn with the old styles."""
        super().notify_style_update()
        self._styles.clear()
        self._painter.forget()

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self.get_component_rich_style(name) if name else self.rich_style
        return style

    def _text_width(self) -> int:
        return max(1, self.scrollable_content_region.width - self._painter.gutter)

    def _refresh_from(self, number: int) -> None:
        region = self.scrollable_content_region
        first = max(0, number - self.scroll_offset.y)
        if first < region.height:
            self.refresh(Region(0, first, region.width, region.height - first))

    def _any_beyond(self) -> bool:
        """Whether any line on screen goes on to the right of it."""
        end = self._left + self._text_width()
        return any(self._painter.painted(number).body.cell_length > end for number in self.visible_lines())

    # Rows and scrolling

    def _rows(self, number: int) -> int:
        return len(self._painter.painted(number).starts) if self.wrap else 1

    def _top(self) -> Spot:
        """What stands first on screen; after a drag of the scrollbar, a line's first row."""
        line = self.scroll_offset.y
        return self._top_row if self._top_row[0] == line else (line, 0)

    def _spots(self) -> list[Spot]:
        """The rows on screen."""
        top, height = self._top(), self.scrollable_content_region.height
        known = (top, height, self.total_lines)
        if self._sight is None or self._sight[0] != known:
            self._sight = known, in_sight(top, height, self.total_lines, self._rows)
        return self._sight[1]

    def _lay_out(self) -> None:
        """Begin anew with the rows: width, wrapping or what stands before the text has changed."""
        self._painter.times, self._painter.raw = self.times, self.raw
        self._painter.wrap_width = self._text_width() if self.wrap else 0
        self._painter.forget()
        self._sight = None
        self._measure()
        if self.follow:
            self._to_end()
        self.refresh()

    def _measure(self) -> None:
        """Set how far can be scrolled: to where the last row stands at the bottom, which wrapped lines put further down."""
        height = self.total_lines
        if self.wrap and height:
            line, _ = last_top(height, self.scrollable_content_region.height, self._rows)
            height = max(height, line + self.scrollable_content_region.height)
        if height != self.virtual_size.height:
            self.virtual_size = Size(0, height)

    def _to_end(self) -> None:
        total, height = self.total_lines, self.scrollable_content_region.height
        self._scroll_to_spot(last_top(total, height, self._rows))

    def _scroll_by(self, rows: int) -> None:
        top = self._top()
        if rows < 0 and top != (0, 0):
            self.follow = False
        self._scroll_to_spot(moved(top, rows, self.total_lines, self._rows))

    def _scroll_to_spot(self, spot: Spot) -> None:
        if spot[0] + self.scrollable_content_region.height >= self.total_lines:
            spot = min(spot, last_top(self.total_lines, self.scrollable_content_region.height, self._rows))
        self._top_row = spot
        if spot[0] == self.scroll_offset.y:
            if self.wrap:
                self.refresh()
        else:
            self.scroll_to(y=spot[0], animate=False, force=True)

    def _bring(self, line: int) -> None:
        """Scroll as far as it takes to have a line in sight, whole where it fits."""
        seen = self.visible_lines()
        if line in seen and (not self.wrap or line > seen.start or self._top()[1] == 0):
            return
        self._scroll_to_spot((max(0, line - self.scrollable_content_region.height // 3), 0))
        if self.wrap and line not in self.visible_lines():
            self._scroll_to_spot((line, 0))

    def _move_cursor(self, line: int) -> None:
        self.cursor = line = max(0, min(line, self.total_lines - 1))
        seen = self.visible_lines()
        if line < seen.start:
            self._scroll_to_spot((line, 0))
        elif line >= seen.stop:
            end = (line, self._rows(line) - 1)
            self._scroll_to_spot(moved(end, 1 - self.scrollable_content_region.height, self.total_lines, self._rows))

    def _wheel(self, event: events.MouseEvent, rows: int) -> None:
        event.stop()
        event.prevent_default()
        self._scroll_by(rows)
