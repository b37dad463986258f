"""What the signed-in principal may do in the workspace, asked of Azure itself (documented: REST Permissions - List)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from footplate.azure import errors
from footplate.azure.client import Client
from footplate.azure.reading import items, mapping, text

_VERSION = "2022-04-01"
_PROVIDER = "Microsoft.MachineLearningServices/workspaces"
_ACTIONS = {
    "create_cluster": "computes/write",
    "update_cluster": "computes/write",
    "delete_cluster": "computes/delete",
    "submit": "jobs/write",
    "cancel": "jobs/cancel/action",
    "register": "models/versions/write",
    "create_endpoint": "onlineEndpoints/write",
    "create_endpoint_from": "onlineEndpoints/write",
    "set_traffic": "onlineEndpoints/write",
    "set_mirror": "onlineEndpoints/write",
    "delete_endpoint": "onlineEndpoints/delete",
    "keys": "onlineEndpoints/listKeys/action",
    "regenerate_key": "onlineEndpoints/regenerateKeys/action",
    "deploy": "onlineEndpoints/deployments/write",
    "deploy_from": "onlineEndpoints/deployments/write",
    "scale": "onlineEndpoints/deployments/write",
    "delete_deployment": "onlineEndpoints/deployments/delete",
    "deployment_log": "onlineEndpoints/deployments/getLogs/action",
}
"""The contract's methods, and the action that each needs (documented: how-to-assign-roles)."""


class Permissions:
    """What was found out. Nothing is held against the principal before that, and a request that is refused says so anyhow."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lacking: Mapping[str, str] = {}

    async def ask(self) -> None:
        """Find out; `lacking` then maps the methods that would be refused to the reason. Raises WorkspaceError."""
        path = "/providers/Microsoft.Authorization/permissions"
        granted = await self._client.every(path, _VERSION, "your permissions")
        self.lacking = {
            method: _reason(f"{_PROVIDER}/{action}")
            for method, action in _ACTIONS.items()
            if not allows(granted, f"{_PROVIDER}/{action}")
        }


def allows(granted: Sequence[Any], action: str) -> bool:
    """Whether permissions allow an action: one of them has it among its `actions` and not among its `notActions`."""
    return any(
        _any_matches(mapping(one).get("actions"), action) and not _any_matches(mapping(one).get("notActions"), action)
        for one in granted
    )


def _any_matches(patterns: Any, action: str) -> bool:
    return any(_pattern(text(pattern)).fullmatch(action) for pattern in items(patterns))


def _pattern(written: str) -> re.Pattern[str]:
    """A star is any text; between slashes it may be nothing: `workspaces/*/write` is `workspaces/write` too."""
    escaped = re.escape(written).replace(r"/\*/", "/(?:.*/)?").replace(r"\*", ".*")
    return re.compile(escaped, re.I)


def _reason(action: str) -> str:
    return f"You lack the permission {action}: ask an owner for the role {errors.role_for(action)}, or Contributor."
