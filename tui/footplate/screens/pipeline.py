"""A pipeline: its graph, the chosen step in words, and a form for the pipeline's inputs."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button

from footplate.jobfile import JobFile, form
from footplate.jobfile.faults import Fault
from footplate.jobfile.graph import Graph, Step
from footplate.jobfile.pipeline import graph_of
from footplate.operations.draft import State
from footplate.operations.outlook import Outlook
from footplate.screens.base import bindings
from footplate.screens.dialogs import TextDialog
from footplate.screens.launch import LaunchScreen
from footplate.widgets.fault_list import FaultList
from footplate.widgets.graph import GraphView
from footplate.widgets.job_form import JobForm
from footplate.widgets.run_preview import RunPreview
from footplate.widgets.step_panel import StepPanel, faults_of, nodes_of, pipeline_text, step_text

_BESIDE_FROM_WIDTH = 100
_GRAPH_SHARE = 0.5
_LOW_GRAPH_SHARE = 0.4
_LOW_BELOW = 32


class PipelineScreen(LaunchScreen):
    """A pipeline job file: the graph above, the chosen step and the form below, beside each other where there is room.

    `original` is the file of a past job from which this one was cloned.
    """

    where = "pipeline"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("pipeline"),
        Binding("up", "app.focus_previous", "Field above", show=False),
        Binding("down", "app.focus_next", "Field below", show=False),
    ]

    DEFAULT_CSS = """
    PipelineScreen GraphView { height: 10; padding: 0 1; }
    PipelineScreen > Horizontal { height: 1fr; border-top: solid $panel-lighten-2; }
    PipelineScreen #form { width: 56; }
    PipelineScreen #plan { width: 1fr; }
    PipelineScreen #launch { margin: 0 0 0 1; }
    PipelineScreen RunPreview { display: none; }
    PipelineScreen.narrow #plan { height: 1fr; border: none; }
    PipelineScreen.narrow #form { display: none; }
    PipelineScreen.narrow.fields #form { display: block; width: 1fr; }
    PipelineScreen.narrow.fields #plan { display: none; }
    PipelineScreen.plan GraphView { display: none; }
    PipelineScreen.plan #plan { display: block; }
    PipelineScreen.plan StepPanel { display: none; }
    PipelineScreen.plan RunPreview { display: block; }
    """

    def __init__(self, job_file: JobFile, original: JobFile | None = None) -> None:
        super().__init__(job_file, original)
        self._graph = Graph()
        self._graph_file: JobFile | None = None
        self._shown_step: str | None = None

    def compose(self) -> ComposeResult:
        """The graph, then form and step."""
        yield self.top()
        yield GraphView(id="graph")
        with Horizontal():
            with Vertical(id="form"):
                yield JobForm(self._shown(form.fields(self.draft.base)))
                yield Button("Launch", id="launch", variant="primary", compact=True, disabled=True)
            with Vertical(id="plan"):
                yield StepPanel()
                yield RunPreview()
                yield FaultList(id="faults")
        yield self.keys()

    def on_mount(self) -> None:
        """Start on the first step, once the form has begun on its first field."""
        if self.display:
            self.call_after_refresh(self.graph.focus)

    def on_resize(self) -> None:
        """The graph has as many lines as it needs, up to a share of the screen."""
        if self.display:
            self._share_height()

    @property
    def graph(self) -> GraphView:
        """The graph that is drawn."""
        return self.query_one(GraphView)

    # What is shown

    def _work_out(self, state: State) -> Outlook:
        """In a thread, as the form's own: component files are read."""
        outlook = super()._work_out(state)
        self._graph_file, self._graph = outlook.job_file, graph_of(outlook.job_file)
        return outlook

    def _show(self, text: Content) -> None:
        with self.app.batch_update():
            super()._show(text)
            self.graph.show(nodes_of(self._graph, self._faults))
            self._share_height()
            self._show_step()

    def _share_height(self) -> None:
        share = _LOW_GRAPH_SHARE if self.size.height < _LOW_BELOW else _GRAPH_SHARE
        self.graph.styles.height = self.graph.height_for(self.size.width - 4, max(5, int(self.size.height * share)))

    def _show_faults(self) -> None:
        """Beside a step, which says its own, only those of the rest of the file."""
        whole = self.has_class("plan")
        shown = [fault for fault in self._faults if whole or fault.place[:1] != ("jobs",)]
        faults = self.query_one(FaultList)
        faults.display = bool(shown)
        faults.show(shown)

    @on(GraphView.Highlighted)
    def _chosen(self) -> None:
        self._show_step()

    def _show_step(self) -> None:
        step = self._graph.step(self.graph.chosen or "")
        if step is None:
            self.query_one(StepPanel).show(pipeline_text(self._graph), from_top=True)
            return
        text = self._text_of(step)
        self.query_one(StepPanel).show(text, from_top=step.name != self._shown_step)
        self._shown_step = step.name

    @on(GraphView.Selected)
    def _open_step(self, event: GraphView.Selected) -> None:
        step = self._graph.step(event.key)
        if step is not None:
            self.app.push_screen(TextDialog(step.name, self._text_of(step)))

    def _text_of(self, step: Step) -> Content:
        inputs = self._graph_file.inputs if self._graph_file is not None else {}
        data = frozenset(name for name, given in inputs.items() if given.literal is None)
        return step_text(self._graph, step, self._faults, data)

    # Keys

    def action_view(self) -> None:
        """The file as it will be submitted on the whole screen, and back."""
        super().action_view()
        self._show_faults()

    def action_fields(self) -> None:
        """Go to the form, or back to the graph."""
        self.remove_class("plan")
        inside = self.focused is not None and self.form in self.focused.ancestors
        self.set_class(not inside, "fields")
        editors = [widget for line in self.form.lines for widget in line.editors.values() if not widget.disabled]
        if inside or not editors:
            self.remove_class("fields")
            self.graph.focus()
        else:
            self.call_after_refresh(editors[0].focus)

    def action_next_fault(self) -> None:
        """Choose the next step with a fault; without one, go to the next field that has one."""
        faulty = [step.name for step in self._graph.steps if faults_of(step.name, self._faults)]
        if not faulty:
            self.add_class("fields")
            super().action_next_fault()
            return
        at = faulty.index(self.graph.chosen) + 1 if self.graph.chosen in faulty else 0
        self.remove_class("plan", "fields")
        self.graph.choose(faulty[at % len(faulty)])
        self.graph.focus()

    def go_to_fault(self, fault: Fault) -> bool:
        """Choose the step that has a fault, else go to its field."""
        step = str(fault.place[1]) if fault.place[:1] == ("jobs",) and len(fault.place) > 1 else ""
        if self._graph.step(step) is None:
            self.add_class("fields")
            return super().go_to_fault(fault)
        self.remove_class("plan", "fields")
        self.graph.choose(step)
        self.graph.focus()
        return True

    def action_scroll_plan(self, step: int) -> None:
        """Scroll what is said of the step, or what will run, by a page."""
        panel = self.query_one(RunPreview) if self.has_class("plan") else self.query_one(StepPanel)
        panel.scroll_relative(y=step * max(1, panel.size.height - 2), animate=False)

    def action_back(self) -> None:
        """From the form of a narrow window back to the graph; else leave."""
        if self.has_class("plan"):
            self.action_view()
        elif self.has_class("fields") and self.has_class("narrow"):
            self.remove_class("fields")
            self.graph.focus()
        else:
            super().action_back()
