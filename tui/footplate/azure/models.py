"""Registered models: all versions in one request for each model that has changed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.jobs import Jobs, output_addresses
from footplate.azure.lineage import Lineage
from footplate.azure.reading import created, items, mapping, parse_reference, tags, text
from footplate.azure.storage import Storage
from footplate.workspace.errors import NotFound, WorkspaceError
from footplate.workspace.serving import Model

_VERSION = "2023-08-01-preview"
_REGISTRY_VERSION = "2021-10-01-dataplanepreview"
_OF_REGISTRY = re.compile(
    r"azureml://registries/([^/\s]+)/models/([^/\s]+)(?:/versions/([^/\s]+)|/labels/latest|@latest)?", re.IGNORECASE
)
_AT_ONCE = 8
_METADATA_LIMIT = 1024 * 1024
_KEPT_SECONDS = 60.0
"""An archived version changes nothing in its model's own record, so the versions are asked for again after a while."""
_NAMED_OUTPUT = re.compile(
    r"azureml://(?:subscriptions/[^/]+/.*)?jobs/([^/]+)/outputs/([^/]+)(?:/paths/?(.*))?", re.IGNORECASE
)
_JOB_OF_OUTPUT = re.compile(r"ExperimentRun/dcid\.([\w-]+)|/jobs/([\w-]+)/outputs")


class Models:
    """The models of one workspace."""

    def __init__(self, client: Client, storage: Storage, jobs: Jobs) -> None:
        self._client = client
        self._jobs = jobs
        self._lineage = Lineage(jobs)
        self._storage = storage
        self._contents: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self._versions: dict[str, tuple[Any, float, Sequence[Model]]] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def list(self) -> Sequence[Model]:
        """All versions, newest first. A model whose record is unchanged is seldom asked for its versions again."""
        containers = await self._client.every("/models", _VERSION, "models", listViewType="ActiveOnly")
        named = [item for item in containers if text(mapping(item).get("name"))]
        found = await asyncio.gather(*(self._of(item) for item in named))
        return sorted((model for models in found for model in models), key=lambda model: model.created, reverse=True)

    async def model(self, reference: str) -> Model:
        """One version, the newest for a bare name, with its size, `model.json` and what it comes from; a registry's by its address.

        Raises NotFound, Invalid for no reference.
        """
        if found := _OF_REGISTRY.fullmatch(reference):
            return await self._of_registry(*found.groups())
        item, name = await self._item(reference)
        model = read_model(item, name)
        uri = text(mapping(mapping(item).get("properties")).get("modelUri"))
        if uri not in self._contents:  # a version's files never change
            with contextlib.suppress(WorkspaceError):  # the model is there all the same, with less said of it
                self._contents[uri] = await self._content(await self._lying_at(uri))
        size, metadata = self._contents.get(uri, (None, {}))
        return replace(model, size=size, metadata=metadata, lineage=await self._lineage.of(model.job, metadata))

    async def _of_registry(self, registry: str, name: str, version: str | None) -> Model:
        """A registry's model, which a deployment can name; its files are the registry's own."""
        path = f"/models/{quote(name, safe='')}/versions"
        what = f"model {name!r} of registry {registry!r}"
        if version is not None:
            item = await self._client.registry(registry, f"{path}/{quote(version, safe='')}", _REGISTRY_VERSION, what)
        else:
            newest = {"$orderBy": "createdtime desc", "$top": "1"}
            listed = items(
                mapping(await self._client.registry(registry, path, _REGISTRY_VERSION, what, **newest)).get("value")
            )
            if not listed:
                raise NotFound(f"There is no {what}.", "Look at the registry in the studio.")
            item = listed[0]
        return replace(read_model(item, name), registry=registry, job=None)

    async def address(self, reference: str) -> str:
        """The `azureml://` address of a version's files. Raises NotFound, Invalid for no reference."""
        item, _ = await self._item(reference)
        return await self._lying_at(text(mapping(mapping(item).get("properties")).get("modelUri")))

    async def _lying_at(self, uri: str) -> str:
        """Where the files lie of an address that names a job's output: the job's record says it."""
        found = _NAMED_OUTPUT.fullmatch(uri)
        if found is None or found[2] in ("artifacts", "default"):
            return uri
        _, place = output_addresses(await self._jobs.record(found[1])).get(found[2], ("", ""))
        return f"{place.rstrip('/')}/{found[3]}".rstrip("/") if place else uri

    async def _content(self, uri: str) -> tuple[int, Mapping[str, Any]]:
        """Bytes of a model's files, and its `model.json`, where it has one that is a JSON object."""
        files = await self._storage.files(uri)
        size = sum(file.size for file in files)
        if not any(file.path == "model.json" and file.size <= _METADATA_LIMIT for file in files):
            return size, {}
        body = await self._storage.read(f"{uri.rstrip('/')}/model.json", _METADATA_LIMIT)
        try:
            return size, mapping(json.loads(body))
        except (ValueError, RecursionError):
            return size, {}

    async def _item(self, reference: str) -> tuple[Any, str]:
        if not reference or reference.startswith("azureml://"):  # as a deployment names a model of a registry, or none
            raise NotFound(
                f"The model {reference!r} lies outside the workspace.",
                "Name a registry's as azureml://registries/REGISTRY/models/NAME/versions/VERSION.",
            )
        name, version = parse_reference(reference, "model")
        what, path = f"model {reference!r}", f"/models/{quote(name, safe='')}/versions"
        if version is not None:
            return await self._client.get(f"{path}/{quote(version, safe='')}", _VERSION, what), name
        newest = {"$orderBy": "createdtime desc", "$top": "1"}
        async for page in self._client.pages(path, _VERSION, what, **newest):
            if page:
                return page[0], name
        raise NotFound(f"There is no {what} in the workspace.", "The list of models has the names.")

    async def _of(self, container: Any) -> Sequence[Model]:
        name, properties = text(container["name"]), mapping(container.get("properties"))
        stamp = (properties.get("latestVersion"), properties.get("nextVersion"), container.get("systemData"))
        known = self._versions.get(name)
        if known is not None and known[0] == stamp and time.monotonic() < known[1]:
            return known[2]
        async with self._limit:
            path = f"/models/{quote(name, safe='')}/versions"
            versions = await self._client.every(path, _VERSION, f"model {name!r}", listViewType="ActiveOnly")
        models = [read_model(item, name) for item in versions if text(mapping(item).get("name"))]
        self._versions[name] = (stamp, time.monotonic() + _KEPT_SECONDS, models)
        return models


def read_model(item: Any, name: str) -> Model:
    """One version of model `name` from its JSON."""
    properties = mapping(mapping(item).get("properties"))
    found = _JOB_OF_OUTPUT.search(text(properties.get("modelUri")))
    return Model(
        name=name,
        version=text(mapping(item).get("name")),
        type=text(properties.get("modelType")) or "custom_model",
        created=created(mapping(item)),
        job=text(properties.get("jobName")) or (found and (found[1] or found[2])) or None,
        description=text(properties.get("description")),
        tags=tags(properties.get("tags")),
    )
