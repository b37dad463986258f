"""The thread that takes in what a log has grown by, and tells the screen at a pace that the screen can draw."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic

from footplate.logs.lines import Lines

_STILL = 0.5
"""Seconds between two looks at a log that has not grown for a while."""
_OPENING = 0.5
"""Seconds between two repaints while a log is opened: it is the end that is waited for."""
_SOON = 50
"""Looks without anything new after which a log counts as still."""


def update_interval() -> float:
    """Return the least time in seconds between two repaints: ten a second, four where each crosses a network."""
    return 0.25 if os.environ.get("SSH_CONNECTION") else 0.1


class Reader:
    """Reads lines until it is stopped. `tell(reader)` is called in its thread; the next time only after `seen()`.

    `fault` is why they cannot be read, `restarts` how often they turned out to be others, as of the last telling; `checked` is
    when it was last looked (`monotonic`). It begins when the reader `after` which it comes is done: the two may have lines in
    common, and those are read by one at a time.
    """

    def __init__(self, lines: Lines, tell: Callable[[Reader], bool], after: Reader | None = None) -> None:
        self.lines = lines
        self.fault = ""
        self.checked: float | None = None
        self.lines_at_first: int | None = None
        """Lines that were there before; None as long as they are being read."""
        self._tell, self._after = tell, after
        self._stop, self._seen = threading.Event(), threading.Event()
        self._seen.set()
        self._thread = threading.Thread(target=self._run, name="footplate-log-read", daemon=True)
        self._thread.start()

    def seen(self) -> None:
        """The screen has drawn what it was told last."""
        self._seen.set()

    def stop(self) -> None:
        """Let go of the lines."""
        self._stop.set()
        self._seen.set()

    def _run(self) -> None:
        if self._after is not None:
            self._after._thread.join()
            self._after = None
        interval, told, quiet, news, shown_first = update_interval(), -_STILL, 0, True, False
        while not self._stop.is_set():
            fault = self.fault
            try:
                more, self.fault = self.lines.scan(), ""
            except OSError as error:
                more, self.fault = False, f"This log cannot be read: {error.strerror or error}."
            self.checked = monotonic()
            if not more and self.lines_at_first is None:
                self.lines_at_first = self.lines.lines
            news = news or more or self.fault != fault
            at_end_first = not more and not shown_first  # what there was is shown without waiting for the next turn
            if (
                news
                and self._seen.is_set()
                and (at_end_first or monotonic() - told >= (interval if shown_first else _OPENING))
            ):
                shown_first = shown_first or not more
                self._seen.clear()
                told, news = monotonic(), False
                if not self._tell(self):
                    return
            quiet = 0 if more else quiet + 1
            if not more:
                due = told + interval - monotonic()
                self._stop.wait(max(0.01, due) if news else interval if quiet < _SOON else _STILL)
