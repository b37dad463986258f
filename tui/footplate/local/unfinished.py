"""Folders in the making or on their way out, beside their place: named by the process at work, swept away when it was killed."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import time
from pathlib import Path

from footplate.local import processes

_OWNED = re.compile(r"\.(?:new|deleted)-(?P<host>.+)-(?P<pid>\d+)-(?P<started>\d+)-[0-9a-f]{16}", re.DOTALL)
_OTHERS = re.compile(r"\.(?:new|deleted)-.*", re.DOTALL)
_OTHERS_SECONDS = 24 * 3600.0
"""What another machine makes in a shared home, or an older footplate made, is left alone for so long after its last change."""


def new(parent: Path) -> Path:
    """A place in `parent` for a folder in the making; nothing is made yet."""
    return _owned(parent, "new")


def deleted(parent: Path) -> Path:
    """A place in `parent` to which a folder is renamed that goes."""
    return _owned(parent, "deleted")


def sweep(parent: Path) -> None:
    """Remove what killed processes left in `parent`; what cannot be removed stays, and is in nobody's way."""
    try:
        names = os.listdir(parent)  # noqa: PTH208 - thousands of jobs, of which no path is wanted
    except OSError:
        return
    for name in names:
        if name.startswith(".") and _is_left(parent / name):
            shutil.rmtree(parent / name, ignore_errors=True)


def _owned(parent: Path, kind: str) -> Path:
    pid = os.getpid()
    return parent / f".{kind}-{platform.node()}-{pid}-{processes.start_time(pid):.0f}-{secrets.token_hex(8)}"


def _is_left(folder: Path) -> bool:
    found = _OWNED.fullmatch(folder.name)
    if found and found["host"] == platform.node():
        return not processes.alive(int(found["pid"]), float(found["started"]))
    try:
        return bool(_OTHERS.fullmatch(folder.name)) and time.time() - folder.stat().st_mtime > _OTHERS_SECONDS
    except OSError:
        return False  # gone meanwhile
