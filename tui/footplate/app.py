"""The console: its modes, its theme, its signals, and what several screens do alike."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import events, work
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.screen import Screen

from footplate import words
from footplate.actions import actions
from footplate.base_app import BaseApp
from footplate.faults import record, unforeseen
from footplate.places import LISTS, MODES
from footplate.screens.alerting import Alerting
from footplate.screens.base import ConsoleScreen
from footplate.workspace import Invalid, Job, JobFilter, NotSignedIn, Workspace, WorkspaceError
from footplate.workspace.open import open_workspace
from footplate.workspace.read_only import read_only as as_read_only

if TYPE_CHECKING:
    from footplate.logs.spool import Spools


_SUMMARY_SECONDS = 3.0
_ACCESS_SECONDS = 1.0
_IDLE_SECONDS = 300.0
"""After so long without a key nobody seems to look: requests that are counted are spared."""
_IDLE_LOOK_SECONDS = 60.0
_UNFOCUSED = 5
"""How many times as long a terminal without focus waits between two looks, where the terminal tells."""

T = TypeVar("T")


class FootplateApp(BaseApp[None]):
    """The console on one workspace. Screens come into being when they are first visited."""

    MODES = MODES  # type: ignore[assignment]  # functions, so that a screen's module is loaded on its first visit
    DEFAULT_MODE = "jobs"
    BINDINGS: ClassVar[list[BindingType]] = [Binding(a.keys, a.id, a.title, show=False) for a in actions("app")]
    DEFAULT_CSS = """
    Toast { max-width: 90%; }
    """

    summary: reactive[str] = reactive("")
    """One line on all jobs, shown on every screen."""

    place: reactive[str] = reactive("")
    """Where the workspace is."""

    access: reactive[tuple[str, ...]] = reactive(())
    """What one is signed in by, how many requests are left, and how far an upload is."""

    refused: reactive[frozenset[str]] = reactive(frozenset())
    """What the workspace cannot do, by its names in the capabilities: more may be known after signing in."""

    watched: reactive[frozenset[tuple[str, str]]] = reactive(frozenset())
    """Kind and name of what is on the watch list."""

    def __init__(
        self, workspace: str | None = None, read_only: bool = False, view: str | None = None, notice: str = ""
    ) -> None:
        """Open the workspace; `notice` is said when it is there. Raises WorkspaceError where it cannot be opened."""
        super().__init__()
        opened = open_workspace(workspace)
        self.read_only = read_only or opened.read_only
        self.workspace: Workspace = as_read_only(opened) if read_only and not opened.read_only else opened
        self.workspace_name = opened.name
        self.alerting = Alerting(self)
        self._notice = notice
        self._asks_sign_in = self._declined_sign_in = False
        self._summary_due = 0.0
        self.set_reactive(FootplateApp.place, self._place())
        self.set_reactive(FootplateApp.refused, frozenset(self.workspace.capabilities))
        self._visited: list[str] = [self.DEFAULT_MODE]
        self._view = view or ""
        if self._view and self._view.split()[0] not in MODES:
            raise Invalid(f"There is no view {self._view.split()[0]!r}.", f"Known: {', '.join(MODES)}.")
        self.next_workspace: str | None = None
        """Which workspace is opened when this one has been left."""
        self._touched = time.monotonic()
        self.demo_runs = False
        self._transfers: dict[object, tuple[str, int, int | None]] = {}

    # Modes

    async def on_mount(self) -> None:
        """Open the first list, and leave cleanly on a signal."""
        self.leave_on_signals()
        self.set_interval(_SUMMARY_SECONDS, self._keep_summary)
        self.set_interval(_ACCESS_SECONDS, self._look_at_access)
        self.call_after_refresh(self.learn_capabilities)
        self.call_after_refresh(self.alerting.begin)
        if self._notice:
            self.notify(self._notice, markup=False, timeout=6)
        first, _, expression = self._view.partition(" ")
        if first in MODES and first != self.current_mode:
            await self.switch(first)
        if expression:
            self.show_view(first, expression)

    async def on_unmount(self) -> None:
        """Let go of the workspace."""
        await self.alerting.close()
        await self.workspace.close()

    @cached_property
    def spools(self) -> Spools:
        """The copies of logs that lie elsewhere."""
        from footplate.operations.logs import spools

        return spools(self.workspace)

    @cached_property
    def quiet_minutes(self) -> int:
        """After how long without a sign a running job is said to make no progress; 0 for never."""
        from footplate import settings

        return settings.load().logs.quiet_minutes

    # How the workspace is reached

    def _place(self) -> str:
        return f"{self.workspace.place}{' read-only' if self.read_only else ''}"

    def _look_at_access(self) -> None:
        """Show what the workspace knows by now; asks nobody."""
        by, left = self.workspace.signed_in_by, self.workspace.reads_left
        self.place = self._place()
        self.refused = frozenset(self.workspace.capabilities)
        sent = self.workspace.upload
        self.access = (
            *([f"by {by}"] if by else []),
            *([f"{left:,} reads left"] if left is not None else []),
            *([pace] if (pace := self._pace()) else []),
            *([words.transfer("uploading", sent.done, sent.total)] if sent is not None else []),
            *(words.transfer(what, done, total) for what, done, total in self._transfers.values()),
        )

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks: more where reads are counted and the terminal is not the one that is worked in."""
        spared = not self.app_focus and self.workspace.reads_left is not None
        return self.workspace.poll_seconds * (_UNFOCUSED if spared else 1)

    @property
    def look_seconds(self) -> float:
        """Seconds between two looks that are counted: seldom when nobody seems to look, and none when that is certain.

        Where the terminal tells that it has no focus, and no key was pressed for long, the next key or the focus looks again.
        """
        if self.workspace.reads_left is None or not self._idle:
            return self.poll_seconds
        return max(_IDLE_LOOK_SECONDS, self.poll_seconds) if self.app_focus else math.inf

    @property
    def _idle(self) -> bool:
        return time.monotonic() - self._touched > _IDLE_SECONDS

    def _pace(self) -> str:
        """How often it is looked, where that is not as usual; empty where it is."""
        if self.look_seconds == math.inf:
            return "paused until a key"
        return "1 look a minute until a key" if self.look_seconds >= _IDLE_LOOK_SECONDS else ""

    async def on_event(self, event: events.Event) -> None:
        """A key or the mouse: somebody is there."""
        if isinstance(event, events.InputEvent) and not event.is_forwarded:
            was_idle, self._touched = self._idle, time.monotonic()
            if was_idle and self.workspace.reads_left is not None:
                self._look_at_access()
                self.on_app_focus()
        await super().on_event(event)

    def on_app_focus(self) -> None:
        """Look at once at what was seldom looked at meanwhile."""
        self._touched = time.monotonic()
        if isinstance(self.screen, ConsoleScreen):
            self.screen.poll()

    def offer_sign_in(self, error: NotSignedIn) -> None:
        """Ask to sign in, unless that was declined; refreshing a list takes the refusal back."""
        if not self._declined_sign_in and isinstance(self.screen, ConsoleScreen):
            self.sign_in(str(error))

    def reconsider_sign_in(self) -> None:
        """Ask again when the next look finds nobody signed in."""
        self._declined_sign_in = False

    @work(group="ask")
    async def sign_in(self, why: str) -> None:
        """Show a code to sign in by."""
        from footplate.screens.sign_in import SignInDialog

        if self._asks_sign_in:
            return
        self._asks_sign_in = True
        try:
            done = await self.push_screen_wait(SignInDialog(self.workspace, why))
        finally:
            self._asks_sign_in = False
        self._declined_sign_in = not done
        self._look_at_access()
        if done:
            self.learn_capabilities()
            self.notify(f"Signed in by {self.workspace.signed_in_by or 'a code'}.", markup=False, timeout=4)

    @work(exclusive=True, group="capabilities")
    async def learn_capabilities(self) -> None:
        """Find out what whoever is signed in may do; where that cannot be told, each act tells it itself."""
        try:
            await self.workspace.learn_capabilities()
        except WorkspaceError:
            pass  # what is refused later is told then
        except Exception as error:  # noqa: BLE001  nothing was asked for by the user: the traceback goes to the log alone
            record(error)
        self._look_at_access()

    @work(group="ask")
    async def connect(self) -> None:
        """Choose a workspace on Azure, and open it in place of this one."""
        from footplate.screens.connect import ConnectScreen

        chosen = await self.push_screen_wait(ConnectScreen(self.workspace_name, new=True))
        if chosen is not None:
            self.open_workspace(chosen)

    def open_workspace(self, name: str) -> None:
        """Leave this workspace and open another one of the settings; jobs and endpoints go on."""
        self.next_workspace = name
        self.exit()

    def cannot(self, act: str) -> bool:
        """Whether this workspace cannot do an act, by its name in the capabilities; the reason is shown."""
        reason = self.workspace.capabilities.get(act)
        if reason:
            self.notify(reason, severity="warning", markup=False, timeout=6)
        return bool(reason)

    async def switch(self, mode: str) -> None:
        """Go to one of the six places."""
        if self._visited[-1:] != [mode]:
            self._visited.append(mode)
        await self.switch_mode(mode)

    async def action_go(self, mode: str) -> None:
        """Go to one of the six places; from a dialog this does nothing."""
        if isinstance(self.screen, ConsoleScreen):
            await self.switch(mode)
            if mode in LISTS:
                while len(self.screen_stack) > 1:  # the list itself, not what was opened from it
                    await self.pop_screen()

    @work
    async def step_back(self) -> None:
        """One step back: the screen below, else the list visited before."""
        came_from = getattr(self.screen, "came_from", self.current_mode)
        if len(self.screen_stack) > 1:
            await self.pop_screen()
            if came_from != self.current_mode:
                self._visited.pop()
                await self.switch(came_from)
        elif len(self._visited) > 1:
            self._visited.pop()
            await self.switch(self._visited[-1])

    @work
    async def open_job(self, name: str, tab: str) -> None:
        """Open a job above the list of jobs."""
        from footplate.screens.job import JobScreen
        from footplate.screens.listing import ListScreen

        # From a form, the way back is the list of jobs: the form is done with.
        came_from = "jobs" if self.current_mode == "launch" else self.current_mode
        await self.switch("jobs")
        while isinstance(self.screen, JobScreen):
            await self.pop_screen()
        if isinstance(self.screen, ListScreen):
            self.screen.cursor_to = name
        await self.push_screen(JobScreen(name, tab, came_from))

    @work
    async def open_invoke(self, endpoint: str) -> None:
        """Open the invoke panel on an endpoint."""
        from footplate.screens.invoke import InvokeScreen

        await self.switch("invoke")
        if isinstance(self.screen, InvokeScreen):
            self.screen.aim(endpoint)

    @work
    async def show_endpoint(self, name: str) -> None:
        """The list of endpoints, at one of them."""
        from footplate.screens.listing import ListScreen

        await self.action_go("endpoints")
        if isinstance(self.screen, ListScreen):
            self.screen.cursor_to = name
            self.screen.poll()

    def show_jobs(self, expression: str) -> None:
        """The list of jobs, filtered."""
        self.show_view("jobs", expression)

    @work
    async def show_view(self, mode: str, expression: str) -> None:
        """A list, filtered."""
        from footplate.screens.listing import ListScreen

        await self.switch(mode)
        if isinstance(self.screen, ListScreen):
            self.screen.narrow(expression)

    def summarise(self, jobs: Iterable[Job], as_of: datetime | None = None) -> None:
        """Say on every screen how many jobs run, wait, and failed today; and as of when, where that is not now."""
        if as_of is None:
            self.alerting.saw_jobs(jobs)
        today = datetime.now().astimezone().date()
        running = waiting = failed = 0
        for job in jobs:
            going = job.status in ("Running", "Finalizing")
            running += going
            waiting += job.active and not going
            failed += job.status == "Failed" and job.created.astimezone().date() == today
        counts = ((running, "running"), (waiting, "waiting"), (failed, "failed today"))
        age = [f"as of {words.age(as_of)} ago"] if as_of is not None else []
        self.summary = " · ".join([*age, *(f"{count} {what}" for count, what in counts if count)])

    def _keep_summary(self) -> None:
        if time.monotonic() > self._summary_due:
            self._summary_due = time.monotonic() + 5 * self.look_seconds
            self.look_at_jobs()

    @work(exclusive=True, group="summary")
    async def look_at_jobs(self) -> None:
        """Keep the summary true while another screen than the list of jobs, which does it itself, is in sight."""
        if isinstance(self.screen, ConsoleScreen) and self.screen.where == "jobs":
            return
        with contextlib.suppress(WorkspaceError):  # the screen in sight says what does not answer
            async for page in self.workspace.jobs(JobFilter()):
                self.summarise(page)
                break

    # What several screens do alike

    def tell_fault(self, error: WorkspaceError) -> None:
        """Show a fault: the sentence, and the next step."""
        text = f"{error.sentence}\n{error.next_step}" if error.next_step else error.sentence
        self.notify(text, severity="error", markup=False, timeout=10)

    async def attempt(self, act: Coroutine[Any, Any, T]) -> T | None:
        """Await an act; a fault becomes a notice and None."""
        try:
            return await act
        except WorkspaceError as error:
            self.tell_fault(error)
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            self.notify(unforeseen(error), severity="error", markup=False, timeout=12)
        return None

    @contextlib.contextmanager
    def transfer(self, what: str) -> Iterator[Callable[[int, int | None], None]]:
        """Show in the top line how far something is; gives what is called, in any thread, with bytes done and in all."""
        key = object()
        try:
            yield lambda done, total: self._transfers.__setitem__(key, (what, done, total))
        finally:
            self._transfers.pop(key, None)

    def act(self, doing: Coroutine[Any, Any, None]) -> None:
        """Ask and do in a worker of the app: what was agreed to goes on when its screen is left."""
        self.run_worker(doing, group="ask")

    def action_alerts(self) -> None:
        """What was told, and what is watched."""
        from footplate.screens.alerts import AlertsScreen

        if isinstance(self.screen, ConsoleScreen) and not isinstance(self.screen, AlertsScreen):
            self.push_screen(AlertsScreen())

    def action_help_quit(self) -> None:
        """On ctrl+c, which does not leave: say what does."""
        self.notify("ctrl+q leaves footplate, q does on a list; jobs and endpoints go on.", markup=False, timeout=4)

    def action_help(self) -> None:
        """Explain the keys of this screen and of what has focus."""
        from footplate.screens.dialogs import TextDialog
        from footplate.screens.help import help_text

        if isinstance(self.screen, ConsoleScreen):
            self.push_screen(TextDialog(f"Keys of {self.screen.where}", help_text(self.screen)))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every action of this screen and of the app, with its key and its command twin."""
        if isinstance(screen, ConsoleScreen):
            for action in (*actions(screen.where), *actions("app")):
                if action.id in ("command_palette", "help") or (action.changes and self.read_only):
                    continue
                twin = f" · {self.workspace.capabilities.get(action.needs) or action.command}".removesuffix(" · ")
                scope = "" if action in actions("app") else "screen."
                run = f"{scope}{action.id}" if "(" in action.id else f"{scope}{action.id}()"
                yield SystemCommand(action.title, f"{action.key_label}{twin}", self._runner(run))
        yield SystemCommand("Connect to a workspace", "lists those on Azure that you may see", self.connect)
        if self.workspace.kind != "local":
            yield SystemCommand("Sign in by a code", "typed into a browser on any machine", self._sign_in_anew)
        yield SystemCommand("Help for this screen", "?", self.action_help)
        yield SystemCommand("Leave footplate", "^q · jobs and endpoints go on", self.exit)

    def _sign_in_anew(self) -> None:
        self.sign_in("")

    def _runner(self, action: str) -> Callable[[], None]:
        def run() -> None:
            self.call_later(self.run_action, action)

        return run
