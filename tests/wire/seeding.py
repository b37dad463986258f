"""What a workspace holds from the start, and helpers to fill it with more."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tests.wire import assets, computes, datastores, deployments, endpoints, job_shapes, run_shapes, sizes
from tests.wire.clock import stamp
from tests.wire.plans import training_metrics
from tests.wire.state import Body, Point
from tests.wire.workspaces import workspace_body

if TYPE_CHECKING:
    from tests.wire.server import WireServer

F = TypeVar("F", bound=Callable[..., Any])
_SIZES = (
    sizes.size("Standard_DS2_v2", "standardDSv2Family", 2, 7),
    sizes.size("Standard_DS3_v2", "standardDSv2Family", 4, 14),
    sizes.size("Standard_F4s_v2", "standardFSv2Family", 4, 8),
    sizes.size("Standard_NC4as_T4_v3", "Standard NCASv3_T4 Family", 4, 28, 1),
    sizes.size("Standard_NC24ads_A100_v4", "StandardNCADSA100v4Family", 24, 220, 1),
    sizes.size("Standard_ND40rs_v2", "Standard NDSv2 Family", 40, 672, 8, low=False),
)
_CURATED = (("AzureML-sklearn-1.0-ubuntu20.04-py38-cpu", "33"), ("AzureML-acpt-pytorch-2.8-cuda12.6", "3"))


def furnish(wire: WireServer) -> None:
    """Sizes, quota, datastores, curated environments, the workspace itself."""
    state = wire.state
    state.workspaces[state.workspace_name] = workspace_body(state, state.workspace_name, wire.api)
    state.sizes = {size["name"]: size for size in _SIZES}
    for family in dict.fromkeys(size["family"] for size in _SIZES):
        state.quota[family] = sizes.usage(state, family, 0, 48 if "DSv2" in family else 24)
    low = "Total Cluster Low Priority Regional vCPUs"
    state.quota[low] = sizes.usage(state, low, 0, 100)
    total = "Total Cluster Dedicated Regional vCPUs"
    state.quota[total] = sizes.usage(state, total, 0, 300)
    store = wire.storage_endpoint
    boxes = {"workspaceblobstore": "azureml-blobstore-1", "workspaceartifactstore": "azureml"}
    for name, container in boxes.items():
        default = name == "workspaceblobstore"
        state.datastores[name] = datastores.datastore_body(state, name, container, store, default=default)
    for name, version in _CURATED:
        wire.seed.environment(name, version, curated=True)
    registered = wire.seed.environment("acpt-pytorch-2.8-cuda12.6", "7", curated=True, kept=False)
    registered["id"] = "azureml://registries/azureml/environments/acpt-pytorch-2.8-cuda12.6/versions/7"
    state.registry_assets["environments"] = {"azureml/acpt-pytorch-2.8-cuda12.6/7": registered}


def _locked(method: F) -> F:
    """A method that no request is answered during."""

    @functools.wraps(method)
    def inside(self: Seeds, *args: Any, **options: Any) -> Any:
        with self._wire.lock:
            return method(self, *args, **options)

    return cast(F, inside)


class Seeds:
    """Fills the workspace of one server, without a request; everything returns the body that it made."""

    def __init__(self, wire: WireServer) -> None:
        """For a server."""
        self._wire = wire
        self._state = wire.state

    @_locked
    def cluster(
        self,
        name: str,
        size: str = "Standard_DS3_v2",
        *,
        low: int = 0,
        high: int = 4,
        idle: str = "PT2M",
        tier: str = "Dedicated",
    ) -> Body:
        """A cluster that is made."""
        scale = {"minNodeCount": low, "maxNodeCount": high, "nodeIdleTimeBeforeScaleDown": idle}
        inner = {"vmSize": size, "vmPriority": tier, "scaleSettings": scale}
        asked = {"location": self._state.location, "properties": {"computeType": "AmlCompute", "properties": inner}}
        body = computes.cluster_body(self._state, name, asked)
        self._state.clusters[name] = body
        computes.settle_cluster(self._state, body)
        return body

    @_locked
    def workspace(self, name: str) -> Body:
        """One more workspace to pick from; it shows what the first one has."""
        self._state.workspaces[name] = workspace_body(self._state, name, self._wire.api)
        return self._state.workspaces[name]

    @_locked
    def subscription(self, identity: str, name: str, *workspaces: str, closed: bool = False) -> None:
        """One more subscription to pick from, with workspaces in the group `elsewhere`; `closed`: it refuses to be looked into."""
        group = f"/subscriptions/{identity}/resourceGroups/elsewhere"
        kind = "Microsoft.MachineLearningServices/workspaces"
        listed = [{"id": f"{group}/providers/{kind}/{one}", "name": one, "location": "westus3"} for one in workspaces]
        self._state.other_subscriptions[identity] = (name, None if closed else listed)

    @_locked
    def instance(self, name: str, size: str = "Standard_DS3_v2", state: str = "Running") -> Body:
        """A compute instance."""
        inner: Body = {
            "vmSize": size,
            "state": state,
            "applications": [],
            "errors": [],
            "personalComputeInstanceSettings": None,
        }
        self._state.clusters[name] = computes.other_target(self._state, name, "ComputeInstance", inner)
        return self._state.clusters[name]

    @_locked
    def kubernetes(self, name: str) -> Body:
        """An attached Kubernetes."""
        inner: Body = {"namespace": "default", "defaultInstanceType": "defaultinstancetype", "instanceTypes": {}}
        self._state.clusters[name] = computes.other_target(self._state, name, "Kubernetes", inner)
        return self._state.clusters[name]

    @_locked
    def environment(self, name: str, version: str = "1", *, curated: bool = False, kept: bool = True) -> Body:
        """An environment; a curated one has no image."""
        given: Body = {"image": "mcr.microsoft.com/azureml/openmpi5.0-ubuntu24.04:latest"}
        if curated:
            given = {"environmentType": "Curated", "autoRebuild": "OnBaseImageUpdate", "stage": "Development"}
        body = assets.version_body(self._state, "environments", name, version, given)
        if kept:
            self._state.environments[f"{name}/{version}"] = body
        return body

    @_locked
    def data(self, name: str, version: str = "1", kind: str = "uri_folder") -> Body:
        """A data asset."""
        uri = f"azureml://datastores/workspaceblobstore/paths/data/{name}/"
        body = assets.version_body(self._state, "data", name, version, {"dataType": kind, "dataUri": uri})
        self._state.data_assets[f"{name}/{version}"] = body
        return body

    @_locked
    def model(self, name: str, version: str = "1", job: str | None = None) -> Body:
        """A model, of a job's output or of a folder in the blob store; of the latter the files are there."""
        uri = f"azureml://jobs/{job}/outputs/artifacts/paths/outputs/model"
        if job is None:
            path = f"LocalUpload/{name}-{version}/model"
            self._state.put_blob("azureml-blobstore-1", f"{path}/model.onnx", b"onnx" * 256)
            uri = f"azureml://subscriptions/{self._state.subscription_id}/resourcegroups/{self._state.resource_group}"
            uri += f"/workspaces/{self._state.workspace_name}/datastores/workspaceblobstore/paths/{path}"
        given = {"modelUri": uri, "modelType": "custom_model", "jobName": job}
        body = assets.version_body(self._state, "models", name, version, given)
        self._state.models[f"{name}/{version}"] = body
        return body

    @_locked
    def registry_model(self, registry: str, name: str, version: str = "1") -> Body:
        """A model of a registry."""
        given = {
            "modelUri": f"https://shared.blob.{self._wire.storage_endpoint}/models/{name}",
            "modelType": "custom_model",
        }
        body = assets.version_body(self._state, "models", name, version, given)
        body["id"] = f"azureml://registries/{registry}/models/{name}/versions/{version}"
        self._state.registry_assets.setdefault("models", {})[f"{registry}/{name}/{version}"] = body
        return body

    @_locked
    def endpoint(
        self, name: str, traffic: dict[str, int] | None = None, *, model: str = "birds/1", auth: str = "Key"
    ) -> Body:
        """An endpoint with deployments, by their shares of the traffic."""
        state = self._state
        if model not in state.models:
            self.model(*model.split("/"))
        asked = {"location": state.location, "properties": {"authMode": auth}}
        body = state.endpoints[name] = endpoints.endpoint_body(state, name, asked)
        body["properties"]["traffic"] = dict(traffic or {})
        state.keys[name] = endpoints.new_keys()
        endpoints.open_endpoint(self._wire, body)
        for deployment in traffic or {}:
            given = {
                "endpointComputeType": "Managed",
                "instanceType": "Standard_DS3_v2",
                "model": f"{state.ws}/models/{model.replace('/', '/versions/')}",
            }
            made = deployments.deployment_body(
                state, body, deployment, {"location": state.location, "properties": given}
            )
            state.deployments[f"{name}/{deployment}"] = made
            deployments.settle_deployment(self._wire, f"{name}/{deployment}")
        return body

    @_locked
    def submit(self, name: str, **members: Any) -> Body:
        """A command job that starts now and goes on by its plan."""
        return self._wire.life.submit(name, {"properties": _command(**members)})

    @_locked
    def sweep(self, name: str, trials: int = 4, at_once: int = 2, **members: Any) -> Body:
        """A sweep that starts now."""
        given = _command(**members)
        trial = {key: given.pop(key) for key in ("command", "environmentId")}
        trial["command"] += " --learning_rate ${{search_space.learning_rate}}"
        given |= {
            "jobType": "Sweep",
            "trial": trial,
            "searchSpace": {"learning_rate": ["uniform", [0.0005, 0.005]], "batch_size": ["choice", [[16, 32]]]},
            "samplingAlgorithm": {"samplingAlgorithmType": "Random"},
            "objective": {"goal": "maximize", "primaryMetric": "best_val_acc"},
            "limits": {"jobLimitsType": "Sweep", "maxTotalTrials": trials, "maxConcurrentTrials": at_once},
        }
        return self._wire.life.submit(name, {"properties": given})

    @_locked
    def job(
        self, name: str, status: str = "Completed", *, age: float = 3600.0, took: float = 600.0, **members: Any
    ) -> Body:
        """A command job as it was `age` seconds after it was submitted: nothing of it goes on."""
        state = self._state
        made = state.now - timedelta(seconds=age)
        with state.clock.at(made):
            body = job_shapes.job_body(
                state, name, {"properties": _command(**members)}, self._wire.api_host, self._wire.studio
            )
            run = run_shapes.run_body(state, name, body)
        body["properties"]["status"] = run["status"] = status
        if status not in ("NotStarted", "Starting", "Preparing", "Queued"):
            run["startTimeUtc"] = stamp(made + timedelta(seconds=20))
        if status in ("Completed", "Failed", "Canceled"):
            run["endTimeUtc"] = stamp(made + timedelta(seconds=20 + took))
        if status == "Failed":
            run["error"] = run_shapes.run_error(state, "User program failed with RuntimeError: CUDA out of memory.")
        state.jobs[name], state.runs[name] = body, run
        return body

    @_locked
    def jobs(self, count: int, *, prefix: str = "seed", every: float = 600.0) -> list[Body]:
        """So many realistic jobs, the newest first, one each ten minutes into the past, in all states."""
        chance = random.Random(count)
        states = ("Completed",) * 14 + ("Failed",) * 3 + ("Canceled",) * 2
        made = []
        for index in range(count):
            status = "Running" if index == 0 else chance.choice(states)
            cluster = chance.choice(("cpu", "gpu"))
            made.append(
                self.job(
                    f"{prefix}_{count - index:05d}",
                    status,
                    age=60 + index * every,
                    took=chance.uniform(60, 3000),
                    computeId=f"{self._state.ws}/computes/{cluster}",
                    experimentName=chance.choice(("birds", "text", "forecast")),
                    displayName=f"run {count - index}",
                    tags={"owner": chance.choice(("me", "you")), "note": "x" * 40},
                )
            )
        return made

    @_locked
    def metrics(self, job: str, epochs: int = 15, skill: float = 0.9) -> None:
        """The metrics of a training, a minute an epoch, up to now."""
        held = self._state.metrics.setdefault(job, {})
        for epoch in range(epochs):
            moment = self._state.now - timedelta(minutes=epochs - epoch)
            for key, value in training_metrics(epoch, epochs, skill).items():
                held.setdefault(key, []).append(Point(value, epoch, moment))

    @_locked
    def log(self, job: str, path: str, data: bytes) -> None:
        """A log file of a job."""
        from tests.wire.life import LOGS, log_path

        self._state.put_blob(LOGS, log_path(job, path), data)

    @_locked
    def demo(self) -> None:
        """Something of everything: what the demo shows, and a screen's test needs."""
        self.cluster("cpu", low=1)
        self.cluster("gpu", "Standard_NC4as_T4_v3", high=2, tier="LowPriority")
        self.instance("notebook")
        self.kubernetes("k8s")
        self.data("birds")
        self.jobs(40)
        for name in list(self._state.jobs)[:10]:
            self.metrics(name)
            self.log(name, "user_logs/std_log.txt", b"".join(b"epoch %d\n" % epoch for epoch in range(15)))
        self.model("birds", "1", job="seed_00039")
        self.model("birds", "2")
        self.endpoint("birds-live", {"blue": 90, "green": 10}, model="birds/1")
        compute = f"{self._state.ws}/computes/cpu"
        self.submit("train_now", computeId=compute, displayName="birds, now")
        self.sweep("sweep_now", trials=6, displayName="birds, sweep")


_DEFAULT: Body = {
    "jobType": "Command",
    "experimentName": "birds",
    "command": "python train.py --data ${{inputs.data}} --num_epochs ${{inputs.num_epochs}} --learning_rate 0.002",
    "environmentId": "azureml:AzureML-acpt-pytorch-2.8-cuda12.6:3",
    "inputs": {
        "num_epochs": {"jobInputType": "literal", "value": "15"},
        "data": {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/data/birds/"},
    },
    "resources": {"instanceCount": 1},
}


def _command(**members: Any) -> Body:
    return copy.deepcopy(_DEFAULT) | members
