"""A grid of braille cells, two dots wide and four high each, which knows whose dots are in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from footplate.operations.scales import Scale
from footplate.operations.series import Slot

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # Unicode's braille bits, by row and column of a cell
GAP_SIGN = "×"
NOBODY, GAPS, CURSOR, FAINT = -1, -2, -3, -4
"""Owners beside the curves, which are numbered from 0."""


class Canvas:
    """Curves, marks and a cursor line in so many columns and rows of cells."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._bits = [[0] * columns for _ in range(rows)]
        self._owners = [[NOBODY] * columns for _ in range(rows)]
        self._signs: dict[tuple[int, int], tuple[str, int]] = {}

    @property
    def dots(self) -> int:
        """Columns of dots."""
        return self.columns * 2

    def curve(self, slots: Sequence[Slot], scale: Scale, owner: int) -> None:
        """Draw a curve: within a column from its least to its most, from column to column a straight line."""
        before: tuple[int, int] | None = None
        for slot in slots:
            first, low, high, last = (self._down(y, scale) for y in slot[1:])
            if before is not None and before != (slot.column, first):
                self._line(before, (slot.column, first), owner)
            for y in range(high, low + 1):
                self._dot(slot.column, y, owner)
            before = slot.column, last

    def scatter(self, places: Iterable[tuple[int, float]], scale: Scale, owner: int, sign: str) -> None:
        """Put a sign at each (column of dots, y)."""
        for column, y in places:
            self._signs[self._down(y, scale) // 4, column // 2] = (sign, owner)

    def gaps(self, columns: Iterable[int]) -> None:
        """Mark at the foot, by columns of dots, where values are that cannot be drawn."""
        for column in columns:
            if 0 <= column < self.dots:
                self._signs[self.rows - 1, column // 2] = (GAP_SIGN, GAPS)

    def name_curve(self, slots: Sequence[Slot], scale: Scale, owner: int, sign: str) -> None:
        """Put a curve's sign on it, as far right as no other curve has one: colour alone tells nobody which it is."""
        for slot in reversed(slots):
            place = self._down(slot.last, scale) // 4, slot.column // 2
            if not any((place[0], place[1] + near) in self._signs for near in (-1, 0, 1)):
                self._signs[place] = (sign, owner)
                return

    def line_at(self, column: int) -> None:
        """Draw the cursor's line where no curve is."""
        for row in range(self.rows):
            if not self._bits[row][column // 2]:
                self._signs.setdefault((row, column // 2), ("│", CURSOR))

    def runs(self, row: int) -> list[tuple[str, int]]:
        """Return one row of cells as (text, owner), neighbours of one owner together."""
        runs: list[tuple[str, int]] = []
        for column, (bits, owner) in enumerate(zip(self._bits[row], self._owners[row], strict=True)):
            char = chr(0x2800 + bits) if bits else " "
            if (row, column) in self._signs:
                char, owner = self._signs[row, column]
            if runs and runs[-1][1] == owner:
                runs[-1] = (runs[-1][0] + char, owner)
            else:
                runs.append((char, owner))
        return runs

    def _down(self, y: float, scale: Scale) -> int:
        high = self.rows * 4 - 1
        return max(0, min(high, high - round(scale.at(y) * high)))

    def _dot(self, x: int, y: int, owner: int) -> None:
        self._bits[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
        self._owners[y // 4][x // 2] = owner

    def _line(self, start: tuple[int, int], end: tuple[int, int], owner: int) -> None:
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * step // steps
            y = start[1] + (end[1] - start[1]) * step // steps
            self._dot(x, y, owner)
