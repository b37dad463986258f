"""The process that oversees a sweep: it draws and starts trials, reads what they log, and stops those that a policy stops.

It runs nothing itself: trials are ordinary jobs, which go on when it is killed. What it decides goes to `user_logs/sweep.log`.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from footplate.jobfile.search_space import as_text
from footplate.local import layout, records, registering, submitted
from footplate.local.caretaker import Canceled, End
from footplate.local.metrics import Logged, NoMlflow
from footplate.local.parent import Parent
from footplate.local.store import Store, now
from footplate.local.sweep import draws
from footplate.local.sweep.best import Trial, best, metric_missing
from footplate.local.sweep.policies import best_of
from footplate.local.sweep.rules import RULES
from footplate.local.sweep.spec import Spec, trial_file
from footplate.local.sweep.story import Story
from footplate.local.sweep.submitting import trial_name
from footplate.workspace import Unexpected, WorkspaceError

_READ_SHARE = 10.0
"""Metrics are read again after this many times what reading took: where MLflow's own client has to do it, that is a second."""


class Overseer(Parent):
    """One sweep from its record to its end."""

    def _work(self) -> End:
        try:
            self._set_up()
        except Exception:
            super()._end_children()  # of a former process: nobody would look after them
            raise
        try:
            return super()._work()
        except Canceled:
            self._story.tell("Cancelled: its trials are ended with it.")
            raise

    def _set_up(self) -> None:
        work = records.mapping(self._row["work"])
        self._job_file = submitted.read(self._folder)
        self._spec = Spec.read(self._job_file, int(work.get("seed", 0)))
        self._story = Story(self._folder / "user_logs" / "sweep.log")
        self._logged: dict[str, Logged] = {}
        self._settled: set[str] = set()
        self._evaluated: dict[str, int] = {}
        self._read_again = 0.0
        self._winner = (self._row["best_child"], self._row["metric"])
        self._no_more = ""
        """Why no more trials start: for a grid that has ended nothing more is to be said."""
        self._may_start = True
        self._registered: list[str] = work.get("registered", [])
        ran = 0.0 if self._row["started"] is None else max(0.0, now() - self._row["started"])
        limit = self._row["timeout_s"]
        self._deadline = math.inf if limit is None else time.monotonic() + limit - ran
        self._begin()

    def _begin(self) -> None:
        if self._row["started"] is not None:
            self._story.tell("The process that oversaw the sweep is gone; another goes on in its place.")
            return
        spec, sampling = self._spec, self._spec.sampling
        how = "sobol" if sampling.sobol else sampling.algorithm
        seed = "" if sampling.algorithm == "grid" else f", seed {sampling.seed}"
        self._story.tell(f"{spec.total} trials at most, {spec.at_once} at once, {how} sampling{seed}.")
        self._story.tell(f"To {spec.goal}: {spec.metric}.")
        self._story.tell(f"Rule, best: {RULES['best']}")
        if spec.policy is not None:
            keys = ("interval", "compared", "best so far", "no number", spec.policy.kind)
            policy = self._job_file.mapping("early_termination").items()
            self._story.tell(f"Early termination: {', '.join(f'{key} {value}' for key, value in policy)}.")
            for key in keys:
                self._story.tell(f"Rule, {key}: {RULES[key]}")

    def _look(self, children: list[sqlite3.Row]) -> End | None:
        self._read_metrics(children)
        self._judge(children)
        if time.monotonic() >= self._deadline:
            self._story.tell(
                f"The time limit of {self._row['timeout_s']} s has come: the trials that run are cancelled."
            )
            return End("Canceled", f"it ran into its time limit of {self._row['timeout_s']} s (limits.timeout)")
        self._stop_early(children)
        started = self._start_more(children)
        self._set_note(self._missing(children) or self._progress(children, started))
        return None if started or self._goes_on(children) else self._ended(children)

    # Metrics

    def _read_metrics(self, children: Sequence[sqlite3.Row], force: bool = False) -> None:
        """Read what the trials logged since; a store that cannot be read stops no trial, and no sweep."""
        began = time.monotonic()
        wanted = {
            child["mlflow_run_id"]: child
            for child in children
            if child["mlflow_run_id"] and child["name"] not in self._settled
        }
        if not wanted or (began < self._read_again and not force):
            return
        try:
            found = self._metrics.logged(list(wanted), self._spec.metric)
        except (Unexpected, NoMlflow) as error:
            self._story.tell(f"The metrics cannot be read: {error}", once=True)
            return
        finally:
            took = time.monotonic() - began
            self._read_again = began + took + _READ_SHARE * took
        for run_id, logged in found.items():
            child = wanted[run_id]
            self._logged[child["name"]] = logged
            if child["ended"] is not None:
                self._settled.add(child["name"])

    def _values(self, child: sqlite3.Row) -> Sequence[float]:
        """What a trial logged of the primary metric; its best value where the rest cannot be read."""
        logged = self._logged.get(child["name"])
        if logged is not None:
            return logged.values
        return () if child["metric"] is None else (child["metric"],)

    def _judge(self, children: Sequence[sqlite3.Row]) -> None:
        """Write each trial's best value down, and which trial is the best."""
        spec = self._spec
        for child in children:
            value = best_of(spec.goal, self._values(child))
            if value is not None and value != child["metric"]:
                self._write(("UPDATE job SET metric = ? WHERE name = ?", (value, child["name"])))
        winner = best(spec.goal, [Trial(child["name"], child["status"], self._values(child)) for child in children])
        if (winner or (None, None)) == self._winner:
            return
        was, self._winner = self._winner, winner or (None, None)
        self._write(("UPDATE job SET best_child = ?, metric = ? WHERE name = ?", (*self._winner, self._name)))
        before = f" It was {was[0]} with {was[1]:.6g}." if was[0] else ""
        if winner is None:
            self._story.tell(f"There is no best trial any more.{before}")
        elif winner[0] != was[0]:
            self._story.tell(f"Best is {winner[0]}: {spec.metric} {winner[1]:.6g}.{before}")

    # Trials

    def _stop_early(self, children: Sequence[sqlite3.Row]) -> None:
        policy = self._spec.policy
        if policy is None:
            return
        values = {child["name"]: self._values(child) for child in children if child["status"] != "Failed"}
        for child in children:
            name = child["name"]
            if child["ended"] is not None or child["cancel_requested"] or name not in self._logged:
                continue
            if name not in self._evaluated:
                self._evaluated[name] = int(records.mapping(child["work"]).get("evaluated", 0))
            looked = [n for n in range(self._evaluated[name] + 1, len(values[name]) + 1) if policy.applies(n)]
            for count in looked:
                if reason := policy.verdict(self._spec.goal, name, count, values):
                    self._cancel([child], reason)
                    self._story.tell(f"{name} {reason}.")
                    break
            if looked:
                self._keep(name, "evaluated", looked[-1])
                self._evaluated[name] = looked[-1]

    def _start_more(self, children: Sequence[sqlite3.Row]) -> int:
        """Start as many trials as there may be; gives how many. Raises Unexpected where there is no room for one just now."""
        room = self._spec.at_once - sum(child["ended"] is None for child in children)
        first = 1 + max((int(child["name"].rpartition("_")[2]) for child in children), default=-1)
        started = 0
        for number in range(first, min(first + max(0, room), self._spec.total)):
            if not self._may_start or not self._start_trial(number, children):
                self._may_start = False
                break
            started += 1
        if first + started >= self._spec.total:
            self._may_start = False
        return started

    def _start_trial(self, number: int, children: Sequence[sqlite3.Row]) -> bool:
        spec, name = self._spec, trial_name(self._name, number)
        drawn = draws.draw(spec.sampling, spec.spaces, number, spec.goal, self._past(children))
        if drawn is None:
            self._story.tell(f"The grid has {number} points: all of them have been started.")
            return False
        texts = {space: as_text(value) for space, value in drawn.values.items()}
        plain = {
            space: value if isinstance(value, str | int | float) else texts[space]
            for space, value in drawn.values.items()
        }
        shown = f"{self._row['display_name']}, trial {number}"
        try:
            self._start_child(
                trial_file(self._job_file, plain, shown),
                name,
                display_name=shown,
                parameters=drawn.values,
                # Source: azure-ai-ml's note on SweepJob.
                variables={f"AZUREML_SWEEP_{space}": text for space, text in texts.items()},
                code=self._folder / "code",
                work={"point": dict(drawn.point)} if drawn.point else {},
            )
        except Unexpected as error:
            self._story.tell(f"{name} cannot be started now: {error}", once=True)
            raise
        except WorkspaceError as error:
            # Those that run already are worth their time all the same.
            self._no_more = f"{name} could not be started: {error}"
            self._story.tell(f"{self._no_more} No more trials are started.")
            return False
        self._story.tell(f"{name} started: {', '.join(f'{space} {text}' for space, text in texts.items())}.")
        return True

    def _past(self, children: Sequence[sqlite3.Row]) -> list[draws.Past]:
        if self._spec.sampling.algorithm != "bayesian":
            return []
        found = []
        for child in children:
            point = records.mapping(child["work"]).get("point")
            value = best_of(self._spec.goal, self._values(child))
            if point and value is not None and child["ended"] is not None and child["status"] != "Failed":
                found.append(draws.Past(point, value))
        return found

    # What is said of it, and its end

    def _missing(self, children: Sequence[sqlite3.Row]) -> str:
        """The warning where trials log other metrics than the primary one, or have completed without any."""
        if any(self._values(child) for child in children):
            return ""
        for child in children:
            logged = self._logged.get(child["name"])
            unread = logged is None and child["mlflow_run_id"]
            names = logged.names if logged else ()
            if names or (child["status"] == "Completed" and not unread):
                warning = metric_missing(self._spec.metric, child["name"], names)
                self._story.tell(f"{warning}.", once=True)
                return warning
        return ""

    def _progress(self, children: Sequence[sqlite3.Row], started: int) -> str:
        ended = sum(child["ended"] is not None for child in children)
        active = len(children) - ended + started
        name, value = self._winner
        tail = f"; best {name}: {self._spec.metric} {value:.6g}" if name else ""
        trouble = f"; {self._no_more}" if self._no_more else ""
        return f"{ended} of {self._spec.total} trials ended, {active} active{tail}{trouble}"

    def _goes_on(self, children: Sequence[sqlite3.Row]) -> bool:
        return self._may_start or any(child["ended"] is None for child in children)

    def _ended(self, children: Sequence[sqlite3.Row]) -> End:
        # The last values may be newer than what was read last, and they decide what is handed on.
        self._read_metrics(children, force=True)
        self._judge(children)
        if self._no_more:
            return End("Failed", self._no_more)
        if any(child["status"] == "Completed" for child in children):
            self._hand_on_outputs()
            return End("Completed")
        failed = [child for child in children if child["status"] == "Failed"]
        if not failed:
            return End("Canceled", "every trial was cancelled")
        first = failed[0]
        return End(
            "Failed", f"no trial completed, {len(failed)} of {len(children)} failed; {first['name']}: {first['error']}"
        )

    def _hand_on_outputs(self) -> None:
        """Let the sweep's outputs lead to those of its best trial, and register those that the file says are registered."""
        name = self._winner[0]
        if not name:
            return
        best_folder = layout.job_folder(self._store.home, name)
        for part in ("outputs", *(f"named/{output}" for output in json.loads(self._row["outputs"]))):
            try:
                _lead(self._folder / part, best_folder / part)
            except OSError as error:
                self._story.tell(f"{part} cannot be made a link to that of {name}: {error}.")
        wanted = json.loads(self._row["plan"]).get("register")
        if wanted and not self._registered:
            self._set_status("Finalizing", "registering the outputs")
            self._registered = registering.register(Store(self._store.home), name, wanted)
            self._keep(self._name, "registered", self._registered)
            for line in self._registered:
                self._story.tell(f"Of {name}: {line}.")

    def _end_children(self) -> None:
        """As of every parent; then the last values that they logged are judged, and what came out is kept as the note."""
        super()._end_children()
        children = self._patiently(self._children)
        self._read_metrics(children, force=True)
        self._judge(children)
        ends = Counter(child["status"] for child in children)
        counts = ", ".join(f"{count} {status}" for status, count in sorted(ends.items())) or "none"
        name, value = self._winner
        result = (
            f"best {name}: {self._spec.metric} {value:.6g}, its best value, not its last" if name else "no best trial"
        )
        note = "; ".join([self._missing(children) or f"{result}; trials: {counts}", *self._registered])
        self._keep(self._name, "notes", {status: note for status in ("Completed", "Failed", "Canceled")})
        self._story.tell(f"Ended: {note}.")


def _lead(place: Path, target: Path) -> None:
    """Make an output a link to another, relative, so that a home that is moved stays whole. Raises OSError."""
    if place.is_dir() and not place.is_symlink():
        place.rmdir()  # nobody writes into a sweep's own
    new = place.with_name(f".{place.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(os.path.relpath(target, place.parent))
    new.replace(place)
