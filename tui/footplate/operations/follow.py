"""Follow a job: its log as it grows, until the job has ended and the last byte is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from footplate.workspace import Job, LogFile, NotFound, Workspace

_CHUNK = 1 << 18


@dataclass(frozen=True)
class Copied:
    """What `copy_log` did: the job as it was last seen, and the file it read, None where there was none."""

    job: Job
    file: str | None


async def wait(workspace: Workspace, name: str, seen: Callable[[Job], None] | None = None) -> Job:
    """Wait until a job has ended; `seen` gets it at each look."""
    while True:
        job = await workspace.job(name)
        if seen:
            seen(job)
        if not job.active:
            return job
        await asyncio.sleep(workspace.poll_seconds)


async def log_file(workspace: Workspace, name: str, path: str | None, kind: str = "command") -> LogFile | None:
    """The log file asked for, or the first user log (rank 0); None while there is none yet. Raises NotFound for a wrong path.

    A sweep or pipeline (`kind` is the job's type) runs no command of its own: it has the log of what was decided.
    """
    files = await workspace.log_files(name)
    if path is None:
        told = (file for file in files if not file.path.startswith("system_logs/"))
        return first_user_log(files) or (next(told, None) if kind in ("sweep", "pipeline") else None)
    for file in files:
        if file.path == path:
            return file
    known = ", ".join(f.path for f in files) or "none yet"
    raise NotFound(f"Job {name!r} has no log file {path!r}.", f"Its files: {known}.")


def first_user_log(files: Sequence[LogFile]) -> LogFile | None:
    """The log of rank 0: what an operator wants to see unless another file is asked for."""
    return next((file for file in files if file.path.startswith("user_logs/")), None)


async def copy_log(
    workspace: Workspace,
    name: str,
    write: Callable[[bytes], None],
    path: str | None = None,
    *,
    follow: bool = False,
    seen: Callable[[Job], None] | None = None,
) -> Copied:
    """Write a log file's bytes from the first on; with `follow`, until the job has ended. No byte is lost or repeated.

    `path` None is the first user log, once there is one; `seen` gets the job at each look until it has ended: its end is
    told by what is returned, after the last byte. Raises NotFound for a path that the job does not have, with `follow`
    only when it has ended without it.
    """
    offset, chosen = 0, None
    while True:
        job = await workspace.job(name)  # before the read: what an ended job wrote is all there
        going_on = follow and job.active
        if seen and going_on:
            seen(job)
        if chosen is None:
            try:
                file = await log_file(workspace, name, path, job.type)
            except NotFound:
                if not going_on:  # else the file may still come
                    raise
                file = None
            chosen = file.path if file else None
        if chosen is not None:
            while (chunk := await workspace.read_log(name, chosen, offset, _CHUNK)).data:
                write(chunk.data)
                offset = chunk.offset + len(chunk.data)  # of a file that was replaced it starts anew
        if not going_on:
            return Copied(job, chosen)
        await asyncio.sleep(workspace.poll_seconds)
