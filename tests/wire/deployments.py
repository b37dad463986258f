"""Online deployments: long-running changes, instances, the logs of their containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.wire import errors
from tests.wire.endpoints import EP, deployments_of, find_endpoint, refuse_busy, snapshot, start_change
from tests.wire.http import Call, Reply, Routes
from tests.wire.members import DEPLOYMENT, check_members
from tests.wire.paging import page
from tests.wire.sizes import size_of
from tests.wire.state import Body, State

if TYPE_CHECKING:
    from tests.wire.server import WireServer

routes = Routes()
_DEP = EP + r"/deployments/(?P<name>[^/]+)"


def _deployment(call: Call) -> Body:
    find_endpoint(call)
    found = call.wire.state.deployments.get(f"{call['endpoint']}/{call['name']}")
    if found is None:
        raise errors.not_found("OnlineDeployment", call["name"])
    return found


def deployment_body(state: State, endpoint: Body, name: str, asked: Body) -> Body:
    """A deployment as the service answers, with its defaults filled in."""
    given = {key: value for key, value in asked["properties"].items() if value is not None}
    probe = {
        "initialDelay": "PT10S",
        "timeout": "PT2S",
        "period": "PT10S",
        "successThreshold": 1,
        "failureThreshold": 30,
    }
    settings = {"maxQueueWait": "PT0.5S", "requestTimeout": "PT5S", "maxConcurrentRequestsPerInstance": 1}
    sku = asked.get("sku") or {"name": "Default", "capacity": 1}
    inner: Body = {
        "endpointComputeType": "Managed",
        "description": None,
        "environmentId": None,
        "environmentVariables": {},
        "model": None,
        "modelMountPath": None,
        "codeConfiguration": None,
        "instanceType": None,
        "appInsightsEnabled": False,
        "dataCollector": None,
        "egressPublicNetworkAccess": "Enabled",
        # Without scale settings the SDK ends with an AttributeError.
        "scaleSettings": {"scaleType": "Default"},
    }
    if str(given["endpointComputeType"]).lower() == "kubernetes":
        request = {"cpu": "100m", "memory": "500Mi", "gpu": None}
        inner["containerResourceRequirements"] = {
            "containerResourceRequests": request,
            "containerResourceLimits": {"cpu": "2", "memory": "2Gi", "gpu": None},
        }
    inner |= given
    inner |= {
        "livenessProbe": probe | _kept(given.get("livenessProbe")),
        "readinessProbe": probe | _kept(given.get("readinessProbe")),
        "requestSettings": settings | _kept(given.get("requestSettings")),
        "properties": dict(given.get("properties") or {}),
        "provisioningState": "Creating",
    }
    return {
        "id": f"{endpoint['id']}/deployments/{name}",
        "name": name,
        "type": "Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments",
        "location": asked["location"],
        "tags": asked.get("tags") or {},
        "kind": inner["endpointComputeType"],
        "sku": {"name": sku.get("name") or "Default", "tier": "Standard", "capacity": sku.get("capacity", 1)},
        "properties": inner,
        "systemData": state.system_data(modified=True, kind=False),
    }


def _kept(given: Body | None) -> Body:
    return {key: value for key, value in (given or {}).items() if value is not None}


@routes.on("GET", EP + "/deployments")
def list_deployments(call: Call) -> Reply:
    """The deployments of an endpoint."""
    find_endpoint(call)
    return page(call, list(deployments_of(call.wire.state, call["endpoint"]).values()))


@routes.on("GET", _DEP)
def get_deployment(call: Call) -> Reply:
    """One deployment."""
    return Reply(body=_deployment(call))


@routes.on("PUT", _DEP)
def put_deployment(call: Call) -> Reply:
    """Make a deployment, or change one."""
    state, asked, endpoint = call.wire.state, call.json, find_endpoint(call)
    check_members(asked, DEPLOYMENT)
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]{1,30}[a-zA-Z0-9]", call["name"]):
        raise errors.bad_argument(f"Deployment name '{call['name']}' is invalid.", "InvalidName")
    refuse_busy("Endpoint", endpoint)
    _check_deployment(state, asked["properties"])
    key = f"{call['endpoint']}/{call['name']}"
    old = state.deployments.get(key)
    if old is not None:
        refuse_busy("Deployment", old)
    body = deployment_body(state, endpoint, call["name"], asked)
    if old is not None:
        body["properties"]["provisioningState"] = "Updating"
    state.deployments[key] = body
    return snapshot(
        start_change(call, body, "deployment", lambda: settle_deployment(call.wire, key), 201 if old is None else 200)
    )


def settle_deployment(wire: WireServer, key: str) -> None:
    """A deployment is up, or has failed; its containers have logged."""
    body = wire.state.deployments.get(key)
    if body is None:
        return
    failed = wire.deployment_errors.get(key)
    body["properties"]["provisioningState"] = "Failed" if failed else "Succeeded"
    server = "Instance status:\nSystemSetup: Succeeded\nUserContainerImagePull: Succeeded\nModelDownload: Succeeded\n"
    server += "UserContainerStart: " + ("Failed\nModuleNotFoundError: no module\n" if failed else "Succeeded\n")
    server += "Container events:\nKind: Pod, Name: Pulling, Type: Normal\nContainer logs:\n"
    server += "".join(f"2026-12-01 00:00:0{i} I [70] azmlinfsrv - line {i}\n" for i in range(8))
    wire.state.deployment_logs[key] = {
        "InferenceServer": server,
        "StorageInitializer": "[2026-12-01] INFO: Downloading model\n[2026-12-01] INFO: Done\n",
    }


def _check_deployment(state: State, given: Body) -> None:
    model = state.key("models", given.get("model"))
    if model and model not in state.models:
        raise errors.bad_argument(f"Model {model.replace('/', ':')} was not found.", "ModelNotFound")
    shared = re.fullmatch(
        r"azureml://registries/([^/]+)/models/([^/]+)/versions/([^/]+)", str(given.get("model") or "")
    )
    if shared and "/".join(shared.groups()) not in state.registry_assets.get("models", {}):
        raise errors.bad_argument(f"Model {shared[0]} was not found.", "ModelNotFound")
    if str(given["endpointComputeType"]).lower() == "managed":
        size = given.get("instanceType")
        if not size:
            raise errors.invalid(("RequestInvalid", "The instanceType field is required for a managed deployment."))
        if size_of(state, size) is None:
            raise errors.bad_argument(f"Instance type {size} is not supported in {state.location}.", "BadArgument")
    code = state.key("codes", (given.get("codeConfiguration") or {}).get("codeId"))
    if code and code not in state.assets["codes"]:
        raise errors.bad_argument(f"Code asset {code} was not found.", "CodeNotFound")


@routes.on("PATCH", _DEP)
def patch_deployment(call: Call) -> Reply:
    """Change the tags or the number of instances."""
    body, asked = _deployment(call), call.json
    for member in asked:
        if member not in ("tags", "sku"):
            kind = "PartialMinimalTrackedResourceWithSku"
            raise errors.invalid(("RequestInvalid", f"Could not find member '{member}' on object of type '{kind}'."))
    refuse_busy("Deployment", body)
    body["tags"] = asked.get("tags") or body["tags"]
    body["sku"] |= {key: value for key, value in (asked.get("sku") or {}).items() if value is not None}
    body["properties"]["provisioningState"] = "Updating"

    def finish() -> None:
        body["properties"]["provisioningState"] = "Succeeded"

    return snapshot(start_change(call, body, "deployment", finish, 200))


@routes.on("DELETE", _DEP)
def delete_deployment(call: Call) -> Reply:
    """Take a deployment away; refused while it has live traffic."""
    state, key = call.wire.state, f"{call['endpoint']}/{call['name']}"
    if key not in state.deployments:
        return Reply(204, None)
    body, endpoint = _deployment(call), find_endpoint(call)
    if int(endpoint["properties"]["traffic"].get(call["name"], 0)):
        raise errors.bad_argument(
            f"Deployment {call['name']} has live traffic. Set its traffic to 0 before it is deleted.",
            "DeploymentHasTraffic",
        )
    refuse_busy("Deployment", body)
    body["properties"]["provisioningState"] = "Deleting"

    def finish() -> None:
        state.deployments.pop(key, None)
        endpoint["properties"]["traffic"].pop(body["name"], None)

    reply = start_change(call, body, "deployment", finish, 202)
    reply.body = None
    return reply


@routes.on("POST", _DEP + "/getLogs")
def get_logs(call: Call) -> Reply:
    """The end of a container's log."""
    _deployment(call)
    kind = call.json.get("containerType") or "InferenceServer"
    text = call.wire.state.deployment_logs.get(f"{call['endpoint']}/{call['name']}", {}).get(kind, "")
    lines = text.splitlines(keepends=True)
    return Reply(body={"content": "".join(lines[-int(call.json.get("tail") or 5000) :])})


@routes.on("GET", _DEP + "/skus")
def skus(call: Call) -> Reply:
    """How many instances a deployment may have."""
    body = _deployment(call)
    capacity = {"default": 1, "minimum": 1, "maximum": 50, "scaleType": "Automatic"}
    return Reply(body={"value": [{"resourceType": body["type"], "sku": body["sku"], "capacity": capacity}]})
