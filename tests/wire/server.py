"""The server: one TLS port that is the resource manager, the workspace's services, its storage and its endpoints."""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from weakref import WeakSet

from aiohttp import web
from tests.wire import (
    assets,
    blobs,
    computes,
    datastores,
    deployments,
    directory,
    endpoints,
    errors,
    history,
    jobs,
    monitor,
    operations,
    permissions,
    registries,
    scoring,
    sizes,
    tracking,
    workspaces,
)
from tests.wire.certificates import make_certificates
from tests.wire.clock import Clock
from tests.wire.faults import CHALLENGE, Fault, Faults
from tests.wire.http import Call, Refusal, Reply, Routes
from tests.wire.life import Life
from tests.wire.limits import Limits
from tests.wire.plans import JobPlan
from tests.wire.seeding import Seeds, furnish
from tests.wire.state import Body, State
from tests.wire.tokens import Tokens

_ROUTES = Routes()
_MODULES = (
    *(jobs, computes, history, workspaces, operations, sizes, assets, datastores),
    *(endpoints, deployments, monitor, tracking, registries, permissions),
)
for _module in _MODULES:
    _ROUTES.extend(_module.routes)
_KEPT_BODY = 64 * 1024
_BLOB_HOST = re.compile(r"(?P<account>[^.]+)\.blob\.")
_LOGIN_HOST = re.compile(r"login\.")
_SCORE_HOST = re.compile(r"(?P<endpoint>[^.]+)\.(?:[^.]+\.)?inference\.")


class Seen(NamedTuple):
    """A request that came: paths of blobs start with /blob, those of scoring addresses with /score/ENDPOINT."""

    method: str
    path: str
    query: dict[str, str]
    status: int
    body: Any


class WireServer:
    """A small Azure ML behind one port of this machine: `async with WireServer() as wire`."""

    def __init__(
        self,
        *,
        speed: float = 0.0,
        page_size: int = 100,
        job_page_size: int | None = None,
        operation_polls: int | None = 2,
        limits_enforced: bool = False,
        plan: JobPlan | None = None,
        port: int = 0,
        subscription_id: str = "00000000-0000-0000-0000-000000000001",
        resource_group: str = "rg",
        workspace_name: str = "ws",
    ) -> None:
        """With `speed` 0 the clock stands till it is moved, and an operation ends at its `operation_polls`-th poll.

        `operation_polls` None: operations end by the clock alone, after `seconds[kind]`.
        """
        self.clock = Clock(speed)
        self.state = State(self.clock, subscription_id, resource_group, workspace_name)
        self.subscription_id, self.resource_group, self.workspace_name = subscription_id, resource_group, workspace_name
        self.page_size, self.job_page_size = page_size, job_page_size or page_size
        self.operation_polls = operation_polls
        self.seconds = {"cluster": 12.0, "node": 20.0, "cancel": 4.0, "endpoint": 15.0, "deployment": 90.0}
        self.plans: dict[str, JobPlan] = {}
        """How jobs go, by name; `default_plan` for all others."""
        self.default_plan = plan or JobPlan()
        self.sas_seconds = 29_400.0
        self.deployment_errors: dict[str, Body] = {}
        """How deployments fail, by `endpoint/name`: the error of their operation."""
        self.served: dict[str, Counter[str]] = {}
        self.scored: Counter[tuple[str, str]] = Counter()
        """Requests that each deployment of an endpoint had, mirrored ones too."""
        self.mirrored: Counter[tuple[str, str]] = Counter()
        """Per cent of requests that add up to copies for a deployment that mirrors."""
        """How many requests each deployment of an endpoint has had by traffic."""
        self.role = "Contributor"
        """The built-in role of whoever signs in: `permissions.ROLES`."""
        self.faults = Faults()
        self.limits = Limits(self.clock, enforced=limits_enforced)
        self.tokens = Tokens()
        self.directory = directory.Directory()
        self.token = self.tokens.issue()
        self.requests: list[Seen] = []
        self.operations = operations.Operations(self)
        self.life = Life(self)
        self.seed = Seeds(self)
        self.blobs = blobs.BlobService(self)
        self.port = port
        self.lock = threading.RLock()
        self._runner: web.AppRunner | None = None
        self._transports: WeakSet[asyncio.Transport] = WeakSet()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.ca_file = Path()

    # addresses

    @property
    def resource_manager(self) -> str:
        """The resource manager's address."""
        return f"https://management.localhost:{self.port}"

    @property
    def active_directory(self) -> str:
        """The directory's address; a ready token does without it."""
        return f"https://login.localhost:{self.port}"

    @property
    def api_host(self) -> str:
        """Host and port of run history and the tracking server."""
        return f"{self.state.location}.api.localhost:{self.port}"

    @property
    def api(self) -> str:
        """The address of run history and the tracking server."""
        return f"https://{self.api_host}"

    @property
    def storage_endpoint(self) -> str:
        """What follows `https://ACCOUNT.blob.` in the storage's addresses."""
        return f"localhost:{self.port}"

    @property
    def studio(self) -> str:
        """The studio's address, for links."""
        return "https://ml.azure.com"

    @property
    def aml_resource_id(self) -> str:
        """The audience of tokens."""
        return "https://ml.azure.com"

    @property
    def cloud_metadata(self) -> dict[str, str]:
        """The addresses, as `MLClient(cloud=…, cloud_metadata=…)` takes them."""
        return {
            "azure_portal": "https://portal.azure.com",
            "resource_manager": self.resource_manager,
            "active_directory": self.active_directory,
            "aml_resource_id": self.aml_resource_id,
            "storage_endpoint": self.storage_endpoint,
            "registry_discovery_endpoint": f"{self.api}/",
        }

    def settings(self, name: str = "wire", token_env: str = "FOOTPLATE_WIRE_TOKEN") -> str:
        """The lines of the console's settings that open this workspace."""
        lines = {
            "kind": "azure",
            "subscription_id": self.subscription_id,
            "resource_group": self.resource_group,
            "workspace_name": self.workspace_name,
            "cloud": "custom",
            "resource_manager": self.resource_manager,
            "active_directory": self.active_directory,
            "aml_resource_id": self.aml_resource_id,
            "storage_endpoint": self.storage_endpoint,
            "ca_file": str(self.ca_file),
            "token_env": token_env,
        }
        return "\n".join([f"[workspaces.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in lines.items())])

    # what a test does

    @property
    def now(self) -> datetime:
        """The server's time; it may be set."""
        return self.clock.now

    @now.setter
    def now(self, moment: datetime) -> None:
        with self.lock:
            self.clock.now = moment
            self.state.settle()

    def advance(self, seconds: float) -> None:
        """Move the clock on; all that is due by then has happened."""
        self.now = self.now + timedelta(seconds=seconds)

    def plan(self, name: str, body: Body) -> JobPlan:
        """How a job goes: by its own plan, its sweep's, else the default one, of which each trial has its own skill."""
        if name in self.plans:
            return self.plans[name]
        parent = name.rpartition("_")[0]
        if self.state.jobs.get(parent, {}).get("properties", {}).get("jobType") != "Sweep":
            return self.default_plan
        chance = random.Random(name)
        return self.plans.get(parent) or replace(self.default_plan, skill=chance.uniform(0.3, 1.0))

    def expire_addresses(self) -> None:
        """All signed addresses that were given are old from now on."""
        self.blobs.forget_signatures()

    def replace_log(self, job: str, path: str, data: bytes) -> None:
        """Put other bytes in a log file's place, also fewer."""
        from tests.wire.life import LOGS, log_path

        with self.lock:
            self.state.growing = [log for log in self.state.growing if log.key != (LOGS, log_path(job, path))]
            self.state.put_blob(LOGS, log_path(job, path), data)

    # life of the server

    async def start(self) -> None:
        """Listen."""
        self._folder = tempfile.TemporaryDirectory(prefix="footplate-wire-")
        certificates = make_certificates(Path(self._folder.name))
        self.ca_file = certificates.ca_file
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # The addresses of operations are near four kilobytes long, as the service's are.
        self._runner = web.AppRunner(
            app, access_log=None, max_line_size=16_384, max_field_size=16_384, shutdown_timeout=0.1
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=certificates.context())
        await site.start()
        self.port = self._runner.addresses[0][1]
        furnish(self)

    async def stop(self) -> None:
        """Stop listening, whatever is still connected; the certificate's files are gone."""
        if self._runner:
            await self._runner.cleanup()
        for transport in self._transports:
            transport.abort()
        # A transport lets go of its socket in a later turn of the loop, and TLS has two transports a connection.
        for _ in range(3):
            await asyncio.sleep(0)
        if self._folder:
            self._folder.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # requests

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.transport is not None:
            self._transports.add(request.transport)
        host = request.host.partition(":")[0].lower()
        path = _address(host, request.path)
        query = dict(request.query)
        fault = self.faults.match(request.method, f"{path}?{request.query_string}")
        if fault and fault.delay_seconds:
            await asyncio.sleep(fault.delay_seconds)
        with self.lock:
            self.state.settle()
            reply = self._answer(Call(self, request.method, host, path, query, request.headers, body), fault)
            response = self._response(request, reply)
        kept: Any = body[:_KEPT_BODY]
        if body and "json" in request.headers.get("Content-Type", ""):
            with suppress(ValueError):
                kept = json.loads(body)
        self.requests.append(Seen(request.method, path, query, reply.status, kept))
        if fault is not None and fault.cut_after is not None:
            return await self._cut(request, response, fault.cut_after)
        return response

    async def _cut(self, request: web.Request, whole: web.Response, after: int) -> web.StreamResponse:
        """Send so much of an answer, then cut the connection; with a negative number not even its head."""
        assert request.transport is not None
        data = whole.body if isinstance(whole.body, bytes) else b""
        response = web.StreamResponse(status=whole.status, headers=whole.headers)
        response.content_length = len(data)
        if after >= 0:
            await response.prepare(request)
            await response.write(data[:after])
            request.transport.close()
        else:
            request.transport.abort()
        return response

    def _answer(self, call: Call, fault: Fault | None) -> Reply:
        on_manager = call.path.startswith(("/subscriptions", "/tenants"))
        headers: dict[str, str] = {}
        try:
            if on_manager:
                allowed, headers = self.limits.take(call.method)
                if not allowed:
                    word = "The request was throttled. Number of requests exceeded the limit. Please try again later."
                    raise Refusal(429, "TooManyRequests", word, plain=True)
            if fault is not None and fault.status is not None:
                reply = Reply(fault.status, fault.body, dict(fault.headers))
            else:
                reply = self._route(call)
        except Refusal as refusal:
            reply = Reply(refusal.status, errors.body(refusal, self.state))
            if refusal.status == 401:
                reply.headers["WWW-Authenticate"] = CHALLENGE.format(error="invalid_token", text=refusal.message)
        if on_manager:
            word = "error" if reply.status >= 400 else "standard"
            reply.headers = {**headers, "x-ms-response-type": word, **reply.headers}
        return reply

    def _route(self, call: Call) -> Reply:
        if call.path.startswith("/blob/"):
            return self.blobs.answer(call)
        if call.path.startswith("/score/"):
            return scoring.answer_score(call)
        if _LOGIN_HOST.match(call.host):
            return self._sign_in(call)
        found = _ROUTES.find(call.method, call.path)
        if not call.path.startswith("/discovery") and (
            why := self.tokens.why_not(call.headers.get("Authorization", ""))
        ):
            raise Refusal(401, "InvalidAuthenticationToken", why, plain=True)
        if found is None:
            raise Refusal(404, "NotFound", f"No route for {call.method} {call.path}.", plain=True)
        handler, call.parts = found
        if call.path.startswith("/subscriptions") and "api-version" not in call.query:
            text = "The api-version query parameter (?api-version=) is required for all requests."
            raise Refusal(400, "MissingApiVersionParameter", text, plain=True)
        workspaces.check_scope(call)
        permissions.check_action(call)
        return handler(call)

    def _sign_in(self, call: Call) -> Reply:
        found = directory.routes.find(call.method, call.path)
        if found is None:
            return Reply(404, {"error": "not_found", "error_description": call.path})
        handler, call.parts = found
        return handler(call)

    def _response(self, request: web.Request, reply: Reply) -> web.Response:
        headers = {
            "Date": format_datetime(self.now, usegmt=True),
            "x-ms-request-id": "2632b07b9427daef",
            "x-ms-correlation-request-id": "9518a512-0e84-1c6a-36af-896acafd0355",
            **reply.headers,
        }
        if isinstance(reply.body, dict | list):
            data = json.dumps(reply.body).encode()
            headers.setdefault("Content-Type", "application/json; charset=utf-8")
        else:
            data = bytes(reply.body or b"")
        if request.method == "HEAD":
            return web.Response(status=reply.status, headers=headers)
        return web.Response(status=reply.status, body=data, headers=headers)


def _address(host: str, path: str) -> str:
    """A request's path, with what its host says put before it."""
    if _BLOB_HOST.match(host):
        return f"/blob{path}"
    if found := _SCORE_HOST.match(host):
        return f"/score/{found['endpoint']}{path}"
    return path.removeprefix("/mferp/managementfrontend")  # how registries are asked
