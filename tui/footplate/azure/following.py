"""Follow what goes on for long by raw reads alone, so that whoever looks next, in another process too, sees the same."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from footplate.azure import errors
from footplate.azure.client import Client
from footplate.azure.operations import Operation, read_operation
from footplate.azure.reading import mapping, text
from footplate.workspace.errors import NotFound, Throttled, Unexpected, Unreachable, WorkspaceError

ENDPOINT_VERSION = "2022-02-01-preview"
"""The last version whose PATCH of an endpoint takes traffic; the SDK's own for endpoints."""
DEPLOYMENT_VERSION = "2023-04-01-preview"
GOING_ON = frozenset({"Creating", "Updating", "Scaling", "Deleting"})
"""Provisioning states from which a resource goes on to another."""
_TRIES = 5

T = TypeVar("T")


class Following:
    """The operations of one workspace. A wait that is cancelled ends nothing: the operation goes on."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def settled(self, path: str, version: str, what: str, *, leave: asyncio.Event | None = None) -> str:
        """Read a resource until nothing goes on with it; gives its state. Raises what its operation failed with, NotFound.

        Once `leave` is set the wait ends, with the state as it is.
        """
        for seconds in _pauses():
            record = mapping(await _patiently(lambda: self._client.get(path, version, what)))
            properties = mapping(record.get("properties"))
            state = text(properties.get("provisioningState"))
            if state not in GOING_ON:
                if state == "Failed":
                    raise _failed(await self.operation(operation_address(properties), what), what)
                return state
            if leave is not None and leave.is_set():
                return state
            if leave is None:
                await asyncio.sleep(seconds)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(leave.wait(), seconds)
        raise AssertionError("the pauses never end")

    async def ended(self, address: str, what: str) -> None:
        """Wait for an operation's end, by its address. Raises what it failed with; an address of elsewhere is not asked."""
        for seconds in _pauses():
            operation = await _patiently(lambda: self.operation(address, what))
            if operation is None:
                return
            if operation.done:
                if operation.status != "Succeeded":
                    raise _failed(operation, what)
                return
            await asyncio.sleep(seconds)

    async def operation(self, address: str, what: str) -> Operation | None:
        """What the service says of an operation; None where the address is none of this subscription, or forgotten."""
        parts = urlsplit(address)
        start = self._client.place.subscription_path
        query = dict(parse_qsl(parts.query))
        version = query.pop("api-version", "")
        if not version or not parts.path.lower().startswith(f"{start}/".lower()):
            return None
        try:
            return read_operation(await self._client.subscription(parts.path[len(start) :], version, what, **query))
        except NotFound:  # forgotten by the service: the resource itself says how it ended
            return None


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again when Azure takes no requests just now, or cannot be reached for a moment: what is followed goes on meanwhile."""
    failures = 0
    while True:
        try:
            return await ask()
        except Throttled as error:
            await asyncio.sleep(error.retry_after)
        except Unreachable:
            failures += 1
            if failures == _TRIES:
                raise
            await asyncio.sleep(failures)


def operation_address(properties: object) -> str:
    """The address of the operation under way, or of the last one, which an endpoint's or deployment's properties name."""
    return text(mapping(mapping(properties).get("properties")).get("AzureAsyncOperationUri"))


def endpoint_path(name: str) -> str:
    """The path of an endpoint below its workspace."""
    return f"/onlineEndpoints/{quote(name, safe='')}"


def deployment_path(endpoint: str, name: str) -> str:
    """The path of a deployment below its workspace."""
    return f"{endpoint_path(endpoint)}/deployments/{quote(name, safe='')}"


def _pauses() -> Iterator[float]:
    """Seconds between looks: short at first, then five."""
    return itertools.chain((0.2, 0.5, 1.0, 2.0), itertools.repeat(5.0))


def _failed(operation: Operation | None, what: str) -> WorkspaceError:
    said = operation.error if operation else ""
    if "quota" in said.lower():
        return errors.quota(said, said)
    return Unexpected(
        f"{what[:1].upper()}{what[1:]} failed: {said or 'Azure gives no reason.'}", "Mend it, then try again."
    )
