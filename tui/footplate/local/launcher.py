"""Starts the ranks of a job, each in a process group of its own, and ends them with all that they started."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from footplate.jobfile import Plan
from footplate.local import failure, groups, mpi, processes
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
        self._under_mpirun = False
        self._own_children = groups.children()  # the watchdog: those that come after it are the job's
        self.ports: list[int] = []
        self.ranks: list[Rank] = []

    def make_node_folders(self) -> None:
        """Copy the code once a node, for scripts write beside it, with `outputs` and `logs` leading to the job's own folders."""
        for node in range(self._plan.nodes):
            work = self._folder / f"node-{node}"
            shutil.copytree(self._folder / "code", work)
            for name in ("outputs", "logs"):
                link = work / name
                if link.is_dir():  # the code brought one along, whose files belong to the run then
                    shutil.copytree(link, self._folder / name, copy_function=_copy_new, dirs_exist_ok=True)
                    shutil.rmtree(link)
                if not link.exists():
                    link.symlink_to(self._folder / name)

    def start(self) -> None:
        """Start all ranks, with ports that are free now for those that listen. Raises OSError when one cannot be started."""
        self.ports = _free_ports(self._plan.world_size if self._plan.distribution == "tensorflow" else 1)
        self.ranks = []
        first = self._environment(0)
        under_mpirun = mpi.command(self._plan, self._folder, first["PATH"], self._setting.devices)
        self._under_mpirun = bool(under_mpirun)
        if under_mpirun:
            mpi.forget_exits(self._folder)
            of_a_rank = {name for name in first if name.startswith("OMPI_COMM_WORLD_")}
            environment = {**mpi.VARIABLES, **{name: first[name] for name in first if name not in of_a_rank}}
            self.ranks.append(self._start(0, under_mpirun, environment, "std_log.txt"))
            return
        for number in range(self.world_size):
            name = "std_log.txt" if self.world_size == 1 else f"std_log_process_{number}.txt"
            self.ranks.append(self._start(number, ["bash", "-c", self._plan.command], self._environment(number), name))

    def _environment(self, number: int) -> dict[str, str]:
        variables = rank_environment(self._setting, self._plan, number, self.ports, self._folder / "bin")
        return {**variables, groups.MARK: self._mark}

    def _start(self, number: int, command: Sequence[str], environment: Mapping[str, str], log_name: str) -> Rank:
        log = self._folder / "user_logs" / log_name
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder / f"node-{self._plan.node(number)}",
                env=environment,
                process_group=0,
            )
        group = groups.Group.of(process.pid)
        self._guard.add(group)
        return Rank(number, process, group, log)

    @property
    def world_size(self) -> int:
        """Number of the job's ranks; under mpirun only that is a process of ours."""
        return self._plan.world_size

    def explain(self, first: Rank) -> str:
        """Why the job failed, of whose processes `first` was the first to."""
        ends = mpi.exits(self._folder) if self._under_mpirun else {}
        if failed := [rank for rank, code in ends.items() if code]:
            logs = {rank: self._folder / "user_logs" / f"std_log_process_{rank}.txt" for rank in ends}
            return failure.explain(logs, ends, failed[0], self._plan.nodes)
        own = {rank.number: rank.exit_code or 0 for rank in self.ranks}
        return failure.explain({rank.number: rank.log for rank in self.ranks}, own, first.number, self._plan.nodes)

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
        """Whether somebody took a port between our finding it free and its use."""
        if self._plan.world_size == 1:
            return False
        for rank in self.ranks:
            text = failure.tail(rank.log)
            named = any(str(port) in text for port in self.ports)
            if named and any(words in text.lower() for words in _PORT_TAKEN):
                return True
        return False


def _copy_new(here: str, there: str) -> str:
    """Copy a file that is not there: what a job that was preempted has written over it stays."""
    return there if os.path.lexists(there) else str(shutil.copy2(here, there))


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((MASTER_ADDRESS, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
