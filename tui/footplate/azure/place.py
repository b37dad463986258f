"""Which Azure ML workspace: from the settings, the environment, or a `config.json` as Azure ML's own clients read it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from urllib.parse import quote

from footplate.settings import AzureSettings
from footplate.workspace.errors import Invalid, Unnamed

_VARIABLES = (
    ("SUBSCRIPTION_ID", "RESOURCE_GROUP", "WORKSPACE_NAME"),  # the names in Microsoft's articles
    ("AZUREML_ARM_SUBSCRIPTION", "AZUREML_ARM_RESOURCEGROUP", "AZUREML_ARM_WORKSPACE_NAME"),  # set inside a job
)
_FOLDERS = (".azureml", "aml_config", "")
_FILES = ("config.json", "project.json")
_LEVELS = 20  # as azure-ai-ml's MLClient.from_config has it, with its order of folders and files


@dataclass(frozen=True)
class Place:
    """A workspace's three names, and what said them."""

    subscription_id: str
    resource_group: str
    workspace_name: str
    said_by: str = ""

    @property
    def path(self) -> str:
        """The workspace's path at the resource manager, as in `/subscriptions/…/workspaces/NAME`."""
        subscription, group, name = (
            quote(part, safe="") for part in (self.subscription_id, self.resource_group, self.workspace_name)
        )
        return (
            f"/subscriptions/{subscription}/resourceGroups/{group}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{name}"
        )

    @property
    def subscription_path(self) -> str:
        """The subscription's path at the resource manager."""
        return f"/subscriptions/{quote(self.subscription_id, safe='')}"


def find(
    settings: AzureSettings, name: str, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Place:
    """The workspace of `[workspaces.NAME]`; what the table leaves open is taken from the first source that has all three.

    Sources: a `config.json` in `folder` (default: the current one) or above, the environment. Raises Unnamed where there is none,
    Invalid for one that cannot be read.
    """
    given = (settings.subscription_id, settings.resource_group, settings.workspace_name)
    if all(given):
        return Place(*given, said_by="the settings")
    for found, said_by in _elsewhere(folder, environment):
        subscription, group, workspace = (mine or theirs for mine, theirs in zip(given, found, strict=True))
        return Place(subscription, group, workspace, said_by)
    raise Unnamed(
        f"Workspace {name!r} does not say which Azure ML workspace it is.",
        f"The console lists those that there are: footplate --workspace {name}. Or write subscription_id, resource_group and"
        f" workspace_name into [workspaces.{name}], set SUBSCRIPTION_ID, RESOURCE_GROUP and WORKSPACE_NAME, or work in a"
        " folder with the workspace's config.json.",
        workspace=name,
    )


def _elsewhere(folder: Path | None, environment: Mapping[str, str]) -> Iterator[tuple[tuple[str, str, str], str]]:
    file = config_file(folder or Path.cwd())
    if file is not None:
        yield _read(file), str(file)
    for names in _VARIABLES:
        subscription, group, workspace = (environment.get(variable, "") for variable in names)
        if subscription and group and workspace:
            yield (subscription, group, workspace), ", ".join(names)


def config_file(folder: Path) -> Path | None:
    """The `config.json` in a folder or above it, if there is one."""
    above = [folder.absolute(), *folder.absolute().parents][: _LEVELS + 1]
    for inside, name in product(_FOLDERS, _FILES):
        for level in above:
            if (found := level / inside / name).is_file() and (inside or _of_azure(found)):
                return found
    return None


def _of_azure(file: Path) -> bool:
    """Whether a plain `config.json`, a name that many programs use, is Azure ML's."""
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and ("Scope" in content or "workspace_name" in content)


def _read(file: Path) -> tuple[str, str, str]:
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(f"{file} cannot be read: {error}.", "Mend it, or name the workspace in the settings.") from error
    if isinstance(content, dict):
        parts = str(content.get("Scope") or "").split("/")
        if len(parts) > 8:
            return parts[2], parts[4], parts[8]
        found = tuple(str(content.get(key) or "") for key in ("subscription_id", "resource_group", "workspace_name"))
        if len(found) == 3 and all(found):
            return found[0], found[1], found[2]
    raise Invalid(
        f"{file} has no subscription_id, resource_group and workspace_name.",
        "Download it again from the studio, or name the workspace in the settings.",
    )
