"""What the signed-in principal may do: the permissions it reads, and the 403 of an action that its role has not."""

from __future__ import annotations

import re
from typing import Any

from tests.wire.http import WS, Call, Refusal, Reply, Routes

routes = Routes()
_PROVIDER = "Microsoft.MachineLearningServices/workspaces"
ROLES: dict[str, dict[str, list[str]]] = {
    "Contributor": {"actions": ["*"], "notActions": ["Microsoft.Authorization/*/Write"]},
    "AzureML Data Scientist": {
        "actions": [f"{_PROVIDER}/*/{verb}" for verb in ("read", "action", "delete", "write")],
        "notActions": [
            f"{_PROVIDER}/delete",
            f"{_PROVIDER}/write",
            f"{_PROVIDER}/computes/*/write",
            f"{_PROVIDER}/computes/*/delete",
            f"{_PROVIDER}/computes/listKeys/action",
            f"{_PROVIDER}/listKeys/action",
        ],
    },
    "Reader": {"actions": ["*/read"], "notActions": []},
}
"""Built-in roles as documented, as far as they are about a workspace."""
_VERBS = {"GET": "read", "HEAD": "read", "PUT": "write", "PATCH": "write", "DELETE": "delete"}


@routes.on("GET", WS + r"/providers/Microsoft\.Authorization/permissions")
def list_permissions(call: Call) -> Reply:
    """One entry a role."""
    entry: dict[str, Any] = {**ROLES[call.wire.role], "dataActions": [], "notDataActions": []}
    return Reply(body={"value": [entry]})


def check_action(call: Call) -> None:
    """Refuse what the role has not."""
    found = re.fullmatch(rf"{WS}(?P<rest>/.*)?", call.path, re.I)
    if found is None or "/providers/Microsoft.Authorization/" in call.path:
        return
    rest = (found["rest"] or "").strip("/").split("/")
    kinds, verb = rest[::2], _VERBS.get(call.method)
    if verb is None:  # a POST: the last part is the act
        verb = "action"
        kinds = [*rest[: len(rest) - 1][::2], rest[-1]]
    action = "/".join(part for part in (_PROVIDER, *kinds, verb) if part)
    role = ROLES[call.wire.role]
    if _matches(role["actions"], action) and not _matches(role["notActions"], action):
        return
    raise Refusal(
        403,
        "AuthorizationFailed",
        "The client 'someone@example.org' with object id '00000000-0000-0000-0000-00000000000a' does not have "
        f"authorization to perform action '{action}' over scope '{call.path}' or the scope is invalid. If access was "
        "recently granted, please refresh your credentials.",
        plain=True,
    )


def _matches(patterns: list[str], action: str) -> bool:
    """A star is any text, between slashes also none."""
    for pattern in patterns:
        wild = re.escape(pattern).replace(r"/\*/", "/(.*/)?").replace(r"\*", ".*")
        if re.fullmatch(wild, action, re.I):
            return True
    return False
