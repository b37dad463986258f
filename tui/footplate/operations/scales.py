"""What stands beside a chart's axes: ranges that can be divided by, round ticks, linear or logarithmic, numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from footplate import words

LARGEST = 1e150
"""Beyond that, differences of two values overflow; such values are told like infinity."""

Range = tuple[float, float]


def drawable(value: float) -> bool:
    """Whether a value has a place on an axis."""
    return isfinite(value) and abs(value) < LARGEST


@dataclass(frozen=True, slots=True)
class Scale:
    """One axis from `low` to `high`, which differ; both are above 0 where it is logarithmic."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, low: float, high: float, log: bool = False) -> Scale:
        """A scale that is wide enough to divide by, also where all values are one."""
        if log:
            return cls(low / 10**0.5, low * 10**0.5, log) if log10(high) - log10(low) < 1e-9 else cls(low, high, log)
        size = max(abs(low), abs(high))
        if high - low > max(size * 1e-9, 1e-150):
            return cls(low, high)
        if size < 1e-150:
            return cls(0.0, 1.0)  # what is counted is never below none
        return cls(low - size * 0.1, high + size * 0.1)

    def at(self, value: float) -> float:
        """Where a value lies: 0 at `low`, 1 at `high`."""
        if self.log:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Round values within the scale and their texts, about as many as `most`, all with the same number of decimals."""
        if self.log:
            return self._log_ticks(most)
        step = _round_up((self.high - self.low) / max(1, most))
        power = floor(log10(step))
        decimals = max(0, -power + (abs(step / 10.0**power - 2.5) < 0.01))
        large = max(abs(self.low), abs(self.high)) >= 1e7 or decimals > 6
        found: list[tuple[float, str]] = []
        tick = floor(self.low / step) * step
        while tick <= self.high + step / 1000:
            if tick >= self.low - step / 1000:
                found.append((tick, f"{tick:.2e}" if large else f"{tick + 0.0:,.{decimals}f}"))
            if tick + step == tick:
                break
            tick += step
        return found

    def _log_ticks(self, most: int) -> list[tuple[float, str]]:
        first, last = floor(log10(self.low)), ceil(log10(self.high))
        stride = max(1, ceil((last - first + 1) / max(2, most)))
        for factors in ((1,), (1, 3), (1, 2, 5)):
            values = [factor * 10.0**power for power in range(first, last + 1, stride) for factor in factors]
            inside = [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
            if len(inside) >= min(3, most):
                return [(value, _power_text(value)) for value in inside]
        # Less than a decade: round values of an ordinary axis, at their places on this one.
        return Scale(self.low, self.high).ticks(most)

    def rows(self, count: int) -> dict[int, str]:
        """Return what to write beside which of `count` rows of text; 0 is the top."""
        labels: dict[int, str] = {}
        for most in range(max(1, min(count - 1, count // 3 + 1)), max(2, count)):
            labels = {}
            for tick, text in self.ticks(most):
                row = round((1 - self.at(tick)) * (count - 1))
                if 0 <= row < count:
                    labels[row] = text
            if len(labels) > 1:  # of one number nobody can tell a scale
                break
        return labels


def time_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Ticks of seconds, at whole minutes and hours where the span is long."""
    span = high - low
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
    step = next((step for step in steps if span / step <= most), 86400 * ceil(span / 86400 / max(1, most)))
    first = ceil(low / step - 1e-9) * step
    return [(tick, words.span(tick)) for tick in _stepped(first, high, step)]


def _stepped(first: float, last: float, step: float) -> Iterable[float]:
    tick = first
    while tick <= last + step / 1000:
        yield tick
        tick += step


def span_text(seconds: float) -> str:
    """Seconds on a time axis: `0s`, `2.5s`, `3m07s`; before the start with a minus."""
    if seconds < 0:
        return f"-{span_text(-seconds)}"
    return f"{seconds:.1f}s" if seconds < 10 and seconds != int(seconds) else words.span(seconds)


def text_of(x_name: str) -> Callable[[float], str]:
    """How the numbers of an x axis are written."""
    return span_text if x_name == "time" else number_text


def number_text(value: float) -> str:
    """Return a number with the four digits that matter: `0.8713`, `12.5`, `30`, `1.2e-07`, `1,204,000`."""
    if not isfinite(value):
        return "NaN" if value != value else "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _power_text(value: float) -> str:
    return number_text(value) if 1e-3 <= value < 1e5 else f"{value:.0e}"


def _round_up(step: float) -> float:
    """Return the next of 1, 2, 2.5, 5 or 10 times a power of ten."""
    power = 10.0 ** floor(log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if factor * power >= step * 0.999)
