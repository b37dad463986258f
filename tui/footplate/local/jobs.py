"""Jobs on this machine: listed, started, cancelled, deleted; their logs, metrics and outputs."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from footplate.local import clusters, layout, python, records
from footplate.local.data import DataAssets
from footplate.local.metrics import Metrics, NoMlflow
from footplate.local.reconcile import reconcile
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace import (
    Cluster,
    Conflict,
    Invalid,
    Job,
    JobFilter,
    LogChunk,
    LogFile,
    MetricPoint,
    NotFound,
    Output,
    Unexpected,
)

if TYPE_CHECKING:
    from footplate.jobfile import JobFile

_LOG_FOLDERS = ("user_logs", "logs", "system_logs")

_PAGE = f"""
WITH found AS NOT MATERIALIZED (SELECT *, rowid AS number FROM job WHERE {{where}} AND created < ?)
SELECT {records.JOB_COLUMNS} FROM found
WHERE created >= coalesce((SELECT created FROM found ORDER BY created DESC LIMIT 1 OFFSET ?), -1e300)
ORDER BY created DESC, number DESC
"""  # jobs of one and the same moment come on one page, so that the moment is key enough for the next


class Jobs:
    """Every method reads the store anew, after setting right the jobs whose supervisor is gone."""

    def __init__(self, store: Store, settings: Settings, data_assets: DataAssets) -> None:
        self._store = store
        self._settings = settings
        self._data_assets = data_assets
        self._metrics = Metrics(store.home, lambda: python.for_jobs(settings))

    def clusters(self) -> list[Cluster]:
        """The one cluster: this machine."""
        with self._read() as db:
            return clusters.state(db)

    def page(self, matching: JobFilter, before: float | None, size: int) -> tuple[list[Job], float | None]:
        """Jobs created before a moment (None: all), newest first, and the moment to go on from (None: that was all).

        About `size` rows are looked at, of which those that match are returned.
        """
        where, values = ["1"], []
        if not matching.archived:
            where.append("archived = 0")
        if matching.status:
            where.append(f"lower(status) IN ({', '.join('?' * len(matching.status))})")
            values += [status.lower() for status in matching.status]
        with self._read() as db:
            query = _PAGE.format(where=" AND ".join(where))
            rows = db.execute(query, (*values, 1e300 if before is None else before, size - 1)).fetchall()
        headlines = self._metrics.headlines([row["mlflow_run_id"] for row in rows if row["mlflow_run_id"]])
        jobs = [records.job(row, headlines.get(row["mlflow_run_id"])) for row in rows]
        return [job for job in jobs if matching.matches(job)], rows[-1]["created"] if len(rows) >= size else None

    def job(self, name: str) -> Job:
        """One job. Raises NotFound."""
        row = self._row(name)
        headlines = self._metrics.headlines([row["mlflow_run_id"]] if row["mlflow_run_id"] else [])
        return records.job(row, headlines.get(row["mlflow_run_id"]))

    def submit(self, job_file: JobFile, name: str | None = None) -> Job:
        """Start a job; see `submission.submit`."""
        from footplate.local import submission  # reads YAML, which lists need not wait for

        return self.job(submission.submit(self._store, self._settings, self._data_assets, job_file, name))

    def job_file(self, name: str) -> JobFile:
        """The file that a job was submitted with; see `submitted.read`. Raises NotFound."""
        from footplate.local import submitted  # reads YAML, which lists need not wait for

        self._row(name)
        return submitted.read(layout.job_folder(self._store.home, name))

    def cancel(self, name: str) -> Job:
        """Ask a job to end; its supervisor sees it within half a second. Raises NotFound, Conflict when it has ended otherwise."""
        row = self._row(name)
        with self._store.write() as db:
            changed = db.execute(
                "UPDATE job SET cancel_requested = 1, status = 'CancelRequested', note = '' WHERE name = ? AND ended IS NULL",
                (name,),
            ).rowcount
        row = self._row(name)
        if not changed and row["status"] != "Canceled":
            raise Conflict(f"Job {name!r} has ended already: {row['status']}.", "There is nothing left to cancel.")
        return records.job(row)

    def delete(self, name: str) -> None:
        """Remove an ended job, its files and its metrics. Raises NotFound, Conflict while it goes on."""
        row = self._row(name)
        if row["ended"] is None:
            raise Conflict(f"Job {name!r} has not ended: {row['status']}.", "Cancel it first.")
        folder = layout.job_folder(self._store.home, name)
        bin_folder = folder.parent / f".deleted-{secrets.token_hex(8)}"
        try:
            with self._store.write() as db:
                db.execute("DELETE FROM job WHERE name = ? AND ended IS NOT NULL", (name,))
                if folder.exists():
                    folder.rename(bin_folder)
            if bin_folder.exists():
                shutil.rmtree(bin_folder)
            if row["mlflow_run_id"]:
                self._metrics.delete(row["mlflow_run_id"])
        except OSError as error:
            raise Unexpected(
                f"The files of job {name!r} could not all be removed: {error}.", "", repr(error)
            ) from error
        except NoMlflow as error:
            raise Unexpected(
                f"The metrics of job {name!r} could not be removed: {error}.", "Install mlflow there."
            ) from error

    def log_files(self, name: str) -> list[LogFile]:
        """The job's log files: user logs by rank, what the script wrote to `logs/`, the supervisor's own. Raises NotFound."""
        self._row(name)
        folder = layout.job_folder(self._store.home, name)
        return [
            LogFile(
                path.relative_to(folder).as_posix(), status.st_size, datetime.fromtimestamp(status.st_mtime, UTC), path
            )
            for part in _LOG_FOLDERS
            for path, status in sorted(_files(folder / part), key=lambda found: _natural(str(found[0])))
        ]

    def read_log(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        """At most `limit` bytes of one of the job's log files. Raises NotFound, Invalid for a negative place."""
        self._row(name)
        folder = layout.job_folder(self._store.home, name).resolve()
        # realpath and not Path.resolve, which raises for links that lead in a circle
        file = folder if "\0" in path else Path(os.path.realpath(folder / path))
        if not any(file.is_relative_to(folder / part) for part in _LOG_FOLDERS) or not _is_file(_status(file)):
            known = ", ".join(log.path for log in self.log_files(name)) or "none yet"
            raise NotFound(f"Job {name!r} has no log file {path!r}.", f"It has: {known}.")
        if offset < 0 or limit < 0:
            raise Invalid(f"A log is read from byte 0 on, not {offset}, and not {limit} bytes of it.")
        try:
            with file.open("rb") as log:
                log.seek(offset)
                data = log.read(limit)
                return LogChunk(offset, data, os.fstat(log.fileno()).st_size)
        except OSError as error:
            raise Unexpected(
                f"{file} cannot be read: {error.strerror}.", "Mend its permissions.", repr(error)
            ) from error

    def metrics(self, name: str) -> Mapping[str, Sequence[MetricPoint]]:
        """All metrics by name. Raises NotFound, Unexpected when MLflow's store cannot be read."""
        run_id = self._row(name)["mlflow_run_id"]
        try:
            return self._metrics.read(run_id) if run_id else {}
        except NoMlflow as error:
            raise Unexpected(
                f"The metrics' store is of an unknown version, and {error}.",
                "Install mlflow there, or update footplate.",
            ) from error

    def outputs(self, name: str) -> list[Output]:
        """The run's `outputs` folder as `default`, then the named outputs of the job file. Raises NotFound."""
        kinds: dict[str, str] = json.loads(self._row(name)["outputs"])
        folder = layout.job_folder(self._store.home, name)
        places = {"default": folder / "outputs", **{output: folder / "named" / output for output in kinds}}
        found = []
        for output, place in places.items():
            sizes = [status.st_size for _, status in _files(place)]
            found.append(Output(output, kinds.get(output, "uri_folder"), len(sizes), sum(sizes)))
        return found

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        reconcile(self._store, self._metrics)
        with self._store.read() as db:
            yield db

    def _row(self, name: str) -> sqlite3.Row:
        with self._read() as db:
            row: sqlite3.Row | None = db.execute("SELECT * FROM job WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise NotFound(f"There is no job {name!r} on this machine.", "The list of jobs has the names.")
        return row


def _files(place: Path) -> list[tuple[Path, os.stat_result]]:
    """The files in a folder, however deep, or the file itself.

    Scripts may remove them while they are counted, and leave links and folders that lead nowhere: those are passed over.
    """
    top = _status(place)
    if _is_file(top):
        return [(place, top)]
    paths = (Path(folder, name) for folder, _, names in os.walk(place) for name in names)
    return [(path, status) for path in paths if _is_file(status := _status(path))]


def _status(path: Path) -> os.stat_result | None:
    """What a path leads to; None where that is nothing, or nothing that may be looked at."""
    try:
        return path.stat()
    except OSError:
        return None


def _is_file(status: os.stat_result | None) -> TypeGuard[os.stat_result]:
    return status is not None and stat.S_ISREG(status.st_mode)


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that puts process 2 before process 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]
