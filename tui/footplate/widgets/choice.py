"""One line that holds one of a few words: left and right change it, enter opens the list."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from footplate.logs.sanitise import clean


class Choice(Widget, can_focus=True):
    """A choice among `choices`. A value that is none of them is shown, and left by the first key.

    With no choices at all it is a line that only opens something: its owner hears `Opened`.
    """

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; background: $panel; padding: 0 1; }
    Choice:focus { background: $primary-muted; text-style: bold; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "The one before"),
        Binding("right", "turn(1)", "The next"),
        Binding("enter,space", "open", "Choose from the list"),
    ]

    class Changed(Message):
        """Another word was chosen."""

        def __init__(self, choice: Choice, value: str) -> None:
            super().__init__()
            self.choice, self.value = choice, value

        @property
        def control(self) -> Choice:
            """The choice."""
            return self.choice

    class Opened(Message):
        """The list is wanted."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

        @property
        def control(self) -> Choice:
            """The choice."""
            return self.choice

    def __init__(
        self, choices: tuple[str, ...], value: str, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.choices = choices
        self._value = value

    @property
    def value(self) -> str:
        """The word that is chosen now."""
        return self._value

    def show(self, value: str) -> None:
        """Show another word without telling the owner, who knows."""
        if value != self._value:
            self._value = value
            self.refresh()

    def choose(self, value: str) -> None:
        """Choose a word and tell the owner."""
        if value != self._value:
            self.show(value)
            self.post_message(self.Changed(self, value))

    def render(self) -> Content:
        """The word, with the signs that it can be changed."""
        if not self.choices:
            return Content.assemble(clean(self._value), (" ▾", "$text-muted"))
        return Content.assemble(clean(self._value), (" ◂ ▸" if self.has_focus else " ▾", "$text-muted"))

    def on_click(self, event: events.Click) -> None:
        """A click opens the list."""
        event.stop()
        self.action_open()

    def action_turn(self, step: int) -> None:
        """Go on by one, round the ends."""
        if self.choices:
            at = self.choices.index(self._value) if self._value in self.choices else -1 if step > 0 else 0
            self.choose(self.choices[(at + step) % len(self.choices)])

    def action_open(self) -> None:
        """Say that the list is wanted."""
        self.post_message(self.Opened(self))
