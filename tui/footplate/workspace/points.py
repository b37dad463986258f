"""Logged values in arrays: what a hundred thousand of them take is a tenth of what as many objects do."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from operator import le
from typing import overload

from footplate.workspace.model import MetricPoint

_MOST_STEP = 2**63 - 1


class Points(Sequence[MetricPoint]):
    """The values of one metric in step order, never changed: a sequence of `MetricPoint`, made one by one when asked for.

    `times` are seconds since 1970, in UTC.
    """

    __slots__ = ("steps", "times", "values")

    def __init__(self, steps: array[int], times: array[float], values: array[float]) -> None:
        """Keep the arrays, which nobody may change any more."""
        self.steps, self.times, self.values = steps, times, values

    @classmethod
    def of(cls, points: Sequence[MetricPoint]) -> Points:
        """Any sequence of points, sorted by step."""
        if isinstance(points, Points):
            return points
        rows = ((point.step, point.time.timestamp(), point.value) for point in points)
        return cls(array("q"), array("d"), array("d")).grown(rows)

    def grown(self, rows: Iterable[tuple[int, float, float]]) -> Points:
        """These points and more, as (step, seconds, value), sorted by step and then by time."""
        steps, times, values = array("q"), array("d"), array("d")
        for step, seconds, value in rows:
            steps.append(max(-_MOST_STEP, min(step, _MOST_STEP)))
            times.append(seconds)
            values.append(value)
        return self.joined(Points(steps, times, values))

    def joined(self, more: Points) -> Points:
        """These points and more, in any order, sorted by step and then by time."""
        if not len(more):
            return self
        places = list(zip(more.steps, more.times, strict=True))
        follow = not len(self) or (self.steps[-1], self.times[-1]) <= places[0]
        if follow and all(map(le, places, places[1:])):
            return Points(self.steps + more.steps, self.times + more.times, self.values + more.values)
        steps, times, values = self.steps + more.steps, self.times + more.times, self.values + more.values
        order = sorted(range(len(steps)), key=lambda at: (steps[at], times[at]))
        return Points(
            array("q", (steps[at] for at in order)),
            array("d", (times[at] for at in order)),
            array("d", (values[at] for at in order)),
        )

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, at: int) -> MetricPoint: ...

    @overload
    def __getitem__(self, at: slice) -> Points: ...

    def __getitem__(self, at: int | slice) -> MetricPoint | Points:
        if isinstance(at, slice):
            return Points(self.steps[at], self.times[at], self.values[at])
        return MetricPoint(self.steps[at], datetime.fromtimestamp(self.times[at], UTC), self.values[at])

    def __iter__(self) -> Iterator[MetricPoint]:
        for step, seconds, value in zip(self.steps, self.times, self.values, strict=True):
            yield MetricPoint(step, datetime.fromtimestamp(seconds, UTC), value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Points):
            # Compared as bytes, in which NaN is itself: a look that read nothing new must not seem to have.
            return self is other or (
                len(self) == len(other)
                and _same(self.steps, other.steps)
                and _same(self.times, other.times)
                and _same(self.values, other.values)
            )
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list, by its values

    def __repr__(self) -> str:
        return f"<{len(self)} points>"


def _same(one: array[int] | array[float], other: array[int] | array[float]) -> bool:
    return memoryview(one).cast("B") == memoryview(other).cast("B")
