"""The connections of one workspace: certificates of a custom cloud, names that are loopback, tokens renewed when refused."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver
from azure.core.credentials import AccessTokenInfo, TokenRequestOptions
from azure.core.pipeline import PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import AsyncRetryPolicy
from azure.core.rest import AsyncHttpResponse, HttpRequest
from azure.mgmt.core.policies import AsyncARMChallengeAuthenticationPolicy

from footplate.azure.clouds import Cloud
from footplate.azure.credential import CachingCredential
from footplate.azure.errors import retry_after

LONGEST_WAIT_SECONDS = 3.0
"""A longer `Retry-After` is told at once, with a countdown, and not slept through."""

Request = PipelineRequest[HttpRequest]
Response = PipelineResponse[HttpRequest, AsyncHttpResponse]


def trust(cloud: Cloud) -> ssl.SSLContext:
    """What a server's certificate is checked against: the system's, the cloud's own, and those of `REQUESTS_CA_BUNDLE`.

    The last is the variable that az and the SDK have for a proxy's certificate. Takes a tenth of a second.
    """
    trusted = ssl.create_default_context()
    given = os.environ.get("REQUESTS_CA_BUNDLE")
    for file in (cloud.ca_file, Path(given) if given else None):
        if file is not None and file.is_file():
            trusted.load_verify_locations(file)
    return trusted


def new_session(cloud: Cloud, trusted: ssl.SSLContext) -> aiohttp.ClientSession:
    """A session of the running loop."""
    resolver = _Loopback() if cloud.custom else None
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trusted, resolver=resolver, limit_per_host=16),
        headers={"Accept-Encoding": "gzip, deflate"},  # all that azure-core unpacks
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


def proxy_for(address: str) -> str | None:
    """The proxy that the environment names for an address; none for this machine.

    aiohttp's own `trust_env` would read `.netrc` at each request, and send what it finds there to storage.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    if host.endswith("localhost") or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


class _Loopback(AbstractResolver):
    """Names under `.localhost` are loopback (RFC 6761), which glibc alone does not know; all others as the system has them."""

    def __init__(self) -> None:
        self._system = DefaultResolver()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        if host.endswith(".localhost"):
            host = "127.0.0.1"
        return await self._system.resolve(host, port, family)

    async def close(self) -> None:
        await self._system.close()


class AsyncCredential:
    """The workspace's credential, asked without keeping the loop waiting."""

    def __init__(self, credential: CachingCredential) -> None:
        self._credential = credential

    async def get_token_info(self, *scopes: str, options: TokenRequestOptions | None = None) -> AccessTokenInfo:
        """The token that is there, else one that a thread waits for. Raises NotSignedIn."""
        (scope,) = scopes
        if not (options or {}).get("claims") and (token := self._credential.ready(scope)) is not None:
            return token
        return await asyncio.to_thread(self._credential.get_token_info, scope, options=options)

    async def close(self) -> None:
        """Nothing to let go of: the sign-in's own clients end with it."""

    async def __aenter__(self) -> AsyncCredential:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Authentication(AsyncARMChallengeAuthenticationPolicy):
    """Azure's own policy, claims challenge included, which also asks once more where a token is refused plainly."""

    def __init__(self, credential: CachingCredential, scope: str) -> None:
        super().__init__(AsyncCredential(credential), scope)
        self._shared = credential

    async def send(self, request: Request) -> Response:
        """Send with a token; after a refusal without claims once more, with a new one where there is one."""
        response: Response = await super().send(request)
        if response.http_response.status_code != 401:
            return response
        used = request.http_request.headers["Authorization"].removeprefix("Bearer ")
        self._shared.forget(used)
        self._token = None
        await self.on_request(request)
        again: Response = await self.next.send(request)
        return again


class Retry(AsyncRetryPolicy[HttpRequest, AsyncHttpResponse]):
    """A few quick tries; where Azure asks for a long wait, the answer is given on, so that the wait can be shown."""

    def __init__(self) -> None:
        super().__init__(retry_total=3, retry_backoff_factor=0.2, retry_backoff_max=2)

    def is_retry(self, settings: dict[str, Any], response: Any) -> bool:
        """As azure-core has it, and never for a wait that is long."""
        if retry_after(response.http_response.headers) > LONGEST_WAIT_SECONDS:
            return False
        return bool(super().is_retry(settings, response))
