"""Online endpoints, managed and Kubernetes alike: their deployments, keys, logs, traffic and instances, all by raw JSON."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from footplate.azure.client import Client
from footplate.azure.following import (
    DEPLOYMENT_VERSION,
    ENDPOINT_VERSION,
    GOING_ON,
    Following,
    deployment_path,
    endpoint_path,
    operation_address,
)
from footplate.azure.operations import Operation
from footplate.azure.reading import asset_reference, count, created, mapping, tags, text
from footplate.azure.scoring import Scoring
from footplate.workspace.errors import Conflict, Invalid, NotFound, Unexpected
from footplate.workspace.serving import Answer, Deployment, Endpoint, Keys
from footplate.workspace.traffic import check_mirror, check_traffic, check_unchanged, shares_text

_MODES = {"key": "key", "amltoken": "aml_token", "aadtoken": "aad_token"}
_CONTAINERS = {"inference-server": "InferenceServer", "storage-initializer": "StorageInitializer"}
_KEY_TYPES = {"primary": "Primary", "secondary": "Secondary"}
_AT_ONCE = 8
_STEADY_SECONDS = 15.0
"""Deployments of an endpoint that does not change are asked for again no sooner."""


class Endpoints:
    """The online endpoints of one workspace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._following = Following(client)
        self._scoring = Scoring(client, self._own_record)
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._steady: dict[str, tuple[Any, float, Sequence[Deployment]]] = {}
        self._ended: dict[str, Operation] = {}

    # Reads

    async def list(self) -> Sequence[Endpoint]:
        """All endpoints by name with their deployments."""
        listed = await self._client.every("/onlineEndpoints", ENDPOINT_VERSION, "endpoints")
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
        found = read_endpoint(record, below)
        if found.state != "Failed":
            return found
        operation = await self._last_operation(record, f"endpoint {name!r}")
        return replace(found, error=operation.error if operation else "")

    async def keys(self, name: str) -> Keys:
        """The keys, or a token. Raises NotFound, NotAllowed, and Invalid for an endpoint that takes the directory's tokens."""
        return await self._scoring.keys(await self._own_record(name))

    async def log(self, endpoint: str, name: str, tail: int, container: str = "inference-server") -> str:
        """The last lines of a deployment's container. Raises NotFound, Invalid for no container of Azure's."""
        if container not in _CONTAINERS:
            raise Invalid(f"A deployment has no container {container!r}.", f"It has {' and '.join(_CONTAINERS)}.")
        answer = await self._client.post(
            f"{deployment_path(endpoint, name)}/getLogs",
            DEPLOYMENT_VERSION,
            f"deployment {name!r} of endpoint {endpoint!r}",
            {"containerType": _CONTAINERS[container], "tail": tail},
        )
        lines = text(mapping(answer).get("content")).split("\n")
        ends = 1 if lines[-1] == "" else 0
        return "\n".join(lines[-tail - ends :]) if tail > 0 else ""

    async def invoke(self, endpoint: str, body: bytes, headers: Mapping[str, str], deployment: str | None) -> Answer:
        """One scoring request. Raises Conflict while the endpoint has no address, Unreachable."""
        return await self._scoring.invoke(endpoint, body, headers, deployment)

    # Changes

    async def regenerate_key(self, name: str, key: str) -> Keys:
        """Have a key made anew, and wait for it. Raises NotFound, Invalid (which key, or an endpoint without keys)."""
        kind = _KEY_TYPES.get(key)
        if kind is None:
            raise Invalid(f"An endpoint has no {key!r} key.", "Name `primary` or `secondary`.")
        endpoint = await self._own_record(name)
        if endpoint.auth_mode != "key":
            raise Invalid(f"Endpoint {name!r} takes tokens ({endpoint.auth_mode}), and has no keys.", "")
        before, what = await self._scoring.keys(endpoint), f"the {key} key of endpoint {name!r}"
        path = f"{endpoint_path(name)}/regenerateKeys"
        address = await self._client.begin("POST", path, ENDPOINT_VERSION, what, {"keyType": kind})
        await self._following.ended(address, what)
        self._scoring.forget(name)
        after = await self._scoring.keys(endpoint)
        if getattr(after, key) == getattr(before, key):
            raise Unexpected(f"Azure says that {what} was made anew, but it is the same as before.", "Try again.")
        return after

    async def set_traffic(
        self, name: str, traffic: Mapping[str, int], if_unchanged: Mapping[str, int] | None = None
    ) -> Endpoint:
        """Share out the requests and wait until it holds. Raises NotFound, Invalid, Conflict (changed or being changed)."""
        endpoint = await self.endpoint(name)
        check_unchanged(endpoint, if_unchanged)
        check_traffic(endpoint, traffic)
        refuse_while_changing(endpoint)
        if shares_text(traffic) == shares_text(endpoint.traffic):
            return endpoint
        # Each deployment is named: what a PATCH leaves out could be kept as it is.
        shares = {one.name: traffic.get(one.name, 0) for one in endpoint.deployments}
        await self._patch(name, {"traffic": shares})
        after = await self.endpoint(name)
        if shares_text(after.traffic) != shares_text(traffic):
            raise Conflict(
                f"The traffic of endpoint {name!r} is {shares_text(after.traffic)}, and not {shares_text(traffic)}: somebody "
                "else changes it too.",
                "Look again, then decide.",
            )
        return after

    async def set_mirror(self, name: str, mirror: Mapping[str, int]) -> Endpoint:
        """Mirror requests and wait until it holds. Raises NotFound, Invalid, Conflict while the endpoint is being changed."""
        endpoint = await self.endpoint(name)
        check_mirror(endpoint, mirror)
        refuse_while_changing(endpoint)
        # A share is ended by 0 (documented): what a PATCH leaves out could be kept as it is.
        shares = {**dict.fromkeys(endpoint.mirror, 0), **mirror}
        if not shares:
            return endpoint
        await self._patch(name, {"mirrorTraffic": shares})
        return await self.endpoint(name)

    async def scale(self, endpoint: str, name: str, instances: int) -> Deployment:
        """Ask for so many instances; gives the deployment as it is then. Raises NotFound, Invalid, Conflict, QuotaExceeded."""
        if isinstance(instances, bool) or not isinstance(instances, int) or instances < 1:
            raise Invalid(f"{instances!r} is no number of instances.", "Give a whole number from 1.")
        path, what = deployment_path(endpoint, name), f"deployment {name!r} of endpoint {endpoint!r}"
        record = mapping(await self._client.get(path, DEPLOYMENT_VERSION, what))
        scaling = mapping(mapping(record.get("properties")).get("scaleSettings"))
        if text(scaling.get("scaleType")).lower() == "targetutilization":
            raise Invalid(
                f"D{what[1:]} scales itself, from {count(scaling.get('minInstances'), 1)} to "
                f"{count(scaling.get('maxInstances'), 1)} instances.",
                "Change scale_settings in its file, then deploy the file.",
            )
        sku = {"name": text(mapping(record.get("sku")).get("name")) or "Default", "capacity": instances}
        await self._client.begin("PATCH", path, DEPLOYMENT_VERSION, what, {"sku": sku})
        self._steady.pop(endpoint, None)
        found = await self.endpoint(endpoint)
        return find_deployment(found, name)

    async def delete_deployment(self, endpoint: str, name: str) -> None:
        """Delete a deployment and wait until it is gone. Raises NotFound, Conflict while it has traffic."""
        found = await self.endpoint(endpoint)
        find_deployment(found, name)
        what = f"deployment {name!r} of endpoint {endpoint!r}"
        if share := found.traffic.get(name, 0):
            raise Conflict(
                f"D{what[1:]} has {share} % of the traffic.", "Give it to another deployment first, or to none."
            )
        if share := found.mirror.get(name, 0):
            raise Conflict(f"{share} % of the requests are mirrored to {what}.", "End the mirroring first.")
        path = deployment_path(endpoint, name)
        address = await self._client.begin("DELETE", path, DEPLOYMENT_VERSION, what)
        self._steady.pop(endpoint, None)
        await self._following.ended(address, what)
        try:
            await self._following.settled(path, DEPLOYMENT_VERSION, what)
        except NotFound:
            return
        raise Unexpected(f"D{what[1:]} is there still, though its deletion has ended.", "Look at it, then try again.")

    async def _patch(self, name: str, properties: Mapping[str, Any]) -> None:
        """Change some properties of an endpoint, whose tags, identity and all else stay; and wait for it."""
        what = f"endpoint {name!r}"
        address = await self._client.begin(
            "PATCH", endpoint_path(name), ENDPOINT_VERSION, what, {"properties": properties}
        )
        await self._following.ended(address, what)
        await self._following.settled(endpoint_path(name), ENDPOINT_VERSION, what)

    # Records

    async def _record(self, name: str) -> Mapping[str, Any]:
        return mapping(await self._client.get(endpoint_path(name), ENDPOINT_VERSION, f"endpoint {name!r}"))

    async def _own_record(self, name: str) -> Endpoint:
        """An endpoint without its deployments. Raises NotFound."""
        return read_endpoint(await self._record(name), ())

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
                f"{endpoint_path(name)}/deployments", DEPLOYMENT_VERSION, f"the deployments of endpoint {name!r}"
            )
            named = [item for item in listed if text(mapping(item).get("name"))]
            found = [await self._explained(read_deployment(item, name), item) for item in named]
        return sorted(found, key=lambda deployment: (deployment.created, deployment.name))

    async def _explained(self, deployment: Deployment, item: Any) -> Deployment:
        """A deployment with what its operation says of it, where it failed or something goes on."""
        if deployment.state == "Succeeded":
            return deployment
        operation = await self._last_operation(item, f"deployment {deployment.name!r}")
        if operation is None:
            return deployment
        if operation.error:
            return replace(deployment, error=operation.error)
        return replace(deployment, note=_going_on(operation) if deployment.state in GOING_ON else "")

    async def _last_operation(self, item: Any, what: str) -> Operation | None:
        """The operation that a record names; one that has ended is asked for once."""
        address = operation_address(mapping(item).get("properties"))
        if address in self._ended:
            return self._ended[address]
        operation = await self._following.operation(address, what)
        if operation is not None and operation.done:
            self._ended[address] = operation
        return operation


def find_deployment(endpoint: Endpoint, name: str) -> Deployment:
    """A deployment of an endpoint. Raises NotFound."""
    for deployment in endpoint.deployments:
        if deployment.name == name:
            return deployment
    raise NotFound(
        f"Endpoint {endpoint.name!r} has no deployment {name!r}.",
        f"It has {', '.join(one.name for one in endpoint.deployments) or 'none yet'}.",
    )


def read_endpoint(item: Any, deployments: Sequence[Deployment]) -> Endpoint:
    """An endpoint from its JSON; one that is being made has no scoring address."""
    properties = mapping(mapping(item).get("properties"))
    mode = text(properties.get("authMode"))
    return Endpoint(
        name=text(mapping(item).get("name")),
        state=text(properties.get("provisioningState")) or "Unknown",
        created=created(mapping(item)),
        scoring_uri=text(properties.get("scoringUri")),
        auth_mode=_MODES.get(mode.lower(), mode),
        traffic=_shares(properties.get("traffic")),
        mirror={name: share for name, share in _shares(properties.get("mirrorTraffic")).items() if share},
        deployments=tuple(deployments),
        description=text(properties.get("description")),
        tags=tags(mapping(item).get("tags")),
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
        size=text(properties.get("instanceType")),
    )


def _shares(value: Any) -> dict[str, int]:
    return {name: count(share) for name, share in mapping(value).items()}


def refuse_while_changing(endpoint: Endpoint) -> None:
    """The service refuses a second change with a 409 of many lines. Raises Conflict."""
    if endpoint.state in GOING_ON:
        raise Conflict(
            f"Endpoint {endpoint.name!r} is being changed: it is {endpoint.state}.", "Wait until it is Succeeded."
        )


def _going_on(operation: Operation) -> str:
    """How an operation goes, as one line."""
    if operation.started is None:
        return f"Azure says {operation.status}"
    minutes = int((datetime.now(UTC) - operation.started).total_seconds() // 60)
    return f"Azure says {operation.status}, for {minutes} min" if minutes > 0 else f"Azure says {operation.status}"
