"""What leaves a log view: texts that are copied, the pager on the console's own terminal, the whole of a long line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from textual.app import App, SuspendNotSupported
from textual.worker import Worker, get_current_worker

from footplate import clipboard, words
from footplate.logs import save
from footplate.logs.lines import Lines
from footplate.logs.sanitise import clean
from footplate.widgets.log_prompt import LogPrompt
from footplate.widgets.log_view import LogView
from footplate.workspace.errors import Invalid

MOST_OF_A_LINE = 32_000_000
"""Bytes of a line that are shown on screen."""
_TAKE_A_LINE = ("less", "more", "most", "view", "vi", "vim", "nvim", "nano", "emacs")
"""Programs that open a file at line N where they are given +N."""


class Takeaway:
    """What is copied or saved of a view's lines, one at a time, in a thread. `tell` is told what became of it."""

    def __init__(self, view: LogView, prompt: LogPrompt, tell: Callable[..., object]) -> None:
        self._view, self._prompt, self._tell = view, prompt, tell
        self._asked: Path | None = None  # a file that is there; the same answer again replaces it
        self._worker: Worker[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether something is being copied or saved."""
        return self._worker is not None and self._worker.is_running

    def stop(self) -> None:
        """Give up what is being copied or saved."""
        if self._worker is not None:
            self._worker.cancel()

    def copy(self, numbers: range, what: str) -> None:
        """Copy lines as they are shown, but whole, into the terminal's clipboard and a file."""
        lines, raw = self._view.lines, self._view.raw
        if lines is not None and len(numbers):
            self._run(partial(self._copy, lines, numbers, what, raw))

    def save(self, typed: str, whole: bool) -> None:
        """Save the lines as they are in a file; where it is there, only when it was asked for twice."""
        lines = self._view.lines
        if lines is None or not typed.strip():
            self._prompt.remark("Type a path." if lines is not None else "There is no log yet.")
            return
        try:
            path = Path(typed.strip()).expanduser().absolute()
        except (OSError, RuntimeError) as error:
            self._prompt.remark(f"{typed} is no path: {error}.")
            return
        again, self._asked = self._asked == path, None
        self._prompt.remark("writing …", quiet=True)
        self._run(
            partial(self._save, lines, path, again, "The log" if whole else f"The {lines.lines:,} filtered lines")
        )

    def _run(self, act: Callable[[], None]) -> None:
        self.stop()
        self._worker = self._view.run_worker(act, thread=True, group="log-file")

    def _copy(self, lines: Lines, numbers: range, what: str, raw: bool) -> None:
        worker, masked = get_current_worker(), 0

        def texts() -> Iterator[str]:
            nonlocal masked
            for text, hidden in save.shown_lines(lines, numbers, raw, lambda: worker.is_cancelled):
                masked += hidden
                yield text

        try:
            copied = clipboard.keep(texts())
        except save.Stopped:
            return
        said = clipboard.said(copied, what)
        if raw:
            said += " Raw: secrets are not masked."
        elif masked:
            said += f" Secrets in {masked:,} {'line' if masked == 1 else 'lines'} are masked."
        if copied.text is not None:
            self._in_app(self._view.app.copy_to_clipboard, copied.text)
        self._in_app(self._tell, said, copied.file is None)

    def _save(self, lines: Lines, path: Path, replace: bool, what: str) -> None:
        worker = get_current_worker()
        try:
            size = save.save(lines, path, replace, lambda: worker.is_cancelled)
        except FileExistsError:
            self._asked = path
            self._in_app(self._prompt.remark, "That file is there: enter again replaces it.")
        except OSError as error:
            self._in_app(self._prompt.remark, f"It cannot be written: {error.strerror or error}.")
        except save.Stopped:
            self._in_app(self._prompt.remark, "It was given up.")
        else:
            self._in_app(self._prompt.done)
            self._in_app(self._view.focus)
            said = f"{what}, {words.size(size)}, saved as {words.path(path)}: every byte, secrets too."
            self._in_app(self._tell, said)

    def _in_app(self, call: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the console has ended meanwhile
            self._view.app.call_from_thread(call, *arguments)


def whole_line(lines: Lines, number: int, raw: bool) -> str | None:
    """The whole text of a line; None where it is too long for any screen."""
    if lines.display(number)[1] > MOST_OF_A_LINE:
        return None
    return next(save.shown_lines(lines, range(number, number + 1), raw))[0].rstrip("\n")


def pager() -> list[str]:
    """The command of `$PAGER`, else `less` or `more`. Raises Invalid where there is none."""
    given = os.environ.get("PAGER") or next((name for name in ("less", "more") if shutil.which(name)), "")
    try:
        command = shlex.split(given)
    except ValueError as error:
        raise Invalid(f"The pager {given!r} is no command: {error}.", "Mend PAGER.", repr(error)) from error
    if not command:
        raise Invalid("No pager is set, and there is no less here.", "Set PAGER, as in PAGER=more footplate.")
    return command


async def page(app: App[object], lines: Lines, line: int) -> None:
    """Show the bytes of a log in the pager at a line; the console waits, and is drawn again. Raises Invalid.

    Lines that come from several files, or were put together from pieces, are first written into one file, which goes afterwards.
    """
    command = pager()
    name = Path(command[0]).name
    if name == "less":
        command.append("-R")  # after what LESS says: colours may pass, no other sequence
    if name in _TAKE_A_LINE:
        command.append(f"+{line + 1}")
    file = save.file_behind(lines)
    if file is not None:
        _run(app, [*command, str(file)])
        return
    with tempfile.TemporaryDirectory(prefix="footplate-") as folder:
        file = Path(folder) / "log.txt"
        try:
            await asyncio.to_thread(save.save, lines, file, False)
        except OSError as error:
            raise Invalid(f"The log cannot be written out: {error.strerror or error}.", "Free some space.") from error
        _run(app, [*command, str(file)])


def _run(app: App[object], command: list[str]) -> None:
    try:
        with app.suspend():
            subprocess.run(command, check=False)
    except SuspendNotSupported as error:
        raise Invalid(
            "A pager cannot be shown here: the console does not run on a terminal of its own.", "Save the log with S."
        ) from error
    except OSError as error:
        raise Invalid(
            clean(f"The pager {command[0]} cannot be started: {error.strerror or error}."), "Mend PAGER.", repr(error)
        ) from error
