"""Online endpoints: their deployments, keys and logs, and scoring by a plain POST to the scoring address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Bytes, Client
from footplate.azure.reading import asset_reference, count, created, mapping, text
from footplate.workspace.errors import Conflict, Invalid, NotFound
from footplate.workspace.model import Answer, Deployment, Endpoint, Keys

_VERSION = "2022-02-01-preview"
_DEPLOYMENT_VERSION = "2023-04-01-preview"
_MODES = {"Key": "key", "AMLToken": "aml_token", "AADToken": "aad_token"}
_AT_ONCE = 8
_STEADY_SECONDS = 15.0
"""Deployments of an endpoint that does not change are asked for again no sooner."""
_SCORING_SECONDS = 195.0  # the longest request_timeout_ms that Azure takes, and some for the way (documented)
_TOKEN_MARGIN_SECONDS = 60.0
_DEPLOYMENT = "azureml-model-deployment"


class Endpoints:
    """The online endpoints of one workspace, managed and Kubernetes alike."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._steady: dict[str, tuple[Any, float, Sequence[Deployment]]] = {}
        self._scoring: dict[str, tuple[str, str, float]] = {}

    async def list(self) -> Sequence[Endpoint]:
        """All endpoints by name with their deployments."""
        listed = await self._client.every("/onlineEndpoints", _VERSION, "endpoints")
        named = [item for item in listed if text(mapping(item).get("name"))]
        deployments = await asyncio.gather(*(self._deployments(item) for item in named))
        found = [read_endpoint(item, below) for item, below in zip(named, deployments, strict=True)]
        return sorted(found, key=lambda endpoint: endpoint.name)

    async def endpoint(self, name: str) -> Endpoint:
        """One endpoint with its deployments as they are now. Raises NotFound."""
        record, below = await asyncio.gather(self._record(name), self._ask_deployments(name), return_exceptions=True)
        if isinstance(record, BaseException):
            raise record
        if isinstance(below, BaseException):
            raise below
        return read_endpoint(record, below)

    async def keys(self, name: str) -> Keys:
        """The keys. Raises NotFound, NotAllowed, and Invalid for an endpoint that takes tokens."""
        mode = read_endpoint(await self._record(name), ()).auth_mode
        if mode != "key":
            raise Invalid(
                f"Endpoint {name!r} takes tokens ({mode}), and has no keys.", "Invoke it: footplate has a token made."
            )
        return await self._keys(name)

    async def log(self, endpoint: str, name: str, tail: int) -> str:
        """The last lines of a deployment's scoring server. Raises NotFound."""
        path = f"{_path(endpoint)}/deployments/{quote(name, safe='')}/getLogs"
        answer = await self._client.post(
            path,
            _DEPLOYMENT_VERSION,
            f"deployment {name!r} of endpoint {endpoint!r}",
            {"containerType": "InferenceServer", "tail": tail},
        )
        lines = text(mapping(answer).get("content")).split("\n")
        ends = 1 if lines[-1] == "" else 0
        return "\n".join(lines[-tail - ends :]) if tail > 0 else ""

    async def invoke(self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None) -> Answer:
        """One scoring request, by key or token as the endpoint has it. Raises Conflict while it has no address, Unreachable."""
        sent = {name: value for name, value in headers.items() if name.lower() not in ("authorization", _DEPLOYMENT)}
        if deployment is not None:
            sent[_DEPLOYMENT] = deployment
        address, secret, kept = await self._way_in(endpoint)
        answer, seconds = await self._post(address, secret, body, sent)
        if answer.status in (401, 403) and kept:
            # The key may have been made anew since it was read.
            self._scoring.pop(endpoint, None)
            address, secret, _ = await self._way_in(endpoint)
            answer, seconds = await self._post(address, secret, body, sent)
        given = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, answer.headers, answer.body, seconds, given.get(_DEPLOYMENT, deployment or ""))

    async def _post(self, address: str, secret: str, body: bytes, headers: Mapping[str, str]) -> tuple[Bytes, float]:
        started = time.perf_counter()
        # The session does not decompress by itself.
        sent = {"Accept-Encoding": "identity", **headers, "Authorization": f"Bearer {secret}"}
        answer = await self._client.score(address, body, sent, _SCORING_SECONDS)
        return answer, time.perf_counter() - started

    async def _way_in(self, name: str) -> tuple[str, str, bool]:
        """Scoring address and key or token, and whether they were kept from before."""
        known = self._scoring.get(name)
        if known is not None and time.time() < known[2]:
            return known[0], known[1], True
        endpoint = read_endpoint(await self._record(name), ())
        if not endpoint.scoring_uri:
            raise Conflict(
                f"Endpoint {name!r} has no address yet: it is {endpoint.state}.",
                "Wait until it is Succeeded, then try again.",
            )
        secret, until = await self._secret(endpoint)
        self._scoring[name] = (endpoint.scoring_uri, secret, until)
        return endpoint.scoring_uri, secret, False

    async def _secret(self, endpoint: Endpoint) -> tuple[str, float]:
        if endpoint.auth_mode == "aad_token":
            token = await asyncio.to_thread(self._client.credential.get_token_info, self._client.cloud.aml_scope)
            return token.token, token.expires_on - _TOKEN_MARGIN_SECONDS
        if endpoint.auth_mode == "aml_token":
            answer = mapping(
                await self._client.post(f"{_path(endpoint.name)}/token", _VERSION, f"endpoint {endpoint.name!r}")
            )
            ends = count(answer.get("refreshAfterTimeUtc")) or count(answer.get("expiryTimeUtc"))
            return text(answer.get("accessToken")), float(ends) - _TOKEN_MARGIN_SECONDS
        return (await self._keys(endpoint.name)).primary, float("inf")

    async def _keys(self, name: str) -> Keys:
        answer = mapping(await self._client.post(f"{_path(name)}/listKeys", _VERSION, f"the keys of endpoint {name!r}"))
        return Keys(text(answer.get("primaryKey")), text(answer.get("secondaryKey")))

    async def _record(self, name: str) -> Mapping[str, Any]:
        return mapping(await self._client.get(_path(name), _VERSION, f"endpoint {name!r}"))

    async def _deployments(self, item: Mapping[str, Any]) -> Sequence[Deployment]:
        """The deployments of a listed endpoint; those of one that stands still may be some seconds old."""
        name, properties = text(item["name"]), mapping(item.get("properties"))
        stamp = (properties.get("traffic"), mapping(item.get("systemData")).get("lastModifiedAt"))
        known = self._steady.get(name)
        if known is not None and known[0] == stamp and time.monotonic() < known[1]:
            return known[2]
        try:
            found = await self._ask_deployments(name)
        except NotFound:  # deleted since it was listed
            return ()
        still = properties.get("provisioningState") == "Succeeded" and all(one.state == "Succeeded" for one in found)
        self._steady[name] = (stamp, time.monotonic() + (_STEADY_SECONDS if still else 0.0), found)
        return found

    async def _ask_deployments(self, name: str) -> Sequence[Deployment]:
        async with self._limit:
            listed = await self._client.every(
                f"{_path(name)}/deployments", _DEPLOYMENT_VERSION, f"the deployments of endpoint {name!r}"
            )
        found = [read_deployment(item, name) for item in listed if text(mapping(item).get("name"))]
        return sorted(found, key=lambda deployment: (deployment.created, deployment.name))


def read_endpoint(item: Any, deployments: Sequence[Deployment]) -> Endpoint:
    """An endpoint from its JSON; one that is being made has no scoring address."""
    properties = mapping(mapping(item).get("properties"))
    mode = text(properties.get("authMode"))
    return Endpoint(
        name=text(mapping(item).get("name")),
        state=text(properties.get("provisioningState")) or "Unknown",
        created=created(mapping(item)),
        scoring_uri=text(properties.get("scoringUri")),
        auth_mode=_MODES.get(mode, mode),
        traffic={name: count(share) for name, share in mapping(properties.get("traffic")).items()},
        deployments=tuple(deployments),
        description=text(properties.get("description")),
    )


def read_deployment(item: Any, endpoint: str) -> Deployment:
    """A deployment from its JSON."""
    properties = mapping(mapping(item).get("properties"))
    sku = mapping(mapping(item).get("sku"))
    model = properties.get("model")
    return Deployment(
        name=text(mapping(item).get("name")),
        endpoint=endpoint,
        model=asset_reference(mapping(model).get("assetId") if isinstance(model, Mapping) else model),
        state=text(properties.get("provisioningState")) or "Unknown",
        created=created(mapping(item)),
        instances=count(sku.get("capacity"), 1),
    )


def _path(name: str) -> str:
    return f"/onlineEndpoints/{quote(name, safe='')}"
