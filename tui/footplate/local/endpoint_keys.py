"""An endpoint's keys on this machine: a file that its owner alone can read."""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
from pathlib import Path

from footplate.local.files import flush
from footplate.workspace.errors import Invalid, Unexpected
from footplate.workspace.serving import Keys

_FILE = "keys.json"
_NAMES = {"primary": "primaryKey", "secondary": "secondaryKey"}

log = logging.getLogger("footplate.gateway")


def write_keys(folder: Path) -> None:
    """Draw two keys into an endpoint's folder."""
    _write(folder, {name: _new_key() for name in _NAMES.values()})


def regenerate_key(folder: Path, key: str) -> Keys:
    """Draw the `primary` or `secondary` key anew; the gateway refuses the old one from then on. Raises Invalid, Unexpected."""
    if key not in _NAMES:
        raise Invalid(f"{key!r} is none of an endpoint's keys.", "They are primary and secondary.")
    keys = read_keys(folder)
    document = {"primaryKey": keys.primary, "secondaryKey": keys.secondary, _NAMES[key]: _new_key()}
    try:
        _write(folder, document)
    except OSError as error:
        raise Unexpected(
            f"The keys of endpoint {folder.name!r} cannot be written: {error.strerror or error}.",
            "Free space or mend the permissions; the old keys hold.",
            repr(error),
        ) from error
    return read_keys(folder)


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


class KeyRing:
    """The keys that a gateway takes: read again as soon as their file is another, which costs a look at it a request."""

    def __init__(self, folder: Path) -> None:
        """Raises Unexpected where the file is gone or damaged."""
        self._folder = folder
        self._stamp = self._look()
        self._keys = read_keys(folder)

    def opens(self, authorization: str) -> bool:
        """Whether a request's Authorization header holds one of the keys."""
        stamp = self._look()
        if stamp is not None and stamp != self._stamp:
            try:
                self._keys = read_keys(self._folder)
                self._stamp = stamp
            except Unexpected as error:  # it is written whole, so somebody damaged it: the keys that were hold
                log.warning("%s", error)
        given = authorization.encode("utf-8", "surrogateescape")
        wanted = (f"Bearer {key}".encode() for key in (self._keys.primary, self._keys.secondary))
        # Both are always compared, so that the time taken tells nothing.
        return sum(hmac.compare_digest(given, key) for key in wanted) > 0

    def _look(self) -> tuple[int, int] | None:
        try:
            found = (self._folder / _FILE).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def _new_key() -> str:
    return secrets.token_urlsafe(32)


def _write(folder: Path, document: dict[str, str]) -> None:
    new = folder / f"{_FILE}.new"
    new.unlink(missing_ok=True)  # of a writer that was killed
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file)
    flush(new)
    new.replace(folder / _FILE)
