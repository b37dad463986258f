"""The Azure workspace on the local server: what lists cost beside the SDK's, and how soon the console shows jobs."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.start import fill, seconds_until

ROUNDS = 5
JOBS = 5_000
LIST = "import asyncio; from tests.bench.azure_lists import _ours; asyncio.run(_ours(1000))"


@contextmanager
def server(folder: Path) -> Iterator[Path]:
    """The server in a process of its own; gives the file with its addresses."""
    command = [sys.executable, "-m", "tests.wire", "--empty", "--jobs", str(JOBS), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            file = folder / "server.json"
            file.write_text(process.stdout.readline())
            yield file
        finally:
            process.terminate()


def cost(who: str, what: str, count: int, file: Path, home: Path) -> float:
    """What a list costs in a process of its own, with nothing in the local index."""
    shutil.rmtree(home, ignore_errors=True)
    command = [sys.executable, "-m", "tests.bench.azure_lists", who, what, str(count), str(file)]
    environment = {**_environment(), "FOOTPLATE_HOME": str(home)}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("FOOTPLATE_")}


def lists(file: Path, folder: Path) -> list[Figure]:
    """Rounds take turns, so that a busy moment of the machine meets both."""
    times: dict[tuple[str, str], list[float]] = {}
    for round_number in range(ROUNDS + 1):
        for what, count in (("cpu", 1000), ("lag", JOBS)):
            for who in ("footplate", "sdk"):
                taken = cost(who, what, count, file, folder / "home-lists")
                if round_number:  # the first round only warms the disk's cache
                    times.setdefault((who, what), []).append(taken)
    middle = {key: statistics.median(values) for key, values in times.items()}
    return [
        Figure("CPU to list 1,000 jobs, to MLClient's", middle["footplate", "cpu"], "ms", middle["sdk", "cpu"], 1 / 20),
        Figure(
            "p99 lag while 5,000 are listed, to MLClient's in a thread",
            middle["footplate", "lag"],
            "ms",
            middle["sdk", "lag"],
            1 / 3,
        ),
    ]


def _seen_once(file: Path, home: Path) -> tuple[dict[str, str], str, str]:
    """A home in which the newest jobs were listed before the newest of all came; its variables, and the two newest names."""
    given = json.loads(file.read_text())
    home.mkdir(parents=True)
    (home / "config.toml").write_text(f'workspace = "wire"\n{given["settings"]}')
    variables = {
        "FOOTPLATE_HOME": str(home),
        "FOOTPLATE_CONFIG": str(home / "config.toml"),
        "FOOTPLATE_WIRE_TOKEN": given["token"],
    }
    subprocess.run([sys.executable, "-c", LIST], check=True, env={**_environment(), **variables})
    (index,) = (home / "cache" / "azure").glob("*.sqlite")
    with closing(sqlite3.connect(index)) as db:
        fresh, kept = (name for (name,) in db.execute("SELECT name FROM job ORDER BY created DESC LIMIT 2"))
        db.execute("DELETE FROM job WHERE name = ?", (fresh,))
        db.commit()
    return variables, fresh, kept


def start(file: Path, folder: Path) -> list[Figure]:
    """First frame, the first row from the index, and the first row that only the server knows."""
    fill(folder / "home-local")
    local = {"FOOTPLATE_HOME": str(folder / "home-local"), "FOOTPLATE_CONFIG": str(folder / "none.toml")}
    variables, fresh, kept = _seen_once(file, folder / "home-seen")
    console = [sys.executable, "-m", "footplate"]
    times: dict[str, list[float]] = {}
    for round_number in range(ROUNDS + 1):
        shutil.rmtree(folder / "home-azure", ignore_errors=True)
        shutil.copytree(folder / "home-seen", folder / "home-azure")
        azure = {**variables, "FOOTPLATE_HOME": str(folder / "home-azure")}
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import azure.ai.ml"], check=True, capture_output=True)
        imported = time.perf_counter() - began
        taken = [
            *seconds_until(console, local, [b"footplate", b"birds-00003"]),
            *seconds_until(console, azure, [b"footplate", kept.encode(), fresh.encode()]),
            imported,
        ]
        if round_number:
            for name, value in zip(("local", "local rows", "first", "kept", "fresh", "import"), taken, strict=True):
                times.setdefault(name, []).append(value * 1000)
    middle = {name: statistics.median(values) for name, values in times.items()}
    return [
        Figure("first frame on Azure, to that on this machine", middle["first"], "ms", middle["local"], 1.1),
        Figure("first row, from the index, to that on this machine", middle["kept"], "ms", middle["local rows"], 1.1),
        Figure("first fresh row, to import azure.ai.ml alone", middle["fresh"], "ms", middle["import"], 1.0),
    ]


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server(folder) as file:
            return [*lists(file, folder), *start(file, folder)]
