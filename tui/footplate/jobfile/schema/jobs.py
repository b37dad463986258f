"""Command and sweep jobs. Source: Azure's reference pages reference-yaml-job-command and -sweep, azure-ai-ml's schemas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.faults import Report
from footplate.jobfile.schema import common, environments
from footplate.jobfile.shapes import (
    By,
    Either,
    Items,
    Keys,
    Number,
    Shape,
    Table,
    Text,
    Whole,
    as_number,
)

MOST_TRIALS = 1000
"""Source: how-to-tune-hyperparameters."""

BASE: dict[str, Shape] = {
    **common.HEAD,
    "type": Text(),
    "display_name": Text(),
    "experiment_name": Text(),
    "tags": common.TAGS,
    "properties": common.TAGS,
    "compute": Either(
        Text("a cluster's name"),
        wanted="a cluster's name",
        hint="Write the name itself; nodes and VM size stand below `resources`.",
    ),
    "inputs": common.INPUTS,
    "outputs": Table(common.OUTPUT),
    "services": common.SERVICES,
    "identity": common.IDENTITY,
    "queue_settings": common.QUEUE_SETTINGS,
    "resources": common.RESOURCES,
}
"""What command and sweep jobs share."""


@dataclass(frozen=True)
class CommandLine(Shape):
    """The command's text. Azure's client takes an empty one, and there is nothing to run."""

    wanted: str = "the command line to run"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        Text(self.wanted).check(value, place, report)
        if isinstance(value, str) and not value.strip():
            report.add("missing-key", place, "`command` is empty: there is nothing to run.", "Write the command line.")


BODY: dict[str, Shape] = {
    "command": CommandLine(),
    "code": environments.CODE,
    "environment": environments.ENVIRONMENT,
    "environment_variables": common.VARIABLES,
    "resources": common.RESOURCES,
    "distribution": common.DISTRIBUTION,
}
"""What a command job runs; a sweep has it in its `trial`."""

SECONDS = Whole(1, common.MOST_WHOLE, "seconds")

LIMITS = Keys("limits", {"timeout": SECONDS})

COMMAND = Keys(
    "a command job",
    {
        **BASE,
        **BODY,
        "type": Text("`command`", ("command",), exact=True),
        "environment": environments.JOB_ENVIRONMENT,
        "limits": LIMITS,
        "parent_job_name": Text(),
    },
    required=("command", "environment"),
    read_only=(*common.JOB_READ_ONLY, "parameters"),
    advice={
        key: "That is a sweep's: add `type: sweep`, and put command and environment below `trial`."
        for key in ("search_space", "objective", "sampling_algorithm", "early_termination", "trial")
    },
)

_NUMBER = Number(expression=True)
_BOUNDS: dict[str, Shape] = {"type": Text(), "min_value": _NUMBER, "max_value": _NUMBER}
_CURVE: dict[str, Shape] = {"type": Text(), "mu": _NUMBER, "sigma": _NUMBER}
_STEP: dict[str, Shape] = {"q": _NUMBER}


@dataclass(frozen=True)
class ChoiceValue(Shape):
    """One value of `choice`: text, a number, or a mapping of further spaces. The service takes no booleans."""

    wanted: str = "text, a number, or a mapping of nested spaces"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if isinstance(value, Mapping):
            for name, item in value.items():
                # A nested mapping names its branch by plain values and holds further spaces.
                if isinstance(item, Mapping):
                    SPACE.check(item, (*place, str(name)), report)
                elif isinstance(item, list):
                    self._wrong(item, (*place, str(name)), report, "Write it as {type: choice, values: […]}.")
                else:
                    self.check(item, (*place, str(name)), report)
        elif isinstance(value, bool):
            word = str(value).lower()
            report.add("wrong-type", place, f"A choice cannot be the boolean {word}.", f"Quote it: '{word}'.")
        elif not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            self._wrong(value, place, report, "" if value is None else "Quote it to have it as text.")


SPACE = By(
    "type",
    {
        "choice": Keys("a choice", {"type": Text(), "values": Items(ChoiceValue(), least=1)}, required=("values",)),
        "uniform": Keys("a uniform space", _BOUNDS, required=("min_value", "max_value")),
        "quniform": Keys("a quniform space", {**_BOUNDS, **_STEP}, required=("min_value", "max_value", "q")),
        "loguniform": Keys("a loguniform space", _BOUNDS, required=("min_value", "max_value")),
        "qloguniform": Keys("a qloguniform space", {**_BOUNDS, **_STEP}, required=("min_value", "max_value", "q")),
        "normal": Keys("a normal space", _CURVE, required=("mu", "sigma")),
        "qnormal": Keys("a qnormal space", {**_CURVE, **_STEP}, required=("mu", "sigma", "q")),
        "lognormal": Keys("a lognormal space", _CURVE, required=("mu", "sigma")),
        "qlognormal": Keys("a qlognormal space", {**_CURVE, **_STEP}, required=("mu", "sigma", "q")),
        "randint": Keys("a randint space", {"type": Text(), "upper": Whole(1, expression=True)}, required=("upper",)),
    },
    "a search space",
)


@dataclass(frozen=True)
class LogBase(Shape):
    """The base of logarithms: a number, or `e`."""

    wanted: str = "a number or e"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if isinstance(value, bool) or not (
            isinstance(value, int | float) or value == "e" or as_number(value) is not None
        ):
            self._wrong(value, place, report)


_ALGORITHMS = ("random", "grid", "bayesian")
SAMPLING = Either(
    Text("random, grid or bayesian", _ALGORITHMS),
    By(
        "type",
        {
            "random": Keys(
                "random sampling",
                {
                    "type": Text(),
                    "seed": Whole(),
                    "rule": Text("random or sobol", ("random", "sobol")),
                    "logbase": LogBase(),
                },
            ),
            "grid": Keys("grid sampling", {"type": Text()}),
            "bayesian": Keys("bayesian sampling", {"type": Text()}),
        },
        "sampling",
    ),
    wanted="random, grid or bayesian",
)

_WHEN: dict[str, Shape] = {
    "type": Text(),
    "evaluation_interval": Whole(0, null=True),
    "delay_evaluation": Whole(0, null=True),
}
POLICY = By(
    "type",
    {
        "bandit": Keys(
            "a bandit policy", {**_WHEN, "slack_factor": Number(null=True), "slack_amount": Number(null=True)}
        ),
        "median_stopping": Keys("a median stopping policy", _WHEN),
        "truncation_selection": Keys(
            "a truncation policy",
            {**_WHEN, "truncation_percentage": Whole(1, 99)},
            required=("truncation_percentage",),
            advice={"exclude_finished_jobs": "Azure's how-to names it, and its client refuses it: remove this line."},
        ),
    },
    "an early termination policy",
    camel=True,
)

OBJECTIVE = Keys(
    "an objective",
    {"goal": Text("minimize or maximize", ("minimize", "maximize")), "primary_metric": Text("a metric's name")},
    required=("goal", "primary_metric"),
)

SWEEP_LIMITS = Keys(
    "a sweep's limits",
    {
        "max_total_trials": Whole(1, MOST_TRIALS, "trials"),
        "max_concurrent_trials": Whole(1, MOST_TRIALS, "trials"),
        "timeout": SECONDS,
        "trial_timeout": SECONDS,
    },
    required=("max_total_trials",),
)

TRIAL = Keys(
    "a sweep's trial",
    {**BODY, "queue_settings": common.QUEUE_SETTINGS},
    required=("command", "environment"),
    advice={
        "type": "A stand-alone sweep's trial has no type: remove this line.",
        "compute": "The cluster stands at the top of the sweep: move this line there.",
        "inputs": "Inputs stand at the top of the sweep, beside `trial`.",
        "outputs": "Outputs stand at the top of the sweep, beside `trial`.",
        **{
            key: "It stands at the top of the sweep, beside `trial`: move it there."
            for key in ("search_space", "objective", "sampling_algorithm", "early_termination", "limits")
        },
    },
)

SWEEP = Keys(
    "a sweep job",
    {
        **BASE,
        "type": Text("`sweep`", ("sweep",), exact=True),
        "trial": TRIAL,
        "sampling_algorithm": SAMPLING,
        "search_space": Table(SPACE),
        "objective": OBJECTIVE,
        "early_termination": POLICY,
        "limits": SWEEP_LIMITS,
    },
    required=("type", "trial", "search_space", "objective", "limits"),
    read_only=common.JOB_READ_ONLY,
    advice={
        key: "That belongs below `trial`."
        for key in ("command", "code", "environment", "environment_variables", "distribution")
    },
)
