"""The data of compute: clusters, their nodes, sizes and quota; frozen, spelled as Azure spells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
