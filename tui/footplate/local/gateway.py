"""The gateway of one endpoint: `python -m footplate.local.gateway HOME ENDPOINT SOCKET_FD`, detached from its console.

It inherits a listening socket on 127.0.0.1, claims the endpoint in the store and says `ready` on standard output. From then on it
follows the store: a new deployment gets a scoring server, a changed traffic split is taken over, `Deleting` ends it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from footplate import settings as settings_module
from footplate.local import endpoint_rows, layout
from footplate.local.endpoint_keys import read_keys
from footplate.local.scoring_server import REQUEST_SECONDS, ScoringServer
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace.errors import Unexpected, WorkspaceError
from footplate.workspace.model import Keys

if TYPE_CHECKING:
    from footplate.local.gateway_http import Router

POLL_SECONDS = 0.25
BUSY_SECONDS = 2.0
"""How long a locked store is waited for while serving; it is tried again at the next poll."""

log = logging.getLogger("footplate.gateway")


@dataclass(frozen=True)
class _Kept:
    """A deployment's server and the task that keeps it up."""

    server: ScoringServer
    task: asyncio.Task[None]


class Gateway:
    """The servers of an endpoint's deployments, and the router in front of them.

    A store that is locked, full or damaged for a while ends nothing: the endpoint serves on as it is until it can be read.
    """

    def __init__(self, store: Store, endpoint: str, keys: Keys, settings: Settings) -> None:
        self._store = store
        self._endpoint = endpoint
        self._keys = keys
        self._settings = settings
        self._kept: dict[str, _Kept] = {}
        self._ending = asyncio.Event()

    async def serve(self, listening: socket.socket) -> None:
        """Serve until SIGTERM, or until the endpoint is being deleted, is gone, or belongs to another gateway."""
        # Imported only now: the console waits until the gateway is ready, and requests wait in the socket's queue.
        from aiohttp import web

        from footplate.local.gateway_http import Router

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._ending.set)
        router = Router(self._endpoint, self._keys, REQUEST_SECONDS)
        runner = web.AppRunner(router.application(), access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        try:
            await self._follow(router)
        finally:
            await asyncio.gather(runner.cleanup(), self._end(self._kept))

    async def _follow(self, router: Router) -> None:
        while not self._ending.is_set():
            await asyncio.gather(*(kept.server.flush() for kept in self._kept.values()))
            # A task that ends while the store is read may have written after that: it is looked at next time.
            ended = {name for name, kept in self._kept.items() if kept.task.done() and kept.server.recorded}
            try:
                wanted = await asyncio.to_thread(endpoint_rows.wanted, self._store, self._endpoint)
            except Unexpected as error:
                log.warning("the store could not be read: %s", error)
            else:
                if wanted is None:
                    return
                await self._adopt(wanted, ended)
                router.backends = {name: kept.server for name, kept in self._kept.items()}
                router.traffic = wanted.traffic
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._ending.wait()
            except TimeoutError:
                continue

    async def _adopt(self, wanted: endpoint_rows.Wanted, ended: set[str]) -> None:
        """Start a server for each new deployment and each that was asked for again; end those that were removed."""
        again = {name for name in ended if wanted.states.get(name) == "Creating"}
        gone = {name for name, kept in self._kept.items() if wanted.models.get(name) != kept.server.model}
        await self._end({name: self._kept.pop(name) for name in again | gone})
        for name, model in wanted.models.items():
            if name in self._kept or (wanted.states[name] == "Failed" and name not in again):
                continue
            server = ScoringServer(self._store, self._endpoint, name, model, self._settings)
            task = asyncio.create_task(server.keep(), name=name)
            self._kept[name] = _Kept(server, task)

    async def _end(self, kept: dict[str, _Kept]) -> None:
        for one in kept.values():
            one.task.cancel()
        results = await asyncio.gather(*(one.task for one in kept.values()), return_exceptions=True)
        for one, result in zip(kept.values(), results, strict=True):
            if isinstance(result, Exception):
                log.error("the server of %s ended by a fault", one.server.name, exc_info=result)


def main(arguments: list[str]) -> int:
    """Detach, claim, say `ready`, serve. Exit codes: 0 ended as asked, 1 the endpoint is not to be had."""
    home, endpoint, descriptor = Path(arguments[0]), arguments[1], int(arguments[2])
    if os.fork() > 0:
        os._exit(0)  # what started this is not left with a child to wait for
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    store = Store(home)
    folder = layout.endpoint_folder(home, endpoint)
    try:
        keys = read_keys(folder)
        settings = settings_module.load()
        os.chdir(folder)  # the scoring servers' sockets are named from here
    except (WorkspaceError, OSError) as error:
        log.error("%s", error)
        return 1
    with socket.socket(fileno=descriptor) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        try:
            claimed = endpoint_rows.claim(store, endpoint, port)
        except Unexpected as error:
            log.error("%s", error)
            return 1
        if not claimed:
            log.error("endpoint %s is gone, being deleted, or has a gateway already", endpoint)
            return 1
        print("ready", flush=True)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        log.info("gateway of endpoint %s on 127.0.0.1:%s, process %s", endpoint, port, os.getpid())
        following = Store(home, BUSY_SECONDS)
        try:
            asyncio.run(Gateway(following, endpoint, keys, settings).serve(listening))
        finally:
            _release(store, endpoint)
    log.info("gateway of endpoint %s has ended", endpoint)
    return 0


def _release(store: Store, endpoint: str) -> None:
    try:
        endpoint_rows.release(store, endpoint)
    except Unexpected as error:  # a reader sees by the process that the endpoint is stopped
        log.error("%s", error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
