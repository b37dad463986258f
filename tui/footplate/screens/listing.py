"""A list that stays up to date: filter, faults only, the row that explains what is under the cursor."""

from __future__ import annotations

import asyncio
import textwrap
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import Worker

from footplate.logs.sanitise import clean
from footplate.operations.filters import Filter
from footplate.screens.base import ConsoleScreen
from footplate.widgets.chrome import KeyLine
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable

_SENTENCE_WIDTH = 72


class ListScreen(ConsoleScreen):
    """The base of the four lists. A child gives columns, `fetch`, `explain`, and what to do on enter."""

    columns: ClassVar[tuple[Column, ...]] = ()
    empty: ClassVar[str] = ""
    every_seconds: ClassVar[float] = 1.0
    marking: ClassVar[bool] = False
    """Whether rows can be marked, for acts on several at once."""
    watched_kind: ClassVar[str] = ""
    """What the rows are to the watch list; empty where they cannot be watched."""

    DEFAULT_CSS = """
    ListScreen #filter { height: 1; border: none; padding: 0 1; display: none; background: $surface; }
    ListScreen #filter.shown { display: block; }
    ListScreen VirtualTable { padding: 0 0; }
    ListScreen #explain {
        height: 2; padding: 0 2; border-top: solid $panel-lighten-2; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.expression = ""
        self.only_faults = False
        self._all: Sequence[Row] = ()
        self._loaded = False
        self.scope = ""
        """What stands behind the number of rows, where they are not all there are."""
        self.cursor_to: str | None = None
        """The key of a row to go to as soon as it is there."""

    def compose(self) -> ComposeResult:
        """Top line, filter, table, explanation, keys."""
        yield self.top()
        yield Input(placeholder="words, !word, status:failed,running; empty shows all", id="filter", compact=True)
        table = VirtualTable(self.columns, id="table", marking=self.marking)
        table.empty = "Loading …"
        yield table
        yield Static("", id="explain", markup=False)
        yield self.keys()

    def on_mount(self) -> None:
        """Load at once, then again every second while this screen is the one in sight."""
        self.query_one("#filter", Input).cursor_blink = False
        self.table.focus()
        self.query_one(KeyLine).turn_off(self.not_now(None))  # no row is there yet
        self.watch(self.console, "watched", self._show_watched)
        self.set_interval(self.every_seconds, self.tick)
        self.poll()

    def _show_watched(self, watched: frozenset[tuple[str, str]]) -> None:
        self.table.set_watched(frozenset(name for kind, name in watched if kind == self.watched_kind))

    def on_screen_resume(self) -> None:
        """Look again at once."""
        if self.is_mounted:
            self.poll()

    @property
    def table(self) -> VirtualTable:
        """The table."""
        return self.query_one("#table", VirtualTable)

    # Rows

    @abstractmethod
    async def fetch(self) -> Sequence[Row]:
        """All rows, newest first; blocking work belongs to the workspace's own threads."""

    @abstractmethod
    def explain(self, key: str) -> Content:
        """One line on the row under the cursor."""

    async def look(self) -> None:
        """Fetch and show."""
        rows = await self.fetch()
        if self.is_attached:
            self.show_rows(rows)

    def say_fault(self, sentence: str) -> None:
        """In the explaining line; the rows stay."""
        if not self._loaded:  # the line below has room for the beginning only
            self.table.empty = textwrap.fill(clean(sentence), max(20, min(self.size.width - 8, _SENTENCE_WIDTH)))
        self.query_one("#explain", Static).update(Content.styled(clean(sentence), "$text-error"))

    def show_rows(self, rows: Sequence[Row]) -> Worker[None]:
        """Hand the rows that pass the filter to the table; the worker that does it may be waited for."""
        self._all = rows
        self._loaded = True
        return self._apply()

    @work(exclusive=True, group="filter")
    async def _apply(self) -> None:
        """Filter in a thread, since ten thousand rows take longer than a key may."""
        rows = self._all
        kept = rows
        if self.expression or self.only_faults:
            kept = await asyncio.to_thread(keep, rows, self.columns, Filter.parse(self.expression), self.only_faults)
        if not self.query("#table"):
            return  # left meanwhile
        table = self.table
        table.empty = (
            f"None of {len(rows):,}{self.scope} rows passes the filter. esc shows all." if rows else self.empty
        )
        table.set_rows(kept)
        if self.cursor_to is not None and table.move_to(self.cursor_to):
            self.cursor_to = None
        self._explain(table.cursor_key)

    @on(VirtualTable.Highlighted)
    def _highlighted(self, event: VirtualTable.Highlighted) -> None:
        self._explain(event.key)

    def _explain(self, key: str | None) -> None:
        shown = self.explain(key) if key is not None else Content("")
        kept, total = len(self.table.rows), len(self._all)
        if kept != total:
            shown = Content.assemble((f"{kept:,} of {total:,}{self.scope}  ", "bold $accent"), shown)
        if error := Filter.parse(self.expression).error:
            shown = Content.styled(clean(error), "$text-warning")
        self.query_one("#explain", Static).update(shown)
        self.query_one(KeyLine).turn_off(self.not_now(key))

    def not_now(self, key: str | None) -> frozenset[str]:
        """Actions that do not apply to the row under the cursor."""
        return frozenset() if key is not None else frozenset({"open"})

    # Keys

    def action_copy(self) -> None:
        """Copy the name under the cursor."""
        if (key := self.table.cursor_key) is not None:
            self.copy(key, key)

    def action_faults(self) -> None:
        """Only what is in trouble, or all again."""
        self.only_faults = not self.only_faults
        self.console.notify(
            "Only what is in trouble; f shows all." if self.only_faults else "All rows.", markup=False, timeout=3
        )
        self._filter_again()

    def _filter_again(self) -> None:
        """Before the first answer there is nothing to filter, and that there are no rows would not be true."""
        if self._loaded:
            self._apply()

    def action_filter(self) -> None:
        """Open the filter line."""
        line = self.query_one("#filter", Input)
        line.add_class("shown")
        line.focus()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        self.expression = event.value
        self._filter_again()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.query_one("#filter", Input).set_class(bool(self.expression), "shown")
        self.table.focus()

    def key_escape(self) -> None:
        """Clear the filter; without one, go one step back."""
        line = self.query_one("#filter", Input)
        if self.expression or self.only_faults or line.has_class("shown"):
            line.value = ""
            line.remove_class("shown")
            self.only_faults = False
            self.table.focus()
            self._filter_again()
        else:
            self.console.step_back()

    def narrow(self, expression: str) -> None:
        """Filter by an expression, as if it had been typed."""
        line = self.query_one("#filter", Input)
        line.set_class(bool(expression), "shown")
        line.value = expression

    def action_leave(self) -> None:
        """Leave the console."""
        self.console.exit()

    @on(VirtualTable.Selected)
    def _selected(self) -> None:
        self.action_open()

    @abstractmethod
    def action_open(self) -> None:
        """Go into what is under the cursor."""


def keep(rows: Sequence[Row], columns: Sequence[Column], wanted: Filter, only_faults: bool) -> list[Row]:
    """The rows that pass the filter; a fault is a cell in error style."""
    status_at = next((i for i, column in enumerate(columns) if column.key == "status"), None)

    def passes(row: Row) -> bool:
        if only_faults and not any(isinstance(cell, Cell) and cell.style == "error" for cell in row.cells):
            return False
        texts = [cell if isinstance(cell, str) else cell.text for cell in row.cells]
        status = texts[status_at].rpartition(" ")[2] if status_at is not None else ""  # after the letter that tells it
        return wanted.passes(" ".join((row.key, *texts)), status)

    return [row for row in rows if passes(row)]
