"""Choose a workspace on Azure: sign in, list what one may see, narrow it by typing; the choice is written into the settings."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from footplate import settings
from footplate.base_app import BaseApp
from footplate.faults import unforeseen
from footplate.logs.sanitise import clean
from footplate.operations import connect
from footplate.screens.choose import foot
from footplate.screens.sign_in import SignInDialog
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable
from footplate.workspace import NotSignedIn, WorkspaceError
from footplate.workspace.account import Account, FoundWorkspace, open_account


class ConnectScreen(ModalScreen[str | None]):
    """Gives the name under which the chosen workspace stands in the settings, or None when it was left.

    `name` is a workspace of the settings whose cloud and sign-in are used; with `new` the choice gets a table of its own, else
    that one is completed.
    """

    DEFAULT_CSS = """
    ConnectScreen { align: center middle; background: $background 60%; }
    ConnectScreen > Vertical { width: 96%; max-width: 132; height: 92%; background: $surface; padding: 0 2; }
    ConnectScreen .title { text-style: bold; height: 1; margin: 1 0 0 0; }
    ConnectScreen Input { height: 1; border: none; padding: 0 1; margin: 1 0; background: $panel; }
    ConnectScreen VirtualTable { padding: 0; }
    ConnectScreen #said { height: auto; max-height: 4; color: $text-muted; }
    ConnectScreen .foot { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("ctrl+r", "again", "Look again", show=False),
        Binding("f2", "sign_in", "Sign in by a code", show=False),
        Binding("escape", "leave", "Clear the line, then leave", show=False),
    ]

    def __init__(self, name: str, *, new: bool) -> None:
        super().__init__()
        self._wanted = name
        self._new = new
        self._account: Account | None = None
        self._found: dict[str, FoundWorkspace] = {}
        self._busy = self._moved = False

    def compose(self) -> ComposeResult:
        """Title, the line, the list, what is to be said, the keys."""
        columns = (
            Column("name", "WORKSPACE", None, minimum=20, priority=100),
            Column("group", "RESOURCE GROUP", None, minimum=16, priority=90),
            Column("subscription", "SUBSCRIPTION", None, minimum=16, priority=80),
            Column("region", "REGION", 16, priority=50),
        )
        keys = [("enter", "open"), ("f2", "sign in by a code"), ("^r", "look again"), ("esc", "back")]
        with Vertical():
            yield Static(Content("Connect to an Azure ML workspace"), classes="title")
            yield Input(placeholder="type to narrow the list", compact=True)
            table = VirtualTable(columns, marking=False)
            table.can_focus = False
            yield table
            yield Static("", id="said", markup=False)
            yield Static(foot(keys), classes="foot", markup=False)

    def on_mount(self) -> None:
        """Look at once."""
        line = self.query_one(Input)
        line.cursor_blink = False
        line.focus()
        self.action_again()

    @property
    def _table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    # Looking

    @work(exclusive=True, group="look")
    async def action_again(self) -> None:
        """List what the account sees."""
        try:
            await self._look()
        except NotSignedIn as error:
            if await self._ask_to_sign_in(str(error)):
                self.action_again()
            elif self.is_attached:
                self._say(str(error), "$text-error")
        except WorkspaceError as error:
            self._say(str(error), "$text-error")
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            self._say(unforeseen(error), "$text-error")

    async def _look(self) -> None:
        self._found = {}
        self._show()
        self._say("Signing in, and asking which subscriptions there are …")
        if self._account is None:
            self._account = open_account(self._wanted, settings.load())
        async for found in self._account.workspaces():
            self._found.update((one.key, one) for one in found)
            self._show()
            self._say(f"{self._count()} so far …")
        self._show()
        self._say(self._summary(), "$text-warning" if self._account.faults else "$text-muted")

    def _count(self) -> str:
        groups = len({one.subscription_id for one in self._found.values()})
        return f"{_number(len(self._found), 'workspace')} in {_number(groups, 'subscription')}"

    def _summary(self) -> str:
        assert self._account is not None
        by = f" Signed in by {self._account.signed_in_by}." if self._account.signed_in_by else ""
        faults = self._account.faults
        closed = f" {_number(len(faults), 'subscription')} did not answer: {faults[0]}" if faults else ""
        if not self._found:
            return f"This account sees no Azure ML workspace.{by} f2 signs in by another one.{closed}"
        return f"{self._count()}.{by}{closed}"

    async def _ask_to_sign_in(self, why: str) -> bool:
        assert self._account is not None
        done = await self.app.push_screen_wait(SignInDialog(self._account, why))
        return bool(done)

    @work(exclusive=True, group="look")
    async def action_sign_in(self) -> None:
        """Sign in by a code, as another account than the one at hand."""
        if self._account is not None and await self._ask_to_sign_in(""):
            self.action_again()

    # The list

    @on(Input.Changed)
    def _typed(self) -> None:
        self._moved = False
        self._show()

    def _show(self) -> None:
        wanted = self.query_one(Input).value.lower().split()
        ordered = sorted(self._found.values(), key=lambda one: (one.name.lower(), one.key))
        rows = [_row(one) for one in ordered if all(word in _text(one) for word in wanted)]
        table = self._table
        table.empty = "None of them fits what is typed." if self._found else ""
        table.set_rows(rows)
        if not self._moved:  # what comes later may belong before what is there
            table.action_top()

    def _say(self, text: str, style: str = "$text-muted") -> None:
        self.query_one("#said", Static).update(Content.styled(clean(text), style))

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        self._moved = True
        self._table.action_move(step)

    def action_page(self, step: int) -> None:
        """Move the cursor by a page."""
        self._moved = True
        self._table.action_page(step)

    # The choice

    @on(Input.Submitted)
    @on(VirtualTable.Selected)
    def _chosen(self) -> None:
        found = self._found.get(self._table.cursor_key or "")
        if found is not None and not self._busy:
            self._busy = True
            self._open(found)

    @work(group="open")
    async def _open(self, found: FoundWorkspace) -> None:
        """Write it into the settings, and leave."""
        assert self._account is not None
        try:
            name = await asyncio.to_thread(_remember, self._account, found, None if self._new else self._wanted)
            self.workers.cancel_group(self, "look")
            await self._account.close(leave_sign_in=True)
        except WorkspaceError as error:
            self._busy = False
            self._say(str(error), "$text-error")
        else:
            self._account = None
            self.dismiss(name)

    def action_leave(self) -> None:
        """Clear what was typed; without anything, leave without an answer."""
        line = self.query_one(Input)
        if line.value:
            line.value = ""
        else:
            self.dismiss(None)

    async def on_unmount(self) -> None:
        """Let go of the account."""
        if self._account is not None:
            await self._account.close()


def _row(one: FoundWorkspace) -> Row:
    return Row(one.key, (one.name, one.resource_group, one.subscription, Cell(one.region, "muted")))


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _text(one: FoundWorkspace) -> str:
    return f"{one.name} {one.resource_group} {one.subscription} {one.subscription_id} {one.region}".lower()


def _remember(account: Account, found: FoundWorkspace, name: str | None) -> str:
    """Write the workspace into the settings, unless it is there; gives its name in them. Raises Invalid."""
    loaded, table = settings.load(), account.table(found)
    if name is None and (known := connect.known_name(loaded, table)) is not None:
        return known
    name = name or connect.free_name(loaded, found.name)
    connect.write(loaded.file, name, table)
    return name


class ConnectApp(BaseApp[str]):
    """The connect screen as a program of its own, for a start with no workspace; ends with its name, or None."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._wanted = name

    def on_mount(self) -> None:
        """Show the one screen."""
        self.leave_on_signals()
        self.push_screen(ConnectScreen(self._wanted, new=False), self.exit)
