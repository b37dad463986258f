"""Ranks of the training script for tests: started, watched, killed and waited for."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

TRAINER = Path(__file__).resolve().parents[2] / "trainer"
DEADLINE_SECONDS = 180.0
TINY = ("--image_size=32", "--architecture=squeezenet1_1", "--precision=fp32", "--batch_size=3", "--num_epochs=2")
"""A network without batch normalisation on pictures of 32 pixels: what a second can train."""

TRAIN = "import sys, train; sys.exit(train.main())"
ELASTIC = """
import json, os, sys, train
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
def rank():
    if code := train.main():
        sys.stdout.flush()
        os._exit(code)
elastic_launch(LaunchConfig(
    min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="wren", rdzv_backend="c10d", rdzv_endpoint="localhost:0",
    max_restarts=int(os.environ["RESTARTS"]), monitor_interval=0.05, start_method="fork",
), rank)()
"""
"""torchrun's own agent, in the process that has torch already: it forks its ranks, and starts them anew when one dies."""

_OF_RANKS = re.compile(
    r"MLFLOW_|OMPI_|AZ_BATCH|AZUREML_|TORCHELASTIC_"
    r"|(RANK|WORLD_SIZE|LOCAL_RANK|NODE_RANK|GROUP_RANK|MASTER_ADDR|MASTER_PORT)$"
)


def environment() -> dict[str, str]:
    """This process's variables without those that make a rank; one thread, as the machine has other things to do."""
    kept = {name: value for name, value in os.environ.items() if not _OF_RANKS.match(name)}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Started:
    """A process that may still run."""

    ranks: Ranks
    pid: int
    files: tuple[Path, Path]

    @property
    def out(self) -> str:
        return self.files[0].read_text() if self.files[0].exists() else ""

    def until(self, pattern: str, times: int = 1) -> list[re.Match[str]]:
        """Wait until its output has the pattern so many times; fail when it ends before."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(found := list(re.finditer(pattern, self.out))) < times:
            assert self.ranks.ask({"pid": self.pid}) is None, (self.out, self.files[1].read_text())
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.out}"
            time.sleep(0.01)
        return found

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> Ended:
        """Wait for its end; killed at the deadline."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (code := self.ranks.ask({"pid": self.pid})) is None:
            if time.monotonic() > deadline:
                self.send(signal.SIGKILL)
            time.sleep(0.01)
        return Ended(code, *(file.read_text() for file in self.files))


class Ranks:
    """Starts processes that have torch from their first moment on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._numbers = folder, count()
        self._zygote = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            cwd=TRAINER,
            env={**environment(), "XDG_CACHE_HOME": str(folder / "cache")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: dict[str, object]) -> int | None:
        assert self._zygote.stdin
        assert self._zygote.stdout
        self._zygote.stdin.write(json.dumps(request) + "\n")
        self._zygote.stdin.flush()
        answer: int | None = json.loads(self._zygote.stdout.readline())
        return answer

    def start(self, *arguments: object, script: str = TRAIN, **variables: str) -> Started:
        files = tuple(self.folder / f"{next(self._numbers)}.{name}" for name in ("out", "err"))
        request = {
            "script": script,
            "arguments": [str(argument) for argument in arguments],
            "variables": variables,
            "out": str(files[0]),
            "err": str(files[1]),
        }
        pid = self.ask(request)
        assert pid
        return Started(self, pid, (files[0], files[1]))

    def alone(self, *arguments: object, **variables: str) -> Ended:
        """One process, to its end."""
        return self.start(*arguments, **variables).end()

    def run(self, script: str) -> Ended:
        """A script among the trainer's modules, to its end."""
        return self.start(script=script).end()

    def start_together(self, *arguments: object, places: Iterator[Mapping[str, str]] | None = None) -> list[Started]:
        return [self.start(*arguments, **place) for place in places or azure_places(2)]

    def together(self, *arguments: object, places: Iterator[Mapping[str, str]] | None = None) -> list[Ended]:
        """Ranks with Azure's variables, or others, to their end."""
        return [each.end() for each in self.start_together(*arguments, places=places)]

    def close(self) -> None:
        assert self._zygote.stdin
        assert self._zygote.stdout
        self._zygote.stdin.close()
        self._zygote.wait(DEADLINE_SECONDS)
        self._zygote.stdout.close()


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def azure_places(world_size: int, a_node: int = 8) -> Iterator[dict[str, str]]:
    """The variables that Azure gives each process of a job of type pytorch."""
    common = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for rank in range(world_size):
        yield {**common, "RANK": str(rank), "LOCAL_RANK": str(rank % a_node), "NODE_RANK": str(rank // a_node)}


def mpi_places(world_size: int) -> Iterator[dict[str, str]]:
    """The variables that Open MPI and Azure give each process of a job of type mpi."""
    master = f"127.0.0.1:{free_port()}"
    for rank in range(world_size):
        yield {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(world_size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(world_size),
            "AZ_BATCH_MASTER_NODE": master,
        }
