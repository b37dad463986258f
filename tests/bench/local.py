"""Jobs on this machine: what a job costs besides its command, and what a long list of them costs."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.bench.figures import Figure

from footplate.jobfile.document import parse
from footplate.local.store import Store, now
from footplate.workspace import ClusterSpec, Job, JobFilter, Workspace
from footplate.workspace.open import open_workspace

JOBS = 200
NODES = 4
STORED = 10_000
ROUNDS = 5
LIMIT_SECONDS = 600
COMMAND = "echo wren; sleep 1"
PYTHON = "import sqlite3, asyncio, json"


def children_cpu() -> float:
    """CPU seconds of all processes that this one has waited for, and of those that they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(command: list[str], runs: int) -> float:
    """Median CPU seconds of a process."""
    found = []
    for _ in range(runs):
        before = children_cpu()
        subprocess.run(command, check=True, capture_output=True)
        found.append(children_cpu() - before)
    return statistics.median(found)


async def every_job(workspace: Workspace) -> list[Job]:
    return [job async for page in workspace.jobs(JobFilter()) for job in page]


async def run_jobs(workspace: Workspace, count: int) -> list[Job]:
    """Submit jobs as fast as it goes, wait for their end, and give them in the order of submission. Raises where one is lost."""
    file = parse(f"command: {COMMAND}\nenvironment: azureml:any@latest\ncompute: bench\n", None, Path("/"))
    names = [f"job-{number:03}" for number in range(count)]
    for name in names:
        await workspace.submit(file, name)
    deadline = time.monotonic() + LIMIT_SECONDS
    while True:
        jobs = await every_job(workspace)
        if not any(job.active for job in jobs):
            break
        if time.monotonic() > deadline:
            raise RuntimeError("The jobs did not end in time.")
        await asyncio.sleep(1)
    found = {name: await workspace.job(name) for name in names}  # a list tells no stages
    for name in names:
        log = await workspace.read_log(name, "user_logs/std_log.txt", 0, 100)
        if found[name].status != "Completed" or log.data != b"wren\n":
            raise RuntimeError(f"{name} is {found[name].status}, its log {log.data!r}.")
    ordered = [found[name] for name in names]
    # A claim is what has an order; between it and the start of the ranks jobs of one moment may overtake each other.
    claims = [next(stage.started for stage in job.stages if stage.name == "Preparing") for job in ordered]
    if any(later < earlier for earlier, later in zip(claims, claims[NODES:], strict=False)):
        raise RuntimeError("A job got its node before one that came earlier.")
    return ordered


async def job_figures() -> list[Figure]:
    workspace = open_workspace("local")
    warm = parse("command: 'true'\nenvironment: azureml:any@latest\n", None, Path("/"))
    name = (await workspace.submit(warm)).name  # the first job of a home makes MLflow's store
    while (await workspace.job(name)).active:  # noqa: ASYNC110 - supervisors are processes of their own
        await asyncio.sleep(0.1)
    await workspace.create_cluster(ClusterSpec("bench", "cores-1", 0, NODES, 60))
    base = cpu_of([sys.executable, "-c", PYTHON], 10)
    command = cpu_of(["bash", "-c", COMMAND], 2)
    own, children, began = time.process_time(), children_cpu(), time.monotonic()
    await run_jobs(workspace, JOBS)
    wall = time.monotonic() - began
    await asyncio.sleep(2)  # the last supervisors end, and are waited for
    used = (children_cpu() - children) / JOBS - command
    base = statistics.median([base, cpu_of([sys.executable, "-c", PYTHON], 10)])
    await workspace.close()
    return [
        Figure(f"CPU a job besides its command, {JOBS} on {NODES} nodes", used * 1000, "ms", base * 1000, 5),
        Figure("CPU of submitting and watching them, a job", (time.process_time() - own) / JOBS * 1000, "ms"),
        Figure(f"{JOBS} one-second jobs", wall, "s", JOBS / NODES),
    ]


def fill(home: Path) -> None:
    """A store with many ended jobs, as a year leaves them."""
    store = Store(home)
    store.prepare()
    began = now()
    stages = json.dumps(
        [["Queued", began, began + 1], ["Preparing", began + 1, began + 2], ["Running", began + 2, began + 50]]
    )
    with store.write() as db:
        db.executemany(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, started, ended, inputs, tags,"
            " nodes, ranks_per_node, command, plan, stages)"
            " VALUES (?, ?, 'command', ?, 'birds', 'local', ?, ?, ?, ?, ?, 1, 2, 'python train.py', '{}', ?)",
            [
                (
                    f"birds-{i:05}", f"birds-{i:05}", "Failed" if i % 10 == 0 else "Completed",
                    began + i, began + i + 1, began + i + 50, json.dumps({"learning_rate": "0.001"}),
                    json.dumps({"owner": "me"}), stages,
                )
                for i in range(STORED)
            ],
        )  # fmt: skip


def seconds(act: Callable[[], int]) -> float:
    """CPU seconds of a reading of all stored jobs. Raises where it does not give all of them."""
    began = time.process_time()
    if (count := act()) != STORED:
        raise RuntimeError(f"{count} of {STORED} jobs were read.")
    return time.process_time() - began


def list_figures(home: Path) -> list[Figure]:
    fill(home)
    workspace = open_workspace("local")

    def ours() -> int:
        return len(asyncio.run(every_job(workspace)))

    def plain() -> int:
        with closing(sqlite3.connect(home / "footplate.db")) as db:
            return len(db.execute("SELECT * FROM job ORDER BY created DESC").fetchall())

    rounds = [(seconds(ours), seconds(plain)) for _ in range(ROUNDS + 1)][1:]  # the first warms the disk's cache
    listed, read = (statistics.median(times) * 1000 for times in zip(*rounds, strict=True))
    return [Figure(f"list of {STORED:,} stored jobs", listed, "ms", read, 3)]


def measure() -> list[Figure]:
    """The figures of jobs, then of lists, each in a home of its own."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "FOOTPLATE_CONFIG": str(Path(folder) / "none.toml"),
            "FOOTPLATE_LOCAL_PYTHON": sys.executable,
            "FOOTPLATE_HOME": str(Path(folder) / "list"),
        }
        figures += list_figures(Path(folder) / "list")
        os.environ["FOOTPLATE_HOME"] = str(Path(folder) / "jobs")
        figures += asyncio.run(job_figures())
    return figures
