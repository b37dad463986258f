"""Rows of the store as the contract's endpoints and deployments, as they are: what does not run is Stopped."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from footplate.local.deployment_spec import read_spec
from footplate.local.endpoint_rows import has_gateway
from footplate.local.store import now
from footplate.workspace.errors import NotFound
from footplate.workspace.serving import Deployment, Endpoint

_CREATING_SECONDS = 10


def endpoint_row(db: sqlite3.Connection, name: str) -> sqlite3.Row:
    """An endpoint's row. Raises NotFound."""
    row: sqlite3.Row | None = db.execute("SELECT * FROM endpoint WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(f"There is no endpoint {name!r}.", "See: footplate endpoints")
    return row


def deployment_rows(db: sqlite3.Connection, endpoint: str) -> list[sqlite3.Row]:
    """The rows of an endpoint's deployments, oldest first."""
    return db.execute("SELECT * FROM deployment WHERE endpoint = ? ORDER BY created", (endpoint,)).fetchall()


def find_deployment(db: sqlite3.Connection, endpoint: str, name: str) -> sqlite3.Row | None:
    """A deployment's row, if it is there."""
    return next((row for row in deployment_rows(db, endpoint) if row["name"] == name), None)


def deployment_row(db: sqlite3.Connection, endpoint: str, name: str) -> sqlite3.Row:
    """A deployment's row. Raises NotFound for it and for its endpoint."""
    endpoint_row(db, endpoint)
    if (row := find_deployment(db, endpoint, name)) is None:
        raise NotFound(f"Endpoint {endpoint!r} has no deployment {name!r}.", f"See: footplate endpoint show {endpoint}")
    return row


def read_endpoint(db: sqlite3.Connection, name: str) -> Endpoint:
    """An endpoint with its deployments. Raises NotFound."""
    return endpoint(endpoint_row(db, name), deployment_rows(db, name))


def endpoint(row: sqlite3.Row, deployments: Sequence[sqlite3.Row]) -> Endpoint:
    """An endpoint as it is: a gateway that should be there and is not makes it Stopped."""
    running = has_gateway(row)
    shown = tuple(deployment(one, running) for one in deployments)
    state, error = row["state"], row["error"]
    if state == "Creating" and abs(now() - row["created"]) < _CREATING_SECONDS:  # a clock may have been set back
        pass
    elif state != "Deleting" and not running:
        state = "Stopped"
        error = f"Its gateway is not running; start it with: footplate endpoint start {row['name']}"
    elif state == "Succeeded" and any(one.state in ("Creating", "Updating", "Deleting") for one in shown):
        state = "Updating"
    return Endpoint(
        name=row["name"],
        state=state,
        created=datetime.fromtimestamp(row["created"], UTC),
        scoring_uri=f"http://127.0.0.1:{row['port']}/score" if row["port"] else "",
        traffic=json.loads(row["traffic"]),
        mirror=json.loads(row["mirror"]),
        deployments=shown,
        description=row["description"],
        tags=json.loads(row["tags"]),
        error=error,
    )


def deployment(row: sqlite3.Row, running: bool) -> Deployment:
    """A deployment as it is; `running`: whether its endpoint's gateway is."""
    return Deployment(
        name=row["name"],
        endpoint=row["endpoint"],
        model=row["model"],
        state=row["state"] if running or row["state"] in ("Failed", "Deleting") else "Stopped",
        created=datetime.fromtimestamp(row["created"], UTC),
        instances=row["instances"],
        error=row["error"],
        note=row["note"] or ("" if row["error"] else "; ".join(read_spec(row["spec"]).notes)),
    )
