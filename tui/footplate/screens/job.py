"""One job: overview, live log of each rank, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import ContentSwitcher, Input, Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.operations import follow
from footplate.screens.base import ConsoleScreen, bindings, pause_after
from footplate.screens.jobs import status_cell
from footplate.widgets.chart import Chart, Series
from footplate.widgets.chrome import KeyLine
from footplate.widgets.log_view import LogView
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable
from footplate.workspace import Job, LogFile, MetricPoint, NotSignedIn, Throttled, Unreachable, WorkspaceError

if TYPE_CHECKING:
    from footplate.operations.spool import Spool

PARENTS = {"sweep": "trials", "pipeline": "steps", "automl": "trials"}
"""Kinds of jobs that have children, and what these are called."""
_FILES_FROM_WIDTH = 110
_CHILD_COLUMNS = (
    Column("name", "NAME", None, minimum=20, priority=100),
    Column("status", "STATUS", 14, priority=99),
    Column("took", "TOOK", 6, "right", priority=80),
    Column("values", "VALUES", None, minimum=24, priority=90),
    Column("note", "NOTE", None, minimum=16, priority=40),
)
_STYLES = {"ok": "$text-success", "error": "$text-error", "warn": "$text-warning", "accent": "$text-accent"}


class JobScreen(ConsoleScreen):
    """One job. The log follows by itself; `[` and `]` go from rank to rank."""

    where = "job"
    BINDINGS = bindings("job")

    DEFAULT_CSS = """
    JobScreen #facts { height: 1; padding: 0 1; color: $text-muted; }
    JobScreen #tabs { height: 1; padding: 0 1; }
    JobScreen ContentSwitcher { height: 1fr; }
    JobScreen #overview { padding: 1 2; scrollbar-size-vertical: 1; }
    JobScreen #files { width: 30; display: none; border-right: solid $panel-lighten-2; }
    JobScreen.wide #files { display: block; }
    JobScreen #log-state { height: 1; padding: 0 1; background: $surface; color: $text-muted; }
    JobScreen #find { height: 1; border: none; padding: 0 1; display: none; background: $surface; }
    JobScreen #find.shown { display: block; }
    JobScreen #log { padding: 0 1; }
    JobScreen #strip { height: 2; padding: 0 1; border-top: solid $panel-lighten-2; }
    JobScreen #charts { height: 1fr; }
    JobScreen #charts > Horizontal { height: 1fr; }
    JobScreen Chart { width: 1fr; height: 1fr; padding: 0 1; }
    """

    def __init__(self, name: str, tab: str, came_from: str = "jobs") -> None:
        super().__init__()
        self.came_from = came_from
        self.job_name = name
        self.tab = tab
        self.job: Job | None = None
        self._done = False
        self._files: Sequence[LogFile] = ()
        self._file: LogFile | None = None
        self._chosen = False  # until the first user log is there, or the operator chose a file
        self._metrics: Mapping[str, Sequence[MetricPoint]] = {}
        self._children: Mapping[str, Job] = {}
        self._spool: Spool | None = None  # of a log that lies elsewhere
        self._log_fault = ""

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
                yield Static("Loading …", id="details", markup=False)
            with Horizontal(id="logs"):
                files = VirtualTable(
                    (Column("file", "FILES", None, minimum=14), Column("size", "SIZE", 9, "right", priority=50)),
                    id="files",
                )
                files.empty = "None yet."
                yield files
                with Vertical():
                    yield Static("", id="log-state", markup=False)
                    yield LogView(id="log")
                    yield Input(
                        placeholder="search: text or a regular expression; n next, N previous", id="find", compact=True
                    )
            with Vertical(id="metrics"):
                yield Static("No metrics yet.", id="no-metrics", markup=False)
                yield Vertical(id="charts")
            children = VirtualTable(_CHILD_COLUMNS, id="children")
            children.empty = "Loading …"
            yield children
        yield Static("", id="strip", markup=False)
        yield self.keys()

    def on_mount(self) -> None:
        """Load now, then every second."""
        self.query_one("#find", Input).cursor_blink = False
        self.query_one("#charts").display = False
        log = self.query_one(LogView)
        for reactive in ("follow", "new_lines", "total_lines", "size_bytes", "match_info"):
            self.watch(log, reactive, self._show_log_state, init=False)
        self.show_tab(self.tab)
        self.poll()
        self.set_interval(1.0, self.tick)

    def on_screen_resume(self) -> None:
        """Look again at once."""
        if self.is_mounted:
            self.poll()
            self._copy_on()

    def on_resize(self) -> None:
        """The list of files needs room beside the log."""
        self.set_class(self.size.width >= _FILES_FROM_WIDTH, "wide")

    # Data

    async def look(self) -> None:
        """Look at the job, its files and its metrics; nothing more once it has ended and was seen so."""
        if self._done:
            return
        job = await self.workspace.job(self.job_name)
        files = await self.workspace.log_files(self.job_name)
        metrics = await self.workspace.metrics(self.job_name)
        children = await self.workspace.children(self.job_name) if job.type in PARENTS else ()
        if not self.is_attached:
            return
        self.job = job
        self._done = not job.active
        if metrics != self._metrics:
            self._metrics = metrics
            await self._show_metrics()
        self._show_files(files)
        self._show_children(children)
        self._show_job(job)

    def say_fault(self, sentence: str) -> None:
        """In the line of facts; log and charts stay."""
        self.query_one("#facts", Static).update(Content.styled(clean(sentence), "$text-error"))

    def _show_job(self, job: Job) -> None:
        cell = status_cell(job.status)
        style = _STYLES.get(cell.style, "")
        now = datetime.now(UTC)
        took = words.span(job.seconds(now))
        why = job.error or job.note
        self.query_one("#facts", Static).update(
            Content.assemble(
                (f"{cell.text} {took}", f"bold {style}"),
                f"   {words.ranks(job.nodes, job.ranks_per_node)} on {clean(job.compute)}   ",
                (clean(why), style if job.error else ""),
            )
        )
        self.query_one("#details", Static).update(_details(job))
        off = {"register" if job.active else "cancel", *(() if job.type in PARENTS else ("children",))}
        self.query_one(KeyLine).turn_off(frozenset(off))

    def _show_children(self, children: Sequence[Job]) -> None:
        self._children = {child.name: child for child in children}
        table, now = self.query_one("#children", VirtualTable), datetime.now(UTC)
        table.empty = "None yet."
        table.set_rows([_child_row(child, now) for child in children])
        self._show_tabs()

    # Logs

    def _show_files(self, files: Sequence[LogFile]) -> None:
        self._files = files
        table = self.query_one("#files", VirtualTable)
        table.set_rows(
            [Row(f.path, (_file_label(f.path), words.size(f.size) if f.size is not None else "")) for f in files]
        )
        first = follow.first_user_log(files)
        if first is None and files and self.job is not None and not self.job.active:
            first = files[0]  # it ended before its command began: the supervisor's log says why
        if first is not None and not self._chosen:
            self._chosen = True
            self._open_file(first)
        elif self._file is None and files and files[0].local_path is None:
            self._open_file(files[0])  # on Azure the image may be built first, in a log of its own
        elif self._file is not None:
            self._file = next((f for f in files if f.path == self._file.path), self._file)
        self._show_log_state()

    def _open_file(self, file: LogFile) -> None:
        self._file, self._spool, self._log_fault = file, None, ""
        if file.local_path is not None:
            self.query_one(LogView).open(file.local_path)
        else:
            self.query_one(LogView).close()
            self._copy_on()
        self.query_one("#files", VirtualTable).move_to(file.path)
        self._show_log_state()

    def _copy_on(self) -> None:
        """Go on copying a log that lies elsewhere, where it is looked at."""
        if self._file is not None and self._file.local_path is None and self.tab == "logs":
            self._copy_log(self._file.path)

    @work(exclusive=True, group="log")
    async def _copy_log(self, path: str) -> None:
        """Copy a log into a file that the view reads, as long as it is in sight and may still grow."""
        going_on = True
        while going_on and self.is_current and self.tab == "logs":
            going_on = self.job is None or self.job.active  # before the read: what an ended job wrote is all there
            pause, fault = self.console.poll_seconds, ""
            try:
                await self._copy_what_is_there(path)
            except WorkspaceError as error:
                fault, pause = str(error), max(pause, pause_after(error))
                going_on = going_on or isinstance(error, NotSignedIn | Throttled | Unreachable)
                if isinstance(error, NotSignedIn):
                    self.console.offer_sign_in(error)
            except OSError as error:
                fault, going_on = f"The log cannot be copied to this machine: {error.strerror or error}.", False
            self._log_fault = fault
            self._show_log_state()
            if going_on:
                await asyncio.sleep(pause)

    async def _copy_what_is_there(self, path: str) -> None:
        """Copy to the log's present end, or until nobody looks any more."""
        spool = await self.console.spools.of(self.job_name, path)
        log = self.query_one(LogView)
        if self._spool is not spool:
            self._spool = spool
            log.open(spool.file)
        while await spool.step() and self.is_current and self.tab == "logs":
            pass

    def _show_log_state(self) -> None:
        log = self.query_one(LogView)
        if self._file is None:
            waiting = "No log yet" if self.job is None or self.job.active else "This job wrote no log"
            self.query_one("#log-state", Static).update(
                Content(f"{waiting}. {clean(self.job.note if self.job else '')}")
            )
            return
        if self._log_fault:
            self.query_one("#log-state", Static).update(Content.styled(clean(self._log_fault), "$text-error"))
            return
        known = self._file.size if self._spool is None else self._spool.total
        parts = [
            clean(self._file.path),
            f"{words.size(log.size_bytes)} of {words.size(max(known or 0, log.size_bytes))}",
            f"{log.total_lines:,} lines",
        ]
        if log.follow:
            state = ("● following", "$text-success") if self.job is None or self.job.active else ("at the end", "")
        else:
            state = (
                f"paused, {log.new_lines:,} new   G follows" if log.new_lines else "paused   G follows",
                "$text-warning",
            )
        found = (f"{clean(log.match_info)}   ", "$text-accent")  # first: what was asked for last is not cut off
        self.query_one("#log-state", Static).update(
            Content.assemble(found if log.match_info else "", state, "   ", "   ".join(parts))
        )

    @on(VirtualTable.Highlighted, "#files")
    def _file_chosen(self, event: VirtualTable.Highlighted) -> None:
        file = next((f for f in self._files if f.path == event.key), None)
        if file is not None and self._chosen and (self._file is None or file.path != self._file.path):
            self._open_file(file)

    @on(VirtualTable.Selected, "#files")
    def _into_log(self) -> None:
        self.query_one(LogView).focus()

    def action_next_file(self) -> None:
        """The next log file."""
        self._step_file(1)

    def action_previous_file(self) -> None:
        """The log file before."""
        self._step_file(-1)

    def _step_file(self, step: int) -> None:
        if self._files:
            paths = [f.path for f in self._files]
            self._chosen = True
            now = paths.index(self._file.path) if self._file and self._file.path in paths else 0
            self._open_file(self._files[(now + step) % len(paths)])
            self.show_tab("logs")

    def action_find(self) -> None:
        """Open the search line."""
        self.show_tab("logs")
        line = self.query_one("#find", Input)
        line.add_class("shown")
        line.focus()

    @on(Input.Submitted, "#find")
    def _find(self, event: Input.Submitted) -> None:
        log = self.query_one(LogView)
        log.search(event.value)
        event.input.set_class(bool(event.value), "shown")
        log.focus()

    # Metrics

    async def _show_metrics(self) -> None:
        series = {name: [(p.step, p.value) for p in points] for name, points in self._metrics.items() if points}
        self.query_one("#no-metrics").display = not series
        charts = self.query_one("#charts")
        charts.display = bool(series)
        if len(charts.query(Chart)) != len(series):
            await charts.remove_children()
            names = sorted(series, key=_metric_order)
            for i in range(0, len(names), 2):
                await charts.mount(Horizontal(*(Chart(id=_chart_id(name)) for name in names[i : i + 2])))
        for name, points in series.items():
            charts.query_one(f"#{_chart_id(name)}", Chart).show([Series(name, points)])
        latest = [f"{clean(name)} {words.number(series[name][-1][1])}" for name in sorted(series, key=_metric_order)]
        self.query_one("#strip", Static).update(Content("   ".join(latest)))

    # Tabs

    def show_tab(self, tab: str) -> None:
        """Show overview, logs or metrics."""
        self.tab = tab
        self.query_one(ContentSwitcher).current = tab
        self._copy_on()
        self._show_tabs()
        into = {"overview": "#overview", "logs": "#log", "children": "#children"}
        self.query_one(into.get(tab, "#metrics")).focus()

    def _show_tabs(self) -> None:
        tabs = {"overview": "overview", "logs": "logs", "metrics": "metrics"}
        if self.job is not None and self.job.type in PARENTS:
            tabs["children"] = f"{PARENTS[self.job.type]} {len(self._children)}"
        self.query_one("#tabs", Static).update(
            Content("   ").join(
                [Content.styled(f" {title} ", "reverse bold" if t == self.tab else "") for t, title in tabs.items()]
            )
        )

    def action_overview(self) -> None:
        """All that is known of the job."""
        self.show_tab("overview")

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

    @on(VirtualTable.Selected, "#children")
    def _into_child(self) -> None:
        child = self._children.get(self.query_one("#children", VirtualTable).cursor_key or "")
        if child is not None:
            tab = "logs" if child.active else "overview"
            self.app.push_screen(JobScreen(child.name, tab, self.app.current_mode))

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
            self.console.cancel_jobs([self.job])
        elif self.job:
            self.console.notify(f"{self.job.name} has ended: {self.job.status}.", markup=False, timeout=4)

    def action_register(self) -> None:
        """Register the model that this job wrote."""
        if self.job and not self.job.active:
            self.console.register_job(self.job)

    def action_back(self) -> None:
        """Leave the search line, else the job."""
        find = self.query_one("#find", Input)
        if find.has_class("shown"):
            find.remove_class("shown")
            find.value = ""
            self.query_one(LogView).search("")
            self.query_one(LogView).focus()
        else:
            super().action_back()


def _details(job: Job) -> Content:
    lines: list[Content] = []
    rows: list[tuple[str, str]] = [
        ("name", job.name),
        ("display name", job.display_name),
        ("type", job.type),
        ("status", job.status),
        ("experiment", job.experiment),
        ("cluster", job.compute),
        ("nodes × ranks", f"{job.nodes} × {job.ranks_per_node}"),
        ("created", f"{job.created.astimezone():%Y-%m-%d %H:%M:%S}"),
        ("started", f"{job.started.astimezone():%Y-%m-%d %H:%M:%S}" if job.started else ""),
        ("ended", f"{job.ended.astimezone():%Y-%m-%d %H:%M:%S}" if job.ended else ""),
        ("took", words.span(job.seconds())),
        ("note", job.note),
        ("error", job.error or ""),
        *((f"input {name}", str(value)) for name, value in job.inputs.items()),
        *((f"tag {name}", value) for name, value in job.tags.items()),
    ]
    for label, value in rows:
        if value:
            style = "$text-error" if label == "error" else ""
            lines.append(Content.assemble((f"{clean(label):<22}", "$text-muted"), (clean(value), style)))
    lines += [Content(""), Content.styled("command", "$text-muted")]
    lines += [Content(f"  {clean(line)}") for line in job.command.strip().splitlines()]
    return Content("\n").join(lines)


def _child_row(child: Job, now: datetime) -> Row:
    values = "  ".join(f"{name} {_short(value)}" for name, value in child.inputs.items())
    note = Cell(child.error, "error") if child.error else Cell(child.note, "muted")
    # A trial's name is its sweep's with a number, a step's is made up.
    known = not child.display_name or child.name.startswith(f"{child.parent}_")
    name = child.name if known else f"{child.display_name}  {child.name}"
    return Row(child.name, (name, status_cell(child.status), words.span(child.seconds(now)), values, note))


def _short(value: object) -> str:
    """A value of a search space in few digits, text as it is."""
    try:
        return words.number(float(str(value)))
    except ValueError:
        return str(value)


def _file_label(path: str) -> str:
    """`rank 3` for the log of a rank, else the file's name; the whole path stands above the log."""
    name = path.rpartition("/")[2]
    rank = name.removeprefix("std_log_process_").removesuffix(".txt")
    return f"rank {int(rank)}" if rank.isdigit() else name


def _metric_order(name: str) -> tuple[int, str]:
    """Losses and accuracies first, in the order an operator reads them."""
    first = ("train_loss", "val_loss", "val_acc", "best_val_acc", "images_per_second", "lr")
    return (first.index(name) if name in first else len(first), name)


def _chart_id(name: str) -> str:
    """A widget's id from any metric name: its bytes in hex, since names are data."""
    return f"chart-{name.encode().hex()}"
