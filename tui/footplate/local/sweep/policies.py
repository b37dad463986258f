"""Early termination: which trial a policy stops when, from the values that all trials logged. Nothing here does anything.

Source: Azure, how-to-tune-hyperparameters and reference-yaml-job-sweep; what they leave open is settled in `rules.RULES`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Values = Mapping[str, Sequence[float]]
"""What each trial logged of the primary metric, in the order it logged it. Trials stand in the order they were started."""


@dataclass(frozen=True)
class Policy:
    """A policy of a sweep: `kind` is bandit, median_stopping or truncation_selection; the rest as the job file names it."""

    kind: str
    interval: int = 1
    delay: int = 0
    slack_factor: float | None = None
    slack_amount: float = 0.0
    percentage: int = 0

    def applies(self, count: int) -> bool:
        """Whether it looks at a trial's value number `count` (from 1)."""
        return count >= 1 and count % max(1, self.interval) == 0 and count >= self.delay

    def verdict(self, goal: str, trial: str, count: int, values: Values) -> str:
        """Why a trial that has just logged its value number `count` is stopped, in one line with the figures; empty: it goes on.

        `goal` is minimize or maximize. It does not ask `applies`.
        """
        upto = {name: logged[:count] for name, logged in values.items() if len(logged) >= count}
        if trial not in upto or len(upto) < 2:
            return ""
        own = best_of(goal, upto[trial])
        if self.kind == "bandit":
            reason = self._bandit(goal, own, upto)
        elif self.kind == "median_stopping":
            reason = _median(goal, own, upto)
        else:
            reason = self._truncation(goal, trial, upto)
        had = "no number so far" if own is None else f"best so far {own:.6g}"
        return f"stopped by {self.kind} at value {count}: {had}, {reason}" if reason else ""

    def _bandit(self, goal: str, own: float | None, upto: Values) -> str:
        found = {name: best for name, logged in upto.items() if (best := best_of(goal, logged)) is not None}
        if not found:
            return ""
        leader = min(found, key=lambda name: _order(goal, found[name]))
        limit, how = self._limit(goal, found[leader])
        if own is not None and not _worse(goal, own, limit):
            return ""
        return f"{_side(goal)} {limit:.6g} ({leader} had {found[leader]:.6g}, {how})"

    def _limit(self, goal: str, best: float) -> tuple[float, str]:
        """What a trial must reach for bandit to let it go on, and by which of its parameters."""
        if self.slack_factor is None:
            slack, how = self.slack_amount, f"slack_amount {self.slack_amount:g}"
        elif goal == "maximize" and best > 0:
            return best / (1 + self.slack_factor), f"slack_factor {self.slack_factor:g}"
        else:
            slack, how = abs(best) * self.slack_factor, f"slack_factor {self.slack_factor:g}"
        return (best - slack if goal == "maximize" else best + slack), how

    def _truncation(self, goal: str, trial: str, upto: Values) -> str:
        # Trials stand in the order they started, and a sort leaves equals in theirs: the worst is the last.
        ranked = sorted(upto, key=lambda name: _order(goal, best_of(goal, upto[name])))
        lowest = math.floor(Fraction(self.percentage * len(ranked), 100))
        place = len(ranked) - ranked.index(trial)
        if place > lowest:
            return ""
        return f"number {place} from the end of {len(ranked)} ({lowest} go, truncation_percentage {self.percentage})"


def best_of(goal: str, logged: Sequence[float]) -> float | None:
    """The best of the values that are numbers; None where none is."""
    finite = [value for value in logged if math.isfinite(value)]
    if not finite:
        return None
    return max(finite) if goal == "maximize" else min(finite)


def _median(goal: str, own: float | None, upto: Values) -> str:
    numbers = [[value for value in logged if math.isfinite(value)] for logged in upto.values()]
    means = [statistics.fmean(finite) for finite in numbers if finite]
    if not means:
        return ""
    median = statistics.median(means)
    if own is not None and not _worse(goal, own, median):
        return ""
    return f"{_side(goal)} {median:.6g} (the median of {len(means)} trials' means)"


def _worse(goal: str, value: float, limit: float) -> bool:
    return value < limit if goal == "maximize" else value > limit


def _order(goal: str, best: float | None) -> float:
    """A key that puts the best first, and what has no number last."""
    if best is None:
        return math.inf
    return -best if goal == "maximize" else best


def _side(goal: str) -> str:
    return "below" if goal == "maximize" else "above"
