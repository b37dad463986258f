"""Log lines as strips: read, parsed and painted once, and kept as long as nothing about them changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip

from footplate.logs.levels import Level, level_of
from footplate.logs.lines import Lines, Place
from footplate.logs.sanitise import Line, clean, parse_line, size_text
from footplate.logs.search import Search
from footplate.widgets.log_lines import line_segments, mark_spans, masked_line, raw_line, row_starts

REMOVED_SIGN = " ^["
MARK = "●"
_TIME_WIDTH = 12
_LEVEL_STYLES = {Level.ERROR: "log--error", Level.WARNING: "log--warning"}
_TAG_COLOURS = (110, 144, 139, 109, 173, 108, 146, 180)
"""Of the 256: quiet, and told apart side by side."""


class Painted(NamedTuple):
    """One line, whole: its bytes' time and source, its text, the bytes left out of it, where its rows begin when wrapped."""

    head: Strip
    body: Strip
    cut: int
    starts: list[int]


class Painter:
    """Paints the lines of one log. What changes how they look is set, then `forget` is called."""

    def __init__(self) -> None:
        self.lines: Lines | None = None
        self.search: Search | None = None
        self.marks: frozenset[Place] = frozenset()
        self.match: int | None = None
        self.raw = False
        self.times = False
        self.wrap_width = 0
        """Cells of a row; 0 where lines are not wrapped."""
        self.tag_width = 0
        """Cells of the widest tag so far; lines painted before it was met are painted anew."""
        self.styles: Callable[[str], Style] = lambda _: Style.null()
        self._kept: LRUCache[int, Painted] = LRUCache(512)
        self._tags: dict[str, Style] = {}

    @property
    def gutter(self) -> int:
        """Cells before the text: marks, times, sources."""
        return 2 * bool(self.marks) + _TIME_WIDTH * self.times + self.tag_width

    def row(self, number: int, row: int, left: int, width: int, chosen: bool) -> Strip:
        """Return what stands in one row of the screen: a row of a wrapped line, else what of the line is to the right of `left`."""
        painted, base = self.painted(number), self.styles("")
        room = max(1, width - self.gutter)
        if self.wrap_width:
            starts = [*painted.starts, painted.body.cell_length]
            row = min(row, len(starts) - 2)
            strip = painted.body.crop(starts[row], starts[row + 1]).crop_extend(0, room, base)
        else:
            strip = self._beside(painted, left, room, base)
        if self.gutter:
            marked = bool(self.marks) and self.lines is not None and self.lines.place(number) in self.marks
            sign = [Segment(f"{MARK} " if marked else "  ", self.styles("log--mark"))] if self.marks else []
            head = Strip([*sign, *(painted.head if row == 0 else ())])
            strip = Strip.join([head.crop_extend(0, width - room, base), strip])
        if chosen:
            style = self.styles("log--chosen").background_style
            strip = Strip([Segment(text, (own or base) + style) for text, own, _ in strip], width)
        return strip

    def _beside(self, painted: Painted, left: int, room: int, base: Style) -> Strip:
        """The part of a line that is in sight, with signs where it goes on to either side."""
        whole, note = painted.body, self.styles("log--note")
        strip = whole.crop_extend(left, left + room, base)
        if left and whole.cell_length:
            strip = Strip([Segment("‹", note), *strip.crop(1, room)])
        if whole.cell_length > left + room:
            sign = cut_note(painted.cut) if painted.cut else "›"
            strip = Strip([*strip.crop(0, room - len(sign)), Segment(sign, note)])
        return strip

    def forget(self) -> None:
        """Paint everything anew from now on."""
        self._kept.clear()

    def line(self, number: int) -> Line:
        """Read and parse a line as it is shown: secrets masked, or every byte of it in the raw view. Raises OSError."""
        assert self.lines is not None
        data, cut = self.lines.display(number)
        if not self.raw:
            return masked_line(parse_line(data, cut))
        if cut or not self.lines.complete(
            number
        ):  # a progress bar that goes on for days is not read whole at each update
            return raw_line(data, cut)
        return raw_line(self.lines.raw(number) or data, cut)

    def painted(self, number: int) -> Painted:
        """Return a line; only whole ones are kept, since an unfinished one may still change."""
        kept = self._kept.get(number)
        if kept is not None:
            return kept
        assert self.lines is not None
        whole = self.lines.complete(number)
        painted = self._paint(number)
        if whole:
            self._kept[number] = painted
        return painted

    def _paint(self, number: int) -> Painted:
        assert self.lines is not None
        base, note = self.styles(""), self.styles("log--note")
        try:
            line = self.line(number)
        except OSError as fault:
            return Painted(
                Strip([]), Strip([Segment(f"This line cannot be read: {fault.strerror or fault}.", note)]), 0, [0]
            )
        segments = line_segments(line, base, self._level(line))
        if self.search is not None:
            name = "log--current" if number == self.match else "log--match"
            segments = mark_spans(segments, self.search.spans(line.text), self.styles(name))
        if line.removed:
            segments.append(Segment(REMOVED_SIGN, note))
        if line.cut:
            segments.append(Segment(cut_note(line.cut), note))
        body = Strip(segments)
        starts = row_starts(body.text, self.wrap_width) if self.wrap_width else [0]
        return Painted(self._head(number, base, note), body, line.cut, starts)

    def _level(self, line: Line) -> Style | None:
        """The colour of a line that says it is an error or a warning, where it has none of its own."""
        name = _LEVEL_STYLES.get(level_of(line.text))
        return self.styles(name) if name else None

    def _head(self, number: int, base: Style, note: Style) -> Strip:
        """The columns before the text: when the line was written, which of several sources it is of."""
        assert self.lines is not None
        segments = []
        if self.times:
            segments.append(Segment(_clock(self.lines.time(number)).ljust(_TIME_WIDTH), note))
        tag = clean(self.lines.tag(number))
        if width := cell_len(tag):
            self.tag_width = max(self.tag_width, width + 1)
        if self.tag_width:
            style = self._tags.setdefault(
                tag, Style(color=f"color({_TAG_COLOURS[len(self._tags) % len(_TAG_COLOURS)]})")
            )
            segments.append(Segment(tag + " " * (self.tag_width - width), base + style))
        return Strip(segments)


def cut_note(count: int) -> str:
    """Say how much of a line is not shown."""
    return f" … +{size_text(count)}"


def _clock(time: datetime | None) -> str:
    """The time of day where it was today, else the day too, without the seconds."""
    if time is None:
        return ""
    local = time.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == datetime.now().date() else f"{local:%m-%d %H:%M}"
