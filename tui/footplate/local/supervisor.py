"""The detached process that looks after one job: `python -m footplate.local.supervisor HOME JOB`.

It waits for nodes, prepares, runs the ranks and records their end. Nothing in it depends on the console that started it. What
it prints goes to the job's `system_logs/supervisor.log`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from footplate.jobfile import Plan
from footplate.local import children, clusters, failure, groups, layout
from footplate.local.data import DataAssets
from footplate.local.environment import Setting
from footplate.local.guard import Guard
from footplate.local.launcher import Launcher, Rank
from footplate.local.metrics import Metrics, NoMlflow, Run
from footplate.local.reconcile import reconcile
from footplate.local.store import Store, now
from footplate.workspace import Unexpected, WorkspaceError

_T = TypeVar("_T")

POLL_SECONDS = 0.5
"""How soon a cancel or a free node is noticed."""

LAST_WORDS_SECONDS = 3.0
"""How long the other ranks may go on after one has failed, to print their own errors."""

TERM_SECONDS = 5.0
"""Between SIGTERM and SIGKILL."""

PORT_RETRY_SECONDS = 60.0
"""A port that was taken shows at the rendezvous; whoever complains later complains about another one."""


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


class Supervisor:
    """One job from its record to its end."""

    def __init__(self, home: Path, name: str, asked_to_end: Callable[[], bool], pause: Callable[[float], None]) -> None:
        self._store = Store(home, STORE_BUSY_SECONDS)
        self._unwritten: list[tuple[str, Sequence[Any]]] = []
        self._store_works = True
        self._name = name
        self._folder = layout.job_folder(home, name)
        self._asked_to_end = asked_to_end
        self._pause = pause
        self._run: Run | None = None
        self._no_metrics = ""

    def run(self) -> int:
        """Do everything; 0 when the job's end was recorded, whatever it was."""
        row = self._patiently(self._read_row)
        if row is None:
            shutil.rmtree(self._folder, ignore_errors=True)  # the submitter was killed before it was done
            return 1
        self._row: sqlite3.Row = row
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

    def _read_row(self) -> sqlite3.Row | None:
        # Waits for the submitter's transaction, which holds the write lock until the record is whole.
        with self._store.write() as db:
            found: sqlite3.Row | None = db.execute(
                "SELECT * FROM job WHERE name = ? AND supervisor_pid = ?", (self._name, os.getpid())
            ).fetchone()
        return found

    def _work(self) -> End:
        self._wait_for_nodes()
        stored = json.loads(self._row["plan"])
        plan, inputs = Plan.from_document(stored["plan"]), stored["inputs"]
        with Guard() as guard:
            launcher = Launcher(self._folder, plan, self._prepare(inputs), guard)
            launcher.make_node_folders()
            try:
                return self._run_ranks(launcher)
            finally:
                launcher.end(TERM_SECONDS)

    def _wait_for_nodes(self) -> None:
        self._set_status("Queued")
        noted = ""
        while True:
            self._check_canceled()
            try:
                reconcile(self._store, self._metrics)  # those ahead may be dead
                with self._store.write() as db:
                    note = clusters.claim(db, self._name)
            except Unexpected as error:
                self._note_store(error)
                self._pause(POLL_SECONDS)
                continue
            if not note:
                return
            if note != noted:
                self._set_status("Queued", note)
                noted = note
            self._pause(POLL_SECONDS)

    def _prepare(self, inputs: dict[str, str]) -> Setting:
        """Have the data drawn and the run created, both at once."""
        data_assets = DataAssets(Store(self._store.home))
        assets = json.loads(self._row["assets"])
        missing = self._patiently(lambda: [asset for asset in assets if not data_assets.ready(asset)])
        names = ", ".join(asset.removeprefix("azureml:").partition(":")[0].partition("@")[0] for asset in missing)
        self._set_status("Preparing", f"drawing the {names}" if names else "")
        ended = threading.Event()
        with ThreadPoolExecutor(max_workers=2) as pool:
            creating: Future[Run] = pool.submit(self._create_run, ended.is_set)
            drawing: list[Future[Any]] = [pool.submit(data_assets.prepare, asset, ended.is_set) for asset in missing]
            try:
                while wait([*drawing, creating], POLL_SECONDS).not_done:
                    self._check_canceled()
            finally:
                ended.set()
        mlflow = self._mlflow_variables(creating)
        for future in drawing:
            future.result()
        outputs = {name: str(self._folder / "named" / name) for name in json.loads(self._row["outputs"])}
        return Setting(self._name, self._row["experiment"], self._row["python"], inputs, outputs, mlflow)

    def _create_run(self, stop: Callable[[], bool]) -> Run:
        tags = {"mlflow.source.name": self._name}
        self._run = self._metrics.create_run(self._row["experiment"], self._row["display_name"], tags, stop)
        return self._run

    def _mlflow_variables(self, creating: Future[Run]) -> dict[str, str]:
        """What a script needs to log to the job's run; nothing where there can be no metrics, and the reason in the log."""
        try:
            run = creating.result()
        except (NoMlflow, WorkspaceError) as error:
            self._no_metrics = f"no metrics: {error}"
            say(self._no_metrics)
            return {}
        self._write(("UPDATE job SET mlflow_run_id = ? WHERE name = ?", (run.run_id, self._name)))
        return {
            "MLFLOW_TRACKING_URI": self._metrics.uri,
            "MLFLOW_RUN_ID": run.run_id,
            "MLFLOW_EXPERIMENT_ID": run.experiment_id,
        }

    def _run_ranks(self, launcher: Launcher) -> End:
        for attempt in (1, 2):
            began = time.monotonic()
            launcher.start()
            self._record_start(launcher, first=attempt == 1)
            end = self._watch(launcher, began)
            if end.status != "Failed" or attempt == 2 or time.monotonic() - began > PORT_RETRY_SECONDS:
                break
            if not launcher.port_was_taken():
                break
            launcher.end(TERM_SECONDS)
            say(f"Port {launcher.port} was taken before rank 0 could use it; all ranks start once more.")
        return end

    def _watch(self, launcher: Launcher, began: float) -> End:
        first: Rank | None = None
        deadline = None if self._row["timeout_s"] is None else began + self._row["timeout_s"]
        last_words_end = 0.0
        while launcher.running:
            self._pause(POLL_SECONDS)
            self._flush()
            for rank in launcher.poll():
                self._record_exit(rank)
                if rank.exit_code != 0 and first is None:
                    first, last_words_end = rank, time.monotonic() + LAST_WORDS_SECONDS
            if first is not None and time.monotonic() >= last_words_end and launcher.running:
                self._end_ranks(launcher)
            self._check_canceled()
            if deadline is not None and time.monotonic() >= deadline and launcher.running and first is None:
                self._end_ranks(launcher)
                return End("Failed", f"it ran into its time limit of {self._row['timeout_s']} s (limits.timeout)")
        if first is None:
            return End("Completed")
        why = failure.describe(first.log, first.exit_code or 0)
        return End("Failed", f"rank {first.number}: {why}" if len(launcher.ranks) > 1 else why)

    def _end_ranks(self, launcher: Launcher) -> None:
        running = launcher.running
        launcher.end(TERM_SECONDS)
        for rank in running:
            self._record_exit(rank)

    def _record_start(self, launcher: Launcher, first: bool) -> None:
        insert = "INSERT OR REPLACE INTO rank (job, rank, pid, started) VALUES (?, ?, ?, ?)"
        writes: list[tuple[str, Sequence[Any]]] = [
            (insert, (self._name, rank.number, rank.group.pid, rank.group.started)) for rank in launcher.ranks
        ]
        if first:
            writes.append(("UPDATE job SET started = ? WHERE name = ?", (now(), self._name)))
        self._write(*writes)
        self._set_status("Running", self._no_metrics)
        say(f"{len(launcher.ranks)} ranks run, the port of rank 0 is {launcher.port}.")

    def _record_exit(self, rank: Rank) -> None:
        sql = "UPDATE rank SET exit_code = ? WHERE job = ? AND rank = ?"
        self._write((sql, (rank.exit_code, self._name, rank.number)))
        say(f"Rank {rank.number} ended with exit code {rank.exit_code}.")

    def _record(self, end: End) -> bool:
        """Write the end down; False where the store stayed out of order for too long."""
        if self._run is not None:
            self._set_status("Finalizing")
            try:
                self._metrics.finish(self._run.run_id, end.status)
            except (NoMlflow, WorkspaceError, OSError) as error:
                say(f"MLflow was not told of the end: {error}")
        self._write(
            (
                "UPDATE job SET status = ?, error = ?, note = '', ended = ? WHERE name = ?",
                (end.status, end.error, now(), self._name),
            ),
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
        self._write((sql, (status, note, self._name)))

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
        self._unwritten += statements
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


class Signals:
    """Signals as flags: SIGTERM, SIGINT and SIGUSR1 ask for the end, SIGHUP does nothing, SIGCHLD wakes a pause."""

    def __init__(self) -> None:
        self._asked = False
        self._woken, waking = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, self._ask)
        for number in (signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, self._only_wake)

    def asked_to_end(self) -> bool:
        """Whether a signal asked this process to end."""
        return self._asked

    def pause(self, seconds: float) -> None:
        """Wait, but not past the next signal."""
        if select.select([self._woken], [], [], seconds)[0]:
            os.read(self._woken, 4096)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

    def _only_wake(self, _number: int, _frame: FrameType | None) -> None:
        return


def main() -> int:
    """Look after the job named on the command line."""
    if groups.MARK in os.environ:
        # Submitted from inside a job, whose end this job outlives: the same process again, without that job's mark.
        clean = {name: value for name, value in os.environ.items() if name != groups.MARK}
        os.execve(sys.executable, sys.orig_argv, clean)
    signals = Signals()
    groups.adopt_orphans()
    home, name = Path(sys.argv[1]), sys.argv[2]
    os.chdir("/")  # keeps no folder in use
    return Supervisor(home, name, signals.asked_to_end, signals.pause).run()


if __name__ == "__main__":
    sys.exit(main())
