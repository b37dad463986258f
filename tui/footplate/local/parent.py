"""What sweeps and pipelines share: a job that runs nothing itself, and looks after jobs that it starts, its children."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from footplate.jobfile import JobFile
from footplate.local import processes, records, submission
from footplate.local.caretaker import POLL_SECONDS, Caretaker, End
from footplate.local.data import DataAssets
from footplate.local.reconcile import reconcile
from footplate.local.store import Store, now
from footplate.workspace import Unexpected

STEADY_SECONDS = 60.0
"""A supervisor that has run for so long is no longer one that dies again and again; see `reconcile.MOST_RESTARTS`."""

_CHILD_COLUMNS = f"{records.JOB_COLUMNS}, step, work, cancel_requested, supervisor_pid, supervisor_started"


class Parent(Caretaker):
    """A kind of job is a subclass, which says in `_look` what comes next. It may be killed and started again at any moment.

    So all that it has to know stands in the store: its children by their names, and `work` of its own record and of theirs.
    """

    def _work(self) -> End:
        if self._row["started"] is None:
            self._write(("UPDATE job SET started = ? WHERE name = ?", (now(), self._name)))
        self._set_status("Running", self._row["note"])
        try:
            return self._look_until_the_end()
        finally:
            self._end_children()

    def _look(self, children: list[sqlite3.Row]) -> End | None:
        """Do what there is to do now; the end, once it has come. Called every half second and whenever a child ends."""
        raise NotImplementedError

    def _look_until_the_end(self) -> End:
        steady = time.monotonic() + STEADY_SECONDS
        while True:
            self._check_canceled()
            try:
                children = self._children()
                end = self._look(children)
            except Unexpected as error:
                self._note_store(error)
                end = None
            if end is not None:
                return end
            if time.monotonic() >= steady:
                steady = float("inf")
                self._keep(self._name, "restarts", 0)
            self._pause(POLL_SECONDS)
            self._flush()

    def _children(self) -> list[sqlite3.Row]:
        """The children in the order they came, those whose own supervisor is gone set right. Raises Unexpected."""
        reconcile(self._store, self._metrics)
        with self._store.read() as db:
            query = f"SELECT {_CHILD_COLUMNS} FROM job WHERE parent = ? ORDER BY rowid"
            return db.execute(query, (self._name,)).fetchall()

    def _start_child(
        self,
        job_file: JobFile,
        name: str,
        *,
        step: str | None = None,
        display_name: str = "",
        parameters: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        code: Path | None = None,
        work: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a job as a child; see `submission.Child`. It is there with its name, or not at all, also if this process is killed.

        `code` is a folder of this job's in which its code lies already. Raises what `submission.submit` raises: Conflict for a name
        that is taken.
        """
        child = submission.Child(
            parent=self._name,
            python=self._row["python"],
            step=step,
            display_name=display_name,
            parameters=parameters or {},
            variables=variables or {},
            code=code,
            work=work or {},
        )
        store = Store(self._store.home)  # one that waits for its lock: nothing is watched meanwhile that could not wait
        submission.submit(store, None, DataAssets(store), job_file, name, child)

    def _cancel(self, children: Iterable[sqlite3.Row], note: str = "") -> None:
        """Ask children to end; one that ends as Canceled then keeps the note."""
        for child in children:
            ask = "UPDATE job SET cancel_requested = 1, status = 'CancelRequested', note = ? WHERE name = ? AND ended IS NULL"
            writes = [(ask, (note, child["name"]))]
            if note:
                keep = "UPDATE job SET work = json_set(work, '$.notes', json_object('Canceled', ?)) WHERE name = ?"
                writes.append((keep, (note, child["name"])))
            self._write(*writes)
            processes.wake(child["supervisor_pid"], child["supervisor_started"])

    def _end_children(self) -> None:
        """Cancel the children that go on and wait for their end, however this job ends."""
        asked: set[str] = set()
        while True:
            try:
                going_on = [child for child in self._children() if child["ended"] is None]
            except Unexpected as error:
                self._note_store(error)
            else:
                if not going_on:
                    return
                self._cancel([child for child in going_on if child["name"] not in asked])
                asked |= {child["name"] for child in going_on}
            self._pause(POLL_SECONDS)
            self._flush()

    def _keep(self, job: str, key: str, value: Any) -> None:
        """Write one value into `work` of this job or a child."""
        sql = "UPDATE job SET work = json_set(work, ?, json(?)) WHERE name = ?"
        self._write((sql, (f"$.{key}", json.dumps(value), job)))

    def _set_note(self, note: str) -> None:
        """The one line that explains this job now, written where it is another than before."""
        if note != self._noted:
            self._noted = note
            self._write(("UPDATE job SET note = ? WHERE name = ? AND cancel_requested = 0", (note, self._name)))

    _noted = ""
