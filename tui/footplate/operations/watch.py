"""Watch a job: each change of its status and each value that it logs, once, until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from footplate.workspace import Job, MetricPoint, Unexpected, Workspace


async def watch(
    workspace: Workspace,
    name: str,
    seen: Callable[[Job], None],
    measured: Callable[[str, MetricPoint], None],
    unread: Callable[[str], None] = lambda _: None,
) -> Job:
    """Tell of a job until it has ended, and give it as it ended.

    `seen` gets the job at each look, `measured` each value of each metric once, in order. Metrics that cannot be read end
    nothing: `unread` gets the sentence, once. Raises what reading the job raises.
    """
    told: set[tuple[str, int, datetime, str]] = set()
    refused = ""
    while True:
        job = await workspace.job(name)  # before the metrics: what an ended job logged is all there
        seen(job)
        try:
            new = _new(await workspace.metrics(name), told)
        except Unexpected as error:
            new = []
            if str(error) != refused:
                refused = str(error)
                unread(refused)
        for metric, point in new:
            measured(metric, point)
        if not job.active:
            return job
        await asyncio.sleep(workspace.poll_seconds)


def _new(
    found: Mapping[str, Sequence[MetricPoint]], told: set[tuple[str, int, datetime, str]]
) -> list[tuple[str, MetricPoint]]:
    """The points that were not told yet, in the order they were logged; `told` has them from then on.

    Points come in step order, so a new one may stand before old ones; NaN is not equal to itself, its text is.
    """
    new = []
    for metric, points in found.items():
        for point in points:
            if (key := (metric, point.step, point.time, repr(point.value))) not in told:
                told.add(key)
                new.append((metric, point))
    return sorted(new, key=lambda one: (one[1].time, one[1].step))
