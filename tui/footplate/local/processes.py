"""Processes of this machine by pid *and* start time, so that a reused pid is never taken for the old process."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def start_time(pid: int) -> float | None:
    """When the process started, in clock ticks since boot (field 22 of /proc/PID/stat); None when it is gone or a zombie.

    Where the system hides other users' processes (hidepid), one of those is as good as gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return None if fields[0] == "Z" else float(fields[19])


def stopped(pid: int) -> bool:
    """Whether a process is stopped, as by SIGSTOP: it is there and does nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def alive(pid: int | None, started: float | None) -> bool:
    """Whether the process that had this pid and start time still runs."""
    return pid is not None and started is not None and start_time(pid) == started


def wake(pid: int | None, started: float | None) -> None:
    """Have a supervisor look at its record now: SIGCONT, which does nothing to a stranger that has got the pid."""
    if pid is not None and alive(pid, started):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process group that we started; a group that is gone is no error."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return
