"""Curves as numbers: what of them can be drawn, smoothing, and what remains of them in so many columns."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import isfinite
from typing import NamedTuple

from footplate.operations.scales import LARGEST, drawable

Point = tuple[float, float]
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
"""Weights of an exponential moving average that are offered; 0 is none."""


class Series:
    """One curve: its name, which is data; `xs` and `ys` of the values that can be drawn, in the order of x; `gaps`, the others.

    `gaps` holds the x of each value that is NaN or infinite, `odd` that value. `raw` is the curve before smoothing. `shared` counts
    values at an x that has another one, as where every rank logs.
    """

    __slots__ = ("gaps", "name", "odd", "raw", "shared", "xs", "ys")

    def __init__(self, name: str, points: Iterable[Point] = (), raw: Series | None = None) -> None:
        pairs = [(float(x), float(y)) for x, y in points if drawable(x)]
        if any(later[0] < earlier[0] for earlier, later in pairwise(pairs)):
            pairs.sort(key=lambda pair: pair[0])
        self.name = name
        self.raw = raw
        self.shared: int = 0 if raw is None else raw.shared
        self.xs = array("d", [x for x, y in pairs if drawable(y)])
        self.ys = array("d", [y for _, y in pairs if drawable(y)])
        self.gaps = array("d", [x for x, y in pairs if not drawable(y)])
        self.odd = array("d", [y for _, y in pairs if not drawable(y)])

    @classmethod
    def of(cls, name: str, xs: array[float], ys: array[float], in_order: bool = False) -> Series:
        """A curve of two arrays, which it keeps where nothing is to be left out: quick, however many points there are.

        `in_order`: the xs are known to be numbers that never fall.
        """
        ordered = in_order or not xs or (drawable(xs[0]) and drawable(xs[-1]) and all(map(float.__le__, xs, xs[1:])))
        if not (ordered and isfinite(sum(ys)) and (not ys or max(max(ys), -min(ys)) < LARGEST)):
            return cls(name, zip(xs, ys, strict=True))
        made = cls(name)
        made.xs, made.ys = xs, ys
        return made

    @property
    def count(self) -> int:
        """How many values there are, those that cannot be drawn too."""
        return len(self.xs) + len(self.gaps)

    @property
    def latest(self) -> float | None:
        """The last y that is a number; None where there is none."""
        return self.ys[-1] if self.ys else None

    def near(self, x: float) -> Point | None:
        """The value nearest to an x, NaN and infinity too; None without values."""
        found = [(abs(xs[at] - x), xs[at], ys[at]) for xs, ys, at in self._around(x)]
        return min(found)[1:] if found else None

    def _around(self, x: float) -> Iterable[tuple[array[float], array[float], int]]:
        for xs, ys in ((self.xs, self.ys), (self.gaps, self.odd)):
            at = bisect_left(xs, x)
            yield from ((xs, ys, place) for place in (at - 1, at) if 0 <= place < len(xs))

    def smoothed(self, weight: float) -> Series:
        """An exponential moving average over the values in their order, without the pull of its start towards 0."""
        if not 0 < weight < 1 or len(self.ys) < 2:
            return self
        sums = accumulate(self.ys, lambda before, y: weight * before + (1 - weight) * y, initial=0.0)
        ys = array("d", sums)[1:]
        share = weight
        for at in range(len(ys)):
            if share < 1e-12:
                break
            ys[at] /= 1 - share
            share *= weight
        made = Series(self.name, raw=self)
        made.xs, made.ys, made.gaps, made.odd = self.xs, ys, self.gaps, self.odd
        return made

    def above_zero(self) -> Series:
        """What a logarithmic axis can hold; the rest becomes gaps."""
        if self.raw is not None:
            raw = self.raw.above_zero()
            kept = self if not self.ys or min(self.ys) > 0 else _positive(self)
            if kept is self and raw is self.raw:
                return self
            made = Series(self.name, raw=raw)
            made.xs, made.ys, made.gaps, made.odd = kept.xs, kept.ys, raw.gaps, raw.odd
            return made
        return self if not self.ys or min(self.ys) > 0 else _positive(self)


def _positive(series: Series) -> Series:
    kept = [(x, y) for x, y in zip(series.xs, series.ys, strict=True) if y > 0]
    lost = sorted(
        [(x, y) for x, y in zip(series.xs, series.ys, strict=True) if y <= 0]
        + list(zip(series.gaps, series.odd, strict=True)),
        key=lambda pair: pair[0],
    )
    made = Series(series.name, kept)
    made.shared = series.shared
    made.gaps, made.odd = array("d", [x for x, _ in lost]), array("d", [y for _, y in lost])
    return made


class Slot(NamedTuple):
    """What a curve does within one column: where it comes in, its least and most, where it leaves."""

    column: int
    first: float
    low: float
    high: float
    last: float


def column_of(x: float, window: Point, columns: int) -> int:
    """The column of an x; the window's ends are the first and the last column."""
    left, right = window
    return int((x - left) * (columns - 1) / (right - left) + 0.5) if right > left else 0


def envelope(series: Series, window: Point, columns: int) -> list[Slot]:
    """The curve in so many columns of a window: of any number of points no peak is lost.

    Where the curve goes on beyond the window it is cut at its ends, on the straight line to the next point.
    """
    xs, ys = series.xs, series.ys
    left, right = window
    start, end = _inside(xs, window)
    into, out = _cuts(series, window)
    slots = [] if into is None else [Slot(0, into, into, into, into)]
    at = start
    if end - start <= 2 * columns:
        while at < end:
            column = column_of(xs[at], window, columns)
            stop = at + 1
            while stop < end and column_of(xs[stop], window, columns) == column:
                stop += 1
            slots.append(_slot(column, ys, at, stop))
            at = stop
    else:
        width = (right - left) / (columns - 1)
        for column in range(columns):
            stop = end if column == columns - 1 else bisect_left(xs, left + (column + 0.5) * width, at, end)
            if stop > at:
                slots.append(_slot(column, ys, at, stop))
            at = stop
    if out is not None:
        slots.append(Slot(columns - 1, out, out, out, out))
    return slots


def heights(series: Series, window: Point) -> Point | None:
    """The least and the most y of a curve within a window; None where nothing of it is there."""
    start, end = _inside(series.xs, window)
    found = [cut for cut in _cuts(series, window) if cut is not None]
    if end > start:
        part = series.ys[start:end]
        found += (min(part), max(part))
    return (min(found), max(found)) if found else None


def _inside(xs: array[float], window: Point) -> tuple[int, int]:
    return bisect_left(xs, window[0]), bisect_right(xs, window[1])


def _cuts(series: Series, window: Point) -> tuple[float | None, float | None]:
    """The curve's height at either end of the window, where it goes on beyond it."""
    xs, (start, end) = series.xs, _inside(series.xs, window)
    into = _between(series, start, window[0]) if start and (start == len(xs) or xs[start] > window[0]) else None
    out = _between(series, end, window[1]) if end < len(xs) and (not end or xs[end - 1] < window[1]) else None
    return into, out


def _between(series: Series, at: int, x: float) -> float | None:
    """The curve's height at an x between the points `at - 1` and `at`."""
    if not 0 < at < len(series.xs):
        return None
    left, right = series.xs[at - 1], series.xs[at]
    share = (x - left) / (right - left) if right > left else 1.0
    return series.ys[at - 1] + (series.ys[at] - series.ys[at - 1]) * share


def _slot(column: int, ys: array[float], start: int, stop: int) -> Slot:
    if stop == start + 1:
        y = ys[start]
        return Slot(column, y, y, y, y)
    part = ys[start:stop]
    return Slot(column, part[0], min(part), max(part), part[-1])


def extent(series: Sequence[Series]) -> Point | None:
    """The least and the most x of all values; None without any."""
    ends = [(values[0], values[-1]) for one in series for values in (one.xs, one.gaps) if values]
    return (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else None
