"""The workspace's writes: checked by raw reads, done by the SDK's process, followed by raw reads again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from footplate import paths
from footplate.azure.deployment_defaults import IMAGE, PACKAGES
from footplate.azure.endpoints import find_deployment, refuse_while_changing
from footplate.azure.following import (
    DEPLOYMENT_VERSION,
    ENDPOINT_VERSION,
    GOING_ON,
    Following,
    deployment_path,
    endpoint_path,
)
from footplate.azure.jobs import output_addresses
from footplate.azure.parts import Parts
from footplate.azure.reading import mapping, text
from footplate.azure.sdk_process import Sdk
from footplate.azure.storage import Storage
from footplate.jobfile import JobFile, kinds
from footplate.jobfile.rules.workspace import MODEL_TYPES
from footplate.workspace.compute import Cluster, ClusterSpec
from footplate.workspace.errors import Conflict, Invalid, NotFound, Unexpected, Unreachable, WorkspaceError
from footplate.workspace.model import Job
from footplate.workspace.names import check_model_name, check_name
from footplate.workspace.serving import Deployment, Endpoint, Model

_LAUNCHED = ("command", "sweep", "pipeline")
_DUE = "it takes all traffic once it is up, if footplate still runs then"


class Writes:
    """The writes of one workspace."""

    def __init__(self, parts: Parts, deployment_size: str, token_env: str = "") -> None:
        """Nothing is started before the first write."""
        self._parts = parts
        self._size = deployment_size
        self._client = parts.client
        self._storage = Storage(parts.client)
        self._closing = asyncio.Event()
        self._following = Following(parts.client)
        self._due: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.sdk = Sdk(parts.client, token_env)

    async def close(self) -> None:
        """End the SDK's process. Traffic that a finished deployment is due is given first."""
        self._closing.set()
        await asyncio.gather(*self._due.values(), return_exceptions=True)
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
        what = f"job {wanted!r}" if wanted else f"a job of {job_file.label}"
        made = await self.sdk.call("submit", what, text=job_file.text, origin=_origin(job_file), name=name)
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

    # Clusters

    async def create_cluster(self, spec: ClusterSpec) -> Cluster:
        """Ask for a cluster and return at once. Raises Invalid, Conflict where the name is taken, QuotaExceeded."""
        tier = await self._parts.clusters.check_spec(spec)
        what = f"cluster {spec.name!r}"
        await self.sdk.call(
            "create_cluster",
            what,
            name=spec.name,
            size=spec.size,
            min_instances=spec.min_nodes,
            max_instances=spec.max_nodes,
            idle_time_before_scale_down=spec.idle_seconds,
            tier=tier,
        )
        return await self._parts.clusters.cluster(spec.name)

    # Models

    async def register(self, name: str, source: str | Path, description: str, output: str | None) -> Model:
        """Register a folder, or what a job wrote, as `Workspace.register` says it.

        Raises NotFound, Invalid, Conflict while the job goes on and where no trial of a sweep is best.
        """
        check_model_name(name)
        path = str(_folder(source)) if isinstance(source, Path) else await self._output(source, output)
        version = await self.sdk.call("register", f"model {name!r}", name=name, path=path, description=description)
        return await self._parts.models.model(f"{name}:{version}")

    async def _output(self, name: str, output: str | None) -> str:
        """The `azureml://jobs` address of what a job wrote."""
        job = await self._parts.jobs.job(name)
        if job.type == "sweep":
            if not job.best_child:
                raise Conflict(
                    f"Sweep {name!r} has no best trial: Azure names none while it is {job.status}.",
                    "Register one of its trials by name.",
                )
            job = await self._parts.jobs.job(job.best_child)
        if job.active:
            raise Conflict(f"Job {job.name!r} has not ended: {job.status}.", "Wait for its end, or cancel it.")
        name = job.name
        root = f"azureml://jobs/{name}/outputs/artifacts/paths/outputs"
        if output in (None, "default"):
            files = await self._storage.files(root)
            if any(file.path == "model/model.json" for file in files) and output is None:
                return f"{root}/model"
            if files:
                return root
        addresses = output_addresses(await self._parts.jobs.record(name))
        named = {key: kind for key, (kind, uri) in addresses.items() if key != "default" and uri}
        if output is not None and output != "default" and output not in addresses:
            raise NotFound(f"Job {name!r} has no output {output!r}.", f"It has {', '.join(['default', *named])}.")
        wanted = list(named) if output is None else [output] if output in named else []
        written = [key for key in wanted if await self._storage.files(addresses[key][1])]
        # Of a job that declares a model, no other output is taken for one unless it is named.
        declared = output is None and any(kind in MODEL_TYPES for kind in named.values())
        models = [key for key in written if named[key] in MODEL_TYPES or not declared]
        if not models:
            raise Invalid(
                f"{f'Output {output!r}' if output else 'Each output'} of job {name!r} is empty: there is nothing to register.",
                "Write the model to ./outputs, or to an output of the job file.",
            )
        if len(models) > 1:
            raise Invalid(
                f"Job {name!r} has written several outputs: {', '.join(models)}.", "Name one of them: --output NAME."
            )
        return f"azureml://jobs/{name}/outputs/{models[0]}/paths/"

    # Endpoints

    async def create_endpoint(self, name: str, description: str) -> Endpoint:
        """Create an endpoint and wait until it is there. Raises Invalid, Conflict, QuotaExceeded."""
        check_name("endpoint", name)
        if await self._found(name) is not None:
            raise Conflict(f"There is already an endpoint {name!r}.", "Use another name, or delete it first.")
        what = f"endpoint {name!r}"
        await self.sdk.call("create_endpoint", what, name=name, description=description)
        await self._following.settled(endpoint_path(name), ENDPOINT_VERSION, what)
        return await self._parts.endpoints.endpoint(name)

    async def create_endpoint_from(self, file: JobFile, name: str | None) -> Endpoint:
        """Create the endpoint of a file, or change it to what the file says, and wait for it. Raises Invalid, Conflict."""
        _check_kind(file, "endpoint")
        wanted = name or text(file.get("name"))
        check_name("endpoint", wanted)
        if (there := await self._found(wanted)) is not None:
            refuse_while_changing(there)
        what = f"endpoint {wanted!r}"
        said = [str(member) for member in file.values]
        await self.sdk.call("create_endpoint_from", what, text=file.text, origin=_origin(file), name=wanted, said=said)
        await self._following.settled(endpoint_path(wanted), ENDPOINT_VERSION, what)
        return await self._parts.endpoints.endpoint(wanted)

    async def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint with its deployments and wait until it is gone. Raises NotFound."""
        what = f"endpoint {name!r}"
        record = mapping(await self._client.get(endpoint_path(name), ENDPOINT_VERSION, what))
        if mapping(record.get("properties")).get("provisioningState") != "Deleting":
            await self.sdk.call("delete_endpoint", what, name=name)
        try:
            await self._following.settled(endpoint_path(name), ENDPOINT_VERSION, what)
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
                size=self._size,
            )
        return await self._started(found, name, traffic)

    async def deploy_from(self, file: JobFile, endpoint: str | None, name: str | None, traffic: bool) -> Deployment:
        """Ask for the deployment of a file, as `deploy` does; names that are given replace the file's."""
        _check_kind(file, "deployment")
        endpoint, name = endpoint or text(file.get("endpoint_name")), name or text(file.get("name"))
        check_name("endpoint", endpoint)
        check_name("deployment", name)
        found = await self._parts.endpoints.endpoint(endpoint)
        refuse_while_changing(found)
        changes: dict[str, object] = {"name": name, "endpoint_name": endpoint}
        there = next((one for one in found.deployments if one.name == name), None)
        if there is not None and there.state in GOING_ON:
            raise Conflict(f"Deployment {name!r} is being changed: it is {there.state}.", "Wait until it is Succeeded.")
        if there is not None and file.get("instance_count") is None:
            changes["instance_count"] = there.instances  # a scaled one stays scaled
        what = f"deployment {name!r} of endpoint {endpoint!r}"
        await self.sdk.call("deploy_from", what, text=file.text, origin=_origin(file), changes=changes)
        return await self._started(found, name, traffic)

    async def _started(self, before: Endpoint, name: str, traffic: bool) -> Deployment:
        """A deployment that was asked for; where it is the endpoint's first, all traffic is given to it when it is up."""
        if traffic and not any(before.traffic.values()) and all(one.name == name for one in before.deployments):
            self._follow(before.name, name)
        return find_deployment(self.shown(await self._parts.endpoints.endpoint(before.name)), name)

    def shown(self, endpoint: Endpoint) -> Endpoint:
        """The same endpoint, where a deployment that is up and not yet given its traffic is Updating; its note tells of it."""
        return replace(endpoint, deployments=tuple(self._shown(endpoint.name, one) for one in endpoint.deployments))

    def _shown(self, endpoint: str, deployment: Deployment) -> Deployment:
        if (endpoint, deployment.name) not in self._due or deployment.state == "Failed":
            return deployment
        state = "Updating" if deployment.state == "Succeeded" else deployment.state
        note = f"{deployment.note}; {_DUE}" if deployment.note else _DUE
        return replace(deployment, state=state, note=note)

    def _follow(self, endpoint: str, name: str) -> None:
        if (endpoint, name) not in self._due:
            task = self._due[endpoint, name] = asyncio.create_task(self._give_traffic(endpoint, name))
            task.add_done_callback(lambda _: self._due.pop((endpoint, name)))

    async def _give_traffic(self, endpoint: str, name: str) -> None:
        """All traffic for a first deployment, once it is up; one that fails, or is left by the console, has none."""
        path, what = deployment_path(endpoint, name), f"deployment {name!r}"
        try:
            state = await self._following.settled(path, DEPLOYMENT_VERSION, what, leave=self._closing)
            if state == "Succeeded":
                await self._following.settled(endpoint_path(endpoint), ENDPOINT_VERSION, f"endpoint {endpoint!r}")
                await self._parts.endpoints.set_traffic(endpoint, {name: 100}, {})
        except WorkspaceError:
            return  # the list shows the deployment without traffic

    async def _found(self, name: str) -> Endpoint | None:
        try:
            return await self._parts.endpoints.endpoint(name)
        except NotFound:
            return None


def _origin(file: JobFile) -> str:
    """The path beside which a file's relative paths lie."""
    return str(file.base / (file.path.name if file.path else "file.yml"))


def _check_kind(file: JobFile, kind: str) -> None:
    """Raises Invalid."""
    if file.kind != kind:
        raise Invalid(
            f"{file.label} is {kinds.TITLES.get(file.kind, 'no file that footplate knows')}, and not {kinds.TITLES[kind]}.",
            f"Name the file of {kinds.TITLES[kind]}.",
        )


def _folder(source: Path) -> Path:
    if not source.is_dir() or not any(source.iterdir()):
        raise Invalid(
            f"{source} is no folder with files in it: there is nothing to register.", "Name the model's folder."
        )
    return source.absolute()
