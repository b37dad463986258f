"""What a sweep's file asks for, as its overseer needs it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from footplate.jobfile import JobFile, nodes, search_space
from footplate.jobfile.convert import to_command
from footplate.jobfile.document import BODY, parse
from footplate.jobfile.edit import REMOVE
from footplate.jobfile.expressions import EXPRESSION
from footplate.jobfile.shapes import as_number, snake
from footplate.local.sweep.draws import BAYESIAN_KINDS, Sampling, missing
from footplate.local.sweep.policies import Policy
from footplate.workspace import Invalid

MOST_TRIALS = 1000
"""Source: Azure, how-to-tune-hyperparameters."""

MOST_AT_ONCE = 32
"""Each trial that waits for a node has a process of its own, and a sweep's default is all trials at once."""


@dataclass(frozen=True)
class Spec:
    """A sweep's settings. Times are in seconds; `policy` is None where no trial is stopped early."""

    spaces: tuple[search_space.Space, ...]
    sampling: Sampling
    metric: str
    goal: str
    total: int
    at_once: int
    policy: Policy | None

    @classmethod
    def read(cls, job_file: JobFile, seed: int) -> Spec:
        """The settings of a sweep's file; `seed` counts where the file gives none.

        Raises Invalid, with the line, for what cannot be run: a shape that Azure's client takes can still be none.
        """
        require_packages(job_file)
        spaces = _spaces(job_file)
        total = job_file.whole("limits", "max_total_trials", default=MOST_TRIALS)
        if not 1 <= total <= MOST_TRIALS:
            raise _refused(job_file, ("limits", "max_total_trials"), f"{total} trials", f"Use 1 to {MOST_TRIALS}.")
        at_once = job_file.whole("limits", "max_concurrent_trials", default=total)
        if at_once < 1:
            raise _refused(
                job_file, ("limits", "max_concurrent_trials"), f"{at_once} trials at once", "Use at least 1."
            )
        return cls(
            spaces=spaces,
            sampling=_sampling(job_file, spaces, seed),
            metric=job_file.text_at("objective", "primary_metric"),
            goal=job_file.text_at("objective", "goal").lower(),
            total=total,
            at_once=min(at_once, total, MOST_AT_ONCE),
            policy=_policy(job_file),
        )


def trial_file(job_file: JobFile, texts: Mapping[str, str | int | float], display_name: str = "") -> JobFile:
    """The command job that one trial is: its values are inputs, as Azure hands them to the trial's command.

    It has no name of its own, for a clone is to have another. Where the sweep's file is written so that its text cannot be
    moved, the values stand in the command itself, and comments are lost.
    """
    try:
        made = to_command(job_file, texts)
    except Invalid:
        made = _written_anew(job_file, texts)
    changes: dict[str | nodes.Path, object] = {"name": REMOVE} if made.get("name") is not None else {}
    if display_name and made.display_name:
        changes["display_name"] = display_name
    return made.edit(changes)


def _written_anew(job_file: JobFile, texts: Mapping[str, str | int | float]) -> JobFile:
    known = {f"search_space.{name}": str(text) for name, text in texts.items()}
    values = {key: value for key, value in job_file.values.items() if key not in ("trial", *_SWEEP_KEYS)}
    values |= {key: value for key, value in job_file.mapping("trial").items() if key in BODY}
    values["type"] = "command"
    values["command"] = EXPRESSION.sub(lambda match: known.get(match[1], match[0]), job_file.command)
    if time := job_file.whole("limits", "trial_timeout", default=0):
        values["limits"] = {"timeout": time}
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)
    return parse(text, job_file.path, job_file.base)


_SWEEP_KEYS = ("$schema", "limits", "search_space", "sampling_algorithm", "objective", "early_termination")


def _spaces(job_file: JobFile) -> tuple[search_space.Space, ...]:
    found = []
    for name, given in job_file.mapping("search_space").items():
        place = ("search_space", str(name))
        try:
            space = search_space.read(str(name), given)
        except ValueError as error:
            raise _refused(job_file, place, f"a search space that cannot be read ({error})", "Mend it.") from error
        if search_space.real_range(space) is None:
            raise _refused(job_file, place, f"a search space {name!r} without values", "Mend it.")
        found.append(space)
    return tuple(found)


def _sampling(job_file: JobFile, spaces: tuple[search_space.Space, ...], seed: int) -> Sampling:
    place = ("sampling_algorithm",)
    given = job_file.mapping(*place)
    algorithm = (job_file.text_at(*place, "type") or job_file.text_at(*place) or "random").lower()
    base = given.get("logbase", "e")
    number = math.e if base == "e" else as_number(base) or 0.0
    if number <= 0 or number == 1:
        raise _refused(job_file, (*place, "logbase"), f"logarithms to the base {base}", "Use e, or a number above 1.")
    sobol = str(given.get("rule") or "").lower() == "sobol"
    sampling = Sampling(algorithm, job_file.whole(*place, "seed", default=seed), sobol, number)
    for space in spaces:
        if algorithm == "grid" and search_space.count([space]) is None:
            raise _refused(
                job_file, ("search_space", space.name), f"a grid over {space.kind}", "A grid takes choices only."
            )
        if algorithm == "bayesian" and space.kind not in BAYESIAN_KINDS:
            raise _refused(
                job_file,
                ("search_space", space.name),
                f"bayesian sampling from {space.kind}",
                f"Use {', '.join(BAYESIAN_KINDS)}, or sampling_algorithm: random.",
            )
    return sampling


def require_packages(job_file: JobFile) -> None:
    """Raise Invalid where a sweep's sampling needs a package that the console's Python lacks: random sampling needs none."""
    place = ("sampling_algorithm",)
    algorithm = (job_file.text_at(*place, "type") or job_file.text_at(*place)).lower()
    sobol = job_file.text_at(*place, "rule").lower() == "sobol"
    if package := missing(Sampling(algorithm, 0, sobol)):
        raise _refused(
            job_file,
            place,
            f"{'sobol' if sobol else algorithm} sampling, which needs the package {package}, and the console's Python has none",
            "pip install 'footplate[local]' there, or use sampling_algorithm: random.",
        )


def _policy(job_file: JobFile) -> Policy | None:
    given = job_file.mapping("early_termination")
    kind = snake(str(given.get("type") or ""))
    if not kind:
        return None
    place = ("early_termination",)
    factor, amount = (as_number(given.get(key)) for key in ("slack_factor", "slack_amount"))
    if kind == "bandit" and not factor and not amount:
        raise _refused(job_file, place, "a bandit policy without slack", "Write slack_factor or slack_amount, above 0.")
    if min(factor or 0.0, amount or 0.0) < 0:
        raise _refused(job_file, place, "a bandit policy with a slack below 0", "Write it above 0.")
    percentage = job_file.whole(*place, "truncation_percentage", default=0)
    if kind == "truncation_selection" and not 1 <= percentage <= 99:
        raise _refused(job_file, (*place, "truncation_percentage"), f"{percentage} %", "Use 1 to 99.")
    return Policy(
        kind=kind,
        interval=max(1, job_file.whole(*place, "evaluation_interval", default=1)),
        delay=max(0, job_file.whole(*place, "delay_evaluation", default=0)),
        slack_factor=factor or None,
        slack_amount=amount or 0.0,
        percentage=percentage,
    )


def _refused(job_file: JobFile, place: tuple[str, ...], what: str, hint: str) -> Invalid:
    return Invalid(f"{job_file.label} line {job_file.line(*place)}: this asks for {what}, which cannot be run.", hint)
