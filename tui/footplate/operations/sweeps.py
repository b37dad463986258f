"""A sweep made of a command job: which inputs can be swept, and a search space to start from for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from footplate.jobfile import JobFile
from footplate.jobfile.convert import to_sweep
from footplate.jobfile.document import Input
from footplate.jobfile.shapes import as_number

TRIALS = 8
AT_ONCE = 2
"""What a new sweep starts with; both are fields of the form."""


def sweepable(job_file: JobFile) -> tuple[Input, ...]:
    """The inputs that are values, not data: a search space can stand for each."""
    return tuple(given for given in job_file.inputs.values() if given.literal is not None)


def suggested(given: Input) -> Mapping[str, Any]:
    """A search space round the value of an input: half to double of a number, a list with the value of all else.

    A share (0.5 to 1, as a momentum) keeps below 1. Azure takes no boolean as a choice: its text is what the command gets.
    """
    literal = given.literal or ""
    number = as_number(literal) if given.type in ("integer", "number") else None
    if given.type == "boolean":
        return {"type": "choice", "values": ["True", "False"]}
    if number is None:
        return {"type": "choice", "values": [literal]}
    if given.type == "integer":
        whole = int(number)
        return {"type": "choice", "values": sorted({whole // 2 or whole, whole, whole * 2})}
    if number == 0:
        return {"type": "uniform", "min_value": 0.0, "max_value": 1.0}
    share = 0.5 <= number < 1
    ends = (1 - 2 * (1 - number), 1 - (1 - number) / 10) if share else (number / 2, number * 2)
    return {"type": "uniform", "min_value": _round(min(ends)), "max_value": _round(max(ends))}


def _round(number: float) -> float:
    return float(f"{number:.6g}")


def as_sweep(job_file: JobFile, names: Sequence[str], metric: str, goal: str) -> JobFile:
    """A command job as a random sweep over some of its inputs. Raises Invalid where it cannot be one."""
    spaces = {name: suggested(job_file.inputs[name]) for name in names if name in job_file.inputs}
    limits = {"max_total_trials": TRIALS, "max_concurrent_trials": AT_ONCE}
    return to_sweep(job_file, spaces, {"goal": goal, "primary_metric": metric}, limits)
