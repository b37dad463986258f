"""Starting the gateway of an endpoint as a detached process, under a lock: two consoles never start two."""

from __future__ import annotations

import fcntl
import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from footplate.local import layout, server_log
from footplate.local.endpoint_keys import read_keys
from footplate.local.scoring_server import end_leftovers
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace.errors import Unexpected

REREAD = "/footplate/reread"
"""Where a gateway is told, with the key, that the store has changed; it answers when it follows that."""

_TELL_SECONDS = 5.0


@contextmanager
def endpoint_lock(home: Path) -> Iterator[None]:
    """Held while endpoints are created, started, changed or deleted; waits for other threads and processes.

    Raises Unexpected where the lock's file cannot be had.
    """
    path = home / "endpoints.lock"
    try:
        file = path.open("a")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        raise Unexpected(
            f"The lock {path} cannot be taken: {error.strerror or error}.",
            "Free space or mend the permissions of that folder.",
            repr(error),
        ) from error
    with file:
        yield


def tell_gateway(home: Path, endpoint: str, port: int) -> None:
    """Return when the gateway follows the store as it is now; where it does not answer, it will within its next looks."""
    key = read_keys(layout.endpoint_folder(home, endpoint)).primary
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TELL_SECONDS)
    try:
        connection.request("POST", REREAD, headers={"Authorization": f"Bearer {key}"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return  # it is starting, or stands still: the store has what it is to do
    finally:
        connection.close()


def start_gateway(store: Store, endpoint: str, kept_port: int | None, settings: Settings) -> None:
    """Start the gateway and return when it has claimed the endpoint; the caller holds the lock and knows that none runs.

    Raises Unexpected with the log's last line where it does not come up.
    """
    try:
        _start(store, endpoint, kept_port, settings)
    except OSError as error:
        raise Unexpected(
            f"The gateway of endpoint {endpoint!r} cannot be started: {error}.",
            "Free space or mend the permissions, then start it again.",
            repr(error),
        ) from error


def _start(store: Store, endpoint: str, kept_port: int | None, settings: Settings) -> None:
    folder = layout.endpoint_folder(store.home, endpoint)
    end_leftovers(folder)
    log_file = folder / "gateway.log"
    begin = log_file.stat().st_size if log_file.exists() else 0
    # The gateway reads the settings by itself; these may have been given to this console alone.
    given = {"FOOTPLATE_LOCAL_PYTHON": settings.local.python, "FOOTPLATE_SERVING_PYTHON": settings.serving.python}
    with _listen(kept_port) as listening, log_file.open("ab") as output:
        fd = listening.fileno()
        # -P: a file in the current folder must not stand in for a module.
        command = [sys.executable, "-P", "-m", "footplate.local.gateway", str(store.home), endpoint, str(fd)]
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            pass_fds=(fd,),
            env={**os.environ, **given},
        ) as started:
            said = started.stdout.readline() if started.stdout else b""
    if said.strip() != b"ready":
        reason = server_log.reason(log_file, begin) or "it said nothing"
        raise Unexpected(
            f"The gateway of endpoint {endpoint!r} did not start: {reason.rstrip('.')}.",
            f"Its log is {log_file}.",
            reason,
        )


def _listen(kept_port: int | None) -> socket.socket:
    """A listening socket on 127.0.0.1: on the port it had before where that is free, else on any."""
    if kept_port:
        try:
            return socket.create_server(("127.0.0.1", kept_port), backlog=1024)
        except OSError:
            return socket.create_server(("127.0.0.1", 0), backlog=1024)
    return socket.create_server(("127.0.0.1", 0), backlog=1024)
