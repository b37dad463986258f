"""The defaults of a component's inputs: Azure's client reads each as the input's type when it loads the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Report
from footplate.jobfile.shapes import shortened


def defaults(job_file: JobFile, report: Report) -> None:
    """The default of a component's input is of its type."""
    for name, given in job_file.mapping("inputs").items():
        spec = nodes.mapping(given)
        default, place = spec.get("default"), ("inputs", name, "default")
        kind = str(spec.get("type") or "")
        if default is not None and kind in _READ and not _READ[kind](default) and not report.has(place):
            fault = f"The default of `{name}` is {shortened(str(default))}, and its type {kind}."
            report.add("wrong-type", place, fault, f"Write {_AN[kind]}, or another type.")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


_READ: Mapping[str, Callable[[Any], bool]] = {
    "integer": _is_number,
    "number": _is_number,
    "boolean": lambda value: str(value).lower() in ("true", "false"),
}
"""Which defaults Azure's client can read as a type: `3.0` is an integer to it."""
_AN = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}


RULES = ((("component",), defaults),)
