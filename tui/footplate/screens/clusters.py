"""The list of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from footplate import words
from footplate.screens.base import bindings
from footplate.screens.listing import ListScreen
from footplate.widgets.virtual_table import Cell, Column, Row
from footplate.workspace import Cluster


class ClustersScreen(ListScreen):
    """Compute that runs jobs."""

    where = "clusters"
    BINDINGS = bindings("clusters")
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
    empty = "No clusters."

    def __init__(self) -> None:
        super().__init__()
        self._clusters: dict[str, Cluster] = {}

    async def fetch(self) -> Sequence[Row]:
        """All clusters."""
        self._clusters = {cluster.name: cluster for cluster in await self.workspace.clusters()}
        return [
            Row(
                c.name,
                (
                    c.name,
                    Cell(c.state, "error" if c.error else "ok"),
                    c.type,
                    c.size,
                    str(c.max_nodes) if c.min_nodes == c.max_nodes else f"{c.min_nodes}–{c.max_nodes}",
                    str(c.busy_nodes),
                    Cell(words.count(c.queued_jobs), "warn" if c.queued_jobs else "plain"),
                    c.tier,
                ),
            )
            for c in self._clusters.values()
        ]

    def explain(self, key: str) -> Content:
        """What a node has, and who waits."""
        cluster = self._clusters[key]
        if cluster.error:
            return Content.styled(cluster.error, "$text-error")
        gpus = f" and {cluster.gpus_per_node} GPUs" if cluster.gpus_per_node else ", no GPU"
        if not cluster.cores_per_node:  # attached, or of a size that the region does not list
            return Content.assemble(
                (f"{cluster.name}  ", "bold"), (f"{cluster.type} {cluster.size}".strip(), "$text-muted")
            )
        free = cluster.max_nodes - cluster.busy_nodes
        return Content.assemble(
            (f"{cluster.name}  ", "bold"),
            (
                f"a node has {cluster.cores_per_node} cores{gpus} · {free} of {cluster.max_nodes} nodes free",
                "$text-muted",
            ),
        )

    def action_open(self) -> None:
        """The jobs on this cluster."""
        if key := self.table.cursor_key:
            self.console.show_jobs(key)
