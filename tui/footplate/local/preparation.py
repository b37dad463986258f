"""What is done before a job's ranks start: its data fetched, its MLflow run created, its Python looked through, all at once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from footplate.local.metrics import Metrics, NoMlflow, Run
from footplate.local.store import Store
from footplate.workspace.errors import WorkspaceError

STOP_SECONDS = 2.0
"""How long the end of a job waits for its preparation to stop."""


class Task(threading.Thread):
    """Work beside the supervisor's own. One that hangs in the network does not hold up the end of the process."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Do the work; `check` tells of its failure."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - `check` raises it where it is waited for
            self._error = error

    def ended(self, seconds: float) -> bool:
        """Wait for its end so long; whether it came."""
        self.join(seconds)
        return not self.is_alive()

    def check(self) -> None:
        """Raise what the work raised."""
        if self._error is not None:
            raise self._error


@dataclass
class Preparation:
    """One job's preparation. `doing` tells how far it is, `run` and `no_metrics` what came of MLflow, `lacking` which packages
    the job's Python lacks of those that its conda file asks for, `notes` what is to be known of its data."""

    store: Store
    metrics: Metrics
    row: sqlite3.Row
    stored: Mapping[str, Any]
    """The job's column `plan`: besides the plan itself `fetch` and `packages`."""
    run: Run | None = None
    no_metrics: str = ""
    lacking: Sequence[str] = ()
    doing: str = ""
    notes: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def wait(self, poll_seconds: float, look: Callable[[], None]) -> None:
        """Do it all; `look` is called now and then, and ends it by raising.

        Raises what cannot be mended, as an input that cannot be had; a job goes on without metrics, and without packages.
        """
        creating = Task(self._create_run)
        tasks = [creating]
        if self.stored.get("fetch") or self.row["assets"] != "[]":
            tasks.append(Task(self._have_data))
        if self.stored.get("packages"):
            tasks.append(Task(self._look_for_packages))
        try:
            for task in tasks:
                while not task.ended(poll_seconds):
                    look()
        finally:
            self._stop.set()
            for task in tasks:
                task.ended(STOP_SECONDS)
        try:
            creating.check()
        except (NoMlflow, WorkspaceError) as error:
            self.no_metrics = f"no metrics: {error}"
        for task in tasks[1:]:
            task.check()

    def mlflow_variables(self) -> dict[str, str]:
        """What a script needs to log to the job's run; nothing where there can be no metrics."""
        if self.run is None:
            return {}
        return {
            "MLFLOW_TRACKING_URI": self.metrics.uri,
            "MLFLOW_RUN_ID": self.run.run_id,
            "MLFLOW_EXPERIMENT_ID": self.run.experiment_id,
        }

    def _create_run(self) -> None:
        if self.run is None:  # a job that was preempted goes on in its run
            tags = {"mlflow.source.name": self.row["name"]}
            if not self.metrics.file.exists():  # takes seconds, which a first job would seem to hang
                self.doing = "making the workspace's metrics store, once"
            self.run = self.metrics.create_run(
                self.row["experiment"], self.row["display_name"], tags, self._stop.is_set
            )

    def _have_data(self) -> None:
        """Draw the assets that are missing, then fetch what is to be copied or downloaded."""
        import json

        from footplate.local import fetching  # with the data assets: many jobs take no data
        from footplate.local.data import DataAssets

        data_assets = DataAssets(Store(self.store.home))
        for asset in json.loads(self.row["assets"]):
            if not data_assets.ready(asset):
                self.doing = f"drawing the {asset.removeprefix('azureml:').partition(':')[0].partition('@')[0]}"
                data_assets.prepare(asset, self._stop.is_set)
        for source, target in self.stored.get("fetch", {}).values():
            fetching.fetch(self.store.home, source, Path(target), self._stop.is_set, self._tell, self.notes.append)

    def _look_for_packages(self) -> None:
        from footplate.local import packages  # few jobs declare any

        self.lacking = packages.missing(self.row["python"], self.stored["packages"], self._stop.is_set)

    def _tell(self, line: str) -> None:
        self.doing = line
