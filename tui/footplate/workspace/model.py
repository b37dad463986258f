"""The data of a workspace: frozen, in UTC, spelled as Azure spells it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ACTIVE_STATUSES = frozenset(
    {
        "NotStarted",
        "Scheduled",
        "Queued",
        "Preparing",
        "Provisioning",
        "Starting",
        "Running",
        "NotResponding",
        "Paused",
        "Finalizing",
        "CancelRequested",
    }
)
"""Statuses from which a job still goes on; any other is an end (or unknown, and shown as it is)."""


def iso(moment: datetime | None) -> str | None:
    """A moment as ISO 8601 in UTC with a `Z`, or None."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number past every float
        return False


@dataclass(frozen=True)
class DeviceCode:
    """What the operator types where, to sign in."""

    address: str
    code: str
    expires: datetime


@dataclass(frozen=True)
class Uploading:
    """An upload under way: the folder or file, bytes sent and bytes in all; `total` is 0 before it is known."""

    what: str
    done: int
    total: int


@dataclass(frozen=True)
class Cluster:
    """Compute that runs jobs. `busy_nodes` counts nodes that hold a job; `queued_jobs` wait for nodes, where that is told."""

    name: str
    type: str
    size: str
    state: str
    min_nodes: int
    max_nodes: int
    busy_nodes: int
    cores_per_node: int
    gpus_per_node: int
    idle_seconds: int
    queued_jobs: int | None = None
    tier: str = "Dedicated"
    error: str = ""

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "name": self.name,
            "type": self.type,
            "size": self.size,
            "state": self.state,
            "min_instances": self.min_nodes,
            "max_instances": self.max_nodes,
            "busy_nodes": self.busy_nodes,
            "queued_jobs": self.queued_jobs,
            "cores_per_node": self.cores_per_node,
            "gpus_per_node": self.gpus_per_node,
            "idle_time_before_scale_down": self.idle_seconds,
            "tier": self.tier,
            "error": self.error or None,
        }


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster that is to be made: `size` as `sizes` names it, nodes, seconds until an idle node goes, the tier.

    What is not said is as Azure's client has it.
    """

    name: str
    size: str
    min_nodes: int = 0
    max_nodes: int = 4
    idle_seconds: int = 120
    tier: str = "Dedicated"


@dataclass(frozen=True)
class Node:
    """One node of a cluster that is there now. `state`: idle, running, preparing, leaving, unusable, preempted."""

    name: str
    state: str
    job: str | None = None
    address: str = ""
    error: str = ""

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "name": self.name,
            "state": self.state,
            "job": self.job,
            "address": self.address or None,
            "error": self.error or None,
        }


@dataclass(frozen=True)
class Size:
    """A size of machine that clusters can have; `memory_gb` and `family` where they are told."""

    name: str
    cores: int
    gpus: int = 0
    memory_gb: float | None = None
    family: str = ""
    low_priority: bool = True

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "name": self.name,
            "cores": self.cores,
            "gpus": self.gpus,
            "memory_gb": self.memory_gb,
            "family": self.family or None,
            "low_priority": self.low_priority,
        }


@dataclass(frozen=True)
class Quota:
    """Cores of one family: how many are used, how many there may be (None: no limit is told); low priority has its own."""

    family: str
    used: int
    limit: int | None
    low_priority: bool = False

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {"family": self.family, "used": self.used, "limit": self.limit, "low_priority": self.low_priority}


@dataclass(frozen=True)
class Stage:
    """One stage of a job's life, as in Queued, Preparing, Running: when it began, and ended where it has."""

    name: str
    started: datetime
    ended: datetime | None = None


@dataclass(frozen=True)
class Service:
    """Something that a job serves while it runs, as SSH, Jupyter, TensorBoard: where it answers, once it does."""

    name: str
    type: str
    status: str
    url: str = ""
    error: str = ""


@dataclass(frozen=True)
class Job:
    """A command, sweep or pipeline job. `note` is the one line that explains it now: why it waits or failed."""

    name: str
    display_name: str
    type: str
    status: str
    experiment: str
    compute: str
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    parent: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    note: str = ""
    nodes: int = 1
    ranks_per_node: int = 1
    command: str = ""
    headline: tuple[str, float] | None = None
    """The metric that a list shows, with its latest value."""
    archived: bool = False
    stages: tuple[Stage, ...] = ()
    """In the order they came; empty in lists, and where the workspace does not tell."""
    studio_url: str = ""
    best_child: str | None = None
    """A sweep's best trial so far, by the workspace's own rule; None before one logged the metric."""
    primary_metric: str | None = None
    goal: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """A trial's values of the search space."""
    metric: float | None = None
    """A trial's best value of the sweep's primary metric so far."""

    @property
    def active(self) -> bool:
        """Whether it still goes on."""
        return self.status in ACTIVE_STATUSES

    @property
    def world_size(self) -> int:
        """Number of ranks over all nodes."""
        return self.nodes * self.ranks_per_node

    def seconds(self, now: datetime | None = None) -> float | None:
        """Seconds it ran, or has run until `now`; None before it started."""
        if self.started is None:
            return None
        end = self.ended or now or datetime.now(UTC)
        return max(0.0, (end - self.started).total_seconds())

    def document(self) -> dict[str, Any]:
        """What `--json` prints: the fields of section 9 of the design, the job's size, and what only sweeps and trials have."""
        document = {
            "name": self.name,
            "display_name": self.display_name,
            "type": self.type,
            "status": self.status,
            "experiment": self.experiment,
            "compute": self.compute,
            "created": iso(self.created),
            "started": iso(self.started),
            "ended": iso(self.ended),
            "duration_s": None if (taken := self.seconds()) is None else round(taken, 3),
            "parent": self.parent,
            "tags": dict(self.tags),
            "inputs": dict(self.inputs),
            "error": self.error,
            "instance_count": self.nodes,
            "process_count_per_instance": self.ranks_per_node,
        }
        if self.type == "sweep":
            document |= {"best_child": self.best_child, "primary_metric": self.primary_metric}
        if self.parameters:
            document |= {"parameters": dict(self.parameters), "metric": self.metric}
        return document


@dataclass(frozen=True)
class JobFilter:
    """Which jobs: words that must all occur in name, display name, experiment, status or cluster."""

    words: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    archived: bool = False

    def matches(self, job: Job) -> bool:
        """Whether a job passes; upper and lower case are the same."""
        if job.archived and not self.archived:
            return False
        if self.status and job.status.lower() not in {s.lower() for s in self.status}:
            return False
        haystack = f"{job.name} {job.display_name} {job.experiment} {job.status} {job.compute}".lower()
        return all(word.lower() in haystack for word in self.words)


@dataclass(frozen=True)
class LogFile:
    """One log file of a job: path as the service names it, size in bytes, last change.

    `local_path` is set where the file itself lies on this machine and only grows.
    """

    path: str
    size: int | None
    changed: datetime | None
    local_path: Path | None = None


@dataclass(frozen=True)
class LogChunk:
    """Bytes from one offset, and how many the file held when they were read."""

    offset: int
    data: bytes
    total: int


@dataclass(frozen=True)
class MetricPoint:
    """One logged value."""

    step: int
    time: datetime
    value: float


@dataclass(frozen=True)
class Output:
    """One output of a job: its name (`default` is the run's `outputs` folder) and what is in it, where that can be told."""

    name: str
    type: str
    files: int | None
    size: int | None


@dataclass(frozen=True)
class DataAsset:
    """A registered data asset."""

    name: str
    version: str
    type: str
    path: str
    description: str = ""


@dataclass(frozen=True)
class Environment:
    """The newest version of an environment that jobs can name."""

    name: str
    version: str
    image: str = ""
    description: str = ""

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "name": self.name,
            "version": self.version,
            "image": self.image or None,
            "description": self.description,
        }


@dataclass(frozen=True)
class Datastore:
    """A place where a workspace keeps data; `location` is the service's own address of it, or a folder."""

    name: str
    type: str
    location: str = ""
    is_default: bool = False


@dataclass(frozen=True)
class Model:
    """A registered model; `size` is in bytes, None where it is not told.

    `metadata` is its `model.json`, where it has one: a JSON object of any shape. The properties read from it what has the shape
    that footplate's trainer writes, and nothing else.
    """

    name: str
    version: str
    type: str
    created: datetime
    job: str | None = None
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = None
    lineage: Mapping[str, Any] = field(default_factory=dict)
    """What the model comes from, where it is known: `job`, `trial`, `parameters`, `metric`, `commit`."""

    @property
    def reference(self) -> str:
        """`name:version`."""
        return f"{self.name}:{self.version}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """`classes`: names in the order of the model's outputs; empty unless it is a list of strings."""
        found = self.metadata.get("classes")
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            return ()
        # JSON can spell half a surrogate pair, which no terminal takes.
        return tuple(name.encode("utf-8", "replace").decode() for name in found)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """`input_shape`, as in (3, 224, 224); empty unless it is a list of whole numbers from 1."""
        found = self.metadata.get("input_shape")
        if not isinstance(found, list) or not all(type(size) is int and size > 0 for size in found):
            return ()
        return tuple(found)

    @property
    def best_metric(self) -> tuple[str, float] | None:
        """`best_val_acc` of `metrics`, where it is a finite number."""
        value = self._metrics().get("best_val_acc")
        return None if value is None else ("best_val_acc", float(value))

    @property
    def preprocessing(self) -> Mapping[str, Any] | None:
        """`preprocessing`, where it is an object; what is in it is not checked here."""
        found = self.metadata.get("preprocessing")
        return found if isinstance(found, Mapping) else None

    def _metrics(self) -> dict[str, float]:
        """The finite numbers of `metrics`."""
        found = self.metadata.get("metrics")
        return {
            name: value
            for name, value in (found.items() if isinstance(found, Mapping) else ())
            if isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
        }

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "name": self.name,
            "version": self.version,
            "type": self.type,
            "created": iso(self.created),
            "job": self.job,
            "description": self.description,
            "tags": dict(self.tags),
            "size": self.size,
            "classes": list(self.class_names) or None,
            "metrics": self._metrics() or None,
            "lineage": dict(self.lineage) or None,
        }


@dataclass(frozen=True)
class Deployment:
    """One deployment of an endpoint; `state` is Azure's provisioning state."""

    name: str
    endpoint: str
    model: str
    state: str
    created: datetime
    instances: int = 1
    error: str = ""
    size: str = ""
    note: str = ""
    """The one line that explains it now, as that its server was started again."""

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "name": self.name,
            "endpoint": self.endpoint,
            "model": self.model,
            "state": self.state,
            "created": iso(self.created),
            "instance_count": self.instances,
            "error": self.error or None,
        }


@dataclass(frozen=True)
class Endpoint:
    """An online endpoint. `traffic` is per cent a deployment; `state` is Azure's, or Stopped on this machine."""

    name: str
    state: str
    created: datetime
    scoring_uri: str = ""
    auth_mode: str = "key"
    traffic: Mapping[str, int] = field(default_factory=dict)
    mirror: Mapping[str, int] = field(default_factory=dict)
    """Per cent of the requests that are also sent to a deployment, whose answer nobody gets."""
    deployments: tuple[Deployment, ...] = ()
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    def document(self) -> dict[str, Any]:
        """What `--json` prints; never a key."""
        return {
            "name": self.name,
            "state": self.state,
            "created": iso(self.created),
            "scoring_uri": self.scoring_uri or None,
            "auth_mode": self.auth_mode,
            "traffic": dict(self.traffic),
            "mirror_traffic": dict(self.mirror),
            "deployments": [d.document() for d in self.deployments],
            "description": self.description,
            "tags": dict(self.tags),
            "error": self.error or None,
        }


@dataclass(frozen=True)
class Contrast:
    """What a job or a deployment on this machine does otherwise than on Azure: the topic, what is so here, and what there."""

    topic: str
    here: str
    azure: str


@dataclass(frozen=True)
class Keys:
    """An endpoint's keys; never shown unasked, so they stay out of the representation.

    Of an endpoint that takes tokens of its own, `primary` is one that is good until `expires`, and `secondary` is empty.
    """

    primary: str = field(repr=False)
    secondary: str = field(repr=False)
    expires: datetime | None = None


@dataclass(frozen=True)
class Answer:
    """What an endpoint answered. `seconds` from the first byte sent to the last byte read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float
    deployment: str


@dataclass(frozen=True)
class Figures:
    """One deployment's figures over time, by name (`requests_per_minute`, `latency_ms_p95`, `cpu_percent` …), oldest first."""

    deployment: str
    series: Mapping[str, Sequence[tuple[datetime, float]]]
    until: datetime | None = None
    """Up to when the service has counted; Azure's are minutes late."""
