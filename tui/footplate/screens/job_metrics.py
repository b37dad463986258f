"""The metrics of one job, and what its ranks use of the machine: charts in pages, drawn again when there is more."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import cast

from textual import work
from textual.content import Content

from footplate import words
from footplate.logs.sanitise import clean
from footplate.operations.metrics import (
    Metrics,
    begin_of,
    load,
    order,
    panels,
    shown,
    split_system,
    usage_panels,
)
from footplate.screens.base import ConsoleScreen
from footplate.widgets.chart_pane import ChartPane, Group
from footplate.workspace import Job, Usage, WorkspaceError

__all__ = ["Metrics", "MetricsPane"]

_USAGE_SECONDS = 5.0
"""How often usage is looked at: it is sampled no more often."""


class MetricsPane(ChartPane):
    """What the script logged; behind `u` what was sampled beside it."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.metrics: Metrics = {}
        self.usage = Usage()
        self._job: Job | None = None
        self._usage_due = 0.0
        self._usage_whole = False

    async def show_metrics(self, metrics: Metrics, job: Job | None = None) -> None:
        """Show them where they differ from those before, and look at the usage where it is time to."""
        first = self._job is None
        self._job = job or self._job
        self.picture_name = (self._job.name,) if self._job else ()
        if first or metrics != self.metrics:
            self.metrics = metrics
            self._rebuild()
        if self._job is not None and not self._usage_whole and monotonic() >= self._usage_due:
            self._usage_due = monotonic() + _USAGE_SECONDS
            self._read_usage(self._job)

    @work(exclusive=True, group="usage")
    async def _read_usage(self, job: Job) -> None:
        workspace = cast(ConsoleScreen, self.screen).workspace
        if refusal := workspace.capabilities.get("usage"):
            usage = Usage(note=refusal)
        else:
            try:
                usage = await workspace.usage(job.name)
            except WorkspaceError as error:
                usage = Usage(self.usage.series, str(error))
        self._usage_whole = not job.active
        if self.is_attached and usage != self.usage:
            self.usage = usage
            self._rebuild()

    def _rebuild(self) -> None:
        own, system = split_system(self.metrics)
        usage, note = {**system, **self.usage.series}, self.usage.note
        begin = begin_of(self.metrics or usage, self._job)
        waits = self._job is not None and self._job.active
        empty = (
            "No metrics yet. They are drawn as the script logs them with mlflow."
            if waits
            else "It has logged no metrics: mlflow.log_metric(name, value, step) in the script does."
        )
        if self._job is not None and self._job.type != "command":
            what = {"sweep": "trials", "pipeline": "steps"}.get(self._job.type, "children")
            empty = f"A {self._job.type} job logs nothing itself: its {what} do. t shows them, v there compares them."
        no_usage = note or ("Nothing sampled yet." if waits else "Nothing was sampled of it.")

        def build(joined: bool) -> Sequence[Group]:
            return (
                Group("metrics", panels(own, joined, begin), empty),
                Group("usage", usage_panels(usage, begin), no_usage, "time"),
            )

        self.show_groups(build)

    def latest(self) -> Content:
        """The last value of each metric on one line, and the load."""
        own, system = split_system(self.metrics)
        known = sorted((name for name, points in own.items() if len(points)), key=order)
        now = str(load({**system, **self.usage.series}, own)) if self._job is not None and self._job.active else ""
        told = {"data_wait"} if "data wait" in now else set()
        values = "   ".join(
            f"{clean(shown(name))} {words.number(own[name][-1].value)}" for name in known if name not in told
        )
        return Content.assemble((clean(now), "$text-accent"), "   " if now and values else "", values)
