"""The data of jobs and of what they name: frozen, in UTC, spelled as Azure spells it."""

from __future__ import annotations

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
        if not self.words:
            return True
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
class Usage:
    """What a job used of its machines over time: figures by name, a curve a rank or GPU as `cpu_percent/rank 1`.

    `note` says why there is nothing, or not all.
    """

    series: Mapping[str, Sequence[MetricPoint]] = field(default_factory=dict)
    note: str = ""


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
class Contrast:
    """What a job or a deployment on this machine does otherwise than on Azure: the topic, what is so here, and what there."""

    topic: str
    here: str
    azure: str
