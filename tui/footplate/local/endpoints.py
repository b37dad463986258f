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
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING

from footplate import paths
from footplate.local import layout, server_log
from footplate.local.endpoint_keys import read_keys, write_keys
from footplate.local.endpoint_rows import discard, has_gateway
from footplate.local.gateway_start import endpoint_lock, start_gateway
from footplate.local.models import Models
from footplate.local.processes import alive
from footplate.local.scoring_server import REQUEST_SECONDS, end_leftovers
from footplate.local.store import Store, now
from footplate.settings import Settings
from footplate.workspace.errors import Conflict, NotFound, Unexpected, Unreachable, WorkspaceError
from footplate.workspace.model import Answer, Deployment, Endpoint, Keys
from footplate.workspace.names import check_name

if TYPE_CHECKING:
    import aiohttp

_CREATING_SECONDS = 10
_GATEWAY_END_SECONDS = 10.0


class Endpoints:
    """All methods but `invoke` and `close` are blocking; each is one short transaction, or holds the endpoint lock."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._models = Models(store)
        self._client: aiohttp.ClientSession | None = None

    def list(self) -> builtins.list[Endpoint]:
        """All endpoints by name, with their deployments, oldest first."""
        with self._store.read() as db:
            endpoints = db.execute("SELECT * FROM endpoint ORDER BY name").fetchall()
            deployments = db.execute("SELECT * FROM deployment ORDER BY created").fetchall()
        return [_endpoint(row, [d for d in deployments if d["endpoint"] == row["name"]]) for row in endpoints]

    def endpoint(self, name: str) -> Endpoint:
        """One endpoint. Raises NotFound."""
        with self._store.read() as db:
            row = _row(db, name)
            deployments = db.execute("SELECT * FROM deployment WHERE endpoint = ? ORDER BY created", (name,)).fetchall()
        return _endpoint(row, deployments)

    def create(self, name: str, description: str = "") -> Endpoint:
        """Create an endpoint and start its gateway, or leave nothing of it.

        Raises Invalid (name), Conflict (exists), Unexpected where the disk or the gateway fails.
        """
        check_name("endpoint", name)
        with endpoint_lock(self._store.home):
            with self._store.read() as db:
                if db.execute("SELECT 1 FROM endpoint WHERE name = ?", (name,)).fetchone():
                    raise Conflict(f"There is already an endpoint {name!r}.", "Use another name, or delete it first.")
            try:
                self._create(name, description)
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

    def _create(self, name: str, description: str) -> None:
        folder = layout.endpoint_folder(self._store.home, name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        write_keys(folder)
        with self._store.write() as db:
            db.execute(
                "INSERT INTO endpoint (name, state, created, description) VALUES (?, 'Creating', ?, ?)",
                (name, now(), description),
            )
        start_gateway(self._store, name, None, self._settings)

    def _forget(self, name: str) -> None:
        """Remove what a creation that failed has written; a gateway that comes up after all finds no row, and ends."""
        shutil.rmtree(layout.endpoint_folder(self._store.home, name), ignore_errors=True)
        with suppress(Unexpected), self._store.write() as db:  # what made the creation fail is the thing to say
            db.execute("DELETE FROM endpoint WHERE name = ?", (name,))

    def start(self, name: str) -> Endpoint:
        """Start a stopped endpoint, with the same keys and, where it is free, the same port. Raises NotFound, Conflict."""
        with endpoint_lock(self._store.home):
            self._start(name)
        return self.endpoint(name)

    def _start(self, name: str) -> None:
        with self._store.read() as db:
            row = _row(db, name)
        if row["state"] == "Deleting":
            raise Conflict(
                f"Endpoint {name!r} is being deleted.",
                f"If that was cut short, delete it again: footplate endpoint delete {name}",
            )
        if not has_gateway(row):
            start_gateway(self._store, name, row["port"], self._settings)

    def delete(self, name: str) -> None:
        """End every process of an endpoint and remove it, whatever state it is in. Raises NotFound."""
        with endpoint_lock(self._store.home):
            with self._store.write() as db:
                row = _row(db, name)
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
            _row(db, name)
        return read_keys(layout.endpoint_folder(self._store.home, name))

    def deploy(self, endpoint: str, name: str, model: str, traffic: bool = True) -> Deployment:
        """Start a deployment and return at once; one that is there with the same model is left as it is, or tried again.

        Raises NotFound (endpoint, model), Invalid (name), Conflict (there with another model, or the endpoint goes).
        """
        check_name("deployment", name)
        reference = self._models.model(model).reference
        with endpoint_lock(self._store.home):
            with self._store.read() as db:
                _row(db, endpoint)
                found = _find_deployment(db, endpoint, name)
            if found is not None and found["model"] != reference:
                raise Conflict(
                    f"Endpoint {endpoint!r} already has a deployment {name!r}, with model {found['model']}.",
                    "Delete it, or use another name.",
                )
            if found is None or found["state"] == "Failed":
                self._copy_code(endpoint, name)
                with self._store.write() as db:
                    _write_deployment(db, endpoint, name, reference, traffic)
            self._start(endpoint)
            with self._store.read() as db:
                row = _find_deployment(db, endpoint, name)
        if row is None:
            raise NotFound(f"Deployment {name!r} of endpoint {endpoint!r} was deleted meanwhile.")
        return _deployment(row, running=True)

    def _copy_code(self, endpoint: str, name: str) -> None:
        folder = layout.endpoint_folder(self._store.home, endpoint) / name
        try:
            shutil.rmtree(folder / "code", ignore_errors=True)
            shutil.copytree(paths.asset("score"), folder / "code", ignore=shutil.ignore_patterns("__pycache__"))
        except OSError as error:
            raise Unexpected(
                f"The scoring code of deployment {name!r} cannot be copied: {error}.", "Free space, then deploy again."
            ) from error

    def log(self, endpoint: str, name: str, tail: int) -> str:
        """The last lines of a deployment's server log; empty before it says anything. Raises NotFound."""
        with self._store.read() as db:
            _row(db, endpoint)
            if _find_deployment(db, endpoint, name) is None:
                raise NotFound(
                    f"Endpoint {endpoint!r} has no deployment {name!r}.", f"See: footplate endpoint show {endpoint}"
                )
        return server_log.tail(layout.endpoint_folder(self._store.home, endpoint) / name / "server.log", tail)

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
            self._client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS + 15))
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
            row = _row(db, endpoint)
        if not has_gateway(row):  # else the key might go to whoever has the port now
            raise _unreachable(endpoint, "")
        return row["port"], read_keys(layout.endpoint_folder(self._store.home, endpoint)).primary

    async def close(self) -> None:
        """Let go of the connections to gateways."""
        if self._client is not None:
            await self._client.close()


def _row(db: sqlite3.Connection, name: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM endpoint WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(f"There is no endpoint {name!r}.", "See: footplate endpoints")
    return row


def _find_deployment(db: sqlite3.Connection, endpoint: str, name: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM deployment WHERE endpoint = ? AND name = ?", (endpoint, name)
    ).fetchone()
    return row


def _write_deployment(db: sqlite3.Connection, endpoint: str, name: str, model: str, traffic: bool) -> None:
    """A new row, or the failed one tried again; the endpoint's first deployment takes all traffic, where that is wanted."""
    others = db.execute("SELECT count(*) FROM deployment WHERE endpoint = ? AND name <> ?", (endpoint, name)).fetchone()
    db.execute(
        "INSERT INTO deployment (endpoint, name, model, state, created) VALUES (?, ?, ?, 'Creating', ?)"
        " ON CONFLICT (endpoint, name) DO UPDATE SET state = 'Creating', error = ''",
        (endpoint, name, model, now()),
    )
    if traffic and others[0] == 0:
        db.execute("UPDATE endpoint SET traffic = ? WHERE name = ?", (json.dumps({name: 100}), endpoint))


def _endpoint(row: sqlite3.Row, deployments: builtins.list[sqlite3.Row]) -> Endpoint:
    """An endpoint as it is: a gateway that should be there and is not makes it Stopped."""
    running = has_gateway(row)
    shown = tuple(_deployment(deployment, running) for deployment in deployments)
    state, error = row["state"], row["error"]
    if state == "Creating" and now() - row["created"] < _CREATING_SECONDS:
        pass
    elif state != "Deleting" and not running:
        state = "Stopped"
        error = f"Its gateway is not running; start it with: footplate endpoint start {row['name']}"
    elif state == "Succeeded" and any(one.state in ("Creating", "Updating") for one in shown):
        state = "Updating"
    return Endpoint(
        name=row["name"],
        state=state,
        created=datetime.fromtimestamp(row["created"], UTC),
        scoring_uri=f"http://127.0.0.1:{row['port']}/score" if row["port"] else "",
        traffic=json.loads(row["traffic"]),
        deployments=shown,
        description=row["description"],
        error=error,
    )


def _deployment(row: sqlite3.Row, running: bool) -> Deployment:
    return Deployment(
        name=row["name"],
        endpoint=row["endpoint"],
        model=row["model"],
        state=row["state"] if running or row["state"] == "Failed" else "Stopped",
        created=datetime.fromtimestamp(row["created"], UTC),
        error=row["error"],
    )


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
