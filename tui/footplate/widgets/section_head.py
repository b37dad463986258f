"""The heading of a part of a form: enter folds it to one line that says what is in it."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from footplate.logs.sanitise import clean
from footplate.widgets.fault_list import MARKS


class SectionHead(Widget, can_focus=True):
    """`▾ Inputs`, or folded `▸ Name  birds, distributed`, with the sign of the worst fault below it."""

    DEFAULT_CSS = """
    SectionHead { height: 1; width: 1fr; }
    SectionHead:focus { background: $primary-muted; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "Fold or unfold"),
        Binding("left", "fold(True)", "Fold"),
        Binding("right", "fold(False)", "Unfold"),
    ]

    class Folded(Message):
        """The part was folded, or unfolded."""

        def __init__(self, head: SectionHead) -> None:
            super().__init__()
            self.head = head

    def __init__(self, title: str, folded: bool) -> None:
        super().__init__()
        self.title, self.folded = title, folded
        self.summary = ""
        self.worst = ""

    def show(self, summary: str, worst: str) -> None:
        """Say what is in the part, and how grave its worst fault is."""
        if (summary, worst) != (self.summary, self.worst):
            self.summary, self.worst = summary, worst
            self.refresh()

    def render(self) -> Content:
        """The heading; what is in the part only where that is out of sight."""
        sign, style = MARKS.get(self.worst, ("", ""))
        title = Content.assemble(("▸ " if self.folded else "▾ ", "$text-muted"), (self.title, "bold $text-muted"))
        if not self.folded:
            return title
        text = Content.assemble(title, "  ", (f"{sign} " if sign else "", style), (clean(self.summary), "$text-muted"))
        return text.truncate(max(1, self.size.width), ellipsis=True)

    def on_click(self, event: events.Click) -> None:
        """A click folds."""
        event.stop()
        self.action_fold()

    def action_fold(self, fold: bool | None = None) -> None:
        """Fold, unfold, or the other of what it is."""
        wanted = not self.folded if fold is None else fold
        if wanted != self.folded:
            self.folded = wanted
            self.refresh()
            self.post_message(self.Folded(self))
