"""Starts the ranks of a job, each in a process group of its own, and ends them with all that they started."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from footplate.jobfile import Plan
from footplate.local import failure, groups, processes
from footplate.local.environment import MASTER_ADDRESS, Setting, rank_environment
from footplate.local.guard import Guard

_PORT_TAKEN = ("address already in use", "eaddrinuse")


@dataclass
class Rank:
    """One process of a job. `exit_code` is the shell's: 128 + N when signal N ended it."""

    number: int
    process: subprocess.Popen[bytes]
    group: groups.Group
    log: Path
    exit_code: int | None = None


class Launcher:
    """The ranks of one job, which run in the job's folder: a working folder a node, a log a rank."""

    def __init__(self, folder: Path, plan: Plan, setting: Setting, guard: Guard) -> None:
        self._folder = folder
        self._plan = plan
        self._setting = setting
        self._guard = guard
        self._mark = groups.mark(os.getpid(), processes.start_time(os.getpid()) or 0.0)
        self._own_children = groups.children()  # the watchdog: those that come after it are the job's
        self.port = 0
        self.ranks: list[Rank] = []

    def make_node_folders(self) -> None:
        """Copy the code once a node, for scripts write beside it, with `outputs` and `logs` leading to the job's own folders."""
        for node in range(self._plan.nodes):
            work = self._folder / f"node-{node}"
            shutil.copytree(self._folder / "code", work)
            for name in ("outputs", "logs"):
                link = work / name
                if link.is_dir():  # the code brought one along, whose files belong to the run then
                    shutil.copytree(link, self._folder / name, dirs_exist_ok=True)
                    shutil.rmtree(link)
                if not link.exists():
                    link.symlink_to(self._folder / name)

    def start(self) -> None:
        """Start all ranks, with a port for rank 0 that is free now. Raises OSError when a process cannot be started."""
        self.port = _free_port()
        self.ranks = []
        for number in range(self._plan.world_size):
            name = "std_log.txt" if self._plan.world_size == 1 else f"std_log_process_{number}.txt"
            self.ranks.append(self._start(number, self._folder / "user_logs" / name))

    def _start(self, number: int, log: Path) -> Rank:
        environment = rank_environment(self._setting, self._plan, number, self.port, self._folder / "bin")
        environment[groups.MARK] = self._mark
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["bash", "-c", self._plan.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder / f"node-{number // self._plan.ranks_per_node}",
                env=environment,
                process_group=0,
            )
        group = groups.Group.of(process.pid)
        self._guard.add(group)
        return Rank(number, process, group, log)

    def poll(self) -> list[Rank]:
        """The ranks that ended since the last call."""
        ended = []
        for rank in self.running:
            code = rank.process.poll()
            if code is not None:
                rank.exit_code = code if code >= 0 else 128 - code
                ended.append(rank)
        groups.reap(groups.children() - self._known_children())
        return ended

    def _known_children(self) -> set[int]:
        """Children that are waited for one by one: the watchdog and the ranks."""
        return self._own_children | {rank.process.pid for rank in self.ranks}

    @property
    def running(self) -> Sequence[Rank]:
        """Ranks whose own process has not ended; what they left behind is not looked at."""
        return [rank for rank in self.ranks if rank.exit_code is None]

    def end(self, grace_seconds: float) -> None:
        """End everything in the ranks' process groups and everything that left them, also behind a rank that has ended."""
        groups.end([rank.group for rank in self.ranks], grace_seconds)
        for rank in self.running:
            rank.process.wait()
        self.poll()
        groups.sweep(self._mark, self._known_children())
        self._guard.clear()

    def port_was_taken(self) -> bool:
        """Whether somebody took rank 0's port between our finding it free and its use."""
        if self._plan.world_size == 1:
            return False
        for rank in self.ranks:
            text = failure.tail(rank.log)
            if str(self.port) in text and any(words in text.lower() for words in _PORT_TAKEN):
                return True
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((MASTER_ADDRESS, 0))
        return int(probe.getsockname()[1])
