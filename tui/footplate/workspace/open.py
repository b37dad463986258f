"""From a workspace's kind to its class, loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from footplate import settings as settings_module
from footplate.workspace.contract import Workspace
from footplate.workspace.errors import Invalid

_KINDS = {"local": "footplate.local.workspace:LocalWorkspace"}


def open_workspace(name: str | None = None, settings: settings_module.Settings | None = None) -> Workspace:
    """Open a workspace by its name in the settings (default: the settings' own choice, at first `local`).

    Raises Invalid when there is no such workspace or kind, and what opening it raises.
    """
    settings = settings or settings_module.load()
    wanted = settings.find(name or settings.workspace)
    if wanted.kind not in _KINDS:
        raise Invalid(
            f"Workspace {wanted.name!r} is of kind {wanted.kind!r}, which this version cannot open.",
            f"Known kinds: {', '.join(_KINDS)}.",
        )
    module, _, attribute = _KINDS[wanted.kind].partition(":")
    opener = getattr(import_module(module), attribute)
    return cast(Workspace, opener(wanted.name, settings))
