"""Search spaces: bounds, steps and choices that give other values than they seem to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from footplate.jobfile import nodes, search_space
from footplate.jobfile.document import JobFile
from footplate.jobfile.expressions import EXPRESSION, is_expression
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.shapes import as_number

_HEAD = "type: sweep\ntrial: {command: 'python train.py ${{search_space.lr}}', environment: azureml:e:1}\n"
_TAIL = (
    "objective: {goal: maximize, primary_metric: accuracy}\nsampling_algorithm: random\nlimits: {max_total_trials: 4}\n"
)


def _example(space: str) -> str:
    return f"{_HEAD}search_space:\n  lr:\n    {space}\n{_TAIL}"


CODES = (
    Code(
        "bounds",
        "error",
        "A lower bound above the upper one. A note where both are the same: nothing is varied.",
        _example("type: uniform\n    min_value: 0.1  # here\n    max_value: 0.001"),
    ),
    Code(
        "step",
        "error",
        "A step `q` that is not above 0. A warning where it is larger than the range.",
        _example("type: quniform\n    min_value: 1\n    max_value: 9\n    q: 0  # here"),
    ),
    Code(
        "sigma",
        "error",
        "A standard deviation below 0; a warning where it is 0, as nothing is varied then.",
        _example("type: normal\n    mu: 0\n    sigma: -1  # here"),
    ),
    Code(
        "log-bounds",
        "warning",
        "Bounds of loguniform that look like values: they are natural logarithms, and exp(0.0001) is about 1.",
        _example("type: loguniform\n    min_value: 0.0001  # here\n    max_value: 0.1"),
    ),
    Code(
        "bound-expression",
        "error",
        "`${{…}}` in a search space: its numbers are not filled in. A warning in the values of a choice.",
        _example("type: uniform\n    min_value: ${{inputs.low}}  # here\n    max_value: 1"),
    ),
    Code(
        "duplicate-choice",
        "warning",
        "A value that stands twice in a choice: it is tried twice as often, or twice in a grid.",
        _example("type: choice\n    values: [4, 8, 4]  # here"),
    ),
    Code(
        "empty-space",
        "warning",
        "A search space without entries: every trial is the same.",
        f"type: sweep\ntrial: {{command: python train.py, environment: azureml:e:1}}\nsearch_space: {{}}  # here\n{_TAIL}",
    ),
)

_LARGE = 23
"""exp(23) is 10,000,000,000: no hyperparameter's logarithm is larger."""


def spaces(job_file: JobFile, report: Report) -> None:
    """Every space of the file, nested ones too."""
    if job_file.get("search_space") == {}:
        report.add(
            "empty-space",
            ("search_space",),
            "The search space is empty: every trial is the same.",
            "Add what the sweep varies.",
            key=True,
        )
    for place, given in _given(job_file.mapping("search_space"), ("search_space",)):
        _expressions(job_file, given, place, report)
        kind = str(given.get("type") or "").lower()
        if given.get("values") == [] and kind not in search_space.PARAMETERS:
            # The shape says that the type is unknown, and then not what else is wrong.
            report.add("out-of-range", (*place, "values"), "`values` is an empty list.", "Give at least one value.")
        try:
            space = search_space.read(str(place[-1]), given)
        except ValueError:
            continue  # the shape has told
        if space.kind == "choice":
            _choices(given, place, report)
        else:
            _numbers(space, place, report)


def _given(values: Mapping[str, Any], place: nodes.Path) -> Iterator[tuple[nodes.Path, Mapping[str, Any]]]:
    """Each space's mapping with its place, those in a choice's values after their own."""
    for name, given in values.items():
        if not isinstance(given, Mapping):
            continue
        yield (*place, str(name)), given
        listed = given.get("values")
        for index, value in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(value, Mapping):
                yield from _given(value, (*place, str(name), "values", index))


def _expressions(job_file: JobFile, given: Mapping[str, Any], place: nodes.Path, report: Report) -> None:
    for key, value in given.items():
        if isinstance(value, str) and is_expression(value) and key != "type":
            match = EXPRESSION.fullmatch(value.strip())
            section, _, name = match[1].partition(".") if match else ("", "", "")
            number = job_file.inputs[name].literal if section == "inputs" and name in job_file.inputs else None
            hint = f"Write its value: {number}." if number and as_number(number) is not None else "Write a number."
            report.add("bound-expression", (*place, str(key)), f"`{value.strip()}` is not filled in here.", hint)
    listed = given.get("values")
    for index, value in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(value, str) and is_expression(value):
            report.add(
                "bound-expression", (*place, "values", index), f"`{value.strip()}` is not filled in: the trial gets this text.",
                "Write the value.", severity="warning",
            )  # fmt: skip


def _choices(given: Mapping[str, Any], place: nodes.Path, report: Report) -> None:
    seen: set[str] = set()
    for index, value in enumerate(given.get("values") or ()):
        text = repr(value) if isinstance(value, Mapping) else str(value)
        if text in seen:
            report.add(
                "duplicate-choice",
                (*place, "values", index),
                f"The value {text[:60]} of `{place[-1]}` stands twice.",
                "Remove one.",
            )
        seen.add(text)


def _numbers(space: search_space.Space, place: nodes.Path, report: Report) -> None:
    if "min_value" in space.parameters:
        low, high = space.number("min_value"), space.number("max_value")
        if low > high:
            report.add(
                "bounds", (*place, "min_value"), f"`min_value` {low} is above `max_value` {high}.", "Exchange them."
            )
        elif low == high:
            report.add(
                "bounds",
                (*place, "min_value"),
                f"Both bounds are {low}: nothing is varied.",
                "Make it an input.",
                severity="note",
            )
        elif "log" in space.kind and _looks_like_values(low, high):
            real = search_space.real_range(space)
            means = (
                f"{real.least:.4g} to {real.most:.4g}"
                if real and real.least is not None and real.most is not None
                else "other values"
            )
            report.add(
                "log-bounds", (*place, "min_value"), f"Bounds of {space.kind} are logarithms: {low} to {high} gives {means}.",
                _log_hint(low, high),
            )  # fmt: skip
    if "q" in space.parameters:
        _step(space, place, report)
    if "sigma" in space.parameters and space.number("sigma") <= 0:
        sigma = space.number("sigma")
        report.add(
            "sigma",
            (*place, "sigma"),
            f"`sigma` must be above 0; it is {sigma}.",
            "It is a standard deviation.",
            severity="warning" if sigma == 0 else None,
        )


def _step(space: search_space.Space, place: nodes.Path, report: Report) -> None:
    q = space.number("q")
    if q <= 0:
        report.add(
            "step", (*place, "q"), f"The step `q` must be above 0; it is {q}.", "Values are rounded to multiples of it."
        )
        return
    if "min_value" not in space.parameters or space.number("min_value") >= space.number("max_value"):
        return
    real = search_space.real_range(space)
    if real is not None and real.count == 1:
        report.add(
            "step",
            (*place, "q"),
            f"The step {q} is so large that only one value is left: {real.least:g}.",
            "Use a smaller step.",
            severity="warning",
        )
    elif "log" not in space.kind and q > space.number("max_value") - space.number("min_value"):
        report.add(
            "step", (*place, "q"), f"The step {q} is larger than the range.", "Use a smaller step.", severity="warning"
        )


def _looks_like_values(low: float, high: float) -> bool:
    """Logarithms of rates are negative; bounds within 0…1, or a tiny positive one under a far larger, were meant as values."""
    return (low > 0 and high <= 1) or (0 < low <= 0.2 and high / low >= 10) or high > _LARGE


def _log_hint(low: float, high: float) -> str:
    if low <= 0:
        return "Write the logarithms of the values that you want."
    return f"For values from {low} to {high} write min_value: {_ln(low)} and max_value: {_ln(high)}."


def _ln(value: float) -> str:
    return re.sub(r"\.?0+$", "", f"{math.log(value):.3f}")


RULES = ((("sweep",), spaces),)
