"""Choices of a form that change which keys a file has: a search space's kind, a policy, a distribution, the sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.edit import REMOVE, Typed
from footplate.jobfile.search_space import PARAMETERS
from footplate.jobfile.shapes import as_number

DISTRIBUTIONS = ("off", "pytorch", "mpi", "tensorflow", "ray")
DISTRIBUTION_KEYS: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("process_count_per_instance",),
    "mpi": ("process_count_per_instance",),
    "tensorflow": ("worker_count", "parameter_server_count"),
    "ray": ("port",),
}
TIERS = ("off", "spot", "basic", "standard", "premium")
ALGORITHMS = ("random", "grid", "bayesian")
POLICIES = ("off", "bandit", "median_stopping", "truncation_selection")
POLICY_KEYS: Mapping[str, tuple[str, ...]] = {
    "bandit": ("slack_factor", "slack_amount", "evaluation_interval", "delay_evaluation"),
    "median_stopping": ("evaluation_interval", "delay_evaluation"),
    "truncation_selection": ("truncation_percentage", "evaluation_interval", "delay_evaluation"),
}
LABELS: Mapping[str, str] = {
    "process_count_per_instance": "ranks a node",
    "worker_count": "workers",
    "parameter_server_count": "servers",
    "port": "port",
    "min_value": "min",
    "max_value": "max",
    "q": "step q",
    "mu": "mu",
    "sigma": "sigma",
    "upper": "below",
    "values": "values",
    "slack_factor": "slack factor",
    "slack_amount": "slack amount",
    "evaluation_interval": "interval",
    "delay_evaluation": "delay",
    "truncation_percentage": "lowest %",
    "timeout": "time limit, s",
    "trial_timeout": "a trial's, s",
    "max_total_trials": "trials",
    "max_concurrent_trials": "at once",
}

_NEW: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("distribution", "pytorch"): (("process_count_per_instance", "1"),),
    ("distribution", "mpi"): (("process_count_per_instance", "1"),),
    ("early_termination", "bandit"): (("slack_factor", "0.1"), ("evaluation_interval", "1"), ("delay_evaluation", "0")),
    ("early_termination", "median_stopping"): (("evaluation_interval", "1"), ("delay_evaluation", "0")),
    ("early_termination", "truncation_selection"): (
        ("truncation_percentage", "20"),
        ("evaluation_interval", "1"),
        ("delay_evaluation", "0"),
    ),
}
"""What a policy or distribution starts with. Azure's documents disagree on the default interval, so it is written down."""

_STRAY: Mapping[str, set[str]] = {
    "distribution": {key for keys in DISTRIBUTION_KEYS.values() for key in keys}
    | {"address", "include_dashboard", "dashboard_port", "head_node_additional_args", "worker_node_additional_args"},
    "early_termination": {key for keys in POLICY_KEYS.values() for key in keys},
    "sampling_algorithm": {"seed", "rule", "logbase"},
}
_KEPT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "distribution": DISTRIBUTION_KEYS,
    "early_termination": POLICY_KEYS,
    "sampling_algorithm": {"random": ("seed", "rule", "logbase")},
}
"""Which of a part's keys stay with each choice."""


def choose(job_file: JobFile, path: nodes.Path, chosen: str) -> JobFile:
    """The file with another choice at a path, and the keys that go with it; an empty choice takes the part out."""
    section = str(path[-2]) if path[-1] == "type" and len(path) > 1 else ""
    if not chosen:
        return without(job_file, path[:-1] if section in _STRAY else path)
    if path[0] == "search_space" and len(path) == 3:
        return _change_space(job_file, path[:-1], chosen)
    changes: dict[str | nodes.Path, object] = {path: chosen}
    if section in _STRAY:
        at, given = path[:-1], job_file.mapping(*path[:-1])
        kept = _KEPT[section].get(chosen, ())
        changes |= {(*at, key): REMOVE for key in given if key in _STRAY[section] and key not in kept}
        slack = {"slack_factor", "slack_amount"} & given.keys()
        for key, value in _NEW.get((section, chosen), ()):
            if key not in given and not (key == "slack_factor" and slack):
                changes[(*at, key)] = value
    return job_file.edit(changes)


def without(job_file: JobFile, path: nodes.Path) -> JobFile:
    """The file without a key; a mapping that would be left without any goes too."""
    while len(path) > 1 and len(job_file.mapping(*path[:-1])) == 1:
        path = path[:-1]
    return job_file.edit({path: REMOVE})


def _change_space(job_file: JobFile, at: nodes.Path, kind: str) -> JobFile:
    """Another kind of space over about the same values: bounds of a log space are the logarithms of the old ones."""
    old_kind = job_file.text_at(*at, "type").lower()
    given = job_file.mapping(*at)
    least, most = _span(old_kind, given)
    wanted = _parameters(kind, least, most)
    rescaled = ("log" in kind) != ("log" in old_kind)
    changes: dict[str | nodes.Path, object] = {(*at, "type"): kind}
    changes |= {(*at, key): REMOVE for key in given if key != "type" and key not in wanted}
    for key, value in wanted.items():
        if given.get(key) is None or (rescaled and key != "values"):
            changes[(*at, key)] = value
    return job_file.edit(changes)


def _span(kind: str, given: Mapping[str, object]) -> tuple[float, float]:
    """The smallest and largest value that a space gave, as far as it says."""

    def number(key: str, default: float) -> float:
        found = as_number(given.get(key))
        return default if found is None or not math.isfinite(found) else found

    if kind == "choice":
        values = given.get("values")
        numbers = [n for v in (values if isinstance(values, list) else ()) if (n := as_number(v)) is not None]
        return (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    if kind == "randint":
        return 0.0, max(1.0, number("upper", 1) - 1)
    if "normal" in kind:
        mu, sigma = number("mu", 0), abs(number("sigma", 1))
        ends = mu - 3 * sigma, mu + 3 * sigma
    else:
        low, high = number("min_value", 0), number("max_value", 1)
        ends = min(low, high), max(low, high)
    if "log" in kind:
        return math.exp(max(-700.0, min(ends[0], 700.0))), math.exp(max(-700.0, min(ends[1], 700.0)))
    return ends


def _parameters(kind: str, least: float, most: float) -> dict[str, object]:
    """The parameters of a kind of space that gives about the values from `least` to `most`."""
    step = (most - least) / 10 or 1.0
    if kind == "choice":
        return {"values": [Typed(_written(value)) for value in dict.fromkeys((least, most))]}
    if kind == "randint":
        return {"upper": str(max(1, int(most) + 1))}
    if "log" in kind:
        low = least if least > 0 else (most / 100 if most > 0 else 0.01)
        least, most = math.log(low), math.log(most if most > low else low * 10)
    if "normal" in kind:
        numbers = {"mu": (least + most) / 2, "sigma": (most - least) / 6 or 1.0, "q": step}
    else:
        numbers = {"min_value": least, "max_value": most, "q": step}
    return {key: _written(numbers[key]) for key in PARAMETERS[kind]}


def _written(number: float) -> str:
    """A number as YAML 1.1 reads one: `1e-05` would be text there."""
    if number == int(number) and abs(number) < 1e15:
        return str(int(number))
    text = repr(float(f"{number:.6g}"))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
