"""The graph of a pipeline: its steps, what flows between them, and in which order they can run.

Everything survives: a component that is not there, a binding to nothing, steps that wait for each other. `check` judges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from footplate.jobfile import document
from footplate.jobfile.document import JobFile, as_input, environment_text, is_remote, real_path
from footplate.jobfile.expressions import BINDING
from footplate.jobfile.graph import Component, Declared, Edge, Graph, Port, Step, StepInput, StepOutput, Unknown
from footplate.jobfile.nodes import mapping, texts
from footplate.workspace.errors import Invalid

MOST_DEEP = 10
"""Pipeline components within pipeline components."""

_LOOSE = re.compile(r"\$\{\{\s*(?:parent|inputs|outputs|jobs)\b[^{}]*\}\}")
"""What looks bound and is not; `${{name}}` and `${{default_datastore}}` in a path are the service's to fill in."""


def graph_of(job_file: JobFile) -> Graph:
    """The graph of a pipeline job or a pipeline component; component files are read where they lie beside it."""
    return _Reader().graph(job_file, MOST_DEEP, frozenset())


class _Reader:
    """Reads each component file once for each depth, however many steps name it."""

    def __init__(self) -> None:
        self._components: dict[tuple[Path, int], Component] = {}

    def graph(self, job_file: JobFile, deep: int, above: frozenset[Path]) -> Graph:
        given = job_file.get("component")
        if not job_file.mapping("jobs") and isinstance(given, str):
            component = self._component(given, "pipeline", job_file.base, deep, above)
            return component.graph or Graph(problem=component.problem, inputs=_given(job_file, "inputs"))
        default = job_file.text_at("settings", "default_compute") or job_file.text_at("compute")
        compute = default.removeprefix("azureml:")
        steps = tuple(
            self._step(name, mapping(value), compute, job_file.base, deep, above)
            for name, value in job_file.mapping("jobs").items()
        )
        return _connected(
            Graph(
                steps,
                _given(job_file, "inputs"),
                {**dict.fromkeys(_bound_outputs(steps), ""), **_given(job_file, "outputs")},
                default_compute=compute,
            ),
            job_file,
        )

    def _step(
        self, name: str, value: Mapping[str, Any], default: str, base: Path, deep: int, above: frozenset[Path]
    ) -> Step:
        kind = str(value.get("type") or "command").lower()
        key = "trial" if kind == "sweep" else "component"
        given = value.get(key)
        if isinstance(given, str) and given:
            component = self._component(given, kind, base, deep, above)
        else:
            component = _inline(given if isinstance(given, Mapping) else value)
        compute = str(value.get("compute") or "").removeprefix("azureml:")
        nodes, ranks = _size(value)
        return Step(
            name,
            kind,
            component,
            tuple(_step_inputs(value)),
            tuple(_step_outputs(value, component)),
            compute or default,
            not compute and bool(default),
            component.nodes if nodes == 0 else nodes,
            component.ranks_per_node if ranks == 0 else ranks,
            environment_text(value.get("environment")) or component.environment,
        )

    def _component(self, given: str, kind: str, base: Path, deep: int, above: frozenset[Path]) -> Component:
        if is_remote(given):
            form = "registry" if given.startswith("azureml://registries/") else "asset"
            return Component(form, given, name=_asset_name(given), nodes=None, ranks_per_node=None)
        path = real_path(base, given)
        if path in above:
            return Component("file", given, path, nodes=None, ranks_per_node=None, problem=f"{given} holds itself.")
        if deep <= 0:
            return Component(
                "file",
                given,
                path,
                nodes=None,
                ranks_per_node=None,
                problem=f"{given} is nested more than {MOST_DEEP} deep.",
            )
        if (path, deep) not in self._components:
            self._components[path, deep] = self._read(given, path, kind, deep, above)
        return self._components[path, deep]

    def _read(self, given: str, path: Path, kind: str, deep: int, above: frozenset[Path]) -> Component:
        try:
            component_file = document.read(path)
        except Invalid as error:
            return Component("file", given, path, nodes=None, ranks_per_node=None, problem=str(error))
        inline = _inline(component_file.values)
        nested = component_file.mapping("jobs") or kind == "pipeline"
        return Component(
            "file",
            given,
            path,
            component_file.name or path.stem,
            inline.command,
            inline.environment,
            inline.inputs,
            inline.outputs,
            inline.nodes,
            inline.ranks_per_node,
            graph=self.graph(component_file, deep - 1, above | {path}) if nested else None,
        )


def _inline(value: Mapping[str, Any]) -> Component:
    """A component from its keys: those of a step, of a component file, or of what stands below `component`."""
    task = mapping(value.get("task"))
    script = mapping(value.get("entry")).get("file") or task.get("entry_script")
    nodes, ranks = _size(value)
    return Component(
        "inline",
        name=str(value.get("name") or ""),
        command=str(value.get("command") or script or ""),
        environment=environment_text(value.get("environment") or task.get("environment")),
        inputs=_declared(value, "inputs"),
        outputs=_declared(value, "outputs"),
        nodes=1 if nodes == 0 else nodes,
        ranks_per_node=1 if ranks == 0 else ranks,
    )


def _declared(value: Mapping[str, Any], key: str) -> dict[str, Declared]:
    found = {}
    for name, item in mapping(value.get(key)).items():
        said = mapping(item)
        default = said.get("default")
        found[name] = Declared(
            name,
            str(said.get("type") or ""),
            said.get("optional") is True,
            "" if default is None else str(default),
        )
    return found


def _given(job_file: JobFile, key: str) -> dict[str, str]:
    """A pipeline's own inputs or outputs as text: the value, else the path, else the type."""
    found = {}
    for name, item in job_file.mapping(key).items():
        if isinstance(item, Mapping):
            shown = next(
                (item[word] for word in ("value", "path", "default", "type") if item.get(word) is not None), ""
            )
            found[name] = str(shown)
        else:
            found[name] = as_input(name, item).literal or ""
    return found


def _size(value: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Nodes and processes a node: 0 for what is not said, None for what only the run knows."""
    found: list[int | None] = []
    for section, key in (("resources", "instance_count"), ("distribution", "process_count_per_instance")):
        holder = value.get(section)
        said = holder.get(key) if isinstance(holder, Mapping) else None
        if said is None:
            found.append(None if isinstance(holder, str) else 0)
            continue
        try:
            found.append(max(1, int(said)))
        except (TypeError, ValueError, OverflowError):
            found.append(None)
    return found[0], found[1]


def _asset_name(reference: str) -> str:
    """`train` of `azureml:train:1`, `azureml:train@latest` and `azureml://registries/r/components/train/versions/1`."""
    parts = reference.split("/")
    if "components" in parts[:-1]:
        return parts[parts.index("components") + 1]
    return re.split(r"[:@]", reference.removeprefix("azureml:"))[0]


def _step_inputs(value: Mapping[str, Any]) -> Iterator[StepInput]:
    for name, item in mapping(value.get("inputs")).items():
        text = item.get("path", item.get("value", "")) if isinstance(item, Mapping) else item
        shown = "" if text is None else str(text)
        whole = "\n".join(found for _, found in texts(item, ()))
        sources = tuple(_sources(whole))
        loose = _LOOSE.search(whole) is not None and not BINDING.search(whole)
        kind = (
            "bound"
            if sources
            else "unknown"
            if loose
            else "data"
            if isinstance(item, Mapping) and "value" not in item
            else "literal"
        )
        yield StepInput(name, shown, kind, sources)
    # AutoML's data, a sweep's bounds, a compute: anything in a step can be bound, and orders the steps.
    for key, item in value.items():
        if key in ("inputs", "outputs", "component", "trial"):
            continue
        for path, text in texts(item, (key,)):
            if sources := tuple(_sources(text)):
                yield StepInput(".".join(map(str, path)), text, "bound", sources)


def _sources(text: str) -> Iterator[Port]:
    for where, name in BINDING.findall(text):
        if where == "inputs":
            yield Port("", name)
        elif where == "jobs":
            step, _, rest = name.partition(".")
            yield Port(step, rest.removeprefix("outputs.") if rest.startswith("outputs.") else rest)


def _step_outputs(value: Mapping[str, Any], component: Component) -> Iterator[StepOutput]:
    outputs = mapping(value.get("outputs"))
    for name, item in outputs.items():
        said = item if isinstance(item, Mapping) else {"path": item}
        text = "" if said.get("path") is None else str(said["path"])
        bound = next((found for where, found in BINDING.findall(text) if where == "outputs"), "")
        declared = component.outputs.get(name)
        yield StepOutput(name, str(said.get("type") or (declared.type if declared else "")), text, bound)
    for name, declared in component.outputs.items():
        if name not in outputs:
            yield StepOutput(name, declared.type)


def _bound_outputs(steps: tuple[Step, ...]) -> Iterator[str]:
    return (output.bound_to for step in steps for output in step.outputs if output.bound_to)


def _connected(graph: Graph, job_file: JobFile) -> Graph:
    """The graph with its edges, its levels, and what leads nowhere."""
    steps = {step.name: step for step in graph.steps}
    own_outputs = job_file.mapping("outputs")
    edges: dict[Edge, None] = {}
    unknown: dict[Unknown, None] = {}
    for step in graph.steps:
        for given in step.inputs:
            target = Port(step.name, given.name)
            if given.kind == "unknown":
                unknown[Unknown(target, given.text)] = None
            for source in given.sources:
                if _is_there(source, graph, steps):
                    edges[Edge(source, target)] = None
                else:
                    unknown[Unknown(target, given.text)] = None
        for output in step.outputs:
            if output.bound_to:
                port = Port(step.name, output.name)
                edges[Edge(port, Port("", output.bound_to))] = None
                if output.bound_to not in own_outputs:
                    unknown[Unknown(port, output.text)] = None
    # A pipeline may also take its outputs from its steps in its own `outputs`.
    for name, text in graph.outputs.items():
        for source in _sources(text):
            if source.step in steps:
                edges[Edge(source, Port("", name))] = None
    levels, stuck = _levels(tuple(steps), edges)
    return replace(graph, edges=tuple(edges), levels=levels, stuck=stuck, unknown=tuple(unknown))


def _is_there(source: Port, graph: Graph, steps: Mapping[str, Step]) -> bool:
    """Whether a step has an output, or the pipeline an input; what an unread component has cannot be denied."""
    if not source.step:
        # A group of inputs is named as `group.x`.
        return source.name in graph.inputs or source.name.partition(".")[0] in graph.inputs
    step = steps.get(source.step)
    if step is None:
        return False
    known = {output.name for output in step.outputs}
    closed = step.component.form == "file" and not step.component.problem
    return not source.name or source.name in known or not closed


def _levels(names: tuple[str, ...], edges: Mapping[Edge, None]) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    waits: dict[str, set[str]] = {name: set() for name in names}
    follow: dict[str, set[str]] = {name: set() for name in names}
    for edge in edges:
        if edge.source.step in waits and edge.target.step in waits:
            waits[edge.target.step].add(edge.source.step)
            follow[edge.source.step].add(edge.target.step)
    left = {name: len(before) for name, before in waits.items()}
    place = {name: index for index, name in enumerate(names)}
    levels: list[tuple[str, ...]] = []
    ready = [name for name in names if not left[name]]
    while ready:
        levels.append(tuple(ready))
        after = [name for done in ready for name in follow[done]]
        for name in after:
            left[name] -= 1
        ready = sorted({name for name in after if not left[name]}, key=place.__getitem__)
    placed = {name for level in levels for name in level}
    return tuple(levels), tuple(name for name in names if name not in placed)
