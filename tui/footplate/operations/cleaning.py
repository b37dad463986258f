"""Free the space of old jobs and downloads on this machine: which they are, how much they hold, and their end."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from footplate import paths
from footplate.logs.spool import remove
from footplate.workspace import Conflict, Invalid, Job, JobFilter, NotFound, Workspace

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Old:
    """A job that ended long ago, and the bytes on the disk that go with it."""

    job: Job
    bytes: int


@dataclass(frozen=True)
class Download:
    """A file from the web that was fetched for jobs, none of them for long, and the bytes on the disk that go with it."""

    address: str
    folder: Path
    bytes: int


def age(written: str) -> timedelta:
    """An age as it is typed: `30d`, `12h`, `2w`, `45m`, `0d` for any. Raises Invalid."""
    found = re.fullmatch(r"(\d{1,6})([mhdw])", written.strip().lower(), re.ASCII)
    if not found:
        raise Invalid(f"{written!r} is no age.", "Write it as in 30d; m, h, d and w are known.")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


async def old_jobs(workspace: Workspace, older_than: timedelta) -> list[Old]:
    """The jobs that ended so long ago, archived ones too, oldest first. Raises Invalid where jobs cannot be deleted."""
    if reason := workspace.capabilities.get("delete_job"):
        raise Invalid(reason, "footplate clean frees space on this machine: add --workspace local.")
    before = datetime.now(UTC) - older_than
    found = [
        job
        async for page in workspace.jobs(JobFilter(archived=True))
        for job in page
        if not job.active and job.ended is not None and job.ended <= before
    ]
    jobs = paths.home() / "jobs"
    old = []
    for job in found:
        below = await workspace.children(job.name) if job.type in ("sweep", "pipeline") else ()
        folders = [jobs / name for name in (job.name, *(child.name for child in below))]  # trials go with their sweep
        old.append(Old(job, await asyncio.to_thread(_held, folders)))
    return sorted(old, key=lambda one: (one.job.ended or one.job.created, one.job.name))


async def clean(workspace: Workspace, old: Sequence[Old], removed: Callable[[Old], None] = lambda _: None) -> list[Old]:
    """Delete these jobs with their files and metrics; gives those that went. One that is gone, or came back, is passed over."""
    done = []
    for one in old:
        try:
            await workspace.delete_job(one.job.name)
        except (Conflict, NotFound):
            continue  # somebody else was here meanwhile
        await asyncio.to_thread(remove, paths.cache() / "logs", workspace.name, [one.job.name])
        done.append(one)
        removed(one)
    return done


def old_downloads(older_than: timedelta) -> list[Download]:
    """What was downloaded for jobs of this machine and no job took since; it would be fetched again. Blocks."""
    before = (datetime.now(UTC) - older_than).timestamp()
    found = []
    for content in (paths.home() / "cache" / "downloads").glob("*/content"):
        lock = content.with_name(".lock")
        used = max((file.stat().st_mtime for file in (content, lock) if file.exists()), default=before)
        if used <= before:
            held = content.stat()  # a job that took it has it still, where it is the same file
            size = held.st_blocks * 512 if held.st_nlink == 1 else 0
            found.append(Download(_address(content.with_name("record.json")), content.parent, size))
    return sorted(found, key=lambda one: (one.address, one.folder.name))


def clean_downloads(old: Sequence[Download]) -> list[Download]:
    """Remove these files; gives those that went. One that a job is taking is passed over. Blocks."""
    done = []
    for one in old:
        try:
            with (one.folder / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in ("record.json", "content"):
                    (one.folder / name).unlink(missing_ok=True)
        except OSError:  # a job holds it, or it may not be removed
            continue
        done.append(one)
    return done


def _address(record: Path) -> str:
    try:
        return str(json.loads(record.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return record.parent.name  # a download that was interrupted


def _held(folders: Sequence[Path]) -> int:
    """Bytes on the disk that go when folders go: files that also lie elsewhere, as in a model, stay."""
    total = 0
    for place, _, names in itertools.chain.from_iterable(map(os.walk, folders)):
        for name in names:
            try:
                found = (Path(place) / name).lstat()
            except OSError:
                continue  # gone meanwhile, or not to be looked at
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                total += found.st_blocks * 512
    return total
