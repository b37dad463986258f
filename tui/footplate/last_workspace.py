"""Which workspace a console opened last: the next one opens it again, where nothing says another."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from footplate import paths, settings
from footplate.workspace.errors import Invalid

_MOST_BYTES = 1000


def remembered() -> str | None:
    """The workspace that was opened last, where the settings and the environment name none and it is still in the settings.

    None where there is none, or it is the one that opens anyway. Raises Invalid for faulty settings.
    """
    try:
        with _file().open("rb") as file:
            name = file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return None
    found = settings.load() if name else settings.Settings()
    if not name or found.names_workspace or name == found.workspace:
        return None
    try:
        return found.find(name).name
    except Invalid:
        return None  # it was taken out of the settings meanwhile


def remember(name: str) -> None:
    """Keep which workspace was opened; where that cannot be written, the next console opens the usual one. Blocks."""
    with contextlib.suppress(OSError, Invalid):
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, new = tempfile.mkstemp(prefix="workspace-", dir=file.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(f"{name}\n")
        Path(new).replace(file)


def _file() -> Path:
    return paths.state() / "workspace"
