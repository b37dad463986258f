"""Dialogs: ask before what is dangerous, ask for a few values, show a text."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from footplate.logs.sanitise import clean
from footplate.widgets.choice import Choice

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
    """A question that starts on its harmless answer; with `typed`, the act needs that text typed first.

    What is typed while the harmless answer has the focus goes into the line for it.
    """

    AUTO_FOCUS = "#cancel"
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
            yield Static(Content("\n".join(clean(line) for line in self._text.splitlines())), classes="text")
            if self._typed:
                yield Static(Content(clean(f"Type {self._typed} to go on:")), classes="label")
                yield Input(id="typed", compact=True, select_on_focus=False)
            with Horizontal():
                yield Button(self._harmless, id="cancel", compact=True)
                yield Button(self._act, id="act", variant="error", disabled=bool(self._typed), compact=True)

    def on_key(self, event: events.Key) -> None:
        """A character that no button takes belongs to the line."""
        if self._typed and event.is_printable and event.character and event.character != " ":
            line = self.query_one("#typed", Input)
            if not line.has_focus:
                event.stop()
                line.focus()
                line.insert_text_at_cursor(event.character)

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
    """One value to ask for: typed, one of `choices`, or by f2 what `pick` lets one choose, given the value so far."""

    name: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    pick: Callable[[str], Awaitable[str | None]] | None = None


def expanded(typed: str) -> Path:
    """A folder as it was typed: `~` is the user's home, and what is relative lies in the current folder."""
    return Path(os.path.expanduser(typed or ".")).absolute()  # noqa: PTH111  # Path's own raises for no ~user


Verdict = tuple[str, bool]
"""What is said below the fields of a dialog, and whether its act can be done with what is typed."""


class FieldsDialog(ModalScreen[dict[str, str] | None]):
    """Ask for a few values; None when it was left. `judge` says with each key what the values so far come to.

    One whose act is `dangerous` starts on Cancel, and only its button acts: enter in a field leads to Cancel at last.
    """

    AUTO_FOCUS = ".editor"
    DEFAULT_CSS = (
        _FRAME.format(name="FieldsDialog")
        + """
    FieldsDialog #fields { height: auto; margin: 1 0 0 0; }
    FieldsDialog #fields Horizontal { height: 1; margin: 0; align-horizontal: left; }
    FieldsDialog #fields .label { width: 22; margin: 0; color: $text-muted; }
    FieldsDialog #fields .editor { width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; }
    FieldsDialog #fields .editor:focus { background: $primary-muted; }
    FieldsDialog #verdict { height: auto; margin: 1 0 0 0; }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("up", "app.focus_previous", "Field above", show=False),
        Binding("down", "app.focus_next", "Field below", show=False),
        Binding("left", "app.focus_previous", "Left", show=False),
        Binding("right", "app.focus_next", "Right", show=False),
        Binding("f2", "pick", "Choose from a list"),
    ]

    def __init__(
        self,
        title: str,
        text: str,
        act: str,
        fields: tuple[Field, ...],
        judge: Callable[[Mapping[str, str]], Verdict] | None = None,
        *,
        dangerous: bool = False,
    ) -> None:
        super().__init__()
        self._dangerous = dangerous
        self._title, self._text, self._act, self._fields, self._judge = title, text, act, fields, judge

    def compose(self) -> ComposeResult:
        """Title, text, the fields, what they come to, the two buttons."""
        with Vertical():
            yield Static(Content(clean(self._title)), classes="title")
            if self._text:
                yield Static(Content("\n".join(clean(line) for line in self._text.splitlines())), classes="text")
            with Vertical(id="fields"):
                for field in self._fields:
                    with Horizontal():
                        yield Static(Content(clean(f"{field.label}{'  f2' if field.pick else ''}")), classes="label")
                        yield self._editor(field)
            if self._judge is not None:
                yield Static("", id="verdict", markup=False)
            with Horizontal():
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(self._act, id="act", variant="error" if self._dangerous else "primary", compact=True)

    @staticmethod
    def _editor(field: Field) -> Input | Choice:
        if field.choices:
            return Choice(field.choices, field.value, id=f"field-{field.name}", classes="editor")
        return Input(field.value, id=f"field-{field.name}", classes="editor", compact=True)

    def on_mount(self) -> None:
        """Say what the first values come to."""
        for line in self.query(Input):
            line.cursor_blink = False
        if self._dangerous:
            self.set_focus(self.query_one("#cancel", Button))
        self._show_verdict()

    @property
    def values(self) -> dict[str, str]:
        """What is in the fields now."""
        return {field.name: self._widget(field.name).value.strip() for field in self._fields}

    def _widget(self, name: str) -> Input | Choice:
        widget = self.query_one(f"#field-{name}")
        assert isinstance(widget, Input | Choice)
        return widget

    @on(Input.Changed)
    @on(Choice.Changed)
    def _show_verdict(self) -> None:
        if self._judge is not None:
            said, can = self._judge(self.values)
            self.query_one("#verdict", Static).update(Content.styled(clean(said), "" if can else "$text-warning"))
            self.query_one("#act", Button).disabled = not can

    @on(Input.Submitted)
    @on(Choice.Opened)
    def _next(self) -> None:
        """Enter goes to the next field, from the last one it acts."""
        last = self._widget(self._fields[-1].name)
        if self.focused is last and not self._dangerous:
            self._done()
        else:
            self.focus_next()

    @work(exclusive=True, group="pick")
    async def action_pick(self) -> None:
        """Choose from a list what the field in focus holds."""
        field = next((f for f in self._fields if self._widget(f.name) is self.focused and f.pick), None)
        if field is not None and field.pick is not None:
            line = self._widget(field.name)
            chosen = await field.pick(line.value.strip())
            if chosen is not None and isinstance(line, Input):
                line.value = chosen

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "act":
            self._done()
        else:
            self.dismiss(None)

    def _done(self) -> None:
        if self._judge is None or self._judge(self.values)[1]:
            self.dismiss(self.values)

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
