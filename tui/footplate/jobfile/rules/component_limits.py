"""The limits of a component's inputs (`min`, `max`, `enum`): what a default or a step gives lies within them.

Source: Azure ML, reference-yaml-component-command: min and max of numbers, the allowed values of a string.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report, known_names, nearest
from footplate.jobfile.shapes import shortened

CODES = (
    Code(
        "beyond-limits",
        "error",
        "A value beyond the `min`, `max` or `enum` of the component's input that takes it.",
        "type: command\nname: train\nversion: 1\ncommand: echo ${{inputs.epochs}}\nenvironment: azureml:e:1\n"
        "inputs:\n  epochs: {type: integer, min: 1, max: 90, default: 100}  # here\n",
    ),
)

_NUMBERS = ("integer", "number")


def beyond(spec: Mapping[str, Any], value: Any) -> tuple[str, str] | None:
    """How a literal lies beyond what an input declares, and what to write instead; None where it does not, or is bound."""
    kind = spec.get("type")
    if kind in _NUMBERS and (number := _number(value)) is not None:
        least, most = _number(spec.get("min")), _number(spec.get("max"))
        if least is not None and number < least:
            return f"below the least, {spec['min']}", _range(spec)
        if most is not None and number > most:
            return f"above the most, {spec['max']}", _range(spec)
    allowed = spec.get("enum")
    if kind == "string" and isinstance(allowed, list) and allowed and isinstance(value, str) and "${{" not in value:
        names = [str(one) for one in allowed]
        if value not in names:
            near = nearest(value, names)
            return (
                "none of the values that it may have",
                f"Did you mean {near}?" if near else f"Write {known_names(names)}.",
            )
    return None


def limits(job_file: JobFile, report: Report) -> None:
    """A component's defaults lie within its limits, and its least is no more than its most."""
    for name, given in job_file.mapping("inputs").items():
        spec, place = nodes.mapping(given), ("inputs", name)
        least, most = _number(spec.get("min")), _number(spec.get("max"))
        if spec.get("type") in _NUMBERS and least is not None and most is not None and least > most:
            fault = f"The min of `{name}`, {spec['min']}, is above its max, {spec['max']}: no value fits."
            report.add("beyond-limits", (*place, "min"), fault, "Exchange them.")
        elif found := beyond(spec, spec.get("default")):
            fault = f"The default of `{name}`, {shortened(str(spec['default']))}, is {found[0]}."
            report.add("beyond-limits", (*place, "default"), fault, found[1])


def _range(spec: Mapping[str, Any]) -> str:
    least, most = spec.get("min"), spec.get("max")
    if least is None or most is None:
        return f"Write {least} or more." if most is None else f"Write {most} or less."
    return f"Write a value from {least} to {most}."


def _number(value: Any) -> float | None:
    """A finite number, which may be spelled as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


RULES = ((("component",), limits),)
