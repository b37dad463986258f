"""Metrics of a job by MLflow's REST: the latest values in one request, a curve again only when it has grown."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from footplate.azure.client import Client
from footplate.azure.reading import LONG_AGO, items, mapping, text
from footplate.workspace.errors import NotFound
from footplate.workspace.model import MetricPoint

_MLFLOW = "mlflow/v2.0"
_PAGE = "25000"
_MOST_PAGES = 100
_AT_ONCE = 8
_SHOWN_FIRST = ("best_val_acc", "val_acc")


class Metrics:
    """The metrics of one workspace's jobs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._curves: dict[tuple[str, str], tuple[Any, Sequence[MetricPoint]]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def read(self, name: str) -> Mapping[str, Sequence[MetricPoint]] | None:
        """All metrics by name, points in step order; None where MLflow has no such run."""
        try:
            answer = await self._ask("runs/get", f"the metrics of job {name!r}", run_id=name, run_uuid=name)
        except NotFound:
            return None
        data = mapping(mapping(mapping(answer).get("run")).get("data"))
        latest = {text(entry.get("key")): entry for entry in map(mapping, items(data.get("metrics")))}
        curves = await asyncio.gather(*(self._curve(name, key, entry) for key, entry in latest.items() if key))
        return dict(zip((key for key in latest if key), curves, strict=True))

    async def headline(self, name: str) -> tuple[str, float] | None:
        """The metric that a list shows: the latest `best_val_acc`, else `val_acc`, else the first by name; None without one."""
        async with self._limit:
            try:
                answer = await self._ask("runs/get", f"the metrics of job {name!r}", run_id=name, run_uuid=name)
            except NotFound:
                return None
        data = mapping(mapping(mapping(answer).get("run")).get("data"))
        latest = {text(entry.get("key")): read_point(entry) for entry in map(mapping, items(data.get("metrics")))}
        values = {
            key: point.value
            for key, point in latest.items()
            if key and not key.startswith("system/") and point is not None and math.isfinite(point.value)
        }
        first = min(values, key=lambda key: (_SHOWN_FIRST.index(key) if key in _SHOWN_FIRST else 9, key), default=None)
        return None if first is None else (first, values[first])

    async def curve(self, name: str, key: str) -> Sequence[MetricPoint]:
        """One metric of a job, points in step order; none where MLflow has no such run."""
        async with self._limit:
            try:
                return await self._history(name, key)
            except NotFound:
                return ()

    async def _curve(self, name: str, key: str, latest: Mapping[str, Any]) -> Sequence[MetricPoint]:
        stamp = tuple(str(latest.get(part)) for part in ("step", "timestamp", "value"))
        known = self._curves.get((name, key))
        if known is not None and known[0] == stamp:
            return known[1]
        async with self._limit:
            points = await self._history(name, key)
        self._curves[name, key] = (stamp, points)
        return points

    async def _history(self, name: str, key: str) -> Sequence[MetricPoint]:
        found: list[MetricPoint] = []
        token = ""
        for _ in range(_MOST_PAGES):
            more = {"page_token": token} if token else {}
            page = mapping(
                await self._ask(
                    "metrics/get-history",
                    f"metric {key!r} of job {name!r}",
                    run_id=name,
                    run_uuid=name,
                    metric_key=key,
                    max_results=_PAGE,
                    **more,
                )
            )
            found += [point for entry in items(page.get("metrics")) if (point := read_point(entry)) is not None]
            if not (token := text(page.get("next_page_token"))):
                break
        return sorted(found, key=lambda point: (point.step, point.time))

    async def _ask(self, call: str, what: str, **query: str) -> Any:
        return await self._client.service("GET", _MLFLOW, f"/api/2.0/mlflow/{call}", what, query)


def read_point(entry: Any) -> MetricPoint | None:
    """One logged value; NaN and infinity come as text. None for what is no number."""
    point = mapping(entry)
    try:
        value = float(point["value"])
        step = int(point.get("step") or 0)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    try:
        time = datetime.fromtimestamp(int(point.get("timestamp") or 0) / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        time = LONG_AGO
    return MetricPoint(step, time, value)
