"""What every screen shares: its two lines, its keys, and how faults are shown."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.screen import Screen

from footplate.actions import actions
from footplate.faults import record
from footplate.widgets.chrome import KeyLine, TopLine
from footplate.workspace import Workspace, WorkspaceError

if TYPE_CHECKING:
    from footplate.app import FootplateApp


def bindings(where: str) -> list[BindingType]:
    """The bindings of one place, from the table of actions."""
    return [Binding(a.keys, a.id, a.title, show=False, priority=a.priority) for a in actions(where)]


class ConsoleScreen(Screen[None]):
    """A screen between the top line and the key line. `where` is its name in the table of actions."""

    where: ClassVar[str] = ""

    DEFAULT_CSS = """
    ConsoleScreen { layout: vertical; }
    """

    @property
    def console(self) -> FootplateApp:
        """The app, by its own type."""
        return cast("FootplateApp", self.app)

    @property
    def workspace(self) -> Workspace:
        """The workspace that is open."""
        return self.console.workspace

    def top(self) -> TopLine:
        """The first line, with the workspace and this screen as crumbs."""
        line = TopLine()
        line.crumbs = (self.console.workspace_name, *self.crumbs())
        line.place = self.console.place
        line.status = self.console.summary
        line.watch(self.console, "summary", lambda text: setattr(line, "status", text))
        return line

    def keys(self) -> KeyLine:
        """The last line."""
        return KeyLine([a for a in actions(self.where) if not (a.changes and self.console.read_only)])

    def crumbs(self) -> tuple[str, ...]:
        """Where this screen is, below the workspace."""
        return (self.where,)

    def set_crumbs(self) -> None:
        """Show the crumbs again after they changed."""
        self.query_one(TopLine).crumbs = (self.console.workspace_name, *self.crumbs())

    async def guarded(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await workspace work; a fault becomes a notice. Returns None after a fault."""
        try:
            return await work
        except WorkspaceError as error:
            self.console.tell_fault(error)
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            file = record(error)
            self.console.notify(
                f"footplate met a fault it did not foresee: {error!r}. The traceback is in {file}.",
                severity="error",
                markup=False,
                timeout=12,
            )
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In a read-only workspace the keys that change something do nothing."""
        if self.console.read_only and any(a.id == action and a.changes for a in actions(self.where)):
            return False
        return super().check_action(action, parameters)

    def action_back(self) -> None:
        """One step back."""
        self.console.step_back()
