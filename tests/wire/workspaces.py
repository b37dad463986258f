"""Subscriptions, workspaces, and the discovery of the services beside the resource manager."""

from __future__ import annotations

from tests.wire.errors import resource_not_found
from tests.wire.http import SUB, WS, Call, Refusal, Reply, Routes
from tests.wire.paging import page
from tests.wire.state import Body, State

routes = Routes()
TENANT = "00000000-0000-0000-0000-0000000000aa"


def workspace_body(state: State, name: str, api: str) -> Body:
    """A workspace as the service answers."""
    providers = f"/subscriptions/{state.subscription_id}/resourceGroups/{state.resource_group}/providers"
    ws = f"{providers}/Microsoft.MachineLearningServices/workspaces/{name}"
    return {
        "id": ws,
        "name": name,
        "type": "Microsoft.MachineLearningServices/workspaces",
        "location": state.location,
        "tags": {},
        "etag": None,
        "properties": {
            "friendlyName": name,
            "description": "",
            "storageAccount": f"{providers}/Microsoft.Storage/storageAccounts/acct",
            "keyVault": f"{providers}/Microsoft.Keyvault/vaults/kv",
            "applicationInsights": f"{providers}/Microsoft.insights/components/ai",
            "hbiWorkspace": False,
            "tenantId": TENANT,
            "imageBuildCompute": None,
            "provisioningState": "Succeeded",
            "managedNetwork": {
                "changeableIsolationModes": ["AllowInternetOutbound", "AllowOnlyApprovedOutbound"],
                "isolationMode": "Disabled",
                "enableNetworkMonitor": False,
                "enableFirewallLog": False,
            },
            "allowRoleAssignmentOnRG": True,
            "v1LegacyMode": False,
            "softDeleteEnabled": False,
            "containerRegistry": f"{providers}/Microsoft.ContainerRegistry/registries/cr",
            "creationTime": state.stamp(),
            "notebookInfo": {
                "resourceId": "5b5333e35d5e474ba5fadb5c6d98faf7",
                "fqdn": f"ml-{name}-{state.location}-{state.workspace_guid}.{state.location}.notebooks.azure.net",
                "isPrivateLinkEnabled": False,
                "notebookPreparationError": None,
            },
            "storageHnsEnabled": False,
            "workspaceId": state.workspace_guid,
            "linkedModelInventoryArmId": None,
            "privateLinkCount": 0,
            "publicNetworkAccess": "Enabled",
            "ipAllowlist": [],
            "networkAcls": {"defaultAction": "Allow", "bypass": "", "ipRules": [], "resourceAccessRules": []},
            "discoveryUrl": f"{api}/discovery",
            "mlFlowTrackingUri": f"azureml://{api.removeprefix('https://')}/mlflow/v1.0{ws}",
            "serverlessComputeSettings": None,
            "EnableSoftwareBillOfMaterials": False,
            "sdkTelemetryAppInsightsKey": "00000000-0000-0000-0000-000000000000",
            "enableDataIsolation": False,
            "systemDatastoresAuthMode": "accesskey",
            "enableServiceSideCMKEncryption": False,
        },
        "identity": {"type": "SystemAssigned", "principalId": TENANT, "tenantId": TENANT},
        "kind": "Default",
        "sku": {"name": "Basic", "tier": "Basic"},
        "systemData": state.system_data(modified=True),
    }


@routes.on("GET", "/subscriptions")
def subscriptions(call: Call) -> Reply:
    """The subscriptions that the principal sees."""
    state = call.wire.state
    named = {
        state.subscription_id: "Pay-As-You-Go",
        **{key: name for key, (name, _) in state.other_subscriptions.items()},
    }
    return page(call, [_subscription(identity, name) for identity, name in named.items()])


def _subscription(identity: str, name: str) -> Body:
    return {
        "id": f"/subscriptions/{identity}",
        "authorizationSource": "RoleBased",
        "managedByTenants": [],
        "subscriptionId": identity,
        "tenantId": TENANT,
        "displayName": name,
        "state": "Enabled",
        "subscriptionPolicies": {
            "locationPlacementId": "Public_2014-09-01",
            "quotaId": "PayAsYouGo_2014-09-01",
            "spendingLimit": "Off",
        },
    }


@routes.on("GET", "/tenants")
def tenants(call: Call) -> Reply:
    """The tenants that the principal sees."""
    return Reply(body={"value": [{"id": f"/tenants/{TENANT}", "tenantId": TENANT, "displayName": "Example"}]})


@routes.on("GET", SUB + r"/resourceGroups")
def resource_groups(call: Call) -> Reply:
    """The resource groups of a subscription."""
    state = call.wire.state
    one = {
        "id": f"/subscriptions/{state.subscription_id}/resourceGroups/{state.resource_group}",
        "name": state.resource_group,
        "type": "Microsoft.Resources/resourceGroups",
        "location": state.location,
        "properties": {"provisioningState": "Succeeded"},
    }
    return Reply(body={"value": [one]})


@routes.on(
    "GET", SUB + r"(?:/resourceGroups/(?P<group>[^/]+))?/providers/Microsoft\.MachineLearningServices/workspaces"
)
def list_workspaces(call: Call) -> Reply:
    """The workspaces of a subscription or a resource group."""
    state = call.wire.state
    if call["subscription"] in state.other_subscriptions:
        name, listed = state.other_subscriptions[call["subscription"]]
        if listed is None:
            text = f"The client does not have authorization to perform action over scope of {name}."
            raise Refusal(403, "AuthorizationFailed", text, plain=True)
        return page(call, listed)
    return page(call, list(state.workspaces.values()))


@routes.on("GET", WS)
def get_workspace(call: Call) -> Reply:
    """One workspace."""
    return Reply(body=call.wire.state.workspaces[call["workspace"]])


@routes.on("GET", "/discovery(?:/.*)?")
def discovery(call: Call) -> Reply:
    """Where the services of the workspace are."""
    api = call.wire.api
    names = ("api", "history", "experimentation", "catalog", "modelmanagement", "notebook", "gallery", "studio")
    return Reply(body=dict.fromkeys(names, api))


def check_scope(call: Call) -> None:
    """Refuse a path with a subscription, group or workspace that is not there; which of them, the code tells."""
    state, parts = call.wire.state, call.parts
    subscription, group = parts.get("subscription"), parts.get("group")
    if subscription in state.other_subscriptions and "workspace" not in parts:
        return
    if subscription is not None and subscription.lower() != state.subscription_id.lower():
        text = f"The subscription '{subscription}' could not be found."
        raise Refusal(404, "SubscriptionNotFound", text, plain=True)
    if group is not None and group.lower() != state.resource_group.lower():
        raise Refusal(404, "ResourceGroupNotFound", f"Resource group '{group}' could not be found.", plain=True)
    workspace = parts.get("workspace")
    if workspace is not None and workspace not in state.workspaces:
        raise resource_not_found("workspaces", workspace, str(group))
