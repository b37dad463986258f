"""Scalars that YAML 1.1 reads otherwise than they look."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report, Severity

CODES = (
    Code(
        "read-otherwise",
        "warning",
        "A value that YAML 1.1 reads otherwise than it looks: `no` is False, 1.10 is 1.1, 010 is 8, 12:30 is 750. "
        "Only a note where the number is the one that was meant, written otherwise (1_000, 0x10).",
        "command: python train.py ${{inputs.version}}\nenvironment: azureml:e:1\ninputs:\n  version: 1.10  # here\n",
    ),
    Code(
        "number-in-text",
        "note",
        "A number that YAML 1.1 reads as text, as `1e-3`, which has no dot. The command gets it as it is written.",
        "command: python train.py ${{inputs.lr}}\nenvironment: azureml:e:1\ninputs:\n  lr: 1e-3  # here\n",
    ),
    Code(
        "variable-type",
        "warning",
        "An environment variable that is true, false or a date: variables are text, and it would be `True`, `False` or the "
        "date as Azure's client writes dates.",
        "command: python train.py\nenvironment: azureml:e:1\nenvironment_variables:\n  CACHE_ON: true  # here\n",
    ),
)

_LOOKS_A_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def surprise(written: str, value: object) -> str:
    """What a scalar was read as, where that could surprise: `read as the number 8` for 010; empty where it could not.

    `written` is the scalar as it stands in the file, quotes and all.
    """
    return _reading(written.strip(), value)[1]


def _reading(written: str, value: object) -> tuple[Severity | None, str]:
    """How grave (None for not worth a line in a list), and the words."""
    if not written or written[0] in "'\"|>&!*":
        return None, ""
    if isinstance(value, bool):
        return (
            (None, "")
            if written.lower() in ("true", "false")
            else ("warning", f"read as {str(value).lower()}, and sent as {value}")
        )
    if value is None:
        return "warning", "read as nothing"
    if isinstance(value, str):
        number = _LOOKS_A_NUMBER.fullmatch(written)
        return ("note", f"read as the text {written}, not as a number") if number else (None, "")
    if not isinstance(value, int | float):
        return "warning", f"read as a {type(value).__name__}"
    if str(value) == written.removeprefix("+"):
        return None, ""
    words = f"read as the number {value}"
    if ":" in written:
        return "warning", f"{words} (YAML counts in sixties at a colon)"
    bare = written.lstrip("+-").lower()
    if isinstance(value, int):
        if bare.startswith(("0x", "0b")) or ("_" in bare and not bare.startswith("0")):
            return "note", words
        octal = " (a 0 in front makes it octal)" if bare.startswith("0") else ""
        return "warning", f"{words}{octal}"
    if "_" in bare:
        return "note", words
    # 1.10 may be a version; 0.10 and 1e-5 are the same number, only written otherwise.
    dropped = re.fullmatch(r"[1-9]\d*\.\d*0", bare)
    return "warning" if dropped else None, words


def _number(written: str) -> str:
    """The number as YAML 1.1 takes it: with a dot, and a sign in the exponent."""
    found = re.fullmatch(r"([-+]?)(\d*)\.?(\d*)[eE]([-+]?)(\d+)", written)
    if found is None:
        return str(int(written)) if written.lstrip("+-").isdigit() else str(float(written))
    sign, whole, part, exponent_sign, exponent = found.groups()
    return f"{sign}{whole or 0}.{part or 0}e{exponent_sign or '+'}{exponent}"


def scalars(job_file: JobFile, report: Report) -> None:
    """Inputs, choices, variables and versions that are read otherwise than they look."""
    variables = (*job_file.body, "environment_variables")
    wrong = {fault.place for fault in report.faults if fault.severity == "error"}
    for path, value in _literals(job_file, variables):
        place = job_file.places.get(path)
        if place is None or place.kind != "scalar" or path in wrong:
            continue
        name, written = _name(path), job_file.text[place.start : place.end].strip()
        grave, words = _reading(written, value)
        if path[: len(variables)] == variables and isinstance(value, datetime.date):
            report.add(
                "variable-type", path, f"{name} is written {written}, which YAML reads as a date; its text may come out otherwise.",
                f"Quote what the program reads: '{written}'.",
            )  # fmt: skip
        elif grave == "note" and isinstance(value, str):
            report.add("number-in-text", path, f"{name} is {words}.", f"Write {_number(written)} to have a number.")
        elif grave:
            report.add(
                "read-otherwise",
                path,
                f"{name} is written {written} and {words}.",
                f"To have it as written, quote it: '{written}'.",
                severity=grave,
            )
        elif path[: len(variables)] == variables and isinstance(value, bool):
            report.add(
                "variable-type",
                path,
                f"{name} is {written} and sent as the text {value}.",
                f"Quote what the program reads: '{written}'.",
            )


def _literals(job_file: JobFile, variables: nodes.Path) -> Iterator[tuple[nodes.Path, Any]]:
    for name, given in job_file.mapping("inputs").items():
        if not isinstance(given, Mapping):
            yield ("inputs", name), given
        elif "value" in given:
            yield ("inputs", name, "value"), given["value"]
    for name, given in job_file.mapping(*variables).items():
        yield (*variables, name), given
    for name, given in job_file.mapping("outputs").items():
        if isinstance(given, Mapping) and given.get("version") is not None:
            yield ("outputs", name, "version"), given["version"]
    for name in job_file.mapping("search_space"):
        values = job_file.get("search_space", name, "values")
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if not isinstance(value, Mapping):
                yield ("search_space", name, "values", index), value


def _name(path: nodes.Path) -> str:
    if path[0] == "search_space":
        return f"A value of `{path[1]}`"
    return (
        f"`{path[1] if path[-1] == 'value' else path[-1]}`" if path[-1] != "version" else f"The version of `{path[1]}`"
    )


RULES = ((("command", "sweep"), scalars),)
