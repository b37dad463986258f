"""Looks after a command job: it waits for nodes, prepares, runs the ranks and records their end."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from footplate.jobfile import Plan
from footplate.local import groups, nodes, processes
from footplate.local.caretaker import POLL_SECONDS, Caretaker, End, say
from footplate.local.environment import Setting
from footplate.local.guard import Guard
from footplate.local.launcher import Launcher, Rank
from footplate.local.preparation import Preparation
from footplate.local.reconcile import reconcile
from footplate.local.store import now
from footplate.local.usage import Sampler
from footplate.workspace.errors import Unexpected

LAST_WORDS_SECONDS = 3.0
"""How long the other ranks may go on after one has failed, to print their own errors."""

TERM_SECONDS = 5.0
"""Between SIGTERM and SIGKILL."""

LONGEST_POLL_SECONDS = 5.0
"""Between two looks of a job that waits far back in line: 200 waiting jobs must not take the cores of those that run."""

PORT_RETRY_SECONDS = 60.0
"""A port that was taken shows at the rendezvous; whoever complains later complains about another one."""


class Preempted(Exception):
    """A node of the job was taken away (a rehearsal): it goes back into line, and keeps its outputs only."""


class CommandJob(Caretaker):
    """A command job from its place in line to its end."""

    def __init__(self, home: Path, name: str, asked_to_end: Callable[[], bool], pause: Callable[[float], None]) -> None:
        super().__init__(home, name, asked_to_end, pause)
        groups.adopt_orphans()
        self._threads = 1
        self._devices: tuple[str, ...] = ()
        self._notes: list[str] = []
        """What is said of the job beside its status."""
        self._silent: tuple[int, ...] = ()
        """Ranks that are stopped, as by a SIGSTOP."""
        self._usage = Sampler(self._folder, say)

    def _work(self) -> End:
        stored = json.loads(self._row["plan"])
        plan = Plan.from_document(stored["plan"])
        self._load_all(stored)
        while True:
            self._wait_for_nodes(-(-plan.world_size // plan.nodes))
            try:
                end = self._run_on_nodes(plan, stored)
            except Preempted:
                self._give_back()
                continue
            if end.status == "Completed" and stored.get("register"):
                self._register(stored["register"])
            return end

    def _load_all(self, stored: Mapping[str, Any]) -> None:
        """Import what this job needs only later: an upgrade may take this version's modules away while it waits and runs."""
        needed = ["supervisors"]  # by `reconcile`
        needed += ["packages"] if stored.get("packages") else []
        needed += ["fetching", "data"] if stored.get("fetch") or json.loads(self._row["assets"]) else []
        needed += ["registering"] if stored.get("register") else []
        for module in needed:
            import_module(f"footplate.local.{module}")

    def _run_on_nodes(self, plan: Plan, stored: Mapping[str, Any]) -> End:
        with Guard() as guard:
            launcher = Launcher(self._folder, plan, self._prepare(stored), guard)
            launcher.make_node_folders()
            try:
                return self._run_ranks(launcher)
            finally:
                launcher.end(TERM_SECONDS)
                self._usage.close()

    def _wait_for_nodes(self, ranks_per_node: int) -> None:
        """Wait for the job's turn. Readers tell why it waits; whoever gives nodes back wakes the first in line."""
        self._set_status("Queued")
        compute = self._row["compute"]
        while True:
            self._check_canceled()
            seconds = POLL_SECONDS
            try:
                with self._store.read() as db:
                    line = nodes.Line.read(db, compute)
                if line.may_start(self._name):
                    with self._store.write() as db:
                        claimed = nodes.claim(db, self._name, compute)
                        if claimed:
                            self._threads = nodes.threads(db, self._row, ranks_per_node)
                            self._devices = nodes.devices(db, self._row)
                    if claimed:
                        self._wake_next()
                        return
                else:
                    seconds = self._see_to_those_ahead(line)
            except Unexpected as error:
                self._note_store(error)
            self._pause(seconds)

    def _see_to_those_ahead(self, line: nodes.Line) -> float:
        """Set right whoever died ahead in line; gives the seconds until the next look, more for those further back."""
        place = line.queue.index(self._name) if self._name in line.queue else 0
        if place:  # the first in line looks at all, the others only at the one before them
            with self._store.read() as db:
                ahead = db.execute(
                    "SELECT supervisor_pid, supervisor_started FROM job WHERE name = ?", (line.queue[place - 1],)
                ).fetchone()  # None where it was deleted meanwhile
        if not place or ahead is None or not processes.alive(*ahead):
            reconcile(self._store, self._metrics)
        return min(POLL_SECONDS * (place + 1), LONGEST_POLL_SECONDS)

    def _wake_next(self) -> None:
        """Have the next in line look now: by itself it would, but later."""
        try:
            with self._store.read() as db:
                found = nodes.next_in_line(db, self._row["compute"])
        except Unexpected as error:
            self._note_store(error)
        else:
            processes.wake(*found)

    def _record(self, end: End) -> bool:
        recorded = super()._record(end)
        self._wake_next()
        return recorded

    def _prepare(self, stored: Mapping[str, Any]) -> Setting:
        self._set_status("Preparing")
        preparation = Preparation(self._store, self._metrics, self._row, stored, self._run)
        told = ""

        def look() -> None:
            nonlocal told
            self._run = preparation.run
            self._check_canceled()
            if preparation.doing != told:
                told = preparation.doing
                self._set_status("Preparing", told)

        try:
            preparation.wait(POLL_SECONDS, look)
        finally:
            self._run = preparation.run
        if self._run is not None:
            self._write(("UPDATE job SET mlflow_run_id = ? WHERE name = ?", (self._run.run_id, self._name)))
        if preparation.no_metrics:
            say(preparation.no_metrics)
            self._note(preparation.no_metrics, keep=False)
        for note in preparation.notes:
            self._note(note)
        if preparation.lacking:
            self._note(f"its Python lacks {', '.join(preparation.lacking)}, which its conda file asks for")
        outputs = {name: str(self._folder / "named" / name) for name in json.loads(self._row["outputs"])}
        return Setting(
            self._name,
            self._row["experiment"],
            self._row["python"],
            stored["inputs"],
            outputs,
            preparation.mlflow_variables(),
            self._threads,
            self._devices,
        )

    def _run_ranks(self, launcher: Launcher) -> End:
        for attempt in (1, 2):
            began = time.monotonic()
            launcher.start()
            import_module("footplate.logs.failure")  # now, for the reason of `_load_all`, while the ranks start up
            self._record_start(launcher, first=attempt == 1)
            end = self._watch(launcher, began)
            if end.status != "Failed" or attempt == 2 or time.monotonic() - began > PORT_RETRY_SECONDS:
                break
            if not launcher.port_was_taken():
                break
            launcher.end(TERM_SECONDS)
            say(f"A port ({launcher.ports}) was taken before its rank could use it; all ranks start once more.")
        return end

    def _watch(self, launcher: Launcher, began: float) -> End:
        first: Rank | None = None
        deadline = None if self._row["timeout_s"] is None else began + self._row["timeout_s"]
        last_words_end = 0.0
        while launcher.running:
            self._pause(POLL_SECONDS)
            self._flush()
            self._usage.look(launcher.running)
            for rank in launcher.poll():
                self._record_exit(rank)
                if rank.exit_code != 0 and first is None:
                    first, last_words_end = rank, time.monotonic() + LAST_WORDS_SECONDS
                    self._check_preempted()
            if first is not None and time.monotonic() >= last_words_end and launcher.running:
                self._end_ranks(launcher)
            self._check_canceled()
            self._listen(launcher)
            if deadline is not None and time.monotonic() >= deadline and launcher.running and first is None:
                self._end_ranks(launcher)
                key = "timeout" if self._row["parameters"] == "{}" else "trial_timeout"  # as the sweep's file has it
                return End("Failed", f"it ran into its time limit of {self._row['timeout_s']} s (limits.{key})")
        if first is None:
            return End("Completed")
        return End("Failed", launcher.explain(first))

    def _listen(self, launcher: Launcher) -> None:
        """Say NotResponding, as Azure does of a run that sends no heartbeat, while a rank is stopped."""
        silent = tuple(rank.number for rank in launcher.running if processes.stopped(rank.process.pid))
        if silent == self._silent:
            return
        self._silent = silent
        if silent:
            named = ", ".join(str(number) for number in silent)
            note = f"no sign of life from rank {named}: its process is stopped (SIGSTOP); SIGCONT lets it go on"
            say(f"NotResponding: {note}")
            self._set_status("NotResponding", note)
        else:
            self._set_running()

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
        self._set_running()
        run = "1 rank runs" if launcher.world_size == 1 else f"{launcher.world_size} ranks run"
        say(f"{run}, the port of rank 0 is {launcher.ports[0]}.")

    def _set_running(self) -> None:
        self._set_status("Running", "; ".join(self._notes))

    def _record_exit(self, rank: Rank) -> None:
        sql = "UPDATE rank SET exit_code = ? WHERE job = ? AND rank = ?"
        self._write((sql, (rank.exit_code, self._name, rank.number)))
        say(f"Rank {rank.number} ended with exit code {rank.exit_code}.")

    def _check_preempted(self) -> None:
        """Raise Preempted where the rank that ended was killed to take its node away; see `rehearsals`."""

        def asked() -> bool:
            with self._store.read() as db:
                query = "SELECT json_extract(work, '$.preempt') FROM job WHERE name = ?"
                found: sqlite3.Row | None = db.execute(query, (self._name,)).fetchone()
            return bool(found and found[0])

        if self._patiently(asked):
            raise Preempted

    def _give_back(self) -> None:
        """Give the nodes back with all that lay on them, as Azure does to a job of low priority."""
        for place in (*self._folder.glob("node-*"), self._folder / "inputs"):
            shutil.rmtree(place, ignore_errors=True)
        for log in self._folder.glob("user_logs/*"):
            with suppress(OSError), log.open("a", encoding="utf-8") as file:  # a full disk must not end the job
                file.write("\n[footplate] a node was preempted here; the job runs again from its start\n")
        say("A node was preempted: its working folders are gone, the outputs stay. The job goes back into line.")
        self._write(
            (
                "UPDATE node SET state = 'preempted' WHERE EXISTS (SELECT 1 FROM slot WHERE job = ? AND "
                "slot.cluster = node.cluster AND slot.node = node.node)",
                (self._name,),
            ),
            ("DELETE FROM slot WHERE job = ?", (self._name,)),
            ("DELETE FROM rank WHERE job = ?", (self._name,)),
            (
                "UPDATE job SET started = NULL, work = json_remove(work, '$.preempt') WHERE name = ?",
                (self._name,),
            ),
        )
        self._patiently(self._write_all)
        self._silent = ()
        self._note("a node was preempted (a rehearsal), and it ran again from its start")

    def _register(self, wanted: Mapping[str, Any]) -> None:
        """Keep the outputs that the file registers; what became of them stays as the job's note."""
        from footplate.local import registering  # with models, which few jobs make

        self._set_status("Finalizing", "registering the outputs")
        for line in registering.register(self._store, self._name, wanted):
            say(line)
            self._note(line)

    def _note(self, note: str, keep: bool = True) -> None:
        """Add to what is said of the job while it runs, and, where it is kept, after its end."""
        if note in self._notes:
            return
        self._notes.append(note)
        if keep:
            kept = "; ".join(self._notes)
            notes = json.dumps({"notes": {"Completed": kept, "Failed": kept}})  # see records.KEEP_NOTE
            self._write(("UPDATE job SET work = json_patch(work, ?) WHERE name = ?", (notes, self._name)))
