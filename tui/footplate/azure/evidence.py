"""What `doctor --azure` reads of a live workspace, each thing once, with GET requests only."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Bytes, Client
from footplate.azure.reading import items, mapping, text
from footplate.workspace.errors import WorkspaceError

WORKSPACES, JOBS, REGION = "2024-10-01-preview", "2024-01-01-preview", "2023-04-01-preview"
"""Versions of the service's interface, as the SDK asks for them."""
PROVIDER = "/providers/Microsoft.MachineLearningServices"
_MOST_RUNS = 10


class Refused(WorkspaceError):
    """An answer that tells nothing of a claim."""


class Evidence:
    """What was read of the workspace, each thing once."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._kept: dict[str, Any] = {}
        self.told_at = datetime.now(UTC)
        """The service's own time when it told of a run last."""

    async def _once(self, key: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        if key not in self._kept:
            self._kept[key] = await ask()
        return self._kept[key]

    async def workspace(self) -> Mapping[str, Any]:
        """The workspace's own record."""
        return mapping(await self._once("workspace", lambda: self.client.get("", WORKSPACES, "the workspace")))

    async def answer(self, path: str, version: str, **query: str) -> Bytes:
        """An answer with its headers."""

        async def ask() -> Bytes:
            return await self.client.look(path, version, **query)

        found: Bytes = await self._once(f"{path}?{query}", ask)
        return found

    async def document(self, path: str, version: str, **query: str) -> Mapping[str, Any]:
        """A JSON document. Raises Refused for an answer that is none, or a refusal."""
        answer = await self.answer(path, version, **query)
        if answer.status >= 300:
            raise Refused(f"the answer was {answer.status}")
        try:
            return mapping(json.loads(answer.body))
        except (ValueError, RecursionError) as error:
            raise Refused("the answer was no JSON") from error

    async def jobs(self) -> list[Mapping[str, Any]]:
        """The first page of jobs."""
        page = await self.document("/jobs", JOBS, listViewType="ActiveOnly")
        return [mapping(job) for job in items(page.get("value"))]

    async def api(self) -> str:
        """The address of run history and MLflow; empty where the workspace does not tell."""
        address = text(mapping((await self.workspace()).get("properties")).get("discoveryUrl"))
        if not address.startswith("https://"):
            return ""
        return text((await self.document(address, "")).get("api")).rstrip("/")

    async def service(self, service: str, path: str, **query: str) -> Bytes:
        """An answer of a service of the region."""
        return await self.answer(f"{await self.api()}/{service}{self.client.place.path}{path}", "", **query)

    async def run(self) -> tuple[str, Mapping[str, Any]]:
        """Name and details of the newest jobs' first that has a log; empty where none has."""

        async def ask() -> tuple[str, Mapping[str, Any]]:
            found: tuple[str, Mapping[str, Any]] = ("", {})
            for job in [job for job in await self.jobs() if mapping(job.get("properties")).get("jobType") == "Command"][
                :_MOST_RUNS
            ]:
                name = text(job.get("name"))
                details = await self.details(name)
                if mapping(details.get("logFiles")):
                    return name, details
                found = found if found[0] or not details else (name, details)
            return found

        name, details = await self._once("run", ask)
        return name, details

    async def details(self, job: str) -> Mapping[str, Any]:
        """A job's run, asked for anew; empty where there is none."""
        address = f"{await self.api()}/history/v1.0{self.client.place.path}/runs/{quote(job, safe='')}/details"
        answer = await self.client.look(address, "")
        self.told_at = _date(answer.headers) or self.told_at
        return mapping(json.loads(answer.body)) if answer.status == 200 else {}

    async def values(self, path: str, version: str, **query: str) -> list[Mapping[str, Any]]:
        """The first page of a list."""
        return [mapping(one) for one in items((await self.document(path, version, **query)).get("value"))]

    async def regional(self, what: str) -> list[Mapping[str, Any]]:
        """A list of the workspace's region."""
        place = quote(text((await self.workspace()).get("location")), safe="")
        cloud, subscription = self.client.cloud.resource_manager, self.client.place.subscription_path
        return await self.values(f"{cloud}{subscription}{PROVIDER}/locations/{place}/{what}", REGION)


def _date(headers: Mapping[str, str]) -> datetime | None:
    """When an answer was given, by its sender's clock."""
    given = next((value for name, value in headers.items() if name.lower() == "date"), "")
    try:
        return parsedate_to_datetime(given).astimezone(UTC)
    except ValueError:
        return None
