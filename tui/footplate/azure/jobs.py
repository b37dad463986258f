"""Jobs: the list in pages, one job with what run history knows of it, children, and what is changed of a job."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.clusters import Clusters
from footplate.azure.masking import mask
from footplate.azure.metrics import Metrics
from footplate.azure.reading import LONG_AGO, SYSTEM_TAGS, count, created, last_name, mapping, tags, text
from footplate.azure.runs import Run, Runs, trial_parameters, trial_tags
from footplate.azure.storage import Storage
from footplate.azure.turns import give_way
from footplate.workspace.compute import Cluster
from footplate.workspace.errors import Conflict, Invalid, NotFound, WorkspaceError
from footplate.workspace.model import Job, JobFilter, Output, Service, Stage

_VERSION = "2024-01-01-preview"
_CANCEL_VERSION = "2023-04-01-preview"
_KINDS = {"Command": "command", "Sweep": "sweep", "Pipeline": "pipeline", "AutoML": "automl", "Spark": "spark"}
_OWN_SERVICES = ("Studio", "Tracking")
"""Services that every job has, which are no services of its own."""
_CLUSTER_SECONDS = 10.0
"""How long a waiting job's cluster is taken to be as it was read."""


class Jobs:
    """The jobs of one workspace."""

    def __init__(self, client: Client, runs: Runs, storage: Storage, clusters: Clusters, metrics: Metrics) -> None:
        self._client = client
        self._runs = runs
        self._storage = storage
        self._clusters = clusters
        self._metrics = metrics
        self._seen: dict[str, tuple[float, Cluster | None]] = {}
        self._best: dict[str, float | None] = {}
        """Of trials that have ended, whose metric changes no more."""

    async def pages(self, matching: JobFilter) -> AsyncGenerator[Sequence[Job]]:
        """Jobs in the service's own order, newest first as it was always seen (assumed: it is documented nowhere)."""
        view = "All" if matching.archived else "ActiveOnly"
        async for page in self._client.pages("/jobs", _VERSION, "jobs", listViewType=view):
            jobs: list[Job] = []
            for item in page:
                if (job := read_job(item)) is not None and matching.matches(job):
                    jobs.append(job)
                await give_way()
            if jobs:
                yield jobs

    async def job(self, name: str) -> Job:
        """One job, with start, end and error from its run, and why it waits. Raises NotFound."""
        job, run = await asyncio.gather(self.record(name), self._runs.details(name), return_exceptions=True)
        if isinstance(job, BaseException):
            raise job
        read = _known(job, name)
        if isinstance(run, NotFound):
            return read  # a job that waits may have no run yet
        if isinstance(run, WorkspaceError):
            return replace(read, note=f"Run history does not answer: {run.sentence}")
        if isinstance(run, BaseException):
            raise run
        found = with_run(read, run)
        if found.status == "Queued" and not found.note and found.compute:
            cluster = None if found.compute.startswith("serverless") else await self._cluster(found.compute)
            found = replace(found, note=_waits(found, cluster))
        return found

    async def record(self, name: str) -> Mapping[str, Any]:
        """A job's own JSON. Raises NotFound."""
        return mapping(await self._client.get(f"/jobs/{quote(name, safe='')}", _VERSION, f"job {name!r}"))

    async def _cluster(self, name: str) -> Cluster | None:
        """A waiting job's cluster as it was a moment ago; None where it cannot be told."""
        read, known = self._seen.get(name, (-math.inf, None))
        if time.monotonic() - read > _CLUSTER_SECONDS:
            try:
                known = await self._clusters.cluster(name)
            except WorkspaceError:
                known = None
            self._seen[name] = (time.monotonic(), known)
        return known

    async def children(self, name: str) -> Sequence[Job]:
        """The trials of a sweep, with their metric's best value, or the steps of a pipeline. Raises NotFound."""
        record, runs = await asyncio.gather(self.record(name), self._runs.children(name), return_exceptions=True)
        if isinstance(record, BaseException):
            raise record
        if isinstance(runs, BaseException):
            raise runs
        parent = _known(record, name)
        return await asyncio.gather(*(self._with_metric(child_job(run, parent), parent) for run in runs))

    async def _with_metric(self, trial: Job, sweep: Job) -> Job:
        """A trial with its best value; one that cannot be read is left out, and hides no trial."""
        if sweep.primary_metric is None or trial.started is None:
            return trial
        if trial.name not in self._best:
            try:
                points = await self._metrics.curve(trial.name, sweep.primary_metric)
            except WorkspaceError:
                return trial
            values = [point.value for point in points if math.isfinite(point.value)]
            choose = min if (sweep.goal or "").lower() == "minimize" else max
            best = choose(values, default=None)
            if trial.active:
                return replace(trial, metric=best)
            self._best[trial.name] = best
        return replace(trial, metric=self._best[trial.name])

    async def services(self, name: str) -> Sequence[Service]:
        """What a job serves, on its first node. Raises NotFound."""
        given = mapping(mapping((await self.record(name)).get("properties")).get("services"))
        own = {key: mapping(value) for key, value in given.items()}
        own = {key: value for key, value in own.items() if text(value.get("jobServiceType")) not in _OWN_SERVICES}
        if not own:
            return ()
        try:
            running = await self._runs.services(name)
        except NotFound:
            running = {}
        return [read_service(key, value, mapping(running.get(key))) for key, value in own.items()]

    async def cancel(self, name: str) -> Job:
        """Ask a job to end. Raises NotFound, and Conflict when it has ended otherwise."""
        job = await self.job(name)
        if job.status in ("Canceled", "CancelRequested"):
            return job
        if not job.active and job.status in ("Completed", "Failed"):
            raise Conflict(f"Job {name!r} has ended: it is {job.status}.", "There is nothing to cancel.")
        await self._client.post(f"/jobs/{quote(name, safe='')}/cancel", _CANCEL_VERSION, f"job {name!r}")
        return replace(job, status="CancelRequested", note="")

    async def set_archived(self, name: str, archived: bool) -> Job:
        """Hide a job from lists, or show it again. Raises NotFound."""
        job = _known(await self.record(name), name)
        await self._runs.change(name, job.experiment, {"hidden": archived})
        return replace(job, archived=archived)

    async def update(self, name: str, display_name: str | None, changed: Mapping[str, str | None]) -> Job:
        """Change the display name and tags as the SDK's `jobs.update` does; None removes a tag. Raises NotFound, Invalid."""
        if display_name is not None and not display_name.strip():
            raise Invalid("A display name cannot be empty.", "Give some words.")
        for tag in changed:
            if not tag or tag.startswith(SYSTEM_TAGS):
                raise Invalid(f"{tag!r} cannot be the name of a tag.", "Give another name.")
        job = _known(await self.record(name), name)
        values = {tag: value for tag, value in changed.items() if value is not None}
        given = {"displayName": display_name} if display_name is not None else {}
        if given or values:
            await self._runs.change(name, job.experiment, given | ({"tags": values} if values else {}))
        if gone := [tag for tag, value in changed.items() if value is None]:
            await self._runs.remove_tags(name, job.experiment, gone)
        return await self.job(name)

    async def outputs(self, name: str) -> Sequence[Output]:
        """The outputs of a job by name, with what lies in each. Raises NotFound, NotAllowed where storage may not be read."""
        named = output_addresses(await self.record(name))
        found = await asyncio.gather(*(self._output(output, *told) for output, told in named.items()))
        return sorted(found, key=lambda output: (output.name != "default", output.name))

    async def _output(self, name: str, kind: str, uri: str) -> Output:
        files = await self._storage.files(uri) if uri else ()
        return Output(name, kind, len(files), sum(file.size for file in files))


def output_addresses(record: Mapping[str, Any]) -> Mapping[str, tuple[str, str]]:
    """Kind and `azureml://` address (empty where it has none yet) of each output; `default` is the run's `outputs` folder."""
    found = {}
    for name, value in mapping(mapping(record.get("properties")).get("outputs")).items():
        output = mapping(value)
        kind, uri = text(output.get("jobOutputType")) or "uri_folder", text(output.get("uri"))
        if name == "default" and uri:
            uri = f"{uri.rstrip('/')}/outputs"  # beside it are the run's logs
        found[name] = (kind, uri)
    return found


def read_job(item: Any) -> Job | None:
    """A job of any kind, a new one too, from its JSON; None for what has no name."""
    name = text(mapping(item).get("name"))
    if not name:
        return None
    properties = mapping(item.get("properties"))
    own = mapping(properties.get("properties"))
    given = text(properties.get("jobType"))
    trial = mapping(properties.get("trial"))
    work = trial or properties
    objective = mapping(properties.get("objective"))
    best = text(own.get("best_child_run_id")) or None
    metric = text(objective.get("primaryMetric")) or None
    score = _number(own.get("score")) if metric else None
    raw_tags = mapping(properties.get("tags"))
    parameters = {} if trial else trial_parameters(raw_tags)
    return Job(
        name=name,
        display_name=text(properties.get("displayName")) or name,
        type=_KINDS.get(given, given),
        status=text(properties.get("status")) or "Unknown",
        experiment=text(properties.get("experimentName")),
        compute=_compute(properties),
        created=created(item),
        parent=text(properties.get("parentJobName")) or None,
        tags=_own_tags(name, raw_tags) if trial else trial_tags(raw_tags, parameters),
        inputs={name: _input(value) for name, value in mapping(properties.get("inputs")).items()},
        nodes=count(mapping(work.get("resources")).get("instanceCount"), 1) or 1,
        ranks_per_node=count(mapping(work.get("distribution")).get("processCountPerInstance"), 1) or 1,
        command=text(work.get("command")),
        note=f"best trial {best}" if best else "",
        headline=(metric, score) if metric and score is not None else None,
        archived=properties.get("isArchived") is True,
        studio_url=_studio(properties),
        best_child=best,
        primary_metric=metric,
        goal=text(objective.get("goal")) or None,
        parameters=parameters,
    )


def with_run(job: Job, run: Run) -> Job:
    """A job with what its run knows besides. The job's own status stands."""
    error, note = run.error or None, job.note
    if job.active:
        building = job.status in ("Preparing", "Provisioning", "Starting") and next(
            (path for path in run.log_files if "image_build" in path), ""
        )
        note = note or run.queueing or (f"Its image is being built: {building}" if building else "") or run.warning
    return replace(
        job,
        started=run.started,
        ended=run.ended,
        parent=job.parent or run.parent,
        error=error,
        note=note,
        stages=_stages(job, run),
    )


def _stages(job: Job, run: Run) -> tuple[Stage, ...]:
    """What run history tells of the stages: when it was submitted, began to run and ended."""
    if job.created == LONG_AGO:
        return ()
    before = Stage("Submitted", job.created, run.started or run.ended)
    return (before, Stage("Running", run.started, run.ended)) if run.started else (before,)


def _waits(job: Job, cluster: Cluster | None) -> str:
    """Why a queued job waits, by what its cluster tells."""
    wanted = f"Waits for {job.nodes} node{'' if job.nodes == 1 else 's'} of {job.compute}"
    if cluster is None or cluster.type != "AmlCompute":
        return f"{wanted}."
    if job.nodes > cluster.max_nodes:
        return f"{wanted}, which has {cluster.max_nodes} at most: it waits for good."
    told = f"{wanted}: {cluster.busy_nodes} of {cluster.max_nodes} run jobs, the cluster is {cluster.state}"
    return f"{told}. {cluster.error}" if cluster.error else f"{told}."


def child_job(run: Run, parent: Job) -> Job:
    """A trial or a step as a job; what its run does not tell is its parent's."""
    sweep = parent.type == "sweep"
    return Job(
        name=run.name,
        display_name=run.display_name or run.name,
        type=run.kind,
        status=run.status or "Unknown",
        experiment=parent.experiment,
        compute=run.target if run.target and run.target != "Serverless" else parent.compute,
        created=run.created or LONG_AGO,
        started=run.started,
        ended=run.ended,
        parent=run.parent or parent.name,
        tags=run.tags,
        inputs=run.parameters,
        error=run.error or None,
        nodes=parent.nodes if sweep else 1,
        ranks_per_node=parent.ranks_per_node if sweep else 1,
        command=parent.command if sweep else "",
        studio_url=parent.studio_url.replace(f"/runs/{parent.name}?", f"/runs/{run.name}?"),
        parameters=run.parameters,
    )


def read_service(name: str, given: Mapping[str, Any], running: Mapping[str, Any]) -> Service:
    """A service of a job as its record has it, and as it runs on the first node."""
    fault = mapping(mapping(running.get("error")).get("error"))
    proxy = mapping(running.get("properties")).get("ProxyEndpoint")
    address = text(running.get("endpoint")) or text(given.get("endpoint")) or text(proxy)
    return Service(
        name=name,
        type=text(given.get("jobServiceType")) or text(running.get("type")),
        status=text(running.get("status")) or text(given.get("status")) or "Unknown",
        url=address.replace("<nodeIndex>", "0"),
        error=mask(text(fault.get("message")) or text(given.get("errorMessage"))),
    )


def _known(record: Mapping[str, Any], name: str) -> Job:
    job = read_job(record)
    if job is None:
        raise NotFound(f"There is no job {name!r} in the workspace.", "Its list has the names.")
    return job


def _own_tags(name: str, given: Any) -> Mapping[str, str]:
    """The user's tags of a sweep: without those that it is given for each of its trials, as `NAME_3`."""
    start = f"{name}_"
    return {
        tag: value
        for tag, value in tags(given).items()
        if not (tag.startswith(start) and (tag.removeprefix(start).isdecimal() or tag == f"{start}preparation"))
    }


def _compute(properties: Mapping[str, Any]) -> str:
    """The cluster's name; for a job without one, serverless with its size."""
    if name := last_name(properties.get("computeId")):
        return name
    size = text(mapping(properties.get("resources")).get("instanceType"))
    if "jobs" in properties:  # a pipeline's steps name their own
        settings = mapping(properties.get("settings"))
        return last_name(settings.get("default_compute") or settings.get("defaultCompute"))
    return f"serverless {size}".strip()


def _studio(properties: Mapping[str, Any]) -> str:
    """The job's page in the studio, where the service names a web page."""
    address = text(mapping(mapping(properties.get("services")).get("Studio")).get("endpoint"))
    return address if address.startswith("https://") else ""


def _number(value: Any) -> float | None:
    """A finite number, which may be spelled as text."""
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _input(value: Any) -> Any:
    """A literal's value, else the address of the data."""
    given = mapping(value)
    if not given:
        return text(value)
    return text(given.get("value")) if given.get("jobInputType") == "literal" else text(given.get("uri"))
