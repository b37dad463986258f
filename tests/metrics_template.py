"""An empty metrics store for the homes of tests: MLflow takes seconds to make one, and a copy takes none."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from footplate.local.metrics import Metrics


def template() -> Path | None:
    """The store, made by the first test of this machine that wants it; None where MLflow is not installed."""
    try:
        name = f"mlflow-{version('mlflow')}.db"
    except PackageNotFoundError:
        return None
    folder = Path(tempfile.gettempdir()) / f"footplate-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    kept = folder / name
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=folder) as home:
                metrics = Metrics(Path(home), lambda: sys.executable)
                metrics.create_run("made for tests", "made for tests", {})
                new = folder / f"{name}.new"
                shutil.copy(metrics.file, new)
                new.replace(kept)
    return kept


def give(home: Path) -> None:
    """Put a store into a home that has none."""
    kept = template()
    if kept is not None and not (home / "mlflow.db").exists():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(kept, home / "mlflow.db")
