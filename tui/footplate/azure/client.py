"""Raw JSON through azure-core's ARM pipeline: thirty times cheaper than the SDK's models, and nothing is left out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from azure.core import AsyncPipelineClient
from azure.core.exceptions import AzureError
from azure.core.pipeline.policies import HeadersPolicy, RequestIdPolicy, UserAgentPolicy
from azure.core.pipeline.transport import AioHttpTransport
from azure.core.rest import AsyncHttpResponse, HttpRequest

from footplate import __version__
from footplate.azure import errors
from footplate.azure.clouds import Cloud
from footplate.azure.credential import CachingCredential
from footplate.azure.place import Place
from footplate.azure.reading import mapping, text
from footplate.azure.transport import Authentication, Retry, new_session, proxy_for, trust
from footplate.azure.turns import give_way, read_object
from footplate.workspace.errors import Unexpected

_WORKSPACE_VERSION = "2024-10-01-preview"
_CONNECT_SECONDS = 10
_READ_SECONDS = 60


def looked_at(task: asyncio.Task[Any]) -> None:
    """Take a task's fault, so that asyncio tells the terminal nothing of it when whoever waited has gone."""
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True)
class Bytes:
    """An answer that is no JSON: a piece of a file, or a refusal of one."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """The requests of one workspace. Paths under the workspace begin with a slash; errors are WorkspaceErrors.

    `reads_left` and `writes_left` are what the resource manager said last of its token bucket, `region` what it said of the
    workspace; empty before it was asked.
    """

    def __init__(self, cloud: Cloud, place: Place, credential: CachingCredential) -> None:
        self.cloud = cloud
        self.place = place
        self.credential = credential
        self._trusted = trust(cloud)
        self.reads_left: int | None = None
        self.writes_left: int | None = None
        self.region = ""
        self._session: aiohttp.ClientSession | None = None
        self._signed: AsyncPipelineClient[HttpRequest, AsyncHttpResponse] | None = None
        self._plain: AsyncPipelineClient[HttpRequest, AsyncHttpResponse] | None = None
        self._throttled_until = 0.0
        self._services: asyncio.Task[str] | None = None
        self._registries: dict[str, str] = {}

    # The resource manager

    async def get(self, path: str, version: str, what: str, **query: str) -> Any:
        """The JSON at a path of the workspace; `what` names it in an error."""
        return await self._json("GET", self._address(path), what, {"api-version": version, **query})

    async def post(self, path: str, version: str, what: str, body: Any = None) -> Any:
        """The answer to a POST; None where it is empty."""
        return await self._json("POST", self._address(path), what, {"api-version": version}, body)

    async def put(self, path: str, version: str, what: str, body: Any) -> Any:
        """The answer to a PUT; None where it is empty."""
        return await self._json("PUT", self._address(path), what, {"api-version": version}, body)

    async def patch(self, path: str, version: str, what: str, body: Any) -> Any:
        """The answer to a PATCH; None where it is empty."""
        return await self._json("PATCH", self._address(path), what, {"api-version": version}, body)

    async def delete(self, path: str, version: str, what: str, **query: str) -> None:
        """Ask for an end."""
        await self._json("DELETE", self._address(path), what, {"api-version": version, **query})

    async def begin(self, method: str, path: str, version: str, what: str, body: Any = None) -> str:
        """Ask for a change that goes on for long; gives the address of its operation, empty where the answer names none."""
        answer = await self._answer(method, self._address(path), what, {"api-version": version}, body)
        return str(answer.headers.get("Azure-AsyncOperation", ""))

    async def pages(
        self, path: str, version: str, what: str, *, first: str = "GET", member: str = "value", **query: str
    ) -> AsyncIterator[list[Any]]:
        """The items of a list, page by page, as far as the caller reads on; `first` is how its first page is asked for."""
        async for page in self._pages(self._address(path), version, what, first=first, member=member, **query):
            yield page

    async def _pages(
        self, address: str, version: str, what: str, *, first: str = "GET", member: str = "value", **query: str
    ) -> AsyncIterator[list[Any]]:
        given, method = {"api-version": version, **query}, first
        seen = {address}
        while True:
            await give_way()
            document = mapping(await self._json(method, address, what, given, long=member))
            items = document.get(member)
            yield items if isinstance(items, list) else []
            following = text(document.get("nextLink"))
            if not following or following in seen:
                return
            if urlsplit(following)[:2] != urlsplit(self.cloud.resource_manager)[:2]:
                raise Unexpected(
                    f"The list of {what} goes on at another host, {urlsplit(following).hostname}.",
                    "Its further pages are not asked for: a token goes to the resource manager only.",
                )
            seen.add(following)
            address, given, method = following, {}, "GET"

    async def every(self, path: str, version: str, what: str, **query: str) -> list[Any]:
        """The items of all pages."""
        return [item async for page in self.pages(path, version, what, **query) for item in page]

    async def location(self) -> str:
        """The region of the workspace; asked for once."""
        if not self.region:
            what = f"workspace {self.place.workspace_name!r}"
            self.region = text(mapping(await self.get("", _WORKSPACE_VERSION, what)).get("location"))
        return self.region

    async def root_pages(self, path: str, version: str, what: str) -> AsyncIterator[list[Any]]:
        """The items of a list at a path from the root of the resource manager, page by page."""
        async for page in self._pages(f"{self.cloud.resource_manager}{path}", version, what):
            yield page

    async def look(self, path: str, version: str, **query: str) -> Bytes:
        """The answer to a GET at a path of the workspace, or at a whole address of its services, whatever the status."""
        address = path if path.startswith("https://") else self._address(path)
        given = {"api-version": version, **query} if version else query
        answer = await self._signed_answer(HttpRequest("GET", address, params=given))
        return Bytes(answer.status_code, answer.headers, answer.content)

    async def subscription(self, path: str, version: str, what: str, **query: str) -> Any:
        """The JSON at a path of the subscription."""
        address = f"{self.cloud.resource_manager}{self.place.subscription_path}{path}"
        return await self._json("GET", address, what, {"api-version": version, **query})

    # The services of the workspace's region: run history, MLflow

    async def service(
        self,
        method: str,
        service: str,
        path: str,
        what: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        long: str = "",
    ) -> Any:
        """The answer of a service of the region, as in `history/v1.0`, at a path below the workspace.

        `long` names a member of an answer that is so long that it is read a little at a time.
        """
        address = f"{await self._discovered()}/{service}{self.place.path}{path}"
        return await self._json(method, address, what, query or {}, body, long)

    async def registry(self, name: str, path: str, version: str, what: str, **query: str) -> Any:
        """The JSON at a path of a registry of shared assets. Raises NotFound where there is no such registry."""
        if name not in self._registries:
            place = quote(name, safe="")
            address = f"{await self._discovered()}/registrymanagement/v1.0/registries/{place}/discovery"
            told = mapping(await self._json("GET", address, f"registry {name!r}", {}))
            root = text(told.get("primaryRegionResourceProviderUri")).rstrip("/")
            if not root.startswith("https://"):
                raise Unexpected(f"Registry {name!r} names no address of its own.", "Try again.", str(told))
            self._registries[name] = (
                f"{root}/subscriptions/{text(told.get('subscriptionId'))}/resourceGroups/{text(told.get('resourceGroup'))}"
                f"/providers/Microsoft.MachineLearningServices/registries/{place}"
            )
        return await self._json("GET", f"{self._registries[name]}{path}", what, {"api-version": version, **query})

    async def _discovered(self) -> str:
        """The address of the region's services; asked for once."""
        if self._services is None or (self._services.done() and self._services.exception() is not None):
            self._services = asyncio.create_task(self._discover())
            self._services.add_done_callback(looked_at)
        return await asyncio.shield(self._services)

    async def _discover(self) -> str:
        what = f"workspace {self.place.workspace_name!r}"
        record = mapping(await self.get("", _WORKSPACE_VERSION, what))
        self.region = text(record.get("location"))
        discovery = text(mapping(record.get("properties")).get("discoveryUrl"))
        if not discovery.startswith("https://"):
            raise Unexpected(f"The record of {what} names no discovery address.", "Try again.", discovery)
        services = mapping(await self._json("GET", discovery, f"the services of {what}", {}))
        address = text(services.get("api")).rstrip("/")
        if not address.startswith("https://"):
            raise Unexpected(f"The services of {what} name no address of run history.", "Try again.", str(services))
        return address

    # Elsewhere: no token of ours goes there

    async def download(self, address: str, headers: Mapping[str, str]) -> Bytes:
        """A piece of a file at a signed address, whatever the status; no token is sent."""
        if self._plain is None:
            self._plain = self._pipeline()
        answer = await self._send(self._plain, HttpRequest("GET", address, headers=dict(headers)))
        return Bytes(answer.status_code, answer.headers, answer.content)

    async def score(self, address: str, body: bytes, headers: Mapping[str, str], seconds: float) -> Bytes:
        """The answer of a scoring address, asked once."""
        try:
            async with self.session().post(
                address,
                data=BytesIO(body),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
                proxy=proxy_for(address),
            ) as answer:
                return Bytes(answer.status, dict(answer.headers), await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.from_failure(error, address) from error

    def session(self) -> aiohttp.ClientSession:
        """The connections, made when they are first needed: a session belongs to the running loop."""
        if self._session is None:
            self._session = new_session(self.cloud, self._trusted)
        return self._session

    async def close(self, *, keep_sign_in: bool = False) -> None:
        """Let go of the connections, and of the sign-in's unless somebody goes on with it."""
        if self._services is not None:
            self._services.cancel()
        if self._session is not None:
            await self._session.close()
        if not keep_sign_in:
            await asyncio.to_thread(self.credential.close)

    # Sending

    def _address(self, path: str) -> str:
        return f"{self.cloud.resource_manager}{self.place.path}{path}"

    def _pipeline(self, *policies: Any) -> AsyncPipelineClient[HttpRequest, AsyncHttpResponse]:
        agent = UserAgentPolicy(base_user_agent=f"footplate/{__version__}")
        return AsyncPipelineClient(
            self.cloud.resource_manager,
            policies=[RequestIdPolicy(), HeadersPolicy(), agent, Retry(), *policies],
            transport=AioHttpTransport(
                session=self.session(),
                session_owner=False,
                connection_timeout=_CONNECT_SECONDS,
                read_timeout=_READ_SECONDS,
            ),
        )

    async def _json(
        self, method: str, address: str, what: str, query: Mapping[str, str], body: Any = None, long: str = ""
    ) -> Any:
        content = (await self._answer(method, address, what, query, body)).content
        if not content:
            return None
        try:
            return await read_object(content, long) if long else json.loads(content)
        except (ValueError, RecursionError) as error:
            raise errors.not_json(content, what, address) from error

    async def _answer(
        self, method: str, address: str, what: str, query: Mapping[str, str], body: Any
    ) -> AsyncHttpResponse:
        managed = address.startswith(self.cloud.resource_manager)
        if managed and (left := self._throttled_until - time.monotonic()) > 0:
            raise errors.throttled(left)  # who asks while it is throttled is throttled for longer
        answer = await self._signed_answer(HttpRequest(method, address, params=dict(query), json=body))
        if managed and answer.status_code == 429:
            self._throttled_until = time.monotonic() + errors.retry_after(answer.headers)
        if answer.status_code >= 300:  # a redirection is not followed: a token goes where it was meant to
            raise errors.from_answer(
                answer.status_code, answer.headers, answer.content, what, f"workspace {self.place.workspace_name!r}"
            )
        return answer

    async def _signed_answer(self, request: HttpRequest) -> AsyncHttpResponse:
        if self._signed is None:
            self._signed = self._pipeline(Authentication(self.credential, self.cloud.scope))
        answer = await self._send(self._signed, request)
        self._count(answer.headers)
        return answer

    async def _send(
        self, pipeline: AsyncPipelineClient[HttpRequest, AsyncHttpResponse], request: HttpRequest
    ) -> AsyncHttpResponse:
        try:
            # The answer comes with its body: it is not streamed.
            return await pipeline.send_request(request, proxy=proxy_for(request.url))
        except AzureError as error:
            raise errors.from_failure(error, request.url) from error

    def _count(self, headers: Mapping[str, str]) -> None:
        for name, kept in (("reads", "reads_left"), ("writes", "writes_left")):
            left = headers.get(f"x-ms-ratelimit-remaining-subscription-{name}", "")
            if left.isdecimal():
                setattr(self, kept, int(left))
