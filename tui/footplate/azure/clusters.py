"""Compute targets: clusters with their nodes, compute instances, attached Kubernetes; sizes and quota of the region."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from footplate.azure.client import Client
from footplate.azure.masking import mask
from footplate.azure.reading import count, duration, items, last_name, mapping, seconds, text
from footplate.workspace.compute import Cluster, ClusterSpec, Node, Quota, Size
from footplate.workspace.errors import Conflict, Invalid, NotAllowed, NotFound, WorkspaceError
from footplate.workspace.model import ACTIVE_STATUSES
from footplate.workspace.names import TIERS, as_tier, check_cluster_name

_VERSION = "2023-08-01-preview"
_REGION_VERSION = "2023-04-01-preview"
_JOBS_VERSION = "2024-01-01-preview"
_CHANGING = ("Creating", "Updating", "Deleting")


class Clusters:
    """The compute targets of one workspace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sizes: dict[str, Sequence[Size]] = {}

    async def list(self) -> Sequence[Cluster]:
        """All compute targets, by name."""
        listed = await self._client.every("/computes", _VERSION, "clusters")
        named = [item for item in listed if text(mapping(item).get("name"))]
        sizes = {place: await self._known_sizes(place) for place in {_place(item) for item in named}}
        clusters = [read_cluster(item, sizes[_place(item)]) for item in named]
        return sorted(clusters, key=lambda cluster: cluster.name)

    async def cluster(self, name: str) -> Cluster:
        """One compute target. Raises NotFound."""
        record = await self.record(name)
        return read_cluster(record, await self._known_sizes(_place(record)))

    async def record(self, name: str) -> Mapping[str, Any]:
        """A target's own JSON. Raises NotFound."""
        return mapping(await self._client.get(_path(name), _VERSION, f"cluster {name!r}"))

    # What there can be

    async def sizes(self) -> Sequence[Size]:
        """The sizes of the workspace's region that a cluster can have, by name."""
        place = await self._client.location()
        answer = mapping(
            await self._client.subscription(_region(place, "vmSizes"), _REGION_VERSION, f"sizes of {place}")
        )
        listed = [item for item in items(answer.get("value")) or items(answer.get("amlCompute")) if _for_clusters(item)]
        return sorted(read_sizes({"value": listed}), key=lambda size: size.name)

    async def quota(self) -> Sequence[Quota]:
        """Cores of each family in the workspace's region; those that are used first, and low priority apart."""
        place = await self._client.location()
        answer = await self._client.subscription(_region(place, "usages"), _REGION_VERSION, f"quota of {place}")
        return read_quota(answer)

    async def _known_sizes(self, location: str) -> Sequence[Size]:
        """The sizes of a region, asked for once; none where they may not be read, which hides no cluster."""
        if location not in self._sizes:
            try:
                answer = await self._client.subscription(
                    _region(location, "vmSizes"), _REGION_VERSION, f"the sizes of {location}"
                )
            except (NotAllowed, NotFound, Invalid):
                self._sizes[location] = ()
            except WorkspaceError:
                return ()  # this time
            else:
                self._sizes[location] = read_sizes(answer)
        return self._sizes[location]

    # Nodes

    async def nodes(self, name: str) -> Sequence[Node]:
        """The nodes that are there now, with the job on each. Raises NotFound, Invalid for a target that is no cluster."""
        record = await self.record(name)
        kind = _kind(record)
        if kind != "AmlCompute":
            raise Invalid(
                f"{name!r} is no cluster but a {kind} target, which tells of no nodes.", "Look at it in the studio."
            )
        found: list[Node] = []
        pages = self._client.pages(
            f"{_path(name)}/listNodes", _VERSION, f"nodes of cluster {name!r}", first="POST", member="nodes"
        )
        async for page in pages:
            found += [node for item in page if (node := read_node(item)).name]
        return found

    # Changes

    async def check_spec(self, spec: ClusterSpec) -> str:
        """The tier of a cluster that may be asked for, as the SDK spells it. Raises Invalid, Conflict for a taken name."""
        check_cluster_name(spec.name)
        tier = as_tier(spec.tier)
        _check_counts(spec.min_nodes, spec.max_nodes, spec.idle_seconds)
        _check_size(spec.size, tier, await self._known_sizes(await self._client.location()))
        try:
            there = await self.cluster(spec.name)
        except NotFound:
            return "low_priority" if tier == "LowPriority" else "dedicated"
        raise Conflict(
            f"There is already a target {spec.name!r} ({there.type}, {there.size or 'no size told'}, {there.state}).",
            "Use it as it is, or take another name.",
        )

    async def update(
        self, name: str, min_nodes: int | None, max_nodes: int | None, idle_seconds: int | None
    ) -> Cluster:
        """Change what is given, by the request that the SDK's `compute.begin_update` sends: all that can be set, as it is.

        Raises NotFound, Invalid, Conflict while it is being changed, QuotaExceeded.
        """
        record = await self.record(name)
        kind, cluster = _kind(record), read_cluster(record, ())
        if kind != "AmlCompute":
            raise Invalid(
                f"{name!r} is no cluster but a {kind} target, which has no nodes to set.", "Look at it in the studio."
            )
        if cluster.state in _CHANGING:
            raise Conflict(f"Cluster {name!r} is {cluster.state} just now.", "Try again when that is done.")
        low = cluster.min_nodes if min_nodes is None else min_nodes
        high = cluster.max_nodes if max_nodes is None else max_nodes
        idle = cluster.idle_seconds if idle_seconds is None else idle_seconds
        _check_counts(low, high, idle)
        scale = {"maxNodeCount": high, "minNodeCount": low, "nodeIdleTimeBeforeScaleDown": duration(idle)}
        answer = await self._client.put(_path(name), _VERSION, f"cluster {name!r}", changed_body(record, scale))
        return read_cluster(answer or record, await self._known_sizes(_place(record)))

    async def delete(self, name: str) -> None:
        """Ask for a target's end; an attached one is detached, and goes on elsewhere.

        Raises NotFound, Conflict while jobs hold its nodes or, of the newest hundred, wait for them.
        """
        record = await self.record(name)
        cluster = read_cluster(record, ())
        if cluster.state == "Deleting":
            return
        if holders := [job async for job in self._holders(name)]:
            shown = ", ".join(holders[:3]) + (f" and {len(holders) - 3} more" if len(holders) > 3 else "")
            raise Conflict(f"Cluster {name!r} is in use by {shown}.", "Wait for their end, or cancel them.")
        if cluster.busy_nodes:
            nodes = "1 node runs a job" if cluster.busy_nodes == 1 else f"{cluster.busy_nodes} nodes run jobs"
            raise Conflict(f"Of cluster {name!r} {nodes}.", "Wait for their end, or cancel them.")
        attached = _kind(record) == "Kubernetes" or mapping(record.get("properties")).get("isAttachedCompute") is True
        action = "Detach" if attached else "Delete"
        await self._client.delete(_path(name), _VERSION, f"cluster {name!r}", underlyingResourceAction=action)

    async def _holders(self, name: str) -> AsyncIterator[str]:
        """The jobs of the newest page that go on, on this target."""
        async for page in self._client.pages("/jobs", _JOBS_VERSION, "jobs", listViewType="All"):
            for item in map(mapping, page):
                properties = mapping(item.get("properties"))
                if properties.get("status") in ACTIVE_STATUSES and name in _targets(properties):
                    yield text(item.get("name"))
            return


def changed_body(record: Mapping[str, Any], scale: Mapping[str, Any]) -> dict[str, Any]:
    """What `compute.begin_update` of azure-ai-ml sends for a cluster that was read, with other scale settings."""
    compute = mapping(record.get("properties"))
    inner = mapping(compute.get("properties"))
    account = mapping(inner.get("userAccountCredentials"))
    subnet = mapping(inner.get("subnet")).get("id")
    login = inner.get("remoteLoginPortPublicAccess") == "Enabled"
    public = inner.get("enableNodePublicIp")
    identity = mapping(record.get("identity"))
    body = {
        "location": compute.get("computeLocation") or record.get("location"),
        "tags": record.get("tags") or None,
        "identity": _present(
            type=identity.get("type"),
            userAssignedIdentities={key: {} for key in mapping(identity.get("userAssignedIdentities"))} or None,
        )
        or None,
        "properties": _present(
            computeType="AmlCompute",
            description=compute.get("description"),
            disableLocalAuth=not account,
            properties=_present(
                osType="Linux",
                vmSize=inner.get("vmSize"),
                vmPriority=inner.get("vmPriority"),
                userAccountCredentials=_present(**account) or None,
                scaleSettings=dict(scale),
                subnet={"id": subnet} if subnet else None,
                remoteLoginPortPublicAccess="Enabled" if login else "Disabled",
                enableNodePublicIp=True if public is None else public,
            ),
        ),
    }
    return _present(**body)


def _present(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _check_counts(low: int, high: int, idle_seconds: int) -> None:
    if low < 0 or high < 1 or low > high:
        raise Invalid(
            f"A cluster cannot have {low} to {high} nodes.",
            "Have at least 1 at most, and no more at least than at most.",
        )
    if idle_seconds < 0:
        raise Invalid(f"A node cannot idle for {idle_seconds} seconds.", "Give seconds from 0.")


def _check_size(name: str, tier: str, sizes: Sequence[Size]) -> None:
    """Refuse what the region's list does not have; where there is no list, the service decides."""
    known = {size.name.lower(): size for size in sizes}
    found = known.get(name.lower())
    if known and found is None:
        near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
        hint = f"Did you mean {known[near[0]].name}?" if near else "The list of sizes has the names."
        raise Invalid(f"The region has no size {name!r}.", hint)
    if tier == "LowPriority" and found is not None and not found.low_priority:
        raise Invalid(f"Size {found.name} cannot be had at low priority.", "Use the tier Dedicated, or another size.")


def _targets(properties: Mapping[str, Any]) -> Iterator[str]:
    """The targets that a job runs on, a pipeline's steps with it."""
    yield last_name(properties.get("computeId"))
    settings = mapping(properties.get("settings"))
    yield last_name(settings.get("default_compute") or settings.get("defaultCompute"))
    for step in mapping(properties.get("jobs")).values():
        yield last_name(mapping(step).get("computeId"))


def _path(name: str) -> str:
    return f"/computes/{quote(name, safe='')}"


def _region(location: str, what: str) -> str:
    return f"/providers/Microsoft.MachineLearningServices/locations/{quote(location, safe='')}/{what}"


def _place(item: Mapping[str, Any]) -> str:
    """The region of a compute target."""
    return text(mapping(item.get("properties")).get("computeLocation")) or text(item.get("location"))


def _kind(record: Mapping[str, Any]) -> str:
    return text(mapping(record.get("properties")).get("computeType"))


def _for_clusters(item: Any) -> bool:
    """Whether clusters can have a size; one that says nothing of it can."""
    kinds = items(mapping(item).get("supportedComputeTypes"))
    return not kinds or "amlcompute" in (text(kind).lower() for kind in kinds)


def read_sizes(answer: Any) -> Sequence[Size]:
    """The sizes of a region."""
    document = mapping(answer)
    listed = map(mapping, items(document.get("value")) or items(document.get("amlCompute")))
    return [
        Size(
            name=text(size.get("name")),
            cores=count(size.get("vCPUs")),
            gpus=count(size.get("gpus")),
            memory_gb=_gigabytes(size.get("memoryGB")),
            family=text(size.get("family")),
            low_priority=size.get("lowPriorityCapable") is not False,
        )
        for size in listed
        if text(size.get("name"))
    ]


def _gigabytes(value: Any) -> float | None:
    told = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    return float(value) if told else None


def read_quota(answer: Any) -> Sequence[Quota]:
    """The families of a region's usages; what single workspaces are given of them is left out. A limit below 0 is none."""
    found = []
    for row in map(mapping, items(mapping(answer).get("value"))):
        name = mapping(row.get("name"))
        family = text(name.get("value")) or text(name.get("localizedValue"))
        if not family or "/workspaces/" in text(row.get("id")).lower():
            continue
        limit = row.get("limit")
        low = "lowpriority" in f"{text(row.get('type'))} {family}".lower().replace(" ", "")
        told = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0
        found.append(Quota(family, count(row.get("currentValue")), limit if told else None, low))
    return sorted(found, key=lambda quota: (-quota.used, quota.family.lower()))


def read_node(item: Any) -> Node:
    """A node from its JSON, with the address that `ssh` takes where it has one."""
    node = mapping(item)
    host, port = text(node.get("publicIpAddress")) or text(node.get("privateIpAddress")), count(node.get("port"))
    return Node(
        name=text(node.get("nodeId")),
        state=text(node.get("nodeState")) or "unknown",
        job=text(node.get("runId")) or None,
        address=f"{host}:{port}" if host and port else host,
        error=mask("; ".join(_said(items(node.get("errors")) or [node.get("error")]))),
    )


def read_cluster(item: Any, sizes: Sequence[Size]) -> Cluster:
    """A compute target of any kind from its JSON; a new cluster has null for every count."""
    compute = mapping(mapping(item).get("properties"))
    inner = mapping(compute.get("properties"))
    scale = mapping(inner.get("scaleSettings"))
    kind = text(compute.get("computeType"))
    single = kind in ("ComputeInstance", "VirtualMachine")
    size = text(inner.get("vmSize"))
    known = next((one for one in sizes if one.name.lower() == size.lower()), Size(size, 0))
    return Cluster(
        name=text(mapping(item).get("name")),
        type=kind,
        size=size,
        state=_state(compute, inner),
        min_nodes=1 if single else count(scale.get("minNodeCount")),
        max_nodes=1 if single else count(scale.get("maxNodeCount")),
        busy_nodes=count(mapping(inner.get("nodeStateCounts")).get("runningNodeCount")),
        cores_per_node=known.cores,
        gpus_per_node=known.gpus,
        idle_seconds=seconds(scale.get("nodeIdleTimeBeforeScaleDown")),
        tier=TIERS.get(text(inner.get("vmPriority")).lower(), text(inner.get("vmPriority")) or "Dedicated"),
        error=mask("; ".join(_said((*items(compute.get("provisioningErrors")), *items(inner.get("errors")))))),
    )


def _state(compute: Mapping[str, Any], inner: Mapping[str, Any]) -> str:
    """How it was made while that is news, then what it does: a cluster's allocation, an instance's state."""
    made = text(compute.get("provisioningState"))
    if made != "Succeeded":
        return made or "Unknown"
    return text(inner.get("allocationState")) or text(inner.get("state")) or made


def _said(errors: Sequence[Any]) -> Sequence[str]:
    """What errors say, each once."""
    found = []
    for entry in errors:
        error = mapping(mapping(entry).get("error")) or mapping(entry)
        if said := text(error.get("message")) or text(error.get("code")):
            found.append(" ".join(said.split()))
    return list(dict.fromkeys(found))
