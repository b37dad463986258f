"""The card of a failed job: what is told of its failure, and how each of its ranks fared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from footplate.logs.failure_kinds import UNKNOWN, exit_words, signal_of
from footplate.logs.progress import Progress
from footplate.logs.tracebacks import Frame

LONGEST = 300
"""Characters of one line on a card."""


@dataclass(frozen=True)
class RankStory:
    """How one rank fared: its end, the last step and line it told, and what it said of its failure."""

    rank: int
    node: int
    exit_code: int | None
    progress: Progress
    last_line: str
    said: str
    file: str = ""

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it."""
        return None if self.exit_code is None else signal_of(self.exit_code)

    @property
    def ended(self) -> str:
        """Its end in words, empty where it is not known."""
        if self.exit_code is None:
            return ""
        if self.exit_code == 0:
            return "ended well"
        return f"exit code {self.exit_code}: {exit_words(self.exit_code)[1]}"

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "rank": self.rank,
            "node": self.node,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "last_step": self.progress.step,
            "last_epoch": self.progress.epoch,
            "last_line": self.last_line or None,
            "said": self.said or None,
            "file": self.file or None,
        }


@dataclass(frozen=True)
class Card:
    """Why a job failed. `line` counts from 1, and is None where the log was not read from its beginning."""

    rank: int | None
    node: int | None
    file: str
    line: int | None
    kind: str
    exception: str
    message: str
    sentence: str
    next_step: str
    lines: tuple[str, ...]
    """The traceback, or the last lines."""
    is_traceback: bool = False
    origin: Frame | None = None
    """Where in the job's own code."""
    then: tuple[str, ...] = ()
    """What the exception led to in the same rank, where others were raised from it."""
    ranks: tuple[RankStory, ...] = ()
    never_arrived: tuple[int, ...] = ()
    anchor: str = ""
    """The line of the log that the card is about, as it stands there without its prefix."""

    @property
    def is_told(self) -> bool:
        """Whether a line of the logs tells the cause, rather than an exit code or nobody."""
        return bool(self.exception) or (self.kind != UNKNOWN.id and bool(self.message) and bool(self.file))

    def covers(self, error: str) -> bool:
        """Whether all that a workspace says of the failure stands on the card."""
        first = (self.message or self.exception).partition("\n")[0][:80]
        return "\n" not in error.strip() and bool(first) and first in error

    @property
    def headline(self) -> str:
        """The failure in one line: `rank 1: ValueError: cannot decode …`."""
        told = (
            f"{self.exception}: {self.message}" if self.exception and self.message else self.exception or self.message
        )
        code = next((one.exit_code for one in self.ranks if one.rank == self.rank and one.exit_code), None)
        if not told and code is not None:
            told = f"ended by {name}" if (name := signal_of(code)) else f"ended with exit code {code}"
        told = (told or self.sentence).partition("\n")[0]
        told = f"{told[: LONGEST - 1]}…" if len(told) > LONGEST else told
        return f"rank {self.rank}: {told}" if self.rank is not None and len(self.ranks) > 1 else told

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "rank": self.rank,
            "node": self.node,
            "file": self.file or None,
            "line": self.line,
            "kind": self.kind,
            "exception": self.exception or None,
            "message": self.message or None,
            "sentence": self.sentence,
            "next_step": self.next_step,
            "source": None if self.origin is None else f"{self.origin.file}:{self.origin.line}",
            "traceback": "\n".join(self.lines) if self.is_traceback else None,
            "last_lines": [] if self.is_traceback else list(self.lines),
            "then": list(self.then),
            "ranks": [story.document() for story in self.ranks],
            "never_arrived": list(self.never_arrived),
        }
