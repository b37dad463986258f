"""Ends a job's processes when the job's supervisor dies: it holds the other end of a pipe from the supervisor.

Run as `python -I -S watchdog.py`, one a job, standing alone so that it is small. The supervisor writes a line `PID STARTED`
for every process group that it starts and `end` when none is left to guard; the pipe ends when the supervisor does,
however that comes. What left those groups is known by FOOTPLATE_SUPERVISOR in its environment.
"""

import os
import signal
import sys
import time

GRACE_SECONDS = 1.0
SWEEP_SECONDS = 5.0


def start_ticks(pid: int) -> "float | None":
    """Start time of a process as in /proc/PID/stat, None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - pathlib is half of this process's start-up
            return float(stat.read().rpartition(")")[2].split()[19])
    except OSError:
        return None


def signal_groups(groups: "dict[int, float]", number: int) -> bool:
    """Signal the groups that are still there and still the job's; whether there was one."""
    found = False
    for pid, started in groups.items():
        if start_ticks(pid) in (None, started):
            try:
                os.killpg(pid, number)
                found = True
            except (ProcessLookupError, PermissionError):
                continue  # nobody left in it, or nobody of ours
    return found


def kill_marked(mark: bytes) -> bool:
    """Kill all processes with this variable in their environment; whether there was one."""
    found = False
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if not name.isdecimal():
            continue
        try:
            process = os.pidfd_open(int(name))
        except OSError:
            continue  # it ended between the listing and the look
        try:
            with open(f"/proc/{name}/environ", "rb") as environment:  # noqa: PTH123 - as above
                marked = mark in environment.read().split(b"\0")
            if marked:
                signal.pidfd_send_signal(process, signal.SIGKILL)
                found = True
        except OSError:
            continue  # it has ended, or belongs to somebody else
        finally:
            os.close(process)
    return found


def main() -> None:
    """Read groups until the pipe ends, then end those that are left."""
    supervisor = os.getppid()
    mark = f"FOOTPLATE_SUPERVISOR={supervisor}-{start_ticks(supervisor) or 0:.0f}".encode()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it goes with its supervisor, not before
    groups: dict[int, float] = {}
    for line in sys.stdin:
        if line == "end\n":
            groups.clear()
        elif line.endswith("\n"):
            pid, started = line.split()
            groups[int(pid)] = float(started)
    deadline = time.monotonic() + GRACE_SECONDS
    signal_groups(groups, signal.SIGTERM)
    while time.monotonic() < deadline and signal_groups(groups, 0):
        time.sleep(0.05)
    signal_groups(groups, signal.SIGKILL)
    deadline = time.monotonic() + SWEEP_SECONDS
    while kill_marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)


if __name__ == "__main__":
    main()
