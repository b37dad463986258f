"""Which lines of a log are left to be seen: a text, a level, a time window, and how much stands round each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from footplate.logs.filtered import Wanted
from footplate.logs.levels import Level
from footplate.logs.search import compile_search

WINDOWS = (0, 1, 5, 15, 60)
"""Minutes before the end that the time window can be; 0 is all."""
LEVELS = (Level.NONE, Level.INFO, Level.WARNING, Level.ERROR)
MOST_AROUND = 20


@dataclass(frozen=True)
class Narrowing:
    """`pattern` as it was typed (`!` in front: all others), `around` lines before and after each. False: nothing is left out."""

    pattern: str = ""
    around: int = 0
    level: Level = Level.NONE
    minutes: int = 0
    since: datetime | None = None

    def __bool__(self) -> bool:
        return bool(self.pattern or self.level or self.since is not None)

    @property
    def text(self) -> str:
        """What is looked for, without what says that the others are wanted."""
        return self.pattern.removeprefix("!")

    def by(self, pattern: str) -> Narrowing:
        """By another text."""
        return replace(self, pattern=pattern if pattern.removeprefix("!") else "")

    def with_more(self, lines: int) -> Narrowing:
        """With so many lines more round each."""
        return replace(self, around=max(0, min(MOST_AROUND, self.around + lines)))

    def next_level(self) -> Narrowing:
        """From the next graver level up; after errors, all."""
        return replace(self, level=LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)])

    def next_window(self, end: datetime) -> Narrowing:
        """In the next longer time before the log's end; after an hour, all."""
        minutes = WINDOWS[(WINDOWS.index(self.minutes) + 1) % len(WINDOWS)]
        return replace(self, minutes=minutes, since=end - timedelta(minutes=minutes) if minutes else None)

    def wanted(self) -> Wanted:
        """As the lines themselves are asked for."""
        return Wanted(
            compile_search(self.text) if self.pattern else None,
            inverse=self.pattern.startswith("!"),
            before=self.around,
            after=self.around,
            least=self.level,
            since=self.since,
        )

    def said(self) -> list[str]:
        """What is in force, in words."""
        return [
            *([f"& {self.pattern}"] if self.pattern else []),
            *([f"level {self.level.name.lower()} up"] if self.level else []),
            *([f"since {self.since.astimezone():%H:%M:%S} ({self.minutes} min)"] if self.since is not None else []),
            *([f"±{self.around}"] if self.around else []),
        ]
