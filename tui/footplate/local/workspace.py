"""The workspace on this machine: the contract, answered by jobs, models, data and endpoints beside this module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from footplate import paths
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace import (
    Answer,
    Cluster,
    DataAsset,
    Deployment,
    Endpoint,
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
    from footplate.jobfile import JobFile
    from footplate.local.data import DataAssets
    from footplate.local.endpoints import Endpoints
    from footplate.local.jobs import Jobs
    from footplate.local.models import Models

_PAGE = 1000


class LocalWorkspace(Workspace):
    """Blocking work (SQLite, files, processes) runs in threads, so that no caller's loop waits."""

    kind = "local"
    capabilities: Mapping[str, str] = {}

    def __init__(self, name: str, settings: Settings) -> None:
        """Open the store under the home folder. Raises Unexpected where the home cannot be used."""
        self.name = name
        self._settings = settings
        self._store = Store(paths.home())
        self._store.prepare()

    # Each part is loaded when it is first asked for: the first list needs the jobs alone.

    @cached_property
    def _data(self) -> DataAssets:
        from footplate.local.data import DataAssets

        return DataAssets(self._store)

    @cached_property
    def _jobs(self) -> Jobs:
        from footplate.local.jobs import Jobs

        return Jobs(self._store, self._settings, self._data)

    @cached_property
    def _models(self) -> Models:
        from footplate.local.models import Models

        return Models(self._store)

    @cached_property
    def _endpoints(self) -> Endpoints:
        from footplate.local.endpoints import Endpoints

        return Endpoints(self._store, self._settings)

    async def close(self) -> None:
        if "_endpoints" in vars(self):
            await self._endpoints.close()

    async def clusters(self) -> Sequence[Cluster]:
        return await asyncio.to_thread(self._jobs.clusters)

    async def jobs(self, matching: JobFilter) -> AsyncIterator[Sequence[Job]]:
        before: float | None = None
        while True:
            page, before = await asyncio.to_thread(self._jobs.page, matching, before, _PAGE)
            if page:
                yield page
            if before is None:
                return

    async def job(self, name: str) -> Job:
        return await asyncio.to_thread(self._jobs.job, name)

    async def submit(self, job_file: JobFile, name: str | None = None) -> Job:
        return await asyncio.to_thread(self._jobs.submit, job_file, name)

    async def job_file(self, name: str) -> JobFile:
        return await asyncio.to_thread(self._jobs.job_file, name)

    async def cancel(self, name: str) -> Job:
        return await asyncio.to_thread(self._jobs.cancel, name)

    async def delete_job(self, name: str) -> None:
        await asyncio.to_thread(self._jobs.delete, name)

    async def log_files(self, name: str) -> Sequence[LogFile]:
        return await asyncio.to_thread(self._jobs.log_files, name)

    async def read_log(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        return await asyncio.to_thread(self._jobs.read_log, name, path, offset, limit)

    async def metrics(self, name: str) -> Mapping[str, Sequence[MetricPoint]]:
        return await asyncio.to_thread(self._jobs.metrics, name)

    async def outputs(self, name: str) -> Sequence[Output]:
        return await asyncio.to_thread(self._jobs.outputs, name)

    async def data_assets(self) -> Sequence[DataAsset]:
        return await asyncio.to_thread(self._data.list)

    async def data_folder(self, reference: str) -> Path | None:
        return await asyncio.to_thread(self._data.folder, reference)

    async def models(self) -> Sequence[Model]:
        return await asyncio.to_thread(self._models.list)

    async def model(self, reference: str) -> Model:
        return await asyncio.to_thread(self._models.model, reference)

    async def register(self, name: str, source: str | Path, description: str = "") -> Model:
        return await asyncio.to_thread(self._models.register, name, source, description)

    async def delete_model(self, reference: str) -> None:
        await asyncio.to_thread(self._models.delete, reference)

    async def endpoints(self) -> Sequence[Endpoint]:
        return await asyncio.to_thread(self._endpoints.list)

    async def endpoint(self, name: str) -> Endpoint:
        return await asyncio.to_thread(self._endpoints.endpoint, name)

    async def create_endpoint(self, name: str, description: str = "") -> Endpoint:
        return await asyncio.to_thread(self._endpoints.create, name, description)

    async def start_endpoint(self, name: str) -> Endpoint:
        return await asyncio.to_thread(self._endpoints.start, name)

    async def delete_endpoint(self, name: str) -> None:
        await asyncio.to_thread(self._endpoints.delete, name)

    async def keys(self, name: str) -> Keys:
        return await asyncio.to_thread(self._endpoints.keys, name)

    async def deploy(self, endpoint: str, name: str, model: str, *, traffic: bool = True) -> Deployment:
        return await asyncio.to_thread(self._endpoints.deploy, endpoint, name, model, traffic)

    async def deployment_log(self, endpoint: str, name: str, tail: int) -> str:
        return await asyncio.to_thread(self._endpoints.log, endpoint, name, tail)

    async def invoke(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None = None
    ) -> Answer:
        return await self._endpoints.invoke(endpoint, body, headers, deployment)
