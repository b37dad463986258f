"""One step of a pipeline in words: what it runs, what flows in and out, where, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from footplate.jobfile.faults import Fault
from footplate.jobfile.graph import Graph, Step, StepInput
from footplate.jobfile.plan import visible_lines
from footplate.logs.sanitise import clean
from footplate.widgets.fault_list import counts
from footplate.widgets.graph_layout import Node, NodeStyle, tree

_MUTED = "$text-muted"
_HEAD = "bold $text-accent"
_MARKS = {"error": ("✗", "$text-error"), "warning": ("⚠", "$text-warning"), "note": ("·", "$text-muted")}
_EXPRESSION = re.compile(r"\$\{\{\s*(inputs|outputs)\.([^\s{}]+?)(?:\.path)?\s*\}\}")
_LABEL = 13
_MOST_STEPS = 40


class StepPanel(VerticalScroll, can_focus=False):
    """The text of the chosen step; it scrolls."""

    DEFAULT_CSS = """
    StepPanel { height: 1fr; width: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    StepPanel > Static { height: auto; width: 1fr; }
    """

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(Content.styled("reading …", _MUTED), markup=False)

    def show(self, text: Content, from_top: bool) -> None:
        """Show a text, from its beginning where it is of another step."""
        self.query_one(Static).update(text)
        if from_top:
            self.scroll_home(animate=False)


def nodes_of(graph: Graph, faults: Sequence[Fault]) -> list[Node]:
    """The steps as nodes of a graph, marked where they have faults."""
    after: dict[str, dict[str, None]] = {step.name: {} for step in graph.steps}
    for edge in graph.edges:
        if edge.source.step and edge.target.step in after:
            after[edge.target.step][edge.source.step] = None
    return [
        Node(step.name, step.name, _detail(step), tuple(after[step.name]), _style(faults_of(step.name, faults)))
        for step in graph.steps
    ]


def faults_of(step: str, faults: Sequence[Fault]) -> list[Fault]:
    """The faults that stand within a step."""
    return [fault for fault in faults if fault.place[:2] == ("jobs", step)]


def step_text(graph: Graph, step: Step, faults: Sequence[Fault], data: Collection[str] = ()) -> Content:
    """All that is known of a step before it runs.

    `faults` are those of the whole file; `data` names the pipeline's inputs that are data, whose places Azure fills in.
    """
    own = faults_of(step.name, faults)
    parts = (
        _head(step, own, faults),
        _wrong(own),
        _inputs(graph, step),
        _outputs(graph, step),
        _where(step),
        _command(graph, step, data),
    )
    return Content("\n").join([line for part in parts for line in part])


def pipeline_text(graph: Graph) -> Content:
    """What is said where no step can be chosen."""
    if graph.problem:
        return Content.styled(clean(graph.problem), "$text-error")
    return Content.styled("This pipeline has no steps.", "$text-warning")


def _detail(step: Step) -> str:
    component = step.component
    if component.form == "file" and component.path is not None:
        what = component.path.name
    elif component.form in ("asset", "registry"):
        what = component.name or component.reference
    else:
        what = " ".join(component.command.split())
    kind = "" if step.type == "command" and what else step.type
    return f"{kind} {what}".strip()


def _style(faults: Sequence[Fault]) -> NodeStyle:
    severities = {fault.severity for fault in faults}
    return "error" if "error" in severities else "warn" if "warning" in severities else "plain"


def _head(step: Step, own: Sequence[Fault], faults: Sequence[Fault]) -> Iterator[Content]:
    component = step.component
    whole = counts(faults)
    said = f"   {whole} in the file: f8 goes to the next" if whole else ""
    yield Content.assemble((clean(step.name), _HEAD), (f"   {clean(step.type)}", _MUTED), (said, _MUTED))
    if component.form == "inline":
        named = f"written in the file{f', named {component.name}' if component.name else ''}"
    elif component.form in ("asset", "registry"):
        named = f"{component.reference}   what it runs is known to Azure alone"
    else:
        named = f"{component.reference}{f'   {component.name}' if component.name else ''}"
    yield _labelled("component", named or "none is named", "" if component.form else "$text-error")
    if component.problem and not any(fault.code.startswith("component-") for fault in own):
        yield _labelled("", f"✗ {component.problem}", "$text-error")
    if component.graph is not None:
        inner = tree(nodes_of(component.graph, ()))
        yield _labelled("holds", f"{len(inner)} step{'s' * (len(inner) != 1)}")
        for line in inner[:_MOST_STEPS]:
            lead = f"{'':<{_LABEL + 1}}{line.lead}"
            yield Content.assemble((lead, _MUTED), clean(line.node.title), (f"   {clean(line.node.detail)}", _MUTED))
        if len(inner) > _MOST_STEPS:
            yield _labelled("", f"… and {len(inner) - _MOST_STEPS} more", _MUTED)


def _wrong(faults: Sequence[Fault]) -> Iterator[Content]:
    for fault in faults:
        mark, style = _MARKS[fault.severity]
        yield Content.assemble((f"{mark} line {fault.line}: ", style), clean(fault.sentence))


def _inputs(graph: Graph, step: Step) -> Iterator[Content]:
    declared = step.component.inputs
    given = {one.name: one for one in step.inputs}
    for number, (name, one) in enumerate(given.items()):
        kind = declared[name].type if name in declared else ""
        yield Content.assemble(
            _label("inputs" if not number else ""),
            clean(name),
            "  ",
            *_given(graph, one),
            (f"  {clean(kind)}" if kind else "", _MUTED),
        )
    lead = not given
    for name, each in declared.items():
        if name not in given:
            if each.default:
                said, style = f"{each.default}  the component's default", _MUTED
            elif each.optional:
                said, style = "not given, optional", _MUTED
            else:
                said, style = "not given", "$text-error"
            yield Content.assemble(_label("inputs" if lead else ""), clean(name), "  ", (clean(said), style))
            lead = False


def _given(graph: Graph, given: StepInput) -> Iterator[Content | tuple[str, str]]:
    """What an input gets: its value, or what it is bound to with that one's value."""
    if not given.sources:
        yield (clean(given.text) or "empty", "$text-error" if given.kind == "unknown" else "")
        return
    for number, source in enumerate(given.sources):
        lead = ", " if number else ""
        if source.step:
            known = graph.step(source.step) is not None
            yield (f"{lead}← {clean(source.step)}.{clean(source.name)}", "$text-accent" if known else "$text-error")
        elif source.name.partition(".")[0] in graph.inputs:
            value = graph.inputs.get(source.name, "")
            yield (f"{lead}← the pipeline's {clean(source.name)}", "$text-accent")
            yield (f" = {clean(value)}" if value else "", "")
        else:
            yield (f"{lead}← the pipeline has no input {clean(source.name)}", "$text-error")


def _outputs(graph: Graph, step: Step) -> Iterator[Content]:
    for number, output in enumerate(step.outputs):
        taken = [e.target for e in graph.edges if (e.source.step, e.source.name) == (step.name, output.name)]
        to = [f"{port.step}.{port.name}" if port.step else f"the pipeline's {port.name}" for port in taken]
        yield Content.assemble(
            _label("outputs" if not number else ""),
            clean(output.name),
            (f"  → {clean(', '.join(to))}" if to else "", "$text-accent"),
            (f"  {clean(output.type)}" if output.type else "", _MUTED),
        )


def _where(step: Step) -> Iterator[Content]:
    own = "" if not step.compute else "   the pipeline's default" if step.inherited else "   the step's own"
    yield Content.assemble(_label("compute"), clean(step.compute) or "serverless", (own, _MUTED))
    if (step.nodes, step.ranks_per_node) not in ((1, 1), (None, None)):
        yield _labelled("nodes × ranks", step.size)
    if step.environment:
        yield _labelled("environment", step.environment.removeprefix("azureml://registries/"))


def _command(graph: Graph, step: Step, data: Collection[str]) -> Iterator[Content]:
    if step.command.strip():
        yield Content.styled("command", _MUTED)
        for line in visible_lines(resolved(graph, step, data).strip()):
            yield Content(f"  {clean(line)}")


def resolved(graph: Graph, step: Step, data: Collection[str] = ()) -> str:
    """A step's command with the values that are known; what a step before it makes stands in `<…>`, the rest as it is."""
    given = {one.name: one for one in step.inputs}

    def value(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind == "outputs":
            return f"<output {name}>" if any(output.name == name for output in step.outputs) else match[0]
        one, declared = given.get(name), step.component.inputs.get(name)
        if one is None:
            return declared.default if declared is not None and declared.default else match[0]
        if not one.sources:
            return one.text if one.kind == "literal" else f"<{name}: {one.text}>" if one.kind == "data" else match[0]
        source = one.sources[0]
        if source.step:
            return f"<{source.step}.{source.name}>"
        known = graph.inputs.get(source.name)
        if known is None:
            return match[0]
        return f"<{name}: {known}>" if source.name in data else known

    return _EXPRESSION.sub(value, step.command)


def _label(label: str) -> tuple[str, str]:
    return f"{clean(label):<{_LABEL}} ", _MUTED


def _labelled(label: str, text: str, style: str = "") -> Content:
    return Content.assemble(_label(label), (clean(text), style))
