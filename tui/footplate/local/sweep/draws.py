"""What a trial's values are: random, Sobol and grid from the sweep's seed and the trial's number alone, bayesian from what ended.

So a sweep that goes on after its overseer was killed draws what it would have drawn.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from footplate.jobfile import search_space
from footplate.jobfile.search_space import Space

BAYESIAN_KINDS = ("choice", "uniform", "quniform")
"""Source: Azure, how-to-tune-hyperparameters."""

_MOST_DIMENSIONS = 21_201
"""What SciPy has direction numbers for."""


@dataclass(frozen=True)
class Sampling:
    """How a sweep draws: `algorithm` is random, grid or bayesian; `sobol` and `base`, of logarithmic spaces, are random's."""

    algorithm: str
    seed: int
    sobol: bool = False
    base: float = math.e


@dataclass(frozen=True)
class Drawn:
    """One trial's values by the spaces' names. `point` is what bayesian sampling has to know of it again."""

    values: Mapping[str, Any]
    point: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Past:
    """A trial that has ended, for bayesian sampling to learn from: what it was drawn at, and its best value, a finite number."""

    point: Mapping[str, Any]
    value: float


def missing(sampling: Sampling) -> str:
    """The package that a way of drawing needs and that this Python lacks, by its name; empty where there is none."""
    needed = "optuna" if sampling.algorithm == "bayesian" else "scipy" if sampling.sobol else ""
    return needed if needed and importlib.util.find_spec(needed) is None else ""


def draw(
    sampling: Sampling, spaces: Sequence[Space], number: int, goal: str = "maximize", past: Sequence[Past] = ()
) -> Drawn | None:
    """The values of trial `number` (from 0); None where a grid has no more points. `past` and `goal` are for bayesian sampling."""
    if sampling.algorithm == "grid":
        point = next(itertools.islice(search_space.grid(spaces), number, None), None)
        return None if point is None else Drawn(dict(zip((space.name for space in spaces), point, strict=True)))
    if sampling.algorithm == "bayesian":
        return _bayesian(sampling.seed, spaces, number, goal, past)
    units = _sobol(sampling.seed, spaces, number) if sampling.sobol else _random(sampling.seed, number)
    return Drawn({space.name: _value(space, units, sampling.base) for space in spaces})


def _random(seed: int, number: int) -> Iterator[float]:
    generator = random.Random(f"{seed}/{number}")
    return iter(generator.random, None)


def _sobol(seed: int, spaces: Sequence[Space], number: int) -> Iterator[float]:
    """The coordinates of one point of a scrambled Sobol sequence."""
    from scipy.stats import qmc  # type: ignore[import-untyped]

    dimensions = sum(_dimensions(space) for space in spaces)
    sequence = qmc.Sobol(min(max(1, dimensions), _MOST_DIMENSIONS), scramble=True, rng=seed)
    if number:
        sequence.fast_forward(number)
    return itertools.chain(map(float, sequence.random(1)[0]), _random(seed, number))


def _dimensions(space: Space) -> int:
    """How many coordinates a draw from a space takes at most."""
    if space.kind != "choice":
        return 1
    branches = [_inner(value) for value in space.parameters["values"]]
    return 1 + max((sum(_dimensions(item) for item in branch) for branch in branches), default=0)


def _inner(value: object) -> list[Space]:
    """The further spaces in one value of a choice."""
    return [item for item in value.values() if isinstance(item, Space)] if isinstance(value, Mapping) else []


def _value(space: Space, units: Iterator[float], base: float) -> Any:
    """A space's value at a coordinate from 0 to 1: each value as likely as its distribution says."""
    unit = next(units)
    if space.kind == "choice":
        values = space.parameters["values"]
        chosen = values[int(unit * len(values))]
        if not isinstance(chosen, Mapping):
            return chosen
        return {key: _value(item, units, base) if isinstance(item, Space) else item for key, item in chosen.items()}
    if space.kind == "randint":
        return int(unit * space.number("upper"))
    if "uniform" in space.kind:
        least, most = space.number("min_value"), space.number("max_value")
        return search_space.value_of(space, least + unit * (most - least), base)
    if not space.number("sigma"):
        return search_space.value_of(space, space.number("mu"), base)
    curve = statistics.NormalDist(space.number("mu"), abs(space.number("sigma")))
    return search_space.value_of(space, curve.inv_cdf(min(max(unit, 1e-12), 1 - 1e-12)), base)


def _bayesian(seed: int, spaces: Sequence[Space], number: int, goal: str, past: Sequence[Past]) -> Drawn:
    """A draw by Optuna's tree-structured Parzen estimator, which is told anew of every trial so far."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=(seed + number) % 2**32)
    study = optuna.create_study(sampler=sampler, direction="minimize" if goal == "minimize" else "maximize")
    known = dict(_distributions(optuna, spaces, ""))
    for trial in past:
        distributions = {name: known[name] for name in trial.point}
        study.add_trial(
            optuna.trial.create_trial(params=dict(trial.point), distributions=distributions, value=trial.value)
        )
    asked = study.ask()
    values = {space.name: _suggested(asked, space, "") for space in spaces}
    return Drawn(values, dict(asked.params))


def _distributions(optuna: Any, spaces: Sequence[Space], prefix: str) -> Iterator[tuple[str, Any]]:
    """Optuna's distribution for every name that `_suggested` may ask for."""
    for space in spaces:
        name = f"{prefix}{space.name}"
        if space.kind == "choice":
            values = space.parameters["values"]
            yield name, optuna.distributions.CategoricalDistribution(range(len(values)))
            for index, value in enumerate(values):
                yield from _distributions(optuna, _inner(value), f"{name}[{index}].")
        else:
            yield name, optuna.distributions.FloatDistribution(*_ends(space))


def _suggested(asked: Any, space: Space, prefix: str) -> Any:
    name = f"{prefix}{space.name}"
    if space.kind != "choice":
        return search_space.value_of(space, asked.suggest_float(name, *_ends(space)))
    values = space.parameters["values"]
    index = asked.suggest_categorical(name, range(len(values)))
    chosen = values[index]
    if not isinstance(chosen, Mapping):
        return chosen
    return {
        key: _suggested(asked, item, f"{name}[{index}].") if isinstance(item, Space) else item
        for key, item in chosen.items()
    }


def _ends(space: Space) -> tuple[float, float]:
    least, most = sorted((space.number("min_value"), space.number("max_value")))
    return float(least), float(most)
