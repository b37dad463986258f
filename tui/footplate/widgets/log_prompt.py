"""The line below a log in which something is typed: what to search or filter for, where to go, where to save."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from footplate.logs.sanitise import clean


class LogPrompt(Horizontal):
    """Asks for one thing at a time, and is gone when there is nothing to ask. What is wrong with an answer stands beside it."""

    DEFAULT_CSS = """
    LogPrompt { height: 1; display: none; background: $panel; }
    LogPrompt.asking { display: block; }
    LogPrompt #asked { width: auto; padding: 0 1; color: $text-accent; }
    LogPrompt Input { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    LogPrompt #remark { width: auto; max-width: 70%; height: 1; padding: 0 1; color: $text-warning; }
    """

    class Answered(Message):
        """Enter was pressed: what was asked for, and what was typed."""

        def __init__(self, what: str, typed: str) -> None:
            super().__init__()
            self.what = what
            self.typed = typed

    class Left(Message):
        """It was left without an answer."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.what = ""
        """What is asked for; empty where nothing is."""
        self._typed: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """What is asked, the line, what is wrong."""
        yield Static("", id="asked", markup=False)
        line = Input(compact=True, select_on_focus=True)
        line.cursor_blink = False
        yield line
        yield Static("", id="remark", markup=False)

    @property
    def line(self) -> Input:
        """Where it is typed."""
        return self.query_one(Input)

    def ask(self, what: str, label: str, hint: str = "", value: str | None = None) -> None:
        """Ask; the line begins with a value, else with what was answered the last time."""
        self.what = what
        self.add_class("asking")
        self.query_one("#asked", Static).update(Content(label))
        self.remark(hint, quiet=True)
        self.line.value = self._typed.get(what, "") if value is None else value
        self.screen.set_focus(self.line)  # at once: what is typed next is meant for it

    def take(self, key: events.Key) -> None:
        """Have a key as if it had been typed here: it was on its way to the log when the line was opened."""
        self.line.post_message(events.Key(key.key, key.character))

    def remark(self, text: str, quiet: bool = False) -> None:
        """Say something beside the line."""
        self.query_one("#remark", Static).update(
            Content.styled(clean(text), "$text-muted" if quiet else "$text-warning")
        )

    def done(self) -> None:
        """Ask no more."""
        if self.what:
            self._typed[self.what] = self.line.value
        self.what = ""
        self.remove_class("asking")

    @on(Input.Submitted)
    def _answered(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Answered(self.what, event.value))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()

    def on_key(self, event: events.Key) -> None:
        """Leave it by escape."""
        if event.key == "escape" and self.what:
            event.stop()
            event.prevent_default()
            self.what = ""
            self.remove_class("asking")
            self.post_message(self.Left())
