"""Process groups of jobs, and what left them for sessions of its own: who is there, and how they are ended."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from footplate.local import processes

MARK = "FOOTPLATE_SUPERVISOR"
"""The variable by which a job's processes are known, wherever they went. The watchdog has the name too, for it stands alone."""

SWEEP_SECONDS = 5.0
"""How long a sweep waits for killed processes to go; one that hangs in the kernel must not hang the supervisor."""

_PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h."""


@dataclass(frozen=True)
class Group:
    """A process group by its leader: the leader's pid is the group's id, `started` its start time (`processes.start_time`)."""

    pid: int
    started: float

    @classmethod
    def of(cls, child: int) -> Group:
        """The group led by a child of this process that has not been waited for; it may have ended already."""
        return cls(child, float(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[19]))

    def may_be_ours(self) -> bool:
        """Whether the id still means this group: a live leader with another start time is a stranger."""
        return processes.start_time(self.pid) in (None, self.started)


def members(groups: Collection[Group]) -> dict[int, int]:
    """The live processes of the groups: pid → group id. Zombies do not count."""
    wanted = {group.pid for group in groups}
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended between the listing and the look, or is another user's that the system hides (hidepid)
        if fields[0] != "Z" and int(fields[2]) in wanted:
            found[int(entry.name)] = int(fields[2])
    return found


def end(groups: Iterable[Group], grace_seconds: float) -> None:
    """End the groups with everything in them: SIGTERM, up to `grace_seconds` for them to go, then SIGKILL."""
    left = [group for group in groups if group.may_be_ours()]
    deadline = time.monotonic() + grace_seconds
    _signal(left, signal.SIGTERM)
    while members(left):
        if time.monotonic() >= deadline:
            _signal([group for group in left if group.may_be_ours()], signal.SIGKILL)
            return
        time.sleep(0.05)


def mark(supervisor_pid: int | None, supervisor_started: float | None) -> str:
    """The value of MARK for one supervisor's ranks: no other job on this machine has it, also none of the same name.

    A job that never had a supervisor gets a value that no process has.
    """
    return f"{supervisor_pid}-{supervisor_started or 0:.0f}"


def adopt_orphans() -> None:
    """Make this process the parent of whatever its children leave behind (a child subreaper). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot adopt orphans")


def children() -> set[int]:
    """The pids of this process's children, adopted ones and zombies too."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended, or the kernel has no such list
            found.update(int(pid) for pid in (task / "children").read_text().split())
    return found


def reap(orphans: Iterable[int]) -> None:
    """Take the exit codes of those adopted children that have ended, so that no zombies stay."""
    for pid in orphans:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def sweep(value: str, own: Collection[int] = ()) -> None:
    """Kill every process that carries this value of MARK, and every child of this process that is not one of its `own`.

    What a killed process leaves behind is adopted and killed in turn. Without `own` children are left alone.
    """
    deadline = time.monotonic() + SWEEP_SECONDS
    while True:
        orphans = children() - set(own) if own else set()
        reap(orphans)
        left = [pid for pid in orphans if _kill(pid)] + [pid for pid in _marked(value) if _kill(pid, value)]
        if not left or time.monotonic() >= deadline:
            return
        time.sleep(0.02)


def _marked(value: str) -> list[int]:
    wanted = f"{MARK}={value}".encode()
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if wanted in _environment(pid)]


def _kill(pid: int, value: str | None = None) -> bool:
    """Kill a process, with a value only if it still carries that; whether it was there."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # Looked at again behind the open descriptor: the pid could have passed to a stranger in between.
        if value is not None and f"{MARK}={value}".encode() not in _environment(pid):
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it ended, or became another user's, as what sudo starts
        return False
    finally:
        os.close(process)
    return True


def kill_leftovers(groups: Iterable[Group], value: str) -> None:
    """Kill what is left of a job after its supervisor, whose `mark` is `value`, is gone.

    A group whose leader has ended is taken for the job's only if a process in it carries the mark: long after, the id could be
    a stranger's.
    """
    known = [group for group in groups if group.may_be_ours()]
    inside = members(known)
    wanted = f"{MARK}={value}".encode()
    for group in known:
        pids = [pid for pid, group_id in inside.items() if group_id == group.pid]
        if processes.start_time(group.pid) == group.started or any(wanted in _environment(pid) for pid in pids):
            _signal([group], signal.SIGKILL)
    sweep(value)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _signal(groups: Iterable[Group], number: signal.Signals) -> None:
    for group in groups:
        try:
            os.killpg(group.pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # nobody left in it that is ours: sudo makes another user's of what it starts
