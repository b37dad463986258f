"""Several logs as one: the lines of all ranks interleaved, each with the tag of its rank.

What is kept is runs of lines of one log, as numbers in arrays: some twelve bytes a run, whatever the lines are like.
"""

from __future__ import annotations

import heapq
import re
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from footplate.logs.lines import Lines, Pattern, Place
from footplate.logs.sanitise import parse_line
from footplate.logs.times import time_in

BY_TIME = "by the lines' own time"
BY_ARRIVAL = "by arrival"
IN_SEQUENCE = "file after file: nothing says when its lines were written"

_TURN = 4_000
"""Lines ordered by time in one `scan()`."""
_TURN_RUNS = 30_000
"""Runs put together anew in one `scan()`."""
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(?:([.,])\d{3})?(?= )")
"""What most logs begin their lines with. Where all do in one and the same form, its bytes tell which line is older, at a fifth of
the cost of the moments that they mean."""
_Moment = datetime | bytes
_LOOK_BACK, _NEAR = 64, 4
"""Lines before one without a time (the frames of a traceback) of which one may have its time."""


class _Runs:
    """The order of lines: runs, each of consecutive lines of one source."""

    def __init__(self, sources: int) -> None:
        self.source = array("H")
        self.first = array("I")
        self.start = array("I")
        self.of = [array("I") for _ in range(sources)]
        """The runs of each source."""
        self.total = 0

    def add(self, source: int, first: int, count: int) -> None:
        """Put lines of a source at the end."""
        if not self.source or self.source[-1] != source or self._after_last() != first:
            self.of[source].append(len(self.source))
            self.source.append(source)
            self.first.append(first)
            self.start.append(self.total)
        self.total += count

    def _after_last(self) -> int:
        return self.first[-1] + self.total - self.start[-1]

    def count(self, run: int, total: int) -> int:
        """Lines of a run, where there are `total` in all."""
        return (self.start[run + 1] if run + 1 < len(self.start) else total) - self.start[run]

    def find(self, number: int) -> tuple[int, int]:
        """The source of a line and its number there."""
        run = bisect_right(self.start, number) - 1
        return self.source[run], self.first[run] + number - self.start[run]

    def number(self, source: int, line: int) -> int | None:
        """The number here of a line of a source; None where it is not here yet."""
        own, total = self.of[source], self.total
        place = bisect_right(own, line, key=self.first.__getitem__) - 1
        if place < 0:
            return None
        run = own[place]
        number = self.start[run] + line - self.first[run]
        return number if line - self.first[run] < self.count(run, total) else None

    def from_on(self, source: int, number: int, direction: int) -> int:
        """The line of a source that stands at `number` here or is the next from there on (or back); -1 for none before."""
        own = self.of[source]
        place = bisect_right(own, number, key=self.start.__getitem__) - 1
        if place < 0:
            return self.first[own[0]] if own and direction > 0 else -1
        run = own[place]
        within = number - self.start[run]
        count = self.count(run, self.total)
        return self.first[run] + (min(within, count - 1) if direction < 0 else min(within, count))


class Merged:
    """The lines of several logs as one. `order` says what put them in their order.

    What is there at first is interleaved by the times of the lines where all logs have them, else it stands file after file;
    what comes later, as it arrives. Lines that arrive between two looks are ordered by their times too. Muted sources are left
    out; their lines are known all the same.
    """

    def __init__(self, sources: Sequence[tuple[str, Lines]], muted: Collection[str] = ()) -> None:
        self.restarts = 0
        self._sources = list(sources)
        self._seen = [lines.restarts for _, lines in self._sources]
        self._all = _Runs(len(self._sources))
        self._shown = self._all
        self._being_shown: tuple[_Runs, int] | None = None  # what is put together anew, and up to which run
        self._muted = self._wanted = frozenset(muted)
        self._upto = [0] * len(self._sources)  # lines of each source that have their place
        self._last: list[_Moment | None] = [None] * len(self._sources)
        self._caught_up = [False] * len(self._sources)
        self._live = False
        self._order = ""
        self._timed = self._stamped = False
        self._joining: list[tuple[str, Lines]] = []
        if self._muted:
            self._shown = _Runs(len(self._sources))
            self._being_shown = self._shown, 0

    # What it is made of

    @property
    def order(self) -> str:
        """What put the lines in their order."""
        return self._order or BY_ARRIVAL

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the sources."""
        return tuple(tag for tag, _ in [*self._sources, *self._joining])

    @property
    def muted(self) -> frozenset[str]:
        """The tags of the sources that are left out."""
        return self._wanted

    def mute(self, tags: Collection[str]) -> None:
        """Leave out the sources of these tags and no others. The next `scan()` does it; the sources are not read again."""
        self._wanted = frozenset(tags)

    def join(self, tag: str, lines: Lines) -> None:
        """Take in another source, as of a rank that started later. The next `scan()` does it."""
        self._joining.append((tag, lines))

    def number(self, tag: str, line: int) -> int | None:
        """The number here of a line of a source; None where it is not shown."""
        source = next((i for i, (name, _) in enumerate(self._sources) if name == tag), None)
        return None if source is None else self._shown.number(source, line)

    # Lines

    @property
    def redraws(self) -> int:
        """How often a finished line of any source was drawn over."""
        return sum(lines.redraws for _, lines in self._sources)

    @property
    def size(self) -> int:
        """Bytes of all sources together."""
        return sum(lines.size for _, lines in self._sources)

    @property
    def lines(self) -> int:
        """Lines that have their place and are not muted."""
        return self._shown.total

    def complete(self, number: int) -> bool:
        """Whether a line has its end."""
        found = self._find(number)
        return found is not None and found[0].complete(found[1])

    def scan(self) -> bool:
        """Take in a piece of what is new of each source, and give it its place."""
        news, before = False, (self.lines, self.restarts)
        while self._joining:
            self._take_up(*self._joining.pop(0))
        for i, (_, lines) in enumerate(self._sources):
            more = lines.scan()
            self._caught_up[i] = self._caught_up[i] or not more
            news = news or more
        if any(lines.restarts != seen for (_, lines), seen in zip(self._sources, self._seen, strict=True)):
            self._begin_anew()
        if self._wanted != self._muted:
            self._begin_showing()
        more = self._take_in()
        more = self._show() or more
        return news or more or (self.lines, self.restarts) != before

    def display(self, number: int) -> tuple[bytes, int]:
        """At most 8 KiB of a line without its line end, and how many bytes of it were left out."""
        found = self._find(number)
        return found[0].display(found[1]) if found else (b"", 0)

    def raw(self, number: int) -> bytes:
        """The whole of a line, byte for byte, without its newline."""
        found = self._find(number)
        return found[0].raw(found[1]) if found else b""

    def place(self, number: int) -> Place:
        """Which line of which file this is."""
        found = self._find(number)
        return found[0].place(found[1]) if found else Place("", number)

    def tag(self, number: int) -> str:
        """The tag of the source that a line is of."""
        if not 0 <= number < self.lines:
            return ""
        return self._sources[self._shown.find(number)[0]][0]

    def time(self, number: int) -> datetime | None:
        """When a line was written as it says itself, else when it arrived."""
        found = self._find(number)
        return found[0].time(found[1]) if found else None

    def search(self, pattern: Pattern, start: int, direction: int = 1) -> Iterator[int]:
        """The numbers of the lines that match, from `start` on or back, in the order of all."""
        shown = self._shown
        if not shown.total:
            return
        start = min(max(start, 0), shown.total - 1) if direction < 0 else max(start, 0)
        if start >= shown.total:
            return
        found = [
            self._search_one(shown, i, pattern, start, direction) for i in range(len(self._sources)) if shown.of[i]
        ]
        yield from heapq.merge(*found, reverse=direction < 0)

    def _search_one(self, shown: _Runs, i: int, pattern: Pattern, start: int, direction: int) -> Iterator[int]:
        begin = shown.from_on(i, start, direction)
        if begin < 0:
            return
        for line in self._sources[i][1].search(pattern, begin, direction):
            number = shown.number(i, line)
            if number is None:
                if direction > 0:
                    return  # it has no place yet
                continue
            yield number

    def close(self) -> None:
        """Close the sources."""
        for _, lines in [*self._sources, *self._joining]:
            lines.close()

    def _find(self, number: int) -> tuple[Lines, int] | None:
        shown = self._shown
        if not 0 <= number < shown.total:
            return None
        source, line = shown.find(number)
        return self._sources[source][1], line

    # Giving lines their places, by the one thread that scans

    def _take_up(self, tag: str, lines: Lines) -> None:
        being_shown = [self._being_shown[0]] if self._being_shown else []
        for runs in {id(runs): runs for runs in (self._all, self._shown, *being_shown)}.values():
            runs.of.append(array("I"))
        self._upto.append(0)
        self._last.append(None)
        self._caught_up.append(False)
        self._seen.append(lines.restarts)
        self._sources.append((tag, lines))

    def _begin_anew(self) -> None:
        """A source turned out to be another: its lines had places that mean nothing any more."""
        self._seen = [lines.restarts for _, lines in self._sources]
        self._all = _Runs(len(self._sources))
        self._upto = [0] * len(self._sources)
        self._last = [None] * len(self._sources)
        self._caught_up = [False] * len(self._sources)
        self._live, self._order, self._timed, self._stamped = False, "", False, False
        self._begin_showing()

    def _begin_showing(self) -> None:
        self._muted = self._wanted
        if self._muted.isdisjoint(self.tags):
            self._shown, self._being_shown = self._all, None
            self.restarts += 1
        else:
            self._being_shown = _Runs(len(self._sources)), 0

    def _show(self) -> bool:
        """Go on leaving out what is muted; whether there is more to do."""
        if self._being_shown is None:
            return False
        runs, at = self._being_shown
        there, total = self._all, self._all.total
        silent = {i for i, (tag, _) in enumerate(self._sources) if tag in self._muted}
        # A run may have grown since it was looked at: the last one is looked at again.
        end = min(len(there.source), at + _TURN_RUNS)
        for run in range(at, end):
            if (source := there.source[run]) not in silent:
                first, count = there.first[run], there.count(run, total)
                known = runs.number(source, first)
                done = 0 if known is None else runs.total - known
                if count > done:
                    runs.add(source, first + done, count - done)
        more = end < len(there.source)
        self._being_shown = runs, end if more else max(0, end - 1)
        if not more and self._shown is not runs:
            self._shown = runs
            self.restarts += 1
        return more

    def _take_in(self) -> bool:
        """Give places to lines that have none; whether there is more to do at once."""
        pending = [i for i, (_, lines) in enumerate(self._sources) if lines.lines > self._upto[i]]
        if not self._live and all(self._caught_up):
            self._live = not pending
        if not pending:
            return False
        if not self._order and not self._live:
            if not all(self._caught_up[i] or self._sources[i][1].lines for i in range(len(self._sources))):
                return False  # the first piece of each tells whether its lines have times
            self._order = self._order_of(pending)
        if self._live:
            if not self._order:
                self._order, self._stamped = BY_ARRIVAL, self._all_stamped(pending)
            if len(pending) > 1 and all(self._first_time(i) is not None for i in pending):
                return self._by_time(pending, whole=True)
            for i in pending:
                self._add(i, self._sources[i][1].lines)
            return False
        if self._timed:
            return self._by_time(pending, whole=False)
        for i in range(len(self._sources)):
            if self._sources[i][1].lines > self._upto[i]:
                self._add(i, self._sources[i][1].lines)
            if not self._caught_up[i]:
                break  # the next file begins where this one ends
        if all(self._caught_up):
            self._live = True
        return False

    def _add(self, i: int, upto: int) -> None:
        self._all.add(i, self._upto[i], upto - self._upto[i])
        self._upto[i] = upto

    def _order_of(self, pending: Sequence[int]) -> str:
        """What can put in order the lines that are there at first."""
        self._stamped = self._all_stamped(pending)
        self._timed = all(self._first_time(i) is not None for i in pending)
        if not self._timed:
            return IN_SEQUENCE if len(pending) > 1 else BY_ARRIVAL
        return BY_TIME if all(self._says_itself(i) for i in pending) else BY_ARRIVAL

    def _says_itself(self, i: int) -> bool:
        """Whether one of the next lines of a source states its time."""
        lines, at = self._sources[i][1], self._upto[i]
        near = range(at, min(at + _LOOK_BACK, lines.lines))
        return any(time_in(parse_line(*lines.display(number)).text) is not None for number in near)

    def _all_stamped(self, pending: Sequence[int]) -> bool:
        forms = {self._form(i) for i in pending}
        return len(forms) == 1 and None not in forms

    def _form(self, i: int) -> tuple[bytes | None, ...] | None:
        """The form of the time that the first of the next lines of a source begins with; None where it has none."""
        lines, at = self._sources[i][1], self._upto[i]
        near = range(at, min(at + _LOOK_BACK, lines.lines))
        found = next((match for number in near if (match := _STAMP.match(lines.display(number)[0]))), None)
        return found.groups() if found else None

    def _told(self, i: int, line: int) -> _Moment | None:
        """What a line itself tells of its time."""
        if not self._stamped:
            return self._sources[i][1].time(line)
        found = _STAMP.match(self._sources[i][1].display(line)[0])
        return found[0] if found else None

    def _first_time(self, i: int) -> _Moment | None:
        """The time of the next line of a source, that of a line shortly before or after it where it has none itself."""
        lines, at = self._sources[i][1], self._upto[i]
        if self._last[i] is not None:
            return self._time(i, at)
        near = range(at, min(at + (_NEAR if self._live else _LOOK_BACK), lines.lines))
        return next((time for number in near if (time := self._told(i, number)) is not None), None)

    def _time(self, i: int, line: int) -> _Moment | None:
        """The time of a line; of one that has none, that of the line before."""
        time = self._told(i, line)
        if time is None:
            return self._last[i]
        self._last[i] = time
        return time

    def _by_time(self, pending: Sequence[int], whole: bool) -> bool:
        """Interleave by time as far as all sources are known; with `whole` all that is there."""
        heads: list[tuple[Any, int]] = []  # all moments, or all bytes
        for i in pending:
            if (time := self._first_time(i)) is not None:
                heads.append((time, i))
        waiting = [] if whole else [i for i in range(len(self._sources)) if not self._caught_up[i] and i not in pending]
        if waiting:
            return False
        heapq.heapify(heads)
        turns = 0
        while heads:
            time, i = heapq.heappop(heads)
            lines, line = self._sources[i][1].lines, self._upto[i]
            until = heads[0] if heads else None
            end = line + 1
            while end < lines and turns < _TURN:
                turns += 1
                after = self._time(i, end)
                if until is not None and after is not None and (after, i) > until:
                    time = after
                    break
                end += 1
            self._add(i, end)
            if end < lines:
                heapq.heappush(heads, (time, i))
                if turns >= _TURN:
                    return True
            elif not whole and not self._caught_up[i]:
                return False  # what it says next may be older than what the others have
        return False
