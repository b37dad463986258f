"""The server in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.wire.server import WireServer


@contextmanager
def running_server(prepare: Callable[[WireServer], None] | None = None, **options: Any) -> Iterator[WireServer]:
    """A server in a thread of its own, for tests that run in another loop, or in none."""
    wire = WireServer(**options)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="wire", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(wire.start(), loop).result(30)
        if prepare:
            prepare(wire)
        yield wire
        asyncio.run_coroutine_threadsafe(wire.stop(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
