"""What the gateway answers: keys, traffic split, limits and Azure's status codes in front of the scoring servers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from io import BytesIO

import aiohttp
from aiohttp import web
from yarl import URL

from footplate.local.endpoint_keys import KeyRing
from footplate.local.gateway_figures import Counters
from footplate.local.gateway_start import REREAD
from footplate.local.scoring_server import ScoringServer
from footplate.local.served_deployment import PATIENCE_SECONDS, NotServing, ServedDeployment, TooMany

DEPLOYMENT_HEADER = "azureml-model-deployment"
BODY_BYTES = 32 * 1024 * 1024
_COPIES = 8
_COPIED_BYTES = 2 * BODY_BYTES
"""So many mirrored requests, of so many bytes together, are under way at most; others are not sent, and counted as 429."""

_AGAIN_SECONDS = 0.05

# Of one connection, or rewritten here: RFC 9110, section 7.6.1. A compressed request has been unpacked by aiohttp.
_NOT_PASSED = frozenset(
    {
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "date",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "server",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        DEPLOYMENT_HEADER,
    }
)


@dataclass(frozen=True)
class _Asked:
    """One request as it is passed on."""

    method: str
    url: URL
    headers: list[tuple[str, str]]
    body: bytes


class Router:
    """The endpoint's web application. `backends`, `traffic` and `mirror` (per cent) may be replaced while it serves."""

    def __init__(self, endpoint: str, keys: KeyRing, counters: Counters, reread: Callable[[], Awaitable[None]]) -> None:
        self.backends: Mapping[str, ServedDeployment] = {}
        self.traffic: Mapping[str, int] = {}
        self.mirror: Mapping[str, int] = {}
        self._endpoint = endpoint
        self._keys = keys
        self._counters = counters
        self._reread = reread
        self._copies: dict[asyncio.Task[None], int] = {}

    def application(self) -> web.Application:
        """Routes: those of Azure's scoring server, `/score` and `/swagger.json` with a key, `/` and the gateway's own health."""
        application = web.Application(client_max_size=BODY_BYTES, middlewares=[_json_errors])
        for method in ("GET", "POST", "OPTIONS"):
            application.router.add_route(method, "/score", self._score)
        application.router.add_get("/swagger.json", self._score, allow_head=False)
        application.router.add_get("/", self._root)
        application.router.add_get("/health", _health)
        application.router.add_post(REREAD, self._follow)
        return application

    async def _score(self, request: web.Request) -> web.Response:
        if (refused := self._refusal(request)) is not None:
            return refused
        if (request.content_length or 0) > BODY_BYTES:
            return _too_large()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _too_large()
        wanted = request.headers.get(DEPLOYMENT_HEADER)
        backend = self._choose(wanted)
        if isinstance(backend, web.Response):
            return backend
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_PASSED]
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        asked = _Asked(request.method, URL(f"http://localhost{request.path}{query}", encoded=True), headers, body)
        if wanted is None and request.path == "/score":
            self._mirror(asked)
        answer = await self._counted(backend, asked)
        answer.headers[DEPLOYMENT_HEADER] = backend.name
        return answer

    async def _root(self, _request: web.Request) -> web.Response:
        """As Azure's server answers its health probe: whether any deployment that has traffic can serve."""
        if any(share and name in self.backends and self.backends[name].serving for name, share in self.traffic.items()):
            return web.Response(text="Healthy")
        return web.Response(text="Unhealthy", status=503)

    async def _follow(self, request: web.Request) -> web.Response:
        if (refused := self._refusal(request)) is not None:
            return refused
        await self._reread()
        return web.Response(status=204)

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self._keys.opens(request.headers.get("Authorization", "")):
            return None
        hint = f"`footplate endpoint keys {self._endpoint}` shows the right one."
        return _error(401, "Unauthorized", f"The key is missing or wrong; {hint}")

    def _choose(self, wanted: str | None) -> ServedDeployment | web.Response:
        if wanted is not None:
            if wanted in self.backends:
                return self.backends[wanted]
            there = ", ".join(self.backends) or "none"
            return _error(
                404,
                "DeploymentNotFound",
                f"Endpoint {self._endpoint} has no deployment {wanted!r}; there are: {there}.",
            )
        weights = {name: self.traffic.get(name, 0) for name in self.backends}
        if sum(weights.values()) <= 0:
            return _error(404, "NoDeployment", "no deployment has traffic")
        return self.backends[random.choices(list(weights), list(weights.values()))[0]]

    def _mirror(self, asked: _Asked) -> None:
        """Send a copy to the deployment that mirrors, for its share of the requests; nobody waits for the answer."""
        for name, share in self.mirror.items():
            if name not in self.backends or random.random() * 100 >= share:
                continue
            if len(self._copies) >= _COPIES or sum(self._copies.values()) + len(asked.body) > _COPIED_BYTES:
                self._counters.count(name, 429, 0.0)
                continue
            copy = asyncio.create_task(self._copy(self.backends[name], asked))
            self._copies[copy] = len(asked.body)
            copy.add_done_callback(self._copies.pop)

    async def _copy(self, backend: ServedDeployment, asked: _Asked) -> None:
        await self._counted(backend, asked)

    async def _counted(self, backend: ServedDeployment, asked: _Asked) -> web.Response:
        started = time.perf_counter()
        answer = await self._ask(backend, asked)
        self._counters.count(backend.name, answer.status, time.perf_counter() - started)
        return answer

    async def _ask(self, backend: ServedDeployment, asked: _Asked) -> web.Response:
        """Pass a request on as soon as an instance is free; a connection that did not come about is tried again."""
        patience = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                server, seconds = await backend.lease()
            except NotServing:
                return _unavailable(backend)
            except TooMany:
                return _too_many(backend)
            except TimeoutError:
                return _timed_out(backend, "had no room for the request")
            try:
                return await _send(backend, server, seconds, asked)
            except aiohttp.ClientConnectorError:  # nothing was sent: its server is just dying
                if time.monotonic() > patience:
                    return _broke_off(backend)
            finally:
                backend.give_back(server)
            await asyncio.sleep(_AGAIN_SECONDS)


async def _send(backend: ServedDeployment, server: ScoringServer, seconds: float, asked: _Asked) -> web.Response:
    """Raises ClientConnectorError where the server was not reached."""
    if (client := server.client) is None:
        return _broke_off(backend)
    try:
        async with client.request(
            asked.method,
            asked.url,
            data=BytesIO(asked.body) if asked.body else None,
            headers=asked.headers,
            timeout=aiohttp.ClientTimeout(total=seconds),
            allow_redirects=False,
        ) as answer:
            content = await answer.read()
    except TimeoutError:
        return _timed_out(backend, "did not answer")
    except aiohttp.ClientConnectorError:
        raise
    except aiohttp.ClientError:
        return _broke_off(backend)
    passed = web.Response(status=answer.status, body=content)
    passed.headers.extend((name, value) for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED)
    if not 200 <= answer.status < 300:
        # Azure, "Troubleshoot online endpoints": 424 with the container's own status in these headers.
        passed.set_status(424)
        passed.headers["ms-azureml-model-error-statuscode"] = str(answer.status)
        passed.headers["ms-azureml-model-error-reason"] = "model_error"
    return passed


async def _health(_request: web.Request) -> web.Response:
    return web.json_response({"status": "Healthy"})


def _unavailable(backend: ServedDeployment) -> web.Response:
    record = backend.record
    if record.state == "Failed":
        return _error(503, "DeploymentFailed", record.error.partition("\n")[0])
    return _error(
        503,
        "DeploymentUnavailable",
        f"Deployment {backend.name!r} is starting ({record.state}); try again in a moment.",
        {"Retry-After": "2"},
    )


def _broke_off(backend: ServedDeployment) -> web.Response:
    return _error(
        503,
        "DeploymentUnavailable",
        f"The scoring server of deployment {backend.name!r} broke off; its log says why. Try again in a moment.",
        {"Retry-After": "1"},
    )


def _timed_out(backend: ServedDeployment, what: str) -> web.Response:
    return _error(
        408,
        "RequestTimeout",
        f"Deployment {backend.name!r} {what} within {backend.request_seconds:g} seconds (its request_timeout_ms).",
    )


def _too_many(backend: ServedDeployment) -> web.Response:
    return _error(
        429,
        "TooManyRequests",
        f"Deployment {backend.name!r} has more requests than its request_settings and instances take; try again in a moment.",
        {"Retry-After": "1"},
    )


def _too_large() -> web.Response:
    limit = BODY_BYTES // (1024 * 1024)
    return _error(
        413, "RequestEntityTooLarge", f"The request is larger than the limit of {limit} MB; send a smaller picture."
    )


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status, headers=headers)


@web.middleware
async def _json_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """A wrong path or method is answered in JSON too."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        hint = "score with POST /score"
        return _error(error.status, error.reason.replace(" ", ""), f"{request.method} {request.path}: {hint}.")
