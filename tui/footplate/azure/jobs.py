"""Jobs: the list in pages, one job with what run history knows of it, cancel and archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.reading import LONG_AGO, count, created, last_name, mapping, tags, text
from footplate.azure.runs import Run, Runs
from footplate.azure.storage import Storage
from footplate.workspace.errors import Conflict, NotFound, WorkspaceError
from footplate.workspace.model import Job, JobFilter, Output

_VERSION = "2024-01-01-preview"
_CANCEL_VERSION = "2023-04-01-preview"
_SLICE = 25
_KINDS = {"Command": "command", "Sweep": "sweep", "Pipeline": "pipeline", "AutoML": "automl", "Spark": "spark"}


@dataclass(frozen=True)
class AzureJob(Job):
    """A job of Azure ML: a sweep with its best trial and metric, a trial with its values, and links to its services."""

    best_child: str | None = None
    primary_metric: str | None = None
    goal: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """What `--json` prints: a sweep's fields only for a sweep, a trial's only for a trial."""
        document = super().document()
        if self.type == "sweep":
            document |= {"best_child": self.best_child, "primary_metric": self.primary_metric}
        if self.parameters:
            document["parameters"] = dict(self.parameters)
        return document


class Jobs:
    """The jobs of one workspace."""

    def __init__(self, client: Client, runs: Runs, storage: Storage) -> None:
        self._client = client
        self._runs = runs
        self._storage = storage

    async def pages(self, matching: JobFilter) -> AsyncIterator[Sequence[Job]]:
        """Jobs in the service's own order, newest first as it was always seen (assumed: it is documented nowhere)."""
        view = "All" if matching.archived else "ActiveOnly"
        async for page in self._client.pages("/jobs", _VERSION, "jobs", listViewType=view):
            jobs: list[Job] = []
            for start in range(0, len(page), _SLICE):
                await asyncio.sleep(0)  # a key that was pressed meanwhile comes first
                read = map(read_job, page[start : start + _SLICE])
                jobs += [job for job in read if job is not None and matching.matches(job)]
            if jobs:
                yield jobs

    async def job(self, name: str) -> Job:
        """One job, with start, end and error from its run. Raises NotFound."""
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
        return with_run(read, run)

    async def record(self, name: str) -> Mapping[str, Any]:
        """A job's own JSON. Raises NotFound."""
        return mapping(await self._client.get(f"/jobs/{quote(name, safe='')}", _VERSION, f"job {name!r}"))

    async def children(self, name: str) -> Sequence[Job]:
        """The trials of a sweep or the steps of a pipeline, as run history has them. Raises NotFound."""
        record, runs = await asyncio.gather(self.record(name), self._runs.children(name), return_exceptions=True)
        if isinstance(record, BaseException):
            raise record
        if isinstance(runs, BaseException):
            raise runs
        parent = _known(record, name)
        return [child_job(run, parent) for run in runs]

    async def cancel(self, name: str) -> Job:
        """Ask a job to end. Raises NotFound, and Conflict when it has ended otherwise."""
        job = await self.job(name)
        if job.status in ("Canceled", "CancelRequested"):
            return job
        if not job.active and job.status in ("Completed", "Failed"):
            raise Conflict(f"Job {name!r} has ended: it is {job.status}.", "There is nothing to cancel.")
        await self._client.post(f"/jobs/{quote(name, safe='')}/cancel", _CANCEL_VERSION, f"job {name!r}")
        return replace(job, status="CancelRequested")

    async def set_archived(self, name: str, archived: bool) -> Job:
        """Hide a job from lists, or show it again. Raises NotFound."""
        job = _known(await self.record(name), name)
        await self._runs.hide(name, job.experiment, archived)
        return replace(job, archived=archived)

    async def outputs(self, name: str) -> Sequence[Output]:
        """The outputs of a job by name, with what lies in each. Raises NotFound, NotAllowed where storage may not be read."""
        record = await self.record(name)
        named = mapping(mapping(record.get("properties")).get("outputs"))
        found = await asyncio.gather(*(self._output(output, mapping(value)) for output, value in named.items()))
        return sorted(found, key=lambda output: (output.name != "default", output.name))

    async def _output(self, name: str, value: Mapping[str, Any]) -> Output:
        kind, uri = text(value.get("jobOutputType")) or "uri_folder", text(value.get("uri"))
        if name == "default" and uri:
            uri = f"{uri.rstrip('/')}/outputs"  # beside it are the run's logs
        files = await self._storage.files(uri) if uri else ()
        return Output(name, kind, len(files), sum(file.size for file in files))


def read_job(item: Any) -> AzureJob | None:
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
    return AzureJob(
        name=name,
        display_name=text(properties.get("displayName")) or name,
        type=_KINDS.get(given, given),
        status=text(properties.get("status")) or "Unknown",
        experiment=text(properties.get("experimentName")),
        compute=_compute(properties),
        created=created(item),
        parent=text(properties.get("parentJobName")) or None,
        tags=_own_tags(name, properties.get("tags")) if trial else tags(properties.get("tags")),
        inputs={name: _input(value) for name, value in mapping(properties.get("inputs")).items()},
        nodes=count(mapping(work.get("resources")).get("instanceCount"), 1) or 1,
        ranks_per_node=count(mapping(work.get("distribution")).get("processCountPerInstance"), 1) or 1,
        command=text(work.get("command")),
        note=f"best trial {best}" if best else "",
        archived=properties.get("isArchived") is True,
        best_child=best,
        primary_metric=text(objective.get("primaryMetric")) or None,
        goal=text(objective.get("goal")) or None,
        services={
            name: text(mapping(service).get("endpoint"))
            for name, service in mapping(properties.get("services")).items()
            if mapping(service).get("endpoint")
        },
    )


def with_run(job: AzureJob, run: Run) -> AzureJob:
    """A job with what its run knows besides. The job's own status stands."""
    return replace(
        job,
        started=run.started,
        ended=run.ended,
        parent=job.parent or run.parent,
        error=run.error or None,
        note=job.note or (run.warning if job.active else ""),
    )


def child_job(run: Run, parent: AzureJob) -> AzureJob:
    """A trial or a step as a job; what its run does not tell is its parent's."""
    return AzureJob(
        name=run.name,
        display_name=run.display_name or run.name,
        type="command",
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
        nodes=parent.nodes if parent.type == "sweep" else 1,
        ranks_per_node=parent.ranks_per_node if parent.type == "sweep" else 1,
        command=parent.command if parent.type == "sweep" else "",
        parameters=run.parameters,
    )


def _known(record: Mapping[str, Any], name: str) -> AzureJob:
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


def _input(value: Any) -> Any:
    """A literal's value, else the address of the data."""
    given = mapping(value)
    if not given:
        return text(value)
    return text(given.get("value")) if given.get("jobInputType") == "literal" else text(given.get("uri"))
