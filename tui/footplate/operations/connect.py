"""Write a workspace into the settings file, with its comments and order kept."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from footplate.settings import Settings
from footplate.workspace.errors import Invalid
from footplate.workspace.names import next_name

_ADDRESS = ("subscription_id", "resource_group", "workspace_name", "resource_manager", "cloud")
_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")


def known_name(settings: Settings, table: Mapping[str, str | bool]) -> str | None:
    """The name under which the settings have that workspace already; None where they have not."""
    wanted = [str(table.get(key, "")).lower() for key in _ADDRESS]
    for name, known in settings.workspaces.items():
        if known.get("kind") == "azure" and [str(known.get(key, "")).lower() for key in _ADDRESS] == wanted:
            return name
    return None


def free_name(settings: Settings, wanted: str) -> str:
    """A name for the settings that is not taken, after what the workspace is called: `birds`, else `birds-2`."""
    name = _PLAIN.sub("-", wanted).strip("-") or "azure"
    while name == "local" or name in settings.workspaces:
        name = next_name(name)
    return name


def write(file: Path, name: str, table: Mapping[str, str | bool]) -> None:
    """Put the keys into `[workspaces.NAME]`, whole or not at all; what else the file says stays as it is written.

    Raises Invalid where the file cannot be read or written.
    """
    import tomlkit  # seldom needed
    from tomlkit.exceptions import TOMLKitError

    file = file.resolve()  # of a link, what it leads to is written
    try:
        document = tomlkit.parse(file.read_text(encoding="utf-8") if file.exists() else "")
        workspaces = document.setdefault("workspaces", tomlkit.table(is_super_table=True))
        if name not in workspaces:
            workspaces[name] = tomlkit.table()
        for key, value in table.items():
            workspaces[name][key] = value
        text = tomlkit.dumps(document)
    except (OSError, UnicodeDecodeError, TOMLKitError, TypeError) as error:
        raise Invalid(f"The settings file {file} cannot be changed: {error}.", "Mend it, then choose again.") from error
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        with os.fdopen(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        new.replace(file)
    except OSError as error:
        new.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise Invalid(
            f"The settings file {file} cannot be written: {reason}.", "Mend that, then choose again."
        ) from error
