"""What a list shows of jobs that their own JSON lacks: when they ran, why they failed, their metric."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from footplate.azure.index import Index, Told
from footplate.azure.metrics import Metrics
from footplate.azure.runs import Run, Runs
from footplate.workspace.errors import WorkspaceError
from footplate.workspace.model import Job

MOST_METRICS = 24
"""Of so many jobs of a page the metric is asked for at a time, of each by itself; of the others with the next looks."""
LIVE_SECONDS = 10.0
"""So long what was told of a job that goes on is shown as it is."""
_PATIENCE_SECONDS, _SILENT_SECONDS = 4.0, 60.0
"""The list does not wait for run history for longer; after it failed, it is left alone for a while."""
_BEFORE_RUNNING = frozenset({"NotStarted", "Scheduled", "Queued", "Preparing", "Provisioning", "Starting"})
_WITHOUT_METRIC = frozenset({"sweep", "pipeline"})
"""What a sweep's trials log is not the sweep's own, and its record has its best value."""


class ListDetails:
    """What run history and MLflow tell of the jobs of a list; of those that have ended it is asked once, and kept."""

    def __init__(self, runs: Runs, metrics: Metrics, index: Index) -> None:
        self._runs = runs
        self._metrics = metrics
        self._index = index
        self._ended: dict[str, Told] | None = None
        self._live: dict[str, tuple[float, Told]] = {}
        self._silent_until = -math.inf

    async def fill(self, page: Sequence[Job], *, young: bool) -> list[Job]:
        """The jobs with what is known of them, after one request for those of which too little is.

        `young`: the page is the list's first, the only one whose jobs' metrics are asked for. Where run history does not
        answer, the jobs are as they were.
        """
        if self._ended is None:
            self._ended = await asyncio.to_thread(self._index.told)
        lacking = [job for job in page if self._lacks(job, self._ended)]
        if lacking and time.monotonic() >= self._silent_until:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._ask(lacking, self._ended, MOST_METRICS if young else 0)
            except (WorkspaceError, TimeoutError):
                self._silent_until = time.monotonic() + _SILENT_SECONDS
        return [self._with_what_is_known(job, self._ended) for job in page]

    def _lacks(self, job: Job, ended: dict[str, Told]) -> bool:
        if not job.active:
            return job.name not in ended
        read, _ = self._live.get(job.name, (-math.inf, None))
        return job.status not in _BEFORE_RUNNING and time.monotonic() - read > LIVE_SECONDS

    def _with_what_is_known(self, job: Job, ended: dict[str, Told]) -> Job:
        told = ended.get(job.name) if not job.active else None
        if told is None:
            _, told = self._live.get(job.name, (0.0, None))
        if told is None:
            return job
        return replace(
            job,
            started=job.started or told.started,
            ended=job.ended or told.ended,
            error=job.error or told.error,
            headline=job.headline or told.headline,
        )

    async def _ask(self, jobs: Sequence[Job], ended: dict[str, Told], most_metrics: int) -> None:
        """Ask of all at once when they ran, and of some for their metric; keep what will not change any more."""
        runs = await self._runs.several([job.name for job in jobs if not self._starts_known(job)])
        logging = [job.name for job in jobs if job.type not in _WITHOUT_METRIC and job.headline is None]
        logging = [name for name in logging if name not in runs or runs[name].started is not None]
        chosen = logging[:most_metrics]
        headlines = dict(zip(chosen, await asyncio.gather(*map(self._metrics.headline, chosen)), strict=True))
        later = set(logging[most_metrics:]) if most_metrics else set()
        kept: dict[str, Told] = {}
        for job in jobs:
            told = self._told(job, runs.get(job.name), headlines.get(job.name))
            if job.active or job.name in later:
                self._live[job.name] = (time.monotonic() if job.active else -math.inf, told)
            else:
                kept[job.name] = told
                self._live.pop(job.name, None)
        ended |= kept
        if kept:
            await asyncio.to_thread(self._index.put_told, kept)

    def _starts_known(self, job: Job) -> bool:
        """Whether it goes on, and is known to have started: that changes no more while it does."""
        return job.active and job.name in self._live and self._live[job.name][1].started is not None

    def _told(self, job: Job, run: Run | None, headline: tuple[str, float] | None) -> Told:
        if run is not None:
            return Told(run.started, run.ended, run.error or None, headline)
        _, before = self._live.get(job.name, (0.0, Told()))
        return replace(before, headline=headline or before.headline)
