"""Azure Monitor: the figures of endpoints and deployments, a point a minute, some minutes late."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.wire import errors
from tests.wire.endpoints import EP, find_endpoint
from tests.wire.http import Call, Reply, Routes
from tests.wire.state import Body

routes = Routes()
_LATE = 3
"""The newest minutes have no value yet."""
_FIGURES = {
    "RequestsPerMinute": 60,
    "RequestLatency_P50": 30,
    "RequestLatency_P90": 38,
    "RequestLatency_P95": 40,
    "RequestLatency_P99": 90,
    "CpuUtilizationPercentage": 35,
    "CpuMemoryUtilizationPercentage": 50,
    "DiskUtilization": 10,
    "DeploymentCapacity": 1,
}
_GPU = ("GpuUtilizationPercentage", "GpuMemoryUtilizationPercentage", "GpuEnergyJoules")
"""Known names, of which a deployment without a GPU has no figures."""
_CODES = {"200": 57, "424": 2, "500": 1}
"""How the requests of a minute are answered."""


@routes.on("GET", EP + r"(?:/deployments/(?P<name>[^/]+))?/providers/Microsoft\.Insights/metrics")
def monitor(call: Call) -> Reply:
    """Azure Monitor's figures: a point a minute, as late as the real ones are."""
    find_endpoint(call)
    if call["name"] is not None and f"{call['endpoint']}/{call['name']}" not in call.wire.state.deployments:
        raise errors.not_found("OnlineDeployment", call["name"])
    names = [name for name in call.query.get("metricnames", "RequestsPerMinute").split(",") if name]
    unknown = [name for name in names if name not in _FIGURES and name not in _GPU]
    if unknown:
        raise errors.bad_argument(f"Failed to find metric configuration for metric {unknown[0]}.", "BadRequest")
    dimension = call.query.get("$filter", "").partition(" ")[0]
    if dimension and (dimension != "envoy_response_code" or names != ["RequestsPerMinute"]):
        raise errors.bad_argument(f"Dimension {dimension} is not supported by {', '.join(names)}.", "BadRequest")
    end = call.wire.now.replace(second=0, microsecond=0)
    moments = [end - timedelta(minutes=minute) for minute in range(59, -1, -1)]
    span = f"{moments[0]:%Y-%m-%dT%H:%M:%SZ}/{moments[-1]:%Y-%m-%dT%H:%M:%SZ}"
    value = [_metric(call, name, _series(name, moments, dimension)) for name in names]
    return Reply(
        body={
            "cost": 0,
            "timespan": span,
            "interval": "PT1M",
            "value": value,
            "resourceregion": call.wire.state.location,
        }
    )


def _metric(call: Call, name: str, series: list[Body]) -> Body:
    return {
        "id": f"{call.path}/{name}",
        "type": "Microsoft.Insights/metrics",
        "name": {"value": name, "localizedValue": name},
        "unit": "Count",
        "timeseries": series,
        "errorCode": "Success",
    }


def _series(name: str, moments: list[datetime], dimension: str) -> list[Body]:
    if name in _GPU:
        return []
    if not dimension:
        # Without the dimension, an average of requests is one over the codes.
        base = _FIGURES[name] if name != "RequestsPerMinute" else _FIGURES[name] / len(_CODES)
        return [{"metadatavalues": [], "data": _data(base, moments)}]
    label = {"value": dimension, "localizedValue": dimension}
    return [
        {"metadatavalues": [{"name": label, "value": code}], "data": _data(count, moments)}
        for code, count in _CODES.items()
    ]


def _data(value: float, moments: list[datetime]) -> list[Body]:
    counted, late = moments[:-_LATE], moments[-_LATE:]
    points: list[Body] = [{"timeStamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", "average": float(value)} for at in counted]
    return [*points, *({"timeStamp": f"{at:%Y-%m-%dT%H:%M:%SZ}"} for at in late)]
