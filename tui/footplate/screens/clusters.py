"""The list of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from footplate import words
from footplate.logs.sanitise import clean
from footplate.screens import cluster_acts
from footplate.screens.base import bindings
from footplate.screens.listing import ListScreen
from footplate.widgets.virtual_table import Cell, Column, Row
from footplate.workspace import Cluster


class ClustersScreen(ListScreen):
    """Compute that runs jobs."""

    where = "clusters"
    BINDINGS = bindings("clusters")
    watched_kind = "cluster"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "CLUSTER", None, minimum=14, priority=100),
        Column("status", "STATE", 14, priority=95),
        Column("type", "TYPE", 12, priority=40),
        Column("size", "SIZE", None, minimum=16, priority=60),
        Column("nodes", "NODES", 7, "right", priority=90),
        Column("busy", "BUSY", 5, "right", priority=85),
        Column("queued", "QUEUED", 6, "right", priority=80),
        Column("tier", "TIER", 12, priority=30),
    )
    empty = "No clusters.\n\nn makes one."

    def __init__(self) -> None:
        super().__init__()
        self._clusters: dict[str, Cluster] = {}

    async def fetch(self) -> Sequence[Row]:
        """All clusters."""
        self._clusters = {cluster.name: cluster for cluster in await self.workspace.clusters()}
        self.console.alerting.saw_clusters(self._clusters.values())
        return [
            Row(
                c.name,
                (
                    c.name,
                    Cell(c.state, "error" if c.error else "ok"),
                    c.type,
                    c.size,
                    Cell(_nodes(c), "error" if self._billed_idle(c) else "plain"),
                    str(c.busy_nodes),
                    Cell(words.count(c.queued_jobs), "warn" if c.queued_jobs else "plain"),
                    c.tier,
                ),
            )
            for c in self._clusters.values()
        ]

    def _billed_idle(self, cluster: Cluster) -> bool:
        """Whether nodes are there, and billed, though no job is on them."""
        return bool(cluster.min_nodes) and not cluster.busy_nodes and self.workspace.kind != "local"

    def explain(self, key: str) -> Content:
        """What a node has, and who waits."""
        cluster = self._clusters[key]
        if cluster.error:
            return Content.styled(clean(cluster.error), "$text-error")
        if self._billed_idle(cluster):
            least = f"{cluster.min_nodes} node{'s are' if cluster.min_nodes > 1 else ' is'}"
            said = f"{least} billed though no job runs there; e lets idle nodes go"
            return Content.assemble((f"{clean(cluster.name)}  ", "bold"), (said, "$text-warning"))
        cores, gpus = cluster.cores_per_node, cluster.gpus_per_node
        node = f"{cores} core{'s' * (cores != 1)}"
        node += f" and {gpus} GPU{'s' * (gpus > 1)}" if gpus else ", no GPU"
        if not cluster.cores_per_node:  # attached, or of a size that the region does not list
            return Content.assemble(
                (f"{cluster.name}  ", "bold"), (f"{cluster.type} {cluster.size}".strip(), "$text-muted")
            )
        free = cluster.max_nodes - cluster.busy_nodes
        return Content.assemble(
            (f"{cluster.name}  ", "bold"),
            (
                f"a node has {node} · {free} of {cluster.max_nodes} nodes free",
                "$text-muted",
            ),
        )

    def not_now(self, key: str | None) -> frozenset[str]:
        """What needs a cluster needs one under the cursor."""
        return frozenset() if key is not None else frozenset({"open", "edit", "delete", "jobs_there", "copy", "watch"})

    def current(self) -> Cluster | None:
        """The cluster under the cursor."""
        return self._clusters.get(self.table.cursor_key or "")

    def action_open(self) -> None:
        """Its nodes, with the sizes and the quota."""
        from footplate.screens.cluster import ClusterScreen

        if cluster := self.current():
            self.app.push_screen(ClusterScreen(cluster.name))

    def action_jobs_there(self) -> None:
        """The jobs on the cluster under the cursor."""
        if cluster := self.current():
            self.console.show_jobs(cluster.name)

    def action_watch(self) -> None:
        """Watch the cluster under the cursor, or no more."""
        if cluster := self.current():
            self.console.alerting.toggle("cluster", cluster.name)

    def action_create(self) -> None:
        """Make another cluster."""
        self.console.act(cluster_acts.create(self.console))

    def action_edit(self) -> None:
        """Change nodes and idle time of the cluster under the cursor."""
        if cluster := self.current():
            self.console.act(cluster_acts.edit(self.console, cluster))

    def action_delete(self) -> None:
        """Delete the cluster under the cursor, after its name was typed."""
        if cluster := self.current():
            self.console.act(cluster_acts.delete(self.console, cluster))


def _nodes(cluster: Cluster) -> str:
    """`0–4`, `4` where it is always that many, a dash where an attached target tells of none."""
    if not cluster.max_nodes and not cluster.size:
        return "–"
    least, most = cluster.min_nodes, cluster.max_nodes
    return str(most) if least == most else f"{least}–{most}"
