"""A registry of shared assets: read only."""

from __future__ import annotations

from tests.wire import errors
from tests.wire.http import SUB, Call, Reply, Routes

routes = Routes()


@routes.on("GET", r"/registrymanagement/v1\.0/registries/(?P<registry>[^/]+)/discovery")
def registry_discovery(call: Call) -> Reply:
    """Where a registry is."""
    wire = call.wire
    body = {
        "registryName": call["registry"],
        "subscriptionId": wire.subscription_id,
        "resourceGroup": wire.resource_group,
        "primaryRegion": wire.state.location,
        "primaryRegionResourceProviderUri": f"{wire.resource_manager}/",
        "workspaceId": wire.state.workspace_guid,
    }
    return Reply(body=body)


_REGISTRY = (
    SUB
    + r"/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.MachineLearningServices/registries/(?P<registry>[^/]+)"
)


@routes.on("GET", _REGISTRY + r"/(?P<kind>\w+)" + "/(?P<name>[^/]+)/versions")
def registry_versions(call: Call) -> Reply:
    """The versions of a registry's asset, newest first."""
    held = call.wire.state.registry_assets.get(call["kind"].lower(), {})
    found = [body for key, body in held.items() if key.startswith(f"{call['registry']}/{call['name']}/")]
    found.reverse()
    if "$top" in call.query:
        found = found[: int(call.query["$top"])]
    return Reply(body={"value": found})


@routes.on("GET", _REGISTRY + r"/(?P<kind>\w+)" + "/(?P<name>[^/]+)/versions/(?P<version>[^/]+)")
def registry_version(call: Call) -> Reply:
    """One version of a registry's asset."""
    key = f"{call['registry']}/{call['name']}/{call['version']}"
    found = call.wire.state.registry_assets.get(call["kind"].lower(), {}).get(key)
    if found is None:
        raise errors.not_found("Asset", key)
    return Reply(body=found)
