"""The parts of a pipeline's graph: steps, components, ports, edges, levels. `pipeline.graph_of` makes one of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Port:
    """One end of an edge: an output of a step, an input of a step; `step` is empty for the pipeline's own."""

    step: str
    name: str


@dataclass(frozen=True)
class Edge:
    """What flows: from a step's output or a pipeline's input, to a step's input or a pipeline's output."""

    source: Port
    target: Port


@dataclass(frozen=True)
class Unknown:
    """A binding to something that the pipeline does not have: where it stands, and its text."""

    at: Port
    text: str


@dataclass(frozen=True)
class Declared:
    """An input or output that a component declares. `default` is empty where there is none."""

    name: str
    type: str
    optional: bool = False
    default: str = ""


@dataclass(frozen=True)
class Component:
    """What a step runs. `form` is inline, file, registry or asset; empty where the step names nothing.

    `problem` says why a file could not be read; its inputs, outputs and command are unknown then, as those of an asset.
    `graph` is of a pipeline component in a file.
    """

    form: str = ""
    reference: str = ""
    path: Path | None = None
    name: str = ""
    command: str = ""
    environment: str = ""
    inputs: Mapping[str, Declared] = field(default_factory=dict)
    outputs: Mapping[str, Declared] = field(default_factory=dict)
    nodes: int | None = 1
    ranks_per_node: int | None = 1
    problem: str = ""
    graph: Graph | None = None


@dataclass(frozen=True)
class StepInput:
    """An input of a step as its text. `kind` is literal, data, bound or unknown; `sources` are what it is bound to."""

    name: str
    text: str
    kind: str
    sources: tuple[Port, ...] = ()


@dataclass(frozen=True)
class StepOutput:
    """An output of a step; `bound_to` is the pipeline's output that it becomes, or empty."""

    name: str
    type: str = ""
    text: str = ""
    bound_to: str = ""


@dataclass(frozen=True)
class Step:
    """One step. `nodes` and `ranks_per_node` are None where only the run knows them (`${{…}}`).

    `compute` is the step's own cluster, else the pipeline's default; empty means serverless. `inherited` says which.
    """

    name: str
    type: str
    component: Component
    inputs: tuple[StepInput, ...] = ()
    outputs: tuple[StepOutput, ...] = ()
    compute: str = ""
    inherited: bool = False
    nodes: int | None = 1
    ranks_per_node: int | None = 1
    environment: str = ""

    @property
    def command(self) -> str:
        """The command that the step runs, where it is known."""
        return self.component.command

    @property
    def size(self) -> str:
        """`2 × 4`: nodes × processes a node, `?` for what only the run knows."""
        return " × ".join("?" if count is None else str(count) for count in (self.nodes, self.ranks_per_node))


@dataclass(frozen=True)
class Graph:
    """A pipeline's graph. `levels` hold steps that can run side by side, each level after the one before.

    `stuck` are the steps in no level: those that wait for each other in a circle, and those that wait for them.
    `problem` says why the pipeline's own component could not be read.
    """

    steps: tuple[Step, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    levels: tuple[tuple[str, ...], ...] = ()
    stuck: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    default_compute: str = ""
    problem: str = ""

    def step(self, name: str) -> Step | None:
        """The step of that name."""
        return next((step for step in self.steps if step.name == name), None)
