"""What each step of a pipeline will run: its component's command with the pipeline's own values filled in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from footplate.jobfile import document, nodes
from footplate.jobfile.document import BODY, JobFile, as_input, is_remote, real_path
from footplate.jobfile.expressions import BINDING, EXPRESSION
from footplate.jobfile.limits import MOST_RANKS
from footplate.jobfile.pipeline import MOST_DEEP
from footplate.jobfile.plan import Plan, place_of, planned, require
from footplate.workspace.errors import Invalid

_RUN = ("command", "sweep")
"""The kinds of steps that run a command of the file's own."""

_OPTIONAL = re.compile(r"\$\[\[(.*?)\]\]", re.DOTALL)


class TooMany(Invalid):
    """A pipeline of more steps than are planned: nothing of it is shown."""


@dataclass(frozen=True)
class StepPlan:
    """One step: its name (`outer.inner` for one of a pipeline in a step), its kind, and what it runs, or why none is shown.

    `code` is the folder that it uploads.
    """

    step: str
    kind: str
    plan: Plan | None
    why: str = ""
    code: Path | None = None


def step_plans(job_file: JobFile) -> tuple[StepPlan, ...]:
    """The steps of a pipeline job in the file's order.

    Raises Invalid for another kind of file, and for more steps or processes than are planned.
    """
    require(job_file, "pipeline")
    planner = _Planner(job_file)
    component = job_file.get("component")
    if not job_file.mapping("jobs") and isinstance(component, str):
        whole = {"component": component, "inputs": job_file.mapping("inputs")}
        found = tuple(planner.step(job_file, "", "pipeline", whole, {}, frozenset()))
    else:
        found = tuple(planner.steps(job_file, _own_inputs(job_file), "", frozenset()))
    ranks = sum(step.plan.world_size for step in found if step.plan)
    if ranks > MOST_RANKS:
        raise Invalid(
            f"The steps of {job_file.label} have {ranks} processes; footplate plans {MOST_RANKS} at most.",
            "Mend `resources.instance_count` or what `distribution` says.",
        )
    return found


def _own_inputs(job_file: JobFile) -> dict[str, str]:
    """What `${{parent.inputs.x}}` stands for."""
    return {name: place_of(given) for name, given in job_file.inputs.items()}


class _Planner:
    """Walks the steps of a pipeline and of the pipelines in it; reads each component file once."""

    def __init__(self, job_file: JobFile) -> None:
        self._label = job_file.label
        self._left = MOST_RANKS
        self._files: dict[Path, JobFile] = {}

    def steps(
        self, pipeline: JobFile, parent: Mapping[str, str], prefix: str, above: frozenset[Path]
    ) -> Iterator[StepPlan]:
        """The steps of one pipeline, whose own inputs are `parent`, read from the component files `above`."""
        for name, value in pipeline.mapping("jobs").items():
            self._left -= 1
            if self._left < 0:
                raise TooMany(f"{self._label} has more than {MOST_RANKS} steps.", "Use fewer pipelines in pipelines.")
            full = f"{prefix}{name}"
            step = nodes.mapping(value)
            kind = str(step.get("type") or "command").lower()
            try:
                yield from self.step(pipeline, full, kind, step, parent, above)
            except TooMany:
                raise
            except Invalid as error:
                yield StepPlan(full, kind, None, str(error))

    def step(
        self,
        pipeline: JobFile,
        name: str,
        kind: str,
        step: Mapping[str, Any],
        parent: Mapping[str, str],
        above: frozenset[Path],
    ) -> Iterator[StepPlan]:
        """What one step runs: one plan, or those of the pipeline in it. Raises Invalid where it cannot be told."""
        key = "trial" if kind == "sweep" else "component"
        given = step.get(key)
        component, values = pipeline, given if isinstance(given, Mapping) else step
        if isinstance(given, str):
            if is_remote(given):
                yield StepPlan(
                    name, kind, None, f"its component {given} lies in the workspace, and its command with it"
                )
                return
            path = real_path(pipeline.base, given)
            if path in above or len(above) >= MOST_DEEP:
                raise Invalid(f"The component {given} holds itself, or is nested more than {MOST_DEEP} deep.")
            component, above = self._read(path), above | {path}
            values = component.values
        filled = {str(k): v if k == key else _filled(v, parent, name) for k, v in step.items()}
        inputs = _inputs(filled, values)
        if kind == "pipeline" or "jobs" in values:
            inner = component if isinstance(given, str) else replace(component, values=values, places={}, refused=())
            yield from self.steps(inner, inputs, f"{name}." if name else "", above)
        elif kind not in _RUN:
            yield StepPlan(name, kind, None, f"a {kind} step has no command of its own: Azure ML runs it")
        else:
            known = _known(filled, values, inputs, name)
            what = replace(component, values=_body(filled, values, known), places={}, refused=(), is_step=True)
            yield StepPlan(name, kind, planned(what, known, f"{component.label}, step {name}"), code=what.code)

    def _read(self, path: Path) -> JobFile:
        if path not in self._files:
            try:
                self._files[path] = document.read(path)
            except Invalid as error:
                raise Invalid(f"its component cannot be read: {error.sentence}", error.next_step, error.raw) from error
        return self._files[path]


def _known(
    step: Mapping[str, Any], component: Mapping[str, Any], inputs: Mapping[str, str], name: str
) -> dict[str, str]:
    """What `${{…}}` in a step's command becomes; a sweep's values stay as they are."""
    known = {f"inputs.{key}": text for key, text in inputs.items()}
    for swept in nodes.mapping(step.get("search_space")):
        known[f"inputs.{swept}"] = known[f"search_space.{swept}"] = f"${{{{search_space.{swept}}}}}"
    for holder in (component, step):
        known |= {f"outputs.{key}": f"<output {key} of {name}>" for key in nodes.mapping(holder.get("outputs"))}
    return known


def _body(step: Mapping[str, Any], component: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """What a step runs: what it says itself goes before what its component says; variables of both are set."""
    body = {part: holder[part] for holder in (component, step) for part in BODY if part in holder}
    variables = [nodes.mapping(holder.get("environment_variables")) for holder in (component, step)]
    body["environment_variables"] = {**variables[0], **variables[1]}
    body["command"] = without_optional(str(body.get("command") or ""), known)
    return body


def _filled(value: Any, parent: Mapping[str, str], step: str) -> Any:
    """A step's value with `${{parent.…}}` filled in. Raises Invalid for an input that the pipeline does not have."""
    if isinstance(value, Mapping):
        return {str(key): _filled(item, parent, step) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, parent, step) for item in value]
    if not isinstance(value, str):
        return value

    def text(match: re.Match[str]) -> str:
        where, name = match[1], match[2]
        if where == "jobs":
            source, _, output = name.partition(".")
            return f"<output {output.removeprefix('outputs.') or '?'} of {source}>"
        if where == "outputs":
            return f"<output {name}>"
        if name not in parent:
            raise Invalid(f"Step {step} takes `{name}`, and the pipeline has no such input.")
        return parent[name]

    return BINDING.sub(text, value)


def _inputs(step: Mapping[str, Any], component: Mapping[str, Any]) -> dict[str, str]:
    """What each input of a step's command becomes: what the step gives, else the component's default."""
    found: dict[str, str] = {}
    for key, item in nodes.mapping(component.get("inputs")).items():
        default = nodes.mapping(item).get("default")
        if default is not None:
            found[key] = str(default)
    for key, item in nodes.mapping(step.get("inputs")).items():
        # A data input that was bound holds the mark for its place already.
        path = str(nodes.mapping(item).get("path") or "")
        found[key] = path if path.startswith("<") else place_of(as_input(key, item))
    return found


def without_optional(command: str, known: Collection[str]) -> str:
    """`$[[…]]` goes when an optional input in it has no value, else only its brackets go.

    Source: Azure, reference-yaml-component-command.
    """

    def piece(match: re.Match[str]) -> str:
        named = [name for name in EXPRESSION.findall(match[1]) if name.startswith("inputs.")]
        return match[1] if all(name in known for name in named) else ""

    # Behind the last closing bracket nothing is looked for: each of many open ones would be, to the end.
    end = command.rfind("]]") + 2 if "]]" in command else 0
    return _OPTIONAL.sub(piece, command[:end]) + command[end:]
