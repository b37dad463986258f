"""Compute: clusters with their nodes, and other targets."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from tests.wire import errors
from tests.wire.http import WS, Call, Reply, Routes
from tests.wire.members import AML_COMPUTE, check_members
from tests.wire.paging import page
from tests.wire.sizes import check_size, quota_error
from tests.wire.state import Body, State

if TYPE_CHECKING:
    from tests.wire.server import WireServer

routes = Routes()
_COUNTS = ("preparing", "running", "idle", "unusable", "leaving", "preempted")


def cluster_body(state: State, name: str, asked: Body) -> Body:
    """A cluster as the service answers: node counts are null until it is made."""
    given = asked["properties"]
    wanted = given.get("properties") or {}
    scale = wanted.get("scaleSettings") or {}
    low = int(scale.get("minNodeCount") or 0)
    inner: Body = {
        "vmSize": wanted.get("vmSize"),
        "vmPriority": wanted.get("vmPriority") or "Dedicated",
        "scaleSettings": {
            "maxNodeCount": scale.get("maxNodeCount", 1),
            "minNodeCount": low,
            "nodeIdleTimeBeforeScaleDown": scale.get("nodeIdleTimeBeforeScaleDown") or "PT2M",
        },
        "subnet": wanted.get("subnet"),
        "currentNodeCount": None,
        "targetNodeCount": None,
        "nodeStateCounts": None,
        "allocationState": None,
        "errors": None,
        "remoteLoginPortPublicAccess": wanted.get("remoteLoginPortPublicAccess") or "NotSpecified",
        "osType": wanted.get("osType") or "Linux",
        "virtualMachineImage": None,
        "isolatedNetwork": False,
        "enableNodePublicIp": wanted.get("enableNodePublicIp", True),
        "enableBatchPrivateLink": False,
    }
    made = {
        "id": f"{state.ws}/computes/{name}",
        "name": name,
        "type": "Microsoft.MachineLearningServices/workspaces/computes",
        "location": asked.get("location") or state.location,
        "tags": asked.get("tags"),
        "identity": asked.get("identity"),
        "properties": {
            "createdOn": state.stamp(),
            "modifiedOn": state.stamp(),
            "disableLocalAuth": given.get("disableLocalAuth", True),
            "description": given.get("description"),
            "resourceId": None,
            "computeType": "AmlCompute",
            "provisioningState": "Creating",
            "provisioningErrors": None,
            "provisioningWarnings": None,
            "isAttachedCompute": False,
            "properties": inner,
        },
    }
    if made["identity"] is None:
        del made["identity"]
    return made


def settle_cluster(state: State, body: Body, account: Body | None = None) -> None:
    """A cluster is made: it has its counts, its least number of nodes, and its administrator without the password."""
    body["tags"] = body["tags"] or {}
    props = body["properties"]
    props |= {"provisioningState": "Succeeded", "provisioningWarnings": {}, "computeLocation": body["location"]}
    props["modifiedOn"] = state.stamp()
    inner = props["properties"]
    inner |= {"allocationState": "Steady", "allocationStateTransitionTime": state.stamp(), "propertyBag": {}}
    if account:
        inner["userAccountCredentials"] = account | {"adminUserPassword": None}
    nodes = state.nodes.setdefault(body["name"], [])
    while len(nodes) < inner["scaleSettings"]["minNodeCount"]:
        add_node(state, body["name"], "idle")
    count(state, body["name"])


def add_node(state: State, cluster: str, node_state: str, run: str | None = None) -> Body:
    """A new node of a cluster."""
    nodes = state.nodes.setdefault(cluster, [])
    taken = {node["port"] for node in nodes}
    port = next(port for port in range(50000, 60000) if port not in taken)
    number = port - 50000
    node = {
        "nodeId": f"tvmps_{number:032x}_d",
        "privateIpAddress": f"10.0.0.{number + 4}",
        "publicIpAddress": "52.0.0.1",
        "port": port,
        "nodeState": node_state,
        "runId": run,
    }
    nodes.append(node)
    count(state, cluster)
    return node


def count(state: State, cluster: str) -> None:
    """Write the node counts into a cluster's body."""
    body = state.clusters.get(cluster)
    nodes = state.nodes.get(cluster, [])
    inner = body["properties"]["properties"] if body else None
    if inner is None or inner.get("allocationState") is None:
        return
    inner["nodeStateCounts"] = {
        f"{word}NodeCount": sum(node["nodeState"] == word for node in nodes) for word in _COUNTS
    }
    standing = [node for node in nodes if node["nodeState"] != "leaving"]
    inner["currentNodeCount"], inner["targetNodeCount"] = len(nodes), len(standing)
    resizing = any(node["nodeState"] in ("preparing", "leaving") for node in nodes)
    now = "Resizing" if resizing else "Steady"
    if inner["allocationState"] != now:
        inner |= {"allocationState": now, "allocationStateTransitionTime": state.stamp()}


def _find(call: Call) -> Body:
    found = call.wire.state.clusters.get(call["name"])
    if found is None:
        raise errors.resource_not_found(f"workspaces/{call['workspace']}/computes", call["name"], call["group"])
    return found


@routes.on("GET", WS + "/computes")
def list_computes(call: Call) -> Reply:
    """All targets, in pages."""
    clusters = call.wire.state.clusters
    return page(call, [clusters[name] for name in sorted(clusters)])


@routes.on("GET", WS + "/computes/(?P<name>[^/]+)")
def get_compute(call: Call) -> Reply:
    """One target."""
    return Reply(body=_find(call))


@routes.on("POST", WS + "/computes/(?P<name>[^/]+)/listNodes")
def list_nodes(call: Call) -> Reply:
    """The nodes of a cluster."""
    _find(call)
    return Reply(body={"nodes": call.wire.state.nodes.get(call["name"], []), "nextLink": None})


@routes.on("PUT", WS + "/computes/(?P<name>[^/]+)")
def put_compute(call: Call) -> Reply:
    """Make a cluster, or change one: a long-running operation."""
    state, asked, name = call.wire.state, call.json, call["name"]
    check_members(asked, AML_COMPUTE, "ComputeResource")
    if not re.fullmatch(r"[a-zA-Z](?:[a-zA-Z0-9-]{0,22}[a-zA-Z0-9])?", name):
        raise errors.bad_argument(
            f"Compute name '{name}' is invalid. It can include letters, digits and dashes. It must start with a letter, "
            "end with a letter or digit, and be between 2 and 24 characters in length.",
            "InvalidComputeName",
        )
    wanted = asked["properties"].get("properties") or {}
    check_size(state, str(wanted.get("vmSize")))
    old = state.clusters.get(name)
    if old is not None:
        if old["properties"]["provisioningState"] not in ("Succeeded", "Failed"):
            raise errors.conflict(f"Compute {name} is being changed by another operation.")
        return _scale(call.wire, old, wanted.get("scaleSettings") or {}, asked)
    body = cluster_body(state, name, asked)
    short = quota_error(state, wanted)
    state.clusters[name] = body
    first = copy.deepcopy(body)
    if wanted.get("vmSize"):
        first["properties"]["properties"]["vmSize"] = str(wanted["vmSize"]).upper()

    def finish() -> None:
        if short:
            body["properties"] |= {"provisioningState": "Failed", "provisioningErrors": [{"error": short}]}
        elif name in state.clusters:
            settle_cluster(state, body, wanted.get("userAccountCredentials"))

    operation = call.wire.operations.start("compute", call.wire.seconds["cluster"], finish, error=short)
    return Reply(201, first, {"Azure-AsyncOperation": call.wire.operations.address(operation)})


@routes.on("PATCH", WS + "/computes/(?P<name>[^/]+)")
def patch_compute(call: Call) -> Reply:
    """Change the scale settings of a cluster: a long-running operation."""
    given = (call.json.get("properties") or {}).get("properties") or {}
    return _scale(call.wire, _find(call), given.get("scaleSettings") or {}, {})


def _scale(wire: WireServer, body: Body, scale: Body, asked: Body) -> Reply:
    state, name = wire.state, body["name"]
    props = body["properties"]
    if props["provisioningState"] not in ("Succeeded", "Failed"):
        raise errors.conflict(f"Compute {name} is being changed by another operation.")
    props["provisioningState"] = "Updating"
    props["properties"]["scaleSettings"] |= {key: value for key, value in scale.items() if value is not None}
    if asked.get("tags") is not None:
        body["tags"] = asked["tags"]

    def finish() -> None:
        if name in state.clusters:
            settle_cluster(state, body)

    operation = wire.operations.start("compute", wire.seconds["cluster"], finish)
    return Reply(200, body, {"Azure-AsyncOperation": wire.operations.address(operation)})


@routes.on("DELETE", WS + "/computes/(?P<name>[^/]+)")
def delete_compute(call: Call) -> Reply:
    """Take a cluster away: a long-running operation with an empty answer."""
    if call.query.get("underlyingResourceAction") not in ("Delete", "Detach"):
        raise errors.bad_argument("The parameter underlyingResourceAction must be Delete or Detach.")
    body, state = _find(call), call.wire.state
    body["properties"]["provisioningState"] = "Deleting"

    def finish() -> None:
        state.clusters.pop(body["name"], None)
        state.nodes.pop(body["name"], None)

    operation = call.wire.operations.start("compute", call.wire.seconds["cluster"], finish)
    return Reply(202, None, {"Azure-AsyncOperation": call.wire.operations.address(operation)})


@routes.on("POST", WS + "/computes/(?P<name>[^/]+)/(?P<act>start|stop|restart)")
def run_instance(call: Call) -> Reply:
    """Start or stop a compute instance: a long-running operation."""
    body = _find(call)
    if body["properties"]["computeType"] != "ComputeInstance":
        raise errors.bad_argument(f"Operation {call['act']} is not supported for compute {call['name']}.")
    ends = {"start": "Running", "stop": "Stopped", "restart": "Running"}[call["act"].lower()]
    inner = body["properties"]["properties"]
    inner["state"] = {"start": "Starting", "stop": "Stopping", "restart": "Restarting"}[call["act"].lower()]

    def finish() -> None:
        inner["state"] = ends

    operation = call.wire.operations.start("compute", call.wire.seconds["cluster"], finish)
    return Reply(202, None, {"Azure-AsyncOperation": call.wire.operations.address(operation)})


def other_target(state: State, name: str, kind: str, properties: Any) -> Body:
    """A target that is no cluster: a compute instance, an attached Kubernetes."""
    return {
        "id": f"{state.ws}/computes/{name}",
        "name": name,
        "type": "Microsoft.MachineLearningServices/workspaces/computes",
        "location": state.location,
        "tags": {},
        "properties": {
            "createdOn": state.stamp(),
            "modifiedOn": state.stamp(),
            "disableLocalAuth": False,
            "description": None,
            "resourceId": None,
            "computeType": kind,
            "computeLocation": state.location,
            "provisioningState": "Succeeded",
            "provisioningErrors": None,
            "provisioningWarnings": None,
            "isAttachedCompute": kind == "Kubernetes",
            "properties": properties,
        },
    }
