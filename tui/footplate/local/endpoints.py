"""Endpoints of the local workspace: what the console asks of them; the gateway process does the serving."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

from footplate.local import layout
from footplate.local.deployments import Deployments
from footplate.local.endpoint_keys import read_keys, regenerate_key, write_keys
from footplate.local.endpoint_rows import discard, has_gateway
from footplate.local.endpoint_view import endpoint, endpoint_row, read_endpoint
from footplate.local.gateway_figures import read_figures
from footplate.local.gateway_start import endpoint_lock, start_gateway
from footplate.local.processes import alive
from footplate.local.scoring_server import end_leftovers
from footplate.local.store import Store, now
from footplate.settings import Settings
from footplate.workspace.errors import Conflict, Invalid, Unexpected, Unreachable, WorkspaceError
from footplate.workspace.names import check_name
from footplate.workspace.serving import Answer, Deployment, Endpoint, Figures, Keys
from footplate.workspace.traffic import check_mirror, check_traffic, check_unchanged

if TYPE_CHECKING:
    import aiohttp

    from footplate.jobfile import JobFile

_GATEWAY_END_SECONDS = 10.0
_INVOKE_SECONDS = 195.0
"""The longest time that a deployment's file can give the model (180 seconds), and some for the way."""


class Endpoints:
    """All methods but `invoke` and `close` are blocking; each is one short transaction, or holds the endpoint lock."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._deployments = Deployments(store, self._start)
        self._client: aiohttp.ClientSession | None = None

    def list(self) -> builtins.list[Endpoint]:
        """All endpoints by name, with their deployments, oldest first."""
        with self._store.read() as db:
            endpoints = db.execute("SELECT * FROM endpoint ORDER BY name").fetchall()
            deployments = db.execute("SELECT * FROM deployment ORDER BY created").fetchall()
        return [endpoint(row, [d for d in deployments if d["endpoint"] == row["name"]]) for row in endpoints]

    def endpoint(self, name: str) -> Endpoint:
        """One endpoint. Raises NotFound."""
        with self._store.read() as db:
            return read_endpoint(db, name)

    def create(self, name: str, description: str = "", tags: Mapping[str, str] | None = None) -> Endpoint:
        """Create an endpoint and start its gateway, or leave nothing of it.

        Raises Invalid (name), Conflict (exists), Unexpected where the disk or the gateway fails.
        """
        check_name("endpoint", name)
        with endpoint_lock(self._store.home):
            with self._store.read() as db:
                if db.execute("SELECT 1 FROM endpoint WHERE name = ?", (name,)).fetchone():
                    raise Conflict(f"There is already an endpoint {name!r}.", "Use another name, or delete it first.")
            try:
                self._create(name, description, tags or {})
            except (OSError, WorkspaceError) as error:
                self._forget(name)
                said = error.sentence if isinstance(error, WorkspaceError) else f"{error}."
                raise Unexpected(
                    f"Endpoint {name!r} cannot be created: {said}",
                    "Nothing of it was kept: free space or mend the permissions, or what else it says, and create it again.",
                    repr(error),
                ) from error
            except BaseException:
                self._forget(name)
                raise
        return self.endpoint(name)

    def _create(self, name: str, description: str, tags: Mapping[str, str]) -> None:
        folder = layout.endpoint_folder(self._store.home, name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        write_keys(folder)
        with self._store.write() as db:
            db.execute(
                "INSERT INTO endpoint (name, state, created, description, tags) VALUES (?, 'Creating', ?, ?, ?)",
                (name, now(), description, json.dumps(tags)),
            )
        start_gateway(self._store, name, None, self._settings)

    def _forget(self, name: str) -> None:
        """Remove what a creation that failed has written; a gateway that comes up after all finds no row, and ends."""
        shutil.rmtree(layout.endpoint_folder(self._store.home, name), ignore_errors=True)
        with suppress(Unexpected), self._store.write() as db:  # what made the creation fail is the thing to say
            db.execute("DELETE FROM endpoint WHERE name = ?", (name,))

    def create_from(self, file: JobFile, name: str | None) -> Endpoint:
        """As `Workspace.create_endpoint_from`; what a file says of networks, identities and Kubernetes means nothing here.

        Raises Invalid for the file, for a way to sign in other than keys, and for traffic to deployments that are not there.
        """
        from footplate.local.deployment_file import require  # reads YAML, which few calls need

        if name is not None and file.text_at("name") != name:
            file = file.edit({"name": name})
        require(file, "endpoint")
        wanted, mode = file.text_at("name"), file.text_at("auth_mode").lower()
        check_name("endpoint", wanted)
        if mode not in ("", "key"):
            raise Invalid(
                f"{file.label}: an endpoint on this machine takes keys, not {mode}: nobody here makes tokens.",
                "Write `auth_mode: key`.",
            )
        traffic = {key: file.whole("traffic", key, default=0) for key in file.mapping("traffic")}
        mirror = {key: file.whole("mirror_traffic", key, default=0) for key in file.mapping("mirror_traffic")}
        with self._store.read() as db:
            there = db.execute("SELECT 1 FROM endpoint WHERE name = ?", (wanted,)).fetchone()
            found = read_endpoint(db, wanted) if there else Endpoint(wanted, "Creating", datetime.now(UTC))
        new_mirror = mirror if "mirror_traffic" in file.values else found.mirror
        check_traffic(replace(found, mirror=new_mirror), traffic)
        check_mirror(replace(found, traffic=traffic if "traffic" in file.values else found.traffic), mirror)
        if not there:
            return self.create(wanted, file.description, file.tags)
        tags = {**(file.tags if "tags" in file.values else found.tags)}
        with self._store.write() as db:
            endpoint_row(db, wanted)
            db.execute(
                "UPDATE endpoint SET description = ?, tags = ? WHERE name = ?",
                (file.description or found.description, json.dumps(tags), wanted),
            )
        if "mirror_traffic" in file.values and not any(mirror.values()):
            self.set_mirror(wanted, {})
        if "traffic" in file.values:
            self.set_traffic(wanted, traffic, None)
        if any(mirror.values()):
            self.set_mirror(wanted, mirror)
        return self.endpoint(wanted)

    def start(self, name: str) -> Endpoint:
        """Start a stopped endpoint, with the same keys and, where it is free, the same port. Raises NotFound, Conflict."""
        with endpoint_lock(self._store.home):
            self._start(name)
        return self.endpoint(name)

    def _start(self, name: str) -> None:
        with self._store.read() as db:
            row = endpoint_row(db, name)
        if row["state"] == "Deleting":
            raise Conflict(
                f"Endpoint {name!r} is being deleted.",
                f"If that was cut short, delete it again: footplate endpoint delete {name}",
            )
        if not has_gateway(row):
            try:
                self._deployments.complete(name)
            except OSError as error:
                raise Unexpected(
                    f"The models of endpoint {name!r} cannot be linked: {error}.", "Free space, then start it again."
                ) from error
            start_gateway(self._store, name, row["port"], self._settings)

    def delete(self, name: str) -> None:
        """End every process of an endpoint and remove it, whatever state it is in. Raises NotFound."""
        with endpoint_lock(self._store.home):
            with self._store.write() as db:
                row = endpoint_row(db, name)
                db.execute("UPDATE endpoint SET state = 'Deleting' WHERE name = ?", (name,))
            pid, started = row["gateway_pid"], row["gateway_started"]
            for number in (signal.SIGTERM, signal.SIGKILL):
                if alive(pid, started):
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
                    _wait(lambda: not alive(pid, started), _GATEWAY_END_SECONDS)
            end_leftovers(layout.endpoint_folder(self._store.home, name))
            discard(self._store, name)

    def keys(self, name: str) -> Keys:
        """The keys of an endpoint. Raises NotFound."""
        with self._store.read() as db:
            endpoint_row(db, name)
        return read_keys(layout.endpoint_folder(self._store.home, name))

    def regenerate_key(self, name: str, key: str) -> Keys:
        """Draw one key anew; the old one is refused from the next request on. Raises NotFound, Invalid."""
        with endpoint_lock(self._store.home):
            with self._store.read() as db:
                endpoint_row(db, name)
            return regenerate_key(layout.endpoint_folder(self._store.home, name), key)

    def set_traffic(self, name: str, traffic: Mapping[str, int], if_unchanged: Mapping[str, int] | None) -> Endpoint:
        """As `Workspace.set_traffic`; when it returns, the gateway shares out by it."""
        with self._store.write() as db:
            found = _changeable(db, name)
            check_unchanged(found, if_unchanged)
            check_traffic(found, traffic)
            for deployment in found.deployments:
                share = traffic.get(deployment.name, 0)
                if deployment.state == "Creating" and share > found.traffic.get(deployment.name, 0):
                    raise Conflict(
                        f"Deployment {deployment.name!r} is still being created: it cannot answer yet.",
                        "Wait until it is Succeeded.",
                    )
            db.execute("UPDATE endpoint SET traffic = ? WHERE name = ?", (json.dumps({**traffic}), name))
        self._deployments.tell(name)
        return self.endpoint(name)

    def set_mirror(self, name: str, mirror: Mapping[str, int]) -> Endpoint:
        """As `Workspace.set_mirror`; when it returns, the gateway mirrors by it."""
        with self._store.write() as db:
            check_mirror(_changeable(db, name), mirror)
            wanted = {key: share for key, share in mirror.items() if share}
            db.execute("UPDATE endpoint SET mirror = ? WHERE name = ?", (json.dumps(wanted), name))
        self._deployments.tell(name)
        return self.endpoint(name)

    def monitor(self, name: str) -> Sequence[Figures]:
        """As `Workspace.monitor`: what the gateway has counted, a few seconds late. Raises NotFound."""
        found = self.endpoint(name)
        counted = read_figures(layout.endpoint_folder(self._store.home, name))
        return [_figures(deployment.name, counted.get(deployment.name, {})) for deployment in found.deployments]

    def deploy(self, endpoint: str, name: str, model: str, traffic: bool = True) -> Deployment:
        """As `Deployments.deploy`."""
        return self._deployments.deploy(endpoint, name, model, traffic)

    def deploy_from(self, file: JobFile, endpoint: str | None, name: str | None, traffic: bool) -> Deployment:
        """As `Deployments.deploy_from`."""
        return self._deployments.deploy_from(file, endpoint, name, traffic)

    def scale(self, endpoint: str, name: str, instances: int) -> Deployment:
        """As `Deployments.scale`."""
        return self._deployments.scale(endpoint, name, instances)

    def delete_deployment(self, endpoint: str, name: str) -> None:
        """As `Deployments.delete`."""
        self._deployments.delete(endpoint, name)

    def log(self, endpoint: str, name: str, tail: int, container: str = "inference-server") -> str:
        """As `Deployments.log`."""
        return self._deployments.log(endpoint, name, tail, container)

    async def invoke(
        self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None = None
    ) -> Answer:
        """Send one scoring request with the endpoint's key. Raises NotFound, and Unreachable where nothing answers."""
        import aiohttp
        from multidict import CIMultiDict

        port, key = await asyncio.to_thread(self._address, endpoint)
        sent = CIMultiDict(headers)
        sent["Authorization"] = f"Bearer {key}"
        if deployment is not None:
            sent["azureml-model-deployment"] = deployment
        if self._client is None or self._client.closed:
            self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_INVOKE_SECONDS))
        started = time.perf_counter()
        try:
            async with self._client.post(f"http://127.0.0.1:{port}/score", data=BytesIO(body), headers=sent) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(endpoint, repr(error)) from error
        return Answer(
            status=answer.status,
            headers=dict(answer.headers),
            body=content,
            seconds=time.perf_counter() - started,
            deployment=answer.headers.get("azureml-model-deployment", ""),
        )

    def _address(self, endpoint: str) -> tuple[int, str]:
        with self._store.read() as db:
            row = endpoint_row(db, endpoint)
        if not has_gateway(row):  # else the key might go to whoever has the port now
            raise _unreachable(endpoint, "")
        return row["port"], read_keys(layout.endpoint_folder(self._store.home, endpoint)).primary

    async def close(self) -> None:
        """Let go of the connections to gateways."""
        if self._client is not None:
            await self._client.close()


def _changeable(db: sqlite3.Connection, name: str) -> Endpoint:
    """An endpoint whose traffic may be changed. Raises NotFound, Conflict."""
    found = read_endpoint(db, name)
    if found.state == "Deleting":
        raise Conflict(f"Endpoint {name!r} is being deleted.", "Nothing of it can be changed any more.")
    return replace(found, deployments=tuple(one for one in found.deployments if one.state != "Deleting"))


def _figures(deployment: str, minutes: Mapping[int, Mapping[str, float]]) -> Figures:
    series: dict[str, builtins.list[tuple[datetime, float]]] = {}
    for minute, figures in sorted(minutes.items()):
        for figure, value in figures.items():
            series.setdefault(figure, []).append((datetime.fromtimestamp(minute, UTC), value))
    return Figures(deployment, series, datetime.now(UTC))


def _unreachable(endpoint: str, raw: str) -> Unreachable:
    return Unreachable(
        f"Endpoint {endpoint!r} does not answer: its gateway is not running.",
        f"Start it: footplate endpoint start {endpoint}",
        raw,
    )


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met
