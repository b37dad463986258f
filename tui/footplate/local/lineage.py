"""What a model comes from: the job that wrote it, of a sweep its best trial, with its parameters, its metric and its commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from footplate.local import records
from footplate.workspace.errors import Conflict, NotFound
from footplate.workspace.model import ACTIVE_STATUSES


@dataclass(frozen=True)
class Writer:
    """The job that wrote a model's files, and what is known of how it came to them."""

    job: str
    lineage: Mapping[str, Any]


def writer(db: sqlite3.Connection, name: str) -> Writer:
    """The job of this name, for a sweep its best trial, which may be registered while other trials go on.

    Raises NotFound, Conflict for a job that has not ended and for a sweep without a best trial.
    """
    row = _row(db, name)
    if row["type"] == "sweep":
        if not row["best_child"]:
            why = row["note"].removeprefix("no best trial; ") or f"it is {row['status']}"
            raise Conflict(
                f"Sweep {name!r} has no best trial: {why.rstrip('.')}.", "Register one of its trials by name."
            )
        row = _row(db, row["best_child"])
    if row["status"] in ACTIVE_STATUSES:
        raise Conflict(f"Job {row['name']!r} has not ended: {row['status']}.", "Wait for its end, or cancel it.")
    return Writer(row["name"], _of(db, row))


def of_job(db: sqlite3.Connection, name: str) -> dict[str, Any]:
    """How a job's files come to be, also while it goes on. Raises NotFound."""
    return _of(db, _row(db, name))


def with_metadata(lineage: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A lineage with the commit and, where the job tells no metric, the accuracy that a model's own `model.json` has."""
    found = dict(lineage)
    metrics = metadata.get("metrics")
    best = metrics.get("best_val_acc") if isinstance(metrics, Mapping) else None
    if "metric" not in found and isinstance(best, int | float) and not isinstance(best, bool) and abs(best) < 1e300:
        found["metric"] = {"best_val_acc": best}
    if isinstance(commit := metadata.get("git_commit"), str):
        found["commit"] = commit.encode("utf-8", "replace").decode()
    return found


def _row(db: sqlite3.Connection, name: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute("SELECT * FROM job WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(f"There is no job {name!r} on this machine.", "The list of jobs has the names.")
    return row


def _of(db: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    parent = db.execute("SELECT * FROM job WHERE name = ? AND type = 'sweep'", (row["parent"],)).fetchone()
    found: dict[str, Any] = {"job": row["name"]}
    if parent is not None:
        found |= {"job": parent["name"], "trial": row["name"]}
    if parameters := records.mapping(row["parameters"]) or records.mapping(row["inputs"]):
        found["parameters"] = dict(parameters)
    if parent is not None and row["metric"] is not None:
        found["metric"] = {parent["primary_metric"]: row["metric"]}
    return found
