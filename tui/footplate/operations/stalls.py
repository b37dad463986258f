"""How long a running job has made no progress: its logs have not grown and it has logged no metric."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from time import monotonic
from weakref import WeakKeyDictionary

from footplate.logs import names
from footplate.workspace import Job, LogFile, MetricPoint, NotFound, Workspace

PROBE_SECONDS = 30.0
"""Between two looks at the size of a log whose last change the workspace does not tell."""
_MOST_PROBES = 8
_PATIENCE = 3.0
"""So many times its own longest pause between two metrics may a job be quiet."""


@dataclass
class _Seen:
    """A log's size as it was seen last, when that was, and when it was last another."""

    size: int
    looked: float
    changed: float


_seen: WeakKeyDictionary[Workspace, dict[tuple[str, str], _Seen]] = WeakKeyDictionary()


async def quiet_seconds(
    workspace: Workspace,
    job: Job,
    metrics: Mapping[str, Sequence[MetricPoint]],
    files: Sequence[LogFile] | None = None,
) -> float | None:
    """Seconds since a running job last wrote a log or a metric; None where it does not run, or that cannot be told.

    Where the workspace tells of no log's last change, it counts from the time that this console first saw its size.
    """
    if job.status not in ("Running", "NotResponding") or job.started is None:
        return None
    files = await workspace.log_files(job.name) if files is None else files
    now = datetime.now(UTC)
    moments = [job.started, *(points[-1].time for points in metrics.values() if points)]
    moments += [file.changed for file in files if file.changed is not None]
    quiet = max(0.0, (now - max(moments)).total_seconds())
    unknown = [file.path for file in files if file.changed is None and names.group_of(file.path) == names.USER]
    if unknown:
        ages = await asyncio.gather(*(_unchanged(workspace, job.name, path) for path in unknown[:_MOST_PROBES]))
        quiet = min([quiet, *(age for age in ages if age is not None)])
    return quiet


async def _unchanged(workspace: Workspace, job: str, path: str) -> float | None:
    """Seconds since a log was seen to have another size, asking for it now and then; None where it is gone."""
    known = _seen.setdefault(workspace, {})
    seen, now = known.get((job, path)), monotonic()
    if seen is None or now - seen.looked > PROBE_SECONDS:
        try:
            chunk = await workspace.read_log(job, path, seen.size if seen else 0, 1)
        except NotFound:
            return None
        if seen is None or seen.size != chunk.total:
            seen = known[job, path] = _Seen(chunk.total, now, now)
        seen.looked = now
    return now - seen.changed


def limit_seconds(minutes: float, metrics: Mapping[str, Sequence[MetricPoint]]) -> float:
    """How long a job may be quiet: so many minutes, more where it is used to longer pauses between its metrics."""
    times = sorted({point.time for points in metrics.values() for point in points[-200:]})
    pauses = [(after - before).total_seconds() for before, after in pairwise(times)]
    return max(minutes * 60.0, _PATIENCE * max(pauses, default=0.0))


async def stalled_seconds(
    workspace: Workspace,
    job: Job,
    minutes: int,
    metrics: Mapping[str, Sequence[MetricPoint]] | None = None,
    files: Sequence[LogFile] | None = None,
) -> float | None:
    """Seconds that a job has made no progress for, where that is longer than it may be; None else, and with 0 minutes always."""
    if minutes <= 0 or job.status not in ("Running", "NotResponding") or job.started is None:
        return None
    if (datetime.now(UTC) - job.started).total_seconds() < minutes * 60:
        return None
    metrics = await workspace.metrics(job.name) if metrics is None else metrics
    quiet = await quiet_seconds(workspace, job, metrics, files)
    return quiet if quiet is not None and quiet >= limit_seconds(minutes, metrics) else None
