"""Jobs on this machine: listed, started, cancelled, deleted; their logs, metrics and outputs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.local import files, heartbeat, layout, mpi, nodes, processes, python, records, unfinished
from footplate.local.data import DataAssets
from footplate.local.metrics import Metrics, NoMlflow
from footplate.local.reconcile import end, reconcile
from footplate.local.store import Store
from footplate.local.usage import Readings
from footplate.settings import Settings
from footplate.workspace import (
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
    Usage,
)

if TYPE_CHECKING:
    from footplate.jobfile import JobFile

_LOG_FOLDERS = ("user_logs", "logs", "outputs", "system_logs")
_FORCED = "ended by --force: the machine that ran it gave no sign of life"
_TEXT_OUTPUTS = frozenset({".log", ".txt", ".out", ".err", ".csv", ".tsv", ".jsonl"})
"""What of `./outputs` is listed among the logs; all of it can be read as one, but who wants to see weights there?"""

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
        self._readings = Readings()

    def page(self, matching: JobFilter, before: float | None, size: int) -> tuple[list[Job], float | None]:
        """Jobs created before a moment (None: all), newest first, and the moment to go on from (None: that was all).

        About `size` rows are looked at, of which those that match are returned.
        """
        where, values = ["parent IS NULL"], []
        if not matching.archived:
            where.append("archived = 0")
        if matching.status:
            where.append(f"lower(status) IN ({', '.join('?' * len(matching.status))})")
            values += [status.lower() for status in matching.status]
        with self._read() as db:
            query = _PAGE.format(where=" AND ".join(where))
            rows = db.execute(query, (*values, 1e300 if before is None else before, size - 1)).fetchall()
        jobs = self._read_jobs(rows, records.listed)
        if matching.words:  # SQL has seen to the rest
            jobs = [job for job in jobs if matching.matches(job)]
        return jobs, rows[-1]["created"] if len(rows) >= size else None

    def job(self, name: str) -> Job:
        """One job. Raises NotFound."""
        return self._read_jobs([self._row(name)], records.job)[0]

    def children(self, name: str) -> list[Job]:
        """The trials of a sweep, the steps of a pipeline, in the order they came. Raises NotFound."""
        self._row(name)
        with self._store.read() as db:
            query = f"SELECT {records.JOB_COLUMNS} FROM job WHERE parent = ? ORDER BY rowid"
            rows = db.execute(query, (name,)).fetchall()
        return self._read_jobs(rows, records.listed)

    def submit(self, job_file: JobFile, name: str | None = None) -> Job:
        """Start a job; see `submission.submit`."""
        from footplate.local import submission  # reads YAML, which lists need not wait for

        return self.job(submission.submit(self._store, self._settings, self._data_assets, job_file, name))

    def job_file(self, name: str) -> JobFile:
        """The file that a job was submitted with; see `submitted.read`. Raises NotFound."""
        from footplate.local import submitted  # reads YAML, which lists need not wait for

        self._row(name)
        return submitted.read(layout.job_folder(self._store.home, name))

    def cancel(self, name: str, *, force: bool = False) -> Job:
        """Ask a job to end; its supervisor is woken to see it. Raises NotFound, Conflict when it has ended otherwise.

        `force` ends the record of a job whose machine gives no sign of life; raises Conflict for another.
        """
        if force:
            return self._end_silent(name)
        row = self._row(name)
        with self._store.write() as db:
            changed = db.execute(
                "UPDATE job SET cancel_requested = 1, status = 'CancelRequested', note = '' WHERE name = ? AND ended IS NULL",
                (name,),
            ).rowcount
        row = self._row(name)
        if not changed and row["status"] != "Canceled":
            raise Conflict(f"Job {name!r} has ended already: {row['status']}.", "There is nothing left to cancel.")
        processes.wake(row["supervisor_pid"], row["supervisor_started"])
        return records.job(row)

    def _end_silent(self, name: str) -> Job:
        """End a job, and what runs below it, whose machine may never come back; where it does, the supervisor sees the end."""
        row = self._row(name)
        with self._store.write() as db:
            below = db.execute("SELECT name FROM job WHERE parent = ? AND ended IS NULL", (name,)).fetchall()
            names = [name, *(child["name"] for child in below)]
            silent = heartbeat.silent(db, self._store.home, names)
            if row["ended"] is None and name not in silent:
                raise Conflict(
                    f"Job {name!r} is not NotResponding: its supervisor is there, and ends it when it is asked.",
                    f"Cancel it without --force: footplate cancel {name}",
                )
            for one in names:
                if one in silent:
                    kept = "work = json_set(work, '$.notes', json_object('Canceled', ?))"
                    db.execute(f"UPDATE job SET cancel_requested = 1, {kept} WHERE name = ?", (_FORCED, one))
                    end(db, db.execute("SELECT * FROM job WHERE name = ?", (one,)).fetchone(), "")
        return self.job(name)

    def set_archived(self, name: str, archived: bool) -> Job:
        """Hide a job from the lists, or show it again. Raises NotFound."""
        self._row(name)
        with self._store.write() as db:
            db.execute("UPDATE job SET archived = ? WHERE name = ?", (archived, name))
        return self.job(name)

    def update(self, name: str, display_name: str | None, tags: Mapping[str, str | None]) -> Job:
        """Change the display name, set tags, remove those that are None. Raises NotFound."""
        self._row(name)
        with self._store.write() as db:
            if display_name is not None:
                db.execute("UPDATE job SET display_name = ? WHERE name = ?", (display_name, name))
            row = db.execute("SELECT tags FROM job WHERE name = ?", (name,)).fetchone()
            merged = {**records.mapping(row["tags"]), **tags} if row else {}
            kept = {key: value for key, value in merged.items() if value is not None}
            db.execute("UPDATE job SET tags = ? WHERE name = ?", (json.dumps(kept), name))
        return self.job(name)

    def delete(self, name: str) -> None:
        """Remove an ended job, its children, their files and metrics. Raises NotFound, Conflict while one goes on."""
        row = self._row(name)
        if row["ended"] is None:
            raise Conflict(f"Job {name!r} has not ended: {row['status']}.", "Cancel it first.")
        for child in self.children(name):
            self.delete(child.name)
        folder = layout.job_folder(self._store.home, name)
        bin_folder = unfinished.deleted(folder.parent)
        try:
            with files.put_back(bin_folder, folder), self._store.write() as db:
                gone = db.execute("DELETE FROM job WHERE name = ? AND ended IS NOT NULL", (name,)).rowcount
                if gone and folder.exists():  # else it may be that of a new job which has the name since
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
        """The job's logs: of ranks, what the script wrote to `./logs` and as text to `./outputs`, the supervisor's own.

        Raises NotFound.
        """
        self._row(name)
        folder = layout.job_folder(self._store.home, name)
        return [
            LogFile(
                path.relative_to(folder).as_posix(), status.st_size, datetime.fromtimestamp(status.st_mtime, UTC), path
            )
            for part in _LOG_FOLDERS
            for path, status in sorted(files.files(folder / part), key=lambda found: _natural(str(found[0])))
            if part != "outputs" or path.suffix.lower() in _TEXT_OUTPUTS
        ]

    def read_log(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        """At most `limit` bytes of one of the job's log files. Raises NotFound, Invalid for a negative place."""
        self._row(name)
        folder = layout.job_folder(self._store.home, name)
        # realpath and not Path.resolve, which raises for links that lead in a circle
        parts = [os.path.realpath(folder / part) for part in _LOG_FOLDERS]  # a sweep's outputs are its best trial's
        file = folder if "\0" in path else Path(os.path.realpath(folder / path))
        if not any(file.is_relative_to(part) for part in parts) or not files.is_file(files.status(file)):
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

    def rank_ends(self, name: str) -> Mapping[int, int]:
        """The exit codes of ranks that have ended; under mpirun as each rank left its own. Raises NotFound."""
        self._row(name)
        if ends := mpi.exits(layout.job_folder(self._store.home, name)):
            return ends
        with self._store.read() as db:
            query = "SELECT rank, exit_code FROM rank WHERE job = ? AND exit_code IS NOT NULL ORDER BY rank"
            return {row["rank"]: row["exit_code"] for row in db.execute(query, (name,))}

    def usage(self, name: str) -> Usage:
        """What was sampled beside the job's ranks. Raises NotFound."""
        self._row(name)
        return self._readings.read(layout.job_folder(self._store.home, name))

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
        row = self._row(name)
        kinds = records.mapping(row["outputs"])
        found = []
        for output, place in self._places(row).items():
            sizes = [status.st_size for _, status in files.files(place)]
            found.append(Output(output, kinds.get(output, "uri_folder"), len(sizes), sum(sizes)))
        return found

    def download(
        self, name: str, output: str, folder: Path, progress: Callable[[int, int | None], None] | None = None
    ) -> int:
        """Copy an output into a folder; see `model_files.hand_out`. Raises NotFound for the job and the output."""
        from footplate.local import model_files  # lists need not wait for it

        places = self._places(self._row(name))
        if output not in places:
            raise NotFound(f"Job {name!r} has no output {output!r}.", f"It has: {', '.join(places)}.")
        return model_files.hand_out(places[output], folder, progress)

    def _places(self, row: sqlite3.Row) -> dict[str, Path]:
        """Where each output of a job lies, the run's `outputs` folder first."""
        folder = layout.job_folder(self._store.home, row["name"])
        named = {output: folder / "named" / output for output in records.mapping(row["outputs"])}
        return {"default": folder / "outputs", **named}

    def _read_jobs(
        self, rows: Sequence[sqlite3.Row], read: Callable[[sqlite3.Row, tuple[str, float] | None], Job]
    ) -> list[Job]:
        """Rows as jobs, with the metric that a list shows, and why they wait where they do."""
        headlines = self._metrics.headlines([row["mlflow_run_id"] for row in rows if row["mlflow_run_id"]])
        reasons: dict[str, str] = {}
        lines = {row["compute"] for row in rows if row["status"] == "Queued" and not row["note"]}
        if lines:
            with self._store.read() as db:
                for compute in lines:
                    with suppress(NotFound):  # a cluster that is gone since, as the job is soon
                        reasons |= nodes.Line.read(db, compute).reasons()
        jobs = [read(row, headlines.get(row["mlflow_run_id"])) for row in rows]
        if going := [job.name for job in jobs if job.active]:
            with self._store.read() as db:
                silent = heartbeat.silent(db, self._store.home, going)
            if silent:
                jobs = [
                    replace(job, status="NotResponding", note=silent[job.name]) if job.name in silent else job
                    for job in jobs
                ]
            reasons = {name: reason for name, reason in reasons.items() if name not in silent}
        if not reasons:
            return jobs
        return [replace(job, note=reasons[job.name]) if job.name in reasons else job for job in jobs]

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


def _natural(text: str) -> list[tuple[int, str]]:
    """A key that puts process 2 before process 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]
