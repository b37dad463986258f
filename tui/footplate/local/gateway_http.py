"""What the gateway answers: keys, traffic split, limits and Azure's status codes in front of the scoring servers."""

from __future__ import annotations

import hmac
import random
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import Protocol

import aiohttp
from aiohttp import web

from footplate.workspace.model import Keys

DEPLOYMENT_HEADER = "azureml-model-deployment"
BODY_BYTES = 32 * 1024 * 1024

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


class Backend(Protocol):
    """A deployment as the gateway sees it; `client` speaks to its server, and is None while that cannot answer."""

    name: str
    state: str
    error: str
    client: aiohttp.ClientSession | None


class Router:
    """The endpoint's web application. `backends` and `traffic` (per cent) may be replaced while it serves."""

    def __init__(self, endpoint: str, keys: Keys, request_seconds: float) -> None:
        self.backends: Mapping[str, Backend] = {}
        self.traffic: Mapping[str, int] = {}
        self._endpoint = endpoint
        self._keys = tuple(f"Bearer {key}".encode() for key in (keys.primary, keys.secondary))
        self._timeout = aiohttp.ClientTimeout(total=request_seconds)

    def application(self) -> web.Application:
        """Routes: POST /score with a key, GET /health without."""
        application = web.Application(client_max_size=BODY_BYTES, middlewares=[_json_errors])
        application.router.add_post("/score", self._score)
        application.router.add_get("/health", _health)
        return application

    async def _score(self, request: web.Request) -> web.Response:
        if not self._has_key(request):
            return _error(
                401,
                "Unauthorized",
                f"The key is missing or wrong; `footplate endpoint keys {self._endpoint}` shows the right one.",
            )
        if (request.content_length or 0) > BODY_BYTES:
            return _too_large()
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _too_large()
        backend = self._choose(request.headers.get(DEPLOYMENT_HEADER))
        if isinstance(backend, web.Response):
            return backend
        answer = await self._ask(backend, request, body)
        answer.headers[DEPLOYMENT_HEADER] = backend.name
        return answer

    def _has_key(self, request: web.Request) -> bool:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        # Both are always compared, so that the time taken tells nothing.
        return sum(hmac.compare_digest(given, key) for key in self._keys) > 0

    def _choose(self, wanted: str | None) -> Backend | web.Response:
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

    async def _ask(self, backend: Backend, request: web.Request, body: bytes) -> web.Response:
        if (client := backend.client) is None:
            return _unavailable(backend)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_PASSED]
        try:
            async with client.post(
                "http://localhost/score",
                data=BytesIO(body),
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
            ) as answer:
                content = await answer.read()
        except TimeoutError:
            return _error(
                408,
                "RequestTimeout",
                f"Deployment {backend.name!r} did not answer within {self._timeout.total:g} seconds.",
            )
        except aiohttp.ClientError:
            return _error(
                503,
                "DeploymentUnavailable",
                f"The scoring server of deployment {backend.name!r} broke off; its log says why. Try again in a moment.",
            )
        passed = web.Response(status=answer.status, body=content)
        passed.headers.extend(
            (name, value) for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED
        )
        if not 200 <= answer.status < 300:
            # Azure, "Troubleshoot online endpoints": 424 with the container's own status in these headers.
            passed.set_status(424)
            passed.headers["ms-azureml-model-error-statuscode"] = str(answer.status)
            passed.headers["ms-azureml-model-error-reason"] = "model_error"
        return passed


async def _health(_request: web.Request) -> web.Response:
    return web.json_response({"status": "Healthy"})


def _unavailable(backend: Backend) -> web.Response:
    if backend.state == "Failed":
        return _error(503, "DeploymentFailed", backend.error)
    return _error(
        503,
        "DeploymentUnavailable",
        f"Deployment {backend.name!r} is starting ({backend.state}); try again in a moment.",
    )


def _too_large() -> web.Response:
    limit = BODY_BYTES // (1024 * 1024)
    return _error(
        413, "RequestEntityTooLarge", f"The request is larger than the limit of {limit} MB; send a smaller picture."
    )


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


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
