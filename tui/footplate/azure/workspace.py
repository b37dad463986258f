"""The workspace on Azure ML: raw reads, and writes through the SDK's own process; what it cannot do yet it says."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from footplate import paths
from footplate.azure import clouds, place
from footplate.azure.by_code import sign_in_by_code
from footplate.azure.index import Index, index_file
from footplate.settings import AzureSettings, Settings
from footplate.workspace import (
    Answer,
    Cluster,
    ClusterSpec,
    DataAsset,
    Datastore,
    Deployment,
    DeviceCode,
    Endpoint,
    Environment,
    Figures,
    Invalid,
    Job,
    JobFilter,
    Keys,
    LogChunk,
    LogFile,
    MetricPoint,
    Model,
    Node,
    Output,
    Quota,
    Service,
    Size,
    Uploading,
    Workspace,
)

if TYPE_CHECKING:
    from footplate.azure.job_files import JobFiles
    from footplate.azure.parts import Parts
    from footplate.azure.sdk_writes import Writes
    from footplate.jobfile import JobFile

_NOT_YET = {
    "delete_job": "A job on Azure is archived, not deleted: that hides it, and keeps what it wrote.",
    "delete_model": "A model on Azure is archived, not deleted: that hides it, and keeps its files for what uses it.",
    "demo": "The demo trains on this machine: footplate --workspace local shows and runs it.",
    "rehearse": "Rehearsals are for the local workspace.",
    "start_endpoint": "An endpoint on Azure is never stopped, so it cannot be started.",
    "usage": (
        "On Azure nobody samples a job for footplate: what the script logs by mlflow.enable_system_metrics_logging() "
        "is shown here."
    ),
}
_THRIFT = ((25, 20.0), (100, 6.0))
"""With so few reads left, so many seconds between two looks: the bucket is refilled meanwhile."""
_NEWEST = 1000
_STEP = "Use Azure ML's studio or az ml for it; footplate shows what comes of it."


class AzureWorkspace(Workspace):
    """Azure's modules are loaded at the first request, in a thread: opening the workspace costs nothing."""

    kind = "azure"

    def __init__(self, name: str, settings: Settings) -> None:
        """Find out which workspace it is. Raises Invalid where the settings do not say, or say it wrongly."""
        self.name = name
        self._settings = settings.azure(name)
        self._cloud = clouds.find(self._settings, name, settings.file.parent)
        self._place = place.find(self._settings, name)
        self._index = Index(index_file(paths.cache() / "azure", self._cloud.resource_manager, self._place.path))
        self._loading: asyncio.Task[Parts] | None = None
        self._writer: Writes | None = None

    # Signing in, and what the header shows

    @property
    def poll_seconds(self) -> float:
        left = self.reads_left
        return next((seconds for few, seconds in _THRIFT if left is not None and left < few), 2.0)

    @property
    def newest_jobs(self) -> int | None:
        return _NEWEST

    @property
    def place(self) -> str:
        """`AZURE`, with the region as soon as something told it."""
        parts = self._loaded
        return f"AZURE {parts.client.region}".rstrip() if parts else "AZURE"

    @property
    def signed_in_by(self) -> str:
        parts = self._loaded
        return parts.client.credential.name if parts and parts.client.credential.gave else ""

    @property
    def reads_left(self) -> int | None:
        """What the resource manager said last of the reads that are left; None before it said anything."""
        parts = self._loaded
        return parts.client.reads_left if parts else None

    @property
    def capabilities(self) -> Mapping[str, str]:
        parts = self._loaded
        return {**parts.permissions.lacking, **_NOT_YET} if parts else _NOT_YET

    async def learn_capabilities(self) -> None:
        await (await self._parts()).permissions.ask()

    async def sign_in(self, show: Callable[[DeviceCode], None]) -> None:
        """Sign in by device code; from then on this sign-in gives all tokens."""
        parts = await self._parts()
        await sign_in_by_code(parts.client.credential, self._cloud, self._settings, show)

    async def _parts(self) -> Parts:
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(self._load())
            # Its fault is told by whoever waits, and else to nobody: asyncio would write it across the console.
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._loading)

    async def _load(self) -> Parts:
        return await asyncio.to_thread(_make_parts, self._cloud, self._place, self._settings, self._index)

    @property
    def _loaded(self) -> Parts | None:
        task = self._loading
        return task.result() if task and task.done() and not task.cancelled() and task.exception() is None else None

    async def _writes(self) -> Writes:
        parts = await self._parts()
        make = await asyncio.to_thread(_load_writes)
        if self._writer is None:
            self._writer = make(parts, self.deployment_size, self._settings.token_env)
        return self._writer

    @property
    def deployment_size(self) -> str:
        from footplate.azure.deployment_defaults import SIZE

        return self._settings.deployment_size or SIZE

    @property
    def upload(self) -> Uploading | None:
        return self._writer.sdk.upload if self._writer else None

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        if self._loading is not None:
            if parts := self._loaded:
                await parts.client.close()
            else:
                self._loading.cancel()

    # Clusters

    async def clusters(self) -> Sequence[Cluster]:
        return await (await self._parts()).clusters.list()

    async def cluster(self, name: str) -> Cluster:
        return await (await self._parts()).clusters.cluster(name)

    async def create_cluster(self, spec: ClusterSpec) -> Cluster:
        return await (await self._writes()).create_cluster(spec)

    async def update_cluster(
        self, name: str, *, min_nodes: int | None = None, max_nodes: int | None = None, idle_seconds: int | None = None
    ) -> Cluster:
        return await (await self._parts()).clusters.update(name, min_nodes, max_nodes, idle_seconds)

    async def delete_cluster(self, name: str) -> None:
        await (await self._parts()).clusters.delete(name)

    async def nodes(self, cluster: str) -> Sequence[Node]:
        return await (await self._parts()).clusters.nodes(cluster)

    async def sizes(self) -> Sequence[Size]:
        return await (await self._parts()).clusters.sizes()

    async def quota(self) -> Sequence[Quota]:
        return await (await self._parts()).clusters.quota()

    # Jobs

    async def jobs(self, matching: JobFilter) -> AsyncIterator[Sequence[Job]]:
        async for page in (await self._parts()).known_jobs.pages(matching):
            yield page

    async def cached_jobs(self) -> tuple[Sequence[Job], datetime | None]:
        return await asyncio.to_thread(self._index.newest, _NEWEST)

    async def job(self, name: str) -> Job:
        return await (await self._parts()).jobs.job(name)

    async def children(self, name: str) -> Sequence[Job]:
        return await (await self._parts()).jobs.children(name)

    async def submit(self, job_file: JobFile, name: str | None = None) -> Job:
        return await (await self._writes()).submit(job_file, name)

    async def job_file(self, name: str) -> JobFile:
        parts = await self._parts()
        make = await asyncio.to_thread(_load_job_files)
        return await make(parts.jobs, parts.client.place).job_file(name)

    async def cancel(self, name: str, *, force: bool = False) -> Job:
        if force:
            raise Invalid("Azure itself ends a job whose node is gone.", "Cancel it without --force.")
        return await (await self._parts()).jobs.cancel(name)

    async def archive(self, name: str) -> Job:
        """Hide a job from the lists. Raises NotFound."""
        archived = await (await self._parts()).jobs.set_archived(name, True)
        await asyncio.to_thread(self._index.drop, name)
        return archived

    async def restore(self, name: str) -> Job:
        """Show an archived job again. Raises NotFound."""
        restored = await (await self._parts()).jobs.set_archived(name, False)
        await asyncio.to_thread(self._index.distrust)
        return restored

    async def update_job(
        self, name: str, *, display_name: str | None = None, tags: Mapping[str, str | None] | None = None
    ) -> Job:
        updated = await (await self._parts()).jobs.update(name, display_name, tags or {})
        await asyncio.to_thread(self._index.distrust)  # it may stand far down the list
        return updated

    async def services(self, name: str) -> Sequence[Service]:
        return await (await self._parts()).jobs.services(name)

    async def delete_job(self, name: str) -> None:
        _refuse("delete_job")

    async def log_files(self, name: str) -> Sequence[LogFile]:
        return await (await self._parts()).logs.files(name)

    async def read_log(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        return await (await self._parts()).logs.read(name, path, offset, limit)

    async def metrics(self, name: str) -> Mapping[str, Sequence[MetricPoint]]:
        parts = await self._parts()
        found = await parts.metrics.read(name)
        if found is None:
            await parts.jobs.record(name)  # no run: is there such a job at all?
        return found or {}

    async def outputs(self, name: str) -> Sequence[Output]:
        return await (await self._parts()).jobs.outputs(name)

    async def download(
        self, name: str, output: str, folder: Path, progress: Callable[[int, int | None], None] | None = None
    ) -> int:
        return await (await self._parts()).downloads.output(name, output, folder, progress)

    # What jobs name

    async def data_assets(self) -> Sequence[DataAsset]:
        return await (await self._parts()).data.assets()

    async def data_folder(self, reference: str) -> Path | None:
        await (await self._parts()).data.check(reference)
        return None  # it lies in Azure's storage

    async def environments(self) -> Sequence[Environment]:
        """The newest version of each environment."""
        return await (await self._parts()).data.environments()

    async def datastores(self) -> Sequence[Datastore]:
        """The datastores."""
        return await (await self._parts()).data.datastores()

    # Models

    async def models(self) -> Sequence[Model]:
        return await (await self._parts()).models.list()

    async def model(self, reference: str) -> Model:
        return await (await self._parts()).models.model(reference)

    async def register(self, name: str, source: str | Path, description: str = "", output: str | None = None) -> Model:
        return await (await self._writes()).register(name, source, description, output)

    async def download_model(
        self, reference: str, folder: Path, progress: Callable[[int, int | None], None] | None = None
    ) -> int:
        return await (await self._parts()).downloads.model(reference, folder, progress)

    async def delete_model(self, reference: str) -> None:
        _refuse("delete_model")

    # Endpoints

    async def endpoints(self) -> Sequence[Endpoint]:
        found = await (await self._parts()).endpoints.list()
        return [self._writer.shown(one) for one in found] if self._writer else found

    async def endpoint(self, name: str) -> Endpoint:
        found = await (await self._parts()).endpoints.endpoint(name)
        return self._writer.shown(found) if self._writer else found

    async def create_endpoint(self, name: str, description: str = "") -> Endpoint:
        return await (await self._writes()).create_endpoint(name, description)

    async def start_endpoint(self, name: str) -> Endpoint:
        _refuse("start_endpoint")

    async def delete_endpoint(self, name: str) -> None:
        await (await self._writes()).delete_endpoint(name)

    async def keys(self, name: str) -> Keys:
        return await (await self._parts()).endpoints.keys(name)

    async def regenerate_key(self, name: str, key: str) -> Keys:
        return await (await self._parts()).endpoints.regenerate_key(name, key)

    async def set_traffic(
        self, name: str, traffic: Mapping[str, int], if_unchanged: Mapping[str, int] | None = None
    ) -> Endpoint:
        return await (await self._parts()).endpoints.set_traffic(name, traffic, if_unchanged)

    async def set_mirror(self, name: str, mirror: Mapping[str, int]) -> Endpoint:
        return await (await self._parts()).endpoints.set_mirror(name, mirror)

    async def create_endpoint_from(self, file: JobFile, name: str | None = None) -> Endpoint:
        return await (await self._writes()).create_endpoint_from(file, name)

    async def deploy_from(
        self, file: JobFile, *, endpoint: str | None = None, name: str | None = None, traffic: bool = True
    ) -> Deployment:
        return await (await self._writes()).deploy_from(file, endpoint, name, traffic)

    async def scale(self, endpoint: str, name: str, instances: int) -> Deployment:
        return await (await self._parts()).endpoints.scale(endpoint, name, instances)

    async def delete_deployment(self, endpoint: str, name: str) -> None:
        await (await self._parts()).endpoints.delete_deployment(endpoint, name)

    async def monitor(self, endpoint: str) -> Sequence[Figures]:
        return await (await self._parts()).monitor.figures(endpoint)

    async def deploy(self, endpoint: str, name: str, model: str, *, traffic: bool = True) -> Deployment:
        return await (await self._writes()).deploy(endpoint, name, model, traffic)

    async def deployment_log(self, endpoint: str, name: str, tail: int, container: str = "inference-server") -> str:
        return await (await self._parts()).endpoints.log(endpoint, name, tail, container)

    async def invoke(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None = None
    ) -> Answer:
        return await (await self._parts()).endpoints.invoke(endpoint, body, headers, deployment)


def _make_parts(cloud: clouds.Cloud, where: place.Place, settings: AzureSettings, index: Index) -> Parts:
    from footplate.azure.parts import make  # loads Azure's libraries

    # They stay as long as the process: looking through them for garbage again and again would hold up keys, 25 ms each time.
    gc.freeze()
    return make(cloud, where, settings, index)


def _load_writes() -> type[Writes]:
    from footplate.azure.sdk_writes import Writes

    return Writes


def _load_job_files() -> type[JobFiles]:
    from footplate.azure.job_files import JobFiles  # reads and writes YAML, which nothing else here does

    return JobFiles


def _refuse(act: str) -> NoReturn:
    raise Invalid(_NOT_YET[act], _STEP)
