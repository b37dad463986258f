"""What a table is made of: columns, cells and rows, and how columns share a width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

CellStyle = Literal["plain", "ok", "warn", "error", "muted", "accent"]

WIDE = 100
"""Cells from which on columns stand two cells apart, not one."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `width` in cells, or None for a share of what the others leave, but never under `minimum`.

    Where the table is too narrow, the column of the lowest `priority` goes first, the rightmost of equals; the first
    column always stays.
    """

    key: str
    title: str
    width: int | None = None
    align: Literal["left", "right"] = "left"
    minimum: int = 8
    priority: int = 100

    @property
    def least(self) -> int:
        """The fewest cells the column is drawn with."""
        return self.minimum if self.width is None else self.width


class Cell(NamedTuple):
    """The text of one cell, which is data and never markup, and what it means."""

    text: str
    style: CellStyle = "plain"


class Row(NamedTuple):
    """One row: what it is known by, and one cell a column."""

    key: str
    cells: tuple[Cell | str, ...]


class Placed(NamedTuple):
    """A column that is drawn: which of the owner's columns it is, and its width in cells."""

    position: int
    column: Column
    width: int


def lay_out(columns: Sequence[Column], width: int) -> tuple[list[Placed], int]:
    """Share `width` cells out among the columns; return those there is room for, and the gap between them."""
    gap = 2 if width >= WIDE else 1
    shown = list(enumerate(columns))

    def spare() -> int:
        return width - gap * (len(shown) - 1) - sum(column.least for _, column in shown)

    while len(shown) > 1 and spare() < 0:
        shown.remove(min(shown[1:], key=lambda item: (item[1].priority, -item[0])))
    left = max(0, spare())
    flexible = sum(column.width is None for _, column in shown)
    placed = []
    for position, column in shown:
        share = 0
        if column.width is None:
            share = left // flexible
            left, flexible = left - share, flexible - 1
        placed.append(Placed(position, column, column.least + share))
    return placed, gap


def fit(text: str, width: int, align: str = "left") -> str:
    """Return `text` at exactly `width` cells: padded, or cut with an ellipsis; wide characters count two."""
    size = len(text) if text.isascii() else cell_len(text)
    if size > width:
        text, size = (set_cell_size(text, width - 1) + "…", width) if width > 0 else ("", 0)
    pad = " " * (width - size)
    return pad + text if align == "right" else text + pad
