"""Run history: what a run did and when, its children, its log files' signed addresses."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.masking import mask
from footplate.azure.reading import items, mapping, moment, tags, text
from footplate.azure.turns import give_way

_HISTORY = "history/v1.0"
_PARAMETER_TAGS = ("hyperparameters", "_aml_system_hyperparameters")
_MOST_PAGES = 100
_FOUND = "successfulResults"
_KINDS = {"hyperdrive": "sweep", "azureml.hyperdrive": "sweep", "azureml.pipelinerun": "pipeline"}


@dataclass(frozen=True)
class Run:
    """One run. `log_files` maps paths to signed addresses, which never leave this package."""

    name: str
    display_name: str
    kind: str
    """command, sweep or pipeline, as a job's type."""
    status: str
    target: str
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    parent: str | None
    error: str
    warning: str
    queueing: str
    """Why it waits, in the service's own words."""
    tags: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    log_files: Mapping[str, str] = field(default_factory=dict, repr=False)


class Runs:
    """The run history of one workspace. It is not counted against the resource manager's limits."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: tuple[str, float, Run] | None = None

    async def details(self, name: str, age_seconds: float = 0.0) -> Run:
        """A run with fresh addresses of its log files, or what was read of it so short ago. Raises NotFound."""
        if self._last is not None and self._last[0] == name and time.monotonic() - self._last[1] < age_seconds:
            return self._last[2]
        path = f"/runs/{quote(name, safe='')}/details"
        run = read_run(await self._client.service("GET", _HISTORY, path, f"job {name!r}"))
        self._last = (name, time.monotonic(), run)
        return run

    async def children(self, name: str) -> Sequence[Run]:
        """The runs below one. Raises NotFound."""
        path, found, token = f"/runs/{quote(name, safe='')}/children", [], ""
        for _ in range(_MOST_PAGES):
            query = {"$continuationtoken": token} if token else {}
            page = mapping(await self._client.service("GET", _HISTORY, path, f"job {name!r}", query))
            found += [run for item in items(page.get("value")) if (run := read_run(item)).name]
            if not (token := text(page.get("continuationToken"))):
                break
        return found

    async def several(self, names: Sequence[str]) -> Mapping[str, Run]:
        """Many runs in one request, without their log files; those that are not there are left out."""
        if not names:
            return {}
        asked = {name: {"runId": name, "selectRunMetadata": True} for name in names}
        answer = await self._client.service(
            "POST", _HISTORY, "/batchrundata", "the runs of the jobs", body={"requests": asked}, long=_FOUND
        )
        found = {}
        for name, result in mapping(mapping(answer).get(_FOUND)).items():
            found[name] = read_run(mapping(result).get("runMetadata"))
            await give_way()
        return found

    async def change(self, name: str, experiment: str, changes: Mapping[str, Any]) -> None:
        """Change what is given of a run: `hidden`, `displayName`, `tags`, which are added to those there. Raises NotFound."""
        await self._client.service("PATCH", _HISTORY, _path(name, experiment), f"job {name!r}", body=dict(changes))

    async def remove_tags(self, name: str, experiment: str, names: Sequence[str]) -> None:
        """Take tags away. Raises NotFound."""
        path = f"{_path(name, experiment)}/tags"
        body = {"tagsToModify": {}, "tagsToDelete": list(names)}
        await self._client.service("PATCH", _HISTORY, path, f"job {name!r}", body=body)

    async def services(self, name: str) -> Mapping[str, Any]:
        """What a run serves on its first node, by name, as JSON. Raises NotFound."""
        path = f"/runs/{quote(name, safe='')}/serviceinstances/0"
        answer = await self._client.service("GET", _HISTORY, path, f"the services of job {name!r}")
        return mapping(mapping(answer).get("instances"))


def _path(name: str, experiment: str) -> str:
    within = f"/experiments/{quote(experiment, safe='')}" if experiment else ""
    return f"{within}/runs/{quote(name, safe='')}"


def read_run(item: Any) -> Run:
    """A run from its JSON, a list's or the details'."""
    run = mapping(item)
    raw_tags = mapping(run.get("tags"))
    parameters = trial_parameters(raw_tags)
    warnings = [text(mapping(warning).get("message")) for warning in items(run.get("warnings"))]
    return Run(
        name=text(run.get("runId")),
        display_name=text(run.get("displayName")),
        kind=_KINDS.get(text(run.get("runType")).lower(), "command"),
        status=text(run.get("status")),
        target=text(run.get("target")) or text(mapping(run.get("compute")).get("target")),
        created=moment(run.get("createdUtc")) or moment(run.get("createdTimeUtc")),
        started=moment(run.get("startTimeUtc")),
        ended=moment(run.get("endTimeUtc")),
        parent=text(run.get("parentRunId")) or None,
        error=mask(_error(run.get("error"))),
        warning=mask(warnings[-1]) if warnings else "",
        queueing=mask(text(mapping(run.get("queueingInfo")).get("message")).strip()),
        tags=trial_tags(raw_tags, parameters),
        parameters=parameters,
        log_files={path: text(address) for path, address in mapping(run.get("logFiles")).items()},
    )


def trial_parameters(raw_tags: Mapping[str, Any]) -> Mapping[str, Any]:
    """A trial's values, which a tag holds as JSON."""
    for name in _PARAMETER_TAGS:
        if name not in raw_tags:
            continue
        try:
            found = json.loads(text(raw_tags[name]) or "null")
        except (ValueError, RecursionError):
            continue
        if isinstance(found, Mapping):
            return {key.removeprefix("--"): value for key, value in found.items()}
    return {}


def trial_tags(raw_tags: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, str]:
    """The user's tags, without those that a trial's values are held in."""
    own = tags(raw_tags)
    if not parameters:
        return own
    return {name: tag for name, tag in own.items() if name not in _PARAMETER_TAGS and name not in parameters}


def _error(value: Any) -> str:
    """A failed run's own words, the innermost that say something."""
    error = mapping(mapping(value).get("error")) or mapping(value)
    details = [text(mapping(detail).get("message")) for detail in items(error.get("details"))]
    said = next((detail for detail in details if detail), "") or text(error.get("message"))
    return said.strip() or text(error.get("code"))
