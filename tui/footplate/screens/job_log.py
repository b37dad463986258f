"""The logs of one job: its files, one of them followed, and the line that searches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.operations import follow
from footplate.screens.base import ConsoleScreen, pause_after
from footplate.widgets.log_view import LogView
from footplate.widgets.virtual_table import Column, Row, VirtualTable
from footplate.workspace import Job, LogFile, NotSignedIn, Throttled, Unreachable, WorkspaceError

if TYPE_CHECKING:
    from footplate.app import FootplateApp
    from footplate.operations.spool import Spool


class LogPane(Horizontal):
    """The files of a job's log beside the one that is shown. `in_sight` says whether anybody looks.

    A log that lies elsewhere is copied into a file as long as it is in sight and may still grow.
    """

    DEFAULT_CSS = """
    LogPane #files { width: 30; display: none; border-right: solid $panel-lighten-2; }
    LogPane.wide #files { display: block; }
    LogPane #log-state { height: 1; padding: 0 1; background: $surface; color: $text-muted; }
    LogPane #find { height: 1; border: none; padding: 0 1; display: none; background: $surface; }
    LogPane #find.shown { display: block; }
    LogPane #log { padding: 0 1; }
    """

    def __init__(self, job_name: str, in_sight: Callable[[], bool], id: str) -> None:
        super().__init__(id=id)
        self.job_name, self._in_sight = job_name, in_sight
        self.job: Job | None = None
        self._files: Sequence[LogFile] = ()
        self._file: LogFile | None = None
        self._chosen = False  # until the first user log is there, or the operator chose a file
        self._spool: Spool | None = None  # of a log that lies elsewhere
        # Kept, not looked up: a copy that ends while the screen is taken down finds no part of it any more.
        self._log = LogView(id="log")
        self._state = Static("", id="log-state", markup=False)
        self._fault = ""

    @property
    def console(self) -> FootplateApp:
        """The app, by its own type."""
        return cast(ConsoleScreen, self.screen).console

    def compose(self) -> ComposeResult:
        """Files, the state of the log, the log, the line that searches it."""
        files = VirtualTable(
            (Column("file", "FILES", None, minimum=14), Column("size", "SIZE", 9, "right", priority=50)), id="files"
        )
        files.empty = "None yet."
        yield files
        with Vertical():
            yield self._state
            yield self._log
            yield Input(placeholder="search: text or a regular expression; n next, N previous", id="find", compact=True)

    def on_mount(self) -> None:
        """Keep the line of state true."""
        self.query_one("#find", Input).cursor_blink = False
        for reactive in ("follow", "new_lines", "total_lines", "size_bytes", "match_info"):
            self.watch(self._log, reactive, self._show_state, init=False)

    # Files

    @property
    def has_several(self) -> bool:
        """Whether there is more than one file to go through."""
        return len(self._files) > 1

    def show_files(self, job: Job, files: Sequence[LogFile]) -> None:
        """Show the files; the first user log is opened as soon as it is there, until the operator chose another."""
        self.job, self._files = job, files
        self.query_one("#files", VirtualTable).set_rows(
            [Row(f.path, (_file_label(f.path), words.size(f.size) if f.size is not None else "")) for f in files]
        )
        first = follow.first_user_log(files)
        if first is None and files and not job.active:
            first = files[0]  # it ended before its command began: the supervisor's log says why
        if first is not None and not self._chosen:
            self._chosen = True
            self._open_file(first)
        elif self._file is None and files and files[0].local_path is None:
            self._open_file(files[0])  # on Azure the image may be built first, in a log of its own
        elif self._file is not None:
            self._file = next((f for f in files if f.path == self._file.path), self._file)
        self._show_state()

    def _open_file(self, file: LogFile) -> None:
        self._file, self._spool, self._fault = file, None, ""
        if file.local_path is not None:
            self._log.open(file.local_path)
        else:
            self._log.close()
            self.copy_on()
        self.query_one("#files", VirtualTable).move_to(file.path)
        self._show_state()

    @on(VirtualTable.Highlighted, "#files")
    def _file_chosen(self, event: VirtualTable.Highlighted) -> None:
        file = next((f for f in self._files if f.path == event.key), None)
        if file is not None and self._chosen and (self._file is None or file.path != self._file.path):
            self._open_file(file)

    @on(VirtualTable.Selected, "#files")
    def _into_log(self) -> None:
        self._log.focus()

    def step_file(self, step: int) -> None:
        """Open the file so many further on, round the ends."""
        if self._files:
            paths = [f.path for f in self._files]
            self._chosen = True
            now = paths.index(self._file.path) if self._file and self._file.path in paths else 0
            self._open_file(self._files[(now + step) % len(paths)])

    # Copies of logs that lie elsewhere

    def copy_on(self) -> None:
        """Go on copying a log that lies elsewhere, where it is looked at."""
        if self._file is not None and self._file.local_path is None and self._in_sight():
            self._copy(self._file.path)

    @work(exclusive=True, group="log")
    async def _copy(self, path: str) -> None:
        """Copy a log into a file that the view reads, as long as it is in sight and may still grow."""
        going_on = True
        while going_on and self._in_sight():
            going_on = self.job is None or self.job.active  # before the read: what an ended job wrote is all there
            pause, fault = self.console.poll_seconds, ""
            try:
                await self._copy_what_is_there(path)
            except WorkspaceError as error:
                fault, pause = str(error), max(pause, pause_after(error))
                going_on = going_on or isinstance(error, NotSignedIn | Throttled | Unreachable)
                if isinstance(error, NotSignedIn):
                    self.console.offer_sign_in(error)
            except OSError as error:
                fault, going_on = f"The log cannot be copied to this machine: {error.strerror or error}.", False
            self._fault = fault
            self._show_state()
            if going_on:
                await asyncio.sleep(pause)

    async def _copy_what_is_there(self, path: str) -> None:
        """Copy to the log's present end, or until nobody looks any more."""
        spool = await self.console.spools.of(self.job_name, path)
        if self._spool is not spool and self.is_attached:
            self._spool = spool
            self._log.open(spool.file)
        while await spool.step() and self._in_sight():
            pass

    # The line of state

    def _show_state(self) -> None:
        log, state = self._log, self._state
        going_on = self.job is None or self.job.active
        if self._file is None:
            waiting = "No log yet" if going_on else "This job wrote no log"
            state.update(Content(f"{waiting}. {clean(self.job.note if self.job else '')}"))
            return
        if self._fault:
            state.update(Content.styled(clean(self._fault), "$text-error"))
            return
        known = self._file.size if self._spool is None else self._spool.total
        parts = [
            clean(self._file.path),
            f"{words.size(log.size_bytes)} of {words.size(max(known or 0, log.size_bytes))}",
            f"{log.total_lines:,} lines",
        ]
        if log.follow:
            how = ("● following", "$text-success") if going_on else ("at the end", "")
        else:
            new = f", {log.new_lines:,} new" if log.new_lines else ""
            how = (f"paused{new}   G follows", "$text-warning")
        found = (f"{clean(log.match_info)}   ", "$text-accent")  # first: what was asked for last is not cut off
        state.update(Content.assemble(found if log.match_info else "", how, "   ", "   ".join(parts)))

    # Search

    def find(self) -> None:
        """Open the search line."""
        line = self.query_one("#find", Input)
        line.add_class("shown")
        line.focus()

    @on(Input.Submitted, "#find")
    def _find(self, event: Input.Submitted) -> None:
        self._log.search(event.value)
        event.input.set_class(bool(event.value), "shown")
        self._log.focus()

    def leave_search(self) -> bool:
        """Close the search line; False where it is not open."""
        line = self.query_one("#find", Input)
        if not line.has_class("shown"):
            return False
        line.remove_class("shown")
        line.value = ""
        self._log.search("")
        self._log.focus()
        return True


def _file_label(path: str) -> str:
    """`rank 3` for the log of a rank, else the file's name; the whole path stands above the log."""
    name = path.rpartition("/")[2]
    rank = name.removeprefix("std_log_process_").removesuffix(".txt")
    return f"rank {int(rank)}" if rank.isdigit() else name
