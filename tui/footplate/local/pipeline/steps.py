"""From a pipeline's file to a job file a step: components read, inputs and outputs bound, pipelines in pipelines laid flat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from footplate.jobfile import JobFile, document, nodes
from footplate.jobfile.document import is_remote, real_path
from footplate.jobfile.pipeline import MOST_DEEP
from footplate.local.pipeline.values import (
    MARK,
    absolute,
    body_of,
    bound_to,
    filled,
    inputs_of,
    outputs_of,
    with_defaults,
)
from footplate.workspace import Invalid

MOST_STEPS = 500

_RUN = ("command", "sweep")
_SWEEP_KEYS = ("search_space", "sampling_algorithm", "objective", "early_termination", "limits")
_COMMAND_KEYS = ("limits",)

Place = Callable[[str, str], str]
"""From a job's name and an output's to the folder or file that the job writes it to."""


@dataclass(frozen=True)
class Step:
    """One step that runs: `outer.inner` for one of a pipeline in a step. `job` is its child's name, `text` its job file.

    `after` are the steps whose outputs it takes.
    """

    name: str
    job: str
    text: str
    base: str
    after: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The step as JSON data."""
        return asdict(self)

    @classmethod
    def from_document(cls, found: Mapping[str, Any]) -> Step:
        """The step that `document` wrote."""
        return cls(**{**found, "after": tuple(found["after"])})

    @property
    def file(self) -> JobFile:
        """Its job file."""
        return document.parse(self.text, None, Path(self.base))


@dataclass(frozen=True)
class Steps:
    """All steps of a pipeline in the file's order, and whose output each of the pipeline's own outputs is: (step, output).

    `last` are those of `settings.on_finalize`, which run when all others have ended, however they did.
    """

    steps: tuple[Step, ...]
    outputs: Mapping[str, tuple[str, str]]
    last: tuple[str, ...] = ()


@dataclass
class _Leaf:
    name: str
    values: dict[str, Any]
    base: Path
    after: set[str] = field(default_factory=set)


def steps_of(job_file: JobFile, name: str, place: Place) -> Steps:
    """The steps of a pipeline job that is called `name`. Raises Invalid, naming the step, for what cannot be run here."""
    reader = _Reader(job_file)
    exports = reader.whole()
    names = _job_names(name, [leaf.name for leaf in reader.leaves])
    first, last = (_within(job_file.text_at("settings", key), names) for key in ("on_init", "on_finalize"))
    made = []
    for leaf in reader.leaves:
        after = set(leaf.after)
        values = reader.located(leaf.values, lambda step, output: place(names.get(step, ""), output), after)
        for source in sorted(after - set(names)):
            raise Invalid(
                f"Step {leaf.name} takes an output of `{source}`, and there is no such step.", "Mend the binding."
            )
        if leaf.name not in first:
            after |= set(first)
        values["name"] = names[leaf.name]
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120)
        made.append(Step(leaf.name, names[leaf.name], text, str(leaf.base), tuple(sorted(after))))
    _require_order(made)
    return Steps(tuple(made), {output: reader.leaf_of(*source) for output, source in exports.items()}, last)


class _Reader:
    """Walks a pipeline and the pipelines in it; reads each component file once."""

    def __init__(self, job_file: JobFile) -> None:
        self._job_file = job_file
        self._files: dict[Path, JobFile] = {}
        self._exports: dict[str, Mapping[str, tuple[str, str]]] = {}
        self.leaves: list[_Leaf] = []

    def whole(self) -> Mapping[str, tuple[str, str]]:
        """Read everything; gives the pipeline's own outputs as (step, output)."""
        job_file = self._job_file
        given = job_file.get("component")
        inputs = {name: absolute(value, job_file.base) for name, value in job_file.mapping("inputs").items()}
        outputs = job_file.mapping("outputs")
        compute = job_file.text_at("settings", "default_compute") or job_file.text_at("compute")
        if not job_file.mapping("jobs") and isinstance(given, str):
            pipeline, above = self._component(given, job_file, "the pipeline", frozenset())
            inputs = with_defaults(inputs, pipeline)
            return self._pipeline(pipeline, inputs, {**pipeline.mapping("outputs"), **outputs}, "", compute, above)
        return self._pipeline(job_file, inputs, outputs, "", compute, frozenset())

    def leaf_of(self, step: str, output: str) -> tuple[str, str]:
        """The step that runs and the output of it that `output` of a step is: that of a pipeline is one of its steps'."""
        while step in self._exports:
            if output not in self._exports[step]:
                raise Invalid(f"Step {step} has no output `{output}`.", "Mend the binding, or bind that output in it.")
            step, output = self._exports[step][output]
        return step, output

    def located(self, value: Any, place: Place, after: set[str]) -> Any:
        """A value with the marks for outputs replaced by their places; the steps they come from are put into `after`."""
        if isinstance(value, Mapping):
            return {str(key): self.located(item, place, after) for key, item in value.items()}
        if isinstance(value, list):
            return [self.located(item, place, after) for item in value]
        if not isinstance(value, str):
            return value

        def there(match: re.Match[str]) -> str:
            step, output = self.leaf_of(match[1], match[2])
            after.add(step)
            return place(step, output)

        return MARK.sub(there, value)

    def _pipeline(
        self,
        pipeline: JobFile,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        prefix: str,
        compute: str,
        above: frozenset[Path],
    ) -> Mapping[str, tuple[str, str]]:
        exports: dict[str, tuple[str, str]] = {}
        for name, value in pipeline.mapping("jobs").items():
            full = f"{prefix}{name}"
            if len(self.leaves) >= MOST_STEPS:
                raise Invalid(f"{self._job_file.label} has more than {MOST_STEPS} steps.", "Split the pipeline.")
            step = filled(nodes.mapping(value), inputs, prefix, full)
            own = {}
            for output, item in nodes.mapping(nodes.mapping(value).get("outputs")).items():
                where, target = bound_to(item)
                if where == "outputs":
                    exports[target] = (full, output)
                    own[output] = nodes.mapping(outputs.get(target))
            self._step(pipeline, full, step, own, compute, above)
        for name, item in outputs.items():  # a pipeline may also take its outputs from its steps in its own `outputs`
            where, target = bound_to(item)
            if where == "jobs":
                source, _, output = target.partition(".outputs.")
                exports[name] = (f"{prefix}{source}", output)
        return exports

    def _step(
        self,
        pipeline: JobFile,
        name: str,
        step: Mapping[str, Any],
        own: Mapping[str, Mapping[str, Any]],
        compute: str,
        above: frozenset[Path],
    ) -> None:
        kind = str(step.get("type") or "command").lower()
        key = "trial" if kind == "sweep" else "component"
        given = step.get(key)
        holder, component = pipeline, given if isinstance(given, Mapping) else {}
        if isinstance(given, str):
            holder, above = self._component(given, pipeline, f"step {name}", above)
            component = holder.values
        if kind == "pipeline" or "jobs" in component or "jobs" in step:
            inner = holder if isinstance(given, str) else _part(pipeline, component or step)
            values = with_defaults(nodes.mapping(step.get("inputs")), inner)
            settings = nodes.mapping(step.get("settings"))
            default = str(settings.get("default_compute") or inner.text_at("settings", "default_compute") or compute)
            self._exports[name] = self._pipeline(
                inner, values, {**inner.mapping("outputs"), **own}, f"{name}.", default, above
            )
        elif kind in _RUN:
            self._leaf(name, kind, holder, component, step, own, compute)
        else:
            raise Invalid(
                f"Step {name} of {self._job_file.label} is a {kind} step, which Azure ML itself runs.",
                "The local workspace runs command and sweep steps, inline or from component files.",
            )

    def _leaf(
        self,
        name: str,
        kind: str,
        holder: JobFile,
        component: Mapping[str, Any],
        step: Mapping[str, Any],
        own: Mapping[str, Mapping[str, Any]],
        compute: str,
    ) -> None:
        inputs = inputs_of(component, nodes.mapping(step.get("inputs")), holder.base)
        swept = set(nodes.mapping(step.get("search_space"))) if kind == "sweep" else set()
        body = body_of(component, step, {f"inputs.{key}" for key in (*inputs, *swept)}, swept)
        values: dict[str, Any] = {
            "type": kind,
            "display_name": name,
            "experiment_name": self._job_file.experiment_name,
            "inputs": {key: value for key, value in inputs.items() if key not in swept},
            "outputs": outputs_of(component, step, own),
        }
        cluster = str(step.get("compute") or compute).removeprefix("azureml:")
        if cluster and cluster.lower() != "serverless":
            values["compute"] = cluster
        if kind == "sweep":
            values |= {key: step[key] for key in _SWEEP_KEYS if key in step}
            values["trial"] = body
        else:
            values |= {key: step[key] for key in _COMMAND_KEYS if key in step} | body
        # What the step itself says lies beside the pipeline, what its component says beside the component.
        says_code = not holder.path or "code" not in step
        base = holder.base if says_code or holder.path == self._job_file.path else self._job_file.base
        self.leaves.append(_Leaf(name, values, base))

    def _component(
        self, given: str, beside: JobFile, what: str, above: frozenset[Path]
    ) -> tuple[JobFile, frozenset[Path]]:
        """A component's file, and the files that it is read from. Raises Invalid where it cannot be had."""
        if is_remote(given):
            raise Invalid(
                f"{self._job_file.label}: the component {given} of {what} lies in a workspace on Azure.",
                "The local workspace runs inline components and those of files.",
            )
        path = real_path(beside.base, given)
        if path in above or len(above) >= MOST_DEEP:
            raise Invalid(f"{given} of {what} holds itself, or is nested more than {MOST_DEEP} deep.", "Mend it.")
        if path not in self._files:
            try:
                self._files[path] = document.read(path)
            except Invalid as error:
                raise Invalid(f"The component of {what}: {error.sentence}", error.next_step, error.raw) from error
        return self._files[path], above | {path}


def _within(step: str, names: Iterable[str]) -> tuple[str, ...]:
    """The steps that run of a step: itself, or those of the pipeline in it."""
    return tuple(name for name in names if step and (name == step or name.startswith(f"{step}.")))


def _part(pipeline: JobFile, values: Mapping[str, Any]) -> JobFile:
    """A pipeline that stands within another's file."""
    return JobFile("", pipeline.path, pipeline.base, values, {})


def _job_names(pipeline: str, steps: list[str]) -> dict[str, str]:
    """The children's names, which are the same whenever they are asked for: `pipeline-step`."""
    names: dict[str, str] = {}
    for step in steps:
        wanted = f"{pipeline[:180]}-{re.sub(r'[^A-Za-z0-9_-]+', '-', step)[:60]}"
        taken = set(names.values())
        names[step] = next(name for name in _numbered(wanted) if name not in taken)
    return names


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in range(2, MOST_STEPS + 2):
        yield f"{name}-{number}"


def _require_order(steps: list[Step]) -> None:
    """Raise Invalid for steps that wait for each other."""
    done: set[str] = set()
    left = list(steps)
    while left:
        ready = [step for step in left if done.issuperset(step.after)]
        if not ready:
            circle = ", ".join(step.name for step in left)
            raise Invalid(f"These steps wait for each other: {circle}.", "Mend the bindings between them.")
        done |= {step.name for step in ready}
        left = [step for step in left if step.name not in done]
