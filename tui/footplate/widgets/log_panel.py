"""A log with all that is done to it: what is said above it, the view, the line to type in; filters, copies, files, marks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from footplate.actions import actions
from footplate.logs.filtered import Filtered
from footplate.logs.goal import read_goal
from footplate.logs.lines import Lines, Place
from footplate.logs.sanitise import clean
from footplate.logs.search import why_plain
from footplate.logs.where import first_since, number_of
from footplate.widgets import log_files
from footplate.widgets.log_files import Takeaway
from footplate.widgets.log_marks import Marking
from footplate.widgets.log_narrow import Narrowing
from footplate.widgets.log_prompt import LogPrompt
from footplate.widgets.log_state import Shown, SourceState, empty_text, state_lines
from footplate.widgets.log_view import OWN_ACTS, LogView
from footplate.workspace.errors import Invalid

_ASKING = {
    key: a.id for a in actions("log") for key in a.keys.split(",") if a.id in ("search", "narrow", "go_to", "save")
}
"""The keys that open the line to type in."""


class LogPanel(Widget):
    """One log at a time. It knows lines, and nothing of where they come from; what that is at, the owner puts into `state`."""

    DEFAULT_CSS = """
    LogPanel { width: 1fr; height: 1fr; layout: vertical; }
    LogPanel > #log-state { height: auto; padding: 0 1; background: $surface; color: $text-muted; }
    LogPanel > LogView { padding: 0 1; }
    """
    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(a.keys, a.id, a.title, show=False) for a in actions("log") if a.id.partition("(")[0] not in OWN_ACTS
    ]

    state: reactive[SourceState] = reactive(SourceState())
    """What is known of where the log comes from."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.view = LogView(id="log")
        self._state_line = Static("", id="log-state", markup=False)
        self._prompt = LogPrompt()
        self.view.takes_key = self._takes_key
        self._expected: tuple[Callable[[Lines], int | None] | None] | None = None
        self._base: Lines | None = None
        self._title = ""
        self._marking = Marking(self.view, self._say, partial(self._notify, failed=True))
        self._searched = ""
        self._narrowing = Narrowing()
        self._takeaway = Takeaway(self.view, self._prompt, self._notify)
        self._said = Content("")

    def compose(self) -> ComposeResult:
        """What is said, the log, the line to type in."""
        yield self._state_line
        yield self.view
        yield self._prompt

    def on_mount(self) -> None:
        """Keep what is said true."""
        for name in (
            "follow",
            "new_lines",
            "total_lines",
            "size_bytes",
            "match_info",
            "fault",
            "wrap",
            "times",
            "raw",
            "cursor",
        ):
            self.watch(self.view, name, self._say, init=False)
        self.set_interval(1.0, self._say)

    # What the owner does

    def show(self, lines: Lines, title: str = "", marks: str = "") -> None:
        """Show lines from their end on, whole, and close those that were shown before.

        `title` says which log it is; `marks` names what the marks of its lines are kept for, as a job, where they are kept.
        """
        self.close()
        self._base, self._title = lines, title
        self.view.show(lines)
        self._marking.open(marks)
        self._say()

    def expect_other_numbers(self, at: Callable[[Lines], int | None] | None) -> None:
        """The lines will shortly have other numbers by the owner's own doing: go to a line then, and say nothing of it."""
        self._expected = (at,)

    def rename(self, title: str) -> None:
        """Say otherwise which log it is."""
        if title != self._title:
            self._title = title
            self._say()

    def close(self) -> None:
        """Show nothing, and let go of the log."""
        self._takeaway.stop()
        self.view.close()
        if self._base is not None:
            self._base.close()
        self._base, self._title, self._searched = None, "", ""
        self._narrowing = Narrowing()
        self._marking.open("")

    @property
    def lines(self) -> Lines | None:
        """All lines of the log that is shown, also those that are filtered out."""
        return self._base

    def go_to(self, place: Place) -> None:
        """Go to a line by where it stands, and choose it; to be found once it is read, if it is not yet."""
        base = self._base
        if base is not None:
            self._unfiltered(lambda: number_of(base, place), choose=True)

    def on_unmount(self) -> None:
        """Let go of the log."""
        if self._base is not None:
            self._base.close()

    # What is said above

    def watch_state(self) -> None:
        """Say it."""
        self._say()

    def _say(self) -> None:
        if not self.is_mounted:
            return
        view, source = self.view, self._source()
        view.empty = empty_text(source, bool(self._narrowing), datetime.now(UTC))
        if self._base is None:
            rows = [Content.styled(clean(source.fault), "$text-error") if source.fault else Content(clean(source.note))]
        else:
            shown = Shown(
                self._title,
                view.size_bytes,
                view.total_lines,
                view.follow,
                view.new_lines,
                self._found(),
                self._in_force(),
            )
            rows = state_lines(shown, source, max(20, self._state_line.content_size.width or self.size.width - 2))
        said = Content("\n").join(rows)
        if (said.plain, said.spans) != (self._said.plain, self._said.spans):  # each update draws
            self._said = said
            self._state_line.update(said)

    def _source(self) -> SourceState:
        """What the owner says; where it says nothing of when it was looked, the view itself looks."""
        source, view = self.state, self.view
        filtered = view.lines.fault if isinstance(view.lines, Filtered) else ""
        checked = source.checked if source.checked is not None else view.checked
        return replace(source, checked=checked, fault=source.fault or view.fault or filtered)

    def _found(self) -> str:
        return f"/{self._searched}/ {self.view.match_info}" if self.view.match_info else ""

    def _in_force(self) -> tuple[str, ...]:
        view, parts = self.view, self._narrowing.said()
        if self._base is not None and isinstance(view.lines, Filtered):
            parts.append(f"of {self._base.lines:,} lines")
            if view.lines.examined < self._base.lines - 1 and not view.lines.fault:
                parts.append(f"looked through {view.lines.examined / max(1, self._base.lines):.0%}")
        if chosen := len(view.chosen):
            parts.append(f"{chosen:,} selected" if chosen > 1 else f"line {(view.cursor or 0) + 1:,}")
        parts += ["wrapped"] * view.wrap + ["times"] * view.times
        if self._takeaway.busy:
            parts.append("writing, esc stops it")
        if view.raw:
            parts.append("raw: secrets are shown")
        if self._marking.places:
            parts.append(f"{len(self._marking.places)} marked")
        return tuple(parts)

    # Typing

    def _takes_key(self, event: events.Key) -> bool:
        """Open the line at once, not when the key has gone all the way round: the keys behind it are for the line."""
        if self._prompt.what:
            self._prompt.take(event)
            return True
        ask = _ASKING.get(event.key)
        if ask is not None:
            getattr(self, f"action_{ask}")()
        return ask is not None

    def action_search(self) -> None:
        """Ask what to search for."""
        self._prompt.ask("search", "search", "n next  N before", self._searched)

    def action_narrow(self) -> None:
        """Ask which lines to show."""
        self._prompt.ask("narrow", "only lines with", "! in front: without", self._narrowing.pattern)

    def action_go_to(self) -> None:
        """Ask where to go."""
        self._prompt.ask("go", "go to", "1200  50%  14:02  -5m", "")

    def action_save(self) -> None:
        """Ask for a file to save the log as."""
        name = self._title.rpartition("/")[2] or "log.txt"
        self._prompt.ask("save", "save as", "byte for byte, secrets too", os.path.join(os.curdir, name))  # noqa: PTH118

    @on(LogPrompt.Answered)
    def _answered(self, event: LogPrompt.Answered) -> None:
        event.stop()
        acts: dict[str, Callable[[str], object]] = {
            "search": self._search,
            "narrow": self._narrow,
            "go": self._go,
            "save": self._save,
        }
        acts[event.what](event.typed)

    @on(LogView.Restarted)
    def _restarted(self, event: LogView.Restarted) -> None:
        event.stop()
        expected, self._expected = self._expected, None
        if expected is not None:
            lines = self.view.lines
            if lines is not None and (at := expected[0]) is not None:
                self.view.go_when_there(lambda: at(lines), True)
            return
        self._notify("This log began anew: it is shown from its new beginning.")

    @on(LogPrompt.Left)
    def _left(self, event: LogPrompt.Left) -> None:
        event.stop()
        self.screen.set_focus(self.view)

    def _answer_taken(self) -> None:
        self._prompt.done()
        self.screen.set_focus(self.view)

    def _search(self, typed: str) -> None:
        self._searched = typed
        self.view.search(typed)
        self._answer_taken()
        self._tell_plain(typed)

    def _narrow(self, typed: str) -> None:
        self._answer_taken()
        self._filter(self._narrowing.by(typed))
        self._tell_plain(self._narrowing.text)

    def _save(self, typed: str) -> None:
        self._takeaway.save(typed, self.view.lines is self._base)

    def _tell_plain(self, typed: str) -> None:
        if typed and (why := why_plain(typed)):
            self._notify(f"{typed} is no regular expression ({why}): looked for as it stands.")

    @work(exclusive=True, group="log-go")
    async def _go(self, typed: str) -> None:
        view, lines = self.view, self.view.lines
        if lines is None or not view.total_lines:
            self._prompt.remark("There are no lines yet.")
            return
        last = lines.time(view.total_lines - 1) or datetime.now(UTC)
        try:
            goal = read_goal(typed, last)
        except ValueError as error:
            self._prompt.remark(str(error))
            return
        if goal.line is not None:
            if goal.line >= view.total_lines:
                self._prompt.remark(f"There are {view.total_lines:,} lines.")
                return
            line: int | None = goal.line
        elif goal.part is not None:
            line = round((view.total_lines - 1) * goal.part)
        else:
            assert goal.time is not None
            line = await asyncio.to_thread(first_since, lines, goal.time)
        if line is None:
            self._prompt.remark("No line says when it was written.")
            return
        if lines is view.lines:
            self._answer_taken()
            view.go_to(line)

    # What is left out

    def action_context(self, step: int) -> None:
        """Show more lines round each that is left, or fewer."""
        if self._narrowing:
            self._filter(self._narrowing.with_more(step))

    def action_level(self) -> None:
        """Leave out what is less grave; the step after errors is all."""
        self._filter(self._narrowing.next_level())

    def action_window(self) -> None:
        """Leave out what is older; the step after an hour is all. Of a log that is at its end, from its last line back."""
        base = self._base
        last = base.time(base.lines - 1) if base is not None and base.lines and not self.state.active else None
        self._filter(self._narrowing.next_window(last or datetime.now(UTC)))

    def _base_line(self) -> int:
        """Which of all lines is meant."""
        here: int = self.view.here
        lines = self.view.lines
        return (lines.base_number(here) or 0) if isinstance(lines, Filtered) else here

    def _filter(self, narrowing: Narrowing) -> None:
        """Show the lines that are wanted now, with the line that is read now in sight where it is among them."""
        base, view = self._base, self.view
        if base is None or narrowing == self._narrowing:
            return
        if not narrowing:
            self._show_all()
            return
        self._narrowing = narrowing
        follow, here = view.follow, self._base_line()
        filtered = Filtered(base, narrowing.wanted())

        def line() -> int | None:
            known = filtered.examined > here and filtered.lines
            return min(filtered.nearest(here), filtered.lines - 1) if known else None

        self._put(filtered, None if follow else line, view.cursor is not None)

    def _show_all(self) -> None:
        """Leave nothing out any more; what is read now stays in sight."""
        line = self._base_line()
        self._unfiltered(None if self.view.follow else lambda: line, self.view.cursor is not None)

    def _unfiltered(self, at: Callable[[], int | None] | None, choose: bool = False) -> None:
        self._narrowing = Narrowing()
        if self._base is not None:
            if self.view.lines is not self._base:
                self._put(self._base, at, choose)
            elif at is not None:
                self.view.go_when_there(at, choose)

    def _put(self, lines: Lines, at: Callable[[], int | None] | None, choose: bool = False) -> None:
        before = self.view.lines
        if isinstance(before, Filtered):
            before.close()
        self.view.show(lines, keep=True)
        if at is not None:
            self.view.go_when_there(at, choose)
        if self._searched:
            self.view.search(self._searched)
        self._say()

    # Copies and files

    def action_copy(self) -> None:
        """Copy what is chosen, else what is on screen."""
        numbers = self.view.chosen or self.view.visible_lines()
        self._takeaway.copy(numbers, f"{len(numbers):,} lines" if len(numbers) > 1 else "The line")
        self.view.choose_nothing()

    def action_copy_all(self) -> None:
        """Copy all lines that are shown, on screen or not."""
        count = self.view.total_lines
        whole = self.view.lines is self._base
        self._takeaway.copy(range(count), f"All {count:,} lines" if whole else f"The {count:,} filtered lines")

    @work(exclusive=True, group="log-pager")
    async def action_pager(self) -> None:
        """Open the whole log in the user's pager, at the line that is meant."""
        base = self._base
        if base is None or not base.lines:
            return
        try:
            await log_files.page(self.app, base, self._base_line())
        except Invalid as error:
            self._notify(str(error), failed=True)

    # Marks and single lines

    def action_mark(self) -> None:
        """Mark the line that is meant, or no more."""
        self._marking.toggle()

    def action_next_mark(self) -> None:
        """Go to the next marked line, round the end."""
        number = self._marking.following()
        if number is None:
            self._notify("No line here is marked: b marks one.")
        else:
            self.view.go_to(number)

    @work(exclusive=True, group="log-line")
    async def action_whole_line(self) -> None:
        """Show the whole of a line that is cut."""
        from footplate.screens.log_line import LineDialog

        view = self.view
        number = view.cut_line()
        if number is None or view.lines is None:
            return
        text = await asyncio.to_thread(log_files.whole_line, view.lines, number, view.raw)
        if text is None:
            self._notify("This line is too long for the screen: S saves the log, | opens it in the pager.")
        else:
            self.app.push_screen(LineDialog(f"{self._title}, line {number + 1:,}".removeprefix(", "), text))

    def action_full(self) -> None:
        """Give the log the whole screen, or give it back."""
        if self.screen.maximized is None:
            self.screen.maximize(self, container=False)
        else:
            self.screen.minimize()

    # One step back

    def action_step_back(self) -> None:
        """Undo what was done last of what can be undone."""
        step = self._step_back()
        if step is not None:
            step()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where nothing is to be undone, the key is the screen's."""
        if action == "step_back" and self._step_back() is None:
            return False
        return super().check_action(action, parameters)

    def _step_back(self) -> Callable[[], object] | None:
        if self.view.cursor is not None:
            return self.view.choose_nothing
        if self._takeaway.busy:
            return self._takeaway.stop
        if self.screen.maximized is not None:
            return self.screen.minimize
        if self.view.match_info:
            return lambda: self._search("")
        return self._show_all if self._narrowing else None

    def _notify(self, said: str, failed: bool = False) -> None:
        self.app.notify(clean(said), severity="error" if failed else "information", markup=False, timeout=8)
