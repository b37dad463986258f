"""The keys of an endpoint: hidden until asked for, copied, made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from footplate.logs.sanitise import clean
from footplate.screens.choose import foot
from footplate.screens.dialogs import ConfirmDialog
from footplate.workspace import Endpoint, Keys

if TYPE_CHECKING:
    from footplate.app import FootplateApp

Which = Literal["primary", "secondary"]
_HIDDEN = "•" * 24


class KeysDialog(ModalScreen[None]):
    """Shows that there are keys; `s` shows them, `y` and `Y` copy one, `p` and `P` make one anew after asking."""

    DEFAULT_CSS = """
    KeysDialog { align: center middle; background: $background 60%; }
    KeysDialog > Vertical { width: 84; max-width: 96%; height: auto; background: $surface; padding: 1 2; }
    KeysDialog Static { height: auto; }
    KeysDialog .title { text-style: bold; }
    KeysDialog #keys { margin: 1 0; }
    KeysDialog .foot { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Close"),
        Binding("s", "show", "Show them, or hide them again"),
        Binding("y", "copy('primary')", "Copy the primary key"),
        Binding("Y", "copy('secondary')", "Copy the secondary key"),
        Binding("p", "renew('primary')", "Make the primary key anew"),
        Binding("P", "renew('secondary')", "Make the secondary key anew"),
    ]

    def __init__(self, endpoint: Endpoint, keys: Keys) -> None:
        super().__init__()
        self._endpoint, self._keys = endpoint, keys
        self._shown = False

    @property
    def console(self) -> FootplateApp:
        """The app, by its own type."""
        return cast("FootplateApp", self.app)

    def compose(self) -> ComposeResult:
        """Which endpoint, its keys, what can be done."""
        renew = () if self.console.read_only or self._endpoint.auth_mode != "key" else (("p P", "new ones"),)
        with Vertical():
            yield Static(Content(clean(f"Keys of {self._endpoint.name}")), classes="title")
            yield Static("", id="keys", markup=False)
            yield Static(
                foot((("s", "show"), ("y Y", "copy primary, secondary"), *renew, ("esc", "close"))),
                classes="foot",
                markup=False,
            )

    def on_mount(self) -> None:
        """Hidden at first."""
        self._show_keys()

    def _show_keys(self) -> None:
        rows = [
            Content.assemble((f"{name:<11}", "$text-muted"), clean(key) if self._shown else _HIDDEN)
            for name, key in (("primary", self._keys.primary), ("secondary", self._keys.secondary))
            if key
        ]
        self.query_one("#keys", Static).update(Content("\n").join(rows or [Content("It has none.")]))

    def action_show(self) -> None:
        """Show the keys, or hide them again."""
        self._shown = not self._shown
        self._show_keys()

    def action_copy(self, which: Which) -> None:
        """Hand a key to the terminal's clipboard."""
        key = self._keys.primary if which == "primary" else self._keys.secondary
        if key:
            self.app.copy_to_clipboard(key)
            self.notify(f"The {which} key is in the clipboard, where the terminal allows it.", markup=False, timeout=4)

    @work(exclusive=True, group="renew")
    async def action_renew(self, which: Which) -> None:
        """Make a key anew, after asking."""
        console = self.console
        if console.read_only or self._endpoint.auth_mode != "key" or console.cannot("regenerate_key"):
            return
        text = (
            f"The {which} key of now is refused from then on: whoever uses it gets 401 until it has the new one.\n"
            f"Endpoint {self._endpoint.name}, workspace {console.workspace_name}."
        )
        if await console.push_screen_wait(ConfirmDialog(f"Make the {which} key anew?", text, "Make anew")):
            self.notify(f"Asking for a new {which} key …", markup=False, timeout=4)
            keys = await console.attempt(console.workspace.regenerate_key(self._endpoint.name, which))
            if keys is not None and self.is_attached:
                self._keys = keys
                self._show_keys()
                self.notify(f"The {which} key is new.", markup=False, timeout=4)

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)
