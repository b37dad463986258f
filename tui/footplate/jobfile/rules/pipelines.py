"""The graph of a pipeline: what steps, bindings and component files name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from footplate.jobfile import document, kinds, nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report, Severity, known_names
from footplate.jobfile.rules import component_defaults, component_limits, step_commands
from footplate.jobfile.rules.files import FOLDER, found_at, local_path, near_name, not_there
from footplate.jobfile.schema.components import DATA_TYPES
from footplate.jobfile.shapes import shortened
from footplate.workspace.errors import Invalid

CODES = (
    Code(
        "unbound-step",
        "error",
        "`${{parent.…}}` names an input, output or step that the pipeline does not have. Azure's client accepts it.",
        "type: pipeline\ninputs: {table: 1}\njobs:\n  clean:\n    command: echo ${{inputs.t}}\n    environment: azureml:e:1\n"
        "    inputs:\n      t: ${{parent.inputs.tabel}}  # here\n",
    ),
    Code(
        "old-binding",
        "error",
        "A step's input bound as `${{inputs.x}}`, without `parent`.",
        "type: pipeline\ninputs: {table: 1}\njobs:\n  clean:\n    command: echo ${{inputs.t}}\n    environment: azureml:e:1\n"
        "    inputs:\n      t: ${{inputs.table}}  # here\n",
    ),
    Code(
        "step-cycle",
        "error",
        "Steps that wait for each other, so that none can start.",
        "type: pipeline\njobs:\n  a:\n    command: echo ${{inputs.x}}\n    environment: azureml:e:1\n"
        "    inputs:\n      x: ${{parent.jobs.a.outputs.o}}  # here\n    outputs: {o: {}}\n",
    ),
    Code(
        "component-missing",
        "error",
        "A step's component file that is not there.",
        "type: pipeline\njobs:\n  clean:\n    component: ./claen.yml  # here\n",
    ),
    Code(
        "component-unreadable",
        "error",
        "A step's component file that cannot be read.",
        "type: pipeline\njobs:\n  clean:\n    component: ./clean.yml  # here\n",
        needs="files",
    ),
    Code(
        "component-faulty",
        "warning",
        "A step's component file that has errors of its own.",
        "type: pipeline\njobs:\n  clean:\n    component: ./clean.yml  # here\n",
        needs="files",
    ),
    Code(
        "component-kind",
        "error",
        "A step of one type whose component file is of another, or is no component at all.",
        "type: pipeline\njobs:\n  clean:\n    type: spark\n    component: ./clean.yml  # here\n",
        needs="files",
    ),
    Code(
        "missing-step-input",
        "error",
        "An input that a step's component needs, and the step does not give.",
        "type: pipeline\njobs:\n  clean:  # here\n    component: ./clean.yml\n",
        needs="files",
    ),
    Code(
        "unknown-step-input",
        "warning",
        "An input or output that a step gives, and its component does not declare.",
        "type: pipeline\njobs:\n  clean:\n    component: ./clean.yml\n    inputs:\n      tabel: 1  # here\n",
        needs="files",
    ),
)

_PARENT = re.compile(r"\$\{\{\s*parent\.([^{}\s]*)\s*\}\}")
_OLD = re.compile(r"\A\s*\$\{\{\s*((?:inputs|outputs|jobs)\.[^{}\s]+)\s*\}\}\s*\Z")
_USED = re.compile(r"\binputs\.([^{}\s.]+)")
_CONTROL = ("do_while", "parallel_for", "if_else")
"""Steps that hold no work of their own, and whose outputs are those of others."""
_OWN_KIND = ("command", "pipeline", "spark", "parallel")
"""Types that a step and its component share."""
_COMPONENTS = ("component", "command", "pipeline")
"""Kinds of files that Azure's client reads as components: one without name and version looks like a job."""
_UNTOLD = ("parallel", "spark", "automl", "data transfer", "import", "flow")
"""Kinds of files that can be a component too, and of which nothing is known here."""
_READ_AS: Mapping[type, str] = {bool: "true or false", int: "a number", float: "a number"}
_MOST_FILES = 200
"""So many component files of one pipeline are read."""


@dataclass(frozen=True)
class Component:
    """What a component declares: inputs (name → whether a value must be given) and outputs."""

    inputs: Mapping[str, bool]
    outputs: frozenset[str]
    data: frozenset[str] = frozenset()
    """Inputs that are data, which no number can be."""
    specs: Mapping[str, Any] = field(default_factory=dict)
    """The inputs as they are declared."""


@dataclass
class _Graph:
    """One pipeline, or pipeline component, within a file."""

    job_file: JobFile
    report: Report
    place: nodes.Path
    values: Mapping[str, Any]
    components: dict[str, Component | None] = field(default_factory=dict)
    """By path, so that a file is read and reported once a place."""

    @cached_property
    def steps(self) -> dict[str, Mapping[str, Any]]:
        """The steps by name, in the file's order."""
        return {
            str(name): step
            for name, step in nodes.mapping(self.values.get("jobs")).items()
            if isinstance(step, Mapping)
        }

    @cached_property
    def names(self) -> dict[str, dict[str, Any]]:
        """What `parent.inputs.`, `parent.outputs.` and `parent.jobs.` can go on with."""
        return {key: nodes.mapping(self.values.get(key)) for key in ("inputs", "outputs", "jobs")}

    def check(self) -> None:
        """Check every step, what they name, and that they can be put in an order."""
        steps, used = self.steps, set[str]()
        declared = {name: self._component(name, step) for name, step in steps.items()}
        waits: dict[str, dict[str, nodes.Path]] = {}
        for name, step in steps.items():
            here = (*self.place, "jobs", name)
            self._given(here, step, declared[name])
            self._old_bindings(here, step)
            waits[name] = {}
            # The steps of a pipeline within have that one as their parent.
            for place, text in nodes.texts(step, here, but="jobs"):
                for match in _PARENT.finditer(text):
                    source = match[1].split(".")
                    controls = str(step.get("type")) in _CONTROL
                    if controls and len(source) == 2 and source[0] == "jobs":  # the step that is run, or not
                        self._known(place, match, "step", source[1], self.names["jobs"])
                        continue
                    self._binding(place, match, declared, used)
                    if source[0] == "jobs" and len(source) > 2 and not controls:
                        waits[name].setdefault(source[1], place)
            inner = step.get("component") if isinstance(step.get("component"), Mapping) else step
            if isinstance(inner, Mapping) and isinstance(inner.get("jobs"), Mapping):
                where = here if inner is step else (*here, "component")
                _Graph(self.job_file, self.report, where, inner, self.components).check()
        self._cycle(waits)
        self._unused(used)

    def _component(self, name: str, step: Mapping[str, Any]) -> Component | None:
        """What a step's component declares, None where that cannot be told; reports a file that is not there."""
        for key in ("component", "trial"):
            given = step.get(key)
            if isinstance(given, Mapping) and ("inputs" in given or "outputs" in given):
                return _declared(given)
            text = local_path(given)
            if text and str(given).startswith("azureml:"):
                fault = f"`{key}` takes no `azureml:` before a path, as {given!r} has."
                self.report.add("wrong-value", (*self.place, "jobs", name, key), fault, f"Write {text}.")
            if text:
                kind = "command" if key == "trial" else str(step.get("type") or "").lower()
                return self._read((*self.place, "jobs", name, key), text, kind)
        return None

    def _read(self, place: nodes.Path, text: str, kind: str) -> Component | None:
        path = self.job_file.base / text
        found = found_at(path)
        if found == "":
            hint = not_there(self.job_file.base, text, self.report)
            if "/" not in text and "." not in text:
                hint = f"A registered component is azureml:{text}:VERSION; a path has its ending, as ./{text}.yml."
            self.report.add("component-missing", place, f"The component file {text} is not there.", hint)
        if found in ("", None, FOLDER):
            if found == FOLDER:
                self.report.add(
                    "component-unreadable", place, f"The component {text} is a folder.", "Name the file in it."
                )
            return None
        if text not in self.components and len(self.components) < _MOST_FILES:
            self.components[text] = None
            try:
                component = document.read(path)
            except Invalid as error:
                self.report.add("component-unreadable", place, error.sentence, error.next_step)
            else:
                if component.kind in _COMPONENTS:
                    self.components[text] = _declared(component.values)
                    self._same_kind(component, place, text, kind)
                elif component.kind not in _UNTOLD:
                    fault = f"The component file {text} is {kinds.TITLES[component.kind]}."
                    self.report.add("component-kind", place, fault, "Name the file of a component.")
                self._faults_of(component, place, text)
        return self.components.get(text)

    def _same_kind(self, component: JobFile, place: nodes.Path, text: str, wanted: str) -> None:
        """A step and its component have one type; Azure's client refuses others."""
        found = component.text_at("type").lower() or ("pipeline" if "jobs" in component.values else "command")
        if wanted in _OWN_KIND and found in _OWN_KIND and wanted != found:
            fault = f"The step is of type {wanted}, its component file {text} of type {found}."
            self.report.add("component-kind", place, fault, f"Write type: {found}, or name another component.")

    def _faults_of(self, component: JobFile, place: nodes.Path, text: str) -> None:
        """Tell the first error of a component that is no pipeline itself: those may name each other in a circle."""
        from footplate.jobfile.check import check  # which has all rules, these too

        if component.kind != "component" or "jobs" in component.values:
            return
        errors = [fault for fault in check(component, self.report.severities) if fault.severity == "error"]
        if errors:
            fault = f"The component file {text} has an error in line {errors[0].line}: {errors[0].message}"
            self.report.add("component-faulty", place, fault, f"See: footplate check {component.path}")

    def _given(self, here: nodes.Path, step: Mapping[str, Any], declared: Component | None) -> None:
        """The step gives what its component needs, and nothing else."""
        if declared is None:
            return
        for key, known in (("inputs", frozenset(declared.inputs)), ("outputs", declared.outputs)):
            unknown = [name for name in nodes.mapping(step.get(key)) if not known & {name, name.partition(".")[0]}]
            if unknown and not known:
                fault = f"The component of step {here[-1]} declares no {key}; the step gives {known_names(unknown)}."
                self.report.add("unknown-step-input", (*here, key), fault, "Declare them in the component.", key=True)
            for name in unknown if known else ():
                near = near_name(name, known, self.report)
                hint = f"Did you mean {near}?" if near else f"It has {known_names(sorted(known))}."
                fault = f"The component of step {here[-1]} declares no {key[:-1]} `{name}`."
                self.report.add("unknown-step-input", (*here, key, name), fault, hint, key=True)
        for name, value in nodes.mapping(step.get("inputs")).items():
            boxed = isinstance(value, Mapping) and "value" in value
            literal = value["value"] if boxed else value
            if name in declared.data and isinstance(literal, bool | int | float):
                where = (*here, "inputs", name, *(["value"] if boxed else []))
                fault = f"The component of step {here[-1]} takes data as `{name}`, not {_READ_AS[type(literal)]}."
                self.report.add("wrong-type", where, fault, "Give `type` and `path` below it, or bind it.")
            self._within_limits(here, name, literal, boxed, declared)
        given = {
            name.partition(".")[0]
            for name in (*nodes.mapping(step.get("inputs")), *nodes.mapping(step.get("search_space")))
        }
        missing = [name for name, needed in declared.inputs.items() if needed and name not in given]
        if missing:
            what = "input" if len(missing) == 1 else "inputs"
            fault = f"Step {here[-1]} lacks the {what} {known_names(missing)}, which its component needs."
            self.report.add("missing-step-input", (*here, "inputs"), fault, "Give it below `inputs`.", key=True)

    def _within_limits(self, here: nodes.Path, name: str, literal: Any, boxed: bool, declared: Component) -> None:
        """What a step gives, or the pipeline's input that it is bound to, is within the component's limits."""
        place: nodes.Path = (*here, "inputs", name, *(["value"] if boxed else []))
        match = _PARENT.fullmatch(literal.strip()) if isinstance(literal, str) else None
        if match is not None and match[1].startswith("inputs."):
            bound = match[1].removeprefix("inputs.")
            given = nodes.mapping(self.values.get("inputs")).get(bound)
            literal, place = given, (*self.place, "inputs", bound)
            if isinstance(given, Mapping) and "value" in given:
                literal, place = given["value"], (*place, "value")
        if found := component_limits.beyond(nodes.mapping(declared.specs.get(name)), literal):
            fault = f"Input `{name}` of step {here[-1]} is {shortened(str(literal))}, which is {found[0]}."
            self.report.add("beyond-limits", place, fault, found[1])

    def _old_bindings(self, here: nodes.Path, step: Mapping[str, Any]) -> None:
        for key in ("inputs", "outputs"):
            for place, text in nodes.texts(step.get(key), (*here, key), but="jobs"):
                if match := _OLD.match(text):
                    fault = f"`{match[1]}` is bound to the step itself, not to the pipeline."
                    self.report.add("old-binding", place, fault, f"Write ${{{{parent.{match[1]}}}}}.")

    def _binding(
        self, place: nodes.Path, match: re.Match[str], declared: Mapping[str, Component | None], used: set[str]
    ) -> None:
        kind, _, name = match[1].partition(".")
        if kind == "inputs":
            used.add(name.partition(".")[0])
            self._known(place, match, "input", name, self.names["inputs"])
        elif kind == "outputs":
            self._known(place, match, "output", name, self.names["outputs"])
        elif kind == "jobs":
            step, _, rest = name.partition(".")
            if self._known(place, match, "step", step, self.names["jobs"]):
                side, _, port = rest.partition(".")
                outputs = self._outputs(step, declared.get(step))
                if side != "outputs":
                    self._not_outputs(place, match, step, port, outputs)
                elif outputs is not None:
                    # Azure's client refuses this of an inline step; of a component's file it lets the service judge.
                    graded: Severity = "error" if declared.get(step) is None else "warning"
                    self._known(place, match, f"output of step {step}", port, sorted(outputs), graded)
        else:
            fault = f"`parent.{match[1]}` names nothing of a pipeline."
            near = near_name(kind, self.names, self.report)
            hint = f"Did you mean parent.{near}?" if near else "A pipeline has inputs, outputs and jobs."
            self.report.add("unbound-step", place, fault, hint, within=match[0])

    def _not_outputs(
        self, place: nodes.Path, match: re.Match[str], step: str, port: str, outputs: set[str] | None
    ) -> None:
        """Of a step only outputs can be taken."""
        side = match[1].split(".")[2:3]
        own = port or next(iter(side), "")
        output = own if not outputs or own in outputs else sorted(outputs)[0]
        fault = f"`parent.{match[1]}` names no output of step {step}."
        hint = f"Write ${{{{parent.jobs.{step}.outputs.{output or 'NAME'}}}}}."
        self.report.add("unbound-step", place, fault, hint, within=match[0])

    def _known(
        self,
        place: nodes.Path,
        match: re.Match[str],
        what: str,
        name: str,
        known: Collection[str],
        severity: Severity = "error",
    ) -> bool:
        if name in known or name.partition(".")[0] in known:
            return True
        near = near_name(name, known, self.report)
        hint = f"Did you mean {near}?" if near else f"There is {known_names(known)}."
        article = "an" if what[0] in "aeiou" else "a"
        fault = f"`parent.{match[1]}` names {article} {what} that is not there: {name or 'nothing'}."
        self.report.add("unbound-step", place, fault, hint, within=match[0], severity=severity)
        return False

    def _outputs(self, step: str, declared: Component | None) -> set[str] | None:
        """The outputs that a step has; None where its component is not at hand."""
        values = self.steps.get(step)
        if values is None:
            return None
        own = set(nodes.mapping(values.get("outputs")))
        if declared is not None:
            return own | declared.outputs
        inline = (
            "command" in values or isinstance(values.get("trial"), Mapping) or isinstance(values.get("task"), Mapping)
        )
        return own if inline and "component" not in values else None

    def _cycle(self, waits: Mapping[str, Mapping[str, nodes.Path]]) -> None:
        """Report each circle of steps once, at the binding that closes it."""
        done: set[str] = set()
        for start in waits:
            if start in done:
                continue
            path, stack = [start], [iter(waits[start].items())]
            while stack:
                following = next(stack[-1], None)
                if following is None:
                    done.add(path.pop())
                    stack.pop()
                    continue
                step, place = following
                if step in path:
                    circle = " → ".join([*path[path.index(step) :], step])
                    fault = f"Steps wait for each other: {circle}."
                    self.report.add("step-cycle", place, fault, "Take one of these bindings away.")
                elif step in waits and step not in done:
                    path.append(step)
                    stack.append(iter(waits[step].items()))

    def _unused(self, used: set[str]) -> None:
        elsewhere = {match[1] for _, text in self._elsewhere() for match in _USED.finditer(text)}
        for name in nodes.mapping(self.values.get("inputs")):
            if name not in used and name not in elsewhere:
                self.report.add(
                    "unused", (*self.place, "inputs", name), f"No step uses the pipeline's input `{name}`.",
                    "Bind it in a step, or remove it.", key=True,
                )  # fmt: skip

    def _elsewhere(self) -> Iterator[tuple[nodes.Path, str]]:
        """Texts outside the steps that can use an input: settings, compute, outputs' paths."""
        for key, item in self.values.items():
            if key not in ("inputs", "jobs"):
                yield from nodes.texts(item, (*self.place, str(key)), but="jobs")


def _declared(values: Mapping[str, Any]) -> Component:
    inputs = {}
    for name, given in nodes.mapping(values.get("inputs")).items():
        spec = nodes.mapping(given)
        optional = str(spec.get("optional") or "").lower() == "true"
        # A group is given as its members, `group.member`; a value that stands itself is the default.
        inputs[name] = (
            isinstance(given, Mapping) and not optional and spec.get("default") is None and "value" not in spec
        )
    data = frozenset(
        name
        for name, given in nodes.mapping(values.get("inputs")).items()
        if nodes.mapping(given).get("type") in DATA_TYPES
    )
    return Component(inputs, frozenset(nodes.mapping(values.get("outputs"))), data, nodes.mapping(values.get("inputs")))


def graph(job_file: JobFile, report: Report) -> None:
    """The graph of a pipeline job or pipeline component holds together."""
    if isinstance(job_file.get("jobs"), Mapping):
        _Graph(job_file, report, (), job_file.values).check()


RULES = ((("pipeline", "component"), graph), *component_defaults.RULES, *step_commands.RULES)
