"""The console: its modes, its theme, its signals, and what several screens do alike."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.reactive import reactive
from textual.screen import Screen
from textual.worker import WorkerFailed

from footplate import paths
from footplate.actions import actions
from footplate.faults import record, unforeseen
from footplate.screens.base import ConsoleScreen
from footplate.theme import THEME
from footplate.widgets.control_filter import ControlFilter
from footplate.workspace import Endpoint, Invalid, Job, JobFilter, Model, NotSignedIn, Workspace, WorkspaceError
from footplate.workspace.open import open_workspace
from footplate.workspace.read_only import read_only as as_read_only

if TYPE_CHECKING:
    from footplate.operations.spool import Spools


def _jobs() -> Screen[None]:
    from footplate.screens.jobs import JobsScreen

    return JobsScreen()


def _clusters() -> Screen[None]:
    from footplate.screens.clusters import ClustersScreen

    return ClustersScreen()


def _models() -> Screen[None]:
    from footplate.screens.models import ModelsScreen

    return ModelsScreen()


def _endpoints() -> Screen[None]:
    from footplate.screens.endpoints import EndpointsScreen

    return EndpointsScreen()


def _launch() -> Screen[None]:
    from footplate.screens.templates import TemplatesScreen

    return TemplatesScreen()


def _invoke() -> Screen[None]:
    from footplate.screens.invoke import InvokeScreen

    return InvokeScreen()


_MODES: dict[str, Callable[[], Screen[None]]] = {
    "jobs": _jobs,
    "clusters": _clusters,
    "models": _models,
    "endpoints": _endpoints,
    "launch": _launch,
    "invoke": _invoke,
}


_SUMMARY_SECONDS = 3.0
_ACCESS_SECONDS = 1.0
_GRACE_SECONDS = 5.0
_UNFOCUSED = 5
"""How many times as long a terminal without focus waits between two looks, where the terminal tells."""
_CANCEL_UNTYPED = 5
"""Cancelling more jobs than this asks for their number."""

T = TypeVar("T")
_CONTROL_FILTER = ControlFilter()  # one for all: Textual keeps what it drew as long as the filters are the same


class FootplateApp(App[None]):
    """The console on one workspace. Screens come into being when they are first visited."""

    TITLE = "footplate"
    MODES = _MODES  # type: ignore[assignment]  # functions, so that a screen's module is loaded on its first visit
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
    """What one is signed in by, and how many requests are left."""

    def __init__(self, workspace: str | None = None, read_only: bool = False, view: str | None = None) -> None:
        """Open the workspace. Raises WorkspaceError where it cannot be opened."""
        super().__init__()
        self.register_theme(THEME)
        self.set_reactive(App.theme, THEME.name)  # before anything is drawn, so that no style is worked out twice
        opened = open_workspace(workspace)
        self.read_only = read_only or opened.read_only
        self.workspace: Workspace = as_read_only(opened) if read_only and not opened.read_only else opened
        self.workspace_name = opened.name
        self._asks_sign_in = self._declined_sign_in = False
        self._summary_due = 0.0
        self.set_reactive(FootplateApp.place, self._place())
        self._visited: list[str] = [self.DEFAULT_MODE]
        self._view = view or ""
        if self._view and self._view.split()[0] not in _MODES:
            raise Invalid(f"There is no view {self._view.split()[0]!r}.", f"Known: {', '.join(_MODES)}.")
        self.unforeseen: tuple[Exception, Path] | None = None
        self._demo_runs = False
        if os.environ.get("SSH_CONNECTION"):
            self.animation_level = "none"

    def _handle_exception(self, error: Exception) -> None:
        """A fault of our own ends the console in a sentence; its traceback goes to the log file."""
        cause = error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
        self.unforeseen = (cause, record(cause))
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Textual would print the traceback on the way out; `open_console` says where it is instead."""
        self._close_messages_no_wait()

    # Modes

    def get_line_filters(self) -> list[LineFilter]:
        """Every line drawn passes the filter that takes control characters out."""
        return [*super().get_line_filters(), _CONTROL_FILTER]

    async def on_mount(self) -> None:
        """Open the first list, and leave cleanly on a signal."""
        loop = asyncio.get_running_loop()
        for number, leave in ((signal.SIGTERM, self.exit), (signal.SIGHUP, self._hang_up)):
            with contextlib.suppress(ValueError):  # not in the main thread, as in some tests
                loop.add_signal_handler(number, leave)
        self.set_interval(_SUMMARY_SECONDS, self._keep_summary)
        self.set_interval(_ACCESS_SECONDS, self._look_at_access)
        first, _, expression = self._view.partition(" ")
        if first in _MODES and first != self.current_mode:
            await self._switch(first)
        if expression:
            self.show_view(first, expression)

    def _hang_up(self) -> None:
        """The terminal is gone, as when a connection drops; jobs and endpoints are no part of this process.

        Textual's writer of output dies with the terminal, and an orderly end then waits for it for ever.
        """
        end = threading.Timer(_GRACE_SECONDS, os._exit, (128 + signal.SIGHUP,))
        end.daemon = True
        end.start()
        self.exit()

    async def on_unmount(self) -> None:
        """Let go of the workspace, and of what was copied from it."""
        await self.workspace.close()
        if "spools" in self.__dict__:
            await asyncio.to_thread(self.spools.close)

    @cached_property
    def spools(self) -> Spools:
        """The logs that were copied to be looked at."""
        from footplate.operations.spool import Spools

        return Spools(self.workspace, paths.cache() / "logs")

    # How the workspace is reached

    def _place(self) -> str:
        return f"{self.workspace.place}{' read-only' if self.read_only else ''}"

    def _look_at_access(self) -> None:
        """Show what the workspace knows by now; asks nobody."""
        by, left = self.workspace.signed_in_by, self.workspace.reads_left
        self.place = self._place()
        self.access = (*([f"by {by}"] if by else []), *([f"{left:,} reads left"] if left is not None else []))

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks: more where reads are counted and the terminal is not the one that is worked in."""
        spared = not self.app_focus and self.workspace.reads_left is not None
        return self.workspace.poll_seconds * (_UNFOCUSED if spared else 1)

    def on_app_focus(self) -> None:
        """Look at once at what was seldom looked at meanwhile."""
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
            self.notify(f"Signed in by {self.workspace.signed_in_by or 'a code'}.", markup=False, timeout=4)

    def cannot(self, act: str) -> bool:
        """Whether this workspace cannot do an act, by its name in the capabilities; the reason is shown."""
        reason = self.workspace.capabilities.get(act)
        if reason:
            self.notify(reason, severity="warning", markup=False, timeout=6)
        return bool(reason)

    async def _switch(self, mode: str) -> None:
        if self._visited[-1:] != [mode]:
            self._visited.append(mode)
        await self.switch_mode(mode)

    async def action_go(self, mode: str) -> None:
        """Go to one of the six places; from a dialog this does nothing."""
        if isinstance(self.screen, ConsoleScreen):
            await self._switch(mode)
            if mode == "jobs":
                while len(self.screen_stack) > 1:  # the list itself, not the job that was open above it
                    await self.pop_screen()

    @work
    async def step_back(self) -> None:
        """One step back: the screen below, else the list visited before."""
        came_from = getattr(self.screen, "came_from", self.current_mode)
        if len(self.screen_stack) > 1:
            await self.pop_screen()
            if came_from != self.current_mode:
                self._visited.pop()
                await self._switch(came_from)
        elif len(self._visited) > 1:
            self._visited.pop()
            await self._switch(self._visited[-1])

    @work
    async def open_job(self, name: str, tab: str) -> None:
        """Open a job above the list of jobs."""
        from footplate.screens.job import JobScreen
        from footplate.screens.listing import ListScreen

        # From a form, the way back is the list of jobs: the form is done with.
        came_from = "jobs" if self.current_mode == "launch" else self.current_mode
        await self._switch("jobs")
        while isinstance(self.screen, JobScreen):
            await self.pop_screen()
        if isinstance(self.screen, ListScreen):
            self.screen.cursor_to = name
        await self.push_screen(JobScreen(name, tab, came_from))

    @work
    async def open_invoke(self, endpoint: str) -> None:
        """Open the invoke panel on an endpoint."""
        from footplate.screens.invoke import InvokeScreen

        await self._switch("invoke")
        if isinstance(self.screen, InvokeScreen):
            self.screen.aim(endpoint)

    def show_jobs(self, expression: str) -> None:
        """The list of jobs, filtered."""
        self.show_view("jobs", expression)

    @work
    async def show_view(self, mode: str, expression: str) -> None:
        """A list, filtered."""
        from footplate.screens.listing import ListScreen

        await self._switch(mode)
        if isinstance(self.screen, ListScreen):
            self.screen.narrow(expression)

    def summarise(self, jobs: Iterable[Job]) -> None:
        """Say on every screen how many jobs run, wait, and failed today."""
        today = datetime.now().astimezone().date()
        running = waiting = failed = 0
        for job in jobs:
            going = job.status in ("Running", "Finalizing")
            running += going
            waiting += job.active and not going
            failed += job.status == "Failed" and job.created.astimezone().date() == today
        counts = ((running, "running"), (waiting, "waiting"), (failed, "failed today"))
        self.summary = " · ".join(f"{count} {what}" for count, what in counts if count)

    def _keep_summary(self) -> None:
        if time.monotonic() > self._summary_due:
            self._summary_due = time.monotonic() + 5 * self.poll_seconds
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

    @work(group="ask")
    async def cancel_jobs(self, jobs: Sequence[Job]) -> None:
        """Ask, then cancel; more than five need their number typed."""
        from footplate.screens.dialogs import ConfirmDialog

        ranks = sum(job.world_size for job in jobs)
        text = f"{ranks} rank{'s' * (ranks > 1)} on {', '.join(sorted({job.compute for job in jobs}))} end; what is written stays."
        title = f"Cancel job {jobs[0].name}?" if len(jobs) == 1 else f"Cancel {len(jobs)} jobs?"
        typed = str(len(jobs)) if len(jobs) > _CANCEL_UNTYPED else ""
        dialog = ConfirmDialog(
            title, f"{text}\nWorkspace {self.workspace_name}.", "Cancel job" + "s" * (len(jobs) > 1), typed, "Let run"
        )
        if await self.push_screen_wait(dialog):
            for job in jobs:
                ended = await self.attempt(self.workspace.cancel(job.name))
                if ended is not None:
                    self.notify(f"{job.name}: {ended.status}", markup=False, timeout=4)

    @work(group="ask")
    async def register_job(self, job: Job) -> None:
        """Ask for a name, then register."""
        if self.cannot("register"):
            return
        from footplate.screens.dialogs import Field, FieldsDialog

        asked = FieldsDialog(
            f"Register the model of {job.name}",
            "The version is the next free one.",
            "Register",
            (Field("name", "Name", job.experiment),),
        )
        answer = await self.push_screen_wait(asked)
        if answer:
            model = await self.attempt(self.workspace.register(answer["name"], job.name))
            if model is not None:
                self.notify(f"{model.reference} is registered; 3 shows it, d there deploys it.", markup=False)
                await self._switch("models")

    @work(group="ask")
    async def deploy_model(self, model: Model) -> None:
        """Ask for endpoint and deployment, then deploy and say when it serves."""
        if self.cannot("deploy"):
            return
        from footplate.operations import deploy
        from footplate.screens.dialogs import Field, FieldsDialog

        suggested = await self.attempt(deploy.free_endpoint_name(self.workspace, model.name))
        if suggested is None:
            return
        asked = FieldsDialog(
            f"Deploy {model.reference}",
            "The endpoint is made where it is missing. The first deployment takes all traffic.",
            "Deploy",
            (Field("endpoint", "Endpoint", suggested), Field("name", "Deployment", "blue")),
        )
        answer = await self.push_screen_wait(asked)
        if not answer:
            return
        await self._switch("endpoints")
        name = answer["endpoint"]
        done = await self.attempt(deploy.deploy(self.workspace, model.reference, name, answer["name"]))
        if done is not None:
            share = (await self.workspace.endpoint(name)).traffic.get(answer["name"], 0)
            if share:
                says = f"{name} serves {model.reference}; enter on it tests it with a picture."
            else:
                says = f"{answer['name']} of {name} serves {model.reference}, with no traffic yet: its other deployments answer."
            self.notify(says, markup=False)

    @work(group="ask")
    async def delete_model(self, model: Model) -> None:
        """Ask, then delete."""
        if self.cannot("delete_model"):
            return
        from footplate.screens.dialogs import ConfirmDialog

        text = f"Its files are gone for good; the job that made it stays.\nWorkspace {self.workspace_name}."
        if await self.push_screen_wait(ConfirmDialog(f"Delete model {model.reference}?", text, "Delete")):
            await self.attempt(self.workspace.delete_model(model.reference))

    @work(group="ask")
    async def delete_endpoint(self, endpoint: Endpoint) -> None:
        """Ask for the name, then delete."""
        if self.cannot("delete_endpoint"):
            return
        from footplate.screens.dialogs import ConfirmDialog

        live = ", ".join(f"{name} {weight} %" for name, weight in endpoint.traffic.items() if weight) or "no traffic"
        text = (
            f"{len(endpoint.deployments)} deployments, {live}.\n"
            f"Its address and keys are gone for good. Workspace {self.workspace_name}."
        )
        if await self.push_screen_wait(
            ConfirmDialog(f"Delete endpoint {endpoint.name}?", text, "Delete", endpoint.name)
        ):
            await self.attempt(self.workspace.delete_endpoint(endpoint.name))

    @work(group="demo")
    async def run_demo(self, ask: bool) -> None:
        """The whole line: start the training, show its log, and open the invoke panel on the prediction when it serves."""
        if self.cannot("demo"):
            return
        if self._demo_runs:
            self.notify("The demo is under way; its job is in the list (1).", markup=False)
            return
        if ask:
            from footplate.screens.dialogs import ConfirmDialog

            text = "It trains for about two minutes on this machine, then registers, deploys and asks the model."
            if not await self.push_screen_wait(ConfirmDialog("Run the demo?", text, "Run it")):
                return
        self._demo_runs = True
        try:
            await self.attempt(self._demo())
        finally:
            self._demo_runs = False

    async def _demo(self) -> None:
        from footplate.operations import demo, follow
        from footplate.screens.invoke import InvokeScreen
        from footplate.screens.job import JobScreen

        began = time.monotonic()
        job = await demo.start(self.workspace)
        self.open_job(job.name, "logs")
        job = await follow.wait(self.workspace, job.name)
        progress = demo.Progress(stage=lambda text: self.notify(text, title="demo", markup=False, timeout=4))
        result = await demo.finish(self.workspace, job, progress, began)
        endpoint = await self.workspace.endpoint(result.endpoint)
        if isinstance(self.screen, JobScreen) and self.screen.job_name == job.name:
            await self._switch("invoke")
            if isinstance(self.screen, InvokeScreen):
                self.screen.show_asked(endpoint, Path(result.picture), result.prediction)
                return
        seen = f"{result.endpoint} says {result.label} {result.probability:.1%} of {result.truth}/{Path(result.picture).name}."
        self.notify(f"{seen} 6 opens the invoke panel.", title="demo", markup=False, timeout=10)

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
