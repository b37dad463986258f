"""Make, change and delete clusters, and wait until that is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from footplate.workspace import Cluster, ClusterSpec, Conflict, NotFound, QuotaExceeded, Workspace, WorkspaceError

CHANGING = frozenset({"Creating", "Updating", "Deleting"})
"""States in which a cluster is being changed; any other stays until somebody acts. Resizing nodes is its daily work."""


class ClusterFailed(WorkspaceError):
    """The cluster was asked for, and came to a bad end."""


async def ensure(workspace: Workspace, spec: ClusterSpec) -> tuple[Cluster, bool]:
    """Make a cluster, or reuse one of that name and size, as Microsoft's tutorial does; True where it was made.

    Of one that is reused nothing is changed. Returns at once: `settled` waits. Raises Conflict for one of another size, and
    what `create_cluster` raises.
    """
    try:
        found = await workspace.cluster(spec.name)
    except NotFound:
        try:
            return await workspace.create_cluster(spec), True
        except Conflict:
            found = await workspace.cluster(spec.name)  # made by somebody else meanwhile
    if found.size.lower() != spec.size.lower():
        raise Conflict(
            f"There is a cluster {spec.name!r} already, of size {found.size}, not {spec.size}.",
            "Use another name, or delete it first: a cluster's size cannot be changed.",
        )
    return found, False


async def settled(workspace: Workspace, name: str, seen: Callable[[Cluster], None] = lambda _: None) -> Cluster:
    """Wait until a cluster is made or changed; `seen` gets it at each look. Raises NotFound, QuotaExceeded, ClusterFailed."""
    while True:
        cluster = await workspace.cluster(name)
        seen(cluster)
        if cluster.state == "Failed":
            kind = QuotaExceeded if "quota" in cluster.error.lower() else ClusterFailed  # told only after it was taken
            raise kind(
                f"Cluster {name!r} failed: {cluster.error or 'no reason is given.'}", "Delete it, then make it again."
            )
        if cluster.state not in CHANGING:
            return cluster
        await asyncio.sleep(workspace.poll_seconds)


async def delete(workspace: Workspace, name: str, *, wait: bool = True) -> None:
    """Delete a cluster and wait until it is gone. Raises NotFound, Conflict, and ClusterFailed where it stays."""
    await workspace.delete_cluster(name)
    while wait:
        try:
            cluster = await workspace.cluster(name)
        except NotFound:
            return
        if cluster.state not in CHANGING:
            raise ClusterFailed(
                f"Cluster {name!r} is there still ({cluster.state}), though it was asked to go. {cluster.error}".rstrip(),
                "Look at it, then try again.",
            )
        await asyncio.sleep(workspace.poll_seconds)
