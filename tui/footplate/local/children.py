"""Helper processes that the local workspace runs once, under a lock: drawing the sample data, creating the metrics' store."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_POLL_SECONDS = 0.1


class Stopped(Exception):
    """The caller's `stop` became true before the work was done; the helper process has been ended."""


def never() -> bool:
    """A `stop` for callers who wait to the end."""
    return False


@contextmanager
def locked(path: Path, stop: Callable[[], bool]) -> Iterator[IO[str]]:
    """Hold an exclusive lock on a file beside what is to be made; waits for another process to give it back.

    Raises Stopped, and OSError where the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop():
                    raise Stopped from None
                time.sleep(_POLL_SECONDS)
        yield lock


def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stop: Callable[[], bool],
    lock: IO[str] | None = None,
) -> tuple[int, str]:
    """Run a helper to its end; returns its exit code and what it printed on either stream.

    With a lock the helper holds it too, so that nobody starts a second one while it outlives its parent. Raises Stopped, and
    OSError when it cannot be started.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        cwd=folder,
        process_group=0,
        pass_fds=[lock.fileno()] if lock else (),
    ) as process:
        while True:
            try:
                printed, _ = process.communicate(timeout=_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if stop():
                    os.killpg(process.pid, signal.SIGKILL)
                    raise Stopped from None
                continue
            return process.returncode, printed


def last_line(printed: str) -> str:
    """The last line that says something, for a message about a helper that failed."""
    return next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "it said nothing")
