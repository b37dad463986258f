"""The list of all faults of a job file, the gravest first, with how many there are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from footplate.jobfile.faults import Fault
from footplate.logs.sanitise import clean

MARKS = {"error": ("✗", "$text-error"), "warning": ("⚠", "$text-warning"), "note": ("i", "$text-muted")}
"""The sign of each severity, which is told apart without colour, and its colour."""


def fault_lines(fault: Fault, width: int, numbered: bool = True) -> list[Content]:
    """A fault as lines of at most `width` cells: its sign, with `numbered` its line in the file, the sentence, the hint."""
    sign, style = MARKS[fault.severity]
    where = f"line {fault.line}: " if numbered and fault.line else ""
    text = clean(f"{where}{fault.sentence}")
    wrapped = textwrap.wrap(text, max(10, width - 2), break_on_hyphens=False) or [""]
    return [
        Content.assemble((f"{sign if first else ' '} ", style), (line, style))
        for first, line in ((number == 0, line) for number, line in enumerate(wrapped))
    ]


def counts(faults: Sequence[Fault]) -> str:
    """`2 errors · 1 warning`; empty for none."""
    words = (("error", "error"), ("warning", "warning"), ("note", "note"))
    found = [(sum(f.severity == severity for f in faults), word) for severity, word in words]
    return " · ".join(f"{count} {word}{'s' * (count > 1)}" for count, word in found if count)


MOST = 100
"""Of a list: nobody reads more, and each is wrapped anew where the width changes."""


class _Faults(Widget):
    """The lines of the list."""

    DEFAULT_CSS = """
    _Faults { height: auto; width: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.faults: tuple[Fault, ...] = ()
        self._wrapped: tuple[tuple[Fault, ...], int, list[Content]] = ((), 0, [])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the sentences take."""
        return len(self._lines(width))

    def render(self) -> Content:
        """Every fault, up to `MOST`."""
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> list[Content]:
        faults, wrapped_at, lines = self._wrapped
        if faults is not self.faults or wrapped_at != width:
            lines = [line for fault in self.faults[:MOST] for line in fault_lines(fault, width)]
            if len(self.faults) > MOST:
                lines.append(
                    Content.styled(f"… and {len(self.faults) - MOST} more: footplate check lists all", "$text-muted")
                )
            self._wrapped = (self.faults, width, lines)
        return lines


class FaultList(Widget):
    """A heading with the count, and the faults below it, as many as there is room for; the rest scrolls."""

    DEFAULT_CSS = """
    FaultList { height: auto; max-height: 40%; width: 1fr; padding: 0 1; }
    FaultList > VerticalScroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; margin: 1 0 0 0; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.faults: tuple[Fault, ...] = ()
        self._known = False

    def compose(self) -> ComposeResult:
        """The lines, below the drawn heading."""
        with VerticalScroll(can_focus=False):
            yield _Faults()

    def show(self, faults: Sequence[Fault]) -> None:
        """Show these faults, the gravest first, each grade in the order of the file."""
        grades = tuple(MARKS)
        ordered = tuple(sorted(faults, key=lambda fault: (grades.index(fault.severity), fault.line)))
        if self._known and ordered == self.faults:
            return
        self._known, self.faults = True, ordered
        inner = self.query_one(_Faults)
        inner.faults = self.faults
        inner.refresh(layout=True)
        self.refresh(layout=True)

    def render(self) -> Content:
        """The heading; what is below it is a child."""
        said = counts(self.faults) or ("none found" if self._known else "looking …")
        grave = any(fault.severity == "error" for fault in self.faults)
        style = "$text-error" if grave else "$text-warning" if self.faults else "$text-muted"
        return Content.assemble(("Faults  ", "bold $text-muted"), (said, style))
