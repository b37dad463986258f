"""Metrics as an operator reads them: which stand on one chart, in which order, over which axis; jobs compared."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any, Literal

from footplate.operations.series import Series
from footplate.workspace import Invalid, Job, MetricPoint
from footplate.workspace.points import Points

Axis = Literal["step", "time"]
Metrics = Mapping[str, Sequence[MetricPoint]]

SYSTEM = "system/"
"""The beginning of the names under which MLflow itself logs the machine's load."""

_FIRST = ("loss", "acc", "accuracy", "f1", "auc", "map", "images_per_second", "step_seconds", "data_wait", "lr")
_SIDES = ("train", "training", "val", "valid", "validation", "eval", "test")
_PARTS = re.compile(r"[_/.\- ]+")


@dataclass(frozen=True)
class Source:
    """One curve to be drawn: its name, its values, and the moment at which its time begins (seconds since 1970)."""

    name: str
    points: Points
    begin: float = 0.0


@dataclass(frozen=True)
class Panel:
    """One chart to be drawn. `title` is empty where the curves' own names say all."""

    key: str
    sources: tuple[Source, ...]
    title: str = ""
    from_zero: bool = False
    """Whether the y axis begins at 0, as for shares and rates: else the least ripple fills a chart."""

    @property
    def names(self) -> tuple[str, ...]:
        """What a filter looks at."""
        return tuple(name for name in (self.title, *(source.name for source in self.sources)) if name)


def series_of(source: Source, axis: Axis, smoothing: float = 0.0, log: bool = False) -> Series:
    """A source as a curve over steps, or over seconds since its beginning."""
    points = source.points
    xs = array("d", points.steps)
    if axis == "time":
        xs = array("d", (seconds - source.begin for seconds in points.times))
    series = Series.of(source.name, xs, points.values, in_order=axis == "step")
    series.shared = sum(map(eq, points.steps, points.steps[1:]))
    if smoothing:
        series = series.smoothed(smoothing)
    return series.above_zero() if log else series


def begin_of(metrics: Metrics, job: Job | None = None) -> float:
    """Where a job's time axis begins: at its start, else at the first value logged."""
    if job is not None and job.started is not None:
        return job.started.timestamp()
    return min((min(points.times) for points in map(Points.of, metrics.values()) if points), default=0.0)


def panels(metrics: Metrics, joined: bool = True, begin: float = 0.0) -> list[Panel]:
    """A chart a metric, those an operator reads first at the top; `joined`: train and val of one metric on one chart."""
    names = sorted((name for name, points in metrics.items() if len(points)), key=order)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault((joined and _common(name)) or name, []).append(name)
    return [
        Panel(own[0], tuple(Source(shown(name), Points.of(metrics[name]), begin) for name in own))
        for own in groups.values()
    ]


def compared(jobs: Sequence[tuple[str, Metrics, float]], from_zero: bool = False) -> list[Panel]:
    """A chart a metric, a curve a job: each job by its label, its metrics, and where its time begins."""
    names = {name for _, metrics, _ in jobs for name, points in metrics.items() if len(points)}
    return [
        Panel(
            name,
            tuple(Source(label, Points.of(metrics.get(name, ())), begin) for label, metrics, begin in jobs),
            shown(name),
            from_zero,
        )
        for name in sorted(names, key=order)
    ]


def split_system(metrics: Metrics) -> tuple[dict[str, Sequence[MetricPoint]], dict[str, Sequence[MetricPoint]]]:
    """What the script logged, and what MLflow itself logged of the machine, without its prefix."""
    own = {name: points for name, points in metrics.items() if not name.startswith(SYSTEM)}
    system = {name.removeprefix(SYSTEM): points for name, points in metrics.items() if name.startswith(SYSTEM)}
    return own, system


def order(name: str) -> tuple[int, bool, int, str]:
    """Losses first, then accuracies, in the order an operator reads them; train before val, a best so far after both."""
    parts = _PARTS.split(name.lower())
    rank = next((at for at, first in enumerate(_FIRST) if first in parts or first == name.lower()), len(_FIRST))
    side = next((at for at, side in enumerate(_SIDES) if side in parts), len(_SIDES))
    return rank, "best" in parts, side, name


def _common(name: str) -> str:
    """What a metric measures, whichever part of the data: `train_loss` and `val_loss` are one; empty where it does not say."""
    parts = _PARTS.split(name.lower())
    if sum(part in _SIDES for part in parts) != 1 or len(parts) < 2 or "best" in parts:
        return ""
    return " ".join("∗" if part in _SIDES else part for part in parts)


def shown(name: str) -> str:
    """A metric's name as it is shown: in quotes where it begins or ends with a blank, which nobody would see."""
    return name if name == name.strip() else f'"{name}"'


def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression for names. Raises Invalid."""
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise Invalid(f"{pattern!r} is no regular expression: {error}.", "As in loss, or ^val_.") from error


# What a job does beside training


@dataclass(frozen=True)
class Load:
    """The newest figures of a job's load, as they stand in a strip: `GPU 93 %`, `mem 61 %`, `data wait 2 %`."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "  ".join(self.parts)


def load(usage: Metrics, metrics: Metrics) -> Load:
    """GPU where there is one, else CPU; memory; and how much of the time training waits for data, where it is logged."""
    gpu, cpu = _newest(usage, "gpu_percent"), _newest(usage, "cpu_percent")
    memory = _newest(usage, "machine_memory_percent") or _newest(usage, "system_memory_usage_percentage")
    parts = []
    if gpu:
        parts.append(f"GPU {sum(gpu) / len(gpu):.0f} %")
    elif cpu:
        parts.append(f"CPU {sum(cpu):.0f} %")
    if memory:
        parts.append(f"mem {max(memory):.0f} %")
    if (wait := data_wait(metrics)) is not None:
        parts.append(f"data wait {wait * 100:.0f} %")
    return Load(tuple(parts))


def data_wait(metrics: Metrics) -> float | None:
    """The share of time in which training waited for data: the last `data_wait`, in seconds, of those since the one before.

    None where it is not logged twice.
    """
    waits = Points.of(metrics.get("data_wait", ()))
    if len(waits) < 2 or not waits.values[-1] >= 0 or (passed := waits.times[-1] - waits.times[-2]) <= 0:
        return None
    return min(1.0, waits.values[-1] / passed)


def _newest(usage: Metrics, name: str) -> list[float]:
    """The newest value of each curve of a figure; nothing of what is NaN."""
    found = [points[-1].value for key, points in usage.items() if len(points) and key.partition("/")[0] == name]
    return [value for value in found if math.isfinite(value)]


USAGE_TITLES = {
    "gpu_percent": "GPU %",
    "gpu_memory_percent": "GPU memory %",
    "cpu_percent": "CPU % (100 = one core)",
    "memory_gb": "memory GB",
    "machine_cpu_percent": "machine CPU %",
    "machine_memory_percent": "machine memory %",
    "disk_read_mb_per_second": "disk read MB/s",
    "disk_write_mb_per_second": "disk write MB/s",
    "network_in_mb_per_second": "machine network in MB/s",
    "network_out_mb_per_second": "machine network out MB/s",
}
"""The figures of a local job's load, in the order in which they are shown."""


def usage_panels(usage: Metrics, begin: float = 0.0) -> list[Panel]:
    """A chart a figure, a curve a rank or GPU (`cpu_percent/rank 1`)."""
    groups: dict[str, list[str]] = {}
    for key, points in usage.items():
        if len(points):
            groups.setdefault(key.partition("/")[0], []).append(key)
    known = [name for name in USAGE_TITLES if name in groups]
    rest = sorted(name for name in groups if name not in USAGE_TITLES)
    return [
        Panel(
            f"usage {name}",
            tuple(Source(key.partition("/")[2] or title, Points.of(usage[key]), begin) for key in groups[name]),
            title if any("/" in key for key in groups[name]) else "",
            from_zero=True,
        )
        for name in (*known, *rest)
        for title in (USAGE_TITLES.get(name, name.replace("_", " ")),)
    ]


# Jobs side by side


@dataclass(frozen=True)
class Difference:
    """One thing in which jobs differ: its name, and each job's value as text, empty where it has none."""

    name: str
    values: tuple[str, ...]


def differences(jobs: Sequence[Job]) -> list[Difference]:
    """What differs among jobs: parameters and inputs by name, then command, size and place."""
    tables: list[dict[str, Any]] = [{**job.inputs, **job.parameters} for job in jobs]
    found = []
    for name in dict.fromkeys(name for table in tables for name in table):
        found.append(Difference(name, tuple(str(table[name]) if name in table else "" for table in tables)))
    found.append(Difference("command", tuple(" ".join(job.command.split()) for job in jobs)))
    found.append(Difference("nodes × ranks", tuple(f"{job.nodes}×{job.ranks_per_node}" for job in jobs)))
    found.append(Difference("cluster", tuple(job.compute for job in jobs)))
    found.append(Difference("experiment", tuple(job.experiment for job in jobs)))
    return [difference for difference in found if len(set(difference.values)) > 1]


def labels(jobs: Sequence[Job]) -> list[str]:
    """What each job is called in a legend: its display name, with its name where two share that."""
    names = [job.display_name or job.name for job in jobs]
    return [
        name if names.count(name) == 1 or name == job.name else f"{name} ({job.name})"
        for name, job in zip(names, jobs, strict=True)
    ]
