"""Metrics through MLflow, from rank 0, on a thread of their own: neither its import nor its store holds up an epoch."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

GIVE_UP_SECONDS = 60.0


@dataclass(frozen=True)
class Row:
    """The metrics of one epoch."""

    step: int
    time_ms: int
    values: Mapping[str, float]


class MetricsLog:
    """Sends rows to the run of MLFLOW_RUN_ID, or to a new run where only MLFLOW_TRACKING_URI is set.

    A fault in MLflow is said once and ends the sending, never the training.
    """

    def __init__(self, say: Callable[[str], None], arguments: Mapping[str, str | int | float]) -> None:
        self._say, self._arguments = say, arguments
        self._rows: queue.SimpleQueue[Row | Path | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            say("Metrics stay in this log: MLFLOW_TRACKING_URI is not set.")
            return
        self._thread = threading.Thread(target=self._send, name="mlflow", daemon=True)
        self._thread.start()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Hands one epoch's metrics over; returns at once."""
        self._rows.put(Row(step, int(time.time() * 1000), values))

    def log_folder(self, folder: Path) -> None:
        """Hands a folder of files over, to be kept with the run under the folder's name; returns at once."""
        self._rows.put(folder)

    def close(self) -> None:
        """Waits until everything handed over has been sent."""
        self._rows.put(None)
        if self._thread is None:
            return
        self._thread.join(GIVE_UP_SECONDS)
        if self._thread.is_alive():
            self._say(
                f"MLflow did not take the last metrics within {GIVE_UP_SECONDS:.0f} s; they are in this log only."
            )

    def _send(self) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # no reports to third parties from a training node
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
        try:
            from mlflow import MlflowClient
            from mlflow.entities import Metric, Param
        except ModuleNotFoundError as error:
            self._say(f"Metrics stay in this log: {error.name} is not installed (pip install mlflow).")
            return
        try:
            client = MlflowClient()
            given = os.environ.get("MLFLOW_RUN_ID")
            run_id = given or client.create_run(os.environ.get("MLFLOW_EXPERIMENT_ID", "0")).info.run_id
            client.log_batch(run_id, params=[Param(name, str(value)) for name, value in self._arguments.items()])
            while (row := self._rows.get()) is not None:
                if isinstance(row, Path):
                    client.log_artifacts(run_id, str(row), row.name)
                    continue
                batch = [Metric(name, value, row.time_ms, row.step) for name, value in row.values.items()]
                client.log_batch(run_id, metrics=batch)
            # A run that was given is ended by whoever made it: the exit code decides how.
            if not given:
                client.set_terminated(run_id)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in a store must not end a training
            self._say(f"Metrics are not logged any more, they stay in this log: {str(error).splitlines()[0]}")
