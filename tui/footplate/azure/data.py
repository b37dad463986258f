"""What jobs name besides code: data assets, environments, datastores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.reading import mapping, parse_reference, tags, text
from footplate.workspace.model import DataAsset

_VERSION = "2023-04-01-preview"
_DATASTORE_VERSION = "2024-10-01-preview"


@dataclass(frozen=True)
class Environment:
    """A registered environment; a curated one tells no image."""

    name: str
    version: str
    kind: str
    image: str
    os: str
    description: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Datastore:
    """A store that data lies in; no secret is part of it."""

    name: str
    type: str
    account: str
    container: str
    default: bool


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
        return [read_environment(item, text(mapping(item).get("name"))) for item in listed]

    async def datastores(self) -> Sequence[Datastore]:
        """All datastores."""
        return [
            read_datastore(item) for item in await self._client.every("/datastores", _DATASTORE_VERSION, "datastores")
        ]


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
    """An environment's version, or its own record with the newest version."""
    properties = mapping(mapping(item).get("properties"))
    version = text(properties.get("latestVersion")) or text(mapping(item).get("name"))
    return Environment(
        name=name,
        version=version,
        kind=text(properties.get("environmentType")),
        image=text(properties.get("image")),
        os=text(properties.get("osType")),
        description=text(properties.get("description")),
        tags=tags(properties.get("tags")),
    )


def read_datastore(item: Any) -> Datastore:
    """A datastore from its JSON."""
    properties = mapping(mapping(item).get("properties"))
    return Datastore(
        name=text(mapping(item).get("name")),
        type=text(properties.get("datastoreType")),
        account=text(properties.get("accountName")),
        container=text(properties.get("containerName")) or text(properties.get("fileShareName")),
        default=properties.get("isDefault") is True,
    )
