"""`footplate check` on a 1,000-line file, against a process that loads the same file with Azure's SDK."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import Figure

ROUNDS = 5
LINES = 1_000
LOAD = "import sys; from azure.ai.ml import load_job; load_job(sys.argv[1])"


def job(lines: int) -> str:
    """A command job of so many lines: a long command, inputs that it names, and environment variables."""
    names = [f"value_{number:03}" for number in range((lines - 7) // 3)]
    head = [
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json",
        "command: >-",
        "  python train.py",
    ]
    text = [*head, *(f"  --{name} ${{{{inputs.{name}}}}}" for name in names), "environment: azureml:torch:1", "inputs:"]
    text += [f"  {name}: {number}" for number, name in enumerate(names)]
    text += ["environment_variables:"]
    text += [f"  VARIABLE_{number:03}: text {number}" for number in range(lines - len(text))]
    return "\n".join(text) + "\n"


def seconds(command: Sequence[str]) -> float:
    """How long a process takes from start to end. Raises where it fails."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def measure() -> list[Figure]:
    """Medians of rounds that take turns, so that a busy moment meets both."""
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.yml"
        file.write_text(job(LINES), encoding="utf-8")
        for round_number in range(ROUNDS + 1):
            pair = (
                seconds([sys.executable, "-m", "footplate", "check", str(file)]),
                seconds([sys.executable, "-c", LOAD, str(file)]),
            )
            if round_number:  # the first round only warms the disk's cache
                ours.append(pair[0])
                theirs.append(pair[1])
    base = statistics.median(theirs) * 1000
    return [Figure("footplate check, 1,000 lines", statistics.median(ours) * 1000, "ms", base, 0.2)]
