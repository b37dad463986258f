"""What looking after any job takes: its record, its status and stages, a cancel, and a store that is out of order for a while."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from footplate.local import children, heartbeat, layout
from footplate.local.metrics import Metrics, NoMlflow, Run
from footplate.local.records import KEEP_NOTE, parameter_texts
from footplate.local.store import Store, now, storable
from footplate.workspace import Unexpected, WorkspaceError

_T = TypeVar("_T")

POLL_SECONDS = 0.5
"""How soon a cancel or a free node is noticed."""

STORE_BUSY_SECONDS = 1.0
"""How long one attempt at the store waits for its lock: the ranks are not watched meanwhile."""

STORE_PATIENCE_SECONDS = 600.0
"""How long the store may stay out of order while nothing else is left to do than to read or write it."""


class Canceled(Exception):
    """Somebody wants the job to end."""


@dataclass(frozen=True)
class End:
    """How a job ended."""

    status: str
    error: str | None = None


class Caretaker:
    """One job from its record to its end. A kind of job is a subclass, which says in `_work` what there is to do."""

    def __init__(self, home: Path, name: str, asked_to_end: Callable[[], bool], pause: Callable[[float], None]) -> None:
        self._store = Store(home, STORE_BUSY_SECONDS)
        self._unwritten: list[tuple[str, Sequence[Any]]] = []
        self._store_works = True
        self._name = name
        self._folder = layout.job_folder(home, name)
        self._asked_to_end = asked_to_end
        self._pause = pause
        self._run: Run | None = None
        self._row: sqlite3.Row
        self._stages: list[list[Any]] = []

    def run(self) -> int:
        """Do everything; 0 when the job's end was recorded, whatever it was."""
        row = self._patiently(self._read_row)
        if row is None:
            return 1
        self._row = row
        self._stages = json.loads(row["stages"])
        if row["host"]:
            heartbeat.beat(self._folder)
        self._metrics = Metrics(self._store.home, lambda: str(row["python"]))
        say(f"The job runs with {row['python']}; its supervisor is pid {os.getpid()}.")
        try:
            end = self._work()
        except (Canceled, children.Stopped):
            end = End("Canceled")
        except WorkspaceError as error:
            end = End("Failed", str(error))
        except OSError as error:
            say(traceback.format_exc())
            end = End("Failed", f"its files could not be written or read: {error}")
        except Exception as error:  # noqa: BLE001 - a fault of ours must still leave a record, not a job that seems to run
            say(traceback.format_exc())
            end = End("Failed", f"its supervisor failed ({error!r}); the traceback is in system_logs/supervisor.log")
        return 0 if self._record(end) else 1

    def _work(self) -> End:
        """What the kind of job takes. What it raises becomes the job's end."""
        raise NotImplementedError

    def _read_row(self) -> sqlite3.Row | None:
        """The job's record; None where it is not, or no longer, this process that looks after the job."""
        # Waits for the submitter's transaction, which holds the write lock until the record is whole.
        with self._store.write() as db:
            found: sqlite3.Row | None = db.execute("SELECT * FROM job WHERE name = ?", (self._name,)).fetchone()
            if found is None:
                shutil.rmtree(self._folder, ignore_errors=True)  # the submitter was killed before it was done
        return found if found and found["supervisor_pid"] == os.getpid() and found["ended"] is None else None

    def _record(self, end: End) -> bool:
        """Write the end down; False where the store stayed out of order for too long."""
        if self._run is not None:
            self._set_status("Finalizing")
            try:
                self._metrics.finish(self._run.run_id, end.status, parameter_texts(self._row["parameters"]))
            except (NoMlflow, WorkspaceError, OSError) as error:
                say(f"MLflow was not told of the end: {error}")
        self._write(
            (
                "UPDATE job SET status = ?, error = ?, ended = ? WHERE name = ?",
                (end.status, end.error, now(), self._name),
            ),
            (KEEP_NOTE, (self._name,)),
            self._stage(None),
            ("DELETE FROM slot WHERE job = ?", (self._name,)),
        )
        say(f"{end.status}: {end.error}" if end.error else end.status)
        try:
            self._patiently(self._write_all)
        except Unexpected as error:
            say(f"The end of the job was not recorded: {error}")
            return False
        return True

    def _set_status(self, status: str, note: str = "") -> None:
        """A cancel that was asked for keeps its own status until the end."""
        sql = "UPDATE job SET status = ?, note = ? WHERE name = ? AND cancel_requested = 0"
        self._write((sql, (status, note, self._name)), self._stage(status))

    def _stage(self, name: str | None) -> tuple[str, Sequence[Any]]:
        """The statement that writes the stages down, the last of which is now `name`; None: the last has ended."""
        if not self._stages or self._stages[-1][0] != name:
            if self._stages and self._stages[-1][2] is None:
                self._stages[-1][2] = now()
            if name is not None:
                self._stages.append([name, now(), None])
        return ("UPDATE job SET stages = ? WHERE name = ?", (json.dumps(self._stages), self._name))

    def _check_canceled(self) -> None:
        if self._asked_to_end():
            sql = "UPDATE job SET cancel_requested = 1, status = 'CancelRequested', note = '' WHERE name = ?"
            self._write((sql, (self._name,)))
            raise Canceled
        try:
            with self._store.read() as db:
                row = db.execute("SELECT cancel_requested FROM job WHERE name = ?", (self._name,)).fetchone()
        except Unexpected as error:
            self._note_store(error)
            return
        if row is not None and row[0]:
            raise Canceled

    def _write(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Write now, or, where the store is out of order, with the next write that succeeds: the ranks must not notice."""
        self._unwritten += [(sql, [storable(value) for value in values]) for sql, values in statements]
        self._flush()

    def _flush(self) -> None:
        try:
            self._write_all()
        except Unexpected as error:
            self._note_store(error)

    def _write_all(self) -> None:
        """Write what is still to be written, in one transaction. Raises Unexpected where the store is out of order."""
        if not self._unwritten:
            return
        with self._store.write() as db:
            for sql, values in self._unwritten:
                db.execute(sql, values)
        self._unwritten.clear()
        if not self._store_works:
            self._store_works = True
            say("The store works again; everything is written down.")

    def _note_store(self, error: Unexpected) -> None:
        """Say once that the store is out of order."""
        if self._store_works:
            self._store_works = False
            say(f"{error} The job goes on; its record follows when the store works again.")

    def _patiently(self, work: Callable[[], _T]) -> _T:
        """Do what needs the store, again and again until it works. Raises Unexpected when it has not for ten minutes."""
        give_up = time.monotonic() + STORE_PATIENCE_SECONDS
        while True:
            try:
                return work()
            except Unexpected as error:
                self._note_store(error)
                if time.monotonic() >= give_up:
                    raise
            time.sleep(POLL_SECONDS)


def say(line: str) -> None:
    """One line into the supervisor's log."""
    try:
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {line}", flush=True)
    except OSError:
        return  # a full disk has no room for the log, but the job must go on
