"""Rows of the store as the contract's jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from footplate.local.store import moment
from footplate.workspace import Job, Stage

JOB_COLUMNS = (
    "name, display_name, type, status, experiment, compute, created, started, ended, parent, tags, inputs, error, note, "
    "nodes, ranks_per_node, command, mlflow_run_id, archived, parameters, metric, best_child, primary_metric, goal, "
    "'[]' AS stages"
)
"""What `job` needs of a row in a list; the plan, which is long, stays in the store, and the stages are one job's."""

_NAMES = [*JOB_COLUMNS.partition(", '[]'")[0].split(", "), "stages"]

KEEP_NOTE = (
    "UPDATE job SET note = CASE WHEN json_valid(work) "
    "THEN coalesce(json_extract(work, '$.notes.' || status), json_extract(work, '$.note'), '') ELSE '' END WHERE name = ?"
)
"""Gives a job that has just ended the note that `work` holds for this end (`notes`: status → text), else for any (`note`)."""


def job(row: sqlite3.Row, headline: tuple[str, float] | None = None) -> Job:
    """A row of the job table as a Job."""
    return _job([row[name] for name in _NAMES], headline)


def listed(row: sqlite3.Row, headline: tuple[str, float] | None = None) -> Job:
    """A row of JOB_COLUMNS as a Job: several times as fast as by names, for lists of thousands."""
    return _job(row, headline)


def _job(values: Iterable[Any], headline: tuple[str, float] | None) -> Job:
    (
        name, display_name, kind, status, experiment, compute, created, started, ended, parent, tags, inputs, error, note,
        nodes, ranks_per_node, command, _, archived, parameters, metric, best_child, primary_metric, goal, told,
    ) = values  # fmt: skip
    if headline is None and metric is not None and primary_metric is not None:
        headline = (primary_metric, metric)  # of a sweep, which has no run of its own
    # A frozen dataclass sets every field by itself, which were two thirds of what a long list costs.
    job = object.__new__(Job)
    vars(job).update(
        name=name,
        display_name=display_name,
        type=kind,
        status=status,
        experiment=experiment,
        compute=compute,
        created=moment(created),
        started=moment(started),
        ended=moment(ended),
        parent=parent,
        tags=mapping(tags),
        inputs=mapping(inputs),
        error=error,
        note=note,
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        command=command,
        headline=headline,
        archived=bool(archived),
        stages=stages(told),
        parameters=mapping(parameters),
        metric=metric,
        best_child=best_child,
        primary_metric=primary_metric,
        goal=goal,
    )
    return job


def stages(text: str) -> tuple[Stage, ...]:
    """The stages of a job, `[[name, started, ended]]` as its supervisor writes them."""
    if text == "[]":
        return ()
    try:
        return tuple(Stage(name, moment(started), moment(ended)) for name, started, ended in json.loads(text))
    except (ValueError, TypeError, OverflowError, OSError, RecursionError):
        return ()  # as of `mapping`: one strange row does not end a list


def mapping(text: str) -> Mapping[str, Any]:
    """A JSON object of the store; empty for what is none, so that one strange row does not end a list."""
    if text == "{}":  # most rows, and not worth the parser
        return {}
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Mapping[str, Any]:
    """The object, parsed once for all rows that hold the same text, as the jobs of one template do."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parameter_texts(stored: str) -> dict[str, str]:
    """A trial's stored values of the search space as text: a mapping as JSON, as its command got it."""
    return {
        name: json.dumps(value) if isinstance(value, Mapping) else str(value) for name, value in mapping(stored).items()
    }
