"""The contract: what the console operates on, whichever workspace stands behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.workspace.errors import Invalid

if TYPE_CHECKING:
    from footplate.jobfile import JobFile
    from footplate.workspace.model import (
        Answer,
        Cluster,
        DataAsset,
        Deployment,
        DeviceCode,
        Endpoint,
        Job,
        JobFilter,
        Keys,
        LogChunk,
        LogFile,
        MetricPoint,
        Model,
        Output,
    )


class Workspace(ABC):
    """One workspace. All methods are async, take and return frozen data, and raise `WorkspaceError` and its children.

    `capabilities` maps a method that this workspace cannot do to the reason, which the console gives for the greyed act.
    """

    name: str
    kind: str
    capabilities: Mapping[str, str]

    @property
    def read_only(self) -> bool:
        """Whether every change is refused with NotAllowed, by the settings or by `--read-only`."""
        return False

    # how it is reached, which on this machine needs neither sign-in nor thrift

    @property
    def poll_seconds(self) -> float:
        """Seconds between two looks at the same thing."""
        return 0.25

    @property
    def newest_jobs(self) -> int | None:
        """How many jobs a list asks for, the newest; None for all."""
        return None

    @property
    def place(self) -> str:
        """Where it is, as the header says it."""
        return self.kind.upper()

    @property
    def signed_in_by(self) -> str:
        """Which sign-in gives the tokens, once one did; empty where none is needed."""
        return ""

    @property
    def reads_left(self) -> int | None:
        """Requests that may still be sent before the service holds them back, where it says so."""
        return None

    async def sign_in(self, show: Callable[[DeviceCode], None]) -> None:
        """Sign in by a code that is typed into a browser: `show` gets it, in a thread; returns when it was typed in.

        When it is cancelled, the code leads to nothing any more. Raises NotSignedIn.
        """
        raise Invalid(f"Workspace {self.name!r} needs no sign-in.")

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections; jobs and endpoints go on."""

    # clusters

    @abstractmethod
    async def clusters(self) -> Sequence[Cluster]:
        """All compute targets, by name."""

    # jobs

    @abstractmethod
    def jobs(self, matching: JobFilter) -> AsyncIterator[Sequence[Job]]:
        """Jobs, newest first, in pages, as far as the caller reads on."""

    @abstractmethod
    async def job(self, name: str) -> Job:
        """One job. Raises NotFound."""

    async def children(self, name: str) -> Sequence[Job]:
        """The trials of a sweep or the steps of a pipeline. Raises NotFound."""
        await self.job(name)
        return ()

    @abstractmethod
    async def submit(self, job_file: JobFile, name: str | None = None) -> Job:
        """Start a job from a job file. Raises Invalid before anything is written, QuotaExceeded, Conflict on the name."""

    @abstractmethod
    async def job_file(self, name: str) -> JobFile:
        """The file that a job was submitted with, whose relative paths mean what they meant then.

        Where its code folder is gone, `code` leads to the copy that the workspace kept. Raises NotFound.
        """

    @abstractmethod
    async def cancel(self, name: str) -> Job:
        """Ask a job to end; ending twice is no error. Raises NotFound, and Conflict when it has ended otherwise."""

    @abstractmethod
    async def delete_job(self, name: str) -> None:
        """Remove an ended job and its files. Raises NotFound, Conflict while it runs."""

    @abstractmethod
    async def log_files(self, name: str) -> Sequence[LogFile]:
        """The log files of a job, user logs first, ranks in order."""

    @abstractmethod
    async def read_log(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        """At most `limit` bytes of a log file from `offset`."""

    @abstractmethod
    async def metrics(self, name: str) -> Mapping[str, Sequence[MetricPoint]]:
        """All metrics by name, points in step order."""

    @abstractmethod
    async def outputs(self, name: str) -> Sequence[Output]:
        """The outputs of a job."""

    @abstractmethod
    async def data_assets(self) -> Sequence[DataAsset]:
        """The registered data assets."""

    @abstractmethod
    async def data_folder(self, reference: str) -> Path | None:
        """Where a data asset's files lie on this machine, if they do. Raises NotFound."""

    # models

    @abstractmethod
    async def models(self) -> Sequence[Model]:
        """All model versions, newest first."""

    @abstractmethod
    async def model(self, reference: str) -> Model:
        """One model: `name:version`, `name@latest` or a bare name for the newest. Raises NotFound."""

    @abstractmethod
    async def register(self, name: str, source: str | Path, description: str = "") -> Model:
        """Register a new version from a job's output (a job's name) or a folder. Raises NotFound, Invalid, Conflict."""

    @abstractmethod
    async def delete_model(self, reference: str) -> None:
        """Remove a version. Raises NotFound, Conflict while a deployment uses it."""

    # endpoints

    @abstractmethod
    async def endpoints(self) -> Sequence[Endpoint]:
        """All online endpoints with their deployments."""

    @abstractmethod
    async def endpoint(self, name: str) -> Endpoint:
        """One endpoint. Raises NotFound."""

    @abstractmethod
    async def create_endpoint(self, name: str, description: str = "") -> Endpoint:
        """Create an endpoint without a deployment. Raises Invalid (name), Conflict (exists)."""

    @abstractmethod
    async def start_endpoint(self, name: str) -> Endpoint:
        """Start an endpoint that is Stopped; does nothing to a running one."""

    @abstractmethod
    async def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint and its deployments; works after a crash too. Raises NotFound."""

    @abstractmethod
    async def keys(self, name: str) -> Keys:
        """The keys of an endpoint."""

    @abstractmethod
    async def deploy(self, endpoint: str, name: str, model: str, *, traffic: bool = True) -> Deployment:
        """Start a deployment of a model and return at once (state Creating); the first takes all traffic unless told not to.

        Raises NotFound (endpoint, model), Invalid (name), Conflict (a deployment of that name with another model).
        """

    @abstractmethod
    async def deployment_log(self, endpoint: str, name: str, tail: int) -> str:
        """The last `tail` lines of a deployment's log."""

    @abstractmethod
    async def invoke(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None = None
    ) -> Answer:
        """Send one scoring request. The answer's status may be any; raises Unreachable when there is none."""
