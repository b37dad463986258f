"""One job: overview, live log of each rank, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import ContentSwitcher, Input, Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.operations import follow
from footplate.screens.base import ConsoleScreen, bindings
from footplate.screens.jobs import status_cell
from footplate.widgets.chart import Chart, Series
from footplate.widgets.chrome import KeyLine
from footplate.widgets.log_view import LogView
from footplate.widgets.virtual_table import Column, Row, VirtualTable
from footplate.workspace import Job, LogFile, MetricPoint

TABS = ("overview", "logs", "metrics")
_FILES_FROM_WIDTH = 110
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
        self.set_interval(1.0, self.poll)

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
        if not self.is_attached:
            return
        self.job = job
        self._done = not job.active
        if metrics != self._metrics:
            self._metrics = metrics
            await self._show_metrics()
        self._show_files(files)
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
        self.query_one(KeyLine).turn_off(frozenset({"register"} if job.active else {"cancel"}))

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
        elif self._file is not None:
            self._file = next((f for f in files if f.path == self._file.path), self._file)
        self._show_log_state()

    def _open_file(self, file: LogFile) -> None:
        self._file = file
        if file.local_path is not None:
            self.query_one(LogView).open(file.local_path)
        self.query_one("#files", VirtualTable).move_to(file.path)
        self._show_log_state()

    def _show_log_state(self) -> None:
        log = self.query_one(LogView)
        if self._file is None:
            waiting = "No log yet" if self.job is None or self.job.active else "This job wrote no log"
            self.query_one("#log-state", Static).update(
                Content(f"{waiting}. {clean(self.job.note if self.job else '')}")
            )
            return
        known = self._file.size
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
        self.query_one("#tabs", Static).update(
            Content("   ").join([Content.styled(f" {t} ", "reverse bold" if t == tab else "") for t in TABS])
        )
        {"overview": self.query_one("#overview"), "logs": self.query_one(LogView)}.get(
            tab, self.query_one("#metrics")
        ).focus()

    def action_overview(self) -> None:
        """All that is known of the job."""
        self.show_tab("overview")

    def action_logs(self) -> None:
        """The log."""
        self.show_tab("logs")

    def action_metrics(self) -> None:
        """The charts."""
        self.show_tab("metrics")

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
