"""One deployment as its gateway serves it: the requests that wait for an instance, a change of revision, the store's row."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections import deque
from dataclasses import dataclass

from footplate.local import endpoint_rows, layout
from footplate.local.deployment_spec import MOST_WAITING, read_spec
from footplate.local.endpoint_rows import Record, WantedDeployment
from footplate.local.instances import Instances
from footplate.local.scoring_server import Revision, ScoringServer
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace.errors import Unexpected

PATIENCE_SECONDS = 60.0
"""How long a request waits for a server that is started again; that time is none of the model's."""

RECOVERY_SECONDS = 10.0
"""After a server came back, those that waited for it are served before anybody is refused as one too many; no longer."""

log = logging.getLogger("footplate.gateway")


class NotServing(Exception):
    """No instance can answer, and none is on its way back."""


class TooMany(Exception):
    """More requests are there than the deployment takes, or one has waited for longer than it may."""


@dataclass(frozen=True)
class _Coming:
    """What takes the present revision's place once it serves; `text` is what the store asked for."""

    text: str
    instances: Instances


class ServedDeployment:
    """Follows one deployment's row. `lease` gives a request its instance; a new revision takes over without a gap."""

    def __init__(self, store: Store, endpoint: str, name: str, wanted: WantedDeployment, settings: Settings) -> None:
        self.name = name
        self._store = store
        self._endpoint = endpoint
        self._settings = settings
        self._count = wanted.instances
        self._waiting: deque[asyncio.Future[ScoringServer]] = deque()
        self._lenient_until = 0.0
        self._was_serving = False
        self._coming: _Coming | None = None
        self._update_error = ""
        self._former: dict[Instances, asyncio.Task[None]] = {}
        self._flushing: set[asyncio.Task[None]] = set()
        self._over = False
        self._written: Record | None = None
        self._writing = asyncio.Lock()
        self._now = self._instances(wanted.model, wanted.spec)
        self._now.resize(self._count)

    @property
    def record(self) -> Record:
        """How the deployment is now."""
        instances, revision = self._now, self._now.revision
        state, error, note = instances.state, instances.error, instances.note
        if self._coming is not None:
            state, note = "Updating", note or f"{self._coming.instances.revision.model} is being started in its place."
        elif self._update_error and state == "Succeeded":
            state, error, note = "Failed", self._update_error, ""
        coming = self._coming.text if self._coming else ""
        return Record(revision.model, revision.text, coming, state, error, note, instances.pid)

    @property
    def request_seconds(self) -> float:
        """How long a request may take, from its arrival."""
        return self._now.revision.spec.request_seconds

    @property
    def serving(self) -> bool:
        """Whether any instance can answer."""
        return self._now.serving

    @property
    def guards(self) -> list[int]:
        """The processes of the guards of all its instances that serve."""
        return [one.pid for one in self._now.up if one.pid is not None]

    # requests

    async def lease(self) -> tuple[ScoringServer, float]:
        """An instance for one request, which must be given back, and the seconds that the model has for it.

        Waits for an instance that is free, or is started again. Raises NotServing, TooMany, TimeoutError.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        if not self._waiting and (server := self._now.pick()):
            if not self._is_full(loop.time()):
                server.take()
                return server, self.request_seconds
        elif not self._comes_back():
            raise NotServing
        if self._is_full(loop.time()):
            raise TooMany
        spec, held = self._now.revision.spec, not self._now.serving
        queue = spec.request_seconds if spec.queue_seconds is None else spec.queue_seconds
        seconds = PATIENCE_SECONDS if held else min(spec.request_seconds, queue)
        place: asyncio.Future[ScoringServer] = loop.create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(seconds):
                server = await place
        except BaseException as error:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.give_back(place.result())  # it came together with the time-out
            elif place in self._waiting:
                self._waiting.remove(place)
            if isinstance(error, TimeoutError) and not held and seconds < spec.request_seconds:
                raise TooMany from error
            raise
        waited = 0.0 if held else loop.time() - started
        return server, max(0.0, spec.request_seconds - waited)

    def give_back(self, server: ScoringServer) -> None:
        """A request has left its instance: the next one in the queue gets it."""
        server.give_back()
        self._serve_waiting()

    def _is_full(self, now: float) -> bool:
        running = sum(one.busy for one in self._now.up)
        lenient = not self._now.serving or now < self._lenient_until
        most = self._now.revision.spec.most(len(self._now.up))
        there = running + len(self._waiting)
        return there >= (max(most, MOST_WAITING) if lenient else most)

    def _comes_back(self) -> bool:
        """Whether it serves, or did and is started again."""
        return self._now.serving or any(one.served and not one.error for one in self._now.up)

    def _serve_waiting(self) -> None:
        while self._waiting and (server := self._now.pick()):
            place = self._waiting.popleft()
            if not place.done():
                server.take()
                place.set_result(server)
        if self._waiting and not self._comes_back():
            for place in self._waiting:
                if not place.done():
                    place.set_exception(NotServing())
            self._waiting.clear()
        if not self._waiting:
            self._lenient_until = 0.0

    # following the store

    async def follow(self, wanted: WantedDeployment) -> None:
        """Do what the row wants by now: another number of instances, another revision."""
        if wanted.instances != self._count:
            self._count = wanted.instances
            self._now.resize(self._count)
            if self._coming:
                self._coming.instances.resize(self._count)
        revision = self._now.revision
        if (wanted.model, wanted.spec) != (revision.model, revision.text):
            # Only what has failed is replaced at once: nothing of it serves.
            self._drop_coming()
            self._replace(self._instances(wanted.model, wanted.spec))
            self._now.resize(self._count)
        if wanted.next != (self._coming.text if self._coming else ""):
            self._drop_coming()
            if wanted.next:
                asked = json.loads(wanted.next)
                self._update_error = ""
                self._coming = _Coming(wanted.next, self._instances(asked["model"], asked["spec"]))
                self._coming.instances.resize(self._count)
        await self._settle_coming()
        await self.flush()

    async def _settle_coming(self) -> None:
        if (coming := self._coming) is None or coming.instances.state not in ("Succeeded", "Failed"):
            return
        new = coming.instances
        if new.state == "Succeeded":
            record = Record(new.revision.model, new.revision.text, "", "Succeeded", "", new.note, new.pid)
        else:
            sentence, _, rest = new.error.partition("\n")
            error = f"{sentence} {self._now.revision.model} serves on.\n{rest}".rstrip()
            revision = self._now.revision
            record = Record(revision.model, revision.text, "", "Failed", error, "", self._now.pid)
        try:
            taken = await asyncio.to_thread(
                endpoint_rows.take_next, self._store, self._endpoint, self.name, record, coming.text
            )
        except Unexpected as fault:
            log.warning("the new revision of %s could not be written: %s", self.name, fault)
            return
        if not taken:
            return  # the next look at the row tells what is wanted instead
        self._coming = None
        self._written = record
        if new.state == "Succeeded":
            self._replace(new)
        else:
            self._update_error = record.error
            self._let_go(new)

    def _instances(self, model: str, spec: str) -> Instances:
        folder = layout.endpoint_folder(self._store.home, self._endpoint) / self.name
        revision = Revision(self._endpoint, self.name, model, spec, read_spec(spec), folder)
        return Instances(revision, self._settings, self._changed)

    def _replace(self, new: Instances) -> None:
        former, self._now = self._now, new
        self._update_error = ""
        self._let_go(former)
        self._changed()

    def _drop_coming(self) -> None:
        if self._coming is not None:
            self._let_go(self._coming.instances)
            self._coming = None

    def _let_go(self, former: Instances) -> None:
        ending = asyncio.create_task(self._end_revision(former))
        self._former[former] = ending
        ending.add_done_callback(lambda _: self._former.pop(former, None))

    async def _end_revision(self, former: Instances) -> None:
        await former.end(drain=True)
        for name in (former.revision.spec.code, former.revision.spec.model):
            await asyncio.to_thread(shutil.rmtree, former.revision.folder / name, ignore_errors=True)

    async def end(self, drain: bool = False) -> None:
        """End all its servers; with `drain` the requests that are there are finished first."""
        self._over = True
        former = {**self._former}
        if drain:
            if self._waiting:
                await asyncio.wait({*self._waiting}, timeout=self.request_seconds)
        else:
            for ending in former.values():
                ending.cancel()
        await asyncio.gather(*former.values(), return_exceptions=True)
        coming = [self._coming.instances] if self._coming else []
        self._coming = None
        await asyncio.gather(*(one.end(drain) for one in (self._now, *coming, *former)), *self._flushing)
        self._serve_waiting()

    def _changed(self) -> None:
        serving = self._now.serving
        if serving and not self._was_serving and self._waiting:
            self._lenient_until = asyncio.get_running_loop().time() + RECOVERY_SECONDS
        self._was_serving = serving
        self._serve_waiting()
        if not self._over:
            flushing = asyncio.create_task(self.flush())
            self._flushing.add(flushing)
            flushing.add_done_callback(self._flushing.discard)

    async def flush(self) -> None:
        """Write to the store what it does not know yet; where it is locked or full the next call tries again."""
        async with self._writing:
            if self._over or (record := self.record) == self._written:
                return
            try:
                await asyncio.to_thread(endpoint_rows.write_record, self._store, self._endpoint, self.name, record)
            except Unexpected as fault:
                log.warning("the state %s of deployment %s could not be written: %s", record.state, self.name, fault)
                return
            self._written = record
