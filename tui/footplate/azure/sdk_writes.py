"""The workspace's writes: checked by raw reads, done by the SDK's process, followed by raw reads again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from footplate import paths
from footplate.azure import errors
from footplate.azure.operations import Operation, read_operation
from footplate.azure.parts import Parts
from footplate.azure.reading import mapping, text
from footplate.azure.sdk_process import Sdk
from footplate.azure.storage import Storage
from footplate.jobfile import JobFile, kinds
from footplate.workspace.errors import Conflict, Invalid, NotFound, Unexpected, Unreachable, WorkspaceError
from footplate.workspace.model import Deployment, Endpoint, Job, Model
from footplate.workspace.names import check_name

_ENDPOINT_VERSION = "2022-02-01-preview"
_DEPLOYMENT_VERSION = "2023-04-01-preview"
_GOING_ON = ("Creating", "Updating", "Scaling", "Deleting")
_LAUNCHED = ("command", "sweep", "pipeline")

SIZE = "Standard_DS3_v2"
"""What a deployment runs on: the smallest size that Microsoft recommends for endpoints (documented: the SDK's own warning)."""
IMAGE = "mcr.microsoft.com/azureml/minimal-py312-inference:latest"
PACKAGES: Mapping[str, Any] = {
    "name": "footplate-score",
    "channels": ["conda-forge"],
    "dependencies": [
        "python=3.12",
        "pip",
        {"pip": ["azureml-inference-server-http>=1.5", "numpy>=2.0", "onnxruntime>=1.23", "pillow>=11.0"]},
    ],
}
"""What `score/` needs to run an exported model."""


class Writes:
    """The writes of one workspace."""

    def __init__(self, parts: Parts, token_env: str = "") -> None:
        """Nothing is started before the first write."""
        self._parts = parts
        self._client = parts.client
        self._storage = Storage(parts.client)
        self._closing = asyncio.Event()
        self._following: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.sdk = Sdk(parts.client, token_env)

    async def close(self) -> None:
        """End the SDK's process. Traffic that a finished deployment is due is given first."""
        self._closing.set()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        await self.sdk.close()

    # Jobs

    async def submit(self, job_file: JobFile, name: str | None) -> Job:
        """Start a job of the file's text as it is. Raises Invalid, Conflict, QuotaExceeded."""
        if job_file.kind not in _LAUNCHED:
            raise Invalid(
                f"{job_file.label} is {kinds.TITLES.get(job_file.kind, 'no job')}, which is not launched.",
                "Command, sweep and pipeline jobs are.",
            )
        if job_file.compute == "local":
            raise Invalid(
                f"{job_file.label} names compute `local`, which is this machine and no cluster on Azure.",
                "Name a cluster, or none for a serverless job.",
            )
        wanted = name or job_file.name
        if wanted and await self._is_there(wanted):  # the service would change the job that is there
            raise Conflict(f"There is a job {wanted!r} already.", "Give another name, or none to have one made.")
        origin = job_file.base / (job_file.path.name if job_file.path else "job.yml")
        what = f"job {wanted!r}" if wanted else f"a job of {job_file.label}"
        made = await self.sdk.call("submit", what, text=job_file.text, origin=str(origin), name=name)
        try:
            return await self._parts.jobs.job(made)
        except WorkspaceError as error:
            raise Unreachable(
                f"Job {made!r} was started, but cannot be read: {error.sentence}",
                "Look at the list before it is launched again.",
                error.raw,
            ) from error

    async def _is_there(self, name: str) -> bool:
        try:
            await self._parts.jobs.record(name)
        except NotFound:
            return False
        return True

    # Models

    async def register(self, name: str, source: str | Path, description: str) -> Model:
        """Register a folder, or what a job wrote: `outputs/model` with a `model.json`, else all its outputs.

        Of a sweep it is the best trial's. Raises NotFound, Invalid, Conflict while the job goes on.
        """
        path = str(_folder(source)) if isinstance(source, Path) else await self._output(source)
        version = await self.sdk.call("register", f"model {name!r}", name=name, path=path, description=description)
        return await self._parts.models.model(f"{name}:{version}")

    async def _output(self, name: str) -> str:
        job = await self._parts.jobs.job(name)
        if job.active:
            raise Conflict(f"Job {name!r} has not ended: {job.status}.", "Wait for its end, or cancel it.")
        if job.type == "sweep":
            name = getattr(job, "best_child", None) or ""
            if not name:
                raise Invalid(f"Sweep {job.name!r} has no best trial.", "Name one of its trials.")
        root = f"azureml://jobs/{name}/outputs/artifacts/paths/outputs"
        files = await self._storage.files(root)
        if not files:
            raise Invalid(
                f"The outputs of job {name!r} are empty: there is nothing to register.",
                "Write the model to ./outputs, or name its folder.",
            )
        return f"{root}/model" if any(file.path == "model/model.json" for file in files) else root

    # Endpoints

    async def create_endpoint(self, name: str, description: str) -> Endpoint:
        """Create an endpoint and wait until it is there. Raises Invalid, Conflict, QuotaExceeded."""
        check_name("endpoint", name)
        if await self._found(name) is not None:
            raise Conflict(f"There is already an endpoint {name!r}.", "Use another name, or delete it first.")
        what = f"endpoint {name!r}"
        await self.sdk.call("create_endpoint", what, name=name, description=description)
        await self._settled(_path(name), _ENDPOINT_VERSION, what)
        return await self._parts.endpoints.endpoint(name)

    async def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint with its deployments and wait until it is gone. Raises NotFound."""
        what = f"endpoint {name!r}"
        record = mapping(await self._client.get(_path(name), _ENDPOINT_VERSION, what))
        if mapping(record.get("properties")).get("provisioningState") != "Deleting":
            await self.sdk.call("delete_endpoint", what, name=name)
        try:
            await self._settled(_path(name), _ENDPOINT_VERSION, what)
        except NotFound:
            return
        raise Unexpected(f"E{what[1:]} is there still, though its deletion has ended.", "Look at it, then try again.")

    async def deploy(self, endpoint: str, name: str, model: str, traffic: bool) -> Deployment:
        """Ask for a deployment; the first takes all traffic when it is ready. Raises NotFound, Invalid, Conflict."""
        check_name("deployment", name)
        reference = (await self._parts.models.model(model)).reference
        found = await self._parts.endpoints.endpoint(endpoint)
        there = next((one for one in found.deployments if one.name == name), None)
        if there is not None and there.model != reference:
            raise Conflict(
                f"Endpoint {endpoint!r} already has a deployment {name!r}, with model {there.model}.",
                "Delete it, or use another name.",
            )
        if there is None or there.state == "Failed":
            await self.sdk.call(
                "deploy",
                f"deployment {name!r} of endpoint {endpoint!r}",
                endpoint=endpoint,
                name=name,
                model=reference,
                code=str(paths.asset("score")),
                image=IMAGE,
                packages=PACKAGES,
                size=SIZE,
            )
        if traffic and not any(found.traffic.values()) and all(one.name == name for one in found.deployments):
            self._follow(endpoint, name)
        after = self.shown(await self._parts.endpoints.endpoint(endpoint))
        for deployment in after.deployments:
            if deployment.name == name:
                return deployment
        raise NotFound(f"Deployment {name!r} of endpoint {endpoint!r} was deleted meanwhile.")

    def shown(self, endpoint: Endpoint) -> Endpoint:
        """The same endpoint, where a deployment that is up and not yet given its traffic is Updating."""
        return replace(
            endpoint,
            deployments=tuple(
                replace(one, state="Updating")
                if one.state == "Succeeded" and (endpoint.name, one.name) in self._following
                else one
                for one in endpoint.deployments
            ),
        )

    def _follow(self, endpoint: str, name: str) -> None:
        if (endpoint, name) not in self._following:
            task = self._following[endpoint, name] = asyncio.create_task(self._give_traffic(endpoint, name))
            task.add_done_callback(lambda _: self._following.pop((endpoint, name)))

    async def _give_traffic(self, endpoint: str, name: str) -> None:
        """All traffic for a first deployment, once it is up; one that fails, or is left by the console, has none."""
        path = f"{_path(endpoint)}/deployments/{quote(name, safe='')}"
        try:
            state = await self._settled(path, _DEPLOYMENT_VERSION, f"deployment {name!r}", leave=True)
            if state == "Succeeded":
                await self.sdk.call("give_all_traffic", f"endpoint {endpoint!r}", name=endpoint, deployment=name)
                await self._settled(_path(endpoint), _ENDPOINT_VERSION, f"endpoint {endpoint!r}")
        except WorkspaceError:
            return  # the list shows the deployment without traffic

    async def _found(self, name: str) -> Endpoint | None:
        try:
            return await self._parts.endpoints.endpoint(name)
        except NotFound:
            return None

    # Following

    async def _settled(self, path: str, version: str, what: str, *, leave: bool = False) -> str:
        """Read a resource until nothing goes on with it; gives its state. Raises what its operation failed with, NotFound.

        With `leave` a workspace that is being closed ends the wait.
        """
        for seconds in _pauses():
            properties = mapping(mapping(await self._client.get(path, version, what)).get("properties"))
            state = text(properties.get("provisioningState"))
            address = text(mapping(properties.get("properties")).get("AzureAsyncOperationUri"))
            if state not in _GOING_ON:
                if state == "Failed":
                    raise _failed(await self._operation(address, what), what)
                return state
            if leave and self._closing.is_set():
                return state
            await self._operation(address, what)
            if leave:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), seconds)
            else:
                await asyncio.sleep(seconds)
        raise AssertionError("the pauses never end")

    async def _operation(self, address: str, what: str) -> Operation | None:
        """What the service says of the operation that a resource names; None where it names none of this subscription."""
        parts = urlsplit(address)
        start = self._client.place.subscription_path
        versions = parse_qs(parts.query).get("api-version")
        if not versions or not parts.path.lower().startswith(f"{start}/".lower()):
            return None
        try:
            return read_operation(await self._client.subscription(parts.path[len(start) :], versions[0], what))
        except NotFound:  # forgotten by the service: the resource itself says how it ended
            return None


def _pauses() -> Iterator[float]:
    """Seconds between looks: short at first, then five."""
    return itertools.chain((0.2, 0.5, 1.0, 2.0), itertools.repeat(5.0))


def _failed(operation: Operation | None, what: str) -> WorkspaceError:
    said = operation.error if operation else ""
    if "quota" in said.lower():
        return errors.quota(said, said)
    return Unexpected(
        f"{what[:1].upper()}{what[1:]} failed: {said or 'Azure gives no reason.'}", "Mend it, then try again."
    )


def _folder(source: Path) -> Path:
    if not source.is_dir() or not any(source.iterdir()):
        raise Invalid(
            f"{source} is no folder with files in it: there is nothing to register.", "Name the model's folder."
        )
    return source.absolute()


def _path(name: str) -> str:
    return f"/onlineEndpoints/{quote(name, safe='')}"
