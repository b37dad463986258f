"""Metrics: MLflow's REST interface, and run history's own."""

from __future__ import annotations

from typing import Any

from tests.wire.http import WS, Call, Refusal, Reply, Routes
from tests.wire.state import Body, Point

routes = Routes()
_MLFLOW = r"/mlflow/v\d\.\d" + WS + "/api/2.0/mlflow"
_METRIC = r"/metric/v2\.0" + WS + r"/runs/(?P<run>[^/]+)"


class _Missing(Refusal):
    pass


def _run(call: Call) -> str:
    name = call.query.get("run_id") or call.query.get("run_uuid") or ""
    if name not in call.wire.state.runs:
        raise _Missing(404, "RESOURCE_DOES_NOT_EXIST", f"Run with id {name} does not exist.")
    return name


def _milliseconds(point: Point) -> int:
    return int(point.moment.timestamp() * 1000)


@routes.on("GET", _MLFLOW + "/runs/get")
def get_run(call: Call) -> Reply:
    """A run with the newest value of every metric, its parameters and its tags."""
    name, state = _run(call), call.wire.state
    run, job = state.runs[name], state.jobs[name]["properties"]
    newest = [
        {"key": key, "value": points[-1].value, "timestamp": _milliseconds(points[-1]), "step": points[-1].step}
        for key, points in state.metrics.get(name, {}).items()
    ]
    words = {"Completed": "FINISHED", "Failed": "FAILED", "Canceled": "KILLED", "NotStarted": "SCHEDULED"}
    parameters = {
        key: str(item["value"]) for key, item in job["inputs"].items() if item.get("jobInputType") == "literal"
    }
    info: Body = {
        "run_uuid": name,
        "run_id": name,
        "run_name": run["displayName"],
        "experiment_id": run["experimentId"],
        "user_id": "",
        "status": words.get(run["status"], "RUNNING"),
        "start_time": _epoch(run["startTimeUtc"]),
        "end_time": _epoch(run["endTimeUtc"]),
        "artifact_uri": f"azureml://{call.wire.api_host}/mlflow/v2.0{state.ws}/experiments/{job['experimentName']}/runs/{name}/artifacts",
        "lifecycle_stage": "deleted" if run["hidden"] else "active",
    }
    tags = [{"key": key, "value": str(value)} for key, value in run["tags"].items()]
    data = {"metrics": newest, "params": [{"key": k, "value": v} for k, v in parameters.items()], "tags": tags}
    return Reply(body={"run": {"info": info, "data": data}})


def _epoch(text: str | None) -> int | None:
    from datetime import datetime

    return None if text is None else int(datetime.fromisoformat(text[:26] + "+00:00").timestamp() * 1000)


@routes.on("GET", _MLFLOW + "/metrics/get-history")
def get_history(call: Call) -> Reply:
    """All values of one metric, in pages."""
    name, key = _run(call), call.query.get("metric_key", "")
    points = call.wire.state.metrics.get(name, {}).get(key, [])
    start, size = int(call.query.get("page_token") or 0), int(call.query.get("max_results") or 25000)
    part = points[start : start + size]
    body: Body = {
        "metrics": [{"key": key, "value": p.value, "timestamp": _milliseconds(p), "step": p.step} for p in part]
    }
    if start + size < len(points):
        body["next_page_token"] = str(start + size)
    return Reply(body=body)


@routes.on("POST", _MLFLOW + "/runs/log-metric")
def log_metric(call: Call) -> Reply:
    """Add a value to a metric."""
    given = call.json
    call.query = {"run_id": given.get("run_id") or given.get("run_uuid") or ""}
    call.wire.life.log_metric(_run(call), given["key"], float(given["value"]), int(given.get("step") or 0))
    return Reply(body={})


# run history's own


@routes.on("POST", _METRIC + "/list")
def list_metrics(call: Call) -> Reply:
    """The metrics of a run, by name."""
    held = call.wire.state.metrics.get(call["run"], {})
    value = [
        {"name": key, "columns": {key: "Double"}, "properties": {"uxMetricType": "azureml.v1.scalar"}} for key in held
    ]
    return Reply(body={"value": value, "nextLink": None, "continuationToken": None})


def _full(call: Call, key: str) -> Body:
    points = call.wire.state.metrics.get(call["run"], {}).get(key, [])
    rows: list[Any] = [
        {
            "metricId": f"{call['run']}.{key}.{p.step}",
            "createdUtc": p.moment.isoformat(),
            "step": p.step,
            "data": {key: p.value},
        }
        for p in points
    ]
    return {
        "dataContainerId": f"dcid.{call['run']}",
        "name": key,
        "columns": {key: "Double"},
        "properties": {"uxMetricType": "azureml.v1.scalar", "dataLocation": None},
        "namespace": "",
        "standardSchemaId": None,
        "value": rows,
        "continuationToken": None,
        "nextLink": None,
    }


@routes.on("POST", _METRIC + "/(?:full|sample)")
def full(call: Call) -> Reply:
    """All values of one metric."""
    return Reply(body=_full(call, str(call.json.get("name"))))


@routes.on("POST", _METRIC + "/batch")
def batch(call: Call) -> Reply:
    """Add values to metrics."""
    for one in call.json.get("values") or []:
        for key, value in (one.get("data") or {}).items():
            call.wire.life.log_metric(call["run"], key, float(value), int(one.get("step") or 0))
    return Reply(body={})
