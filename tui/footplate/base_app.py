"""What the console and its connect screen share as programs: the theme, the filter, faults told in a sentence, signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import TypeVar

from textual.app import App
from textual.filter import LineFilter
from textual.worker import WorkerFailed

from footplate import clipboard
from footplate.faults import record
from footplate.theme import THEME
from footplate.widgets.control_filter import ControlFilter

T = TypeVar("T")
_GRACE_SECONDS = 5.0
_CONTROL_FILTER = ControlFilter()  # one for all: Textual keeps what it drew as long as the filters are the same


class BaseApp(App[T]):
    """A program on the whole terminal. `unforeseen` is the fault that ended it, and where its traceback is."""

    TITLE = "footplate"
    ESCAPE_TO_MINIMIZE = False  # what has the whole screen gives it back itself, one step back among others

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(THEME)
        self.set_reactive(App.theme, THEME.name)  # before anything is drawn, so that no style is worked out twice
        self.unforeseen: tuple[Exception, Path] | None = None
        if os.environ.get("SSH_CONNECTION"):
            self.animation_level = "none"

    def _handle_exception(self, error: Exception) -> None:
        """A fault of our own ends the program in a sentence; its traceback goes to the log file."""
        cause = error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
        self.unforeseen = (cause, record(cause))
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Textual would print the traceback on the way out; `open_console` says where it is instead."""
        self._close_messages_no_wait()

    def copy_to_clipboard(self, text: str) -> None:
        """Hand a text to the terminal's clipboard, through tmux or screen where the console runs in one."""
        self._clipboard = text
        if self._driver is not None:
            self._driver.write(clipboard.sequence(text))

    def get_line_filters(self) -> list[LineFilter]:
        """Every line drawn passes the filter that takes control characters out."""
        return [*super().get_line_filters(), _CONTROL_FILTER]

    def send_to_terminal(self, sequence: str) -> None:
        """Send the terminal a sequence that draws nothing, as one that rings or notifies, between two frames."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)

    def leave_on_signals(self) -> None:
        """Leave cleanly on a signal; to be called in the running loop."""
        loop = asyncio.get_running_loop()
        for number, leave in ((signal.SIGTERM, self.exit), (signal.SIGHUP, self._hang_up)):
            with contextlib.suppress(ValueError):  # not in the main thread, as in some tests
                loop.add_signal_handler(number, leave)

    def _hang_up(self) -> None:
        """The terminal is gone, as when a connection drops; jobs and endpoints are no part of this process.

        Textual's writer of output dies with the terminal, and an orderly end then waits for it for ever.
        """
        end = threading.Timer(_GRACE_SECONDS, os._exit, (128 + signal.SIGHUP,))
        end.daemon = True
        end.start()
        self.exit()
