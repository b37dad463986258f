"""What a sweep's trials and a pipeline's steps are shown by: their order, the sweep's limits, the pipeline's graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from footplate.workspace import Job

if TYPE_CHECKING:
    from footplate.jobfile import JobFile


@dataclass(frozen=True)
class Plan:
    """What a parent's file says of its children: a sweep's limits and policy, a pipeline's steps and what each waits for.

    None and empty where the file does not say.
    """

    most: int | None = None
    at_once: int | None = None
    policy: str = ""
    sampling: str = ""
    logarithmic: frozenset[str] = frozenset()
    """Parameters whose space is logarithmic."""
    after: Mapping[str, tuple[str, ...]] | None = None
    """By step, the steps that it takes something from; None for a sweep."""


def plan_of(job_file: JobFile) -> Plan:
    """Read a sweep's or pipeline's file. Component files are read too: call it in a thread."""
    from footplate.jobfile.pipeline import graph_of
    from footplate.jobfile.search_space import spaces_of

    if job_file.kind == "pipeline":
        graph = graph_of(job_file)
        after: dict[str, dict[str, None]] = {step.name: {} for step in graph.steps}
        for edge in graph.edges:
            if edge.source.step and edge.target.step in after:
                after[edge.target.step][edge.source.step] = None
        return Plan(after={step: tuple(before) for step, before in after.items()})
    sampling = job_file.mapping("sampling_algorithm").get("type") or job_file.text_at("sampling_algorithm")
    return Plan(
        most=job_file.whole("limits", "max_total_trials", default=0) or None,
        at_once=job_file.whole("limits", "max_concurrent_trials", default=0) or None,
        policy=str(job_file.mapping("early_termination").get("type") or ""),
        sampling=str(sampling or ""),
        logarithmic=frozenset(space.name for space in spaces_of(job_file) if "log" in space.kind),
    )


def best_first(trials: Sequence[Job], goal: str | None) -> list[Job]:
    """Trials by their metric, the best first, equals in the order they were made; those without a finite one last."""
    sign = 1 if (goal or "").lower().startswith("min") else -1

    def place(trial: Job) -> tuple[bool, float]:
        known = trial.metric is not None and math.isfinite(trial.metric)
        return (not known, sign * trial.metric if known and trial.metric is not None else 0.0)

    return sorted(trials, key=place)


def best_so_far(values: Sequence[float], goal: str | None) -> list[float]:
    """The best of the values up to each; NaN is never the best."""
    better = min if (goal or "").lower().startswith("min") else max
    best: list[float] = []
    for value in values:
        before = best[-1] if best else value
        best.append(before if math.isnan(value) else value if math.isnan(before) else better(before, value))
    return best


def numbers_or_texts(values: Sequence[object]) -> list[float | str]:
    """A parameter's values as numbers where all of them are, else as texts."""
    try:
        numbers: list[float | str] = [float(str(value)) for value in values]
    except ValueError:
        return [str(value) for value in values]
    return numbers if all(math.isfinite(float(number)) for number in numbers) else [str(value) for value in values]


def step_of(child: Job, steps: Sequence[str]) -> str | None:
    """Which step of a pipeline a child runs, by its display name, else by the end of its name."""
    if child.display_name in steps:
        return child.display_name
    return next((step for step in steps if child.name in (step, f"{child.parent}_{step}")), None)
