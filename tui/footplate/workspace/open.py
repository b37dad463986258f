"""From a workspace's kind to its class, loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from footplate import settings as settings_module
from footplate.workspace.contract import Workspace
from footplate.workspace.errors import Invalid
from footplate.workspace.read_only import read_only

_KINDS = {
    "local": "footplate.local.workspace:LocalWorkspace",
    "azure": "footplate.azure.workspace:AzureWorkspace",
}


def open_workspace(name: str | None = None, settings: settings_module.Settings | None = None) -> Workspace:
    """Open a workspace by its name in the settings (default: the settings' own choice, at first `local`).

    It refuses every change where its settings say `read_only`. Raises Invalid when there is no such workspace or kind,
    or its settings are faulty, and what opening it raises.
    """
    settings = settings or settings_module.load()
    wanted = settings.find(name or settings.workspace)
    check_kind(wanted)
    module, _, attribute = _KINDS[wanted.kind].partition(":")
    opener = getattr(import_module(module), attribute)
    workspace = cast(Workspace, opener(wanted.name, settings))
    if wanted.read_only:
        return read_only(workspace, f"Take read_only out of [workspaces.{wanted.name}] in the settings to change it.")
    return workspace


def check_kind(wanted: settings_module.WorkspaceSettings) -> None:
    """Raise Invalid for a workspace of a kind that is not known."""
    if wanted.kind not in _KINDS:
        raise Invalid(
            f"Workspace {wanted.name!r} is of kind {wanted.kind!r}, which this version cannot open.",
            f"Known kinds: {', '.join(_KINDS)}.",
        )
