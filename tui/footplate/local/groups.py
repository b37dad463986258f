"""Process groups of jobs: who is in them, and how they are ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from footplate.local import processes


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
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the listing and the look
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


def kill_leftovers(groups: Iterable[Group], job: str) -> None:
    """Kill what is left of a job's groups after its supervisor is gone.

    A group whose leader has ended is taken for the job's only if a process in it carries the job's name in its environment:
    long after, the id could be a stranger's.
    """
    known = [group for group in groups if group.may_be_ours()]
    inside = members(known)
    mark = f"AZUREML_RUN_ID={job}".encode()
    for group in known:
        pids = [pid for pid, group_id in inside.items() if group_id == group.pid]
        if processes.start_time(group.pid) == group.started or any(mark in _environment(pid) for pid in pids):
            _signal([group], signal.SIGKILL)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _signal(groups: Iterable[Group], number: signal.Signals) -> None:
    for group in groups:
        try:
            os.killpg(group.pid, number)
        except ProcessLookupError:
            continue  # nobody left in it
