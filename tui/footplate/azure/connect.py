"""The way to a workspace that is not named yet: sign in, and list what the account sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import quote

from footplate.azure import clouds
from footplate.azure.by_code import sign_in_by_code
from footplate.azure.place import Place
from footplate.azure.reading import mapping, text
from footplate.settings import AzureSettings, Settings
from footplate.workspace.account import FoundWorkspace
from footplate.workspace.errors import NotSignedIn, WorkspaceError
from footplate.workspace.model import DeviceCode

if TYPE_CHECKING:
    from footplate.azure.client import Client

_SUBSCRIPTIONS, _WORKSPACES = "2022-12-01", "2024-10-01-preview"
_AT_ONCE = 8
_OF_THE_ACCOUNT = (
    *("tenant_id", "cloud", "resource_manager", "active_directory", "aml_resource_id", "storage_endpoint"),
    *("ca_file", "token_env", "token_cache"),
)


class AzureAccount:
    """An account of Azure; its libraries are loaded, in a thread, when it is first asked."""

    def __init__(self, name: str, settings: Settings) -> None:
        """Read the table of the settings, where there is one. Raises Invalid where it is faulty."""
        known = settings.workspaces.get(name, {}).get("kind") == "azure"
        self._settings = settings.azure(name) if known else AzureSettings()
        self._cloud = clouds.find(self._settings, name, settings.file.parent)
        self._client: Client | None = None
        self.name = "Azure" if self._cloud.name == "AzureCloud" else self._cloud.name
        self.faults: list[str] = []

    @property
    def signed_in_by(self) -> str:
        """Which sign-in gives the tokens, once one did."""
        return self._client.credential.name if self._client and self._client.credential.gave else ""

    async def _connected(self) -> Client:
        if self._client is None:
            made = await asyncio.to_thread(_make_client, self._cloud, self._settings)
            self._client = self._client or made
        return self._client

    async def sign_in(self, show: Callable[[DeviceCode], None]) -> None:
        """Sign in by device code; from then on this sign-in gives all tokens. Raises NotSignedIn."""
        client = await self._connected()
        await sign_in_by_code(client.credential, self._cloud, self._settings, show)

    async def workspaces(self) -> AsyncIterator[Sequence[FoundWorkspace]]:
        """The workspaces of each subscription, as they come; of one that refuses, the reason is in `faults`.

        Raises NotSignedIn, and what the list of subscriptions raises.
        """
        client = await self._connected()
        self.faults = []
        limit = asyncio.Semaphore(_AT_ONCE)

        async def within(subscription: Mapping[str, str]) -> Sequence[FoundWorkspace]:
            async with limit:
                return await self._within(client, subscription)

        tasks = [asyncio.create_task(within(one)) for one in await self._subscriptions(client)]
        try:
            for task in asyncio.as_completed(tasks):
                if found := await task:
                    yield found
        finally:
            for unfinished in tasks:
                unfinished.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _subscriptions(self, client: Client) -> Sequence[Mapping[str, str]]:
        table = self._settings
        complete = table.subscription_id and table.resource_group and table.workspace_name
        wanted = "" if complete else table.subscription_id.lower()
        found = []
        async for page in client.root_pages("/subscriptions", _SUBSCRIPTIONS, "subscriptions"):
            for item in map(mapping, page):
                identity = text(item.get("subscriptionId"))
                if identity and wanted in ("", identity.lower()):
                    found.append({"id": identity, "name": text(item.get("displayName")) or identity})
        return found

    async def _within(self, client: Client, subscription: Mapping[str, str]) -> Sequence[FoundWorkspace]:
        path = f"/subscriptions/{quote(subscription['id'], safe='')}/providers/Microsoft.MachineLearningServices/workspaces"
        found: list[FoundWorkspace] = []
        try:
            async for page in client.root_pages(path, _WORKSPACES, f"the workspaces of {subscription['name']}"):
                found += [one for item in page if (one := _read(item, subscription["name"])) is not None]
        except NotSignedIn:
            raise
        except WorkspaceError as error:  # of one subscription: the others may be open
            self.faults.append(error.sentence)
        return found

    def table(self, found: FoundWorkspace) -> Mapping[str, str | bool]:
        """Its address, and what else this account needed."""
        given, usual = asdict(self._settings), asdict(AzureSettings())
        return {
            "kind": "azure",
            "subscription_id": found.subscription_id,
            "resource_group": found.resource_group,
            "workspace_name": found.name,
            **{key: given[key] for key in _OF_THE_ACCOUNT if given[key] != usual[key]},
        }

    async def close(self, *, leave_sign_in: bool = False) -> None:
        """Let go of connections; the sign-in can be left for the workspace that is opened next."""
        if self._client is None:
            return
        if leave_sign_in:
            from footplate.azure.sign_in import leave  # loaded by now

            leave(self._cloud, self._settings.tenant_id, self._settings.token_env, self._client.credential)
        await self._client.close(keep_sign_in=leave_sign_in)


def _read(item: object, subscription: str) -> FoundWorkspace | None:
    """A workspace by its ARM id; None for what has none."""
    record = mapping(item)
    parts = text(record.get("id")).split("/")
    if len(parts) < 9:
        return None
    return FoundWorkspace(parts[8], parts[4], parts[2], subscription, text(record.get("location")))


def _make_client(cloud: clouds.Cloud, settings: AzureSettings) -> Client:
    from footplate.azure.client import Client  # loads Azure's libraries
    from footplate.azure.parts import quieten
    from footplate.azure.sign_in import credential_of

    quieten()
    credential = credential_of(cloud, settings.tenant_id, settings.token_env, settings.token_cache)
    return Client(cloud, Place("", "", "", "nothing yet"), credential)
