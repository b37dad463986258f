"""Which row of which line stands where on screen: only what is in sight is ever laid out.

A spot is (line, row within it); a row is the line's own where lines are not wrapped. `rows` says how many rows a line has.
"""

from __future__ import annotations

from collections.abc import Callable

Spot = tuple[int, int]
Rows = Callable[[int], int]


def moved(spot: Spot, by: int, total: int, rows: Rows) -> Spot:
    """Return the spot so many rows further down, or up, within the lines there are."""
    line, row = spot
    while by > 0 and line < total:
        left = rows(line) - 1 - row
        if by <= left:
            return line, row + by
        if line == total - 1:
            return line, max(0, rows(line) - 1)
        line, row, by = line + 1, 0, by - left - 1
    while by < 0:
        if -by <= row:
            return line, row + by
        if line == 0:
            return 0, 0
        by += row + 1
        line -= 1
        row = rows(line) - 1
    return line, row


def last_top(total: int, height: int, rows: Rows) -> Spot:
    """Return the spot at the top of the screen when the last row stands at its bottom."""
    if not total:
        return 0, 0
    return moved((total - 1, rows(total - 1) - 1), 1 - height, total, rows)


def in_sight(top: Spot, height: int, total: int, rows: Rows) -> list[Spot]:
    """Return the spots from the top of the screen to its bottom, or to the end of the lines."""
    line, row = top
    spots: list[Spot] = []
    while len(spots) < height and line < total:
        count = rows(line)
        spots += [(line, at) for at in range(row, min(count, row + height - len(spots)))]
        line, row = line + 1, 0
    return spots
