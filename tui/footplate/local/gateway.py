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
from pathlib import Path
from typing import TYPE_CHECKING

from footplate import settings as settings_module
from footplate.local import endpoint_rows, layout
from footplate.local.endpoint_keys import KeyRing
from footplate.local.gateway_figures import Counters
from footplate.local.served_deployment import ServedDeployment
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace.errors import Unexpected, WorkspaceError

if TYPE_CHECKING:
    from footplate.local.gateway_http import Router

POLL_SECONDS = 0.25
BUSY_SECONDS = 2.0
"""How long a locked store is waited for while serving; it is tried again at the next poll."""

MEASURE_SECONDS = 5.0
"""Between two looks at the load of the servers."""

WRITE_SECONDS = 1.0
"""Between two writes of what was counted, where anything was."""

log = logging.getLogger("footplate.gateway")


class Gateway:
    """The deployments of an endpoint, and the router in front of them.

    A store that is locked, full or damaged for a while ends nothing: the endpoint serves on as it is until it can be read.
    """

    def __init__(self, store: Store, endpoint: str, keys: KeyRing, settings: Settings) -> None:
        self._store = store
        self._endpoint = endpoint
        self._keys = keys
        self._settings = settings
        self._served: dict[str, ServedDeployment] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._counters = Counters(layout.endpoint_folder(store.home, endpoint))
        self._measured = self._wrote = 0.0
        self._ending = False
        self._wake = asyncio.Event()
        self._askers: list[asyncio.Future[None]] = []

    async def serve(self, listening: socket.socket) -> None:
        """Serve until SIGTERM, or until the endpoint is being deleted, is gone, or belongs to another gateway."""
        # Imported only now: the console waits until the gateway is ready, and requests wait in the socket's queue.
        from aiohttp import web

        from footplate.local.gateway_http import Router

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end)
        router = Router(self._endpoint, self._keys, self._counters, self._reread)
        runner = web.AppRunner(router.application(), access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.SockSite(runner, listening).start()
            await self._follow(router)
        finally:
            leaving = list(self._leaving.values())
            for task in leaving:
                task.cancel()
            await asyncio.gather(
                *leaving, runner.cleanup(), *(one.end() for one in self._served.values()), return_exceptions=True
            )
            self._write_figures()

    def _end(self) -> None:
        self._ending = True
        self._wake.set()

    async def _reread(self) -> None:
        """Return when the store was read after this call, and is followed."""
        asker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._askers.append(asker)
        self._wake.set()
        await asker

    async def _follow(self, router: Router) -> None:
        while not self._ending:
            self._wake.clear()
            askers, self._askers = self._askers, []
            try:
                wanted = await asyncio.to_thread(endpoint_rows.wanted, self._store, self._endpoint)
            except Unexpected as error:
                log.warning("the store could not be read: %s", error)
                self._askers += askers
                askers = []
            else:
                if wanted is None:
                    return
                await self._adopt(wanted, router)
            for asker in askers:
                if not asker.done():
                    asker.set_result(None)
            self._measure()
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _adopt(self, wanted: endpoint_rows.Wanted, router: Router) -> None:
        """Serve what is wanted, and by the wanted shares; what is deleted finishes its requests and ends."""
        for name, deployment in wanted.deployments.items():
            if deployment.state == "Deleting" or name in self._leaving:
                continue
            if name in self._served:
                await self._served[name].follow(deployment)
            else:
                self._served[name] = ServedDeployment(self._store, self._endpoint, name, deployment, self._settings)
        there = {name for name, one in wanted.deployments.items() if one.state != "Deleting"}
        gone = {name: self._served.pop(name) for name in [*self._served] if name not in there}
        router.backends = {**self._served}
        router.traffic, router.mirror = wanted.traffic, wanted.mirror
        for name in {*gone, *wanted.deployments} - there - {*self._leaving}:
            task = asyncio.create_task(self._remove(name, gone.get(name)))
            self._leaving[name] = task

    async def _remove(self, name: str, served: ServedDeployment | None) -> None:
        if served is not None:
            await served.end(drain=True)
        self._counters.forget(name)
        try:
            await asyncio.to_thread(endpoint_rows.remove_deployment, self._store, self._endpoint, name)
        except Unexpected as error:  # its row is still there, and this is tried again
            log.warning("deployment %s could not be removed: %s", name, error)
        finally:
            del self._leaving[name]

    def _measure(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._measured >= MEASURE_SECONDS:
            self._measured = now
            self._counters.measure({name: served.guards for name, served in self._served.items()})
        if now - self._wrote >= WRITE_SECONDS:
            self._wrote = now
            self._write_figures()

    def _write_figures(self) -> None:
        try:
            self._counters.write()
        except OSError as error:
            log.warning("the figures could not be written: %s", error)


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
        keys = KeyRing(folder)
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
