"""Datastores, and the signatures that stand for their secrets."""

from __future__ import annotations

from tests.wire import errors
from tests.wire.http import WS, Call, Refusal, Reply, Routes
from tests.wire.paging import page
from tests.wire.state import Body, State

routes = Routes()


def datastore_body(state: State, name: str, container: str, endpoint: str, *, default: bool = False) -> Body:
    """A blob datastore as the service answers."""
    return {
        "id": f"{state.ws}/datastores/{name}",
        "name": name,
        "type": "Microsoft.MachineLearningServices/workspaces/datastores",
        "properties": {
            "description": None,
            "tags": None,
            "properties": None,
            "isDefault": default,
            "credentials": {"credentialsType": "AccountKey"},
            "subscriptionId": state.subscription_id,
            "resourceGroup": state.resource_group,
            "datastoreType": "AzureBlob",
            "accountName": "acct",
            "containerName": container,
            "endpoint": endpoint,
            "protocol": "https",
            "serviceDataAccessAuthIdentity": "WorkspaceSystemAssignedIdentity",
        },
        "systemData": state.system_data(modified=True),
    }


def _datastore(call: Call) -> Body:
    found = call.wire.state.datastores.get(call["name"])
    if found is None:
        raise errors.not_found("DataStore", call["name"])
    return found


@routes.on("GET", WS + "/datastores")
def list_datastores(call: Call) -> Reply:
    """The datastores."""
    found = list(call.wire.state.datastores.values())
    if call.query.get("isDefault", "").lower() == "true":
        found = [body for body in found if body["properties"]["isDefault"]]
    return page(call, found)


@routes.on("GET", WS + "/datastores/(?P<name>[^/]+)")
def get_datastore(call: Call) -> Reply:
    """One datastore."""
    return Reply(body=_datastore(call))


@routes.on("POST", WS + "/datastores/(?P<name>[^/]+)/listSecrets")
def list_secrets(call: Call) -> Reply:
    """A signature for the datastore's account; refused where it works with identities."""
    credentials = _datastore(call)["properties"]["credentials"]["credentialsType"]
    if credentials == "None":
        raise Refusal(400, "UserError", f"Datastore {call['name']} has no secrets: it is accessed with identities.")
    hours = int(call.json.get("expireAfterHours") or 1)
    token = call.wire.blobs.sas("", "rcuwdl", hours * 3600.0)
    return Reply(body={"secretsType": "Sas", "sasToken": f"?{token}"})
