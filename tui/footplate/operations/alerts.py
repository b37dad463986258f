"""Alerts while a console is open: what is watched is read at a gentle pace, what is found is told once, by one console."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from footplate.operations import alert_actions, alert_rules
from footplate.operations.alert_rules import DOINGS, Act, Finding, Rule, acts_of
from footplate.operations.alert_store import AlertStore, Watched, names
from footplate.operations.stalls import quiet_seconds
from footplate.workspace import (
    Cluster,
    Endpoint,
    Invalid,
    Job,
    JobFilter,
    MetricPoint,
    Node,
    NotFound,
    NotSignedIn,
    Throttled,
    Unreachable,
    Workspace,
    WorkspaceError,
)

_LOCAL_SECONDS, _REMOTE_SECONDS, _ALONE_SECONDS = 2.0, 15.0, 60.0
_FEW_READS = 60
_MOST_PAUSE_SECONDS = 300.0
_ONE_BY_ONE = 5
"""Up to so many watched jobs are read each by itself; more are looked for in the newest page first."""
_LIST_SECONDS = 30.0
_LONG_AGO = -math.inf
_ENDS = ("failed", "finished")


class Show(Protocol):
    """What shows findings on the terminal: `doing` is one of DOINGS; `away` says that they came while no console was open."""

    def __call__(self, found: Sequence[Finding], doing: str, *, away: bool) -> None: ...


def pace_seconds(workspace: Workspace, *, alone: bool) -> float:
    """Seconds between two readings of what is watched: more where reads are counted, nobody looks, or few reads are left."""
    left = workspace.reads_left
    if workspace.kind == "local":
        return _LOCAL_SECONDS
    pace = _ALONE_SECONDS if alone else _REMOTE_SECONDS
    return pace * 4 if left is not None and left < _FEW_READS else pace


class Alerts:
    """The alerts of one console on one workspace.

    Screens hand over what they read anyway (`saw_jobs` and its like, which only take note); `look` does the rest. Faults of
    acts go to `fault` as sentences.
    """

    def __init__(
        self,
        workspace: Workspace,
        rules: Sequence[Rule],
        store: AlertStore,
        show: Show,
        fault: Callable[[str], None],
        pace: Callable[[], float],
    ) -> None:
        self._workspace, self._rules, self._store = workspace, tuple(rules), store
        self._show, self._fault, self._pace = show, fault, pace
        self._began = datetime.now(UTC)
        self._since = self._began.timestamp()
        self._for_all = any(rule.of == "all" for rule in rules)
        self._watched: list[Watched] = []
        self._names: frozenset[tuple[str, str]] = frozenset()
        self._stamp: object = None
        self._listed = self._due = self._sweep = _LONG_AGO
        self._pause = 0.0
        self._looking = asyncio.Lock()
        self._jobs: dict[str, tuple[float, Job]] = {}
        self._clusters: dict[str, tuple[float, Cluster]] = {}
        self._endpoints: dict[str, tuple[float, Endpoint]] = {}
        self._unjudged: dict[tuple[str, str], Job | Cluster | Endpoint] = {}
        self._idle_since: dict[str, float] = {}
        self._known: set[str] = set()
        self._acting: set[asyncio.Task[None]] = set()

    # The watch list

    @property
    def watched(self) -> frozenset[tuple[str, str]]:
        """Kind and name of what is watched, as it was read last."""
        return self._names

    @property
    def statuses(self) -> dict[tuple[str, str], str]:
        """The status of what is watched, as it was seen last."""
        seen = {("job", name): job.status for name, (_, job) in self._jobs.items()}
        seen |= {("cluster", name): cluster.state for name, (_, cluster) in self._clusters.items()}
        seen |= {("endpoint", name): endpoint.state for name, (_, endpoint) in self._endpoints.items()}
        return seen

    async def history(self) -> tuple[Sequence[Watched], Sequence[tuple[Finding, float, str]]]:
        """What is watched, and what was told when, newest first, with what went wrong. Raises Unexpected."""
        watched, told = await asyncio.to_thread(lambda: (self._store.watched(), self._store.history()))
        return watched, [(one.finding, one.when, one.fault) for one in told]

    async def watch(self, kind: str, name: str) -> None:
        """Put a thing on the watch list. Raises Unexpected."""
        await asyncio.to_thread(self._store.watch, kind, name)
        await self._read_list()
        self._due = _LONG_AGO

    async def unwatch(self, kind: str, name: str) -> None:
        """Take a thing off the watch list. Raises Unexpected."""
        await asyncio.to_thread(self._store.unwatch, kind, name)
        await self._read_list()

    async def _read_list(self) -> None:
        self._stamp = await asyncio.to_thread(self._store.stamp)
        self._watched = await asyncio.to_thread(self._store.watched)
        self._names, self._listed = names(self._watched), time.monotonic()

    # What the console reads anyway

    def saw_jobs(self, jobs: Iterable[Job]) -> None:
        """Take note of jobs that were read just now: of those that are watched, and where rules ask for all, of new ends."""
        watched = {name for kind, name in self._names if kind == "job"}
        if not watched and not self._for_all:
            return
        now = time.monotonic()
        for job in jobs:
            if job.name in watched:
                self._jobs[job.name] = (now, job)
            elif self._for_all and not job.active and job.ended is not None and job.ended.timestamp() > self._since:
                self._unjudged["job", job.name] = job

    def saw_clusters(self, clusters: Iterable[Cluster]) -> None:
        """Take note of clusters that were read just now."""
        now = time.monotonic()
        for cluster in clusters:
            self._clusters[cluster.name] = (now, cluster)
            if self._for_all and ("cluster", cluster.name) not in self._names:
                self._unjudged["cluster", cluster.name] = cluster

    def saw_endpoints(self, endpoints: Iterable[Endpoint]) -> None:
        """Take note of endpoints that were read just now."""
        now = time.monotonic()
        for endpoint in endpoints:
            self._endpoints[endpoint.name] = (now, endpoint)
            if self._for_all and ("endpoint", endpoint.name) not in self._names:
                self._unjudged["endpoint", endpoint.name] = endpoint

    # Looking

    async def begin(self) -> None:
        """Read the watch list, and from which moment on new ends are told. Raises Unexpected."""
        self._since = await asyncio.to_thread(self._store.begin)
        await self._read_list()

    async def look(self) -> None:
        """Read what is due, judge what was seen, tell what nobody told. Raises Unexpected where nothing can be kept.

        What could not be read for a fault of footplate's own is raised when all the rest was told.
        """
        if self._looking.locked():
            return
        async with self._looking:
            stamp = await asyncio.to_thread(self._store.stamp)
            if stamp != self._stamp or time.monotonic() - self._listed > _LIST_SECONDS:
                await self._read_list()
            if time.monotonic() >= self._sweep:
                self._sweep = time.monotonic() + _LIST_SECONDS
                left = await asyncio.to_thread(self._store.abandoned)
                self._tell([(found, done) for found, done in left])
            seen = time.time()
            found: dict[str, Finding] = {}
            judged: set[tuple[str, str]] = set()
            faults: list[Exception] = []
            self._judge_seen(found, judged)
            if time.monotonic() >= self._due:
                faults = await self._read_watched(found, judged)
            new = [one for one in found.values() if one.key not in self._known]
            if new or judged:
                mine = await asyncio.to_thread(self._settle, new, judged, set(found), seen)
                self._known |= {one.key for one in new if not one.passing}
                self._tell([(one, frozenset()) for one in mine])
                if any(one.event in (*_ENDS, "gone") for one in new):
                    await self._read_list()
            if faults:
                raise faults[0]

    def _settle(
        self, new: Sequence[Finding], judged: set[tuple[str, str]], holding: set[str], seen: float
    ) -> list[Finding]:
        """In a thread: claim what is new, and remember what is over."""
        standing = self._store.standing()
        over = [key for key, one in standing.items() if (one.kind, one.name) in judged and key not in holding]
        if over:
            self._store.over(over, seen)
        new = [one for one in new if one.key not in standing]
        return self._store.claim(new) if new else []

    def _judge_seen(self, found: dict[str, Finding], judged: set[tuple[str, str]]) -> None:
        """What was seen in lists of things that are not watched."""
        for (kind, name), thing in self._unjudged.items():
            if isinstance(thing, Job):
                hits = alert_rules.in_job(thing, self._rules, watched=False)
            elif isinstance(thing, Cluster):
                hits = alert_rules.in_cluster(thing, (), self._rules, watched=False)
            else:
                hits = alert_rules.in_endpoint(thing, self._rules, watched=False)
            judged.add((kind, name))
            found.update((one.key, one) for one in hits)
        self._unjudged.clear()

    async def _read_watched(self, found: dict[str, Finding], judged: set[tuple[str, str]]) -> list[Exception]:
        """Read what is watched and was not seen lately, and judge all of it; a workspace that does not answer is spared.

        Gives the faults that nobody foresaw.
        """
        pace = self._pace()
        self._due = time.monotonic() + pace
        faults: list[Exception] = []
        try:
            await self._read_page(pace)
            for kind, name in sorted(self._names):
                try:
                    hits = await self._judge(kind, name, pace)
                except NotFound:
                    hits = [alert_rules.gone(kind, name)]
                except (Throttled, Unreachable, NotSignedIn):
                    raise
                except WorkspaceError:
                    continue  # this one may not be read; the screen that shows it says why
                except Exception as error:  # noqa: BLE001  the others are told all the same, and then this
                    faults.append(error)
                    continue
                judged.add((kind, name))
                found.update((one.key, one) for one in hits)
            self._pause = 0.0
        except WorkspaceError as error:  # the screen in sight says what does not answer
            wait = error.retry_after if isinstance(error, Throttled) else 0.0
            self._pause = min(_MOST_PAUSE_SECONDS, max(pace, 2 * self._pause))
            self._due = time.monotonic() + max(self._pause, wait)
        return faults

    async def _read_page(self, pace: float) -> None:
        """Of many watched jobs the newest page holds most: one read for all of them."""
        fresh = time.monotonic() - pace
        unseen = [n for kind, n in self._names if kind == "job" and self._jobs.get(n, (_LONG_AGO,))[0] < fresh]
        if len(unseen) > _ONE_BY_ONE:
            async for page in self._workspace.jobs(JobFilter(archived=True)):
                self.saw_jobs(page)
                break

    async def _judge(self, kind: str, name: str, pace: float) -> list[Finding]:
        """What the rules find in a watched thing, read now where it was not seen lately. Raises WorkspaceError."""
        fresh = time.monotonic() - pace
        if kind == "job":
            seen, job = self._jobs.get(name, (_LONG_AGO, None))
            if job is None or seen < fresh:
                job = await self._workspace.job(name)
                self.saw_jobs([job])
            metrics, quiet = await self._measure(job)
            return alert_rules.in_job(job, self._rules, True, metrics, quiet)
        if kind == "cluster":
            when, cluster = self._clusters.get(name, (_LONG_AGO, None))
            if cluster is None or when < fresh:
                cluster = await self._workspace.cluster(name)
                self.saw_clusters([cluster])
            nodes = await self._nodes(name)
            return alert_rules.in_cluster(cluster, nodes, self._rules, True, self._idle(cluster, nodes))
        at, endpoint = self._endpoints.get(name, (_LONG_AGO, None))
        if endpoint is None or at < fresh:
            endpoint = await self._workspace.endpoint(name)
            self.saw_endpoints([endpoint])
        return alert_rules.in_endpoint(endpoint, self._rules, True)

    async def _measure(self, job: Job) -> tuple[Mapping[str, Sequence[MetricPoint]], float | None]:
        """A job's metrics and how long it was quiet, where a rule asks for them."""
        asked = {event for rule in self._rules for event in rule.when if rule.holds_for(event, job.name, True)}
        if job.started is None or not asked & {"metric", "stalled"}:
            return {}, None
        try:
            metrics = await self._workspace.metrics(job.name) if "metric" in asked or job.active else {}
            quiet = await quiet_seconds(self._workspace, job, metrics) if "stalled" in asked else None
        except NotFound:
            raise
        except WorkspaceError:  # how it ends is told all the same
            return {}, None
        return metrics, quiet

    async def _nodes(self, cluster: str) -> Sequence[Node]:
        try:
            return await self._workspace.nodes(cluster)
        except Invalid:  # a target that tells of no nodes
            return ()

    def _idle(self, cluster: Cluster, nodes: Sequence[Node]) -> float | None:
        """How long nodes that are billed held no job, as far as this console has seen; None where none does."""
        idle = any(node.state == "idle" for node in nodes) and self._workspace.kind != "local"
        if not idle:
            self._idle_since.pop(cluster.name, None)
            return None
        return time.monotonic() - self._idle_since.setdefault(cluster.name, time.monotonic())

    # Telling

    def _tell(self, mine: Sequence[tuple[Finding, frozenset[str]]]) -> None:
        """Do for each finding, in a task of its own, what its rules ask for; what shows on the terminal is shown together."""
        if not mine:
            return
        acts = {found.key: self._left(found, done) for found, done in mine}
        for doing in DOINGS:
            asked = [one for one, _ in mine if any(act.kind == doing for act in acts[one.key])]
            for away in (True, False):
                if some := [one for one in asked if self._was_away(one) == away]:
                    self._show(some, doing, away=away)
        for found, _ in mine:
            task = asyncio.create_task(self._act(found, acts[found.key]))
            self._acting.add(task)
            task.add_done_callback(self._acting.discard)

    def _left(self, found: Finding, done: frozenset[str]) -> list[Act]:
        acts = acts_of(found, self._rules) or ((Act("toast"),) if found.event == "gone" else ())
        return [act for act in acts if act.id not in done]

    def _was_away(self, found: Finding) -> bool:
        """Whether it ended before this console was opened."""
        return found.event in _ENDS and bool(found.at) and datetime.fromisoformat(found.at) < self._began

    async def _act(self, found: Finding, acts: Sequence[Act]) -> None:
        """Do the acts that are not of the terminal, and remember each as it is done."""
        try:
            for act in acts:
                fault = "" if act.kind in DOINGS else await alert_actions.do(act, found, self._workspace.name)
                if fault:
                    self._fault(fault)
                await asyncio.to_thread(self._store.acted, found.key, act.id, fault)
            await asyncio.to_thread(self._store.told, found.key)
        except WorkspaceError as error:
            self._fault(str(error))

    async def close(self) -> None:
        """End acts that are under way; the next console does them at once."""
        for task in self._acting:
            task.cancel()
        if await asyncio.gather(*self._acting, return_exceptions=True):
            with suppress(WorkspaceError):  # then only after a while
                await asyncio.to_thread(self._store.release)
