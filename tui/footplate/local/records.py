"""Rows of the store as the contract's jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from footplate.local.store import moment
from footplate.workspace import Job

JOB_COLUMNS = (
    "name, display_name, type, status, experiment, compute, created, started, ended, parent, tags, inputs, error, note, "
    "nodes, ranks_per_node, command, mlflow_run_id, archived"
)
"""What `job` needs of a row; the plan, which is long, stays in the store."""


def job(row: sqlite3.Row, headline: tuple[str, float] | None = None) -> Job:
    """A row of the job table as a Job."""
    return Job(
        name=row["name"],
        display_name=row["display_name"],
        type=row["type"],
        status=row["status"],
        experiment=row["experiment"],
        compute=row["compute"],
        created=moment(row["created"]),
        started=moment(row["started"]),
        ended=moment(row["ended"]),
        parent=row["parent"],
        tags=mapping(row["tags"]),
        inputs=mapping(row["inputs"]),
        error=row["error"],
        note=row["note"],
        nodes=row["nodes"],
        ranks_per_node=row["ranks_per_node"],
        command=row["command"],
        headline=headline,
        archived=bool(row["archived"]),
    )


def mapping(text: str) -> Mapping[str, Any]:
    """A JSON object of the store; empty for what is none, so that one strange row does not end a list."""
    if text == "{}":  # most rows, and not worth the parser
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
