"""Shapes of single values (text, numbers, switches), and what all shapes share. Each reports every fault with its place."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.expressions import is_expression
from footplate.jobfile.faults import Code, Report, known_names, nearest

CODES = (
    Code(
        "unknown-key",
        "error",
        "A key that this kind of file does not have; the nearest that it has is named.",
        "command: python train.py\nenvironment: azureml:env:1\nenviroment_variables: {A: b}  # here\n",
    ),
    Code(
        "missing-key",
        "error",
        "A key without which Azure refuses the file.",
        "# next line\ncommand: python train.py\n",
    ),
    Code(
        "wrong-type",
        "error",
        "A list where text belongs, text where a number belongs, and the like.",
        "command: python train.py\nenvironment: azureml:env:1\ndisplay_name: [a, b]  # here\n",
    ),
    Code(
        "wrong-value",
        "error",
        "A word that is not among those allowed here; the nearest is named.",
        "command: python train.py\nenvironment: azureml:env:1\ndistribution: {type: pytorhc}  # here\n",
    ),
    Code(
        "out-of-range",
        "error",
        "A number that the service refuses.",
        "command: python train.py\nenvironment: azureml:env:1\nresources: {instance_count: 0}  # here\n",
    ),
    Code(
        "number-as-text",
        "warning",
        "A number in quotes, or with a fraction that Azure drops, where a whole number belongs.",
        'command: python train.py\nenvironment: azureml:env:1\nlimits: {timeout: "60"}  # here\n',
    ),
    Code(
        "empty-section",
        "error",
        "A key with nothing after it: Azure refuses it, though nothing is missing.",
        "command: python train.py\nenvironment: azureml:env:1\ninputs:  # here\n",
    ),
    Code(
        "read-only",
        "note",
        "A key that Azure writes and does not read.",
        "command: python train.py\nenvironment: azureml:env:1\nstatus: Completed  # here\n",
    ),
)  # fmt: skip


def is_bound(value: object, place: nodes.Path) -> bool:
    """Whether a text holds `${{…}}` where Azure fills one in for a number or word: in a pipeline, below `jobs` and `inputs`."""
    return place[:1] in (("jobs",), ("inputs",)) and is_expression(value)


def snake(word: str) -> str:
    """`MedianStopping` as `median_stopping`: some of Azure's words may be written both ways."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", word)).lower()


def called(value: object) -> str:
    """What messages call a value: its kind, and the value where it is short."""
    if value is None:
        return "empty"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {shortened(value)}"
    return f"a {type(value).__name__}"


def shortened(value: str) -> str:
    """A text in quotes, cut where it would not be read."""
    return repr(value if len(value) <= 40 else f"{value[:37]}…")


class Shape:
    """What may stand at one place."""

    wanted = "something"
    null: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """Report what is wrong with the value at a place, and below it."""
        raise NotImplementedError

    def _empty(self, value: Any, place: nodes.Path, report: Report) -> bool:
        """Whether the value is empty; then it is reported, where it may not be."""
        if value is None and not self.null:
            hint = "Remove the line, or give it a value."
            report.add(
                "empty-section",
                place,
                f"`{place[-1] if place else 'the file'}` is empty; Azure refuses that.",
                hint,
                key=True,
            )
        return value is None

    def _wrong(self, value: Any, place: nodes.Path, report: Report, hint: str = "") -> None:
        name = place[-1] if place else "the file"
        report.add("wrong-type", place, f"`{name}` must be {self.wanted}, not {called(value)}.", hint)


@dataclass(frozen=True)
class Anything(Shape):
    """No rule."""

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """Nothing is wrong."""


@dataclass(frozen=True)
class Text(Shape):
    """Text; `choices` are the words allowed, in any case unless `exact`. `camel`: `AMLToken` may stand for `aml_token`."""

    wanted: str = "text"
    choices: tuple[str, ...] = ()
    exact: bool = False
    camel: bool = False
    null: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report):
            return
        if not isinstance(value, str):
            self._wrong(value, place, report, "" if self.choices else _in_quotes(value, place, report))
            return
        if not self.choices or is_bound(value, place):
            return
        if (value if self.exact else snake(value) if self.camel else value.lower()) not in self.choices:
            near = nearest(value, self.choices)
            hint = f"Did you mean {near!r}?" if near else f"Use {known_names(self.choices)}."
            report.add("wrong-value", place, f"`{place[-1]}` cannot be {shortened(value)}.", hint)


def _in_quotes(value: object, place: nodes.Path, report: Report) -> str:
    """How to have a scalar as text: as it stands in the file, which `1.10` and `no` are no more once they are read."""
    at = report.places.get(place)
    if at is None or at.style or not isinstance(value, bool | int | float):
        return ""
    return f"Put it in quotes: '{report.text[at.start : at.end].strip()}'."


@dataclass(frozen=True)
class Whole(Shape):
    """A whole number, of at least `least` and at most `most`. With `expression` a rule of its own judges `${{…}}`."""

    least: int | None = None
    most: int | None = None
    unit: str = ""
    null: bool = False
    expression: bool = False

    @property
    def wanted(self) -> str:  # type: ignore[override]
        """`a whole number of seconds from 1`."""
        span = f" from {self.least}" if self.least is not None else ""
        span += f" to {self.most}" if self.most is not None else ""
        return f"a whole number{f' of {self.unit}' if self.unit else ''}{span}"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`. Text that is a number and a fraction pass with a warning: Azure's client takes them."""
        if self._empty(value, place, report) or is_bound(value, place) or (self.expression and is_expression(value)):
            return
        if isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d{1,18}\s*", value):
            report.add(
                "number-as-text",
                place,
                f"`{place[-1]}` is the text {value!r}; Azure reads it as {int(value)}.",
                "Write it without quotes.",
            )
            value = int(value)
        if isinstance(value, float) and math.isfinite(value):
            if value != int(value):
                report.add(
                    "number-as-text",
                    place,
                    f"`{place[-1]}` is {value}; Azure drops the fraction: {int(value)}.",
                    f"Write {int(value)}.",
                )
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(value, place, report)
        elif (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            report.add("out-of-range", place, f"`{place[-1]}` must be {self.wanted}; it is {value}.")


@dataclass(frozen=True)
class Number(Shape):
    """A number, whole or not; text that is one passes with no word, as `1e-5` is text in YAML 1.1.

    With `expression` a rule of its own judges `${{…}}`.
    """

    wanted: str = "a number"
    null: bool = False
    expression: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place) or (self.expression and is_expression(value)):
            return
        if isinstance(value, bool) or (number := as_number(value)) is None:
            self._wrong(value, place, report)
        elif not math.isfinite(number):
            report.add("out-of-range", place, f"`{place[-1]}` must be a finite number; it is {value}.")


def as_number(value: object) -> float | None:
    """A value as Azure's client reads it where a number belongs: text such as `1e-5` is one; None for no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Flag(Shape):
    """True or false."""

    wanted: str = "true or false"
    null: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place) or isinstance(value, bool):
            return
        if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "on", "off"):
            return
        if isinstance(value, int) and value in (0, 1):
            return
        self._wrong(value, place, report)


@dataclass(frozen=True)
class Scalar(Shape):
    """Text, a number or a boolean."""

    wanted: str = "text, a number, true or false"
    null: bool = False

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report):
            return
        if not isinstance(value, str | int | float):
            self._wrong(value, place, report)
