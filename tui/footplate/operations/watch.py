"""Watch jobs, clusters and endpoints until they end, settle, or a condition holds; what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from footplate.operations import alert_rules
from footplate.operations.alert_rules import Finding, Rule
from footplate.operations.stalls import quiet_seconds
from footplate.workspace import (
    Cluster,
    Endpoint,
    Invalid,
    Job,
    MetricPoint,
    NotFound,
    Throttled,
    Unexpected,
    Unreachable,
    Workspace,
)
from footplate.workspace.model import iso

T = TypeVar("T")
_CHANGING = ("Creating", "Updating", "Deleting", "Resizing", "Provisioning")
_PAUSES_SECONDS = (1, 2, 5, 10, 20, 30, 60)
EXIT_CODES: Mapping[str, int] = {"completed": 0, "met": 0, "failed": 1, "unmet": 1, "timeout": 3}
"""What a script gets by the outcome: `unmet` is a job that ended before the condition held."""


@dataclass(frozen=True)
class Outcome:
    """What came of watching a thing: one of EXIT_CODES, a line on it, and the thing as it was seen last."""

    kind: str
    name: str
    outcome: str
    text: str
    thing: Job | Cluster | Endpoint | None = None
    finding: Finding | None = None

    def document(self) -> dict[str, Any]:
        """What `--json` prints: the thing's own document, with what came of it."""
        found = self.finding
        more = {"metric": found.metric, "value": found.document("")["value"]} if found and found.metric else {}
        own = self.thing.document() if self.thing is not None else {"name": self.name}
        return own | {"kind": self.kind, "outcome": self.outcome, "text": self.text} | more

    def as_finding(self) -> Finding:
        """The same as an alert's command gets it."""
        status = getattr(self.thing, "status", "") or getattr(self.thing, "state", "")
        made = Finding("", self.outcome, self.kind, self.name, self.text, status, at=iso(datetime.now(UTC)) or "")
        return made if self.finding is None else replace(self.finding, event=self.outcome)


@dataclass(frozen=True)
class Telling:
    """What is called while a thing is watched: each job as it is seen, each value that is logged, a line beside."""

    seen: Callable[[Job], None]
    measured: Callable[[str, MetricPoint], None]
    note: Callable[[str], None]


async def find(workspace: Workspace, named: str) -> tuple[str, str]:
    """The kind and name that are meant: `endpoint:birds`, `cluster:gpu`, `job:wren`, or a bare name of any of them.

    A job goes before an endpoint, that before a cluster. Raises NotFound where there is none of that name.
    """
    kind, colon, name = named.partition(":")
    looks: Mapping[str, Callable[[str], Awaitable[object]]] = {
        "job": workspace.job,
        "endpoint": workspace.endpoint,
        "cluster": workspace.cluster,
    }
    if colon and kind in looks:
        await looks[kind](name)
        return kind, name
    for kind, look in looks.items():
        try:
            await look(named)
        except (NotFound, Invalid):  # a name that such a thing cannot have
            continue
        return kind, named
    raise NotFound(
        f"There is no job, endpoint or cluster {named!r} in workspace {workspace.name!r}.",
        "footplate jobs, endpoints and clusters list the names.",
    )


async def watch(workspace: Workspace, kind: str, name: str, until: Rule | None, telling: Telling) -> Outcome:
    """Watch one thing: a job to its end, what is being changed until it is not, or until a condition holds.

    Raises Invalid for a condition that such a thing cannot meet, and what reading it raises, after some patience.
    """
    if until is not None and alert_rules.EVENTS[until.when[0]] != kind:
        other = alert_rules.EVENTS[until.when[0]]
        raise Invalid(
            f"{until.when[0]!r} is a condition of a {other}, and {name!r} is {'an' if kind == 'endpoint' else 'a'} {kind}.",
            f"A {kind} can be watched for {', '.join(alert_rules.KINDS[kind])}.",
        )
    if kind == "job":
        return await _watch_job(workspace, name, until, telling)
    return await _watch_other(workspace, kind, name, until, telling)


async def _watch_job(workspace: Workspace, name: str, until: Rule | None, telling: Telling) -> Outcome:
    told: set[tuple[str, int, datetime, str]] = set()
    refused = ""
    while True:
        job = await _patiently(
            lambda: workspace.job(name), telling.note
        )  # before the metrics: what it logged is all there
        if job.active:
            telling.seen(job)
        metrics: Mapping[str, Sequence[MetricPoint]] = {}
        try:
            metrics = await _patiently(lambda: workspace.metrics(name), telling.note)
        except Unexpected as error:
            if str(error) != refused:
                refused = str(error)
                telling.note(refused)
        for metric, point in _new(metrics, told):
            telling.measured(metric, point)
        if until is not None:
            quiet = await quiet_seconds(workspace, job, metrics) if "stalled" in until.when else None
            hits = alert_rules.in_job(job, [until], True, metrics, quiet)
            if hits:
                return Outcome("job", name, "met", hits[0].text, job, hits[0])
        if not job.active:
            ended = alert_rules.in_job(job, [Rule(("failed", "finished"))], True)
            text = ended[0].text if ended else f"{name} is {job.status}"
            if until is not None:
                return Outcome("job", name, "unmet", f"{text}; the condition did not come to hold", job)
            return Outcome("job", name, "completed" if job.status == "Completed" else "failed", text, job)
        await asyncio.sleep(workspace.poll_seconds)


async def _watch_other(workspace: Workspace, kind: str, name: str, until: Rule | None, telling: Telling) -> Outcome:
    """A cluster or an endpoint."""
    last = ""
    idle_from: float | None = None
    loop = asyncio.get_running_loop()
    while True:
        thing: Cluster | Endpoint
        if kind == "cluster":
            cluster = thing = await _patiently(lambda: workspace.cluster(name), telling.note)
            nodes = await _patiently(lambda: workspace.nodes(name), telling.note) if until is not None else ()
            idle = any(node.state == "idle" for node in nodes)
            idle_from = (loop.time() if idle_from is None else idle_from) if idle else None
            idle_seconds = None if idle_from is None else loop.time() - idle_from
            hits = alert_rules.in_cluster(cluster, nodes, [until], True, idle_seconds) if until is not None else []
            states, wrong = [cluster.state], cluster.error or ("Failed" if cluster.state == "Failed" else "")
        else:
            endpoint = thing = await _patiently(lambda: workspace.endpoint(name), telling.note)
            hits = alert_rules.in_endpoint(endpoint, [until], True) if until is not None else []
            states = [endpoint.state, *(d.state for d in endpoint.deployments)]
            wrong = alert_rules.ailment(endpoint)
        if hits:
            return Outcome(kind, name, "met", hits[0].text, thing, hits[0])
        changing = next((state for state in states if state in _CHANGING), "")
        if until is None and not changing:
            text = f"{kind} {name} is {wrong or states[0]}"
            return Outcome(kind, name, "failed" if wrong else "completed", text, thing)
        line = f"· {name}: {changing or states[0]}"
        if line != last:
            last = line
            telling.note(line)
        await asyncio.sleep(workspace.poll_seconds)


async def _patiently(read: Callable[[], Awaitable[T]], note: Callable[[str], None]) -> T:
    """Read; a workspace that does not answer, or asks for a pause, is asked again for about two minutes."""
    for number, pause in enumerate(_PAUSES_SECONDS):
        try:
            return await read()
        except Throttled as error:
            await asyncio.sleep(max(error.retry_after, pause))
        except Unreachable as error:
            if not number:
                note(str(error))
            await asyncio.sleep(pause)
    return await read()


def _new(
    found: Mapping[str, Sequence[MetricPoint]], told: set[tuple[str, int, datetime, str]]
) -> list[tuple[str, MetricPoint]]:
    """The points that were not told yet, in the order they were logged; `told` has them from then on.

    Points come in step order, so a new one may stand before old ones; NaN is not equal to itself, its text is.
    """
    new = []
    for metric, points in found.items():
        for point in points:
            if (key := (metric, point.step, point.time, repr(point.value))) not in told:
                told.add(key)
                new.append((metric, point))
    return sorted(new, key=lambda one: (one[1].time, one[1].step))
