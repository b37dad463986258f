"""Metrics of jobs on this machine: MLflow's own SQLite store beside ours, written by scripts through MLflow, read here by SQL."""

from __future__ import annotations

import getpass
import json
import math
import os
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from footplate import mounts
from footplate.local import children
from footplate.local.metric_curves import Curves
from footplate.local.store import moment, now
from footplate.workspace import MetricPoint, Unexpected

KNOWN_REVISIONS = frozenset({"dc11669786a5"})
"""Schemas of MLflow's store whose tables this module knows (mlflow 3.17.2); any other is left to MLflow's own client."""

RUN_STATUS = {"Completed": "FINISHED", "Canceled": "KILLED"}
"""How a job's end is spelled in MLflow; every other end is FAILED."""

_CHILD = Path(__file__).with_name("mlflow_child.py")
_INFINITY = 1.7976931348623157e308  # MLflow's stand-in, since SQL columns take no infinity
_ODD = re.compile("[?%#]")
_LAST_MS = 253402300799000  # the end of the year 9999, past which no moment can be told
_PARAMETER_NAME, _PARAMETER_VALUE = 250, 6000
"""MLflow's own limits of a parameter's name and value."""
_HEADLINE_SECONDS = 1.0
_HEADLINE = """
SELECT run_uuid, "key", value,
       min(CASE "key" WHEN 'best_val_acc' THEN '0' WHEN 'val_acc' THEN '1' ELSE '2' || "key" END)
FROM latest_metrics WHERE is_nan = 0 AND typeof(value) = 'real' AND typeof("key") = 'text'
AND "key" NOT LIKE 'system/%' AND run_uuid IN ({marks}) GROUP BY run_uuid
"""
_LOGGED = """
SELECT run_uuid, value, is_nan FROM metrics
WHERE "key" = ? AND run_uuid IN ({marks}) AND typeof(value) = 'real' ORDER BY rowid
"""  # rows are only ever added, so this is the order in which the values were logged
_NAMES = """
SELECT run_uuid, "key" FROM latest_metrics
WHERE run_uuid IN ({marks}) AND typeof("key") = 'text' AND "key" NOT LIKE 'system/%' ORDER BY "key"
"""


class NoMlflow(Exception):
    """The Python that runs jobs has no MLflow: the job runs all the same, without metrics."""


@dataclass(frozen=True)
class Run:
    """A run that a script attaches to."""

    run_id: str
    experiment_id: str


@dataclass(frozen=True)
class Logged:
    """What a run has logged of one metric, in the order it logged it, and the names of all metrics that it has."""

    values: Sequence[float]
    names: Sequence[str]


class Metrics:
    """MLflow's store under one home: `mlflow.db`, with artifacts in `mlartifacts/`; `mlflow ui` opens it.

    `python` is the one that runs jobs, asked for when MLflow itself is needed: to create the store, and for everything
    where the store's schema is not one of `known`.
    """

    def __init__(self, home: Path, python: Callable[[], str], known: frozenset[str] = KNOWN_REVISIONS) -> None:
        self._home = home
        self._python = python
        self._known = known
        self._curves = Curves(_seconds, _finite)
        self.file = home / "mlflow.db"
        self.uri = _sqlite_url(self.file)

    def create_run(
        self, experiment: str, name: str, tags: Mapping[str, str], stop: Callable[[], bool] = children.never
    ) -> Run:
        """Make a run for a job, and before it the store and the experiment where they are missing.

        Raises NoMlflow, children.Stopped, and Unexpected when the store cannot be made or written.
        """
        self._create_store(stop)
        tags = {"mlflow.runName": name, "mlflow.user": _user(), "mlflow.source.type": "JOB", **tags}
        artifacts = _location(self._home / "mlartifacts" / uuid.uuid4().hex[:12])
        with self._connection() as db:
            if self._knows(db):
                return _insert_run(db, experiment, artifacts, name, tags)
        arguments = {"uri": self.uri, "experiment": experiment, "artifacts": artifacts, "name": name, "tags": tags}
        return Run(**self._mlflow("create_run", arguments, stop))

    def finish(self, run_id: str, job_status: str, parameters: Mapping[str, str] | None = None) -> None:
        """Write the end of a run as the job ended, whatever the script said, and a trial's values as its parameters.

        Only now: MLflow refuses a script that logs a parameter in another spelling than is there, and what it logged stays.
        Raises Unexpected, NoMlflow.
        """
        values = {key[:_PARAMETER_NAME]: value[:_PARAMETER_VALUE] for key, value in (parameters or {}).items()}
        status, ended_ms = RUN_STATUS.get(job_status, "FAILED"), int(now() * 1000)
        with self._connection() as db:
            if self._knows(db):
                db.execute("UPDATE runs SET status = ?, end_time = ? WHERE run_uuid = ?", (status, ended_ms, run_id))
                db.executemany(
                    'INSERT OR IGNORE INTO params ("key", value, run_uuid) VALUES (?, ?, ?)',
                    [(key, value, run_id) for key, value in values.items()],
                )
                return
        arguments = {"uri": self.uri, "run_id": run_id, "status": status, "ended_ms": ended_ms, "parameters": values}
        self._mlflow("finish_run", arguments)

    def delete(self, run_id: str) -> None:
        """Move a run to MLflow's bin, as `mlflow gc` expects it. Raises Unexpected, NoMlflow."""
        if not self.file.exists():
            return
        with self._connection() as db:
            if self._knows(db):
                db.execute(
                    "UPDATE runs SET lifecycle_stage = 'deleted', deleted_time = ? WHERE run_uuid = ?",
                    (int(now() * 1000), run_id),
                )
                return
        self._mlflow("delete_run", {"uri": self.uri, "run_id": run_id})

    def read(self, run_id: str) -> Mapping[str, Sequence[MetricPoint]]:
        """All metrics of a run by name, points in step order. Raises Unexpected, NoMlflow."""
        try:
            store = self.file.stat().st_ino
        except FileNotFoundError:
            return {}
        with self._connection() as db:
            if self._knows(db):
                return self._curves.read(db, store, run_id)
        histories = self._mlflow("read_metrics", {"uri": self.uri, "run_id": run_id})
        return {
            name: sorted((_point(*p) for p in history), key=lambda p: p.step) for name, history in histories.items()
        }

    def logged(self, run_ids: Sequence[str], metric: str) -> Mapping[str, Logged]:
        """What each run has logged of one metric. Raises Unexpected, NoMlflow."""
        if not run_ids or not self.file.exists():
            return {}
        with self._connection() as db:
            if self._knows(db):
                marks = ",".join("?" * len(run_ids))
                values: dict[str, list[float]] = {run_id: [] for run_id in run_ids}
                names: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
                for run_id, value, is_nan in db.execute(_LOGGED.format(marks=marks), (metric, *run_ids)):
                    values[run_id].append(math.nan if is_nan else _finite(value))
                for run_id, name in db.execute(_NAMES.format(marks=marks), tuple(run_ids)):
                    names[run_id].append(name)
                return {run_id: Logged(values[run_id], names[run_id]) for run_id in run_ids}
        found = {run_id: self.read(run_id) for run_id in run_ids}
        return {
            run_id: Logged(
                [point.value for point in sorted(points.get(metric, ()), key=lambda point: point.time)],
                sorted(name for name in points if not name.startswith("system/")),
            )
            for run_id, points in found.items()
        }

    def headlines(self, run_ids: Sequence[str]) -> Mapping[str, tuple[str, float]]:
        """For a list: the latest `best_val_acc` of each run, else `val_acc`, else its first metric; in one query.

        Nothing where the store is missing, of an unknown schema, locked for long, unreadable or damaged (scripts can write
        to it): jobs are listed all the same, and `read` says what is wrong.
        """
        if not run_ids or not self.file.exists():
            return {}
        try:
            with self._connection(_HEADLINE_SECONDS) as db:
                if not self._knows(db):
                    return {}
                rows = db.execute(_HEADLINE.format(marks=",".join("?" * len(run_ids))), tuple(run_ids))
                return {run_id: (key, _finite(value)) for run_id, key, value, _ in rows}
        except Unexpected:
            return {}

    def _create_store(self, stop: Callable[[], bool]) -> None:
        if self.file.exists():
            return
        try:
            with children.locked(self._home / ".mlflow.lock", stop) as lock:
                if self.file.exists():  # another job's supervisor made it while this one waited
                    return
                # Made beside its place, so that a helper that is killed leaves no half store behind.
                new = self._home / ".mlflow-new.db"
                for file in self._home.glob(".mlflow-new.db*"):
                    file.unlink()
                arguments = {"uri": _sqlite_url(new), "artifacts": _location(self._home / "mlartifacts")}
                self._mlflow("create_store", arguments, stop, lock)
                if not mounts.on_network(self._home):  # where a log's shared memory would not be shared
                    with closing(sqlite3.connect(new)) as db:
                        # Kept in the file: readers never wait for a script that logs.
                        db.execute("PRAGMA journal_mode = WAL")
                new.rename(self.file)
        except (OSError, sqlite3.Error) as error:
            raise Unexpected(f"MLflow's store {self.file} could not be made: {error}.", "Free space.") from error

    @contextmanager
    def _connection(self, busy_seconds: float = 30.0) -> Iterator[sqlite3.Connection]:
        place = f"{self.file.as_uri()}?mode=rw"  # not rwc: a store that has just gone is not made anew, without tables
        try:
            with closing(sqlite3.connect(place, timeout=busy_seconds, isolation_level=None, uri=True)) as db:
                yield db
        except sqlite3.Error as error:
            raise Unexpected(
                f"MLflow's store {self.file} cannot be used: {error}.",
                "Free space or mend its permissions; where it is damaged, move it away, and the next job makes a new one.",
                repr(error),
            ) from error

    def _knows(self, db: sqlite3.Connection) -> bool:
        version = db.execute("SELECT version_num FROM alembic_version").fetchone()
        return version is not None and version[0] in self._known

    def _mlflow(
        self,
        act: str,
        arguments: Mapping[str, Any],
        stop: Callable[[], bool] = children.never,
        lock: IO[str] | None = None,
    ) -> Any:
        command = [self._python(), "-c", _CHILD.read_text(encoding="utf-8"), act, json.dumps(arguments)]
        try:
            code, printed = children.run(command, folder=self._home, environment=dict(os.environ), stop=stop, lock=lock)
        except OSError as error:
            raise Unexpected(
                f"MLflow could not be started: {error}.", "Check `local.python` in the settings."
            ) from error
        if code == 3:
            raise NoMlflow(f"mlflow is not installed for {command[0]}")
        if code != 0:
            raise Unexpected(f"MLflow could not {act.replace('_', ' ')}: {children.last_line(printed)}.", "", printed)
        return json.loads(printed.splitlines()[-1])


def _insert_run(db: sqlite3.Connection, experiment: str, artifacts: str, name: str, tags: Mapping[str, str]) -> Run:
    """The rows that MLflow's own client writes for a new run (tables of `KNOWN_REVISIONS`)."""
    now_ms, run_id = int(now() * 1000), uuid.uuid4().hex
    db.execute("BEGIN IMMEDIATE")
    # A job in an experiment that lies in MLflow's bin takes it out again.
    db.execute(
        "INSERT INTO experiments (name, artifact_location, lifecycle_stage, creation_time, last_update_time) "
        "VALUES (?, ?, 'active', ?, ?) ON CONFLICT DO UPDATE SET lifecycle_stage = 'active'",
        (experiment, artifacts, now_ms, now_ms),
    )
    experiment_id, location = db.execute(
        "SELECT experiment_id, artifact_location FROM experiments WHERE name = ? AND workspace = 'default'",
        (experiment,),
    ).fetchone()
    db.execute(
        "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, start_time, "
        "source_version, lifecycle_stage, artifact_uri, experiment_id) "
        "VALUES (?, ?, 'UNKNOWN', '', '', ?, 'RUNNING', ?, '', 'active', ?, ?)",
        (run_id, name, tags["mlflow.user"], now_ms, f"{location}/{run_id}/artifacts", experiment_id),
    )
    db.executemany(
        'INSERT INTO tags ("key", value, run_uuid) VALUES (?, ?, ?)', [(k, v[:8000], run_id) for k, v in tags.items()]
    )
    db.execute("COMMIT")
    return Run(run_id, str(experiment_id))


def _sqlite_url(file: Path) -> str:
    """The file as the URL that MLflow takes.

    SQLAlchemy cuts a path at `?` and decodes `%41`, so one that has such things in it is encoded. The driver is named then,
    for MLflow would make folders of the encoded names for a plain `sqlite:///`.
    """
    if not _ODD.search(str(file)):
        return f"sqlite:///{file}"
    return f"sqlite+pysqlite:///{quote(str(file))}"


def _location(folder: Path) -> str:
    """A folder for artifacts as MLflow takes it, which decodes what looks encoded in a bare path too."""
    return folder.as_uri() if _ODD.search(str(folder)) else str(folder)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid {os.getuid()}"


def _point(step: int, timestamp_ms: int, value: float) -> MetricPoint:
    return MetricPoint(step, moment(_seconds(timestamp_ms)), _finite(value))


def _seconds(timestamp_ms: int) -> float:
    return min(max(timestamp_ms, 0), _LAST_MS) / 1000


def _finite(value: float) -> float:
    """MLflow's stand-in for infinity as infinity."""
    return math.copysign(math.inf, value) if abs(value) >= _INFINITY else value
