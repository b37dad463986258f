"""Signs of life of jobs in a home that machines share: only the machine that runs a job can see its processes.

A supervisor touches a file in its job's folder; who looks touches one beside the store. Both times are the file server's, so
clocks of machines that differ tell nothing wrong.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from footplate import words
from footplate.local import layout

LEASE_SECONDS = 180.0
"""A job whose supervisor gave no sign for so long is shown as NotResponding."""
_BEAT_SECONDS = 20.0
_FILE, _CLOCK = ".heartbeat", ".clock"


def beat(folder: Path) -> None:
    """Touch the job's file now and, in a thread, for as long as this process lives."""

    def touch() -> None:
        while True:
            _touch(folder / _FILE)
            time.sleep(_BEAT_SECONDS)

    threading.Thread(target=touch, name="heartbeat", daemon=True).start()


def silent(db: sqlite3.Connection, home: Path, names: Iterable[str]) -> dict[str, str]:
    """Of jobs that go on, those whose machine, another than this, gives no sign of life: by name, what is to be said of it."""
    wanted = frozenset(names)
    query = "SELECT name, host FROM job WHERE ended IS NULL AND host NOT IN ('', ?)"
    elsewhere = [(name, host) for name, host in db.execute(query, (platform.node(),)) if name in wanted]
    now = _touch(home / _CLOCK) if elsewhere else None
    if now is None:
        return {}
    found = {}
    for name, host in elsewhere:
        folder = layout.job_folder(home, name)
        # Of a job that was submitted a moment ago, the folder's own time counts.
        last = _modified(folder / _FILE) or _modified(folder)
        if last is not None and now - last > LEASE_SECONDS:
            found[name] = (
                f"Nothing was heard of {host}, the machine that runs it, for {words.span(now - last)}. If it does not come back: "
                f"footplate cancel {name} --force"
            )
    return found


def _touch(file: Path) -> float | None:
    """The file server's time now; None where it cannot be told."""
    try:
        try:
            os.utime(file)
        except FileNotFoundError:
            file.touch()
        return file.stat().st_mtime
    except OSError:
        return None


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
