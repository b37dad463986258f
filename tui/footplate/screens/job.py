"""One job: overview, live log of each rank, metrics, and the trials or steps of one that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import ContentSwitcher, Static

from footplate import words
from footplate.actions import Action, actions
from footplate.logs.sanitise import clean
from footplate.operations.stalls import stalled_seconds
from footplate.screens import job_acts
from footplate.screens.base import ConsoleScreen, bindings
from footplate.screens.job_children import PARENTS, ChildrenPane
from footplate.screens.job_log import LogPane
from footplate.screens.job_metrics import MetricsPane
from footplate.screens.job_overview import overview, runs_on
from footplate.screens.jobs import status_cell
from footplate.widgets.chrome import KeyLine
from footplate.widgets.failure_card import FailureCard
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import Job, Service, WorkspaceError

if TYPE_CHECKING:
    from footplate.logs.card import Card

_FILES_FROM_WIDTH = 110
_LOG_KEYS = ("all_ranks", "first_error", "search", "narrow", "next_file", "solo", "mute", "files", "cancel", "follow")
"""What the key line says first beside a log."""
_STYLES = {"ok": "$text-success", "error": "$text-error", "warn": "$text-warning", "accent": "$text-accent"}


class JobScreen(ConsoleScreen):
    """One job. The log follows by itself; `[` and `]` go from rank to rank."""

    where = "job"
    BINDINGS = bindings("job")

    DEFAULT_CSS = """
    JobScreen #facts {
        height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis;
    }
    JobScreen #tabs { height: 1; padding: 0 1; }
    JobScreen ContentSwitcher { height: 1fr; }
    JobScreen #overview { padding: 1 2; scrollbar-size-vertical: 1; }
    JobScreen #strip {
        height: 2; padding: 0 1; border-top: solid $panel-lighten-2; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, name: str, tab: str, came_from: str = "jobs") -> None:
        super().__init__()
        self.came_from = came_from
        self.job_name = name
        self.tab = tab
        self.job: Job | None = None
        self._done = False
        self._services: Sequence[Service] = ()
        self._card: Card | None = None
        self._failed_child = ""
        self._stalled: float | None = None

    def crumbs(self) -> tuple[str, ...]:
        """`jobs ▸ name`."""
        return ("jobs", self.job_name)

    def compose(self) -> ComposeResult:
        """Facts, tabs, the tab's content, a strip of the latest metrics, keys."""
        yield self.top()
        yield Static("", id="facts", markup=False)
        yield Static("", id="tabs", markup=False)
        with ContentSwitcher(initial=self.tab):
            with VerticalScroll(id="overview"):
                yield FailureCard(id="failure")
                yield Static("Loading …", id="details", markup=False)
            yield LogPane(self.job_name, lambda: self.is_current and self.tab == "logs", id="logs")
            yield MetricsPane(id="metrics")
            yield ChildrenPane(id="children")
        yield Static("", id="strip", markup=False)
        yield self.keys()

    def on_mount(self) -> None:
        """Load now, then every second."""
        self.show_tab(self.tab)
        self.poll()
        self.set_interval(1.0, self.tick)

    def on_screen_resume(self) -> None:
        """Look again at once."""
        if self.is_mounted:
            self.poll()
            self.log_pane.copy_on()

    def on_screen_suspend(self) -> None:
        """Nobody looks: logs that lie elsewhere are copied no further."""
        if self.is_mounted:
            self.log_pane.copy_on()

    def on_resize(self) -> None:
        """The list of files needs room beside the log."""
        self.log_pane.set_class(self.size.width >= _FILES_FROM_WIDTH, "wide")

    @property
    def log_pane(self) -> LogPane:
        """The logs."""
        return self.query_one(LogPane)

    @property
    def children_shown(self) -> Mapping[str, Job]:
        """The trials or steps by name, as they were read last."""
        return self.query_one(ChildrenPane).children_by_name

    # Data

    async def look(self) -> None:
        """Look at the job, its files and its metrics; nothing more once it has ended and was seen so."""
        if self._done:
            return
        job = await self.workspace.job(self.job_name)
        files = await self.workspace.log_files(self.job_name)
        metrics = await self.workspace.metrics(self.job_name)
        children = await self.workspace.children(self.job_name) if job.type in PARENTS else ()
        services = await self.workspace.services(self.job_name) if self.tab == "overview" and job.active else ()
        stalled = await stalled_seconds(self.workspace, job, self.console.quiet_minutes, metrics, files)
        if not self.is_attached:
            return
        self._stalled = stalled
        self.job, self._done, self._services = job, not job.active, services
        await self.query_one(MetricsPane).show_metrics(metrics, job)
        self.log_pane.show_files(job, files, children)
        if job.type in PARENTS:
            self.query_one(ChildrenPane).show_children(job, children)
        self._show_tabs()
        self._show_job(job)
        if job.status == "Failed" and self._card is None:
            self._find_failure(job)

    @work(exclusive=True, group="failure")
    async def _find_failure(self, job: Job) -> None:
        """Read why it failed from the logs of its ranks, or of the child that failed first."""
        # By jobs that failed only; its many expressions take a while to be loaded.
        failure = (await asyncio.to_thread(import_module, "footplate.operations.failure")).failure
        shown = self.query_one(FailureCard)
        if shown.card is None:
            shown.show(None, "Reading the logs of the ranks for the cause …")
        try:
            found = await failure(self.workspace, job.name)
        except WorkspaceError as error:
            shown.show(None, f"The logs cannot be read for the cause: {error}")
            return
        if not self.is_attached:
            return
        self._card = found.card
        shown.show(found.card, of="" if found.job.name == job.name else found.job.name)
        self._failed_child = "" if found.job.name == job.name else found.job.name
        if not self._failed_child:
            self.log_pane.card = found.card
            self.log_pane.show_files(job, self.log_pane.files, tuple(self.children_shown.values()))
        self._show_job(job)
        if self.tab == "overview" and self.focused is self.query_one("#overview"):
            shown.focus()

    def _look_anew(self) -> None:
        """Look again, also at a job that has ended, since something of it was changed."""
        self._done = False
        self.poll()

    def say_fault(self, sentence: str) -> None:
        """In the line of facts; log and charts stay."""
        self.query_one("#facts", Static).update(Content.styled(clean(sentence), "$text-error"))

    def _show_job(self, job: Job) -> None:
        cell = status_cell(job.status)
        style = _STYLES.get(cell.style, "")
        took = words.span(job.seconds(datetime.now(UTC)))
        why = "" if self.tab == "children" else job.error or job.note  # there it stands below, in full
        why = self._card.headline if why and self._card is not None and self._card.is_told else why
        stalled = f"no progress for {words.span(self._stalled)}   " if self._stalled is not None else ""
        there = f" on {clean(runs_on(job))}" if runs_on(job) else ""
        size = {"pipeline": "steps", "sweep": f"trials of {words.ranks(job.nodes, job.ranks_per_node)}"}.get(job.type)
        self.query_one("#facts", Static).update(
            Content.assemble(
                (f"{cell.text} {took}", f"bold {style}"),
                f"   {size or words.ranks(job.nodes, job.ranks_per_node)}{there}   ",
                (stalled, "bold $text-warning"),
                (clean(why), style if job.error else ""),
            )
        )
        explained = self._card is not None and self._card.covers(job.error or "")
        self.query_one("#details", Static).update(overview(job, self._services, explained=explained))
        self._show_keys(job)
        self._show_strip()

    def _show_strip(self) -> None:
        """Below logs and overview the latest metrics, below trials what is said of the one under the cursor.

        It takes room only where it says something.
        """
        said = self.query_one(MetricsPane).latest() if self.tab in ("logs", "overview") else Content("")
        if self.tab == "children":
            said = self.query_one(ChildrenPane).explain()
        strip = self.query_one("#strip", Static)
        strip.display = bool(said.plain)
        strip.update(said)

    def _show_keys(self, job: Job) -> None:
        """Leave out the keys of what this job or this tab has not."""
        off = {"register"} if job.active and job.type != "sweep" else set()
        off |= set() if job.active else {"cancel", "watch", "rehearse"}
        off |= {"rehearse"} if "rehearse" in self.workspace.capabilities or job.type in PARENTS else set()
        off |= set() if job.type in PARENTS else {"children"}
        off |= set() if self.tab == "logs" else {"next_file", "find"}
        off |= set() if self.log_pane.has_several else {"next_file"}
        off |= set() if self.log_pane.has_ranks else {"all_ranks", "solo", "mute"}
        several = self._card is not None and len(self._card.ranks) > 1 and not self._failed_child
        off |= set() if several else {"to_moment"}
        keys = self.query_one(KeyLine)
        keys.show_actions(self._actions())
        keys.rename({"children": PARENTS.get(job.type, ""), "to_line": "into it" if self._failed_child else ""})
        keys.turn_off(frozenset(off))

    def _actions(self) -> list[Action]:
        """The keys of what has focus first: a log's, a failure card's; then the job's own."""
        own = [a for a in actions("job") if not (a.changes and self.console.read_only)]
        if self.tab == "logs":
            log = [*actions("ranks"), *actions("log")]
            taken = {key for a in log for key in a.keys.split(",")}
            shown = [*log, *(a for a in own if a.keep or not taken & set(a.keys.split(",")))]
            return sorted(shown, key=lambda a: _LOG_KEYS.index(a.id) if a.id in _LOG_KEYS else len(_LOG_KEYS))
        return [*actions("failure"), *own] if self._card is not None and self.tab == "overview" else own

    # Tabs

    def show_tab(self, tab: str) -> None:
        """Show overview, logs, metrics, or children."""
        self.tab = tab
        self.query_one(ContentSwitcher).current = tab
        self.log_pane.copy_on()
        self._show_tabs()
        if self.job is not None:
            self._show_job(self.job)
        if tab == "children":
            self.query_one(ChildrenPane).first.focus()
        elif tab == "logs":
            self.log_pane.view.focus()
        elif tab == "overview" and self._card is not None:
            self.query_one(FailureCard).focus()
        else:
            self.query_one({"overview": "#overview"}.get(tab, "#metrics")).focus()

    def _show_tabs(self) -> None:
        tabs = {"overview": "overview", "logs": "logs", "metrics": "metrics"}
        if self.job is not None and self.job.type in PARENTS:
            tabs["children"] = f"{PARENTS[self.job.type]} {len(self.children_shown)}"
        self.query_one("#tabs", Static).update(
            Content("   ").join(
                [Content.styled(f" {title} ", "reverse bold" if t == self.tab else "") for t, title in tabs.items()]
            )
        )

    def action_overview(self) -> None:
        """All that is known of the job."""
        self.show_tab("overview")
        self._look_anew()

    def action_logs(self) -> None:
        """The log."""
        self.show_tab("logs")

    def action_metrics(self) -> None:
        """The charts."""
        self.show_tab("metrics")

    def action_children(self) -> None:
        """The trials of a sweep, the steps of a pipeline."""
        if self.job is not None and self.job.type in PARENTS:
            self.show_tab("children")
        elif self.job is not None:
            self.console.notify(f"{self.job.name} is a {self.job.type} job, which has none.", markup=False, timeout=4)

    @on(VirtualTable.Highlighted, "#trials")
    def _explain_child(self) -> None:
        self._show_strip()

    @on(ChildrenPane.Opened)
    def _into_child(self, event: ChildrenPane.Opened) -> None:
        child = event.child
        tab = "children" if child.type in PARENTS else "logs" if child.active else "overview"
        self.app.push_screen(JobScreen(child.name, tab, self.app.current_mode))

    @on(LogPane.ChildChosen)
    def _into_logs_of(self, event: LogPane.ChildChosen) -> None:
        self.app.push_screen(JobScreen(event.name, "logs", self.app.current_mode))

    @on(LogPane.Changed)
    def _log_changed(self) -> None:
        if self.job is not None:
            self._show_keys(self.job)

    @on(FailureCard.ToLine)
    def _to_failure(self, event: FailureCard.ToLine) -> None:
        if self._failed_child:
            self.app.push_screen(JobScreen(self._failed_child, "overview", self.app.current_mode))
            return
        self.show_tab("logs")
        self.log_pane.to_failure(event.card, event.all_ranks)

    def action_next_file(self) -> None:
        """The next log file."""
        self._step_file(1)

    def action_previous_file(self) -> None:
        """The log file before."""
        self._step_file(-1)

    def _step_file(self, step: int) -> None:
        self.log_pane.step_file(step)
        self.show_tab("logs")

    def action_find(self) -> None:
        """Open the search line."""
        self.show_tab("logs")
        self.log_pane.panel.action_search()

    # Acts

    @work(exclusive=True, group="clone")
    async def action_clone(self) -> None:
        """Open the form on this job's file, to launch it again."""
        from footplate.screens.clone import open_clone  # reads YAML, which a list need not wait for

        if self.console.cannot("job_file"):
            return
        await open_clone(self, self.job_name)

    def action_cancel(self) -> None:
        """Cancel this job, after asking."""
        if self.job and self.job.active:
            self.console.act(job_acts.cancel(self.console, [self.job]))
        elif self.job:
            self.console.notify(f"{self.job.name} has ended: {self.job.status}.", markup=False, timeout=4)

    @work(group="archive")
    async def action_archive(self) -> None:
        """Hide this job from the lists, or show it there again."""
        if self.job:
            await job_acts.archive(self.console, [self.job])
            self._look_anew()

    @work(group="ask")
    async def action_edit(self) -> None:
        """Change display name and tags."""
        if self.job:
            await job_acts.edit(self.console, self.job)
            self._look_anew()

    def action_download(self) -> None:
        """Fetch what the job wrote into a folder of this machine."""
        if job := self.job:
            self.console.act(job_acts.download(self.console, job))

    def action_register(self) -> None:
        """Register the model that this job wrote, a sweep's best trial's."""
        if self.job and (not self.job.active or self.job.type == "sweep"):
            self.console.act(job_acts.register(self.console, self.job))

    def action_rehearse(self) -> None:
        """Do to this job on purpose what befalls jobs on Azure."""
        from footplate.screens import rehearsals  # seldom asked for

        if self.job and self.job.active:
            self.console.act(rehearsals.on_job(self.console, self.job))
        elif self.job:
            self.console.notify(f"{self.job.name} has ended: nothing can befall it.", markup=False, timeout=4)

    def action_watch(self) -> None:
        """Watch this job, or no more."""
        if self.job and self.job.active:
            self.console.alerting.toggle("job", self.job_name)
        elif self.job:
            self.console.notify(f"{self.job.name} has ended: {self.job.status}.", markup=False, timeout=4)

    def action_copy(self) -> None:
        """Copy the link to the studio, or the job's name where there is none."""
        if self.job and self.job.studio_url:
            self.copy(self.job.studio_url, "The link to the studio")
        else:
            self.copy(self.job_name, self.job_name)

    def action_back(self) -> None:
        """Leave the list of files, else the job."""
        if self.tab != "logs" or not self.log_pane.leave_files():
            super().action_back()
