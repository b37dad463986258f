"""Pipeline jobs, their steps, and components. Source: azure-ai-ml's schemas, reference-yaml-job-pipeline and -component-*.

Command, sweep and pipeline steps and components are known whole. Of AutoML, Spark and parallel steps the keys in
`step_types`, and of all others only what all steps share is checked: their other keys pass unread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.expressions import is_expression
from footplate.jobfile.faults import Report, known_names, nearest
from footplate.jobfile.schema import common, environments, jobs, step_types
from footplate.jobfile.schema.components import COMMAND_COMPONENT, COMPONENT_FILE
from footplate.jobfile.shapes import (
    Anything,
    By,
    Either,
    Flag,
    Keys,
    Scalar,
    Shape,
    Table,
    Text,
    is_bound,
)


@dataclass(frozen=True)
class StepName(Shape):
    """Steps by name: lower-case letters, digits and underscores, a letter first."""

    value: Shape
    wanted: str = "the steps by name"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if isinstance(value, Mapping):
            for name in map(str, value):
                if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                    plain = re.sub(r"[^a-z0-9_]", "_", name.lower())
                    better = plain if plain[:1].isalpha() else f"step_{plain}"
                    report.add(
                        "wrong-value",
                        (*place, name),
                        f"A step cannot be called {name!r}: only lower-case letters, digits and underscores, a letter first.",
                        f"Call it {better}.",
                        key=True,
                    )
        Table(self.value, self.wanted).check(value, place, report)


@dataclass(frozen=True)
class StepOutput(Shape):
    """A step's output: empty, `${{parent.outputs.x}}`, or type, path and mode. An inline command's may be any text."""

    inline: bool = False
    wanted: str = "${{parent.outputs.NAME}}, or type, path and mode"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if isinstance(value, str):
            if not self.inline and not is_expression(value):
                self._wrong(value, place, report, "Write `path:` below it for a place in a datastore.")
        else:
            common.OUTPUT.check(value, place, report)


@dataclass(frozen=True)
class AssetName(Shape):
    """A reference `azureml:NAME`; `words` are what may stand without the prefix."""

    what: str
    words: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:  # type: ignore[override]
        """`a compute, as azureml:NAME`."""
        return f"a {self.what}, as azureml:NAME"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if not isinstance(value, str):
            self._wrong(value, place, report)
        elif not value.startswith("azureml:") and value.lower() not in self.words:
            report.add(
                "wrong-value", place, f"`{place[-1]}` cannot be the bare name {value!r}.", f"Write azureml:{value}."
            )


_STEP: dict[str, Shape] = {
    "$schema": Scalar(),
    "type": Text(),
    "name": Text(),
    "display_name": Scalar(null=True),
    "description": Scalar(null=True),
    "comment": Text(),
    "tags": Anything(),
    "properties": common.TAGS,
    "inputs": common.INPUTS,
    "outputs": Table(StepOutput()),
    "compute": Text("a cluster's name"),
}
"""What steps share. Name, description and tags are left out by Azure's client, whatever they hold."""

_COMMAND_STEP = Keys(
    "a command step",
    {
        **_STEP,
        **jobs.BODY,
        "component": Either(
            Text("a component"),
            Keys("a component", COMMAND_COMPONENT, required=("command", "environment"), unknown="warning"),
            wanted="a component's file, asset or keys",
        ),
        "code": Either(Text("a folder", null=True), wanted="a path", null=True),
        "limits": jobs.LIMITS,
        "services": common.SERVICES,
        "identity": common.IDENTITY,
        "queue_settings": common.QUEUE_SETTINGS,
        "experiment_name": Anything(),
    },
    required=("component",),
    unknown="warning",
)
_INLINE_COMMAND_STEP = Keys(
    "an inline command step",
    {
        **jobs.COMMAND.keys,
        "type": Text("`command`", ("command",)),
        "environment": environments.ENVIRONMENT,
        "outputs": Table(StepOutput(inline=True)),
    },
    required=("command",),
    read_only=jobs.COMMAND.read_only,
    advice={
        "trial": "That is a sweep's: write `type: sweep`.",
        "task": "That is a parallel step's: write `type: parallel`.",
    },
)
_SWEEP_STEP = Keys(
    "a sweep step",
    {
        **_STEP,
        **{
            key: jobs.SWEEP.keys[key]
            for key in ("sampling_algorithm", "search_space", "objective", "early_termination")
        },
        "trial": Either(
            Text("a component"),
            Keys("a trial's component", COMMAND_COMPONENT, required=("command", "environment"), unknown="warning"),
            wanted="a component's file, asset or keys",
        ),
        "limits": jobs.SWEEP_LIMITS,
        "resources": common.RESOURCES,
        "queue_settings": common.QUEUE_SETTINGS,
        "identity": common.IDENTITY,
        "experiment_name": Anything(),
    },
    required=("trial", "objective", "limits"),
    unknown="warning",
)
_PIPELINE_STEP = Keys(
    "a pipeline step",
    {**_STEP, "component": Text("a component's file or asset"), "experiment_name": Anything()},
    required=("component",),
    unknown="warning",
    advice={"jobs": "Steps within a step stand in a file of their own: name it as `component:`."},
)
_SHARED = {**_STEP, "component": Either(Text("a component"), Anything(), wanted="a component's file, asset or keys")}


def _shared(title: str, more: Mapping[str, Shape], required: tuple[str, ...] = ()) -> Keys:
    """A step of which not all keys are known here: those that are not pass unread."""
    return Keys(title, {**_SHARED, **more}, required=required, unknown="off")


STEPS: Mapping[str, Keys] = {
    "command": _COMMAND_STEP,
    "sweep": _SWEEP_STEP,
    "pipeline": _PIPELINE_STEP,
    "parallel": _shared("a parallel step", step_types.PARALLEL),
    "spark": _shared("a Spark step", step_types.SPARK),
    "automl": _shared("an AutoML step", step_types.AUTOML, required=("task",)),
    "data_transfer": _shared(
        "a data transfer step",
        {"task": Text("a task", ("copy_data", "import_data", "export_data"))},
        required=("task",),
    ),
    "import": _shared("an import step", {}),
}
"""Each type of step."""


@dataclass(frozen=True)
class StepShape(Shape):
    """One step, by its `type`; without one it is a command."""

    wanted: str = "a step's keys"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if not isinstance(value, Mapping):
            self._wrong(value, place, report, "A step has a `type`, and a `component` or a `command`.")
            return
        given = value.get("type", "command")
        shape = STEPS.get(str(given).lower())
        if shape is None:
            near = nearest(given, STEPS)
            hint = f"Did you mean {near!r}?" if near else f"Use {known_names(STEPS)}."
            report.add("wrong-value", (*place, "type"), f"{str(given)[:40]!r} is no type of a pipeline's step.", hint)
            return
        if shape is _COMMAND_STEP and "component" not in value:
            if "command" not in value:
                value = self._meant(value, place, report)
            shape = shape if "component" in value else _INLINE_COMMAND_STEP
        if shape in (STEPS["spark"], STEPS["automl"]) and "component" not in value:
            needed = ("entry",) if shape is STEPS["spark"] else step_types.needed_by_automl(value.get("task"))
            shape = replace(shape, required=needed)
        shape.check(value, place, report)

    def _meant(self, value: Mapping[str, Any], place: nodes.Path, report: Report) -> dict[str, Any]:
        """A step that has neither, as it is meant: of a misspelt `component` or `command` only the spelling is told."""
        ways = ("component", "command")
        for key in map(str, value):
            if key not in _COMMAND_STEP.keys and (near := nearest(key, ways)):
                message, hint = f"`{key}` is no key of a command step.", f"Did you mean `{near}`?"
                report.add("unknown-key", (*place, key), message, hint, key=True, unreadable=True)
                return {**{name: item for name, item in value.items() if str(name) != key}, near: "-"}
        report.add(
            "missing-key", place, "A command step needs a `component` or a `command`.", "Add one of them.", key=True
        )
        return {**value, "command": "-"}


PIPELINE_STEPS = StepName(StepShape())

SETTINGS = Keys(
    "a pipeline's settings",
    {
        "default_compute": AssetName("compute", ("serverless",)),
        "default_datastore": AssetName("datastore"),
        "continue_on_step_failure": Flag(),
        "force_rerun": Flag(),
        "on_init": Text("a step's name"),
        "on_finalize": Text("a step's name"),
        "continue_run_on_failed_optional_input": Flag(),
    },
    unknown="warning",
)


@dataclass(frozen=True)
class PipelineShape(Shape):
    """A pipeline job: its steps, or one component that has them."""

    wanted: str = "the keys of a pipeline job"

    @property
    def forms(self) -> tuple[Keys, ...]:
        """The keys of each form it can have."""
        return (_PIPELINE,)

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        _PIPELINE.check(value, place, report)
        if isinstance(value, Mapping):
            if value.get("jobs") and isinstance(value.get("component"), str):
                report.add(
                    "wrong-value",
                    ("component",),
                    "A pipeline has `jobs` or a `component`, not both.",
                    "Remove one of them.",
                    key=True,
                )
            elif "jobs" not in value and "component" not in value:
                # Azure's client takes it; there is nothing in it to run.
                report.add(
                    "missing-key", place, "`jobs` is missing from a pipeline job.", "Add its steps.", severity="warning"
                )


_PIPELINE = Keys(
    "a pipeline job",
    {
        **{key: shape for key, shape in jobs.BASE.items() if key not in ("queue_settings", "resources")},
        "type": Text("`pipeline`", ("pipeline",), exact=True),
        "settings": SETTINGS,
        "jobs": PIPELINE_STEPS,
        "component": Text("a pipeline component's file or asset"),
    },
    required=("type",),
    read_only=common.JOB_READ_ONLY,
    advice={
        "environment": "Each step has its own environment: move this line there.",
        "resources": "Each step has its own resources: move this line there.",
        "limits": "Each step has its own limits: move this line there.",
        "default_compute": "That stands below `settings`.",
        "default_datastore": "That stands below `settings`.",
        "experiment": "The key is `experiment_name`.",
        "schedule": "A schedule is a file of its own, which names the job it creates.",
    },
)
PIPELINE = PipelineShape()

COMPONENT = By(
    "type",
    {
        "command": Keys(
            "a command component",
            {**COMMAND_COMPONENT, **COMPONENT_FILE},
            required=("name", "command", "environment"),
            read_only=common.ASSET_READ_ONLY,
            unknown="warning",
        ),
        "pipeline": Keys(
            "a pipeline component",
            {**COMPONENT_FILE, "jobs": PIPELINE_STEPS},
            required=("name",),
            read_only=common.ASSET_READ_ONLY,
            unknown="warning",
        ),
        **{
            kind: Keys(f"a {kind} component", COMPONENT_FILE, required=("name",), unknown="off")
            for kind in ("parallel", "spark", "data_transfer", "import", "automl", "flow_parallel")
        },
    },
    "a component",
    default="command",
)
