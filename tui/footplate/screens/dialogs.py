"""Dialogs: ask before what is dangerous, ask for a few values, show a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from footplate.logs.sanitise import clean

_FRAME = """
    {name} {{ align: center middle; background: $background 60%; }}
    {name} > Vertical {{ width: 72; max-width: 95%; height: auto; max-height: 90%; background: $surface; padding: 1 2; }}
    {name} .title {{ text-style: bold; height: auto; }}
    {name} .text {{ height: auto; margin: 1 0 0 0; color: $text-muted; }}
    {name} Vertical > Input {{ margin: 0; height: 1; border: none; padding: 0 1; background: $panel; }}
    {name} .label {{ margin: 1 0 0 0; height: 1; }}
    {name} Horizontal {{ height: auto; margin: 1 0 0 0; align-horizontal: right; }}
    {name} Horizontal > Button {{ margin: 0 0 0 2; min-width: 12; }}
"""


class ConfirmDialog(ModalScreen[bool]):
    """A question that starts on its harmless answer; with `typed`, the act needs that text typed first."""

    AUTO_FOCUS = "#typed, #cancel"
    DEFAULT_CSS = _FRAME.format(name="ConfirmDialog")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "answer(False)", "Cancel"),
        Binding("left", "app.focus_previous", "Left", show=False),
        Binding("right", "app.focus_next", "Right", show=False),
    ]

    def __init__(self, title: str, text: str, act: str, typed: str = "", harmless: str = "Cancel") -> None:
        super().__init__()
        self._title, self._text, self._act, self._typed, self._harmless = title, text, act, typed, harmless

    def compose(self) -> ComposeResult:
        """Title, what hangs on it, the typed name, the two buttons."""
        with Vertical():
            yield Static(Content(clean(self._title)), classes="title")
            yield Static(Content(self._text), classes="text")
            if self._typed:
                yield Static(Content(f"Type {self._typed} to go on:"), classes="label")
                yield Input(id="typed", compact=True)
            with Horizontal():
                yield Button(self._harmless, id="cancel", compact=True)
                yield Button(self._act, id="act", variant="error", disabled=bool(self._typed), compact=True)

    @on(Input.Changed)
    def _typing(self, event: Input.Changed) -> None:
        self.query_one("#act", Button).disabled = event.value != self._typed

    @on(Input.Submitted)
    def _typed_whole(self, event: Input.Submitted) -> None:
        if event.value == self._typed:
            self.dismiss(True)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "act")

    def action_answer(self, answer: bool) -> None:
        """Answer by a key."""
        self.dismiss(answer)


@dataclass(frozen=True)
class Field:
    """One value to ask for."""

    name: str
    label: str
    value: str = ""


class FieldsDialog(ModalScreen[dict[str, str] | None]):
    """Ask for a few values; None when it was left."""

    AUTO_FOCUS = "Input"
    DEFAULT_CSS = _FRAME.format(name="FieldsDialog")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    def __init__(self, title: str, text: str, act: str, fields: tuple[Field, ...]) -> None:
        super().__init__()
        self._title, self._text, self._act, self._fields = title, text, act, fields

    def compose(self) -> ComposeResult:
        """Title, text, the fields, the two buttons."""
        with Vertical():
            yield Static(Content(clean(self._title)), classes="title")
            if self._text:
                yield Static(Content(self._text), classes="text")
            for field in self._fields:
                yield Static(Content(field.label), classes="label")
                yield Input(field.value, id=f"field-{field.name}", compact=True)
            with Horizontal():
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(self._act, id="act", variant="primary", compact=True)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        inputs = list(self.query(Input))
        if event.input is inputs[-1]:
            self._done()
        else:
            inputs[inputs.index(event.input) + 1].focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "act":
            self._done()
        else:
            self.dismiss(None)

    def _done(self) -> None:
        self.dismiss(
            {field.name: self.query_one(f"#field-{field.name}", Input).value.strip() for field in self._fields}
        )

    def action_leave(self) -> None:
        """Leave without an answer."""
        self.dismiss(None)


class TextDialog(ModalScreen[None]):
    """A text to read: a log's end, a raw answer, the help. Every character of it is data."""

    AUTO_FOCUS = "VerticalScroll"  # keys scroll the text
    DEFAULT_CSS = """
    TextDialog { align: center middle; background: $background 60%; }
    TextDialog > Vertical { width: 90%; height: 90%; background: $surface; padding: 1 2; }
    TextDialog .title { text-style: bold; height: 1; }
    TextDialog .foot { height: 1; color: $text-muted; }
    TextDialog VerticalScroll { height: 1fr; margin: 1 0; scrollbar-size-vertical: 1; }
    TextDialog #text { height: auto; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "leave", "Close"),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, text: str | Content) -> None:
        super().__init__()
        self._title = title
        self._text = (
            text if isinstance(text, Content) else Content("\n".join(clean(line) for line in text.splitlines()))
        )

    def compose(self) -> ComposeResult:
        """Title, text, how to leave."""
        with Vertical():
            yield Static(Content(clean(self._title)), classes="title")
            with VerticalScroll():
                yield Static(self._text, id="text", markup=False)
            yield Static(Content("esc back   j k scroll"), classes="foot")

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)
