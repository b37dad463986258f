"""The list of jobs with the help of the local index: only its young end is asked for, the rest is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from footplate.azure.index import Index, write
from footplate.azure.jobs import Jobs
from footplate.azure.list_details import ListDetails
from footplate.azure.turns import give_way
from footplate.workspace.errors import NotFound
from footplate.workspace.model import Job, JobFilter

FULL_SECONDS = 600.0
"""So long the index is believed about the old end; then the list is read whole, which finds what was archived or deleted."""
RUN = 20
"""After so many jobs in a row that are known to have ended, what comes next is known."""
MOST_ACTIVE = 20
"""So many old jobs that go on are asked for one by one; of more, reading on through the pages is cheaper."""
_PAGE = 100


class KnownJobs:
    """The jobs of one workspace, newest first, with as few requests as the truth allows."""

    def __init__(self, jobs: Jobs, index: Index, details: ListDetails) -> None:
        self._jobs = jobs
        self._index = index
        self._details = details

    async def pages(self, matching: JobFilter) -> AsyncGenerator[Sequence[Job]]:
        """As `Workspace.jobs`: every job that goes on is as the service has it now; one that has ended may be from the index.

        What was archived or deleted elsewhere goes within `FULL_SECONDS`. Where the service's order is not by the time of
        creation, the index is left alone, and all pages are asked for.
        """
        if matching.archived:
            async for page in self._jobs.pages(matching):
                yield await self._details.fill(page, young=False)
            return
        began = datetime.now(UTC)
        seen: set[str] = set()
        below: datetime | None = None
        run, in_order = 0, True
        async with aclosing(self._jobs.pages(JobFilter())) as pages:
            async for listed in pages:
                page = await self._details.fill(listed, young=below is None)
                ended: frozenset[str] = frozenset()
                in_order = in_order and _descends(page, below)
                if in_order:
                    bodies = await _written(page)
                    ended = await asyncio.to_thread(self._keep, page, below, began, bodies)
                new = [job for job in page if job.name not in seen]
                seen.update(job.name for job in new)
                if kept := [job for job in new if matching.matches(job)]:
                    yield kept
                for job in page:
                    run = run + 1 if job.name in ended and not job.active else 0
                below = page[-1].created
                if not in_order or run < RUN or (known := await self._known(below, began)) is None:
                    continue
                rest, whole = [job for job in known[0] if job.name not in seen], known[1]
                seen.update(job.name for job in rest)
                run = 0
                for start in range(0, len(rest), _PAGE):
                    if kept := [job for job in rest[start : start + _PAGE] if matching.matches(job)]:
                        yield kept
                if whole:
                    return
        if in_order:
            await asyncio.to_thread(self._end, began, below)

    def _end(self, began: datetime, below: datetime | None) -> None:
        """The list was read to its end: whatever the index has beyond is gone."""
        self._index.put_page((), below, began, last=True)
        self._index.put_pass(began, None)

    def _keep(
        self, page: Sequence[Job], below: datetime | None, began: datetime, bodies: Sequence[str]
    ) -> frozenset[str]:
        """Keep a page, and note how far this reading has come where that is further than what is believed."""
        ended = self._index.put_page(page, below, began, bodies=bodies)
        last, down_to = self._index.last_pass(), page[-1].created
        if last is None or not _counts(last.at, began) or (last.down_to is not None and down_to < last.down_to):
            self._index.put_pass(began, down_to)
        return ended

    async def _known(self, than: datetime, now: datetime) -> tuple[list[Job], bool] | None:
        """The older jobs that the index answers for, and whether these are all; those that go on are asked for now.

        None where it cannot answer: the last whole look is too long ago, or reading on is cheaper.
        """
        last = await asyncio.to_thread(self._index.last_pass)
        if last is None or not _counts(last.at, now) or (last.down_to is not None and last.down_to >= than):
            return None
        rest = await asyncio.to_thread(self._index.older, than, last.down_to)
        going = [job.name for job in rest if job.active]
        if len(going) > MOST_ACTIVE:
            return None
        found = dict(zip(going, await asyncio.gather(*map(self._now, going)), strict=True))
        if changed := [job for job in found.values() if job is not None]:
            await asyncio.to_thread(self._index.put, changed)
        jobs = [found.get(job.name, job) for job in rest]
        return [job for job in jobs if job is not None and not job.archived], last.down_to is None

    async def _now(self, name: str) -> Job | None:
        """A job as it is now; None where it is gone."""
        try:
            return await self._jobs.job(name)
        except NotFound:
            await asyncio.to_thread(self._index.drop, name)
            return None


async def _written(page: Sequence[Job]) -> list[str]:
    """The jobs as the index keeps them, a few at a time: a thread would hold up the keys for longer."""
    bodies: list[str] = []
    for job in page:
        bodies.append(write(job))
        await give_way()
    return bodies


def _descends(page: Sequence[Job], below: datetime | None) -> bool:
    """Whether a page is newest first, and goes on where the page before ended."""
    begins = below is None or page[0].created <= below
    return begins and all(earlier.created >= later.created for earlier, later in pairwise(page))


def _counts(at: datetime, now: datetime) -> bool:
    """Whether a whole look is young enough; one from the future was made by a clock that was set back since."""
    return timedelta(0) <= now - at < timedelta(seconds=FULL_SECONDS)
