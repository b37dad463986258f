"""Online endpoints: long-running changes, traffic, keys and tokens."""

from __future__ import annotations

import copy
import re
import secrets
from typing import TYPE_CHECKING, Any

from tests.wire import errors
from tests.wire.http import WS, Call, Reply, Routes
from tests.wire.members import ENDPOINT, check_members
from tests.wire.paging import page
from tests.wire.state import Body, State, new_id

if TYPE_CHECKING:
    from tests.wire.server import WireServer

routes = Routes()
EP = WS + r"/onlineEndpoints/(?P<endpoint>[^/]+)"
"""The path of an endpoint."""
_BUSY = ("Creating", "Updating", "Deleting", "Scaling")


def find_endpoint(call: Call) -> Body:
    found = call.wire.state.endpoints.get(call["endpoint"])
    if found is None:
        raise errors.not_found("OnlineEndpoint", call["endpoint"])
    return found


def refuse_busy(what: str, body: Body) -> None:
    now = body["properties"]["provisioningState"]
    if now in _BUSY:
        raise errors.conflict(
            f"{what} {body['name']} is in the middle of another operation (provisioning state {now}). Wait until it ends."
        )


def deployments_of(state: State, endpoint: str) -> dict[str, Body]:
    """The deployments of an endpoint by their names."""
    prefix = f"{endpoint}/"
    return {key.removeprefix(prefix): body for key, body in state.deployments.items() if key.startswith(prefix)}


def endpoint_body(state: State, name: str, asked: Body) -> Body:
    """An endpoint as the service answers right after it was asked for: no scoring address yet."""
    given = asked["properties"]
    body: Body = {
        "id": f"{state.ws}/onlineEndpoints/{name}",
        "name": name,
        "type": "Microsoft.MachineLearningServices/workspaces/onlineEndpoints",
        "properties": {
            "description": given.get("description"),
            "properties": {"azureml.onlineendpointid": new_id(), **(given.get("properties") or {})},
            "scoringUri": None,
            "swaggerUri": None,
            "authMode": given["authMode"],
            "provisioningState": "Creating",
            "compute": given.get("compute"),
            "traffic": given.get("traffic") or {},
            "mirrorTraffic": given.get("mirrorTraffic") or {},
            "publicNetworkAccess": given.get("publicNetworkAccess") or "Enabled",
        },
        "systemData": state.system_data(modified=True, kind=False),
        "tags": asked.get("tags") or {},
        "location": asked["location"],
        "kind": "K8S" if given.get("compute") else "Managed",
    }
    if asked.get("identity"):
        ids = dict.fromkeys(("principalId", "tenantId"), "00000000-0000-0000-0000-000000000000")
        body["identity"] = asked["identity"] | ids
    return body


def open_endpoint(wire: WireServer, body: Body) -> None:
    """An endpoint is ready: it has its addresses."""
    name, place = body["name"], wire.state.location
    base = f"https://{name}.{place}.inference.localhost:{wire.port}"
    body["properties"] |= {
        "provisioningState": "Succeeded",
        "scoringUri": f"{base}/score",
        "swaggerUri": f"{base}/swagger.json",
    }


def new_keys() -> dict[str, str]:
    """Both keys of an endpoint."""
    return {"primaryKey": secrets.token_hex(16), "secondaryKey": secrets.token_hex(16)}


@routes.on("GET", WS + "/onlineEndpoints")
def list_endpoints(call: Call) -> Reply:
    """All endpoints, in pages."""
    return page(call, list(call.wire.state.endpoints.values()))


@routes.on("GET", EP)
def get_endpoint(call: Call) -> Reply:
    """One endpoint."""
    return Reply(body=find_endpoint(call))


def start_change(call: Call, body: Body, kind: str, finish: Any, status: int) -> Reply:
    """Answer with an operation under way, whose address the body has too."""
    wire, name = call.wire, f"{call['endpoint']}/{body['name']}"
    failure = wire.deployment_errors.get(name) if kind == "deployment" else None
    operation = wire.operations.start("mfe", wire.seconds[kind], finish, error=failure)
    inner = body["properties"].setdefault("properties", {})
    inner["AzureAsyncOperationUri"] = wire.operations.address(operation).split("&t=")[0]
    body["systemData"]["lastModifiedAt"] = wire.state.stamp()
    location = f"{wire.resource_manager}{call.path}?api-version={call.query.get('api-version')}"
    return Reply(status, body, wire.operations.headers(operation, location))


def snapshot(reply: Reply) -> Reply:
    """The answer as it is now: what it shows goes on to change."""
    reply.body = copy.deepcopy(reply.body)
    return reply


@routes.on("PUT", EP)
def put_endpoint(call: Call) -> Reply:
    """Make an endpoint, or change one."""
    state, wire, asked, name = call.wire.state, call.wire, call.json, call["endpoint"]
    check_members(asked, ENDPOINT)
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]{1,30}[a-zA-Z0-9]", name):
        raise errors.bad_argument(
            f"Endpoint name '{name}' is invalid. It starts with a letter, has letters, digits and - only, and is between "
            "3 and 32 characters long.",
            "InvalidName",
        )
    given = asked["properties"]
    old = state.endpoints.get(name)
    if old is not None:
        return _update(call, old, given, asked)
    if str(given["authMode"]).lower() not in ("key", "amltoken", "aadtoken"):
        raise errors.invalid(
            ("RequestInvalid", f"Error converting value '{given['authMode']}' to type 'EndpointAuthMode'.")
        )
    body = state.endpoints[name] = endpoint_body(state, name, asked)
    _check_traffic(state, name, body["properties"]["traffic"], body["properties"]["mirrorTraffic"])
    state.keys[name] = new_keys()
    return snapshot(start_change(call, body, "endpoint", lambda: open_endpoint(wire, body), 201))


def _update(call: Call, body: Body, given: Body, asked: Body) -> Reply:
    refuse_busy("Endpoint", body)
    state, inner = call.wire.state, body["properties"]
    kept: Body = {key: given.get(key) for key in ("traffic", "mirrorTraffic") if given.get(key) is not None}
    traffic, mirror = kept.get("traffic", inner["traffic"]), kept.get("mirrorTraffic", inner["mirrorTraffic"])
    _check_traffic(state, body["name"], traffic, mirror)
    if given.get("authMode") and str(given["authMode"]).lower() != str(inner["authMode"]).lower():
        raise errors.bad_argument("The authMode of an endpoint cannot be changed.")
    for key, value in (
        ("description", given.get("description")),
        ("publicNetworkAccess", given.get("publicNetworkAccess")),
    ):
        if value is not None:
            inner[key] = value
    if asked.get("tags") is not None:
        body["tags"] = asked["tags"]
    inner["provisioningState"] = "Updating"

    def finish() -> None:
        inner.update(traffic=traffic, mirrorTraffic=mirror, provisioningState="Succeeded")

    return snapshot(start_change(call, body, "endpoint", finish, 200))


def _check_traffic(state: State, endpoint: str, traffic: Body, mirror: Body) -> None:
    held = deployments_of(state, endpoint)
    for name in (*traffic, *mirror):
        if name not in held:
            raise errors.bad_argument(f"Traffic names the deployment '{name}', which endpoint {endpoint} has not.")
    total = sum(int(value) for value in traffic.values())
    if traffic and total not in (0, 100):
        raise errors.bad_argument(f"The sum of traffic must be 0 or 100, not {total}.", "InvalidTraffic")
    live = {name: int(value) for name, value in mirror.items() if int(value)}
    if sum(live.values()) > 50:
        raise errors.bad_argument("Mirror traffic must be between 0 and 50.", "InvalidTraffic")
    if len(live) > 1:
        raise errors.bad_argument("Mirror traffic can be sent to one deployment only.", "InvalidTraffic")
    both = [name for name in live if int(traffic.get(name, 0))]
    if both:
        raise errors.bad_argument(
            f"Deployment {both[0]} has live traffic, and cannot have mirror traffic.", "InvalidTraffic"
        )


@routes.on("PATCH", EP)
def patch_endpoint(call: Call) -> Reply:
    """Change tags and identity, and with 2022-02-01-preview also traffic: later versions do not know that member."""
    body, asked = find_endpoint(call), call.json
    known = {"tags", "identity"}
    if call.query.get("api-version", "") <= "2022-02-01-preview":
        known |= {"properties", "kind", "location", "sku"}
    for member in asked:
        if member not in known:
            kind = "PartialMinimalTrackedResourceWithIdentity"
            text = f"Could not find member '{member}' on object of type '{kind}'. Path '{member}', line 1, position 1."
            raise errors.invalid(("RequestInvalid", text))
    for member in asked.get("properties") or {}:
        if member not in ("traffic", "mirrorTraffic"):
            text = f"Could not find member '{member}' on object of type 'PartialOnlineEndpoint'. Path '{member}'."
            raise errors.invalid(("RequestInvalid", text))
    return _update(call, body, asked.get("properties") or {}, asked)


@routes.on("DELETE", EP)
def delete_endpoint(call: Call) -> Reply:
    """Take an endpoint away with all its deployments; 204 where there is none."""
    state = call.wire.state
    if call["endpoint"] not in state.endpoints:
        return Reply(204, None)
    body = find_endpoint(call)
    if body["properties"]["provisioningState"] == "Deleting":
        refuse_busy("Endpoint", body)
    body["properties"]["provisioningState"] = "Deleting"

    def finish() -> None:
        for name in deployments_of(state, body["name"]):
            state.deployments.pop(f"{body['name']}/{name}", None)
        state.endpoints.pop(body["name"], None)
        state.keys.pop(body["name"], None)

    reply = start_change(call, body, "endpoint", finish, 202)
    reply.body = None
    return reply


# keys


@routes.on("POST", EP + "/listKeys")
def list_keys(call: Call) -> Reply:
    """Both keys of an endpoint that works with keys."""
    body = find_endpoint(call)
    if str(body["properties"]["authMode"]).lower() != "key":
        raise errors.bad_argument(
            f"Endpoint {body['name']} does not use keys, its authMode is {body['properties']['authMode']}."
        )
    return Reply(body=call.wire.state.keys[call["endpoint"]])


@routes.on("POST", EP + "/regenerateKeys")
def regenerate_keys(call: Call) -> Reply:
    """Make one key anew: a long-running operation."""
    body, state = find_endpoint(call), call.wire.state
    word = {"primary": "primaryKey", "secondary": "secondaryKey"}.get(str(call.json.get("keyType")).lower())
    if word is None:
        raise errors.invalid(("RequestInvalid", "Error converting the value of keyType to type 'KeyType'."))
    # The SDK sends the key as it is; a new one is made all the same.
    value = call.json.get("keyValue")
    if not value or value == state.keys[body["name"]][word]:
        value = secrets.token_hex(16)
    operation = call.wire.operations.start(
        "mfe", call.wire.seconds["cancel"], lambda: state.keys[body["name"]].update({word: value})
    )
    results = call.wire.operations.address(operation, "OperationResults")
    return Reply(202, None, call.wire.operations.headers(operation, results))


@routes.on("POST", EP + "/token")
def get_token(call: Call) -> Reply:
    """A token for the scoring address, good for twelve hours."""
    find_endpoint(call)
    now = int(call.wire.now.timestamp())
    token = call.wire.tokens.issue(f"endpoint/{call['endpoint']}", seconds=43_200)
    body = {
        "accessToken": token,
        "tokenType": "Bearer",
        "expiryTimeUtc": now + 43_200,
        "refreshAfterTimeUtc": now + 21_600,
    }
    return Reply(body=body)
