"""What a form shows beside its fields: the file with what was typed, what it will run, and the values a sweep will draw."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from footplate.jobfile import JobFile, form, kinds, nodes, search_space
from footplate.jobfile.changes import Difference, MarkedLine, differences, marked
from footplate.jobfile.faults import Fault
from footplate.jobfile.form import Field
from footplate.jobfile.plan import Plan, Trial, plan, sweep_plan
from footplate.jobfile.rules.policies import most_stopped
from footplate.jobfile.upload import Upload
from footplate.operations import launch
from footplate.workspace.errors import WorkspaceError

REFUSED = "refused"
"""The code of a typed value that cannot stand in its place."""

_DRAWN = 600
_CELLS = 24
_SHOWN = 5


@dataclass(frozen=True)
class SpaceLook:
    """The real values of one search space: its range in words, samples, and how often each part of the range is drawn.

    `shares` are counts of equal parts of the range; of equal parts of its logarithm with `log`. Empty where the values are
    no numbers, or few.
    """

    text: str
    draws: tuple[str, ...]
    shares: tuple[int, ...] = ()
    log: bool = False


@dataclass(frozen=True)
class Outlook:
    """All that a form shows of one state of a file. `refused` are faults of what was typed: what cannot stand in its place,
    and inputs that are of another type now.

    `plan` is None where nothing can run, and `plan_fault` says why; `upload` alike. `trials` are samples of a sweep's.
    """

    job_file: JobFile
    fields: tuple[Field, ...]
    refused: tuple[Fault, ...] = ()
    plan: Plan | None = None
    plan_fault: str = ""
    trials: tuple[Trial, ...] = ()
    upload: Upload | None = None
    upload_fault: str = ""
    code: Path | None = None
    inputs: tuple[Mapping[str, str], ...] = ()
    lines: tuple[MarkedLine, ...] = ()
    differences: tuple[Difference, ...] = ()
    spaces: Mapping[str, SpaceLook] | None = None
    stoppable: tuple[int, int] | None = None
    """How many trials at most a policy can stop, and how many there are."""

    @property
    def impossible(self) -> bool:
        """Whether something typed could not be put into the file."""
        return any(fault.code == REFUSED for fault in self.refused)


def look_out(
    base: JobFile,
    typed: Mapping[nodes.Path, str],
    opened: JobFile,
    before: Outlook | None = None,
    past: JobFile | None = None,
) -> Outlook:
    """Put what was typed into a file and work out all that a form shows of it. Reads the code folder; call it in a thread.

    `opened` is the file whose changes are marked; `before` an earlier outlook, whose listing of the same code
    folder holds still; `past` the job file of a job that this one was cloned from.
    """
    job_file, refused = _put(base, typed)
    found = form.fields(job_file)
    refused += _other_types(opened, found)
    outlook = Outlook(
        job_file,
        found,
        tuple(refused),
        code=job_file.code,
        inputs=tuple(launch.inputs_of(job_file)),
        lines=marked(opened.text, job_file.text),
        differences=differences(past, job_file) if past else (),
    )
    try:
        if job_file.kind == "sweep":
            swept = sweep_plan(job_file)
            outlook = replace(outlook, plan=swept.plan, trials=swept.trials)
        elif job_file.kind == "command":
            outlook = replace(outlook, plan=plan(job_file))
        elif job_file.kind != "pipeline":
            outlook = replace(outlook, plan_fault=f"{job_file.label} is {kinds.TITLES[job_file.kind]}.")
    except WorkspaceError as error:
        outlook = replace(outlook, plan_fault=str(error))
    try:
        same_code = before is not None and before.code == job_file.code
        known = before.upload if before is not None and same_code else None
        outlook = replace(outlook, upload=known or launch.upload_of(job_file))
    except WorkspaceError as error:
        outlook = replace(outlook, upload_fault=str(error))
    if job_file.kind == "sweep":
        spaces = {space.name: look for space in search_space.spaces_of(job_file) if (look := look_of(space))}
        outlook = replace(outlook, spaces=spaces, stoppable=_stoppable(job_file))
    return outlook


def _put(base: JobFile, typed: Mapping[nodes.Path, str]) -> tuple[JobFile, list[Fault]]:
    """The file with every value that can stand in its place, and a fault for each that cannot."""
    known = {field.path: field for field in form.fields(base)}
    job_file, refused = base, []
    for path, value in typed.items():
        if path not in known:
            continue
        try:
            job_file = form.put(job_file, known[path], value)
        except WorkspaceError as error:
            line = job_file.line(*path)
            refused.append(Fault(REFUSED, "error", error.sentence, error.next_step, line, 1, path))
    return job_file, refused


def _other_types(opened: JobFile, found: tuple[Field, ...]) -> list[Fault]:
    """A warning for each input that was a number and is now text: a slip of the finger, in most cases."""
    before = {field.path: field.kind for field in form.fields(opened)}
    names = {"whole": "integer", "number": "number"}
    return [
        Fault(
            "other-type",
            "warning",
            f"{field.label} is {names[kind]} in the file and is now text.",
            "",
            0,
            1,
            field.path,
        )
        for field in found
        if (kind := before.get(field.path, "text")) in names and field.path[0] == "inputs" and field.kind == "text"
    ]


def field_of(place: nodes.Path, known: Mapping[nodes.Path, object]) -> nodes.Path | None:
    """The field at which a fault of a place is shown: its own, the nearest above it, or the first below it."""
    for length in range(len(place), 0, -1):
        if place[:length] in known:
            return place[:length]
    if len(place) < 2:
        return None
    return next((path for path in known if path[: len(place)] == place), None) or next(
        (path for path in known if place[0] == "search_space" and path[:2] == place[:2]), None
    )


def _stoppable(job_file: JobFile) -> tuple[int, int] | None:
    """How many trials a policy can stop, and how many there are; None without a policy or a number of trials."""
    stopped, total = most_stopped(job_file)
    return (stopped, total) if total and job_file.mapping("early_termination") else None


def look_of(space: search_space.Space) -> SpaceLook | None:
    """The real values of a space; None where it gives none."""
    span = search_space.real_range(space)
    if span is None:
        return None
    draws = tuple(_short(text) for text in search_space.draws(space, _SHOWN))
    if space.kind == "choice":
        return SpaceLook(span.text, ())
    least, most = span.least, span.most
    if least is None or most is None or not (math.isfinite(least) and math.isfinite(most)) or least >= most:
        return SpaceLook(span.text, draws)
    log = "log" in space.kind and least > 0
    generator = random.Random(0)
    shares = [0] * _CELLS
    for _ in range(_DRAWN):
        value = float(search_space.draw(space, generator))
        if log:
            part = (math.log(value) - math.log(least)) / (math.log(most) - math.log(least)) if value > 0 else -1.0
        else:
            part = (value - least) / (most - least)
        if 0 <= part <= 1:
            shares[min(_CELLS - 1, int(part * _CELLS))] += 1
    return SpaceLook(span.text, draws, tuple(shares), log)


def _short(text: str) -> str:
    try:
        return text if len(text) <= 8 else f"{float(text):.3g}"
    except ValueError:
        return text if len(text) <= 24 else f"{text[:23]}…"
