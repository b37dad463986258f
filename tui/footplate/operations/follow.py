"""Follow a job: its log as it grows, until the job has ended and the last byte is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from footplate.logs.exact import Exact, pause_after
from footplate.workspace import Job, LogFile, NotFound, Throttled, Unexpected, Unreachable, Workspace, WorkspaceError

_CHUNK = 1 << 18
_MOST_FAILURES = 5


class Patience:
    """What a follower does about faults that waiting may mend: it says each once, waits, and gives up after a minute or so."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failures = 0

    async def bear(self, error: WorkspaceError) -> None:
        """Wait after a fault. Raises it where waiting does not mend it, or was no use."""
        self._failures += 1
        if not isinstance(error, Throttled | Unreachable | Unexpected) or self._failures > _MOST_FAILURES:
            raise error
        pause = pause_after(self._failures, error)
        self._say(f"{error.sentence} Trying again in {pause:.0f} s.")
        await asyncio.sleep(pause)

    def went_well(self) -> None:
        """A look brought an answer."""
        self._failures = 0


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


async def looks(
    workspace: Workspace,
    name: str,
    path: str | None = None,
    *,
    follow: bool = False,
    seen: Callable[[Job], None] | None = None,
) -> AsyncIterator[tuple[Job, LogFile | None, bool]]:
    """The job, its log file once there is one, and whether another look follows: until the job has ended, or once.

    What an ended job wrote is all there when it is given. `path` None is the first user log; `seen` gets the job at each look
    until it has ended. Raises NotFound for a path that the job does not have, with `follow` only when it has ended without it.
    """
    chosen: LogFile | None = None
    while True:
        job = await workspace.job(name)
        going_on = follow and job.active
        if seen and going_on:
            seen(job)
        if chosen is None:
            try:
                chosen = await log_file(workspace, name, path, job.type)
            except NotFound:
                if not going_on:  # else the file may still come
                    raise
        yield job, chosen, going_on
        if not going_on:
            return
        await asyncio.sleep(workspace.poll_seconds)


async def copy_log(
    workspace: Workspace,
    name: str,
    write: Callable[[bytes], None],
    path: str | None = None,
    *,
    follow: bool = False,
    seen: Callable[[Job], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Copied:
    """Write a log file's bytes from the first on; with `follow`, until the job has ended. No byte is lost or repeated.

    A log that began anew is written from its first byte, after `say` was told so; so is a fault that `follow` waits out.
    The job's end is told by what is returned, after the last byte. Otherwise as `looks`.
    """
    log, patience = Exact(), Patience(say)
    async for job, file, going_on in looks(workspace, name, path, follow=follow, seen=seen):
        more = file is not None
        while more and file is not None:
            try:
                took = log.take(await workspace.read_log(name, file.path, *log.request(_CHUNK)))
            except WorkspaceError as error:
                if not follow:
                    raise
                await patience.bear(error)
                more = not going_on  # what an ended job wrote is waited for
                continue
            patience.went_well()
            if took.anew:
                say(f"{file.path} began anew here.")
            write(took.data)
            more = took.more or bool(took.data)
        if not going_on:
            return Copied(job, file.path if file else None)
    raise AssertionError("unreachable")
