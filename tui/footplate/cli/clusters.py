"""The commands on clusters: clusters, cluster, quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from footplate import words
from footplate.cli import names
from footplate.cli.frame import Frame, columned, common, fielded
from footplate.operations import clusters as operations
from footplate.workspace import Cluster, ClusterSpec, Invalid, Node, Workspace
from footplate.workspace.names import as_tier


@click.command("clusters")
@common
@click.pass_obj
def clusters_command(frame: Frame) -> None:
    """List clusters."""
    found = frame.run(lambda workspace: workspace.clusters())
    frame.table(
        [cluster.document() for cluster in found],
        ("CLUSTER", "TYPE", "SIZE", "STATE", "NODES", "BUSY", "QUEUED", "ERROR"),
        [
            (
                c.name,
                c.type,
                c.size,
                c.state,
                f"{c.min_nodes}–{c.max_nodes}",
                str(c.busy_nodes),
                words.count(c.queued_jobs),
                c.error,
            )
            for c in found
        ],
        "No clusters.",
    )


@click.group("cluster")
def cluster_group() -> None:
    """Create, show, update or delete one cluster; the sizes there are."""


def _counts(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that both create and update have, spelled as `az ml compute` does."""
    at_least_0 = click.IntRange(0)
    for option in (
        click.option("--no-wait", is_flag=True, help="Do not wait until it is done."),
        click.option("--idle-time-before-scale-down", "idle", type=at_least_0, metavar="SECONDS"),
        click.option("--max-instances", "most", type=at_least_0, metavar="N", help="Nodes at most."),
        click.option("--min-instances", "least", type=at_least_0, metavar="N", help="Nodes that are always there."),
    ):
        command = option(command)
    return command


@cluster_group.command("create")
@click.argument("name")
@click.option("--size", metavar="SIZE", default="", help="As footplate cluster sizes lists them; always needed.")
@_counts
@click.option("--tier", metavar="TIER", default="dedicated", show_default=True, help="dedicated or low_priority.")
@common
@click.pass_obj
def create_command(
    frame: Frame, name: str, size: str, least: int | None, most: int | None, idle: int | None, tier: str, no_wait: bool
) -> None:
    """Create a cluster; one of that name and size that is there is reused as it is.

    One of another size is a conflict (exit code 1). Without counts it has 0 to 4 nodes, and an idle node goes after 120 seconds.
    """
    if not size:
        raise Invalid("A cluster has a size: none is given.", "Give --size SIZE; footplate cluster sizes lists them.")
    given = {"min_nodes": least, "max_nodes": most, "idle_seconds": idle}
    counts: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    spec = ClusterSpec(name, size, tier=as_tier(tier), **counts)

    async def work(workspace: Workspace) -> tuple[Cluster, bool]:
        cluster, made = await operations.ensure(workspace, spec)
        return (cluster if no_wait else await _settled(frame, workspace, cluster)), made

    cluster, made = frame.run(work)
    said = _line(cluster)
    if not made:
        said = f"{name} is there already and is reused as it is. {said}"
    frame.result(cluster.document(), said)


@cluster_group.command("show")
@click.argument("name", shell_complete=names.clusters)
@common
@click.pass_obj
def show_command(frame: Frame, name: str) -> None:
    """Show a cluster, its nodes and the job on each."""

    async def work(workspace: Workspace) -> tuple[Cluster, list[Node] | None]:
        cluster = await workspace.cluster(name)
        try:
            return cluster, list(await workspace.nodes(name))
        except Invalid:
            return cluster, None  # a target that tells of no nodes

    cluster, nodes = frame.run(work)
    document = cluster.document() | {"nodes": None if nodes is None else [node.document() for node in nodes]}
    frame.result(document, lambda: f"{fielded(cluster.document(), 30)}\n\n{_nodes(nodes)}")


@cluster_group.command("update")
@click.argument("name", shell_complete=names.clusters)
@_counts
@common
@click.pass_obj
def update_command(
    frame: Frame, name: str, least: int | None, most: int | None, idle: int | None, no_wait: bool
) -> None:
    """Change a cluster's counts of nodes and its idle time: what is given, and only that."""
    if least is None and most is None and idle is None:
        raise Invalid(
            "There is nothing to change.", "Give --min-instances, --max-instances or --idle-time-before-scale-down."
        )

    async def work(workspace: Workspace) -> Cluster:
        cluster = await workspace.update_cluster(name, min_nodes=least, max_nodes=most, idle_seconds=idle)
        return cluster if no_wait else await _settled(frame, workspace, cluster)

    cluster = frame.run(work)
    frame.result(cluster.document(), _line(cluster))


@cluster_group.command("delete")
@click.argument("name", shell_complete=names.clusters)
@click.option("--no-wait", is_flag=True, help="Do not wait until it is gone.")
@common
@click.pass_obj
def delete_command(frame: Frame, name: str, no_wait: bool) -> None:
    """Delete a cluster; refused while jobs hold its nodes or wait for them."""
    frame.run(lambda workspace: operations.delete(workspace, name, wait=not no_wait))
    state = "Deleting" if no_wait else "Deleted"
    frame.result({"name": name, "state": state}, f"{name} is {'being deleted' if no_wait else 'deleted'}.")


@cluster_group.command("sizes")
@common
@click.pass_obj
def sizes_command(frame: Frame) -> None:
    """List the sizes that a cluster can have."""
    found = frame.run(lambda workspace: workspace.sizes())
    frame.table(
        [size.document() for size in found],
        ("SIZE", "CORES", "GPUS", "MEMORY GB", "FAMILY", "TIERS"),
        [
            (
                s.name,
                str(s.cores),
                str(s.gpus),
                "–" if s.memory_gb is None else words.number(s.memory_gb),
                s.family,
                "dedicated, low_priority" if s.low_priority else "dedicated",
            )
            for s in found
        ],
        "No sizes are told.",
    )


@click.command("quota")
@common
@click.pass_obj
def quota_command(frame: Frame) -> None:
    """Say how many cores may be used, by family, and how many are."""
    found = frame.run(lambda workspace: workspace.quota())
    frame.table(
        [quota.document() for quota in found],
        ("FAMILY", "TIER", "USED", "LIMIT", "LEFT"),
        [
            (
                q.family,
                "low_priority" if q.low_priority else "dedicated",
                words.count(q.used),
                words.count(q.limit),
                "–" if q.limit is None else words.count(max(0, q.limit - q.used)),
            )
            for q in found
        ],
        "No quota is told.",
    )


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (clusters_command, cluster_group, quota_command):
        group.add_command(command)


async def _settled(frame: Frame, workspace: Workspace, cluster: Cluster) -> Cluster:
    last = ""

    def look(seen: Cluster) -> None:
        nonlocal last
        if seen.state != last and seen.state in operations.CHANGING:
            frame.note(f"· {seen.state}")
        last = seen.state

    return await operations.settled(workspace, cluster.name, look)


def _line(cluster: Cluster) -> str:
    return f"{cluster.name} is {cluster.state}: {cluster.size}, {cluster.min_nodes}–{cluster.max_nodes} nodes, {cluster.tier}."


def _nodes(nodes: list[Node] | None) -> str:
    if nodes is None:
        return "It tells of no nodes."
    if not nodes:
        return "No nodes are there now."
    rows = [(node.name, node.state, node.job or "", node.address, node.error) for node in nodes]
    return columned([("NODE", "STATE", "JOB", "ADDRESS", "ERROR"), *rows])
