"""Jobs: list, get, put, cancel, delete."""

from __future__ import annotations

import re

from tests.wire import errors, job_shapes
from tests.wire.http import WS, Call, Refusal, Reply, Routes
from tests.wire.members import JOB_2024, JOB_2025, check_members
from tests.wire.paging import page
from tests.wire.state import Body

routes = Routes()
ENDED = frozenset({"Completed", "Failed", "Canceled"})
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,254}")
_TAKEN = (
    "A job with this name already exists. If you are trying to submit a new job, use a different name. If you are trying "
    "to update an existing job, the existing job's {what} cannot be changed. Only description, tags, displayName, "
    "properties, and isArchived can be updated."
)
_FIXED = (
    "jobType",
    "command",
    "codeId",
    "environmentId",
    "computeId",
    "searchSpace",
    "trial",
    "jobs",
    "experimentName",
)


def find(call: Call) -> Body:
    """The job that a path names."""
    found = call.wire.state.jobs.get(call["name"])
    if found is None:
        raise errors.not_found("Job", call["name"])
    return found


@routes.on("GET", WS + "/jobs")
def list_jobs(call: Call) -> Reply:
    """Root jobs, newest first, in pages."""
    state, query = call.wire.state, call.query
    shown = query.get("listViewType", "ActiveOnly")
    kind, tag = query.get("jobType", "").lower(), query.get("tag", "")
    key, _, value = tag.partition("=")

    def matches(job: Body) -> bool:
        inner = job["properties"]
        if state.runs[job["name"]]["parentRunId"] is not None:
            return False
        if shown != "All" and inner["isArchived"] != (shown == "ArchivedOnly"):
            return False
        if kind and inner["jobType"].lower() != kind:
            return False
        return not tag or (key in inner["tags"] and (not value or inner["tags"][key] == value))

    reply = page(call, state.newest_jobs(), call.wire.job_page_size, matches)
    version = query.get("api-version", "")
    reply.body["value"] = [job_shapes.view(job, version) for job in reply.body["value"]]
    return reply


@routes.on("GET", WS + "/jobs/(?P<name>[^/]+)")
def get_job(call: Call) -> Reply:
    """One job, a child too."""
    return Reply(body=job_shapes.view(find(call), call.query.get("api-version", "")))


@routes.on("PUT", WS + "/jobs/(?P<name>[^/]+)")
def put_job(call: Call) -> Reply:
    """Start a job, or change what may be changed of one."""
    wire, asked, name = call.wire, call.json, call["name"]
    version = call.query.get("api-version", "")
    check_members(asked, JOB_2025 if version >= "2025" else JOB_2024)
    if not _NAME.fullmatch(name):
        raise errors.bad_argument(
            f"Job name '{name}' is invalid. A name starts with a letter or a digit, and has only letters, digits, - and _.",
            "InvalidName",
        )
    given = asked["properties"]
    old = wire.state.jobs.get(name)
    if old is not None:
        return _update(call, old, given)
    _check(call, given)
    address = f"{wire.resource_manager}{call.path}?api-version={version}"
    body = wire.life.submit(name, asked)
    return Reply(201, job_shapes.view(body, version), {"Location": address})


def _update(call: Call, old: Body, given: Body) -> Reply:
    inner = old["properties"]
    wanted = job_shapes.job_body(call.wire.state, old["name"], {"properties": given}, "", "")["properties"]
    for key in _FIXED:
        if key in inner and inner[key] != wanted.get(key):
            raise errors.bad_argument(_TAKEN.format(what={"computeId": "compute"}.get(key, key)))
    for key in ("description", "displayName", "tags", "isArchived"):
        if given.get(key) is not None:
            inner[key] = given[key]
    if given.get("properties"):
        inner["properties"] |= given["properties"]
    run = call.wire.state.runs[old["name"]]
    run |= {"tags": inner["tags"], "displayName": inner["displayName"], "hidden": inner["isArchived"]}
    return Reply(200, job_shapes.view(old, call.query.get("api-version", "")))


def _check(call: Call, given: Body) -> None:
    """Refuse what names compute, code or an environment that is not there, or a size or number that cannot be."""
    state = call.wire.state
    if compute := given.get("computeId"):
        target = str(compute).rsplit("/", 1)[-1]
        if target not in state.clusters:
            raise errors.unknown_compute(target)
    for part in (given, given.get("trial") or {}):
        code = state.key("codes", part.get("codeId"))
        if code and code not in state.assets["codes"]:
            raise errors.bad_argument(f"Code asset {code} was not found.", "CodeNotFound")
        environment = state.key("environments", part.get("environmentId"))
        if environment and environment not in state.environments:
            name, _, version = environment.partition("/")
            raise errors.bad_argument(f"No environment exists for name: {name}, version: {version}", "NotFound")
    count = (given.get("resources") or {}).get("instanceCount")
    if count is not None and int(count) < 1:
        raise errors.bad_argument(f"instanceCount must be at least 1, not {count}.")
    if given["jobType"].lower() == "sweep":
        goal = str(given["objective"]["goal"]).lower()
        if goal not in ("minimize", "maximize"):
            raise errors.invalid(("RequestInvalid", f"Error converting value '{goal}' to type 'Goal'."))
        if not given["searchSpace"]:
            raise errors.bad_argument("The search space of a sweep has no parameter.")


@routes.on("POST", WS + "/jobs/(?P<name>[^/]+)/cancel")
def cancel(call: Call) -> Reply:
    """Ask a job to end: a long-running operation. Of a job that has ended: nothing, and 200."""
    wire, body = call.wire, find(call)
    name = body["name"]
    if body["properties"]["status"] in ENDED:
        return Reply(200, None)
    wire.life.ask_to_end(name)
    operation = wire.operations.start("mfe", wire.seconds["cancel"], lambda: wire.life.cancelled(name))
    results = wire.operations.address(operation, "OperationResults")
    return Reply(202, None, wire.operations.headers(operation, results))


@routes.on("DELETE", WS + "/jobs/(?P<name>[^/]+)")
def delete(call: Call) -> Reply:
    """Take away a job that has ended: a long-running operation."""
    wire, body = call.wire, find(call)
    name = body["name"]
    if body["properties"]["status"] not in ENDED:
        raise Refusal(409, "Conflict", f"Job {name} is in status {body['properties']['status']} and cannot be deleted.")

    def finish() -> None:
        for child in wire.state.children.pop(name, []):
            wire.state.jobs.pop(child, None)
            wire.state.runs.pop(child, None)
        wire.state.jobs.pop(name, None)
        wire.state.runs.pop(name, None)

    operation = wire.operations.start("mfe", wire.seconds["cancel"], finish)
    return Reply(202, None, wire.operations.headers(operation, wire.operations.address(operation, "OperationResults")))
