"""The list of a folder: `..`, folders, files, with sizes and dates; every name is data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from footplate import words
from footplate.operations.folders import Entry, Listing, first_fit, narrow
from footplate.widgets.virtual_table import Cell, CellStyle, Column, Row, VirtualTable

Pick = Literal["file", "folder", "any"]
"""What is wanted of a list: a file, a folder, or either."""

HERE, UP = ".", ".."
"""The keys of the folder itself and of the one above; every other key is an entry's name."""

_COLUMNS = (
    Column("name", "NAME", None, minimum=24, priority=100),
    Column("size", "SIZE", 8, "right", priority=90),
    Column("changed", "CHANGED", 16, priority=80),
)


class PathList(VirtualTable):
    """A folder's list, narrowed by what is typed elsewhere: it never has the focus itself."""

    DEFAULT_CSS = """
    PathList > .table--cursor { background: $primary-muted; text-style: bold; }
    """

    def __init__(self, pick: Pick = "file", suffixes: frozenset[str] = frozenset(), id: str | None = None) -> None:
        super().__init__(_COLUMNS, marking=False, empty="Reading …", id=id)
        self.can_focus = False
        self.pick = pick
        self.suffixes = suffixes
        self.everything = False
        """Whether hidden files and those of other endings are shown."""
        self.listing: Listing | None = None
        self._by_name: dict[str, tuple[Entry, Row]] = {}
        self._kept: list[Entry] = []

    @property
    def entry(self) -> Entry | None:
        """The entry under the cursor; None on `.` and `..`."""
        found = self._by_name.get(self.cursor_key or "")
        return found[0] if found else None

    @property
    def kept(self) -> Sequence[Entry]:
        """The entries that passed."""
        return self._kept

    def open(self, listing: Listing, rows: Sequence[Row], typed: str = "", cursor_on: str | None = None) -> None:
        """Show another folder, with its rows as `rows_of` made them; the cursor starts on a name where that is there."""
        self.listing = listing
        self._by_name = {entry.name: (entry, row) for entry, row in zip(listing.entries, rows, strict=True)}
        self.narrow(typed)
        if cursor_on is not None:
            self.move_to(cursor_on)

    def narrow(self, typed: str) -> None:
        """Show the entries that fit what was typed, the cursor on the one that is meant first."""
        if self.listing is None:
            return
        self._kept = narrow(self.listing.entries, typed, self.everything, self.suffixes)
        rows = [self._by_name[entry.name][1] for entry in self._kept]
        before = []
        if self.pick != "file" and typed in ("", HERE):
            before.append(Row(HERE, (Cell("./  this folder", "ok"), "", "")))
        if typed in ("", HERE, UP) and self.listing.folder != self.listing.folder.parent:
            before.append(Row(UP, (Cell("../  one folder up", "muted"), "", "")))
        self.empty = self._why_empty(typed)
        self.set_rows([*before, *rows])
        if typed == UP or (self.pick != "file" and typed in ("", HERE)):
            self.move_to(UP if typed == UP else HERE)
        elif (first := first_fit(self._kept, typed)) is not None:
            self.move_to(first.name)

    def _why_empty(self, typed: str) -> str:
        total = len(self.listing.entries) if self.listing else 0
        if not total:
            return "The folder is empty."
        if "/" in typed:
            return "Nothing is there."
        hidden = "" if self.everything else "\n^t shows hidden files and those of other kinds too."
        return f"None of {total:,} names has {typed!r} in it.{hidden}" if typed else f"Nothing to pick here.{hidden}"


def rows_of(listing: Listing, pick: Pick) -> list[Row]:
    """A row for every entry; many, so that a thread makes them."""
    return [_row(entry, pick) for entry in listing.entries]


def _row(entry: Entry, pick: Pick) -> Row:
    shown = f"{entry.name}/" if entry.kind == "folder" else entry.name
    style: CellStyle = "plain"
    if entry.kind == "folder":
        style = "accent"
    elif entry.kind == "broken":
        style = "error"
    elif entry.kind == "other" or pick == "folder":
        style = "muted"
    if entry.leads_to:
        shown += f" → {entry.leads_to}"
    if entry.kind == "broken":
        shown += "  (leads nowhere)"
    size = words.size(entry.size) if entry.size is not None else ""
    return Row(entry.name, (Cell(shown, style), Cell(size, "muted"), Cell(moment(entry.changed), "muted")))


def moment(seconds: float | None) -> str:
    """A file's date on this machine's clock, to the minute; empty for none and for one that no calendar has."""
    if seconds is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return ""
