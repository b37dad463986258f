"""Where the contract is held: this machine with real processes, and a server that speaks Azure ML's wire format."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.at_work import all_jobs, ended
from tests.wire import JobPlan, WireServer, running_server

from footplate.jobfile import JobFile
from footplate.jobfile.document import parse
from footplate.workspace import Conflict, Job, JobFilter, NotFound, Workspace
from footplate.workspace.open import open_workspace

T = TypeVar("T")

ENVIRONMENT = "azureml:AzureML-acpt-pytorch-2.8-cuda12.6:3"
SECONDS = 60.0
LINES = ("first", "second", "third")
VALUES = (0.5, 0.75)
REASON = "no birds here"

_MODEL = """
import json, os
os.makedirs('outputs/model')
name = os.environ['AZUREML_RUN_ID']
open('outputs/model/model.json', 'w').write(json.dumps({'format': 1, 'job': name}))
open('outputs/model/model.onnx', 'wb').write(b'onnx' * 1000)
"""
"""Writes a model of two files."""
_TRAIN = (
    f"""
import mlflow
for line in {LINES!r}: print(line, flush=True)
for step, value in enumerate({VALUES!r}): mlflow.log_metric('val_acc', value, step=step)
"""
    + _MODEL
)
"""What a job does that trains: its lines, its metrics, a model of two files."""
_FAIL = f"print('first', flush=True); raise ValueError({REASON!r})"
_NAMED = "open('${{outputs.kept}}/w.bin', 'wb').write(b'w' * 100)"
"""Writes only to its named output `kept`."""
_SHORT = "print('first')"
_LONG = "import time\nprint('first', flush=True)\nwhile True: time.sleep(0.05)"


async def until(ask: Callable[[], Awaitable[T]], holds: Callable[[T], object], seconds: float = SECONDS) -> T:
    """Ask until the condition holds for the answer, and give that; fails at the deadline with the last answer."""
    end = time.monotonic() + seconds
    while not holds(found := await ask()):
        assert time.monotonic() < end, f"not within {seconds:.0f} s; last seen: {found}"
        await asyncio.sleep(0.02)
    return found


class Ground(ABC):
    """One workspace, and what a test needs to have its jobs do the same things wherever they run."""

    kind: str
    cluster: str
    """A cluster that is there, with room for several nodes."""
    size: str
    other_size: str
    """Sizes that a new cluster can have."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace, self.folder = workspace, folder

    def file(self, script: str, more: str = "") -> JobFile:
        """A job file that runs a Python script, where commands are really run."""
        quoted = script.strip().replace("'", '"')
        body = "".join(f"  {line}\n" for line in f"python -c '{quoted}'".splitlines())
        text = f"command: |\n{body}environment: {ENVIRONMENT}\n{more}"
        return parse(text, self.folder / "job.yml", self.folder)

    async def train(self, name: str, more: str = "") -> Job:
        """Run a job that logs LINES and VALUES and writes a model; gives it as it ended."""
        await self.submit(name, "train", more)
        return await ended(self.workspace, name)

    @abstractmethod
    async def submit(self, name: str, does: str, more: str = "") -> Job:
        """Start a job that does one of: train, model, fail, short, long (till it is ended), named (writes only to an output)."""

    @abstractmethod
    async def data(self, name: str) -> None:
        """See to a data asset of that name."""

    @abstractmethod
    async def scored(self, endpoint: str, deployment: str) -> int:
        """How many requests a deployment has had, mirrored ones too."""


_SCRIPTS = {"train": _TRAIN, "model": _MODEL, "fail": _FAIL, "short": _SHORT, "long": _LONG, "named": _NAMED}


class Local(Ground):
    """This machine: jobs are real processes."""

    kind = "local"
    cluster = "local"
    size, other_size = "cores-1", "cores-2"

    async def submit(self, name: str, does: str, more: str = "") -> Job:
        return await self.workspace.submit(self.file(_SCRIPTS[does], more), name)

    async def data(self, name: str) -> None:
        assert name == "birds"  # there from the start

    async def scored(self, endpoint: str, deployment: str) -> int:
        return (await self.workspace.deployment_log(endpoint, deployment, 100_000)).count("POST /score 200")


class Azure(Ground):
    """The wire server: jobs go on by plans, a hundred times as fast as they would."""

    kind = "azure"
    cluster = "cpu"
    size, other_size = "Standard_DS3_v2", "Standard_DS2_v2"

    def __init__(self, workspace: Workspace, folder: Path, wire: WireServer) -> None:
        super().__init__(workspace, folder)
        self.wire = wire

    async def submit(self, name: str, does: str, more: str = "") -> Job:
        def measure(epoch: int, epochs: int, skill: float) -> dict[str, float]:
            return {"val_acc": VALUES[epoch]} if does == "train" else {}

        lines = LINES if does == "train" else LINES[:1]
        seconds = 1e7 if does == "long" else float(len(lines))
        self.wire.plans[name] = JobPlan(
            running=seconds,
            lines_per_second=1.0 if does != "long" else 1e-6,
            line=lambda index: lines[index],
            epochs=len(VALUES),
            metrics=measure,
            ends="Failed" if does == "fail" else "Completed",
            error=f"User program failed with ValueError: {REASON}",
            writes_to="kept" if does == "named" else "",
        )
        return await self.workspace.submit(self.file(_SCRIPTS[does], more), name)

    async def data(self, name: str) -> None:
        self.wire.seed.data(name)

    async def scored(self, endpoint: str, deployment: str) -> int:
        return self.wire.scored[endpoint, deployment]


@contextmanager
def environment(folder: Path, variables: dict[str, str]) -> Iterator[None]:
    """Settings and home in a folder, and no other of footplate's variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FOOTPLATE_WORKSPACE", raising=False)
        patch.setenv("FOOTPLATE_HOME", str(folder / "home"))
        patch.setenv("FOOTPLATE_CONFIG", str(folder / "config.toml"))
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@asynccontextmanager
async def local(folder: Path, metrics_store: Path) -> AsyncIterator[Local]:
    """This machine's workspace in a new home; what goes on at the end is ended."""
    with environment(folder, {"FOOTPLATE_LOCAL_PYTHON": sys.executable}):
        (folder / "home").mkdir()
        shutil.copy(metrics_store, folder / "home" / "mlflow.db")
        workspace = open_workspace("local")
        try:
            yield Local(workspace, folder)
        finally:
            await _end_all(workspace)
            await workspace.close()


@asynccontextmanager
async def azure(folder: Path) -> AsyncIterator[Azure]:
    """A workspace on a wire server of its own."""
    with running_server(speed=100.0) as wire:
        (folder / "config.toml").write_text(f'workspace = "wire"\n\n{wire.settings("wire")}\n')
        wire.seed.cluster("cpu")
        with environment(folder, {"FOOTPLATE_WIRE_TOKEN": wire.token}), pytest.MonkeyPatch.context() as patch:
            workspace = open_workspace("wire")
            patch.setattr(type(workspace), "poll_seconds", 0.05)  # of two seconds, which the server's clock outruns
            try:
                yield Azure(workspace, folder, wire)
            finally:
                await workspace.close()


async def _end_all(workspace: Workspace) -> None:
    for endpoint in await workspace.endpoints():
        with suppress(NotFound):
            await workspace.delete_endpoint(endpoint.name)
    going_on = [job.name for job in await all_jobs(workspace, JobFilter(archived=True)) if job.active]
    for name in going_on:
        with suppress(Conflict):
            await workspace.cancel(name)
    for name in going_on:
        await ended(workspace, name)


def jsonable(document: Any) -> Any:
    """A document, which JSON must take as it is."""
    return json.loads(json.dumps(document, allow_nan=False))
