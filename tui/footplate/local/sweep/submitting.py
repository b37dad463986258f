"""What a sweep's record needs before it starts: its seed, its objective, and names for its trials that nobody has."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace

from footplate.local.store import Store
from footplate.local.submission import Start
from footplate.local.sweep.spec import Spec, trial_file
from footplate.workspace import Conflict, Invalid
from footplate.workspace.names import next_name

_LONGEST_NAME = 250
"""A job's name has 255 characters at most, and a trial's has a number behind."""


def prepared(store: Store, job: Start) -> Start:
    """The job with what is its own as a sweep. Raises Invalid for what cannot be run, Conflict for a trial's name that is taken."""
    if len(job.name) > _LONGEST_NAME:
        raise Invalid(f"The name {job.name[:40]}… is too long for a sweep.", f"Use {_LONGEST_NAME} characters at most.")
    seed = secrets.randbits(32)
    spec = Spec.read(job.file, seed)
    trial_file(job.file, {space.name: "0" for space in spec.spaces})  # raises Invalid here, not at the first trial
    with store.read() as db:
        of_trials = "SELECT name FROM job WHERE substr(name, 1, ?) = ?"
        names = [row[0] for row in db.execute(of_trials, (len(job.name) + 1, f"{job.name}_"))]
    taken = [name for name in names if re.fullmatch(r"\d{1,4}", name[len(job.name) + 1 :])]
    if taken:
        raise Conflict(
            f"There is a job {taken[0]!r} already, which a trial of {job.name!r} would be called.",
            f"Give another name, as {next_name(job.name)}.",
        )
    return replace(job, work={**job.work, "seed": seed, "at_once": spec.at_once}, objective=(spec.metric, spec.goal))


def trial_name(sweep: str, number: int) -> str:
    """What a trial is called, as Azure names it: `my-sweep_0`."""
    return f"{sweep}_{number}"
