"""One line that is true or false: space turns it over."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget


class Flag(Widget, can_focus=True):
    """A switch, drawn so that it reads without colour."""

    DEFAULT_CSS = """
    Flag { height: 1; width: 1fr; background: $panel; padding: 0 1; }
    Flag:focus { background: $primary-muted; text-style: bold; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space,enter,left,right", "turn", "Turn it over")]

    class Changed(Message):
        """The switch was turned."""

        def __init__(self, flag: Flag, value: bool) -> None:
            super().__init__()
            self.flag, self.value = flag, value

        @property
        def control(self) -> Flag:
            """The switch."""
            return self.flag

    def __init__(self, value: bool, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.value = value

    def render(self) -> Content:
        """The state as sign and word."""
        sign = ("━━●", "$text-success") if self.value else ("●──", "$text-muted")
        return Content.assemble(sign, " true" if self.value else " false")

    def on_click(self, event: events.Click) -> None:
        """A click turns it."""
        event.stop()
        self.action_turn()

    def action_turn(self) -> None:
        """Turn it over and tell the owner."""
        self.value = not self.value
        self.refresh()
        self.post_message(self.Changed(self, self.value))
