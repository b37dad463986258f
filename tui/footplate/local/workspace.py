"""The workspace on this machine: the contract, answered by jobs, models, data and endpoints beside this module."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from footplate import paths
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace import (
    Answer,
    Cluster,
    ClusterSpec,
    Contrast,
    DataAsset,
    Datastore,
    Deployment,
    Endpoint,
    Environment,
    Figures,
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
    Size,
    Usage,
    Workspace,
    WorkspaceError,
)

if TYPE_CHECKING:
    from footplate.jobfile import JobFile
    from footplate.local.clusters import Clusters
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
    def _clusters(self) -> Clusters:
        from footplate.local.clusters import Clusters

        return Clusters(self._store, self._settings)

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
        return await asyncio.to_thread(self._clusters.list)

    async def create_cluster(self, spec: ClusterSpec) -> Cluster:
        return await asyncio.to_thread(self._clusters.create, spec)

    async def update_cluster(
        self, name: str, *, min_nodes: int | None = None, max_nodes: int | None = None, idle_seconds: int | None = None
    ) -> Cluster:
        return await asyncio.to_thread(self._clusters.update, name, min_nodes, max_nodes, idle_seconds)

    async def delete_cluster(self, name: str) -> None:
        await asyncio.to_thread(self._clusters.delete, name)

    async def nodes(self, cluster: str) -> Sequence[Node]:
        return await asyncio.to_thread(self._clusters.nodes, cluster)

    async def sizes(self) -> Sequence[Size]:
        return await asyncio.to_thread(self._clusters.sizes)

    async def quota(self) -> Sequence[Quota]:
        return await asyncio.to_thread(self._clusters.quota)

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

    async def children(self, name: str) -> Sequence[Job]:
        return await asyncio.to_thread(self._jobs.children, name)

    async def submit(self, job_file: JobFile, name: str | None = None) -> Job:
        return await asyncio.to_thread(self._jobs.submit, job_file, name)

    async def job_file(self, name: str) -> JobFile:
        return await asyncio.to_thread(self._jobs.job_file, name)

    async def refusal(self, file: JobFile) -> WorkspaceError | None:
        return await asyncio.to_thread(_refusal, file)

    async def contrasts(self, file: JobFile) -> Sequence[Contrast]:
        from footplate.local.differences import contrasts

        return contrasts(file)

    async def cancel(self, name: str, *, force: bool = False) -> Job:
        return await asyncio.to_thread(lambda: self._jobs.cancel(name, force=force))

    async def archive(self, name: str) -> Job:
        return await asyncio.to_thread(self._jobs.set_archived, name, True)

    async def restore(self, name: str) -> Job:
        return await asyncio.to_thread(self._jobs.set_archived, name, False)

    async def update_job(
        self, name: str, *, display_name: str | None = None, tags: Mapping[str, str | None] | None = None
    ) -> Job:
        return await asyncio.to_thread(self._jobs.update, name, display_name, tags or {})

    async def rehearse(self, name: str, act: str) -> str:
        from footplate.local.rehearsals import Rehearsals

        return await asyncio.to_thread(Rehearsals(self._store).act, name, act)

    async def delete_job(self, name: str) -> None:
        await asyncio.to_thread(self._jobs.delete, name)

    async def log_files(self, name: str) -> Sequence[LogFile]:
        return await asyncio.to_thread(self._jobs.log_files, name)

    async def read_log(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        return await asyncio.to_thread(self._jobs.read_log, name, path, offset, limit)

    async def rank_ends(self, name: str) -> Mapping[int, int]:
        return await asyncio.to_thread(self._jobs.rank_ends, name)

    async def usage(self, name: str) -> Usage:
        return await asyncio.to_thread(self._jobs.usage, name)

    async def metrics(self, name: str) -> Mapping[str, Sequence[MetricPoint]]:
        return await asyncio.to_thread(self._jobs.metrics, name)

    async def outputs(self, name: str) -> Sequence[Output]:
        return await asyncio.to_thread(self._jobs.outputs, name)

    async def download(
        self, name: str, output: str, folder: Path, progress: Callable[[int, int | None], None] | None = None
    ) -> int:
        return await asyncio.to_thread(self._jobs.download, name, output, folder, progress)

    async def environments(self) -> Sequence[Environment]:
        return ()

    async def datastores(self) -> Sequence[Datastore]:
        return ()

    async def data_assets(self) -> Sequence[DataAsset]:
        return await asyncio.to_thread(self._data.list)

    async def data_folder(self, reference: str) -> Path | None:
        return await asyncio.to_thread(self._data.folder, reference)

    async def models(self) -> Sequence[Model]:
        return await asyncio.to_thread(self._models.list)

    async def model(self, reference: str) -> Model:
        return await asyncio.to_thread(self._models.model, reference)

    async def register(self, name: str, source: str | Path, description: str = "", output: str | None = None) -> Model:
        return await asyncio.to_thread(self._models.register, name, source, description, output)

    async def download_model(
        self, reference: str, folder: Path, progress: Callable[[int, int | None], None] | None = None
    ) -> int:
        return await asyncio.to_thread(self._models.download, reference, folder, progress)

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

    async def regenerate_key(self, name: str, key: str) -> Keys:
        return await asyncio.to_thread(self._endpoints.regenerate_key, name, key)

    async def set_traffic(
        self, name: str, traffic: Mapping[str, int], if_unchanged: Mapping[str, int] | None = None
    ) -> Endpoint:
        return await asyncio.to_thread(self._endpoints.set_traffic, name, traffic, if_unchanged)

    async def set_mirror(self, name: str, mirror: Mapping[str, int]) -> Endpoint:
        return await asyncio.to_thread(self._endpoints.set_mirror, name, mirror)

    async def create_endpoint_from(self, file: JobFile, name: str | None = None) -> Endpoint:
        return await asyncio.to_thread(self._endpoints.create_from, file, name)

    async def deploy_from(
        self, file: JobFile, *, endpoint: str | None = None, name: str | None = None, traffic: bool = True
    ) -> Deployment:
        return await asyncio.to_thread(self._endpoints.deploy_from, file, endpoint, name, traffic)

    async def scale(self, endpoint: str, name: str, instances: int) -> Deployment:
        return await asyncio.to_thread(self._endpoints.scale, endpoint, name, instances)

    async def delete_deployment(self, endpoint: str, name: str) -> None:
        await asyncio.to_thread(self._endpoints.delete_deployment, endpoint, name)

    async def monitor(self, endpoint: str) -> Sequence[Figures]:
        return await asyncio.to_thread(self._endpoints.monitor, endpoint)

    async def deploy(self, endpoint: str, name: str, model: str, *, traffic: bool = True) -> Deployment:
        return await asyncio.to_thread(self._endpoints.deploy, endpoint, name, model, traffic)

    async def deployment_log(self, endpoint: str, name: str, tail: int, container: str = "inference-server") -> str:
        return await asyncio.to_thread(self._endpoints.log, endpoint, name, tail, container)

    async def invoke(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None = None
    ) -> Answer:
        return await self._endpoints.invoke(endpoint, body, headers, deployment)


def _refusal(file: JobFile) -> WorkspaceError | None:
    """What `submit` would say of a file for what this machine never runs; reads a pipeline's components."""
    from footplate.local.submission import require_runnable

    try:
        require_runnable(file)
        if file.kind == "sweep":
            from footplate.local.sweep.spec import Spec

            Spec.read(file, 0)
        elif file.kind == "pipeline":
            from footplate.local.pipeline.submitting import require_steps

            require_steps(file)
    except WorkspaceError as error:
        return error
    return None
