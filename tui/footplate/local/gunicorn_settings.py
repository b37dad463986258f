"""Settings of gunicorn under a scoring server that have no flag in every version; unknown ones are skipped by gunicorn."""

from __future__ import annotations

import threading
from typing import Any

# Its control socket has one path for all servers of a user, and nobody here speaks to it.
control_socket_disable = True

_NOTIFY_SECONDS = 1.0
_loaded = threading.Event()


def post_fork(_server: Any, worker: Any) -> None:
    """In a new worker: say that it is alive while it loads the model.

    gunicorn's time-out is for requests, and would end a worker whose init() takes longer than a request may.
    """

    def notify() -> None:
        while not _loaded.wait(_NOTIFY_SECONDS):
            worker.notify()

    threading.Thread(target=notify, name="loading", daemon=True).start()


def post_worker_init(_worker: Any) -> None:
    """In a worker that has loaded the model: from now on its requests are watched."""
    _loaded.set()
