"""The contract: what the console operates on, whichever workspace stands behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from footplate.workspace.errors import Invalid, NotFound, WorkspaceError

if TYPE_CHECKING:
    from footplate.jobfile import JobFile
    from footplate.workspace.compute import Cluster, ClusterSpec, Node, Quota, Size
    from footplate.workspace.model import (
        Contrast,
        DataAsset,
        Datastore,
        DeviceCode,
        Environment,
        Job,
        JobFilter,
        LogChunk,
        LogFile,
        MetricPoint,
        Output,
        Service,
        Uploading,
        Usage,
    )
    from footplate.workspace.serving import Answer, Deployment, Endpoint, Figures, Keys, Model


REHEARSALS: Mapping[str, str] = {
    "preempt": "take a node away: only outputs stay, the job queues again",
    "kill-rank": "kill the last rank",
    "stop-heartbeat": "stop the last rank, so that it gives no sign of life",
    "resume-heartbeat": "let stopped ranks go on",
    "fill-quota": "have nobody get a free node of the cluster",
    "free-quota": "give the free nodes back",
}
"""What can be rehearsed, and what it does."""


class Workspace(ABC):
    """One workspace. All methods are async, take and return frozen data, and raise `WorkspaceError` and its children.

    `capabilities` maps a method that this workspace cannot do to the reason, which the console gives for the greyed act.
    """

    name: str
    kind: str

    @property
    def capabilities(self) -> Mapping[str, str]:
        """What this workspace, or whoever is signed in, cannot do: read it each time, it grows with `learn_capabilities`."""
        return {}

    async def learn_capabilities(self) -> None:
        """Find out what whoever is signed in may do; before that, nothing is held against them. Raises WorkspaceError."""
        return

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

    @property
    def upload(self) -> Uploading | None:
        """The upload under way of a job's code or a model's files; None where nothing is sent, as always on this machine."""
        return None

    @property
    def deployment_size(self) -> str:
        """The size of machine that `deploy` takes, which costs while it is there; empty on this machine."""
        return ""

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

    async def cluster(self, name: str) -> Cluster:
        """One compute target. Raises NotFound."""
        for found in await self.clusters():
            if found.name == name:
                return found
        raise NotFound(
            f"There is no cluster {name!r} in workspace {self.name!r}.", "The list of clusters has the names."
        )

    @abstractmethod
    async def create_cluster(self, spec: ClusterSpec) -> Cluster:
        """Ask for a cluster and return at once. Raises Invalid (name, size, counts), Conflict (exists), QuotaExceeded."""

    @abstractmethod
    async def update_cluster(
        self, name: str, *, min_nodes: int | None = None, max_nodes: int | None = None, idle_seconds: int | None = None
    ) -> Cluster:
        """Change what is given, and only that. Raises NotFound, Invalid, Conflict while it is being changed, QuotaExceeded."""

    @abstractmethod
    async def delete_cluster(self, name: str) -> None:
        """Ask for its end. Raises NotFound, Conflict while jobs hold its nodes or wait for them."""

    @abstractmethod
    async def nodes(self, cluster: str) -> Sequence[Node]:
        """The nodes that are there now. Raises NotFound, Invalid for a target that tells of no nodes."""

    @abstractmethod
    async def sizes(self) -> Sequence[Size]:
        """The sizes that a cluster can have."""

    @abstractmethod
    async def quota(self) -> Sequence[Quota]:
        """What may be used and what is, by family; those that are used first."""

    # jobs

    @abstractmethod
    def jobs(self, matching: JobFilter) -> AsyncIterator[Sequence[Job]]:
        """Jobs, newest first, in pages, as far as the caller reads on."""

    async def cached_jobs(self) -> tuple[Sequence[Job], datetime | None]:
        """The newest jobs as this machine saw them last, and when that was: asks nobody. Nothing, and None, where none are kept."""
        return (), None

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

    async def refusal(self, file: JobFile) -> WorkspaceError | None:
        """Why `submit` would refuse a file for what it asks for, as far as the file alone tells; None where it may try."""
        return None

    async def contrasts(self, file: JobFile) -> Sequence[Contrast]:
        """What the job or deployment of a file would do otherwise on Azure; nothing where this is Azure."""
        return ()

    @abstractmethod
    async def cancel(self, name: str, *, force: bool = False) -> Job:
        """Ask a job to end; ending twice is no error. Raises NotFound, and Conflict when it has ended otherwise.

        `force` ends the record of a job that is NotResponding because its machine is gone; raises Conflict for another job, and
        Invalid where the service itself sees to that.
        """

    @abstractmethod
    async def archive(self, name: str) -> Job:
        """Hide a job from the lists. Raises NotFound."""

    @abstractmethod
    async def restore(self, name: str) -> Job:
        """Show an archived job in the lists again. Raises NotFound."""

    @abstractmethod
    async def update_job(
        self, name: str, *, display_name: str | None = None, tags: Mapping[str, str | None] | None = None
    ) -> Job:
        """Change the display name, and set or (None) remove the tags that are given. Raises NotFound."""

    async def services(self, name: str) -> Sequence[Service]:
        """What a job serves while it runs. Raises NotFound."""
        await self.job(name)
        return ()

    async def rehearse(self, name: str, act: str) -> str:
        """Do to a job on purpose what befalls jobs on Azure; gives a sentence on what was done.

        `act` is one of REHEARSALS; for those of the quota a cluster can be named too. Raises Invalid where the workspace has
        none or not this one, NotFound, Conflict where there is nothing to do it to.
        """
        raise Invalid("Rehearsals are for the local workspace.", "Launch the job there: its file is the same.")

    @abstractmethod
    async def delete_job(self, name: str) -> None:
        """Remove an ended job and its files. Raises NotFound, Conflict while it runs."""

    @abstractmethod
    async def log_files(self, name: str) -> Sequence[LogFile]:
        """The log files of a job, user logs first, ranks in order."""

    @abstractmethod
    async def read_log(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        """At most `limit` bytes of a log file from `offset`."""

    async def rank_ends(self, name: str) -> Mapping[int, int]:
        """The exit codes of a job's ranks that have ended, by rank; 128 + N for signal N. Raises NotFound.

        Nothing where the workspace does not tell them.
        """
        await self.job(name)
        return {}

    @abstractmethod
    async def metrics(self, name: str) -> Mapping[str, Sequence[MetricPoint]]:
        """All metrics by name, points in step order."""

    async def usage(self, name: str) -> Usage:
        """What the job's ranks used of their machines, sampled beside them. Raises NotFound, Invalid where nobody samples."""
        raise Invalid(self.capabilities.get("usage", f"Workspace {self.name!r} samples no usage of jobs."))

    @abstractmethod
    async def outputs(self, name: str) -> Sequence[Output]:
        """The outputs of a job."""

    @abstractmethod
    async def download(
        self, name: str, output: str, folder: Path, progress: Callable[[int, int | None], None] | None = None
    ) -> int:
        """Copy an output (`default`: the run's `outputs` folder) into a folder of this machine; gives how many files.

        A file is there whole or not at all; one that is there already with the same content is not fetched again (where Azure's
        storage tells no sum of it, with the same size). `progress` gets bytes done and, where it is known, bytes in all. Raises
        NotFound (job, output), Conflict for a file in the way.
        """

    @abstractmethod
    async def data_assets(self) -> Sequence[DataAsset]:
        """The registered data assets."""

    @abstractmethod
    async def environments(self) -> Sequence[Environment]:
        """The newest version of each environment; none on this machine, where jobs run with a Python."""

    @abstractmethod
    async def datastores(self) -> Sequence[Datastore]:
        """Where the workspace keeps data; none on this machine."""

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
    async def register(self, name: str, source: str | Path, description: str = "", output: str | None = None) -> Model:
        """Register a new version from a folder, or from what a job wrote (a job's name; of a sweep its best trial).

        `output` names one of the job's outputs, `default` its `outputs` folder. Without it that is `outputs/model` where it holds a
        `model.json`, else `outputs`, and where that is empty the one named output that is a model, or, of a job that declares no
        model, the only one that holds anything. Raises NotFound (job, output), Invalid (empty, several), Conflict while the job
        goes on.
        """

    @abstractmethod
    async def download_model(
        self, reference: str, folder: Path, progress: Callable[[int, int | None], None] | None = None
    ) -> int:
        """Copy a model's files into a folder, as `download` does an output's. Raises NotFound, Conflict."""

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
    async def regenerate_key(self, name: str, key: str) -> Keys:
        """Make the `primary` or `secondary` key anew: the old one is refused from then on. Raises NotFound, Invalid."""

    @abstractmethod
    async def set_traffic(
        self, name: str, traffic: Mapping[str, int], if_unchanged: Mapping[str, int] | None = None
    ) -> Endpoint:
        """Share out the requests: whole per cents by deployment that sum to 100, or to 0 for none at all.

        With `if_unchanged`, only where the traffic is still that. Raises NotFound, Invalid (sum, unknown or failed
        deployment), Conflict (changed meanwhile, or the endpoint is being changed).
        """

    @abstractmethod
    async def set_mirror(self, name: str, mirror: Mapping[str, int]) -> Endpoint:
        """Send copies of per cent of the requests to one deployment that has no traffic; empty for none.

        Azure's rule: at most one deployment and at most 50 per cent. Raises NotFound, Invalid, Conflict.
        """

    @abstractmethod
    async def create_endpoint_from(self, file: JobFile, name: str | None = None) -> Endpoint:
        """Create an endpoint from its file, or give it what the file says where it exists. Raises Invalid, Conflict."""

    @abstractmethod
    async def deploy_from(
        self, file: JobFile, *, endpoint: str | None = None, name: str | None = None, traffic: bool = True
    ) -> Deployment:
        """Start a deployment from its file, as `deploy` does; names that are given replace the file's.

        A deployment of that name that exists is changed to what the file says. Raises what `deploy` raises.
        """

    @abstractmethod
    async def scale(self, endpoint: str, name: str, instances: int) -> Deployment:
        """Run that many instances of a deployment. Raises NotFound, Invalid, Conflict, QuotaExceeded."""

    @abstractmethod
    async def delete_deployment(self, endpoint: str, name: str) -> None:
        """Delete a deployment. Raises NotFound, Conflict while it has traffic."""

    @abstractmethod
    async def monitor(self, endpoint: str) -> Sequence[Figures]:
        """The last hour's figures of each deployment of an endpoint. Raises NotFound."""

    @abstractmethod
    async def deploy(self, endpoint: str, name: str, model: str, *, traffic: bool = True) -> Deployment:
        """Start a deployment of a model and return at once (state Creating); the first takes all traffic unless told not to.

        Raises NotFound (endpoint, model), Invalid (name), Conflict (a deployment of that name with another model).
        """

    @abstractmethod
    async def deployment_log(self, endpoint: str, name: str, tail: int, container: str = "inference-server") -> str:
        """The last `tail` lines of a deployment's log; the container `storage-initializer` fetches the model before."""

    @abstractmethod
    async def invoke(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None = None
    ) -> Answer:
        """Send one scoring request. The answer's status may be any; raises Unreachable when there is none."""
