"""Jobs side by side: what they were given that differs, and their metrics over each other, a sign and a colour a job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from footplate.logs.sanitise import clean
from footplate.operations.metrics import (
    SYSTEM,
    Metrics,
    Panel,
    begin_of,
    compared,
    differences,
    labels,
    split_system,
)
from footplate.screens.base import ConsoleScreen, bindings
from footplate.screens.jobs import status_cell
from footplate.widgets.chart_drawing import COLOURS, SERIES_COLOURS, SIGNS
from footplate.widgets.chart_pane import ChartPane, Group
from footplate.widgets.virtual_table import Column, Row, VirtualTable
from footplate.workspace import Job

if TYPE_CHECKING:
    from footplate.app import FootplateApp

MOST = len(SIGNS)
"""As many jobs as there are signs to tell them by."""
_TABLE_SHARE = 0.4
"""At most so much of the screen is the table's."""


class CompareScreen(ConsoleScreen):
    """Two jobs and more. The charts have the keys; tab goes to the table."""

    where = "compare"
    BINDINGS = bindings("compare")

    DEFAULT_CSS = """
    CompareScreen #legend { height: auto; max-height: 4; padding: 0 1; }
    CompareScreen #differences { height: 3; border-bottom: solid $panel-lighten-2; }
    CompareScreen ChartPane { height: 1fr; }
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)
        self.jobs: tuple[Job, ...] = ()
        self._metrics: tuple[Metrics, ...] = ()
        self._legend = Static("Loading …", id="legend", markup=False)
        self._table = VirtualTable((Column("name", "DIFFERS"),), id="differences", marking=False, empty="Loading …")
        self._charts = ChartPane(signs_only=True, id="compared")

    def crumbs(self) -> tuple[str, ...]:
        """`jobs ▸ 3 compared`."""
        return ("jobs", f"{len(self.names)} compared")

    def compose(self) -> ComposeResult:
        """Who is who, what differs, the charts."""
        yield self.top()
        yield self._legend
        yield self._table
        yield self._charts
        yield self.keys()

    def on_mount(self) -> None:
        """Look now, and again while one of them goes on."""
        self._charts.focus()
        self.poll()
        self.set_interval(1.0, self.tick)

    def on_screen_resume(self) -> None:
        """Look again at once."""
        if self.is_mounted:
            self.poll()

    def on_resize(self) -> None:
        """The table takes its share of the new height, the legend the new width."""
        self._size_table()
        if self.jobs:
            self._show_legend()

    async def look(self) -> None:
        """Ask for the jobs and their metrics; once all have ended and were seen so, for nothing more."""
        if self.jobs and not any(job.active for job in self.jobs):
            return
        jobs = tuple(await asyncio.gather(*map(self.workspace.job, self.names)))
        metrics = tuple(await asyncio.gather(*map(self._read, self.names)))
        if not self.is_attached:
            return
        if jobs != self.jobs:
            self.jobs = jobs
            self._show_jobs()
        if metrics != self._metrics:
            self._metrics = metrics
            self._show_charts()

    async def _read(self, name: str) -> Metrics:
        """A job's metrics, and what was sampled beside it, as MLflow would have logged it."""
        metrics = await self.workspace.metrics(name)
        if "usage" in self.workspace.capabilities:
            return metrics
        usage = await self.workspace.usage(name)
        return {**metrics, **{f"{SYSTEM}{figure}": points for figure, points in usage.series.items()}}

    def say_fault(self, sentence: str) -> None:
        """In place of the legend; the charts stay."""
        self._legend.update(Content.styled(clean(sentence), "$text-error"))

    def _show_jobs(self) -> None:
        called = labels(self.jobs)
        self._show_legend()
        found = differences(self.jobs)
        self._table.empty = "They were given the same: no parameter, input, command, size or cluster differs."
        self._table.set_columns(
            (
                Column("name", "DIFFERS", 20, priority=100),
                *(
                    Column(f"job {at}", f"{SIGNS[at]} {name}", None, minimum=12, priority=99 - at)
                    for at, name in enumerate(called)
                ),
            )
        )
        self._table.set_rows(
            [
                Row(difference.name, (difference.name, *(value or "–" for value in difference.values)))
                for difference in found
            ]
        )
        self._size_table()

    def _show_legend(self) -> None:
        """Who is who, nobody cut in two by the end of a line."""
        lines: list[list[Content]] = [[]]
        for at, (name, job) in enumerate(zip(labels(self.jobs), self.jobs, strict=True)):
            entry = Content.assemble(
                (f"{SIGNS[at]} {clean(name)}", f"bold {SERIES_COLOURS[at % COLOURS]}"),
                (f" {status_cell(job.status).text}   ", "$text-muted"),
            )
            if lines[-1] and sum(one.cell_length for one in lines[-1]) + entry.cell_length > self.size.width:
                lines.append([])
            lines[-1].append(entry)
        self._legend.update(Content("\n").join(Content("").join(line) for line in lines))

    def _size_table(self) -> None:
        most = max(4, int(self.size.height * _TABLE_SHARE))
        self._table.styles.height = min(most, max(1, len(self._table.rows)) + 2 + (not self._table.rows))

    def _show_charts(self) -> None:
        called = labels(self.jobs)
        own = [split_system(metrics) for metrics in self._metrics]
        begins = [begin_of(metrics, job) for metrics, job in zip(self._metrics, self.jobs, strict=True)]
        self._charts.picture_name = ("compared",)

        def of(part: int) -> list[Panel]:
            return compared(
                [(label, own[at][part], begins[at]) for at, label in enumerate(called)], from_zero=part == 1
            )

        groups = (
            Group("metrics", of(0), "None of them has logged metrics."),
            Group("usage", of(1), "Nothing was sampled of them.", "time"),
        )
        self._charts.show_groups(lambda joined: groups)


def compare(console: FootplateApp, jobs: Sequence[Job]) -> None:
    """Open the screen on these jobs, or say how many it takes."""
    if len(jobs) < 2:
        console.notify("Mark two jobs or more with space, then v compares them.", markup=False, timeout=5)
    elif len(jobs) > MOST:
        console.notify(f"{len(jobs)} are marked; {MOST} at most are told apart on a chart.", markup=False, timeout=5)
    else:
        console.push_screen(CompareScreen([job.name for job in jobs]))
