"""The marked lines of the log that is shown: read and kept in threads, gone to in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from footplate import paths
from footplate.logs.lines import Place
from footplate.logs.marks import Marks
from footplate.logs.where import number_of
from footplate.widgets.log_view import LogView
from footplate.workspace.errors import Invalid


class Marking:
    """The marks of one view. `changed` is called when there are others, `failed` with why one could not be kept or read."""

    def __init__(self, view: LogView, changed: Callable[[], object], failed: Callable[[str], object]) -> None:
        self.places: frozenset[Place] = frozenset()
        self._view, self._changed, self._failed = view, changed, failed
        self._kept: Marks | None = None

    def open(self, of: str) -> None:
        """Show the marks that are kept for something, as a job; an empty name keeps none, and there are none yet."""
        self._kept = None
        self._show(None, frozenset())
        if of:
            try:
                self._kept = Marks(paths.state() / "marks", of)
            except Invalid as error:
                self._failed(f"Marks cannot be kept: {error}")
            else:
                self._in_thread(self._kept, self._kept.load)

    def toggle(self) -> None:
        """Mark the line that is meant, or no more."""
        view = self._view
        if view.lines is None or not view.total_lines:
            return
        place = view.lines.place(view.here)
        if self._kept is None:
            self._show(None, self.places ^ {place})
        else:
            self._in_thread(self._kept, partial(self._kept.toggle, place))

    def following(self) -> int | None:
        """The number of the next marked line, round the end; None where none is marked."""
        lines, here = self._view.lines, self._view.here
        numbers = [number_of(lines, place) for place in self.places] if lines is not None else []
        there = sorted(number for number in numbers if number is not None)
        return next((number for number in there if number > here), there[0] if there else None)

    def _in_thread(self, kept: Marks, act: Callable[[], frozenset[Place]]) -> None:
        def run() -> None:
            with contextlib.suppress(RuntimeError):  # the console has ended meanwhile
                try:
                    places = act()
                except OSError as error:
                    why = f"The marks of this log cannot be kept or read: {error.strerror or error}."
                    self._view.app.call_from_thread(self._failed, why)
                else:
                    self._view.app.call_from_thread(self._show, kept, places)

        self._view.run_worker(run, thread=True, group="log-marks")

    def _show(self, kept: Marks | None, places: frozenset[Place]) -> None:
        if kept is self._kept:
            self.places = places
            self._view.set_marks(places)
            self._changed()
