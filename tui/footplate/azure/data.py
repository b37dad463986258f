"""What jobs name besides code: data assets, environments, datastores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.reading import mapping, parse_reference, text
from footplate.workspace.model import DataAsset, Datastore, Environment

_VERSION = "2023-04-01-preview"
_DATASTORE_VERSION = "2024-10-01-preview"
_HOSTS = {
    "AzureBlob": ("blob", "containerName"),
    "AzureFile": ("file", "fileShareName"),
    "AzureDataLakeGen2": ("dfs", "filesystem"),
}
"""By the kind of a datastore: its host's second part, and the member that names its folder."""


class Data:
    """The data assets, environments and datastores of one workspace."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def assets(self) -> Sequence[DataAsset]:
        """The newest version of each data asset, as a job file names it, in one request a page."""
        listed = await self._client.every("/data", _VERSION, "data assets", listViewType="ActiveOnly")
        return [read_asset(item) for item in listed if text(mapping(item).get("name"))]

    async def check(self, reference: str) -> None:
        """Nothing, if there is such a data asset. Raises NotFound, and Invalid for no reference."""
        name, version = parse_reference(reference, "data asset")
        path = f"/data/{quote(name, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")
        await self._client.get(path, _VERSION, f"data asset {reference!r}")

    async def environments(self) -> Sequence[Environment]:
        """The newest version of each environment."""
        listed = await self._client.every("/environments", _VERSION, "environments", listViewType="ActiveOnly")
        named = [(item, name) for item in listed if (name := text(mapping(item).get("name")))]
        return sorted((read_environment(item, name) for item, name in named), key=lambda one: one.name.lower())

    async def datastores(self) -> Sequence[Datastore]:
        """All datastores, the default one first."""
        listed = await self._client.every("/datastores", _DATASTORE_VERSION, "datastores")
        found = [read_datastore(item, self._client.cloud.storage_endpoint) for item in listed]
        return sorted((store for store in found if store.name), key=lambda store: (not store.is_default, store.name))


def read_asset(container: Any) -> DataAsset:
    """A data asset by its own record, which tells the newest version and no address."""
    properties = mapping(mapping(container).get("properties"))
    name, version = text(mapping(container).get("name")), text(properties.get("latestVersion"))
    return DataAsset(
        name=name,
        version=version,
        type=text(properties.get("dataType")) or "uri_folder",
        path=f"azureml:{name}:{version}" if version else f"azureml:{name}@latest",
        description=text(properties.get("description")),
    )


def read_environment(item: Any, name: str) -> Environment:
    """An environment's version, or its own record with the newest version; a curated one tells no image."""
    properties = mapping(mapping(item).get("properties"))
    return Environment(
        name=name,
        version=text(properties.get("latestVersion")) or text(mapping(item).get("name")),
        image=text(properties.get("image")),
        description=text(properties.get("description")),
    )


def read_datastore(item: Any, storage_endpoint: str) -> Datastore:
    """A datastore from its JSON; its address only where it lies in an account of Azure's storage, and never a secret."""
    properties = mapping(mapping(item).get("properties"))
    kind, account = text(properties.get("datastoreType")), text(properties.get("accountName"))
    host, folder = _HOSTS.get(kind, ("", ""))
    ending, container = text(properties.get("endpoint")) or storage_endpoint, text(properties.get(folder))
    return Datastore(
        name=text(mapping(item).get("name")),
        type=kind,
        location=f"https://{account}.{host}.{ending}/{container}" if account and container else "",
        is_default=properties.get("isDefault") is True,
    )
