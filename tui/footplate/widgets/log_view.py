"""A view of a growing log: opens millions of lines at once, follows its end, searches; only draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import wrap
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive

from footplate.actions import actions
from footplate.logs.index import LineIndex
from footplate.logs.lines import Lines
from footplate.logs.search import compile_search
from footplate.widgets.log_find import Finder, Matches
from footplate.widgets.log_read import Reader
from footplate.widgets.log_scroll import LogScroll

OWN_ACTS = frozenset(("move", "page", "top", "follow", "sideways", "next_match", "wrap", "times", "raw", "choose"))
"""What the view does by itself; the rest is for whoever asks for texts and files around it."""


class LogView(LogScroll):
    """Shows lines that may become more meanwhile, or not exist yet.

    Following is on at first; scrolling up ends it, `G` or End resumes it. The reactives say what an owner may want
    to show around the log.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(a.keys, a.id, a.title, show=False) for a in actions("log") if a.id.partition("(")[0] in OWN_ACTS
    ]

    size_bytes: reactive[int] = reactive(0)
    """Bytes of the log known so far."""

    match_info: reactive[str] = reactive("")
    """What the search found, in words; empty where nothing is searched for."""

    fault: reactive[str] = reactive("")
    """Why the log cannot be read on, in a sentence; what was read before stays."""

    empty: reactive[str] = reactive("No output yet")
    """What stands where there are no lines."""

    class Restarted(Message):
        """The log turned out to be another one, and is shown from its beginning."""

        def __init__(self, view: LogView) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> LogView:
            """The view, for `@on(…, "#id")`."""
            return self.view

    class _Grown(Message):
        """From the reading thread: the log was looked at and is another one, longer, or cannot be read."""

        def __init__(self, reader: Reader) -> None:
            super().__init__()
            self.reader = reader

    class _Found(Message):
        """From a searching thread: a step is done, or the count went on."""

        def __init__(self, finder: Finder) -> None:
            super().__init__()
            self.finder = finder

    def __init__(
        self,
        path: Path | None = None,
        *,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._lines: Lines | None = LineIndex(path) if path is not None else None
        self._reader: Reader | None = None
        self._restarts = self._redraws = 0
        self._goal: tuple[Callable[[], int | None], bool] | None = None
        self._matches = Matches(self._hear)
        self.takes_key: Callable[[events.Key], bool] | None = None
        """Asked for each key before anything else is done with it; whether it is dealt with."""

    # What the owner does

    @property
    def lines(self) -> Lines | None:
        """What is shown."""
        return self._lines

    @property
    def checked(self) -> float | None:
        """When it was last looked whether there is more (`monotonic`)."""
        return self._reader.checked if self._reader else None

    def open(self, path: Path) -> None:
        """Show a file, from its end on, following it."""
        self.show(LineIndex(path))

    def show(self, lines: Lines, keep: bool = False) -> None:
        """Show these lines, from their end on, following them. The ones before are closed, unless they are to be kept."""
        before = self._reader
        self._let_go(keep)
        self._lines = lines
        if self.is_mounted:
            self._start(lines, before)

    def close(self) -> None:
        """Show nothing, and let go of the log."""
        self._let_go(False)

    def text(self, first: int, last: int) -> str:
        """Return lines `first` to `last` (counted from 0) as they are shown, without styles or cuts to the width."""
        if self._lines is None:
            return ""
        return "\n".join(
            self._painter.line(number).text for number in range(first, min(last, self.total_lines - 1) + 1)
        )

    def search(self, wanted: str) -> None:
        """Mark what matches and go to the next match; an empty text ends the search.

        The text is a regular expression, or plain text where it is no valid one; without a capital letter it
        matches either case.
        """
        self._forget_search()
        self.refresh()
        if not wanted or self._lines is None:
            return
        self._painter.search = compile_search(wanted)
        self.match_info = "searching …"
        at = self.cursor if self.cursor is not None else self.visible_lines().start
        self._matches.start(self._lines, self._painter.search, at)

    def go_when_there(self, line: Callable[[], int | None], choose: bool = False) -> None:
        """Go to a line that may not be there yet: it is asked for each time that there is more, until it is known."""
        self.follow = False
        self._goal = (line, choose)
        self._reach_goal()

    @property
    def here(self) -> int:
        """As in any lines, but a match in sight goes before the last or first line in sight."""
        match = self._matches.line
        if self.cursor is None and match is not None and match in self.visible_lines():
            return match
        return super().here

    # Keys

    def action_next_match(self, direction: int) -> None:
        """Go to the next line that matches, or the one before; at the end of the log, start over."""
        self._matches.step(direction)
        if self._matches.advance(self.visible_lines()):
            self._show_match()

    def on_key(self, event: events.Key) -> None:
        """Let whoever asks for texts have the keys behind the one that opened its line: from afar they come together."""
        if self.takes_key is not None and self.takes_key(event):
            event.stop()
            event.prevent_default()

    # Life

    def on_mount(self) -> None:
        """Start to read."""
        if self._lines is not None and self._reader is None:
            self._start(self._lines)

    def on_unmount(self) -> None:
        """Stop to read."""
        self.close()

    def watch_follow(self, follow: bool) -> None:
        """Go to the end, and nowhere else; or count new lines from now on."""
        if follow:
            self._goal = None
        super().watch_follow(follow)

    def watch_empty(self) -> None:
        """Show it where nothing else is."""
        if not self.total_lines:
            self.refresh()

    # Reading

    def _start(self, lines: Lines, after: Reader | None = None) -> None:
        self._painter.lines = lines
        self._restarts, self._redraws = lines.restarts, lines.redraws
        self._reader = Reader(lines, lambda reader: self._post(self._Grown(reader)), after)

    def _let_go(self, keep: bool) -> None:
        if self._reader is not None:
            self._reader.stop()
        self._forget_search()
        if self._lines is not None and not keep:
            self._lines.close()
        self._lines = self._reader = self._painter.lines = None
        self.fault, self._goal = "", None
        self._reset()

    def _post(self, message: Message) -> bool:
        """Post a message from a thread; False where the console has ended meanwhile."""
        try:
            return self.post_message(message)
        except RuntimeError:
            return False

    def _on_log_view__grown(self, message: _Grown) -> None:
        message.stop()
        reader = message.reader
        reader.seen()
        if reader is not self._reader:
            return
        if reader.lines.restarts != self._restarts:
            self._restarts = reader.lines.restarts
            self._forget_search()
            self._reset()
            self.post_message(self.Restarted(self))
        if reader.lines.redraws != self._redraws:
            self._redraws = reader.lines.redraws
            self._painter.forget()
            self.refresh()
        before, now = self.total_lines, reader.lines.lines
        fault_changed, self.fault = reader.fault != self.fault, reader.fault
        self.size_bytes, self.total_lines = reader.lines.size, now
        first = reader.lines_at_first
        self._lines_at_stop = now if first is None else max(self._lines_at_stop, first)
        if not self.follow:
            self.new_lines = max(0, now - self._lines_at_stop)
        self._sight = None
        self._measure()
        if self.follow:
            self._to_end()
        else:
            self._reach_goal()
        if now != before:
            self._matches.grow()
        if fault_changed or (before == 0) != (now == 0) or self.wrap:
            self.refresh()
        else:
            # The line that was unfinished, and those that were not there.
            self._refresh_from(max(0, before - 1))

    def _reach_goal(self) -> None:
        """Go to the line that was asked for, as soon as it is known."""
        if self._goal is None or not self.total_lines or (line := self._goal[0]()) is None or line >= self.total_lines:
            return
        choose, self._goal = self._goal[1], None
        if choose:
            self.cursor = line
            self._bring(line)
        else:
            self._scroll_to_spot((line, 0))

    def _reset(self) -> None:
        self._painter.forget()
        self._painter.tag_width = 0
        self._left, self._top_row = 0, (0, 0)
        self.choose_nothing()
        self.total_lines = self.size_bytes = 0
        self.virtual_size = Size(0, 0)
        self.set_reactive(LogView.follow, False)  # so that the assignment below always counts as a change
        self.follow = True
        self.refresh()

    # Search

    def _hear(self, finder: Finder) -> None:
        self._post(self._Found(finder))

    def _on_log_view__found(self, message: _Found) -> None:
        message.stop()
        if message.finder is self._matches.finder:
            self._show_match()
            self.action_next_match(0)

    def _show_match(self) -> None:
        line = self._matches.line
        if self._matches.arrived() and line is not None:
            self._painter.match = line
            self._painter.forget()
            self._reveal(line)
            self.refresh()
        self.match_info = self._matches.text

    def _forget_search(self) -> None:
        self._matches.stop()
        self._painter.search = self._painter.match = None
        self.match_info = ""
        self._painter.forget()

    def _reveal(self, line: int) -> None:
        if self.cursor is not None:
            self.cursor = line
        self.follow = False
        self._bring(line)
        if self.wrap or self._lines is None:
            return
        text = self._painter.line(line).text
        spans = self._painter.search.spans(text) if self._painter.search else []
        width = self._text_width()
        if spans and not any(self._left <= first <= last < self._left + width for first, last in spans):
            first, last = spans[0]
            self._left = 0 if last < width else max(0, first - width // 2)

    # What stands where nothing is

    def _instead(self, width: int, y: int) -> str:
        if self._lines is None:
            return ""
        rows = [row for part in (self.fault or self.empty).split("\n") for row in wrap(part, max(1, width)) or [""]]
        return rows[y] if y < len(rows) else ""
