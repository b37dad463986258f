"""The last hour of an endpoint: small charts of requests, errors, latency and load, one curve a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.screens import endpoint_acts
from footplate.screens.base import ConsoleScreen, bindings
from footplate.widgets.chart import Chart, Series
from footplate.workspace import Endpoint, Figures
from footplate.workspace.traffic import shares_text

_FIRST = ("requests_per_minute", "errors", "latency_ms_p50", "latency_ms_p95", "cpu_percent", "gpu_percent", "memory")
"""What an operator looks at first, by the beginnings of the figures' names."""
_EVERY_SECONDS = 10.0
_MOST = 6
_LEAST_HEIGHT = 6


class MonitorScreen(ConsoleScreen):
    """Figures of one endpoint, asked for anew every ten seconds."""

    where = "monitor"
    BINDINGS = bindings("monitor")
    DEFAULT_CSS = """
    MonitorScreen #facts { height: 1; padding: 0 1; color: $text-muted; }
    MonitorScreen #charts { height: 1fr; }
    MonitorScreen #charts > Horizontal { height: 1fr; }
    MonitorScreen Chart { width: 1fr; height: 1fr; }
    MonitorScreen .figure { width: 1fr; height: 1fr; padding: 0 1; }
    MonitorScreen .figure > Static { height: 1; color: $text-muted; }
    """

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self.endpoint_name = endpoint
        self.endpoint: Endpoint | None = None
        self._figures: Sequence[Figures] = ()
        self._drawn: tuple[str, ...] = ()
        self._charts = Vertical(id="charts")

    def crumbs(self) -> tuple[str, ...]:
        """`endpoints ▸ name ▸ last hour`."""
        return ("endpoints", self.endpoint_name, "last hour")

    def compose(self) -> ComposeResult:
        """Facts, charts, keys."""
        yield self.top()
        yield Static("Loading …", id="facts", markup=False)
        yield self._charts
        yield self.keys()

    def on_mount(self) -> None:
        """Look now and every ten seconds: the services count by the minute."""
        self.set_interval(_EVERY_SECONDS, self.tick)
        self.poll()

    def on_screen_resume(self) -> None:
        """Look again at once."""
        if self.is_mounted:
            self.poll()

    async def look(self) -> None:
        """Ask for the endpoint and its figures, and draw them."""
        endpoint = await self.workspace.endpoint(self.endpoint_name)
        figures = await self.workspace.monitor(self.endpoint_name)
        if self.is_attached:
            self.endpoint, self._figures = endpoint, figures
            self._show_facts()
            self._show_charts()

    def say_fault(self, sentence: str) -> None:
        """In the line of facts; the charts stay."""
        self.query_one("#facts", Static).update(Content.styled(clean(sentence), "$text-error"))

    def _show_facts(self) -> None:
        assert self.endpoint is not None
        counted = [one.until for one in self._figures if one.until is not None]
        until = f"counted up to {max(counted).astimezone():%H:%M}, {words.age(max(counted))} ago" if counted else ""
        none = "" if any(one.series for one in self._figures) else "no figures yet: they come with the first requests"
        parts = (self.endpoint.state, f"traffic {shares_text(self.endpoint.traffic)}", until, none)
        self.query_one("#facts", Static).update(Content(clean(" · ".join(part for part in parts if part))))

    @work(exclusive=True, group="draw")
    async def _show_charts(self) -> None:
        """One chart a figure, in a grid that fits; what has no room is left out, last first."""
        names = sorted({name for one in self._figures for name, points in one.series.items() if points}, key=_order)
        names = names[: min(_MOST, 2 * max(1, (self.size.height - 3) // _LEAST_HEIGHT))]
        charts = self._charts
        if tuple(names) != self._drawn:
            self._drawn = ()  # until all are there: another look or a resize may cut this off
            await charts.remove_children()
            for start in range(0, len(names), 2):
                if not charts.is_attached:
                    return  # left meanwhile
                await charts.mount(
                    Horizontal(
                        *(
                            Vertical(
                                Static(Content(clean(title(name))), markup=False), Chart(x_name="min"), classes="figure"
                            )
                            for name in names[start : start + 2]
                        )
                    )
                )
            self._drawn = tuple(names)
        now = datetime.now(UTC)
        for name, chart in zip(names, charts.query(Chart), strict=True):
            chart.show([_series(one, name, now) for one in self._figures if one.series.get(name)])

    def on_resize(self) -> None:
        """As many charts as there is room for now."""
        if self._figures:
            self._show_charts()

    # Acts

    def action_traffic(self) -> None:
        """Share out the traffic."""
        if self.endpoint is not None:
            self.console.act(endpoint_acts.set_traffic(self.console, self.endpoint))

    def action_server_log(self) -> None:
        """The end of the newest deployment's log."""
        from footplate.screens.server_log import ServerLog

        if self.endpoint is not None and self.endpoint.deployments:
            newest = max(self.endpoint.deployments, key=lambda deployment: deployment.created)
            self.app.push_screen(ServerLog(self.workspace, self.endpoint_name, newest.name, newest.error))


def _order(name: str) -> tuple[int, str]:
    return next((at for at, first in enumerate(_FIRST) if name.startswith(first)), len(_FIRST)), name


def title(name: str) -> str:
    """A figure's name as a sentence has it: `latency ms p95`, `CPU %`."""
    return name.replace("_percent", " %").replace("_", " ").replace("cpu", "CPU").replace("gpu", "GPU")


def _series(figures: Figures, name: str, now: datetime) -> Series:
    """One deployment's curve of a figure, over minutes from now."""
    return Series(
        figures.deployment,
        [(round((moment - now).total_seconds() / 60), value) for moment, value in figures.series[name]],
    )
