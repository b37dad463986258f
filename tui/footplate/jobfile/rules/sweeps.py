"""Sweeps: limits, sampling and the objective that do not fit together; spaces and policies have modules of their own."""

from __future__ import annotations

from collections.abc import Callable

from footplate.jobfile import search_space
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.rules import policies, spaces

_HEAD = "type: sweep\ntrial: {command: 'python train.py ${{search_space.lr}}', environment: azureml:e:1}\n"
_OBJECTIVE = "objective: {goal: maximize, primary_metric: accuracy}\n"
_CHOICE = "search_space:\n  lr: {type: choice, values: [1, 2]}\n"
_UNIFORM = "search_space:\n  lr: {type: uniform, min_value: 1, max_value: 2}"

CODES = (
    Code(
        "concurrency",
        "error",
        "More trials at once than in all.",
        f"{_HEAD}{_CHOICE}{_OBJECTIVE}sampling_algorithm: random\n"
        "limits:\n  max_total_trials: 2\n  max_concurrent_trials: 4  # here\n",
    ),
    Code(
        "trial-timeout",
        "warning",
        "One trial may take longer than the whole sweep.",
        f"{_HEAD}{_CHOICE}{_OBJECTIVE}sampling_algorithm: random\n"
        "limits:\n  max_total_trials: 2\n  timeout: 60\n  trial_timeout: 120  # here\n",
    ),
    Code(
        "metric-blanks",
        "warning",
        "The primary metric's name is empty or has blanks at an end: it is another name than the one without.",
        f"{_HEAD}{_CHOICE}sampling_algorithm: random\nlimits: {{max_total_trials: 2}}\n"
        'objective:\n  goal: maximize\n  primary_metric: "accuracy "  # here\n',
    ),
    Code(
        "grid-space",
        "error",
        "Grid sampling over a space that is no choice.",
        f"{_HEAD}{_UNIFORM}  # here\n{_OBJECTIVE}sampling_algorithm: grid\nlimits: {{max_total_trials: 2}}\n",
    ),
    Code(
        "grid-trials",
        "warning",
        "A grid with more points than trials: the rest never runs. A note where it has fewer.",
        f"{_HEAD}{_CHOICE}{_OBJECTIVE}sampling_algorithm: grid\nlimits:\n  max_total_trials: 1  # here\n",
    ),
    Code(
        "bayesian-space",
        "error",
        "Bayesian sampling over a space other than choice, uniform and quniform.",
        f"{_HEAD}search_space:\n  lr: {{type: loguniform, min_value: -7, max_value: -3}}  # here\n"
        f"{_OBJECTIVE}sampling_algorithm: bayesian\nlimits: {{max_total_trials: 20}}\n",
    ),
    Code(
        "bayesian-policy",
        "warning",
        "Early termination with bayesian sampling, which learns from how trials end: Azure's guide does not allow for both.",
        f"{_HEAD}{_CHOICE}{_OBJECTIVE}sampling_algorithm: bayesian\nlimits: {{max_total_trials: 20}}\n"
        "early_termination: {type: median_stopping, evaluation_interval: 1}  # here\n",
    ),
    Code(
        "bayesian-trials",
        "note",
        "Fewer trials than the 20 for each swept value that bayesian sampling needs to learn from.",
        f"{_HEAD}{_CHOICE}{_OBJECTIVE}sampling_algorithm: bayesian\nlimits:\n  max_total_trials: 4  # here\n",
    ),
    *spaces.CODES,
    *policies.CODES,
)  # fmt: skip

_BAYESIAN_KINDS = ("choice", "uniform", "quniform")
_BAYESIAN_TRIALS = 20
"""For each swept value. Source of both: how-to-tune-hyperparameters."""


def limits(job_file: JobFile, report: Report) -> None:
    """Trials and times."""
    total, concurrent = (
        job_file.whole("limits", key, default=0) for key in ("max_total_trials", "max_concurrent_trials")
    )
    if 0 < total < concurrent:
        report.add(
            "concurrency", ("limits", "max_concurrent_trials"), f"{concurrent} trials at once are more than {total} in all.",
            f"Use at most {total}.",
        )  # fmt: skip
    timeout, trial_timeout = (job_file.whole("limits", key, default=0) for key in ("timeout", "trial_timeout"))
    if 0 < timeout < trial_timeout:
        report.add(
            "trial-timeout", ("limits", "trial_timeout"),
            f"A trial may take {trial_timeout} s, and the whole sweep ends after {timeout} s.", f"Use at most {timeout}.",
        )  # fmt: skip


def objective(job_file: JobFile, report: Report) -> None:
    """The metric's name is matched to the letter."""
    metric = job_file.get("objective", "primary_metric")
    if isinstance(metric, str) and (metric != metric.strip() or not metric):
        hint = (
            f"The script must log this very name; else write {metric.strip()!r}."
            if metric.strip()
            else "Write the metric's name."
        )
        report.add("metric-blanks", ("objective", "primary_metric"), f"The metric is named {metric!r}.", hint)


def sampling(job_file: JobFile, report: Report) -> None:
    """What grid and bayesian sampling can do."""
    given = job_file.get("sampling_algorithm")
    algorithm = (given if isinstance(given, str) else job_file.text_at("sampling_algorithm", "type")).lower()
    found = search_space.spaces_of(job_file)
    total = job_file.whole("limits", "max_total_trials", default=0)
    if algorithm == "grid":
        _grid(found, total, report)
    elif algorithm == "bayesian":
        for space in found:
            if space.kind not in _BAYESIAN_KINDS:
                report.add(
                    "bayesian-space", ("search_space", space.name, "type"), f"Bayesian sampling cannot draw from {space.kind}.",
                    f"Use {', '.join(_BAYESIAN_KINDS)}; or sampling_algorithm: random.",
                )  # fmt: skip
        if job_file.mapping("early_termination"):
            report.add(
                "bayesian-policy", ("early_termination",), "A policy stops trials whose end bayesian sampling would learn from.",
                "Remove early_termination, or use sampling_algorithm: random.", key=True,
            )  # fmt: skip
        advised = _BAYESIAN_TRIALS * len(job_file.mapping("search_space"))
        if 0 < total < advised:
            report.add(
                "bayesian-trials", ("limits", "max_total_trials"), f"Bayesian sampling learns little from {total} trials.",
                f"Azure advises {_BAYESIAN_TRIALS} for each swept value: {advised}.",
            )  # fmt: skip


def _grid(found: tuple[search_space.Space, ...], total: int, report: Report) -> None:
    endless = [space for space in found if search_space.count([space]) is None]
    for space in endless:
        nested = " of nested spaces" if space.kind == "choice" else ""
        report.add(
            "grid-space", ("search_space", space.name, "type"), f"A grid takes choices only, not {space.kind}{nested}.",
            "List the values: {type: choice, values: [0.001, 0.01]}; or use sampling_algorithm: random.",
        )  # fmt: skip
    points = search_space.count(found)
    if endless or not points or total < 1:
        return
    place = ("limits", "max_total_trials")
    if points > total:
        report.add(
            "grid-trials",
            place,
            f"The grid has {points} points, of which {total} run.",
            f"Use {points}, or fewer values.",
        )
    elif points < total:
        report.add(
            "grid-trials",
            place,
            f"The grid has only {points} points: {points} trials run, not {total}.",
            f"Write {points}.",
            severity="note",
        )


RULES: tuple[tuple[tuple[str, ...], Callable[[JobFile, Report], None]], ...] = (
    *((("sweep",), rule) for rule in (limits, objective, sampling)),
    *spaces.RULES,
    *policies.RULES,
)
