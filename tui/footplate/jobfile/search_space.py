"""Search spaces of a sweep: what each kind draws, its real range, and how Azure's client sends it.

Source of the meanings: Azure, how-to-tune-hyperparameters; of the form sent: azure-ai-ml 1.35.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from footplate.jobfile.document import JobFile
from footplate.jobfile.shapes import as_number

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "choice": ("values",),
    "uniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "loguniform": ("min_value", "max_value"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "lognormal": ("mu", "sigma"),
    "qlognormal": ("mu", "sigma", "q"),
    "randint": ("upper",),
}
"""Every kind of space, and its parameters in the order in which they are sent."""

SPREAD = 3
"""Standard deviations either side that stand for the range of a normal space, which has no bounds."""


@dataclass(frozen=True)
class Space:
    """One entry of `search_space`: its name, its kind in lower case, and its parameters as Azure's client reads them.

    Numbers are numbers (`"1e-5"` is 0.00001). `values` of a choice is a tuple of text, numbers, and mappings whose own
    values are text, numbers or further spaces.
    """

    name: str
    kind: str
    parameters: Mapping[str, Any]

    def number(self, parameter: str) -> float:
        """A parameter that is a number."""
        value = self.parameters[parameter]
        assert isinstance(value, int | float)
        return value


@dataclass(frozen=True)
class RealRange:
    """The values that a space really gives, from `least` to `most`.

    Both are None where the values are not numbers. `bounded` is False where values beyond are rare and possible.
    `count` is how many different values there are; None for a continuous space.
    """

    least: float | None
    most: float | None
    bounded: bool = True
    count: int | None = None

    @property
    def text(self) -> str:
        """`0.0009119 to 0.04979`, with how many values, and with what lies outside."""
        values = "" if self.count is None else f"{self.count} value{'' if self.count == 1 else 's'}"
        if self.least is None or self.most is None:
            return values
        span = f"{self.least:.4g} to {self.most:.4g}"
        if not self.bounded:
            return f"{span}, and rarely beyond (no bounds)"
        return f"{span}, {values}" if values else span


def read(name: str, given: object) -> Space:
    """A space from its mapping in the file. Raises ValueError for one that Azure's client does not take."""
    kind = str(given.get("type", "")).lower() if isinstance(given, Mapping) else ""
    if not isinstance(given, Mapping) or kind not in PARAMETERS:
        raise ValueError(f"{name!r} is no search space")
    if kind == "choice":
        values = given.get("values") or []
        if not isinstance(values, list | tuple):
            raise ValueError(f"values of {name!r} must be a list")
        return Space(name, kind, {"values": tuple(_choice_value(name, value) for value in values)})
    numbers = {parameter: _number(name, parameter, given.get(parameter)) for parameter in PARAMETERS[kind]}
    if kind == "randint":
        numbers["upper"] = int(numbers["upper"])
    return Space(name, kind, numbers)


def spaces_of(job_file: JobFile) -> tuple[Space, ...]:
    """The spaces of a sweep in the file's order, without those that cannot be read: `check` tells of them."""
    found = []
    for name, given in job_file.mapping("search_space").items():
        try:
            found.append(read(name, given))
        except ValueError:
            continue
    return tuple(found)


def rest_form(given: Space | Mapping[str, Any]) -> list[Any]:
    """A space, or its mapping in the file, as Azure's client sends it: `["uniform", [0.1, 1]]`.

    Raises ValueError for a mapping that is no space.
    """
    space = given if isinstance(given, Space) else read("search_space", given)
    if space.kind == "choice":
        return ["choice", [[_sent(value) for value in space.parameters["values"]]]]
    return [space.kind, [space.parameters[parameter] for parameter in PARAMETERS[space.kind]]]


def real_range(space: Space) -> RealRange | None:
    """The smallest and largest value that a space gives; None where its numbers give none (`q` of 0, nothing to choose).

    The range of a normal space is three standard deviations either side of `mu`.
    """
    if space.kind == "choice":
        return _choice_range(space.parameters["values"])
    if space.kind == "randint":
        upper = int(space.number("upper"))
        return RealRange(0, upper - 1, count=upper) if upper >= 1 else None
    q = space.number("q") if "q" in space.parameters else None
    if q is not None and q <= 0:
        return None
    bounded = "uniform" in space.kind
    if bounded:
        ends = sorted((space.number("min_value"), space.number("max_value")))
    else:
        reach = SPREAD * abs(space.number("sigma"))
        ends = [space.number("mu") - reach, space.number("mu") + reach]
    least, most = (value_of(space, end) for end in ends)
    steps = (most - least) / q if q is not None and bounded else math.inf
    return RealRange(least, most, bounded, round(steps) + 1 if math.isfinite(steps) else None)


def draw(space: Space, generator: random.Random) -> Any:
    """One value of a space: a number, text, or a mapping where the choice is one. Raises ValueError where it has none."""
    if real_range(space) is None:
        raise ValueError(f"{space.name!r} has no values")
    if space.kind == "choice":
        chosen = generator.choice(space.parameters["values"])
        if not isinstance(chosen, Mapping):
            return chosen
        return {key: draw(value, generator) if isinstance(value, Space) else value for key, value in chosen.items()}
    if space.kind == "randint":
        return generator.randrange(int(space.number("upper")))
    if "uniform" in space.kind:
        return value_of(space, generator.uniform(space.number("min_value"), space.number("max_value")))
    return value_of(space, generator.gauss(space.number("mu"), abs(space.number("sigma"))))


def draws(space: Space, count: int, seed: int = 0) -> tuple[str, ...]:
    """Sample values as the text that a command gets; the same ones for a seed. Empty for a space without values."""
    if real_range(space) is None:
        return ()
    generator = random.Random(f"{seed}/{space.name}")
    return tuple(as_text(draw(space, generator)) for _ in range(count))


def as_text(value: Any) -> str:
    """What the command gets for a value: a literal as Azure's client sends it, JSON for a mapping."""
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def count(spaces: Iterable[Space]) -> int | None:
    """How many points a grid over the spaces has; None where one is no choice, as a grid takes only choices."""
    points = 1
    for space in spaces:
        if space.kind != "choice":
            return None
        branches = [_branch_points(value) for value in space.parameters["values"]]
        known = [branch for branch in branches if branch is not None]
        if len(known) < len(branches):
            return None
        points *= sum(known)
    return points


def grid(spaces: Iterable[Space]) -> Iterator[tuple[Any, ...]]:
    """The points of a grid, the last space's values changing first; `count` says how many. Only over choices."""
    return itertools.product(*(list(_grid_values(space)) for space in spaces))


def _grid_values(space: Space) -> Iterator[Any]:
    for value in space.parameters["values"]:
        if not isinstance(value, Mapping):
            yield value
            continue
        inner = [item for item in value.values() if isinstance(item, Space)]
        for point in grid(inner):
            drawn = dict(zip((item.name for item in inner), point, strict=True))
            yield {key: drawn[key] if isinstance(item, Space) else item for key, item in value.items()}


def _branch_points(value: object) -> int | None:
    """The grid points of one value of a choice: more than one where it is a mapping with further choices."""
    if not isinstance(value, Mapping):
        return 1
    return count(item for item in value.values() if isinstance(item, Space))


def _number(name: str, parameter: str, given: object) -> int | float:
    number = as_number(given)
    if number is None or not math.isfinite(number):
        raise ValueError(f"{parameter} of {name!r} must be a number")
    return given if isinstance(given, int) else number


def _choice_value(name: str, given: object) -> Any:
    """A choice's value. Azure's client leaves text alone, except in a nested mapping, where text that is a number is one."""
    if not isinstance(given, Mapping):
        if not isinstance(given, str) and ((number := as_number(given)) is None or not math.isfinite(number)):
            raise ValueError(f"a choice of {name!r} must be text, a number or a mapping")
        return given
    nested: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Mapping):
            nested[str(key)] = read(str(key), value)
        elif isinstance(value, str):
            number = as_number(value)
            nested[str(key)] = value if number is None or not math.isfinite(number) else number
        else:
            nested[str(key)] = _choice_value(name, value)
    return nested


def _sent(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: rest_form(item) if isinstance(item, Space) else item for key, item in value.items()}
    return value


def _choice_range(values: tuple[Any, ...]) -> RealRange | None:
    if not values:
        return None
    numbers = [value for value in values if isinstance(value, int | float)]
    different = len({str(value) for value in values})
    if len(numbers) < len(values):
        return RealRange(None, None, count=different)
    return RealRange(min(numbers), max(numbers), count=different)


def value_of(space: Space, drawn: float, base: float = math.e) -> float:
    """What a drawn number becomes: its exponential for a log space, then rounded to a multiple of `q`."""
    if "log" in space.kind:
        try:
            drawn = math.exp(drawn) if base == math.e else base**drawn
        except OverflowError:
            return math.inf
    if "q" not in space.parameters:
        return drawn
    q = space.number("q")
    steps = drawn / q
    # A whole q gives whole numbers, which argparse's int can read.
    return round(steps) * q if math.isfinite(steps) else steps
