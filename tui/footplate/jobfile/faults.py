"""What `check` finds in a file: each fault with its code, its place, a sentence and the next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from footplate.jobfile import nodes

Severity = Literal["error", "warning", "note"]
SEVERITIES = ("error", "warning", "note", "off")
"""What the settings can make of a code; `off` leaves it out."""


@dataclass(frozen=True)
class Code:
    """A kind of fault: its name, how grave it is unless the settings say otherwise, what it means, and a file that has it.

    In the example the line that the fault points at ends in `# here`, or the line before it is `# next line`. `needs` says
    what beyond the file is asked (`workspace`, `files`), so that its example alone does not show it.
    """

    id: str
    severity: Severity
    meaning: str
    example: str = ""
    needs: str = ""


@dataclass(frozen=True)
class Fault:
    """One fault. Line and column count from 1 and point at what has to change; `place` is its path in the document.

    `unreadable`: without what it says no job can be made of the file, whatever the code's kind.
    """

    code: str
    severity: Severity
    message: str
    hint: str
    line: int
    column: int
    place: nodes.Path = ()
    file: str = ""
    unreadable: bool = False

    @property
    def path(self) -> str:
        """The place as a dotted path; empty for the file as a whole."""
        return ".".join(map(str, self.place))

    @property
    def sentence(self) -> str:
        """The message and the hint."""
        return f"{self.message} {self.hint}".strip()

    def document(self) -> dict[str, Any]:
        """What `check --json` prints."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass
class Report:
    """Collects the faults of one file; knows where each path stands in its text."""

    text: str
    places: Mapping[nodes.Path, nodes.Place]
    file: str
    codes: Mapping[str, Code]
    severities: Mapping[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add(
        self,
        code: str,
        place: nodes.Path,
        message: str,
        hint: str = "",
        *,
        key: bool = False,
        within: str = "",
        severity: Severity | None = None,
        at: tuple[int, int] | None = None,
        unreadable: bool = False,
    ) -> None:
        """Note a fault at a path's value; at its key with `key`; at the text `within` the value where it stands there.

        A path that the file does not have points at the key of the nearest mapping above. `severity` overrides the
        code's own, and the settings override both.
        """
        grave = self.severities.get(code) or severity or self.codes[code].severity
        if grave == "off":
            return
        line, column = at or self._at(place, key=key, within=within)
        self.faults.append(
            Fault(code, grave, message, hint, line, column, place, self.file, unreadable)  # type: ignore[arg-type]
        )

    def has(self, place: nodes.Path) -> bool:
        """Whether an error at this very place is known already: one fault is told once."""
        return any(fault.place == place and fault.severity == "error" for fault in self.faults)

    def _at(self, place: nodes.Path, *, key: bool, within: str) -> tuple[int, int]:
        found = self.places.get(place)
        if found is None:
            while place and place not in self.places:
                place = place[:-1]
            return self.places[place].name if place else (1, 1)
        if within:
            offset = self.text.find(within, found.start, found.end)
            if offset >= 0:
                before = self.text.rfind("\n", 0, offset)
                return found.line + self.text.count("\n", found.start, offset), offset - before
        # A block of keys or items begins below its key; the key is what the reader looks for.
        return found.name if key or found.kind != "scalar" else (found.line, found.column)


_MOST_COMPARED = 2000
"""Comparing spellings is slow: against more names than this only another case is taken for a misspelling."""


def nearest(name: object, known: Iterable[str]) -> str:
    """The known name that is nearest to a misspelt one; empty where none is near. Case does not count."""
    wanted = str(name).lower()
    lower = {candidate.lower(): candidate for candidate in known}
    if wanted in lower or len(lower) > _MOST_COMPARED:
        return lower.get(wanted, "")
    near = difflib.get_close_matches(wanted, lower, 1, cutoff=0.6)
    return lower[near[0]] if near else ""


def known_names(names: Iterable[str], most: int = 8) -> str:
    """A list of names for a hint, cut where it would not be read."""
    every = list(names)
    shown = ", ".join(every[:most])
    return f"{shown} and {len(every) - most} more" if len(every) > most else shown or "none"
