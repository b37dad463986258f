"""The logs of one job: the tree of its files beside the one that is shown, or all ranks interleaved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, cast

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message

from footplate import paths
from footplate.logs import names
from footplate.logs.index import LineIndex
from footplate.logs.lines import Lines, Place
from footplate.logs.merged import Merged
from footplate.logs.sanitise import clean
from footplate.operations import follow
from footplate.operations.chosen_logs import Chosen, ChosenLogs
from footplate.screens.base import ConsoleScreen, bindings
from footplate.widgets.file_tree import ALL, JOB, FileTree, Seen, tag_of
from footplate.widgets.log_goals import Goal, at_place, first_error, line_of, place_read, same_moment
from footplate.widgets.log_panel import LogPanel
from footplate.widgets.log_state import SourceState
from footplate.widgets.log_view import LogView
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import Job, LogFile

if TYPE_CHECKING:
    from footplate.app import FootplateApp
    from footplate.logs.card import Card
    from footplate.logs.spool import Spool


class LogPane(Horizontal):
    """The files of a job's log beside the one that is shown. `in_sight` says whether anybody looks.

    A log that lies elsewhere is copied to this machine as long as it is in sight and may still grow.
    """

    BINDINGS = bindings("ranks")

    DEFAULT_CSS = """
    LogPane #files { width: 34; display: none; border-right: solid $panel-lighten-2; }
    LogPane.wide #files { display: block; }
    LogPane.choosing #files { display: block; width: 1fr; border-right: none; }
    LogPane.choosing LogPanel { display: none; }
    """

    class ChildChosen(Message):
        """The logs of a trial or step are wanted."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Changed(Message):
        """Another log is shown, or more files are there."""

    def __init__(self, job_name: str, in_sight: Callable[[], bool], id: str) -> None:
        super().__init__(id=id)
        self.job_name, self._in_sight = job_name, in_sight
        self.job: Job | None = None
        self.card: Card | None = None
        """Why the job failed, once that is known."""
        self._files: Sequence[LogFile] = ()
        self._children: Sequence[Job] = ()
        self._shown = ""  # a file's path, or ALL
        self._user_log = ""  # that was shown before a system log
        self._chosen = False  # until the first user log is there, or the operator chose a file
        self._muted: frozenset[str] = frozenset()
        self._spools: dict[str, Spool] = {}  # of what is shown, where it lies elsewhere
        self._merged: Merged | None = None
        self._kept: Chosen | None = None
        self._looked_up = False
        self._goal = 0  # a later wish ends an earlier one
        # Kept, not looked up: a copy that ends while the screen is taken down finds no part of it any more.
        self.panel = LogPanel()
        self._tree = FileTree(id="files")

    @property
    def console(self) -> FootplateApp:
        """The app, by its own type."""
        return cast(ConsoleScreen, self.screen).console

    @property
    def view(self) -> LogView:
        """The view of the log."""
        return self.panel.view

    def compose(self) -> ComposeResult:
        """Files, and the log with all that is around it."""
        yield self._tree
        yield self.panel

    def on_mount(self) -> None:
        """Find out what was looked at last."""
        self._look_up()
        self.watch(self.view, "total_lines", self._show_order, init=False)

    @work(group="chosen")
    async def _look_up(self) -> None:
        self._kept = await asyncio.to_thread(self._choices().of, self.job_name)
        self._looked_up = True
        if self._kept is not None:
            self._muted = self._kept.muted
        if self.job is not None:
            self.show_files(self.job, self._files, self._children)

    def _choices(self) -> ChosenLogs:
        return ChosenLogs(paths.state() / "chosen-logs.json", self.console.workspace_name)

    def _remember(self) -> None:
        self._chosen = True
        self._keep(Chosen(self._shown, self._muted))

    @work(exclusive=True, group="keep-chosen")
    async def _keep(self, chosen: Chosen) -> None:
        try:
            await asyncio.to_thread(self._choices().keep, self.job_name, chosen)
        except OSError as error:
            self._say(f"What was chosen cannot be kept for the next time: {error.strerror or error}.")

    # Files

    @property
    def files(self) -> Sequence[LogFile]:
        """The log files as they were shown last."""
        return self._files

    @property
    def has_several(self) -> bool:
        """Whether there is more than one file to go through."""
        return len(self._files) > 1

    @property
    def has_ranks(self) -> bool:
        """Whether there are several ranks to interleave."""
        return len(self._ranks()) > 1

    def _ranks(self) -> Sequence[str]:
        return names.rank_files(file.path for file in self._files)

    def show_files(self, job: Job, files: Sequence[LogFile], children: Sequence[Job] = ()) -> None:
        """Show the files; the first user log is opened as soon as it is there, until the operator chose another."""
        self.job, self._files, self._children = job, files, children
        if self._looked_up and not self._chosen:
            self._open_first(job)
        elif self._shown == ALL and self._merged is not None:
            for path in self._ranks():
                if tag_of(path) not in self._merged.tags:
                    self._join(path)
        self._show_tree()
        self._show_state()

    def _open_first(self, job: Job) -> None:
        by_path = [file.path for file in self._files]
        kept = self._kept.file if self._kept else ""
        first = follow.first_user_log(self._files)
        if kept in by_path or (kept == ALL and self.has_ranks):
            self._chosen = True
            self.show_log(kept)
        elif first is not None:
            self._chosen = True
            self.show_log(first.path)
        elif self._files and not self._shown and (not job.active or self._files[0].local_path is None):
            # It ended before its command began: the supervisor's log says why. On Azure the image may be built first.
            self.show_log(self._files[0].path)

    def _show_tree(self) -> None:
        seen = {path: Seen(spool.total) for path, spool in self._spools.items() if spool.total}
        self._tree.show(
            self._files,
            shown=self._shown,
            muted=self._muted,
            children=self._children,
            seen=seen,
            failed=self.card.file if self.card else "",
        )

    def show_log(self, shown: str, at: Goal | None = None) -> None:
        """Show a file by its path, or ALL ranks interleaved; at a line once `at` finds it, else at the end, following."""
        self._goal += 1
        if shown == ALL and not self.has_ranks:
            shown = next(iter(self._ranks()), "")
        file = next((file for file in self._files if file.path == shown), None)
        if shown != ALL and file is None:
            return
        self._shown, self._spools, self._merged = shown, {}, None
        if file is not None and names.group_of(shown) != names.SYSTEM:
            self._user_log = shown
        self._show_tree()
        self._tree.move_to(shown)
        self._open(shown, at)
        self.post_message(self.Changed())

    @work(exclusive=True, group="open-log")
    async def _open(self, shown: str, at: Goal | None) -> None:
        """Put the lines into the view; the folder of a copy is made first, where one is needed."""
        wanted = self._ranks() if shown == ALL else (shown,)
        sources: list[tuple[str, Lines]] = []
        for path in wanted:
            if (lines := await self._lines_of(path)) is not None:
                sources.append((tag_of(path), lines))
        if shown != self._shown or not self.is_attached or not sources:
            for _, lines in sources:
                lines.close()
            return
        marks = f"{self.console.workspace_name}/{self.job_name}"
        if shown == ALL:
            self._merged = merged = Merged(sources, self._muted)
            self.panel.show(merged, self._title(), marks)
        else:
            self.panel.show(sources[0][1], shown, marks)
        if at is not None and (lines := self.panel.lines) is not None:
            self.call_after_refresh(self._go, lines, at)  # the view may not have its size yet
        self.copy_on()
        self._show_tree()
        self._show_state()

    def _go(self, lines: Lines, at: Goal) -> None:
        if lines is self.view.lines:
            self.view.go_when_there(lambda: at(lines), True)

    async def _lines_of(self, path: str) -> Lines | None:
        """The lines of one file, where it lies on this machine or as they are copied."""
        file = next((file for file in self._files if file.path == path), None)
        if file is None:
            return None
        if file.local_path is not None:
            return LineIndex(file.local_path, path)
        try:
            spool = await self.console.spools.of(self.job_name, path)
        except OSError as error:
            self._say(f"The log cannot be copied to this machine: {error.strerror or error}.", failed=True)
            return None
        self._spools[path] = spool
        return spool.lines()

    @work(group="join-log")
    async def _join(self, path: str) -> None:
        """Take in the log of a rank that came later."""
        merged = self._merged
        lines = await self._lines_of(path)
        if lines is None:
            return
        if merged is None or merged is not self._merged or tag_of(path) in merged.tags:
            lines.close()
            return
        merged.join(tag_of(path), lines)
        self._show_order()
        self.copy_on()

    def _title(self) -> str:
        merged = self._merged
        if merged is None:
            return self._shown
        silent = sum(tag in merged.muted for tag in merged.tags)
        left_out = f", {silent} muted" if silent else ""
        return f"all {len(merged.tags)} ranks{left_out}, {merged.order}"

    def _show_order(self) -> None:
        if self._merged is not None:
            self.panel.rename(self._title())

    @on(VirtualTable.Highlighted, "#files")
    def _file_chosen(self, event: VirtualTable.Highlighted) -> None:
        event.stop()
        key = event.key or ""
        if not self._tree.has_focus or self.has_class("choosing") or key == self._shown:
            return
        if key and not key.startswith(("#", JOB)):
            self.show_log(key)
            self._remember()

    @on(VirtualTable.Selected, "#files")
    def _into_log(self, event: VirtualTable.Selected) -> None:
        event.stop()
        if event.key.startswith("#"):
            return
        self.remove_class("choosing")
        if event.key.startswith(JOB):
            self.post_message(self.ChildChosen(event.key.removeprefix(JOB)))
            return
        if event.key != self._shown:
            self.show_log(event.key)
            self._remember()
        self.view.focus()

    def step_file(self, step: int) -> None:
        """Open the file so many further on, round the ends; where the log is not followed, at the same moment."""
        order = list(self._tree.paths) or [file.path for file in self._files]
        if order:
            now = order.index(self._shown) if self._shown in order else -1 if step > 0 else 0
            self.show_log(order[(now + step) % len(order)], same_moment(self.view))
            self._remember()

    # Keys

    def action_all_ranks(self) -> None:
        """All ranks interleaved, or back to one; at the line that is read."""
        if not self.has_ranks:
            self._say("This job has one rank.")
            return
        place = place_read(self.view)
        back = place.file if place is not None and place.file else self._user_log or next(iter(self._ranks()))
        goal = None if self.view.follow or place is None else at_place(place)
        self.show_log(back if self._shown == ALL else ALL, goal)
        self._remember()

    def _rank_meant(self) -> str:
        """The tag of the rank under the cursor of the list, else of the line that is read."""
        if self._tree.has_focus:
            key = self._tree.cursor_key or ""
            return tag_of(key) if key in self._ranks() else ""
        lines, view = self.view.lines, self.view
        return lines.tag(view.here) if self._merged is not None and lines is not None and view.total_lines else ""

    def action_solo(self) -> None:
        """Leave out all ranks but one, or none."""
        tags = {tag_of(path) for path in self._ranks()}
        meant = self._rank_meant()
        if self._shown != ALL:
            self.action_all_ranks()
            return
        alone = bool(self._muted & tags) and len(tags - self._muted) == 1
        if alone or meant:
            self._mute(frozenset() if alone else frozenset(tags - {meant}))

    def action_mute(self) -> None:
        """Leave a rank out of all, or take it in again."""
        tags = {tag_of(path) for path in self._ranks()}
        meant = self._rank_meant()
        if not meant:
            self._say(
                "Show all ranks with a, and choose a line of the rank to mute; or choose the rank in the list of files."
            )
            return
        muted = self._muted ^ {meant}
        if tags <= muted:
            self._say("One rank has to stay: s shows all again.")
            return
        self._mute(muted)

    def _mute(self, tags: Collection[str]) -> None:
        place = place_read(self.view)
        follow_on = self.view.follow
        self._muted = frozenset(tags)
        if self._merged is not None:
            stays = place is not None and not follow_on and tag_of(place.file) not in self._muted
            self.panel.expect_other_numbers(at_place(place) if stays and place is not None else None)
            self._merged.mute(self._muted)
            self.panel.rename(self._title())
        self._show_tree()
        self._remember()

    def action_system_log(self) -> None:
        """To the first log that the service wrote, and back."""
        system = [path for path in self._tree.paths if names.group_of(path) == names.SYSTEM]
        if self._shown in system:
            back = self._user_log or next((path for path in self._tree.paths if path not in system), "")
            if back:
                self.show_log(back)
        elif system:
            self.show_log(system[0])
        else:
            self._say("There is no system log yet.")
            return
        self._remember()

    def action_files(self) -> None:
        """To the list of files, and back to the log."""
        if self._tree.has_focus:
            self.leave_files()
            return
        self.set_class(not self.has_class("wide"), "choosing")
        self._tree.focus()

    def leave_files(self) -> bool:
        """Back from the list of files to the log; False where the list has no focus."""
        if not (self._tree.has_focus or self.has_class("choosing")):
            return False
        self.remove_class("choosing")
        self._tree.move_to(self._shown)
        self.view.focus()
        return True

    # The failure

    def action_first_error(self) -> None:
        """To the failure where the job failed, else to the first line that tells an error."""
        if self.card is not None and self.card.file:
            self.to_failure(self.card, self._shown == ALL)
        elif self.view.lines is not None:
            self._goal += 1
            self._find(self.view.lines, self._goal)

    @work(exclusive=True, group="find-error")
    async def _find(self, lines: Lines, goal: int) -> None:
        number = await asyncio.to_thread(first_error, lines)
        if goal != self._goal or lines is not self.view.lines:
            return
        if number is None:
            self._say("No line here tells an error.")
        else:
            self.view.go_when_there(lambda: number, True)

    def to_failure(self, card: Card, all_ranks: bool) -> None:
        """Go to the line that a card is about, in the log of its rank or among those of all."""
        if card.file not in [file.path for file in self._files]:
            return
        wanted = ALL if all_ranks and self.has_ranks else card.file
        at = at_place(Place(card.file, card.line - 1)) if card.line is not None else None
        if wanted != self._shown:
            self.show_log(wanted, at)
            self._remember()
        elif at is not None and (lines := self.view.lines) is not None:
            base = self.panel.lines
            if lines is base:
                self.view.go_when_there(lambda: at(lines), True)
            elif card.line is not None:
                self.panel.go_to(Place(card.file, card.line - 1))
        if at is None:
            self._goal += 1
            self._seek(card, self._goal)

    @work(exclusive=True, group="find-error")
    async def _seek(self, card: Card, goal: int) -> None:
        """Look for the line of a card whose number is not known, from the end of the log, until it is read."""
        while goal == self._goal and self.is_attached:
            lines = self.panel.lines
            if lines is not None and self._shown in (ALL, card.file) and lines.lines:
                if (number := await asyncio.to_thread(line_of, card, lines)) is not None:
                    self.view.go_when_there(lambda: number, True)
                    return
                if self.view.checked is not None and all(spool.size >= spool.total for spool in self._spools.values()):
                    return
            await asyncio.sleep(0.3)

    # Copies of logs that lie elsewhere

    def copy_on(self) -> None:
        """Go on copying logs that lie elsewhere, where they are looked at; where nobody looks, stop."""
        if self._spools and self._in_sight():
            self._copy(list(self._spools.values()))
        elif self.is_attached:
            self.workers.cancel_group(self, "log")

    @work(exclusive=True, group="log")
    async def _copy(self, spools: Sequence[Spool]) -> None:
        await asyncio.gather(
            *(spool.follow(self._may_grow, self._show_state, lambda: self.console.poll_seconds) for spool in spools)
        )

    def _may_grow(self) -> bool:
        return self.job is None or self.job.active

    # What is said above

    def _show_state(self) -> None:
        if not self.is_attached:
            return
        job = self.job
        if not self._shown:
            active = job is None or job.active
            waiting = "No log yet" if active else "This job wrote no log"
            note = f": {clean(job.note)}" if job and job.note else "."
            self.panel.state = SourceState(active=active, note=waiting + note)
            return
        shown = self._ranks() if self._shown == ALL else (self._shown,)
        sizes = [file.size for file in self._files if file.path in shown and file.size is not None]
        spools = list(self._spools.values())
        looked = [spool.checked for spool in spools if spool.checked is not None]
        ago = (datetime.now(UTC) - min(looked)).total_seconds() if looked else None
        self.panel.state = SourceState(
            total=sum(spool.total for spool in spools) if spools else sum(sizes) if sizes else None,
            checked=None if ago is None else monotonic() - ago,
            fault=next((spool.fault for spool in spools if spool.fault), ""),
            active=self._may_grow(),
            note=clean(job.note) if job and job.active and job.note else "",
            since=job.started if job is not None and job.status == "Running" else None,
        )

    def _say(self, sentence: str, failed: bool = False) -> None:
        severity = "error" if failed else "information"
        self.app.notify(clean(sentence), severity=severity, markup=False, timeout=6)  # type: ignore[arg-type]
