"""What the workspace holds: resources as the bodies that the service answers with, runs, metrics, blobs."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.wire.clock import Clock, stamp

Body = dict[str, Any]


@dataclass
class Blob:
    """The bytes of one blob, and what goes with them."""

    data: bytearray
    modified: datetime
    etag: str
    content_type: str = "application/octet-stream"
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """One value of a metric."""

    value: float
    step: int
    moment: datetime


@dataclass
class GrowingLog:
    """A log that grows line by line from a moment on, until it is ended."""

    key: tuple[str, str]
    since: datetime
    lines_per_second: float
    line: Callable[[int], str]
    written: int = 0
    until: datetime | None = None


@dataclass
class Call:
    """A request to a scoring address, for the scorer that a test gives."""

    endpoint: str
    deployment: str
    body: bytes
    headers: Mapping[str, str]


Scorer = Callable[[Call], tuple[int, Any]]


def score(call: Call) -> tuple[int, Any]:
    """The canned scorer: which deployment answered, to how many bytes."""
    try:
        asked = json.loads(call.body or b"null")
    except ValueError:
        return 200, {"label": "turkey", "probability": 0.93, "bytes": len(call.body), "deployment": call.deployment}
    return 200, {"label": "turkey", "probability": 0.93, "asked": asked, "deployment": call.deployment}


class State:
    """All that a test may look at and change. The keys of nested resources are `name/version`."""

    def __init__(self, clock: Clock, subscription_id: str, resource_group: str, workspace_name: str) -> None:
        """An empty workspace."""
        self.clock = clock
        self.subscription_id, self.resource_group, self.workspace_name = subscription_id, resource_group, workspace_name
        self.location = "eastus2"
        self.workspace_guid = "23329d4e-9b5f-403d-a218-c4e4f8323f5a"
        self.author = "A. Person"
        self.workspaces: dict[str, Body] = {}
        self.other_subscriptions: dict[str, tuple[str, list[Body] | None]] = {}
        """Name and workspaces of subscriptions beside the one that is served; None: the principal may not look into it."""
        self.clusters: dict[str, Body] = {}
        self.nodes: dict[str, list[Body]] = {}
        self.jobs: dict[str, Body] = {}
        self.runs: dict[str, Body] = {}
        self.children: dict[str, list[str]] = {}
        self.metrics: dict[str, dict[str, list[Point]]] = {}
        self.assets: dict[str, dict[str, Body]] = {
            kind: {} for kind in ("codes", "environments", "data", "models", "components")
        }
        self.registry_assets: dict[str, dict[str, Body]] = {}
        self.datastores: dict[str, Body] = {}
        self.endpoints: dict[str, Body] = {}
        self.deployments: dict[str, Body] = {}
        self.deployment_logs: dict[str, dict[str, str]] = {}
        self.keys: dict[str, dict[str, str]] = {}
        self.scorer: Scorer = score
        self.blobs: dict[tuple[str, str], Blob] = {}
        self.blocks: dict[tuple[str, str], dict[str, bytes]] = {}
        self.containers: set[str] = {"azureml", "azureml-blobstore-1"}
        self.growing: list[GrowingLog] = []
        self.quota: dict[str, Body] = {}
        self.sizes: dict[str, Body] = {}
        self._sorted: list[Body] = []
        self._sorted_at = (0, "")
        self._etags = itertools.count(0x8DE8B6A93018B44)

    # the same stores by the names of the service's nouns

    @property
    def environments(self) -> dict[str, Body]:
        """Environment versions."""
        return self.assets["environments"]

    @property
    def models(self) -> dict[str, Body]:
        """Model versions."""
        return self.assets["models"]

    @property
    def data_assets(self) -> dict[str, Body]:
        """Data asset versions."""
        return self.assets["data"]

    @property
    def ws(self) -> str:
        """The workspace's ARM id."""
        return (
            f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{self.workspace_name}"
        )

    def logs(self, job: str) -> dict[str, bytes]:
        """The log files of a job by their paths."""
        root = f"ExperimentRun/dcid.{job}/"
        found = {name.removeprefix(root): blob for (_, name), blob in self.blobs.items() if name.startswith(root)}
        return {name: bytes(blob.data) for name, blob in found.items() if not name.startswith("outputs/")}

    def newest_jobs(self) -> list[Body]:
        """All jobs, newest first; sorted again only when there are others."""
        mark = (len(self.jobs), next(reversed(self.jobs), ""))
        if mark != self._sorted_at:
            # The clock may stand: of two of one moment the later one comes first.
            latest = list(reversed(self.jobs.values()))
            self._sorted = sorted(latest, key=lambda job: job["systemData"]["createdAt"], reverse=True)
            self._sorted_at = mark
        return self._sorted

    def key(self, kind: str, reference: str | None) -> str:
        """The `name/version` of an asset of this workspace that an ARM id names; empty for anything else."""
        prefix = f"{self.ws}/{kind}/"
        text = reference or ""
        return text[len(prefix) :].replace("/versions/", "/") if text.lower().startswith(prefix.lower()) else ""

    @property
    def now(self) -> datetime:
        """The server's time."""
        return self.clock.now

    def stamp(self) -> str:
        """The server's time as the service writes it."""
        return stamp(self.now)

    def system_data(self, *, modified: bool = False, kind: bool = True) -> Body:
        """Who made a resource, and when."""
        made: Body = {"createdAt": self.stamp(), "createdBy": self.author}
        if kind:
            made["createdByType"] = "User"
        if modified:
            made["lastModifiedAt"] = self.stamp()
            if kind:
                made |= {"lastModifiedBy": self.author, "lastModifiedByType": "User"}
        return made

    # blobs and logs

    def put_blob(self, container: str, path: str, data: bytes, metadata: Mapping[str, str] | None = None) -> Blob:
        """Write a blob whole."""
        self.containers.add(container)
        blob = Blob(bytearray(data), self.now, self.new_etag(), metadata=dict(metadata or {}))
        self.blobs[container, path] = blob
        return blob

    def new_etag(self) -> str:
        """An ETag that was not used yet."""
        return f'"0x{next(self._etags):X}"'

    def append_blob(self, container: str, path: str, data: bytes) -> None:
        """Add to the end of a blob, made where it is not there."""
        blob = self.blobs.get((container, path)) or self.put_blob(container, path, b"")
        blob.data += data
        blob.modified, blob.etag = self.now, self.new_etag()

    def settle(self) -> None:
        """Bring everything up to the clock: what was due has happened, logs are as long as they are by now."""
        self.clock.settle()
        now = self.now
        for log in list(self.growing):
            end = min(now, log.until) if log.until else now
            due = int((end - log.since).total_seconds() * log.lines_per_second)
            if due > log.written:
                text = "".join(f"{log.line(index)}\n" for index in range(log.written, due))
                self.append_blob(*log.key, text.encode())
                log.written = due
            if log.until and log.until <= now:
                self.growing.remove(log)


def new_id() -> str:
    """A GUID."""
    return str(uuid.uuid4())
