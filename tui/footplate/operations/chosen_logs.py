"""Which of a job's logs was looked at last, and which ranks were muted: kept for the next console."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST = 500
"""Jobs that are remembered."""


@dataclass(frozen=True)
class Chosen:
    """A log file's path, or `all` for all ranks interleaved; and the tags of the ranks that are left out of those."""

    file: str
    muted: frozenset[str] = frozenset()


class ChosenLogs:
    """The choices by job, in one small file. `owner` tells workspaces apart. All of it blocks: call it in a thread."""

    def __init__(self, file: Path, owner: str) -> None:
        self._file = file
        self._owner = owner

    def of(self, job: str) -> Chosen | None:
        """What was chosen for a job; None where nothing was, or the file cannot be read."""
        found = self._read().get(self._key(job))
        if not isinstance(found, Mapping) or not isinstance(found.get("file"), str):
            return None
        muted = found.get("muted")
        return Chosen(found["file"], frozenset(map(str, muted)) if isinstance(muted, list) else frozenset())

    def keep(self, job: str, chosen: Chosen) -> None:
        """Remember a choice, and forget the oldest where there are too many. Raises OSError where it cannot be written."""
        known = self._read()
        known.pop(self._key(job), None)
        known[self._key(job)] = {"file": chosen.file, "muted": sorted(chosen.muted)}
        kept = dict(list(known.items())[-MOST:])
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self._file.with_suffix(f".{os.getpid()}.new")
        new.write_text(json.dumps(kept), encoding="utf-8")
        new.replace(self._file)

    def _key(self, job: str) -> str:
        return f"{self._owner}/{job}"

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none yet, or one that was damaged: nothing hangs on it
            return {}
        return found if isinstance(found, dict) else {}
