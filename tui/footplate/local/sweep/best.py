"""Which trial of a sweep is the best, by the rule `best` of `rules.RULES`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from footplate.jobfile.faults import known_names, nearest
from footplate.local.sweep.policies import best_of
from footplate.logs.sanitise import clean


@dataclass(frozen=True)
class Trial:
    """A trial as it is judged: what it logged of the primary metric, in the order it logged it."""

    name: str
    status: str
    logged: Sequence[float] = ()


def best(goal: str, trials: Sequence[Trial]) -> tuple[str, float] | None:
    """Name and value of the best trial; None where none has a value that can win. The trials stand in the order they started."""
    winner: tuple[str, float] | None = None
    for trial in trials:
        value = None if trial.status == "Failed" else best_of(goal, trial.logged)
        if value is None:
            continue
        if winner is None or (value > winner[1] if goal == "maximize" else value < winner[1]):
            winner = trial.name, value
    return winner


def metric_missing(metric: str, trial: str, names: Sequence[str]) -> str:
    """What to say where a trial logs metrics of these names, not the primary metric, or has completed without any."""
    wanted, near = clean(metric), clean(nearest(metric, names))
    if not names:
        return f"{trial} has completed and logged no metric: no best trial can be told until one logs {wanted!r}, with mlflow"
    said = f"{trial} logs {clean(known_names(names))}, and not the primary metric {wanted!r}: no best trial can be told"
    if near:
        return f"{said}. Meant {near!r}? Cancel the sweep and clone it with primary_metric: {near}"
    return f"{said} until one logs it. Else cancel the sweep and clone it with the right primary_metric"
