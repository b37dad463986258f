"""Azure Monitor's figures of deployments: a point a minute, minutes late (documented: supported-metrics, REST Metrics - List)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from footplate.azure.client import Client
from footplate.azure.endpoints import Endpoints
from footplate.azure.following import deployment_path
from footplate.azure.reading import items, mapping, moment, text
from footplate.workspace.serving import Figures

_VERSION = "2023-10-01"
_NAMES = {
    "RequestLatency_P50": "latency_ms_p50",
    "RequestLatency_P90": "latency_ms_p90",
    "RequestLatency_P95": "latency_ms_p95",
    "RequestLatency_P99": "latency_ms_p99",
    "CpuUtilizationPercentage": "cpu_percent",
    "CpuMemoryUtilizationPercentage": "memory_percent",
    "GpuUtilizationPercentage": "gpu_percent",
    "GpuMemoryUtilizationPercentage": "gpu_memory_percent",
}
"""Azure's names, and ours: what a deployment has that is told as one series, an average over its instances."""
_REQUESTS = "RequestsPerMinute"
_CODE = "envoy_response_code"
_HOUR = timedelta(hours=1)
_KEPT_SECONDS = 60.0
"""There is a new point a minute, and each look costs two reads a deployment."""
_AT_ONCE = 4

Points = list[tuple[datetime, float]]


class Monitor:
    """The figures of the deployments of one workspace."""

    def __init__(self, client: Client, endpoints: Endpoints) -> None:
        self._client = client
        self._endpoints = endpoints
        self._kept: dict[tuple[str, str], tuple[float, Figures]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def figures(self, endpoint: str) -> Sequence[Figures]:
        """The last hour's figures of each deployment; one that Azure tells nothing of has none. Raises NotFound, NotAllowed."""
        found = await self._endpoints.endpoint(endpoint)
        return await asyncio.gather(*(self._of(endpoint, one.name) for one in found.deployments))

    async def _of(self, endpoint: str, name: str) -> Figures:
        known = self._kept.get((endpoint, name))
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        whole, by_code = await asyncio.gather(
            self._ask(endpoint, name, ",".join(_NAMES)),
            # Requests are counted by the answer's code: without the filter, their average is one over codes.
            self._ask(endpoint, name, _REQUESTS, **{"$filter": f"{_CODE} eq '*'", "top": "100"}),
        )
        series: dict[str, Points] = {}
        split = [one for metric in items(by_code.get("value")) for one in items(mapping(metric).get("timeseries"))]
        if requests := _sum([_points(one) for one in split]):
            failed = dict(_sum([_points(one) for one in split if _is_error(one)]))
            series["requests_per_minute"] = requests
            series["errors_per_minute"] = [(at, failed.get(at, 0.0)) for at, _ in requests]
        for metric in items(whole.get("value")):
            ours = _NAMES.get(text(mapping(mapping(metric).get("name")).get("value")))
            points = _sum([_points(one) for one in items(mapping(metric).get("timeseries"))])
            if ours is not None and points:
                series[ours] = points
        until = max((points[-1][0] for points in series.values()), default=None)
        figures = Figures(name, series, until)
        self._kept[endpoint, name] = (time.monotonic() + _KEPT_SECONDS, figures)
        return figures

    async def _ask(self, endpoint: str, name: str, metrics: str, **more: str) -> Mapping[str, Any]:
        """The last hour by minutes."""
        now = datetime.now(UTC)
        path = f"{deployment_path(endpoint, name)}/providers/Microsoft.Insights/metrics"
        query = {
            "metricnames": metrics,
            "aggregation": "average",
            "interval": "PT1M",
            "timespan": f"{now - _HOUR:%Y-%m-%dT%H:%M:%SZ}/{now:%Y-%m-%dT%H:%M:%SZ}",
            **more,
        }
        async with self._limit:
            return mapping(await self._client.get(path, _VERSION, f"the figures of deployment {name!r}", **query))


def _points(series: Any) -> Points:
    """The minutes of a time series that have a value: those that nobody counted yet have none."""
    found: Points = []
    for point in items(mapping(series).get("data")):
        at, value = moment(mapping(point).get("timeStamp")), mapping(point).get("average")
        if at is not None and isinstance(value, int | float) and not isinstance(value, bool):
            found.append((at, float(value)))
    return sorted(found)


def _sum(series: Sequence[Points]) -> Points:
    """Several time series as one."""
    if len(series) == 1:
        return series[0]
    total: dict[datetime, float] = {}
    for points in series:
        for at, value in points:
            total[at] = total.get(at, 0.0) + value
    return sorted(total.items())


def _is_error(series: Any) -> bool:
    """Whether a time series counts answers with a status of 400 and up."""
    for entry in items(mapping(series).get("metadatavalues")):
        if text(mapping(mapping(entry).get("name")).get("value")).lower() == _CODE:
            code = text(mapping(entry).get("value"))
            return code.isdecimal() and int(code) >= 400
    return False
