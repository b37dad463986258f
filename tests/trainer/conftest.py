"""One process with torch in it for all tests of the trainer, and a few birds to train on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trainer.starts import TRAINER, Ranks


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    pytest.importorskip("torch", reason="the extra local is not installed")
    pytest.importorskip("onnxruntime", reason="the extra local is not installed")
    started = Ranks(tmp_path_factory.mktemp("ranks"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seventeen birds to train on, seven to validate on: neither shares out evenly between two ranks."""
    folder = tmp_path_factory.mktemp("data") / "birds"
    command = [sys.executable, str(TRAINER / "birds.py"), str(folder), "--train=17", "--val=7", "--test=0"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return folder
