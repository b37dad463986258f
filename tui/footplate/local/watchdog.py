"""Ends a job's ranks when the job's supervisor dies: it holds the other end of a pipe from the supervisor.

Run as `python -I -S watchdog.py`, one a job, standing alone so that it is small. The supervisor writes a line `PID STARTED`
for every process group that it starts and `end` when none is left to guard; the pipe ends when the supervisor does,
however that comes.
"""

import os
import signal
import sys
import time

GRACE_SECONDS = 1.0


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
            except ProcessLookupError:
                continue
    return found


def main() -> None:
    """Read groups until the pipe ends, then end those that are left."""
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


if __name__ == "__main__":
    main()
