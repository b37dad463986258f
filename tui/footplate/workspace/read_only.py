"""A workspace that refuses every change, whatever screen or command asks."""

from __future__ import annotations

from typing import Any, cast

from footplate.workspace.contract import Workspace
from footplate.workspace.errors import NotAllowed

CHANGES = frozenset(
    {
        "submit",
        "cancel",
        "delete_job",
        "register",
        "delete_model",
        "create_endpoint",
        "start_endpoint",
        "delete_endpoint",
        "deploy",
    }
)
"""The contract's methods that change something; all others pass through."""


class _ReadOnly:
    def __init__(self, inner: Workspace) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name not in CHANGES:
            return getattr(self._inner, name)

        async def refuse(*_: object, **__: object) -> None:
            act = name.replace("_", " ")
            raise NotAllowed(
                f"Workspace {self._inner.name!r} is open read-only: {act} is refused.", "Open it without --read-only."
            )

        return refuse


def read_only(workspace: Workspace) -> Workspace:
    """The same workspace, which raises NotAllowed for every method in `CHANGES`."""
    return cast(Workspace, _ReadOnly(workspace))
