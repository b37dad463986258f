"""A table of any number of immutable rows which draws only the lines on screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from footplate.logs.sanitise import clean
from footplate.widgets.columns import Cell, CellStyle, Column, Placed, Row, fit, lay_out

__all__ = ["Cell", "CellStyle", "Column", "Row", "VirtualTable"]

CURSOR_SIGN, MARK_SIGN, WATCH_SIGN = "▸", "*", "•"
GUTTER = len(CURSOR_SIGN) + len(MARK_SIGN)


class _Palette(NamedTuple):
    """The styles of one kind of line: its ground, and one for every meaning of a cell."""

    ground: Style
    cells: dict[str, Style]


class VirtualTable(ScrollView, can_focus=True):
    """A table whose rows are handed over whole, as often as wanted: `set_rows` repaints only what differs on screen.

    The cursor stays on its row's key, marks as well, and the row under the cursor stays where it is on screen.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--cursor",
        "table--ok",
        "table--warn",
        "table--error",
        "table--muted",
        "table--accent",
        "table--mark",
    }

    DEFAULT_CSS = """
    VirtualTable {
        width: 1fr;
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        & > .table--header { color: $text-muted; }
        & > .table--cursor { background: $surface; }
        &:focus > .table--cursor { background: $primary-muted; text-style: bold; }
        & > .table--ok { color: $text-success; }
        & > .table--warn { color: $text-warning; }
        & > .table--error { color: $text-error; }
        & > .table--muted { color: $text-muted; }
        & > .table--accent { color: $text-accent; }
        & > .table--mark { color: $text-accent; text-style: bold; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "top", "Top", show=False),
        Binding("end,G", "bottom", "Bottom", show=False),
        Binding("space", "mark", "Mark", show=False),
        Binding("enter", "select", "Open", show=False),
    ]

    class Highlighted(Message):
        """The cursor came to another row; `key` is None where there is none."""

        def __init__(self, table: VirtualTable, key: str | None) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> VirtualTable:
            """The table, for `@on(…, "#id")`."""
            return self.table

    class Selected(Message):
        """The row under the cursor was chosen, by enter or a double click."""

        def __init__(self, table: VirtualTable, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> VirtualTable:
            """The table, for `@on(…, "#id")`."""
            return self.table

    class Marked(Message):
        """The marks changed; `keys` are all of them."""

        def __init__(self, table: VirtualTable, keys: frozenset[str]) -> None:
            super().__init__()
            self.table = table
            self.keys = keys

        @property
        def control(self) -> VirtualTable:
            """The table, for `@on(…, "#id")`."""
            return self.table

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        empty: str = "",
        marking: bool = True,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._columns = tuple(columns)
        self._marking = marking
        self._rows: Sequence[Row] = ()
        self._cursor = 0
        self._marks: frozenset[str] = frozenset()
        self._watched: frozenset[str] = frozenset()
        self._empty = empty
        self._highlighted: str | None = None
        self._layout_width = -1
        self._placed: list[Placed] = []
        self._gap = 1
        self._palettes: dict[bool, _Palette] = {}
        self._strips: LRUCache[tuple[str, bool, str], tuple[Row, Strip]] = LRUCache(512)

    # What the owner asks and tells

    @property
    def rows(self) -> Sequence[Row]:
        """The rows as they were handed over last."""
        return self._rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in order, whether or not there is room for each."""
        return self._columns

    @property
    def cursor_index(self) -> int:
        """Where the cursor is, counted from 0; -1 where there are no rows."""
        return self._cursor if self._rows else -1

    @property
    def cursor_key(self) -> str | None:
        """The key of the row under the cursor."""
        return self._rows[self._cursor].key if self._rows else None

    @property
    def marks(self) -> frozenset[str]:
        """The keys of the marked rows."""
        return self._marks

    @property
    def shown_columns(self) -> list[str]:
        """The keys of the columns there is room for."""
        self._lay_out()
        return [column.key for _, column, _ in self._placed]

    @property
    def empty(self) -> str:
        """What is shown in place of rows: plain text of one line or several."""
        return self._empty

    @empty.setter
    def empty(self, text: str) -> None:
        if text != self._empty:
            self._empty = text
            if not self._rows:
                self.refresh()

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Draw other columns from now on; rows handed over next have a cell for each."""
        if tuple(columns) != self._columns:
            self._columns = tuple(columns)
            self._layout_width = -1
            self.refresh()

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows, which must not be changed afterwards; only the lines that differ are drawn again."""
        if rows is self._rows:
            return
        before, cursor_before, top_before = self._rows, self._cursor, self.scroll_offset.y
        cursor_seen = self._line_of(cursor_before) is not None
        key = before[cursor_before].key if before else None
        anchor = cursor_before if cursor_seen else top_before
        anchor_key = before[anchor].key if anchor < len(before) else None

        self._rows = rows
        self._cursor = _find(rows, key, cursor_before)
        if self._marks:
            self._set_marks(self._marks & {row.key for row in rows})
        self.virtual_size = Size(0, len(rows) + 1)
        if top_before > 0:  # at the top, new rows come into sight; elsewhere, what is read stays put
            anchor_now = self._cursor if anchor_key == key else _find(rows, anchor_key, anchor)
            self._scroll_rows(top_before + anchor_now - anchor)
        if cursor_seen or key is None:
            self._show_cursor()
        if self.scroll_offset.y == top_before:
            self._refresh_changed(before, cursor_before)
        self._tell_highlighted()

    def move_to(self, key: str) -> bool:
        """Put the cursor on the row with that key and show it; False where there is none."""
        index = _find(self._rows, key, -1)
        if not 0 <= index < len(self._rows) or self._rows[index].key != key:
            return False
        self._move(index)
        return True

    def set_watched(self, keys: frozenset[str]) -> None:
        """Draw the sign of what is watched before these rows; a mark hides it."""
        if keys != self._watched:
            self._watched = keys
            self.refresh()

    def clear_marks(self) -> None:
        """Unmark every row."""
        self._set_marks(frozenset())

    # Keys and mouse

    def action_move(self, step: int) -> None:
        """Move the cursor by `step` rows."""
        self._move(self._cursor + step)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a page, less the one row that shows where it was."""
        self._move(self._cursor + direction * max(1, self._page - 1))

    def action_top(self) -> None:
        """Move the cursor to the first row."""
        self._move(0)

    def action_bottom(self) -> None:
        """Move the cursor to the last row."""
        self._move(len(self._rows) - 1)

    def action_mark(self) -> None:
        """Mark the row under the cursor, or take its mark away, and go to the next."""
        key = self.cursor_key
        if key is not None and self._marking:
            self._set_marks(self._marks ^ {key})
            self._move(self._cursor + 1)

    def action_select(self) -> None:
        """Say that the row under the cursor is chosen."""
        key = self.cursor_key
        if key is not None:
            self.post_message(self.Selected(self, key))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row clicked; a second click chooses it."""
        offset = event.get_content_offset(self)
        index = self.scroll_offset.y + offset.y - 1 if offset is not None and offset.y > 0 else -1
        if not 0 <= index < len(self._rows):
            return
        event.stop()
        self._move(index)
        if event.chain == 2:
            self.action_select()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._show_cursor()

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen: the header, a row, a line of the empty text, or nothing."""
        self._lay_out()
        width = self._layout_width
        if y == 0:
            return self._header()
        index = self.scroll_offset.y + y - 1
        if index < len(self._rows):
            return self._row_strip(self._rows[index], index == self._cursor)
        base = self.rich_style
        text = "" if self._rows else self._empty_line(y)
        return Strip([Segment(fit(text, width), base)], width)

    def notify_style_update(self) -> None:
        """Forget what was drawn with the old styles."""
        super().notify_style_update()
        self._palettes.clear()
        self._strips.clear()

    def _header(self) -> Strip:
        style = self.get_component_rich_style("table--header")
        gap = " " * self._gap
        parts = [fit(clean(column.title), width, column.align) for _, column, width in self._placed]
        return Strip([Segment(fit(" " * GUTTER + gap.join(parts), self._layout_width), style)], self._layout_width)

    def _row_strip(self, row: Row, cursor: bool) -> Strip:
        sign = MARK_SIGN if row.key in self._marks else WATCH_SIGN if row.key in self._watched else " "
        cached = self._strips.get((row.key, cursor, sign))
        if cached is not None and (cached[0] is row or cached[0] == row):
            return cached[1]
        ground, styles = self._palette(cursor)
        segments = [
            Segment(CURSOR_SIGN if cursor else " ", ground),
            Segment(sign, styles["mark"]),
        ]
        used = GUTTER
        for place, (position, column, width) in enumerate(self._placed):
            value = row.cells[position] if position < len(row.cells) else ""
            text, meaning = (value, "plain") if isinstance(value, str) else value
            if place:
                segments.append(Segment(" " * self._gap, ground))
                used += self._gap
            segments.append(Segment(fit(clean(text), width, column.align), styles.get(meaning, ground)))
            used += width
        segments.append(Segment(" " * max(0, self._layout_width - used), ground))
        strip = Strip(segments).crop(0, self._layout_width)
        self._strips[(row.key, cursor, sign)] = (row, strip)
        return strip

    def _palette(self, cursor: bool) -> _Palette:
        palette = self._palettes.get(cursor)
        if palette is None:
            ground = self.get_component_rich_style("table--cursor") if cursor else self.rich_style
            cells = {"plain": ground}
            for meaning in ("ok", "warn", "error", "muted", "accent", "mark"):
                full = self.get_component_rich_style(f"table--{meaning}")
                cells[meaning] = ground + Style(color=full.color, bold=full.bold or None, dim=full.dim or None)
            palette = self._palettes[cursor] = _Palette(ground, cells)
        return palette

    def _empty_line(self, y: int) -> str:
        lines = self._empty.split("\n")
        first = 1 + max(1, (self._page - len(lines)) // 3)
        return " " * GUTTER + clean(lines[y - first]) if 0 <= y - first < len(lines) else ""

    def _lay_out(self) -> None:
        """Share out the width among the columns, where it changed."""
        width = self.scrollable_content_region.width
        if width != self._layout_width:
            self._layout_width = width
            self._strips.clear()
            self._placed, self._gap = lay_out(self._columns, max(0, width - GUTTER))

    # Cursor, marks, scroll

    @property
    def _page(self) -> int:
        """Rows that fit under the header."""
        return max(0, self.scrollable_content_region.height - 1)

    def _line_of(self, index: int) -> int | None:
        """Return the line on screen of a row, or None where it is out of sight."""
        line = index - self.scroll_offset.y + 1
        return line if 1 <= line <= self._page else None

    def _move(self, index: int) -> None:
        if not self._rows:
            return
        before = self._cursor
        self._cursor = max(0, min(index, len(self._rows) - 1))
        if self._cursor != before:
            self._refresh_rows(before, self._cursor)
            self._tell_highlighted()
        self._show_cursor()

    def _show_cursor(self) -> None:
        page, top = self._page, self.scroll_offset.y
        if not page or not self._rows:
            return
        if self._cursor < top:
            self._scroll_rows(self._cursor)
        elif self._cursor >= top + page:
            self._scroll_rows(self._cursor - page + 1)

    def _scroll_rows(self, top: int) -> None:
        self.scroll_to(y=max(0, top), animate=False, force=True)

    def _refresh_rows(self, *indexes: int) -> None:
        lines = [line for line in map(self._line_of, indexes) if line is not None]
        if lines:
            self.refresh(*(Region(0, line, self._layout_width, 1) for line in lines))

    def _refresh_changed(self, before: Sequence[Row], cursor_before: int) -> None:
        """Draw again the rows on screen that differ from the rows before."""
        if bool(before) != bool(self._rows):
            self.refresh()
            return
        top, now = self.scroll_offset.y, self._rows
        changed = []
        for index in range(top, min(top + self._page, max(len(before), len(now)))):
            old = before[index] if index < len(before) else None
            new = now[index] if index < len(now) else None
            if not (old is new or old == new) or (index == cursor_before) != (index == self._cursor):
                changed.append(index)
        self._refresh_rows(*changed)

    def _set_marks(self, marks: frozenset[str]) -> None:
        if marks == self._marks:
            return
        changed = marks ^ self._marks
        self._marks = marks
        top = self.scroll_offset.y
        seen = range(top, min(top + self._page, len(self._rows)))
        self._refresh_rows(*(index for index in seen if self._rows[index].key in changed))
        self.post_message(self.Marked(self, marks))

    def _tell_highlighted(self) -> None:
        key = self.cursor_key
        if key != self._highlighted:
            self._highlighted = key
            self.post_message(self.Highlighted(self, key))


def _find(rows: Sequence[Row], key: str | None, otherwise: int) -> int:
    """Return where the row with that key is; else `otherwise`, brought within the rows (0 where there are none)."""
    if otherwise >= 0 and otherwise < len(rows) and rows[otherwise].key == key:
        return otherwise
    if key is not None:
        for index, row in enumerate(rows):
            if row.key == key:
                return index
    return max(0, min(otherwise, len(rows) - 1))
