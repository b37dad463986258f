"""An endpoint's rows in the store: claimed by its gateway, followed and written by it, and discarded with its folder."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from footplate.local import layout
from footplate.local.deployment_spec import read_spec
from footplate.local.processes import alive, start_time
from footplate.local.store import Store


@dataclass(frozen=True)
class WantedDeployment:
    """What the store wants of a deployment: its model and spec, what is to take their place (empty: nothing), instances."""

    state: str
    model: str
    spec: str
    next: str
    instances: int


@dataclass(frozen=True)
class Wanted:
    """What the store wants of a gateway: the traffic split, the mirrored share, and its deployments."""

    traffic: Mapping[str, int]
    mirror: Mapping[str, int]
    deployments: Mapping[str, WantedDeployment]


def has_gateway(row: sqlite3.Row) -> bool:
    """Whether the gateway of an endpoint's row is running."""
    return alive(row["gateway_pid"], row["gateway_started"])


def claim(store: Store, endpoint: str, port: int) -> bool:
    """Make this process the endpoint's gateway; its deployments start anew, and what they left is tidied up.

    False when the endpoint is gone or being deleted, or another gateway runs.
    """
    with store.write() as db:
        row = db.execute("SELECT * FROM endpoint WHERE name = ?", (endpoint,)).fetchone()
        if row is None or row["state"] == "Deleting" or has_gateway(row):
            return False
        db.execute(
            "UPDATE endpoint SET state = 'Succeeded', gateway_pid = ?, gateway_started = ?, port = ? WHERE name = ?",
            (os.getpid(), start_time(os.getpid()), port, endpoint),
        )
        db.execute("DELETE FROM deployment WHERE endpoint = ? AND state = 'Deleting'", (endpoint,))
        db.execute(
            "UPDATE deployment SET state = 'Creating', error = '', note = '', server_pid = NULL, server_started = NULL"
            " WHERE endpoint = ?",
            (endpoint,),
        )
        rows = db.execute("SELECT name, spec, next FROM deployment WHERE endpoint = ?", (endpoint,)).fetchall()
    _tidy(store, endpoint, rows)
    return True


def _tidy(store: Store, endpoint: str, rows: list[sqlite3.Row]) -> None:
    """Remove the folders of deployments and of revisions that are no more."""
    kept: dict[str, set[str]] = {}
    for row in rows:
        specs = [read_spec(row["spec"]), *([read_spec(json.loads(row["next"])["spec"])] if row["next"] else [])]
        kept[row["name"]] = {name for spec in specs for name in (spec.code, spec.model)}
    for folder in layout.endpoint_folder(store.home, endpoint).iterdir():
        if folder.is_dir() and folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)  # a leftover that cannot be removed is in nobody's way
        for inner in folder.iterdir() if folder.is_dir() else ():
            if inner.is_dir() and inner.name not in kept[folder.name]:
                shutil.rmtree(inner, ignore_errors=True)


def wanted(store: Store, endpoint: str) -> Wanted | None:
    """What this process, as the endpoint's gateway, is to do; None: end. Raises Unexpected where the store is locked."""
    if not store.file.exists():  # connecting would make an empty one
        return None
    with store.read() as db:
        row = db.execute(
            "SELECT state, gateway_pid, traffic, mirror FROM endpoint WHERE name = ?", (endpoint,)
        ).fetchone()
        if row is None or row["state"] == "Deleting" or row["gateway_pid"] != os.getpid():
            return None
        deployments = db.execute(
            "SELECT name, state, model, spec, next, instances FROM deployment WHERE endpoint = ?", (endpoint,)
        ).fetchall()
    return Wanted(
        traffic=json.loads(row["traffic"]),
        mirror=json.loads(row["mirror"]),
        deployments={one["name"]: WantedDeployment(*one[1:]) for one in deployments},
    )


@dataclass(frozen=True)
class Record:
    """How a deployment is: what its gateway writes into its row, where that still wants this model and spec, and this next."""

    model: str
    spec: str
    next: str
    state: str
    error: str = ""
    note: str = ""
    pid: int | None = None


def write_record(store: Store, endpoint: str, name: str, record: Record) -> None:
    """Write how a deployment is, unless it is wanted otherwise by now. Raises Unexpected where the store is locked."""
    started = None if record.pid is None else start_time(record.pid)
    with store.write() as db:
        db.execute(
            "UPDATE deployment SET state = ?, error = ?, note = ?, server_pid = ?, server_started = ?"
            " WHERE endpoint = ? AND name = ? AND model = ? AND spec = ? AND next = ? AND state <> 'Deleting'",
            (
                *(record.state, record.error, record.note, record.pid, started),
                *(endpoint, name, record.model, record.spec, record.next),
            ),
        )


def take_next(store: Store, endpoint: str, name: str, record: Record, next_text: str) -> bool:
    """Put what was to take a deployment's place into it, and how it is; False where something else is wanted by now.

    Raises Unexpected where the store is locked.
    """
    started = None if record.pid is None else start_time(record.pid)
    with store.write() as db:
        changed = db.execute(
            "UPDATE deployment SET model = ?, spec = ?, next = '', state = ?, error = ?, note = ?, server_pid = ?,"
            " server_started = ? WHERE endpoint = ? AND name = ? AND next = ? AND state <> 'Deleting'",
            (
                *(record.model, record.spec, record.state, record.error, record.note, record.pid, started),
                *(endpoint, name, next_text),
            ),
        )
        return changed.rowcount == 1


def remove_deployment(store: Store, endpoint: str, name: str) -> None:
    """Remove a deployment that is being deleted: its folder, its row and its share, which is 0. Raises Unexpected."""
    shutil.rmtree(layout.endpoint_folder(store.home, endpoint) / name, ignore_errors=True)
    with store.write() as db:
        db.execute(
            "DELETE FROM deployment WHERE endpoint = ? AND name = ? AND state = 'Deleting'",
            (endpoint, name),
        )


def release(store: Store, endpoint: str) -> None:
    """At the gateway's end: finish a deletion, or leave the endpoint stopped."""
    if not store.file.exists():
        return
    with store.write() as db:
        row = db.execute("SELECT state, gateway_pid FROM endpoint WHERE name = ?", (endpoint,)).fetchone()
        mine = row is not None and row["gateway_pid"] == os.getpid()
        if mine:
            db.execute("UPDATE endpoint SET gateway_pid = NULL, gateway_started = NULL WHERE name = ?", (endpoint,))
    if mine and row["state"] == "Deleting":
        discard(store, endpoint)


def discard(store: Store, endpoint: str) -> None:
    """Remove an endpoint's folder and rows; what is gone already is no error."""
    shutil.rmtree(layout.endpoint_folder(store.home, endpoint), ignore_errors=True)
    with store.write() as db:
        db.execute("DELETE FROM endpoint WHERE name = ? AND state = 'Deleting'", (endpoint,))
