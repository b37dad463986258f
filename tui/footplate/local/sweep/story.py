"""The log of a sweep: one line a decision, in words that an operator reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from footplate.logs.sanitise import clean


class Story:
    """Appends to one file, in UTC. A full disk has no room for it, and the sweep goes on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._told: set[str] = set()

    def tell(self, line: str, *, once: bool = False) -> None:
        """Add a line; with `once` only where this very line was not told before."""
        if once and line in self._told:
            return
        self._told.add(line)
        try:
            with self._file.open("a", encoding="utf-8") as log:
                log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {clean(line)}\n")
        except OSError:
            return
