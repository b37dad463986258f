"""The dialog that signs in by a device code: where to go, what to type there, and how far it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from footplate import words
from footplate.faults import unforeseen
from footplate.logs.sanitise import clean
from footplate.workspace import DeviceCode, WorkspaceError
from footplate.workspace.account import SignsIn


class SignInDialog(ModalScreen[bool]):
    """Asks for a code, shows it, and ends by itself when it was typed in: True, or False when it was left."""

    DEFAULT_CSS = """
    SignInDialog { align: center middle; background: $background 60%; }
    SignInDialog > Vertical { width: 76; max-width: 96%; height: auto; max-height: 95%; background: $surface; padding: 1 2; }
    SignInDialog Static { height: auto; }
    SignInDialog .title { text-style: bold; margin: 0 0 1 0; }
    SignInDialog #why, SignInDialog #state, SignInDialog .foot { color: $text-muted; }
    SignInDialog #code { margin: 1 0; padding: 1 2; background: $panel; display: none; }
    SignInDialog #code.shown { display: block; }
    SignInDialog .foot { margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Cancel"),
        Binding("y,c", "copy_code", "Copy the code"),
        Binding("a", "copy_address", "Copy the address"),
        Binding("r", "again", "Another code"),
    ]

    def __init__(self, workspace: SignsIn, why: str) -> None:
        super().__init__()
        self._workspace = workspace
        self._why = why
        self._code: DeviceCode | None = None
        self._under_way = False

    def compose(self) -> ComposeResult:
        """Why, where and what, how far, the keys."""
        with Vertical():
            yield Static(Content(f"Sign in to {clean(self._workspace.name)}"), classes="title")
            yield Static(Content(clean(self._why)), id="why")
            yield Static("", id="code", markup=False)
            yield Static("", id="state", markup=False)
            yield Static(Content("y copy the code   a copy the address   r another code   esc cancel"), classes="foot")

    def on_mount(self) -> None:
        """Ask for a code, and count down while it is good."""
        self.set_interval(1.0, self._show_time)
        self._sign_in()

    @work(exclusive=True, group="sign-in")
    async def _sign_in(self) -> None:
        self._code, self._under_way = None, True
        self.query_one("#code").remove_class("shown")
        self._say("Asking for a code …")
        try:
            await self._workspace.sign_in(lambda code: self.app.call_from_thread(self._show_code, code))
        except WorkspaceError as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            self._fail(unforeseen(error))
        else:
            self.dismiss(True)

    def _fail(self, sentence: str) -> None:
        self._under_way = False
        if self.is_attached:
            self.query_one("#code").remove_class("shown")
            self._say(sentence, "$text-error")

    def _show_code(self, code: DeviceCode) -> None:
        if not self.is_attached:
            return
        self._code = code
        self.query_one("#code", Static).update(
            Content.assemble(
                "In a browser on any machine, open\n",
                (clean(code.address), "bold"),
                "\nand type the code\n",
                (clean(code.code), "bold $text-accent"),
            )
        )
        self.query_one("#code").add_class("shown")
        self._show_time()

    def _show_time(self) -> None:
        if self._code is not None and self._under_way:
            left = max(0.0, (self._code.expires - datetime.now(UTC)).total_seconds())
            self._say(f"Waiting until it is typed in. The code is good for {words.span(left)}.")

    def _say(self, text: str, style: str = "") -> None:
        self.query_one("#state", Static).update(Content.styled(clean(text), style))

    def action_copy_code(self) -> None:
        """Hand the code to the terminal's clipboard, which goes through SSH."""
        if self._code is not None:
            self.app.copy_to_clipboard(self._code.code)
            self.notify("The code is in the clipboard, where the terminal allows it.", markup=False, timeout=4)

    def action_copy_address(self) -> None:
        """Hand the address to the terminal's clipboard."""
        if self._code is not None:
            self.app.copy_to_clipboard(self._code.address)
            self.notify("The address is in the clipboard, where the terminal allows it.", markup=False, timeout=4)

    def action_again(self) -> None:
        """Ask for another code."""
        self._sign_in()

    def action_leave(self) -> None:
        """Leave without signing in; the code leads to nothing any more."""
        self.dismiss(False)
