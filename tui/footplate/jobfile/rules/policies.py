"""Early termination: policies that stop nothing, or that say too little or too much."""

from __future__ import annotations

import re
from collections.abc import Mapping

from footplate.jobfile.document import JobFile
from footplate.jobfile.expressions import EXPRESSION
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.shapes import as_number, snake

_HEAD = (
    "type: sweep\ntrial: {command: 'python train.py --epochs 3 ${{search_space.lr}}', environment: azureml:e:1}\n"
    "search_space:\n  lr: {type: choice, values: [1, 2, 3, 4]}\nsampling_algorithm: random\n"
    "objective: {goal: maximize, primary_metric: accuracy}\n"
)
_LIMITS = "limits: {max_total_trials: 4, max_concurrent_trials: 2}\n"

CODES = (
    Code(
        "slack",
        "error",
        "A bandit policy without slack_factor and slack_amount, or with one that is not above 0. A warning where it has both.",
        f"{_HEAD}{_LIMITS}early_termination: {{type: bandit, evaluation_interval: 1}}  # here\n",
    ),
    Code(
        "evaluation-interval",
        "note",
        "A policy without evaluation_interval: Azure's pages name different defaults (1 and 0), and the client sends 0 or 1.",
        f"{_HEAD}{_LIMITS}early_termination: {{type: median_stopping}}  # here\n",
    ),
    Code(
        "policy-too-late",
        "warning",
        "A policy that is first applied after the last epoch, so that it can never stop a trial that logs once an epoch.",
        f"{_HEAD}{_LIMITS}early_termination:\n  type: median_stopping\n  evaluation_interval: 1\n  delay_evaluation: 50  # here\n",
    ),
    Code(
        "nothing-to-stop",
        "note",
        "All trials start at once: those that run from the start usually reach the end before a policy has anything to compare.",
        f"{_HEAD}limits: {{max_total_trials: 4}}\nearly_termination: {{type: median_stopping, evaluation_interval: 1}}  # here\n",
    ),
)

_EPOCHS = re.compile(r"(?:max_|num_|n_|total_)?(?:train_|training_)?epochs?", re.IGNORECASE)
_EPOCHS_OPTION = re.compile(r"--(?:[a-z]+[-_]){0,2}epochs?(?:\s+|=)[\"']?(\d{1,9})(?=[\s\"']|$)", re.IGNORECASE)


def policies(job_file: JobFile, report: Report) -> None:
    """The sweep's early termination, where it has one of a known type."""
    policy = job_file.mapping("early_termination")
    kind = snake(str(policy.get("type", "")))
    if kind not in ("bandit", "median_stopping", "truncation_selection"):
        return
    if kind == "bandit":
        _slack(policy, report)
    if "evaluation_interval" not in policy:
        report.add(
            "evaluation-interval", ("early_termination",), "Without `evaluation_interval` Azure decides how often it applies.",
            "Write evaluation_interval: 1.", key=True,
        )  # fmt: skip
    total = job_file.whole("limits", "max_total_trials", default=0)
    # Without max_concurrent_trials all run at once.
    concurrent = job_file.whole("limits", "max_concurrent_trials", default=total)
    if total > 1 and concurrent >= total:
        report.add(
            "nothing-to-stop", ("early_termination",), f"All {total} trials start at once: the policy may stop none of them.",
            "Use a smaller max_concurrent_trials.", key=True,
        )  # fmt: skip
    _too_late(job_file, report)


def most_stopped(job_file: JobFile) -> tuple[int, int]:
    """At most N of M trials can be stopped early: those that do not run in the first set, which has nothing to compare with."""
    total = max(0, job_file.whole("limits", "max_total_trials", default=0))
    concurrent = job_file.whole("limits", "max_concurrent_trials", default=total)
    return max(0, total - max(1, concurrent)), total


def _slack(policy: Mapping[str, object], report: Report) -> None:
    given = {key: policy[key] for key in ("slack_factor", "slack_amount") if policy.get(key) is not None}
    place = ("early_termination",)
    if not given:
        report.add(
            "slack", place, "A bandit policy needs slack_factor or slack_amount.", "Write slack_factor: 0.1.", key=True
        )
        return
    for key, value in given.items():
        number = as_number(value)
        if number is not None and number <= 0 and (number < 0 or len(given) == 1):
            report.add(
                "slack",
                (*place, key),
                f"`{key}` must be above 0; it is {value}.",
                "0.1 lets a trial be 10 % behind." if key == "slack_factor" else "It is in the metric's own unit.",
            )
    if len(given) == 2 and all(as_number(value) for value in given.values()):
        report.add(
            "slack",
            (*place, "slack_amount"),
            "The policy has slack_factor and slack_amount: only one counts.",
            "Remove one of them.",
            severity="warning",
        )


def _too_late(job_file: JobFile, report: Report) -> None:
    epochs = _most_epochs(job_file)
    interval = max(1, job_file.whole("early_termination", "evaluation_interval", default=1))
    delay = job_file.whole("early_termination", "delay_evaluation", default=0)
    first = max(interval, -(-delay // interval) * interval)
    if epochs is None or first <= epochs:
        return
    key = "delay_evaluation" if delay > interval else "evaluation_interval"
    report.add(
        "policy-too-late", ("early_termination", key),
        f"The policy first applies to value {first} of the metric; a trial that logs one an epoch has {epochs}.",
        f"Use less than {epochs}, unless the script logs more often." if epochs > 1 else "Remove it, or train longer.",
    )  # fmt: skip


def _most_epochs(job_file: JobFile) -> int | None:
    """The most epochs that a trial runs, where the file says it for certain: one option, input or choice named so."""
    counts: set[int] = set()
    counts.update(int(number) for number in _EPOCHS_OPTION.findall(job_file.command))
    named = set(EXPRESSION.findall(job_file.command))
    for name, given in job_file.inputs.items():
        if _EPOCHS.fullmatch(name) and f"inputs.{name}" in named:
            if given.literal is None or not given.literal.isdigit():
                return None
            counts.add(int(given.literal))
    for name in job_file.mapping("search_space"):
        if _EPOCHS.fullmatch(name):
            values = job_file.get("search_space", name, "values")
            if not isinstance(values, list) or not values or not all(type(value) is int for value in values):
                return None
            counts.add(max(values))
    return max(counts) if counts and max(counts) > 0 else None


RULES = ((("sweep",), policies),)
