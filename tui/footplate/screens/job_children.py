"""The children of one job: a sweep's trials as a table, the best first, or a pipeline's steps as a live graph."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import ClassVar, cast

from textual import on, work
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from footplate import words
from footplate.actions import actions
from footplate.logs.sanitise import clean
from footplate.operations.children import Plan, best_first, best_so_far, numbers_or_texts, plan_of, step_of
from footplate.screens import job_acts
from footplate.screens.base import ConsoleScreen
from footplate.screens.compare import compare
from footplate.screens.jobs import status_cell
from footplate.widgets.chart import Chart, Series, sparkline
from footplate.widgets.graph import GraphView, Node, NodeStyle
from footplate.widgets.key_hints import key_hints
from footplate.widgets.scatter import Scatter, Spot
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable
from footplate.workspace import Job, WorkspaceError
from footplate.workspace.points import Points

PARENTS = {"sweep": "trials", "pipeline": "steps", "automl": "trials"}
"""Kinds of jobs that have children, and what these are called."""

BEST_SIGN = "★"
_CHART_FROM_HEIGHT = 30
_BOTH_FROM_WIDTH = 110
_CURVE_WIDTH = 12
_PLOT_ROWS = (9, 18)
_CURVES_SECONDS = 3.0
_CURVES_AT_ONCE, _SOME_CURVES = 4, 32
_NAME = Column("name", "NAME", None, minimum=16, priority=100)
_STATUS = Column("status", "STATUS", 14, priority=99)
_TOOK = Column("took", "TOOK", 6, "right", priority=80)
_NOTE = Column("note", "NOTE", None, minimum=16, priority=40)
_PARAMETER_WIDTH = 12


class ChildrenPane(Vertical):
    """Trials or steps, kept up to date; `Opened` says which one is wanted."""

    DEFAULT_CSS = """
    ChildrenPane #children-said { height: auto; max-height: 4; padding: 0 1; }
    ChildrenPane GraphView { padding: 0 1; display: none; }
    ChildrenPane.graph GraphView { display: block; }
    ChildrenPane.graph VirtualTable { display: none; }
    ChildrenPane #plots { display: none; border-top: solid $panel-lighten-2; }
    ChildrenPane #plots > * { padding: 0 1; }
    ChildrenPane #trial-keys { height: 1; padding: 0 1; text-wrap: nowrap; display: none; }
    ChildrenPane.plotted #plots { display: block; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding(a.keys, a.id, a.title, show=False) for a in actions("trials")]

    class Opened(Message):
        """A child is to be opened."""

        def __init__(self, child: Job) -> None:
            super().__init__()
            self.child = child

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.children_by_name: Mapping[str, Job] = {}
        self._job: Job | None = None
        self._plan: Plan | None = None
        self._plan_fault = ""
        self._asked = False
        # Kept, not looked up: what is read while the screen is taken down finds no part of it any more.
        self._said_line = Static("", id="children-said", markup=False)
        self._table = VirtualTable((_NAME, _STATUS, _TOOK, _NOTE), id="trials", empty="Loading …")
        self._graph = GraphView(id="steps")
        self._chart = Chart(x_name="trial", empty="No trial has logged the metric yet.")
        self._scatter = Scatter()
        self._plots = Horizontal(self._chart, self._scatter, id="plots")
        self._hints = Static("", id="trial-keys", markup=False)
        self._plot: int | None = None
        """Which plot was asked for: 0 is the best so far, then a parameter each, then none; None until one was."""
        self._curves: dict[str, Sequence[float]] = {}
        self._whole_curves: set[str] = set()
        self._curves_due = 0.0

    def compose(self) -> ComposeResult:
        """What is said of all, the table or the graph, the chart."""
        yield self._said_line
        yield self._table
        yield self._graph
        yield self._plots
        yield self._hints

    @property
    def first(self) -> VirtualTable | GraphView:
        """What the keys go to."""
        return self._graph if self.has_class("graph") else self._table

    def explain(self) -> Content:
        """What is said of the trial under the cursor, which its row has no room for."""
        child = None if self.has_class("graph") else self.children_by_name.get(self._table.cursor_key or "")
        if child is None or not (child.error or child.note):
            return Content("")
        style = "$text-error" if child.error else "$text-muted"
        said = (child.error or child.note).splitlines()[0]
        return Content.assemble((f"{clean(child.name)}  ", "bold"), (clean(said), style))

    def show_children(self, job: Job, children: Sequence[Job]) -> None:
        """Show the children of a job as they are now."""
        self._job = job
        self.children_by_name = {child.name: child for child in children}
        if not self._asked:
            self._asked = True
            self._read_plan(job.name)
        self._draw()

    @work(exclusive=True, group="plan")
    async def _read_plan(self, name: str) -> None:
        """The job's own file says what its children cannot: limits, and what a step waits for. It never changes."""
        workspace = cast(ConsoleScreen, self.screen).workspace
        if "job_file" in workspace.capabilities:
            return
        try:
            self._plan = await asyncio.to_thread(plan_of, await workspace.job_file(name))
        except WorkspaceError as error:
            self._plan_fault = f"Its file cannot be read: {error.sentence}"
        if self.is_attached and self._job is not None:
            self._draw()

    def _draw(self) -> None:
        job = self._job
        assert job is not None
        steps = self._plan.after if self._plan is not None else None
        has_focus = self.first.has_focus
        self.set_class(bool(steps), "graph")
        if steps:
            self._draw_graph(steps)
        elif job.type == "pipeline":
            self._draw_steps()
        else:
            self._draw_trials(job)
        self._said_line.update(Content("\n").join(self._said(job)))
        if has_focus and not self.first.has_focus:
            self.first.focus()

    # What is said of all

    def _said(self, job: Job) -> list[Content]:
        """How far it is and what bounds it; then its own note, which says what is wrong."""
        lines = [Content(clean(self._how_far(job)))]
        why = job.error or job.note
        if why and why != f"best trial {job.best_child}":  # which the first line says
            missing = job.best_child is None and (job.primary_metric or "\0") in why
            grave = "$text-error" if job.error else "$text-warning" if missing else ""
            lines += [Content.styled(clean(line), grave or "$text-muted") for line in why.splitlines()[:2]]
        if self._plan_fault:
            lines.append(Content.styled(clean(self._plan_fault), "$text-muted"))
        return lines

    def _how_far(self, job: Job) -> str:
        children, plan = list(self.children_by_name.values()), self._plan or Plan()
        running = sum(child.status in ("Running", "Finalizing") for child in children)
        if job.type == "pipeline":
            done = sum(child.status == "Completed" for child in children)
            total = len(plan.after) if plan.after else len(children)
            return f"{done} of {total} steps completed, {running} running"
        parts = [f"{len(children)} of {plan.most} trials" if plan.most else f"{len(children)} trials"]
        parts.append(f"{running} running" if running else "")
        parts.append(f"{plan.at_once} at once" if plan.at_once else "")
        parts.append(plan.sampling)
        parts.append(f"{plan.policy} may stop" if plan.policy else "")
        goal = " ".join(part for part in ((job.goal or "").lower(), job.primary_metric) if part)
        parts.append(goal)
        best = self.children_by_name.get(job.best_child or "")
        if best is not None and not (job.note or "").startswith(f"best {best.name}:"):  # else the note says it
            value = f" {words.metric(best.metric)} by its best value, not its last" if best.metric is not None else ""
            parts.append(f"best {BEST_SIGN} {best.name}{value}")
        return " · ".join(part for part in parts if part)

    # Trials

    def _draw_trials(self, job: Job) -> None:
        trials = best_first(list(self.children_by_name.values()), job.goal)
        names = list(dict.fromkeys(name for trial in trials for name in trial.parameters))
        metric = job.primary_metric or "METRIC"
        table = self._table
        table.empty = "No trial yet."
        table.set_columns(
            (
                Column("name", "TRIAL", None, minimum=16, priority=100),
                _STATUS,
                Column("metric", metric, max(10, min(18, len(metric) + 2)), "right", priority=98),
                *(
                    Column(
                        f"parameter {name}", name, max(8, min(_PARAMETER_WIDTH, len(name))), "right", priority=95 - at
                    )
                    for at, name in enumerate(names)
                ),
                Column("curve", "CURVE", _CURVE_WIDTH, priority=60),
                _TOOK,
                _NOTE,
            )
        )
        now = datetime.now(UTC)
        table.set_rows([_trial_row(trial, names, trial.name == job.best_child, now, self._curves) for trial in trials])
        self._draw_plots(job, names)
        if monotonic() >= self._curves_due:
            self._curves_due = monotonic() + _CURVES_SECONDS
            self._read_curves(trials, job.primary_metric)

    def _draw_plots(self, job: Job, names: Sequence[str]) -> None:
        """The best so far beside a parameter against the metric; where there is room for one, that which was asked for."""
        made = sorted(self.children_by_name.values(), key=lambda trial: trial.created)
        points = [(float(at), trial.metric) for at, trial in enumerate(made) if trial.metric is not None]
        self._hints.display = bool(made)
        self._hints.update(
            key_hints([a for a in actions("trials") if not a.changes or self._may_change], self.size.width - 2)
        )
        enough = sum(math.isfinite(value) for _, value in points) > 1
        tall, wide = self.screen.size.height >= _CHART_FROM_HEIGHT, self.screen.size.width >= _BOTH_FROM_WIDTH
        if self._plot is not None and self._plot > len(names):
            self._plot = None if tall else -1
        asked = self._plot is not None and self._plot >= 0
        self.set_class(bool(made) and (asked or (enough and tall)), "plotted")
        self._plots.styles.height = max(_PLOT_ROWS[0], min(_PLOT_ROWS[1], self.size.height - len(made) - 4))
        parameter = max(0, (self._plot or 1) - 1)
        self._chart.display = wide or not names or (self._plot or 0) <= 0
        self._scatter.display = bool(names) and (wide or (self._plot or 0) > 0)
        metric = job.primary_metric or "metric"
        best = best_so_far([value for _, value in points], job.goal)
        self._chart.show(
            [Series(metric, points), Series("best so far", [(x, y) for (x, _), y in zip(points, best, strict=True)])]
        )
        if names:
            self._show_scatter(job, names[min(parameter, len(names) - 1)], metric)

    @property
    def _may_change(self) -> bool:
        return not cast(ConsoleScreen, self.screen).console.read_only

    def _show_scatter(self, job: Job, name: str, metric: str) -> None:
        having = [trial for trial in self.children_by_name.values() if name in trial.parameters]
        values = numbers_or_texts([trial.parameters[name] for trial in having])
        self._scatter.show(
            [Spot(trial.name, x, trial.metric) for trial, x in zip(having, values, strict=True)],
            x_name=name,
            y_name=metric,
            log=self._plan is not None and name in self._plan.logarithmic,
            best=job.best_child,
            chosen=self._table.cursor_key,
        )

    @work(exclusive=True, group="curves")
    async def _read_curves(self, trials: Sequence[Job], metric: str | None) -> None:
        """The curves of the trials in the table: those that run again and again, those that ended once."""
        workspace = cast(ConsoleScreen, self.screen).workspace
        wanted = [one for one in trials if one.started is not None and one.name not in self._whole_curves]
        limit = asyncio.Semaphore(_CURVES_AT_ONCE)

        async def read(trial: Job) -> None:
            async with limit:
                try:
                    points = (await workspace.metrics(trial.name)).get(metric or "", ())
                except WorkspaceError:
                    return  # the row stays without a curve, and the next look tries again
            self._curves[trial.name] = Points.of(points).values
            if not trial.active:
                self._whole_curves.add(trial.name)

        for start in range(0, len(wanted), _SOME_CURVES):
            await asyncio.gather(*map(read, wanted[start : start + _SOME_CURVES]))
            if self.is_attached and self._job is not None:
                self._draw()

    # Steps

    def _draw_steps(self) -> None:
        """Without the graph, a table: the display name is the step's."""
        table, now = self._table, datetime.now(UTC)
        table.empty = "No step yet."
        table.set_columns((_NAME, _STATUS, _TOOK, _NOTE))
        table.set_rows([_step_row(child, now) for child in self.children_by_name.values()])

    def _draw_graph(self, steps: Mapping[str, tuple[str, ...]]) -> None:
        now = datetime.now(UTC)
        runs = self._runs(steps)
        self._graph.show(
            [
                Node(step, step, _detail(runs.get(step), now), after, _style(runs.get(step)))
                for step, after in steps.items()
            ]
        )

    def _runs(self, steps: Mapping[str, tuple[str, ...]]) -> dict[str, Job]:
        """The newest child of each step."""
        found: dict[str, Job] = {}
        for child in sorted(self.children_by_name.values(), key=lambda child: child.created):
            if (step := step_of(child, tuple(steps))) is not None:
                found[step] = child
        return found

    # Keys

    def action_open_trial(self) -> None:
        """Open the trial under the cursor."""
        self._table.action_select()

    def action_mark(self) -> None:
        """Mark the trial under the cursor."""
        self._table.action_mark()

    def action_plot(self) -> None:
        """The next plot; after the last none, where the screen is low."""
        if self._job is None or self.has_class("graph") or self._job.type == "pipeline":
            raise SkipAction
        self._plot = 0 if self._plot is None and not self.has_class("plotted") else (self._plot or 0) + 1
        self._draw()

    def _chosen(self) -> list[Job]:
        """The marked trials, or the one under the cursor."""
        names = self._table.marks or {self._table.cursor_key or ""}
        return [child for name, child in self.children_by_name.items() if name in names]

    def action_cancel_trial(self) -> None:
        """Cancel the trial under the cursor, or those that are marked, after asking."""
        console, chosen = cast(ConsoleScreen, self.screen).console, self._chosen()
        if console.read_only:
            console.notify("The workspace is open read-only.", markup=False, timeout=4)
        elif active := [child for child in chosen if child.active]:
            console.act(job_acts.cancel(console, active))
        elif chosen:
            console.notify(f"{chosen[0].name} has ended: {chosen[0].status}.", markup=False, timeout=4)

    def action_compare(self) -> None:
        """The charts of the marked trials over each other."""
        compare(cast(ConsoleScreen, self.screen).console, self._chosen())

    @on(VirtualTable.Highlighted, "#trials")
    def _point_out(self, event: VirtualTable.Highlighted) -> None:
        """Tell the trial under the cursor apart in the plot; the message goes on to the screen."""
        self._scatter.choose(event.key)

    @on(VirtualTable.Selected, "#trials")
    def _row_chosen(self, event: VirtualTable.Selected) -> None:
        event.stop()
        if child := self.children_by_name.get(event.key):
            self.post_message(self.Opened(child))

    @on(GraphView.Selected)
    def _step_chosen(self, event: GraphView.Selected) -> None:
        event.stop()
        steps = self._plan.after if self._plan is not None else None
        child = self._runs(steps or {}).get(event.key)
        if child is not None:
            self.post_message(self.Opened(child))
        else:
            self.app.notify(f"Step {event.key} has not begun.", markup=False, timeout=4)


def _trial_row(
    trial: Job, names: Sequence[str], best: bool, now: datetime, curves: Mapping[str, Sequence[float]]
) -> Row:
    metric = "–" if trial.metric is None else words.metric(trial.metric)
    return Row(
        trial.name,
        (
            trial.name,
            status_cell(trial.status),
            Cell(f"{BEST_SIGN} {metric}" if best else metric, "ok" if best else "plain"),
            *(words.value(trial.parameters[name]) if name in trial.parameters else "" for name in names),
            Cell(sparkline(curves.get(trial.name, ()), _CURVE_WIDTH), "muted"),
            words.span(trial.seconds(now)),
            Cell(trial.error, "error") if trial.error else Cell(trial.note, "muted"),
        ),
    )


def _step_row(child: Job, now: datetime) -> Row:
    named = child.display_name and child.display_name != child.name
    name = f"{child.display_name}  {child.name}" if named else child.name
    note = Cell(child.error, "error") if child.error else Cell(child.note, "muted")
    return Row(child.name, (name, status_cell(child.status), words.span(child.seconds(now)), note))


def _detail(child: Job | None, now: datetime) -> str:
    if child is None:
        return "waits"
    took = words.span(child.seconds(now)) if child.started is not None else ""
    return f"{status_cell(child.status).text} {took}".strip()


def _style(child: Job | None) -> NodeStyle:
    style = status_cell(child.status).style if child is not None else "plain"
    return "error" if style == "error" else "warn" if style == "warn" else "plain"
