"""The instances of one revision of a deployment: started, counted, chosen from, and ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from footplate.local.scoring_server import Revision, ScoringServer
from footplate.settings import Settings

log = logging.getLogger("footplate.gateway")


class Instances:
    """The instances of one revision, each kept up by a task of its own."""

    def __init__(self, revision: Revision, settings: Settings, changed: Callable[[], None]) -> None:
        self.revision = revision
        self.up: list[ScoringServer] = []
        self._settings = settings
        self._changed = changed
        self._tasks: dict[ScoringServer, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._turn = 0

    @property
    def state(self) -> str:
        """Failed where one has failed, Succeeded where all serve, Creating until the first did, else Updating."""
        states = {one.state for one in self.up}
        if "Failed" in states:
            return "Failed"
        if states == {"Succeeded"}:
            return "Succeeded"
        return "Updating" if any(one.served for one in self.up) else "Creating"

    @property
    def error(self) -> str:
        """Why it failed: a sentence, and below it what the server's log has."""
        return next((one.error for one in self.up if one.error), "")

    @property
    def note(self) -> str:
        """The latest story of an instance, or how many are up."""
        told = next((one.note for one in self.up if one.note), "")
        serving = sum(one.client is not None for one in self.up)
        if not told and 0 < serving < len(self.up):
            return f"{serving} of {len(self.up)} instances serve."
        return told

    @property
    def pid(self) -> int | None:
        """The process of the guard of the first instance that serves."""
        return next((one.pid for one in self.up if one.pid is not None), None)

    @property
    def serving(self) -> bool:
        """Whether any instance can answer."""
        return any(one.client is not None for one in self.up)

    def pick(self) -> ScoringServer | None:
        """The least busy instance that has room, each in its turn; None where none has."""
        self._turn += 1
        turned = self.up[self._turn % len(self.up) :] + self.up[: self._turn % len(self.up)] if self.up else []
        free = [one for one in turned if one.client is not None and one.busy < self.revision.spec.at_a_time]
        return min(free, key=lambda one: one.busy, default=None)

    def resize(self, count: int) -> None:
        """Start or end instances; one that ends finishes its requests first."""
        while len(self.up) > count:
            leaving = asyncio.create_task(self._leave(self.up.pop()))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        while len(self.up) < count:
            taken = {one.number for one in self._tasks}
            number = next(one for one in range(len(taken) + 1) if one not in taken)
            server = ScoringServer(self.revision, number, self._settings, self._changed)
            self.up.append(server)
            self._tasks[server] = asyncio.create_task(server.keep(), name=f"{self.revision.name} {number}")
        self._changed()

    async def end(self, drain: bool) -> None:
        """End every instance; with `drain` each finishes its requests first."""
        self.up.clear()
        if drain:
            await asyncio.gather(*self._leaving)
        else:
            for leaving in self._leaving:
                leaving.cancel()
            await asyncio.gather(*self._leaving, return_exceptions=True)
        await asyncio.gather(*(self._leave(one, drain) for one in [*self._tasks]))

    async def _leave(self, server: ScoringServer, drain: bool = True) -> None:
        task = self._tasks[server]
        if drain and not task.done():
            await server.drained(self.revision.spec.request_seconds + 1)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(result, Exception):
            log.error("the server of %s ended by a fault", self.revision.name, exc_info=result)
        del self._tasks[server]
