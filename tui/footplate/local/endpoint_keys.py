"""An endpoint's keys on this machine: a file that its owner alone can read."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from footplate.workspace.errors import Unexpected
from footplate.workspace.model import Keys

_FILE = "keys.json"


def write_keys(folder: Path) -> None:
    """Draw two keys into an endpoint's folder."""
    document = {"primaryKey": secrets.token_urlsafe(32), "secondaryKey": secrets.token_urlsafe(32)}
    descriptor = os.open(folder / _FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file)


def read_keys(folder: Path) -> Keys:
    """The keys in an endpoint's folder. Raises Unexpected where the file is gone or damaged."""
    path = folder / _FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Keys(primary=str(document["primaryKey"]), secondary=str(document["secondaryKey"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unexpected(
            f"The keys of endpoint {folder.name!r} cannot be read from {path}.",
            "Delete the endpoint and create it again.",
            repr(error),
        ) from error
