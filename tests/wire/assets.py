"""Versioned assets: code with its uploads, environments, data, models, components."""

from __future__ import annotations

import copy
import re

from tests.wire import errors
from tests.wire.http import WS, Call, Reply, Routes
from tests.wire.members import ASSETS, check_members
from tests.wire.paging import page
from tests.wire.state import Body, State, new_id

routes = Routes()
_KIND = r"/(?P<kind>codes|environments|data|models|components)"
_WORDS = {
    "codes": "Code",
    "environments": "Environment",
    "data": "Data",
    "models": "Model",
    "components": "Component",
}
_NULLS: dict[str, Body] = {
    "codes": {"codeUri": None, "provisioningState": "Succeeded"},
    # A null in `flavors` ends the SDK with an AttributeError; the service answers with an object.
    "models": {
        "modelUri": None,
        "modelType": "custom_model",
        "flavors": {},
        "jobName": None,
        "stage": None,
        "provisioningState": "Succeeded",
    },
    "data": {"dataType": "uri_folder", "dataUri": None, "referencedUris": None},
    "components": {"componentSpec": {}, "provisioningState": "Succeeded", "stage": None},
    "environments": {
        "environmentType": "UserCreated",
        "condaFile": "",
        "osType": "Linux",
        "autoRebuild": "Disabled",
        "provisioningState": "Succeeded",
        "stage": "Logged",
        "intellectualProperty": None,
    },
}


def version_body(state: State, kind: str, name: str, version: str, given: Body) -> Body:
    """An asset's version as the service answers."""
    inner: Body = {
        "description": None,
        "tags": {},
        "properties": {},
        "isArchived": False,
        "isAnonymous": False,
    }
    inner |= copy.deepcopy(_NULLS[kind])
    inner |= {key: value for key, value in given.items() if value is not None}
    if kind == "environments":
        inner["autoDeleteSetting"] = None
        inner["properties"] = {"azureml.labels": "", **(given.get("properties") or {})}
    if kind == "codes" and (uri := inner["codeUri"]):
        inner["codeUri"] = re.sub(r"(https://[^/:]+)(?=/)", r"\1:443", str(uri))
    return {
        "id": f"{state.ws}/{kind}/{name}/versions/{version}",
        "name": version,
        "type": f"Microsoft.MachineLearningServices/workspaces/{kind}/versions",
        "properties": inner,
        "systemData": state.system_data(modified=True),
    }


def _held(call: Call) -> dict[str, Body]:
    return call.wire.state.assets[call["kind"].lower()]


def _versions(call: Call) -> list[Body]:
    """The versions of a name, oldest first."""
    prefix = f"{call['name']}/"
    return [body for key, body in _held(call).items() if key.startswith(prefix)]


def _container(state: State, kind: str, name: str, versions: list[Body]) -> Body:
    numbers = [int(body["name"]) for body in versions if body["name"].isdigit()]
    newest = str(max(numbers)) if numbers else versions[-1]["name"]
    made = {
        "id": f"{state.ws}/{kind}/{name}",
        "name": name,
        "type": f"Microsoft.MachineLearningServices/workspaces/{kind}",
        "properties": {
            "description": None,
            "tags": {},
            "properties": {},
            "isArchived": all(body["properties"]["isArchived"] for body in versions),
            "latestVersion": newest,
            "nextVersion": str(int(newest) + 1) if newest.isdigit() else None,
        },
        "systemData": versions[0]["systemData"],
    }
    if kind == "data":
        made["properties"]["dataType"] = versions[-1]["properties"]["dataType"]
    return made


def _shown(call: Call, bodies: list[Body]) -> list[Body]:
    view = call.query.get("listViewType", "All")
    return [body for body in bodies if view == "All" or body["properties"]["isArchived"] == (view == "ArchivedOnly")]


@routes.on("GET", WS + _KIND)
def list_containers(call: Call) -> Reply:
    """The assets of a kind, by name."""
    kind = call["kind"].lower()
    by_name: dict[str, list[Body]] = {}
    for key, body in _held(call).items():
        if not body["properties"]["isAnonymous"]:
            by_name.setdefault(key.split("/")[0], []).append(body)
    found = [_container(call.wire.state, kind, name, versions) for name, versions in by_name.items()]
    return page(call, _shown(call, found))


@routes.on("GET", WS + _KIND + "/(?P<name>[^/]+)")
def get_container(call: Call) -> Reply:
    """An asset, with its newest version's number."""
    versions = _versions(call)
    if not versions:
        raise errors.not_found(_WORDS[call["kind"].lower()], call["name"])
    return Reply(body=_container(call.wire.state, call["kind"].lower(), call["name"], versions))


@routes.on("GET", WS + _KIND + "/(?P<name>[^/]+)/versions")
def list_versions(call: Call) -> Reply:
    """The versions of an asset. Code is looked for by its hash, under whatever name it was put."""
    wanted = call.query.get("hash")
    if wanted is not None:
        found = [
            body
            for body in _held(call).values()
            if (body["properties"]["properties"] or {}).get("hash_sha256") == wanted
        ]
        return page(call, found[:1])
    found = _shown(call, _versions(call))
    order = call.query.get("$orderBy", "").lower()
    if order.startswith("createdtime") or not order:
        found = sorted(found, key=lambda body: body["systemData"]["createdAt"])
        if "desc" in order or not order:
            found.reverse()
    if "$top" in call.query:
        return Reply(body={"value": found[: int(call.query["$top"])]})
    return page(call, found)


@routes.on("GET", WS + _KIND + "/(?P<name>[^/]+)/versions/(?P<version>[^/]+)")
def get_version(call: Call) -> Reply:
    """One version."""
    return Reply(body=_find(call))


def _find(call: Call) -> Body:
    found = _held(call).get(f"{call['name']}/{call['version']}")
    if found is None:
        raise errors.not_found(_WORDS[call["kind"].lower()], f"{call['name']}:{call['version']}")
    return found


@routes.on("PUT", WS + _KIND + "/(?P<name>[^/]+)/versions/(?P<version>[^/]+)")
def put_version(call: Call) -> Reply:
    """Make a version; of one that is there, only description, tags and archiving may change."""
    kind, held, state = call["kind"].lower(), _held(call), call.wire.state
    check_members(call.json, ASSETS[kind])
    if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,254}", call["name"]):
        raise errors.bad_argument(f"{_WORDS[kind]} name '{call['name']}' is invalid.", "InvalidName")
    key, given = f"{call['name']}/{call['version']}", call.json["properties"]
    old = held.get(key)
    if old is not None:
        return _change(kind, old, given)
    uri = str(given.get("modelUri") or "")
    if kind == "models":
        job = re.match(r"azureml://jobs/([^/]+)/", uri)
        if job and job[1] not in state.jobs:
            raise errors.bad_argument(f"Job {job[1]} of the model's path was not found.", "NotFound")
        if not uri:
            raise errors.invalid(("RequestInvalid", "The modelUri field is required."))
    held[key] = version_body(state, kind, call["name"], call["version"], given)
    address = f"{call.wire.resource_manager}{call.path}?api-version={call.query.get('api-version')}"
    return Reply(201, held[key], {"Location": address})


_OF_KIND = {"models": "modelUri", "codes": "codeUri", "data": "dataUri", "environments": "image"}


def _change(kind: str, old: Body, given: Body) -> Reply:
    if kind == "components" and old["properties"]["isAnonymous"]:
        return Reply(200, old)  # named by its hash, so that it is the same
    member = _OF_KIND.get(kind, "componentSpec")
    if kind != "codes" and given.get(member) is not None and given[member] != old["properties"].get(member):
        what = _WORDS[kind].lower()
        raise errors.conflict(
            f"A {what} with this name and version already exists, and its {member} cannot be changed."
        )
    for name in ("description", "tags", "isArchived", "stage", "properties"):
        if given.get(name) is not None:
            old["properties"][name] = given[name]
    return Reply(200, old)


@routes.on("DELETE", WS + _KIND + "/(?P<name>[^/]+)/versions/(?P<version>[^/]+)")
def delete_version(call: Call) -> Reply:
    """Take a version away; not a model that a deployment uses."""
    found = _find(call)
    users = [key for key, body in call.wire.state.deployments.items() if body["properties"].get("model") == found["id"]]
    if users:
        raise errors.conflict(f"Model {call['name']}:{call['version']} is used by deployment {users[0]}.")
    del _held(call)[f"{call['name']}/{call['version']}"]
    return Reply(200, None)


@routes.on("DELETE", WS + _KIND + "/(?P<name>[^/]+)")
def delete_container(call: Call) -> Reply:
    """Take all versions away."""
    for body in _versions(call):
        _held(call).pop(f"{call['name']}/{body['name']}", None)
    return Reply(200, None)


@routes.on("POST", WS + _KIND + "/(?P<name>[^/]+)/versions/(?P<version>[^/]+)/startPendingUpload")
def start_upload(call: Call) -> Reply:
    """A container of its own for an upload, with a signed address."""
    if call.json.get("pendingUploadType") != "TemporaryBlobReference":
        raise errors.invalid(("RequestInvalid", "pendingUploadType must be TemporaryBlobReference."))
    state, blobs = call.wire.state, call.wire.blobs
    container = f"{state.workspace_guid}-{new_id().replace('-', '')[:26]}"
    state.containers.add(container)
    address = blobs.address(container)
    reference = {
        "blobUri": address,
        "storageAccountArmId": state.workspaces[state.workspace_name]["properties"]["storageAccount"],
        "credential": {"credentialType": "SAS", "sasUri": f"{address}?{blobs.sas(container, 'rcwl')}"},
    }
    body = {
        "blobReferenceForConsumption": reference,
        "pendingUploadId": None,
        "pendingUploadType": "TemporaryBlobReference",
    }
    return Reply(body=body)
