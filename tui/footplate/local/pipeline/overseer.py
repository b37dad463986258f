"""The process that looks after one pipeline: it starts each step once what the step needs is there."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from footplate.local.caretaker import End, say
from footplate.local.parent import Parent
from footplate.local.pipeline.steps import Step
from footplate.local.pipeline.submitting import place
from footplate.local.sweep import submitting as _  # noqa: F401 - a sweep step needs it, after an upgrade maybe: not another's
from footplate.workspace import Unexpected, WorkspaceError

_NAMED = 4


class Overseer(Parent):
    """One pipeline. Which steps ran and how they ended is read from its children each time, so that a new process goes on."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._no_room: dict[str, str] = {}
        """The steps that could start but for the disk, with what it said."""

    def _look(self, children: list[sqlite3.Row]) -> End | None:
        work = json.loads(self._row["work"])
        steps = [Step.from_document(found) for found in work["steps"]]
        known: dict[str, sqlite3.Row] = {child["step"]: child for child in children}
        refused = self._refused()
        self._link_outputs(work["outputs"], known)
        bad = _bad(steps, known, refused)
        stopped = bool(bad) and work["stop_at_failure"]
        last = set(work["last"])
        going_on = [child for child in children if child["ended"] is None]
        ordinary = [child for child in going_on if child["step"] not in last]
        if stopped and (asked := [child for child in ordinary if not child["cancel_requested"]]):
            self._cancel(asked, f"canceled because step {bad[0]} failed (continue_on_step_failure: false)")
        ready, waiting = ([], []) if stopped else _next([s for s in steps if s.name not in last], known, refused)
        if not ready and not waiting and not ordinary:
            # They run however the others ended, and wait for each other only.
            ends = [replace(s, after=tuple(one for one in s.after if one in last)) for s in steps if s.name in last]
            ready, waiting = _next(ends, known, refused)
        for step in ready:
            self._start_step(step)
        if ready or waiting or going_on:
            self._set_note(_progress(steps, known, ready, self._no_room))
            return None
        return self._end(steps, known, refused)

    def _start_step(self, step: Step) -> None:
        code = self._folder / "code" / step.job
        try:
            self._start_child(step.file, step.job, step=step.name, code=code if code.is_dir() else None)
            self._no_room.pop(step.name, None)
            say(f"Step {step.name} starts as job {step.job}.")
        except Unexpected as error:  # the disk or the store: tried again at the next look
            if step.name not in self._no_room:
                say(f"Step {step.name} cannot start now, and is tried again: {error}")
            self._no_room[step.name] = error.sentence
        except WorkspaceError as error:
            say(f"Step {step.name} cannot start: {error}")
            self._keep(self._name, "refused", {**self._refused(), step.name: str(error)})
            self._flush()

    def _refused(self) -> dict[str, str]:
        """The steps that could not be started, with the reason. Raises Unexpected."""
        with self._store.read() as db:
            found = db.execute("SELECT work FROM job WHERE name = ?", (self._name,)).fetchone()
        refused: dict[str, str] = json.loads(found[0]).get("refused", {})
        return refused

    def _link_outputs(self, outputs: Mapping[str, list[str]], known: Mapping[str, sqlite3.Row]) -> None:
        """Let the pipeline's own outputs lead to those of the steps that have completed."""
        for output, (step, source) in outputs.items():
            child = known.get(step)
            link = self._folder / "named" / output
            if child is None or child["status"] != "Completed" or link.is_symlink():
                continue
            if link.is_dir():
                link.rmdir()
            # Relative, so that a home that is moved stays whole.
            link.symlink_to(os.path.relpath(place(self._store.home, child["name"], source), link.parent))

    def _end(self, steps: list[Step], known: Mapping[str, sqlite3.Row], refused: Mapping[str, str]) -> End:
        bad = _bad(steps, known, refused)
        if not bad:
            return End("Completed")
        child = known.get(bad[0])
        why = refused.get(bad[0]) or (child["error"] if child is not None else "") or "it was canceled"
        left = [step.name for step in steps if step.name not in known and step.name not in refused]
        failed = [name for name in bad[1:] if not _canceled(known.get(name))]
        canceled = [name for name in bad[1:] if name not in failed]
        more = f"; {_listed(failed)} failed too" if failed else ""
        more += f"; {_listed(canceled)} canceled" if canceled else ""
        return End("Failed", f"step {bad[0]}: {why}{more}" + (f"; not run: {_listed(left)}" if left else ""))


def _bad(steps: Iterable[Step], known: Mapping[str, sqlite3.Row], refused: Mapping[str, str]) -> list[str]:
    """The steps that did not complete: those that failed first, then those that were canceled, which may be for their sake."""
    bad = [step.name for step in steps if step.name in refused or _failed(known.get(step.name))]
    return sorted(bad, key=lambda name: _canceled(known.get(name)))


def _next(
    steps: Iterable[Step], known: Mapping[str, sqlite3.Row], refused: Mapping[str, str]
) -> tuple[list[Step], list[Step]]:
    """The steps that can start now, and those that may later."""
    ready: list[Step] = []
    waiting: list[Step] = []
    lost = {name for name, child in known.items() if _failed(child)} | set(refused)
    left = [step for step in steps if step.name not in known and step.name not in refused]
    while True:  # what needs a lost step is lost itself
        more = {step.name for step in left if lost.intersection(step.after)} - lost
        if not more:
            break
        lost |= more
    for step in left:
        if step.name in lost:
            continue
        done = all(before in known and known[before]["status"] == "Completed" for before in step.after)
        (ready if done else waiting).append(step)
    return ready, waiting


def _failed(child: sqlite3.Row | None) -> bool:
    return child is not None and child["ended"] is not None and child["status"] != "Completed"


def _canceled(child: sqlite3.Row | None) -> bool:
    return child is not None and child["status"] == "Canceled"


def _progress(
    steps: list[Step], known: Mapping[str, Any], starting: list[Step], no_room: Mapping[str, str] | None = None
) -> str:
    no_room = no_room or {}
    done = sum(1 for child in known.values() if child["ended"] is not None)
    running = [name for name, child in known.items() if child["ended"] is None]
    running += [step.name for step in starting if step.name not in no_room]
    waits = "".join(f"; step {name} cannot start now, and is tried again: {why}" for name, why in no_room.items())
    return f"{done} of {len(steps)} steps have ended" + (f"; now: {_listed(running)}" if running else "") + waits


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
