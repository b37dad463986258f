"""Compute targets: clusters with their nodes, compute instances, attached Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.masking import mask
from footplate.azure.reading import count, items, mapping, seconds, text
from footplate.workspace.errors import Invalid, NotAllowed, NotFound, WorkspaceError
from footplate.workspace.model import Cluster

_VERSION = "2023-08-01-preview"
_SIZES_VERSION = "2023-04-01-preview"
_TIERS = {"lowpriority": "LowPriority", "dedicated": "Dedicated"}


class Clusters:
    """The compute targets of one workspace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sizes: dict[str, Mapping[str, tuple[int, int]]] = {}

    async def list(self) -> Sequence[Cluster]:
        """All compute targets, by name."""
        listed = await self._client.every("/computes", _VERSION, "clusters")
        named = [item for item in listed if text(mapping(item).get("name"))]
        sizes = {place: await self._known_sizes(place) for place in {_place(item) for item in named}}
        clusters = [read_cluster(item, sizes[_place(item)]) for item in named]
        return sorted(clusters, key=lambda cluster: cluster.name)

    async def _known_sizes(self, location: str) -> Mapping[str, tuple[int, int]]:
        """Cores and GPUs of each size of a region, asked once; none where they may not be read, which hides no cluster."""
        if location not in self._sizes:
            path = f"/providers/Microsoft.MachineLearningServices/locations/{quote(location, safe='')}/vmSizes"
            try:
                answer = await self._client.subscription(path, _SIZES_VERSION, f"the sizes of {location}")
            except (NotAllowed, NotFound, Invalid):
                self._sizes[location] = {}
            except WorkspaceError:
                return {}  # this time
            else:
                self._sizes[location] = read_sizes(answer)
        return self._sizes[location]


def _place(item: Mapping[str, Any]) -> str:
    """The region of a compute target."""
    return text(mapping(item.get("properties")).get("computeLocation")) or text(item.get("location"))


def read_sizes(answer: Any) -> Mapping[str, tuple[int, int]]:
    """Cores and GPUs by the size's name in small letters."""
    document = mapping(answer)
    listed = map(mapping, items(document.get("value")) or items(document.get("amlCompute")))
    return {text(size.get("name")).lower(): (count(size.get("vCPUs")), count(size.get("gpus"))) for size in listed}


def read_cluster(item: Any, sizes: Mapping[str, tuple[int, int]]) -> Cluster:
    """A compute target of any kind from its JSON; a new cluster has null for every count."""
    compute = mapping(mapping(item).get("properties"))
    inner = mapping(compute.get("properties"))
    scale = mapping(inner.get("scaleSettings"))
    kind = text(compute.get("computeType"))
    single = kind in ("ComputeInstance", "VirtualMachine")
    size = text(inner.get("vmSize"))
    cores, gpus = sizes.get(size.lower(), (0, 0))
    return Cluster(
        name=text(mapping(item).get("name")),
        type=kind,
        size=size,
        state=_state(compute, inner),
        min_nodes=1 if single else count(scale.get("minNodeCount")),
        max_nodes=1 if single else count(scale.get("maxNodeCount")),
        busy_nodes=count(mapping(inner.get("nodeStateCounts")).get("runningNodeCount")),
        cores_per_node=cores,
        gpus_per_node=gpus,
        idle_seconds=seconds(scale.get("nodeIdleTimeBeforeScaleDown")),
        tier=_TIERS.get(text(inner.get("vmPriority")).lower(), text(inner.get("vmPriority")) or "Dedicated"),
        error=mask("; ".join(_errors(compute, inner))),
    )


def _state(compute: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """How it was made while that is news, then what it does: a cluster's allocation, an instance's state."""
    made = text(compute.get("provisioningState"))
    if made != "Succeeded":
        return made or "Unknown"
    return text(inner.get("allocationState")) or text(inner.get("state")) or made


def _errors(compute: Mapping[str, Any], inner: Mapping[str, Any]) -> Sequence[str]:
    found = []
    for entry in (*items(compute.get("provisioningErrors")), *items(inner.get("errors"))):
        error = mapping(mapping(entry).get("error")) or mapping(entry)
        if said := text(error.get("message")) or text(error.get("code")):
            found.append(" ".join(said.split()))
    return list(dict.fromkeys(found))
