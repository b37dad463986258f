"""Starts the detached process that looks after one job."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

from footplate import mounts
from footplate.local import layout, processes
from footplate.local.store import Store


def start(db: sqlite3.Connection, store: Store, name: str, folder: Path | None = None) -> None:
    """Start the process that looks after a job from now on, and write down which it is.

    Within the transaction that writes the job's record, or that found its last one gone: the process's first act waits for it,
    and where the record does not name the process in the end, it does nothing. `folder` is where the job's folder lies now, if
    not yet in its place. Raises OSError where it cannot be started.
    """
    kind = db.execute("SELECT type FROM job WHERE name = ?", (name,)).fetchone()[0]
    folder = folder or layout.job_folder(store.home, name)
    with (folder / "system_logs" / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            # -P: what lies in the folder where the console was started is no module of ours
            [sys.executable, "-P", "-m", "footplate.local.supervisor", str(store.home), name, kind],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # no terminal
            env=dict(os.environ),
        )
    # Somebody has to take its exit code if this process lives longer; nobody waits for it.
    threading.Thread(target=process.wait, name=f"reap {process.pid}", daemon=True).start()
    db.execute(
        "UPDATE job SET supervisor_pid = ?, supervisor_started = ?, host = ? WHERE name = ?",
        (process.pid, processes.start_time(process.pid), _host(store.home), name),
    )


def _host(home: Path) -> str:
    """This machine's name, where other machines may share the home and cannot see this one's processes; else empty."""
    return platform.node() if mounts.on_network(home) else ""
