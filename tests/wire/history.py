"""Run history: runs, their details with the signed addresses of their logs, children, queries, hiding."""

from __future__ import annotations

import re
from typing import Any

from tests.wire import errors
from tests.wire.http import WS, Call, Reply, Routes
from tests.wire.life import LOGS, log_path
from tests.wire.state import Body

routes = Routes()
_HISTORY = "/history/v1.0" + WS
_RUNS = _HISTORY + r"(?:/experiment(?:s|ids)/(?P<experiment>[^/]+))?/runs"
_LOG_FOLDERS = ("user_logs/", "system_logs/", "azureml-logs/", "logs/")


def _find(call: Call) -> Body:
    run = call.wire.state.runs.get(call["run"])
    if run is None:
        raise errors.not_found("Run", call["run"])
    return run


def log_files(call: Call, run: str) -> dict[str, str]:
    """The log files of a run with signed addresses, made new at every call."""
    root = log_path(run, "")
    names = sorted(
        name.removeprefix(root) for box, name in call.wire.state.blobs if box == LOGS and name.startswith(root)
    )
    return {name: call.wire.blobs.signed(LOGS, root + name) for name in names if name.startswith(_LOG_FOLDERS)}


@routes.on("GET", _RUNS + r"/(?P<run>[^/:]+)")
def get_run(call: Call) -> Reply:
    """A run."""
    return Reply(body=_find(call))


@routes.on("GET", _RUNS + r"/(?P<run>[^/:]+)/details")
def details(call: Call) -> Reply:
    """A run's details."""
    run = _find(call)
    left_out = ("dataContainerId", "hidden", "name", "description", "tags", "displayName", "parentRunId")
    body = {key: value for key, value in run.items() if key not in left_out}
    return Reply(body={**body, "jobCost": None, "logFiles": log_files(call, run["runId"])})


@routes.on("GET", _RUNS + r"/(?P<run>[^/:]+)/children")
def children(call: Call) -> Reply:
    """The children of a run, newest first, in pages."""
    run = _find(call)
    state = call.wire.state
    found = [state.runs[name] for name in reversed(state.children.get(run["runId"], []))]
    if call.query.get("$sortorder", "").lower() == "asc":
        found.reverse()
    return _paged(call, found, call.query.get("$continuationtoken"), int(call.query.get("$top") or 100))


def _paged(call: Call, found: list[Body], token: str | None, size: int) -> Reply:
    start = int(token or 0)
    body: Body = {"value": found[start : start + size]}
    if start + size < len(found):
        body["continuationToken"] = str(start + size)
        if call.method == "GET":
            rest = "".join(f"&{key}={value}" for key, value in call.query.items() if key != "$continuationtoken")
            body["nextLink"] = f"{call.wire.api}{call.path}?$continuationtoken={start + size}{rest}"
    return Reply(body=body)


@routes.on("PATCH", _RUNS + r"/(?P<run>[^/:]+)")
def patch(call: Call) -> Reply:
    """Change what may be changed of a run: whether it is hidden, its name, description, tags."""
    run, given = _find(call), call.json
    job = call.wire.state.jobs.get(call["run"])
    inner = job["properties"] if job else {}
    for key, member in (("hidden", "isArchived"), ("displayName", "displayName"), ("description", "description")):
        if given.get(key) is not None:
            run[key] = given[key]
            inner[member] = given[key]
    run["tags"] |= {key: value for key, value in (given.get("tags") or {}).items() if value is not None}
    for key, value in (given.get("tags") or {}).items():
        if value is None:
            run["tags"].pop(key, None)
    run["revision"] += 1
    return Reply(body=run)


@routes.on("PATCH", _RUNS + r"/(?P<run>[^/:]+)/tags")
def patch_tags(call: Call) -> Reply:
    """Add tags to a run, or take some away."""
    run, given = _find(call), call.json
    run["tags"] |= given.get("tagsToModify") or {}
    for key in given.get("tagsToDelete") or []:
        run["tags"].pop(key, None)
    return Reply(body=run)


@routes.on("POST", _RUNS + r"(?::query|/query)")
def query(call: Call) -> Reply:
    """Runs by a filter such as `ParentRunId eq null and Status eq 'Running'`, newest first."""
    asked = call.json
    found = sorted(call.wire.state.runs.values(), key=lambda run: run["createdUtc"], reverse=True)
    experiment = call.parts.get("experiment")
    if experiment:
        jobs = call.wire.state.jobs
        found = [
            run
            for run in found
            if experiment in (run["experimentId"], jobs[run["runId"]]["properties"]["experimentName"])
        ]
    for clause in re.split(r"\s+and\s+", asked.get("filter") or ""):
        if clause:
            found = [run for run in found if _holds(run, clause.strip("() "))]
    shown = asked.get("viewType") or "ActiveOnly"
    if shown != "All":
        found = [run for run in found if run["hidden"] == (shown == "ArchivedOnly")]
    return _paged(call, found, asked.get("continuationToken"), int(asked.get("top") or 100))


def _holds(run: Body, clause: str) -> bool:
    match = re.fullmatch(r"([\w/]+)\s+(eq|ne|gt|ge|lt|le)\s+(.+)", clause)
    if not match:
        raise errors.bad_argument(f"The filter clause '{clause}' is not understood.", "InvalidFilter")
    member, operator, text = match.groups()
    value: Any = run
    for part in member.split("/"):
        name = next((key for key in value or {} if key.lower() == part.lower()), None)
        value = (value or {}).get(name)
    wanted = None if text == "null" else text.strip("'\"")
    if operator in ("eq", "ne"):
        return bool(value == wanted) == (operator == "eq")
    left, right = str(value or ""), str(wanted)
    return {"gt": left > right, "ge": left >= right, "lt": left < right, "le": left <= right}[operator]


@routes.on("POST", _HISTORY + "/rundata")
def run_data(call: Call) -> Reply:
    """A run, with its definition."""
    call.parts["run"] = str(call.json.get("runId"))
    return Reply(
        body={"runMetadata": _find(call), "runDefinition": None, "jobSpecification": None, "systemSettings": None}
    )


@routes.on("POST", _HISTORY + "/batchrundata")
def batch_run_data(call: Call) -> Reply:
    """Several runs, by their names."""
    runs = call.wire.state.runs
    asked = {key: one["runId"] for key, one in (call.json.get("requests") or {}).items()}
    wanted = {key for key, one in (call.json.get("requests") or {}).items() if one.get("selectRunMetadata")}
    found = {
        key: {"runMetadata": runs[name] if key in wanted else None, "runDefinition": None}
        for key, name in asked.items()
        if name in runs
    }
    failed = {
        key: {"error": {"code": "NotFound", "message": f"Run {name} not found."}}
        for key, name in asked.items()
        if name not in runs
    }
    return Reply(body={"successfulResults": found, "failedResults": failed})


@routes.on("GET", _RUNS + r"/(?P<run>[^/:]+)/serviceinstances/(?P<node>[^/]+)")
def service_instances(call: Call) -> Reply:
    """The interactive services of a job on one of its nodes."""
    _find(call)
    services = call.wire.state.jobs[call["run"]]["properties"]["services"]
    running = call.wire.state.runs[call["run"]]["status"] == "Running"
    place = f"https://ml-{call['run']}.{call.wire.state.location}.instances.azureml.ms"
    instances = {
        name: {
            "type": one["jobServiceType"],
            "port": one["port"] or 8888,
            "status": "Running" if running else "Unavailable",
            "error": None,
            "endpoint": f"{place}/{name}" if running else None,
            "properties": one["properties"] or {},
        }
        for name, one in services.items()
        if one["jobServiceType"] not in ("Tracking", "Studio")
    }
    return Reply(body={"instances": instances})
