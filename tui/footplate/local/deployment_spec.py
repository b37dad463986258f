"""What a deployment runs with, as the store keeps it: its script, variables, limits and probes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

REQUEST_SECONDS = 60.0
"""How long the model may take for one request, where the file does not say: the demo's models are not slow, machines may be."""

MOST_WAITING = 1000
"""So many requests wait for a deployment at most, where its file sets no `max_concurrent_requests_per_instance`."""


@dataclass(frozen=True)
class Probe:
    """A liveness probe: seconds, and how many failures in a row end the server. Azure's defaults: reference-yaml-*-online."""

    initial_delay: float = 10.0
    period: float = 10.0
    timeout: float = 2.0
    failures: int = 30


@dataclass(frozen=True)
class Spec:
    """One revision of a deployment. Each has folders of its own, so that it can start while the former one serves.

    `concurrent` requests run at a time in one instance (None: one a worker); with it, as on Azure, twice as many may be there
    at all, and more are refused with 429. `queue_seconds`: longer than this none waits (None: until its time is over).
    `notes` say what an operator would stumble on; `source` is the code folder that the file named, empty for footplate's own,
    and `digest` that of the files in it.
    """

    revision: int = 1
    script: str = "score.py"
    variables: Mapping[str, str] = field(default_factory=dict)
    workers: int = 1
    request_seconds: float = REQUEST_SECONDS
    concurrent: int | None = None
    queue_seconds: float | None = None
    ready_seconds: float = 310.0
    liveness: Probe | None = None
    notes: tuple[str, ...] = ()
    source: str = ""
    digest: str = ""

    @property
    def code(self) -> str:
        """The name of its code folder, below the deployment's."""
        return "code" if self.revision == 1 else f"code-{self.revision}"

    @property
    def model(self) -> str:
        """The name of the folder that AZUREML_MODEL_DIR names, below the deployment's."""
        return "model" if self.revision == 1 else f"model-{self.revision}"

    @property
    def at_a_time(self) -> int:
        """How many requests one instance gets at a time."""
        return self.concurrent or self.workers

    def most(self, instances: int) -> int:
        """How many requests may be running or waiting. Azure: how-to-troubleshoot-online-endpoints, 429."""
        return MOST_WAITING if self.concurrent is None else 2 * self.concurrent * instances

    def text(self) -> str:
        """As JSON, always alike for the same values."""
        return json.dumps(asdict(self), sort_keys=True)


def read_spec(text: str) -> Spec:
    """A spec from the store; what an older footplate did not write has its default, what a newer one wrote is not read."""
    known = {one.name for one in fields(Spec)}
    given: dict[str, Any] = {key: value for key, value in json.loads(text).items() if key in known}
    liveness = given.pop("liveness", None)
    notes = tuple(given.pop("notes", ()))
    return Spec(**given, notes=notes, liveness=None if liveness is None else Probe(**liveness))
