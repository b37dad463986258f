"""A view of one growing log file: opens millions of lines at once, follows its end, searches; only draws."""

from __future__ import annotations

import os
import threading
from itertools import takewhile
from pathlib import Path
from time import monotonic
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from footplate.logs.index import LineIndex
from footplate.logs.sanitise import parse_line, size_text
from footplate.logs.search import Search, compile_search
from footplate.widgets.log_lines import line_segments, mark_spans

STILL = 0.5
"""Seconds between two looks at a file that has not grown for a while."""

SIDEWAYS = 16
REMOVED_SIGN = " ^["
NOT_YET = "No output yet"


class _Shown(NamedTuple):
    """One line as drawn, whole, and the bytes of it that are not."""

    strip: Strip
    cut: int


def update_interval() -> float:
    """Return the least time in seconds between two repaints: ten a second, four where each crosses a network."""
    return 0.25 if os.environ.get("SSH_CONNECTION") else 0.1


class LogView(ScrollView, can_focus=True):
    """Shows a file that may be appended to meanwhile, or not exist yet.

    Following is on at first; scrolling up ends it, `G` or End resumes it. The reactives say what an owner may want
    to show around the log.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"log--match", "log--current", "log--note"}

    DEFAULT_CSS = """
    LogView {
        width: 1fr;
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        & > .log--match { background: $warning-muted; color: $text-warning; }
        & > .log--current { background: $warning; color: $background; text-style: bold; }
        & > .log--note { color: $text-muted; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "top", "Top", show=False),
        Binding("end,G", "follow", "Follow", show=False),
        Binding("left", "sideways(-1)", "Left", show=False),
        Binding("right", "sideways(1)", "Right", show=False),
        Binding("n", "next_match(1)", "Next match", show=False),
        Binding("N", "next_match(-1)", "Previous match", show=False),
    ]

    follow: reactive[bool] = reactive(True)
    """Whether the view stays at the end of the file."""

    total_lines: reactive[int] = reactive(0)
    """Lines known so far."""

    new_lines: reactive[int] = reactive(0)
    """Lines that came since following ended; 0 while following."""

    size_bytes: reactive[int] = reactive(0)
    """Bytes of the file known so far."""

    match_info: reactive[str] = reactive("")
    """What the search found, in words; empty where nothing is searched for."""

    class Restarted(Message):
        """The file was truncated or replaced, and is shown from its beginning."""

        def __init__(self, view: LogView, path: Path) -> None:
            super().__init__()
            self.view = view
            self.path = path

        @property
        def control(self) -> LogView:
            """The view, for `@on(…, "#id")`."""
            return self.view

    class _Grown(Message):
        """From the scanning thread: the file was looked at and is another one, longer, or cannot be read."""

        def __init__(self, index: LineIndex, restarts: int, error: str) -> None:
            super().__init__()
            self.index = index
            self.restarts = restarts
            self.error = error

    class _Found(Message):
        """From a searching thread: the line to go to (None: no match) or the number of lines that match."""

        def __init__(self, search: int, line: int | None, count: int | None, error: str = "") -> None:
            super().__init__()
            self.error = error
            self.search = search
            self.line = line
            self.count = count

    def __init__(
        self,
        path: Path | None = None,
        *,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._path = path
        self._index: LineIndex | None = None
        self._stop = threading.Event()
        self._seen = threading.Event()
        self._restarts = 0
        self._error = ""
        self._left = 0
        self._lines_at_stop = 0
        self._strips: LRUCache[int, _Shown] = LRUCache(512)
        self._search: Search | None = None
        self._search_number = 0  # results of an earlier search are let go by it
        self._searching = False
        self._steps = 0  # matches to go on (or back) by, pressed for while a search was under way
        self._match_line: int | None = None
        self._match_count: int | None = None

    # What the owner does

    @property
    def path(self) -> Path | None:
        """The file that is shown."""
        return self._path

    def open(self, path: Path) -> None:
        """Show another file, from its end on, following it."""
        self.close()
        self._path = path
        if self.is_mounted:
            self._start(path)

    def close(self) -> None:
        """Show nothing, and let go of the file."""
        self._stop.set()
        self._seen.set()
        if self._index is not None:
            self._index.close()
        self._index = self._path = None
        self._error = ""
        self._forget_search()
        self._reset()

    def text(self, first: int, last: int) -> str:
        """Return lines `first` to `last` (counted from 0) as they are shown, without styles or cuts to the width."""
        index = self._index
        if index is None:
            return ""
        return "\n".join(parse_line(*index.display(number)).text for number in range(first, last + 1))

    def visible_lines(self) -> range:
        """Return the numbers of the lines on screen, counted from 0."""
        top = self.scroll_offset.y
        return range(top, min(top + self.scrollable_content_region.height, self.total_lines))

    def search(self, wanted: str) -> None:
        """Mark what matches and go to the next match; an empty text ends the search.

        The text is a regular expression, or plain text where it is no valid one; without a capital letter it
        matches either case.
        """
        self._forget_search()
        if not wanted or self._index is None:
            self.refresh()
            return
        self._search = compile_search(wanted)
        self.match_info = "searching …"
        self.refresh()
        self._run_search(self.visible_lines().start, 1)

    # Keys

    def action_move(self, step: int) -> None:
        """Scroll by `step` lines."""
        self._scroll_by(step)

    def action_page(self, direction: int) -> None:
        """Scroll by a page, less the one line that shows where it was."""
        self._scroll_by(direction * max(1, self.scrollable_content_region.height - 1))

    def action_top(self) -> None:
        """Go to the first line."""
        self.follow = False
        self._scroll_lines(0)

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self.follow = True

    def action_sideways(self, direction: int) -> None:
        """Scroll to the left or the right."""
        left = max(0, self._left + direction * SIDEWAYS)
        if direction > 0 and not self._any_beyond():
            return
        if left != self._left:
            self._left = left
            self.refresh()

    def action_next_match(self, direction: int) -> None:
        """Go to the next line that matches, or the one before; at the end of the file, start over."""
        self._steps += direction
        self._take_step()

    # Life

    def on_mount(self) -> None:
        """Start to read."""
        if self._path is not None and self._index is None:
            self._start(self._path)

    def on_unmount(self) -> None:
        """Stop to read."""
        self.close()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """End following when somebody scrolls up, by whatever means."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and round(new_value) < self.max_scroll_y:
            self.follow = False

    def watch_follow(self, follow: bool) -> None:
        """Go to the end, or count new lines from now on."""
        self._lines_at_stop = self.total_lines
        self.new_lines = 0
        if follow:
            self._scroll_lines(self.total_lines)

    def on_resize(self) -> None:
        """Stay at the end."""
        if self.follow:
            self._scroll_lines(self.total_lines)

    # Reading, in a thread

    def _start(self, path: Path) -> None:
        self._index = LineIndex(path)
        self._stop, self._seen = threading.Event(), threading.Event()
        self._seen.set()
        self._restarts = 0
        threading.Thread(
            target=self._scan, args=(self._index, self._stop, self._seen), name="footplate-log-scan", daemon=True
        ).start()

    def _scan(self, index: LineIndex, stop: threading.Event, seen: threading.Event) -> None:
        """Index the file until told to stop; the screen hears of it at its own pace, and no faster than it draws."""
        interval, told, quiet, error, news, caught_up = update_interval(), -STILL, 0, "", False, False
        while not stop.is_set():
            before = error
            try:
                more, error = index.scan(), ""
            except OSError as fault:
                more, error = False, f"This log cannot be read: {fault.strerror or fault}."
            news = news or more or error != before
            at_end_first = not more and not caught_up  # what there was is shown without waiting for the next turn
            if news and seen.is_set() and (at_end_first or monotonic() - told >= interval):
                caught_up = not more
                seen.clear()
                told, news = monotonic(), False
                if not self._tell(self._Grown(index, index.restarts, error)):
                    return
            quiet = 0 if more else quiet + 1
            if not more:
                due = told + interval - monotonic()
                stop.wait(max(0.01, due) if news else interval if quiet < 50 else STILL)

    def _tell(self, message: Message) -> bool:
        """Post a message from a thread; False where the console has ended meanwhile."""
        try:
            return self.post_message(message)
        except RuntimeError:
            return False

    def _on_log_view__grown(self, message: _Grown) -> None:
        message.stop()
        index = message.index
        self._seen.set()
        if index is not self._index:
            return
        if message.restarts != self._restarts:
            self._restarts = message.restarts
            self._forget_search()
            self._reset()
            if self._path is not None:
                self.post_message(self.Restarted(self, self._path))
        before, now = self.total_lines, index.lines
        error_changed, self._error = message.error != self._error, message.error
        self.size_bytes, self.total_lines = index.size, now
        if not self.follow:
            self.new_lines = max(0, now - self._lines_at_stop)
        height = now + bool(self._error)
        if height != self.virtual_size.height:
            self.virtual_size = Size(0, height)
        if self.follow:
            self._scroll_lines(height)
        if error_changed or (before == 0) != (now == 0):
            self.refresh()
        else:
            # The line that was unfinished, and those that were not there.
            self._refresh_from(max(0, before - 1))

    def _reset(self) -> None:
        self._strips.clear()
        self._left = 0
        self.total_lines = self.size_bytes = 0
        self.virtual_size = Size(0, 0)
        self.set_reactive(LogView.follow, False)  # so that the assignment below always counts as a change
        self.follow = True
        self.refresh()

    # Search, in a thread

    def _take_step(self) -> None:
        """Start towards the next match wanted, unless a search is under way; its result takes the step after."""
        if self._search is None or self._searching or not self._steps:
            return
        direction = 1 if self._steps > 0 else -1
        self._steps -= direction
        here = self._match_line
        self._run_search(self.visible_lines().start if here is None else here + direction, direction)

    def _run_search(self, start: int, direction: int) -> None:
        if self._index is None or self._search is None:
            return
        self._searching = True
        threading.Thread(
            target=self._find,
            args=(self._search, self._search_number, self._index, start, direction, self._match_count is None),
            name="footplate-log-search",
            daemon=True,
        ).start()

    def _find(self, search: Search, number: int, index: LineIndex, start: int, direction: int, count: bool) -> None:
        """Find the line to go to, then count all lines that match, unless another search began meanwhile."""
        try:
            line = search.next_line(index, start, direction)
            self._tell(self._Found(number, line, None))
            if count and line is not None:
                current = takewhile(lambda _: number == self._search_number, search.lines(index, 0))
                self._tell(self._Found(number, line, sum(1 for _ in current)))
        except TimeoutError:
            self._tell(self._Found(number, None, None, "the search was given up: this expression takes too long"))
        except OSError as fault:
            self._tell(self._Found(number, None, None, f"the search failed: {fault.strerror or fault}"))

    def _on_log_view__found(self, message: _Found) -> None:
        message.stop()
        if message.search != self._search_number or self._search is None:
            return
        if message.count is not None:
            self._match_count = message.count
        else:
            self._searching = False
            self._match_line = message.line
            if message.line is not None:
                self._reveal(message.line)
            self._strips.clear()
            self.refresh()
        self.match_info = message.error or self._match_text()
        self._take_step()

    def _match_text(self) -> str:
        if self._match_line is None:
            return "no match"
        where = f"line {self._match_line + 1:,}"
        if self._match_count is None:
            return where
        return f"{where}, {self._match_count:,} {'line matches' if self._match_count == 1 else 'lines match'}"

    def _forget_search(self) -> None:
        self._search_number += 1
        self._search = self._match_line = self._match_count = None
        self._searching, self._steps = False, 0
        self.match_info = ""
        self._strips.clear()

    def _reveal(self, line: int) -> None:
        self.follow = False
        if line not in self.visible_lines():
            self._scroll_lines(line - self.scrollable_content_region.height // 3)
        text = parse_line(*self._index.display(line)).text if self._index else ""
        spans = self._search.spans(text) if self._search else []
        width = self.scrollable_content_region.width
        if spans and not any(self._left <= first <= last < self._left + width for first, last in spans):
            first, last = spans[0]
            self._left = 0 if last < width else max(0, first - width // 2)

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        region = self.scrollable_content_region
        width, base = region.width, self.rich_style
        index, number = self._index, self.scroll_offset.y + y
        if index is None or number >= self.total_lines:
            text = self._error or ("" if index is None or self.total_lines else NOT_YET)
            segments = [Segment(text, self.get_component_rich_style("log--note"))] if number == self.total_lines else []
            return Strip(segments).crop_extend(0, width, base)
        line, left = self._line_strip(index, number), self._left
        strip = line.strip.crop_extend(left, left + width, base)
        note = self.get_component_rich_style("log--note")
        if left and line.strip.cell_length:
            strip = Strip([Segment("‹", note), *strip.crop(1, width)])
        if line.strip.cell_length > left + width:
            sign = _cut_note(line.cut) if line.cut else "›"
            strip = Strip([*strip.crop(0, width - len(sign)), Segment(sign, note)])
        return strip

    def notify_style_update(self) -> None:
        """Forget what was drawn with the old styles."""
        super().notify_style_update()
        self._strips.clear()

    def _line_strip(self, index: LineIndex, number: int) -> _Shown:
        """Return the whole of a line; only complete lines are kept, since the last one may still change."""
        cached = self._strips.get(number)
        if cached is not None:
            return cached
        base, note = self.rich_style, self.get_component_rich_style("log--note")
        complete = index.complete(number)
        try:
            line = parse_line(*index.display(number))
        except OSError as fault:
            return _Shown(Strip([Segment(f"This line cannot be read: {fault.strerror or fault}.", note)]), 0)
        segments = line_segments(line, base)
        if self._search is not None:
            name = "log--current" if number == self._match_line else "log--match"
            segments = mark_spans(segments, self._search.spans(line.text), self.get_component_rich_style(name))
        if line.removed:
            segments.append(Segment(REMOVED_SIGN, note))
        if line.cut:
            segments.append(Segment(_cut_note(line.cut), note))
        shown = _Shown(Strip(segments), line.cut)
        if complete:
            self._strips[number] = shown
        return shown

    def _refresh_from(self, number: int) -> None:
        region = self.scrollable_content_region
        first = max(0, number - self.scroll_offset.y)
        if first < region.height:
            self.refresh(Region(0, first, region.width, region.height - first))

    def _any_beyond(self) -> bool:
        """Whether any line on screen goes on to the right of it."""
        index, end = self._index, self._left + self.scrollable_content_region.width
        return index is not None and any(
            self._line_strip(index, number).strip.cell_length > end for number in self.visible_lines()
        )

    # Scrolling

    def _scroll_by(self, lines: int) -> None:
        if lines < 0 and self.scroll_offset.y > 0:
            self.follow = False
        self._scroll_lines(self.scroll_offset.y + lines)

    def _scroll_lines(self, top: int) -> None:
        self.scroll_to(y=max(0, min(top, self.max_scroll_y)), animate=False, force=True)


def _cut_note(count: int) -> str:
    return f" … +{size_text(count)}"
