"""An endpoint's rows in the store: claimed by its gateway, followed by it, and discarded with its folder."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from footplate.local import layout
from footplate.local.processes import alive, start_time
from footplate.local.store import Store


@dataclass(frozen=True)
class Wanted:
    """What the store wants of a gateway: the traffic split, and of each deployment its model and state."""

    traffic: Mapping[str, int]
    models: Mapping[str, str]
    states: Mapping[str, str]


def has_gateway(row: sqlite3.Row) -> bool:
    """Whether the gateway of an endpoint's row is running."""
    return alive(row["gateway_pid"], row["gateway_started"])


def claim(store: Store, endpoint: str, port: int) -> bool:
    """Make this process the endpoint's gateway; its deployments start anew.

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
        db.execute(
            "UPDATE deployment SET state = 'Creating', error = '', server_pid = NULL, server_started = NULL"
            " WHERE endpoint = ?",
            (endpoint,),
        )
    return True


def wanted(store: Store, endpoint: str) -> Wanted | None:
    """What this process, as the endpoint's gateway, is to do; None: end. Raises Unexpected where the store is locked."""
    if not store.file.exists():  # connecting would make an empty one
        return None
    with store.read() as db:
        row = db.execute("SELECT state, gateway_pid, traffic FROM endpoint WHERE name = ?", (endpoint,)).fetchone()
        if row is None or row["state"] == "Deleting" or row["gateway_pid"] != os.getpid():
            return None
        deployments = db.execute("SELECT name, model, state FROM deployment WHERE endpoint = ?", (endpoint,)).fetchall()
    return Wanted(
        traffic=json.loads(row["traffic"]),
        models={deployment["name"]: deployment["model"] for deployment in deployments},
        states={deployment["name"]: deployment["state"] for deployment in deployments},
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
