"""The metrics of one job: a chart each, the ones an operator reads first at the top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.widgets.chart import Chart, Series
from footplate.workspace import MetricPoint

Metrics = Mapping[str, Sequence[MetricPoint]]


class MetricsPane(Vertical):
    """Charts two by two, drawn again when what was logged has changed."""

    DEFAULT_CSS = """
    MetricsPane #charts { height: 1fr; display: none; }
    MetricsPane #charts > Horizontal { height: 1fr; }
    MetricsPane Chart { width: 1fr; height: 1fr; padding: 0 1; }
    """

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.metrics: Metrics = {}

    def compose(self) -> ComposeResult:
        """A line while there are none, the charts."""
        yield Static("No metrics yet.", id="no-metrics", markup=False)
        yield Vertical(id="charts")

    async def show_metrics(self, metrics: Metrics) -> None:
        """Draw them where they differ from those before."""
        if metrics == self.metrics:
            return
        self.metrics = metrics
        series = {name: [(p.step, p.value) for p in points] for name, points in metrics.items() if points}
        self.query_one("#no-metrics").display = not series
        charts = self.query_one("#charts")
        charts.display = bool(series)
        if {chart.id for chart in charts.query(Chart)} != {_chart_id(name) for name in series}:
            await charts.remove_children()
            names = sorted(series, key=_order)
            for i in range(0, len(names), 2):
                await charts.mount(Horizontal(*(Chart(id=_chart_id(name)) for name in names[i : i + 2])))
        for name, points in series.items():
            charts.query_one(f"#{_chart_id(name)}", Chart).show([Series(name, points)])


def latest(metrics: Metrics) -> Content:
    """The last value of each metric on one line."""
    known = sorted((name for name, points in metrics.items() if points), key=_order)
    return Content("   ".join(f"{clean(name)} {words.number(metrics[name][-1].value)}" for name in known))


def _order(name: str) -> tuple[int, str]:
    """Losses and accuracies first, in the order an operator reads them."""
    first = ("train_loss", "val_loss", "val_acc", "best_val_acc", "images_per_second", "lr")
    return (first.index(name) if name in first else len(first), name)


def _chart_id(name: str) -> str:
    """A widget's id from any metric name: its bytes in hex, since names are data."""
    return f"chart-{name.encode().hex()}"
