"""The workspace on Azure ML: raw reads, and writes through the SDK's own process; what it cannot do yet it says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from footplate.azure import clouds, place
from footplate.settings import AzureSettings, Settings
from footplate.workspace import (
    Answer,
    Cluster,
    DataAsset,
    Deployment,
    DeviceCode,
    Endpoint,
    Invalid,
    Job,
    JobFilter,
    Keys,
    LogChunk,
    LogFile,
    MetricPoint,
    Model,
    Output,
    Workspace,
)

if TYPE_CHECKING:
    from footplate.azure.data import Datastore, Environment
    from footplate.azure.parts import Parts
    from footplate.azure.sdk_process import Upload
    from footplate.azure.sdk_writes import Writes
    from footplate.azure.sign_in import DeviceCodeSource
    from footplate.jobfile import JobFile

_NOT_YET = {
    "job_file": "footplate cannot make a job file of a job on Azure yet.",
    "delete_job": "A job on Azure is archived, not deleted: that hides it, and keeps what it wrote.",
    "delete_model": "A model on Azure is archived, not deleted: that hides it, and keeps its files for what uses it.",
    "demo": "The demo trains on this machine: footplate --workspace local shows and runs it.",
    "start_endpoint": "An endpoint on Azure is never stopped, so it cannot be started.",
}
_THRIFT = ((25, 20.0), (100, 6.0))
"""With so few reads left, so many seconds between two looks: the bucket is refilled meanwhile."""
_NEWEST = 1000
_STEP = "Use Azure ML's studio or az ml for it; footplate shows what comes of it."


class AzureWorkspace(Workspace):
    """Azure's modules are loaded at the first request, in a thread: opening the workspace costs nothing."""

    kind = "azure"
    capabilities: Mapping[str, str] = _NOT_YET

    def __init__(self, name: str, settings: Settings) -> None:
        """Find out which workspace it is. Raises Invalid where the settings do not say, or say it wrongly."""
        self.name = name
        self._settings = settings.azure(name)
        self._cloud = clouds.find(self._settings, name, settings.file.parent)
        self._place = place.find(self._settings, name)
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

    async def sign_in(self, show: Callable[[DeviceCode], None]) -> None:
        """Sign in by device code; from then on this sign-in gives all tokens."""
        parts = await self._parts()
        source = await asyncio.to_thread(_device_code, self._cloud, self._settings.tenant_id, show)
        try:
            await _in_thread(lambda: source.sign_in(self._cloud.scope))
        except BaseException:
            source.close()  # whose next question to the directory then ends the thread
            raise
        await asyncio.to_thread(parts.client.credential.use, source)

    async def _parts(self) -> Parts:
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.create_task(self._load())
            # Its fault is told by whoever waits, and else to nobody: asyncio would write it across the console.
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._loading)

    async def _load(self) -> Parts:
        return await asyncio.to_thread(_make_parts, self._cloud, self._place, self._settings)

    @property
    def _loaded(self) -> Parts | None:
        task = self._loading
        return task.result() if task and task.done() and not task.cancelled() and task.exception() is None else None

    async def _writes(self) -> Writes:
        parts = await self._parts()
        make = await asyncio.to_thread(_load_writes)
        if self._writer is None:
            self._writer = make(parts, self._settings.token_env)
        return self._writer

    @property
    def upload(self) -> Upload | None:
        """The upload under way of a job's code or a model's files."""
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

    # Jobs

    async def jobs(self, matching: JobFilter) -> AsyncIterator[Sequence[Job]]:
        async for page in (await self._parts()).jobs.pages(matching):
            yield page

    async def job(self, name: str) -> Job:
        return await (await self._parts()).jobs.job(name)

    async def children(self, name: str) -> Sequence[Job]:
        return await (await self._parts()).jobs.children(name)

    async def submit(self, job_file: JobFile, name: str | None = None) -> Job:
        return await (await self._writes()).submit(job_file, name)

    async def job_file(self, name: str) -> JobFile:
        _refuse("job_file")

    async def cancel(self, name: str) -> Job:
        return await (await self._parts()).jobs.cancel(name)

    async def archive(self, name: str) -> Job:
        """Hide a job from the lists. Raises NotFound."""
        return await (await self._parts()).jobs.set_archived(name, True)

    async def restore(self, name: str) -> Job:
        """Show an archived job again. Raises NotFound."""
        return await (await self._parts()).jobs.set_archived(name, False)

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

    async def register(self, name: str, source: str | Path, description: str = "") -> Model:
        return await (await self._writes()).register(name, source, description)

    async def delete_model(self, reference: str) -> None:
        _refuse("delete_model")

    # Endpoints

    async def endpoints(self) -> Sequence[Endpoint]:
        return await (await self._parts()).endpoints.list()

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

    async def deploy(self, endpoint: str, name: str, model: str, *, traffic: bool = True) -> Deployment:
        return await (await self._writes()).deploy(endpoint, name, model, traffic)

    async def deployment_log(self, endpoint: str, name: str, tail: int) -> str:
        return await (await self._parts()).endpoints.log(endpoint, name, tail)

    async def invoke(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None = None
    ) -> Answer:
        return await (await self._parts()).endpoints.invoke(endpoint, body, headers, deployment)


def _device_code(cloud: clouds.Cloud, tenant: str, show: Callable[[DeviceCode], None]) -> DeviceCodeSource:
    from footplate.azure.sign_in import DeviceCodeSource  # loads Azure's libraries

    return DeviceCodeSource(cloud, tenant, show)


async def _in_thread(work: Callable[[], None]) -> None:
    """Do what may take a quarter of an hour in a thread that nobody has to wait for when the console is left."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()  # so that the result of one whose caller has gone is no fault

    def run() -> None:
        try:
            work()
            future.set_result(None)
        except BaseException as error:  # noqa: BLE001  handed to whoever waits
            future.set_exception(error)

    threading.Thread(target=run, name="sign-in", daemon=True).start()
    await asyncio.wrap_future(future)


def _make_parts(cloud: clouds.Cloud, where: place.Place, settings: AzureSettings) -> Parts:
    from footplate.azure.parts import make  # loads Azure's libraries

    return make(cloud, where, settings)


def _load_writes() -> type[Writes]:
    from footplate.azure.sdk_writes import Writes

    return Writes


def _refuse(act: str) -> NoReturn:
    raise Invalid(_NOT_YET[act], _STEP)
