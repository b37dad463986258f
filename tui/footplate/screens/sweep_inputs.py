"""Choose the inputs of a command job to sweep, and the metric that says which trial is best."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from footplate.jobfile import JobFile
from footplate.jobfile.document import Input as JobInput
from footplate.operations import sweeps
from footplate.operations.sweeps import suggested
from footplate.widgets.choice import Choice
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable


@dataclass(frozen=True)
class Chosen:
    """What to sweep, and by what trials are compared."""

    names: tuple[str, ...]
    metric: str
    goal: str


class SweepInputs(ModalScreen[Chosen | None]):
    """A list of inputs to mark, the metric's name, and the goal; None when it was left."""

    DEFAULT_CSS = """
    SweepInputs { align: center middle; background: $background 60%; }
    SweepInputs > Vertical { width: 96%; max-width: 100; height: 80%; background: $surface; padding: 1 2; }
    SweepInputs .title { text-style: bold; height: 1; margin: 0 0 1 0; }
    SweepInputs VirtualTable > .table--cursor { background: $surface; }
    SweepInputs VirtualTable:focus > .table--cursor { background: $primary-muted; }
    SweepInputs Horizontal { height: 1; margin: 1 0 0 0; }
    SweepInputs .label { width: 9; height: 1; }
    SweepInputs Input { width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; }
    SweepInputs Choice { width: 18; margin: 0 0 0 2; }
    SweepInputs .foot { height: 1; color: $text-muted; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", show=False)]

    def __init__(self, inputs: Sequence[JobInput], metric: str = "") -> None:
        super().__init__()
        self._inputs = tuple(inputs)
        columns = (
            Column("name", "INPUT", None, minimum=16, priority=100),
            Column("value", "NOW", None, minimum=10, priority=90),
            Column("space", "BECOMES", None, minimum=28, priority=80),
        )
        self._table = VirtualTable(columns, empty="This job has no inputs that are values.")
        self._metric = Input(metric, placeholder="the name under which the script logs it", id="metric", compact=True)

    def compose(self) -> ComposeResult:
        """Title, the list, metric and goal, the keys."""
        with Vertical():
            yield Static(Content("Which inputs does the sweep draw?"), classes="title")
            yield self._table
            with Horizontal():
                yield Static(Content("metric"), classes="label")
                yield self._metric
                yield Choice(("maximize", "minimize"), "maximize")
            yield Static(Content("space marks   tab to the metric   enter makes the sweep   esc back"), classes="foot")

    def on_mount(self) -> None:
        """Start on the list."""
        self._metric.cursor_blink = False
        self._table.set_rows(
            [Row(one.name, (one.name, one.literal or '""', Cell(_words(one), "muted"))) for one in self._inputs]
        )
        self._table.focus()

    @on(VirtualTable.Selected)
    @on(Input.Submitted)
    def _done(self) -> None:
        """Give the answer; without a metric go to its field, without a mark the row under the cursor is meant."""
        table, metric = self._table, self._metric
        names = [one.name for one in self._inputs if one.name in table.marks]
        if not names and table.cursor_key is not None:
            names = [table.cursor_key]
        if not metric.value.strip():
            metric.focus()
        elif names:
            self.dismiss(Chosen(tuple(names), metric.value.strip(), self.query_one(Choice).value))

    @on(Choice.Opened)
    def _turn(self, event: Choice.Opened) -> None:
        event.choice.action_turn(1)

    def action_leave(self) -> None:
        """Leave without an answer."""
        self.dismiss(None)


def _words(given: JobInput) -> str:
    """A suggested space in words."""
    space = suggested(given)
    if space["type"] == "choice":
        return f"choice of {', '.join(map(str, space['values']))}"
    return f"{space['type']} {space['min_value']} to {space['max_value']}"


async def make_sweep(app: App[object], job_file: JobFile) -> JobFile | None:
    """Let one choose the inputs, and make the sweep; None when it was left. Call it in a worker. Raises Invalid."""
    chosen: Chosen | None = await app.push_screen_wait(SweepInputs(sweeps.sweepable(job_file)))
    if chosen is None:
        return None
    return await asyncio.to_thread(sweeps.as_sweep, job_file, chosen.names, chosen.metric, chosen.goal)
