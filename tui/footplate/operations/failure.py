"""The failure card of a job: its logs read by their beginnings and ends, never whole, from whichever workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from footplate.logs import names
from footplate.logs.failure import Card, Known, LogText, find
from footplate.logs.mask import masked
from footplate.logs.progress import Progress
from footplate.workspace import Job, LogFile, MetricPoint, NotFound, Workspace, WorkspaceError

HEAD = 64 * 1024
TAIL = 512 * 1024
_LEAST_TAIL = 128 * 1024
_IN_ALL = 16 * 1024 * 1024
"""Bytes of all tails together."""
FURTHER = 4 * 1024 * 1024
"""Bytes before a tail that are looked at where the tails tell no cause."""
_MOST_FILES = 256
_AT_ONCE = 8
_COUNTED = 256 * 1024 * 1024
"""A log on this machine up to that size has its lines counted, so that the card can name the line."""
_NOTHING_SAID = frozenset({"unknown", "peer_lost", "launcher", "interrupted"})


@dataclass(frozen=True)
class Failure:
    """Why a job failed: the card, and the job whose logs it is of, the child of a sweep or pipeline that failed first."""

    job: Job
    card: Card

    def document(self) -> dict[str, object]:
        """What `--json` prints."""
        return {"job": self.job.name, "status": self.job.status, **self.card.document()}


@dataclass
class _Read:
    """What was read of a file: its beginning, and its end where there is a gap between them."""

    file: LogFile
    rank: int | None
    head: bytes
    total: int
    tail: bytes = b""

    @property
    def gap(self) -> int:
        """Bytes between the beginning and the end that were not read."""
        return self.total - len(self.head) - len(self.tail)


async def failure(workspace: Workspace, name: str) -> Failure:
    """Why a job failed. Raises NotFound where there is no such job, WorkspaceError where its logs cannot be read."""
    job = await workspace.job(name)
    if job.type != "command":
        failed = [child for child in await workspace.children(name) if child.status == "Failed"]
        if failed:
            never = datetime.max.replace(tzinfo=UTC)
            job = await workspace.job(min(failed, key=lambda child: child.ended or never).name)
    return Failure(job, await card_of(workspace, job))


async def card_of(workspace: Workspace, job: Job) -> Card:
    """The card of one job that ran or was to run a command. Raises WorkspaceError where its logs cannot be read."""
    files = await workspace.log_files(job.name)
    known = Known(job.nodes, job.ranks_per_node, await workspace.rank_ends(job.name), job.error or "")
    reads = await _read(workspace, job.name, _chosen(files), job.world_size)
    card = await asyncio.to_thread(_find, reads, known)
    if card.kind in _NOTHING_SAID and any(read.gap > 0 for read in reads):
        await _read_further(workspace, job.name, reads)
        card = await asyncio.to_thread(_find, reads, known)
    if card.kind == "shared_memory":
        known = replace(known, shm_size=await _shm_size(workspace, job.name))
        card = await asyncio.to_thread(_find, reads, known)
    return _masked(await _with_metrics(workspace, job.name, card))


def _chosen(files: Sequence[LogFile]) -> list[LogFile]:
    """The logs of the ranks; where no command began, those of what went before."""
    by_path = {file.path: file for file in files}
    if found := names.rank_files(by_path):
        return [by_path[path] for path in found[:_MOST_FILES]]
    build = [file for file in files if names.is_image_build(file.path)]
    return build or [file for file in files if names.group_of(file.path) == names.SYSTEM][:_AT_ONCE]


async def _read(workspace: Workspace, job: str, files: Sequence[LogFile], world: int) -> list[_Read]:
    turns = asyncio.Semaphore(_AT_ONCE)
    most = max(_LEAST_TAIL, min(TAIL, _IN_ALL // max(1, len(files))))

    async def read(file: LogFile) -> _Read | None:
        rank = names.rank_of(file.path)
        if rank is None and world == 1 and names.group_of(file.path) == names.USER:
            rank = 0
        async with turns:
            try:
                head = await workspace.read_log(job, file.path, 0, HEAD)
                found = _Read(file, rank, head.data, head.total)
                if found.gap > 0:
                    start = max(len(head.data), head.total - most)
                    tail = await workspace.read_log(job, file.path, start, head.total - start)
                    if tail.offset == start:  # else another file stands there now, whose beginning this is
                        found.tail = tail.data
                    found.total = len(found.head) + max(0, start - len(found.head)) + len(found.tail)
            except NotFound:
                return None
            return found

    found = await asyncio.gather(*(read(file) for file in files))
    return [one for one in found if one is not None]


async def _read_further(workspace: Workspace, job: str, reads: Sequence[_Read]) -> None:
    """Read more before the ends, of all files together no more than of one."""
    gaps = [read for read in reads if read.gap > 0]
    for read in gaps:
        wanted = min(read.gap, FURTHER // len(gaps))
        start = read.total - len(read.tail) - wanted
        more = await workspace.read_log(job, read.file.path, start, wanted)
        if more.offset == start and len(more.data) == wanted:
            read.tail = more.data + read.tail


def _find(reads: Sequence[_Read], known: Known) -> Card:
    texts: list[LogText] = []
    for read in reads:
        changed = read.file.changed
        if read.gap <= 0:
            texts.append(LogText(read.file.path, read.rank, read.head + read.tail, 1, changed))
            continue
        texts.append(LogText(read.file.path, read.rank, read.head.rpartition(b"\n")[0], 1, changed))
        begun, _, whole = read.tail.partition(b"\n")  # it begins in the middle of a line
        first = _line_at(read.file.local_path, read.total - len(read.tail) + len(begun) + 1)
        texts.append(LogText(read.file.path, read.rank, whole, first, changed))
    return find(texts, known)


def _line_at(file: Path | None, offset: int) -> int | None:
    """The number of the line that begins at an offset of a file on this machine; None for others and for huge ones."""
    if file is None or offset > _COUNTED:
        return None
    line = 1
    try:
        with file.open("rb") as log:
            while offset > 0 and (data := log.read(min(offset, 1 << 20))):
                line += data.count(b"\n")
                offset -= len(data)
    except OSError:
        return None
    return line


async def _shm_size(workspace: Workspace, job: str) -> str:
    """The shared memory that the job's file asks for; empty where it asks for none, or cannot be read."""
    try:
        file = await workspace.job_file(job)
    except WorkspaceError:
        return ""
    return str(file.resources.get("shm_size") or "")


async def _with_metrics(workspace: Workspace, job: str, card: Card) -> Card:
    """What was logged as metrics tells how far a rank came whose log does not; ranks other than the first log none by custom."""
    if not card.ranks or card.ranks[0].progress.told:
        return card
    try:
        step = _last_step(await workspace.metrics(job))
    except WorkspaceError:
        return card
    if step is None:
        return card
    return replace(card, ranks=(replace(card.ranks[0], progress=Progress(step=step)), *card.ranks[1:]))


def _last_step(metrics: Mapping[str, Sequence[MetricPoint]]) -> int | None:
    return max((points[-1].step for points in metrics.values() if points), default=None)


def _masked(card: Card) -> Card:
    """The card without the tokens and keys that a log may hold."""
    ranks = tuple(replace(one, said=masked(one.said), last_line=masked(one.last_line)) for one in card.ranks)
    return replace(
        card,
        message=masked(card.message),
        lines=tuple(masked(line) for line in card.lines),
        then=tuple(masked(one) for one in card.then),
        ranks=ranks,
    )
