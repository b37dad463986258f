"""The data of serving: models, endpoints, deployments, answers and figures; frozen, in UTC, spelled as Azure spells it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from footplate.workspace.model import iso


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number past every float
        return False


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
    registry: str = ""
    """The registry that it lies in, where that is not the workspace."""

    @property
    def reference(self) -> str:
        """`name:version`; of a registry's model its address."""
        if self.registry:
            return f"azureml://registries/{self.registry}/models/{self.name}/versions/{self.version}"
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
