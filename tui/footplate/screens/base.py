"""What every screen shares: its two lines, its keys, and how faults are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import work
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.screen import Screen

from footplate import clipboard, paths
from footplate.actions import actions
from footplate.faults import record, unforeseen
from footplate.logs.sanitise import clean
from footplate.widgets.chrome import KeyLine, TopLine
from footplate.workspace import NotSignedIn, Throttled, Workspace, WorkspaceError

if TYPE_CHECKING:
    from footplate.app import FootplateApp

T = TypeVar("T")
_SIGN_IN_SECONDS = 15.0
"""After a look that failed for want of a sign-in, the next: each may start other programs."""
_EARLY_SECONDS = 0.2
"""A timer's tick that comes so much too early counts as due."""


def pause_after(error: WorkspaceError) -> float:
    """Seconds in which nobody should ask again."""
    if isinstance(error, Throttled):
        return error.retry_after
    return _SIGN_IN_SECONDS if isinstance(error, NotSignedIn) else 0.0


def bindings(where: str) -> list[BindingType]:
    """The bindings of one place, from the table of actions."""
    return [Binding(a.keys, a.id, a.title, show=False, priority=a.priority) for a in actions(where)]


class ConsoleScreen(Screen[None]):
    """A screen between the top line and the key line. `where` is its name in the table of actions."""

    where: ClassVar[str] = ""

    DEFAULT_CSS = """
    ConsoleScreen { layout: vertical; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._looking = False
        self._last_fault = ""
        self._next_look = 0.0

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
        for ours, its in (("place", "place"), ("summary", "status"), ("access", "access")):
            line.watch(self.console, ours, partial(setattr, line, its))
        return line

    def keys(self) -> KeyLine:
        """The last line; what the workspace cannot do is greyed, also where that is known only after signing in."""
        shown = [a for a in actions(self.where) if not (a.changes and self.console.read_only)]
        line = KeyLine(shown, "f1" if self.where in ("launch", "pipeline") else "?")  # in a form ? is a character
        line.watch(self.console, "refused", line.refuse)
        return line

    def crumbs(self) -> tuple[str, ...]:
        """Where this screen is, below the workspace."""
        return (self.where,)

    def set_crumbs(self) -> None:
        """Show the crumbs again after they changed."""
        self.query_one(TopLine).crumbs = (self.console.workspace_name, *self.crumbs())

    # Looking at the workspace, again and again

    async def look(self) -> None:
        """Ask the workspace and show what it says; screens that stay up to date give this."""

    def say_fault(self, sentence: str) -> None:
        """Show, in the screen's own line, why `look` could not; what was shown before stays."""

    def tick(self) -> None:
        """Look where it is time to: a workspace may want to be asked less often than this screen's timer goes."""
        if monotonic() > self._next_look - _EARLY_SECONDS:
            self.poll()

    def poll(self) -> None:
        """Look, unless a look is under way or another screen is in sight: a slow workspace is asked again when it answered."""
        if self.is_current and not self._looking:
            self._looking = True
            self._next_look = monotonic() + self.console.look_seconds
            self._look_once()

    @work(group="look")
    async def _look_once(self) -> None:
        try:
            await self.look()
            self._last_fault = ""
        except WorkspaceError as error:
            self._next_look = max(self._next_look, monotonic() + pause_after(error))
            self.say_fault(str(error))
            if isinstance(error, NotSignedIn):
                self.console.offer_sign_in(error)
        except NoMatches:
            if self.query(KeyLine):  # else the screen is being taken down, and nobody misses what it would have shown
                raise
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            if repr(error) != self._last_fault:  # a fault that comes back each second is written down once
                self._last_fault = repr(error)
                record(error)
            self.say_fault(
                f"footplate met a fault it did not foresee: {error!r}. The traceback is in {paths.console_log()}."
            )
        finally:
            self._looking = False

    # Acts

    async def guarded(self, work: Coroutine[Any, Any, T], say: Callable[[str], object] | None = None) -> T | None:
        """Await workspace work; a fault becomes a notice, or goes to `say`. Returns None after a fault."""
        try:
            return await work
        except WorkspaceError as error:
            if say is None:
                self.console.tell_fault(error)
            else:
                say(str(error))
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            sentence = unforeseen(error)
            if say is None:
                self.console.notify(sentence, severity="error", markup=False, timeout=12)
            else:
                say(sentence)
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In a read-only workspace the keys that change something do nothing."""
        if self.console.read_only and any(a.id == action and a.changes for a in actions(self.where)):
            return False
        return super().check_action(action, parameters)

    def action_refresh(self) -> None:
        """Look again now."""
        self.console.reconsider_sign_in()
        self.poll()

    @work(group="copy")
    async def copy(self, text: str, what: str) -> None:
        """Hand a text to the terminal's clipboard, which goes through SSH, keep it in a file beside, and say so."""
        copied = await asyncio.to_thread(clipboard.keep, [text])
        if copied.text is not None:
            self.app.copy_to_clipboard(copied.text)
        self.console.notify(clean(clipboard.said(copied, what)), markup=False, timeout=6)

    def action_back(self) -> None:
        """One step back."""
        self.console.step_back()
