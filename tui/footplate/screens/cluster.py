"""One cluster: its nodes with the job on each, the sizes there are, and the quota."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import ContentSwitcher, Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.screens import cluster_acts
from footplate.screens.base import ConsoleScreen, bindings
from footplate.widgets.bars import bar_text
from footplate.widgets.chrome import KeyLine
from footplate.widgets.virtual_table import Cell, CellStyle, Column, Row, VirtualTable
from footplate.workspace import Cluster, Invalid, Node, Quota, Size

_TABS = {"nodes": "nodes", "sizes": "sizes", "quota": "quota"}
_NODE_STYLES: dict[str, CellStyle] = {
    "idle": "ok",
    "running": "accent",
    "preparing": "warn",
    "leaving": "muted",
    "unusable": "error",
    "preempted": "error",
}
_NODE_COLUMNS = (
    Column("name", "NODE", None, minimum=16, priority=100),
    Column("state", "STATE", 12, priority=95),
    Column("job", "JOB", None, minimum=20, priority=90),
    Column("address", "ADDRESS", 22, priority=50),
    Column("error", "FAULT", None, minimum=16, priority=70),
)
_QUOTA_COLUMNS = (
    Column("family", "FAMILY", None, minimum=20, priority=100),
    Column("tier", "TIER", 12, priority=70),
    Column("used", "USED", 7, "right", priority=95),
    Column("limit", "LIMIT", 7, "right", priority=90),
    Column("share", "", 20, priority=60),
)


class ClusterScreen(ConsoleScreen):
    """One cluster, kept up to date; enter on a node opens the job on it."""

    where = "cluster"
    BINDINGS = bindings("cluster")
    DEFAULT_CSS = """
    ClusterScreen #facts { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    ClusterScreen #tabs { height: 1; padding: 0 1; }
    ClusterScreen ContentSwitcher { height: 1fr; }
    ClusterScreen #explain { height: 2; padding: 0 2; border-top: solid $panel-lighten-2; color: $text-muted; }
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.cluster_name = name
        self.cluster: Cluster | None = None
        self._there: dict[str, Node] = {}
        self._no_nodes = ""
        self._read: set[str] = set()

    def crumbs(self) -> tuple[str, ...]:
        """`clusters ▸ name`."""
        return ("clusters", self.cluster_name)

    def compose(self) -> ComposeResult:
        """Facts, tabs, the three tables, a line on the row under the cursor, keys."""
        yield self.top()
        yield Static("", id="facts", markup=False)
        yield Static("", id="tabs", markup=False)
        with ContentSwitcher(initial="nodes"):
            for tab, columns in (
                ("nodes", _NODE_COLUMNS),
                ("sizes", cluster_acts.SIZE_COLUMNS),
                ("quota", _QUOTA_COLUMNS),
            ):
                yield VirtualTable(columns, id=tab, marking=False, empty="Loading …")
        yield Static("", id="explain", markup=False)
        yield self.keys()

    def on_mount(self) -> None:
        """Load now, then again and again."""
        self.show_tab("nodes")
        self.set_interval(1.0, self.tick)
        self.poll()

    def on_screen_resume(self) -> None:
        """Look again at once."""
        if self.is_mounted:
            self.poll()

    @property
    def tab(self) -> str:
        """Which table is shown."""
        return self.query_one(ContentSwitcher).current or "nodes"

    def table(self, tab: str) -> VirtualTable:
        """One of the three tables."""
        return self.query_one(f"#{tab}", VirtualTable)

    # Data

    async def look(self) -> None:
        """Look at the cluster and its nodes; sizes and quota are asked for when they are first shown, quota each time."""
        cluster, nodes = await asyncio.gather(self.workspace.cluster(self.cluster_name), self._ask_nodes())
        sizes = await self.workspace.sizes() if self.tab == "sizes" and "sizes" not in self._read else None
        quota = await self.workspace.quota() if self.tab == "quota" else None
        if not self.is_attached:
            return
        self.cluster = cluster
        self._show_facts(cluster)
        self._show_nodes(nodes, cluster)
        if sizes is not None:
            self._show_sizes(sizes)
        if quota is not None:
            self._show_quota(quota)

    async def _ask_nodes(self) -> Sequence[Node]:
        try:
            found = await self.workspace.nodes(self.cluster_name)
        except Invalid as error:  # a target that tells of no nodes
            self._no_nodes = str(error)
            return ()
        self._no_nodes = ""
        return found

    def say_fault(self, sentence: str) -> None:
        """In the line of facts; the tables stay."""
        self.query_one("#facts", Static).update(Content.styled(clean(sentence), "$text-error"))

    def _show_facts(self, c: Cluster) -> None:
        waiting = f"{c.queued_jobs} waiting" if c.queued_jobs else ""
        cores = f"{c.cores_per_node} core{'s' * (c.cores_per_node != 1)}" if c.cores_per_node else ""
        cores = "" if cores in c.size else cores  # a size of this machine says so
        gpus = f"{c.gpus_per_node} GPU{'s' * (c.gpus_per_node > 1)}" if c.gpus_per_node else ""
        idle = f"idle nodes go after {words.span(c.idle_seconds)}" if c.idle_seconds else ""
        parts = (  # what changes comes first: a narrow terminal cuts the end
            f"{max(0, c.max_nodes - c.busy_nodes)} of {c.max_nodes} nodes free" if c.max_nodes else "",
            waiting,
            c.size,
            " and ".join(part for part in (cores, gpus) if part),
            c.tier,
            idle,
            c.type,
        )
        said = " · ".join(clean(part) for part in parts if part)
        self.query_one("#facts", Static).update(
            Content.assemble(
                (clean(c.state), "bold $text-error" if c.error else "bold"),
                "   ",
                (clean(c.error), "$text-error") if c.error else (said, "$text-muted"),
            )
        )
        self._show_keys()

    def _show_keys(self) -> None:
        """Leave out the keys of what this cluster or this tab has not."""
        fixed = self.cluster is not None and not self.cluster.max_nodes
        off = {"rehearse"} & set(self.workspace.capabilities)
        off |= ({"edit", "delete"} if fixed else set()) | ({"open"} if self.tab != "nodes" else set()) | {self.tab}
        self.query_one(KeyLine).turn_off(frozenset(off))

    def _show_nodes(self, nodes: Sequence[Node], cluster: Cluster) -> None:
        self._there = {node.name: node for node in nodes}
        table = self.table("nodes")
        none = "No node is there now: the first job that asks for one brings it."
        table.empty = self._no_nodes or (none if cluster.max_nodes else "It may have no node at all.")
        table.set_rows([_node_row(node) for node in nodes])
        self._show_tabs()
        self._explain()

    def _show_sizes(self, sizes: Sequence[Size]) -> None:
        self._read.add("sizes")
        table = self.table("sizes")
        table.empty = "No sizes are told."
        table.set_rows(cluster_acts.size_rows(sizes))
        if self.cluster is not None:
            table.move_to(self.cluster.size)

    def _show_quota(self, quota: Sequence[Quota]) -> None:
        table = self.table("quota")
        table.empty = "No quota is told."
        table.set_rows([_quota_row(one) for one in quota])

    # Tabs and what is under the cursor

    def show_tab(self, tab: str) -> None:
        """Show nodes, sizes or quota."""
        self.query_one(ContentSwitcher).current = tab
        self.table(tab).focus()
        self._show_tabs()
        self._show_keys()
        self._explain()
        self.poll()

    def _show_tabs(self) -> None:
        titles = _TABS | {"nodes": f"nodes {len(self._there)}"}
        self.query_one("#tabs", Static).update(
            Content("   ").join(
                [Content.styled(f" {title} ", "reverse bold" if t == self.tab else "") for t, title in titles.items()]
            )
        )

    @on(VirtualTable.Highlighted)
    def _explain(self) -> None:
        said = ""
        if self.tab == "nodes" and (node := self._there.get(self.table("nodes").cursor_key or "")):
            said = node.error or (
                f"enter opens {node.job}, which holds it" if node.job else f"{node.name} is {node.state}"
            )
        elif self.tab == "quota":
            said = "Cores in use, and the most there may be; those in use first."
        self.query_one("#explain", Static).update(Content(clean(said)))

    def action_nodes(self) -> None:
        """The nodes."""
        self.show_tab("nodes")

    def action_sizes(self) -> None:
        """The sizes."""
        self.show_tab("sizes")

    def action_quota(self) -> None:
        """The quota."""
        self.show_tab("quota")

    @on(VirtualTable.Selected)
    def action_open(self) -> None:
        """Open the job that holds the node under the cursor."""
        node = self._there.get(self.table("nodes").cursor_key or "") if self.tab == "nodes" else None
        if node is not None and node.job:
            self.console.open_job(node.job, "logs")

    def action_jobs_there(self) -> None:
        """The jobs on this cluster."""
        self.console.show_jobs(self.cluster_name)

    # Acts

    def action_rehearse(self) -> None:
        """Do to this cluster, or to the job on the node under the cursor, what befalls them on Azure."""
        from footplate.screens import rehearsals  # seldom asked for

        node = self._there.get(self.table("nodes").cursor_key or "") if self.tab == "nodes" else None
        self.console.act(rehearsals.on_cluster(self.console, self.cluster_name, node.job if node else None))

    def action_watch(self) -> None:
        """Watch this cluster, or no more."""
        self.console.alerting.toggle("cluster", self.cluster_name)

    def action_edit(self) -> None:
        """Change nodes and idle time."""
        if self.cluster is not None:
            self.console.act(cluster_acts.edit(self.console, self.cluster))

    def action_delete(self) -> None:
        """Delete it, after its name was typed."""
        if self.cluster is not None:
            self.console.act(cluster_acts.delete(self.console, self.cluster))


def _node_row(node: Node) -> Row:
    state = Cell(node.state, _NODE_STYLES.get(node.state, "plain"))
    fault = Cell(node.error, "error")
    return Row(node.name, (node.name, state, node.job or Cell("–", "muted"), Cell(node.address, "muted"), fault))


def _quota_row(quota: Quota) -> Row:
    full = quota.limit is not None and quota.used >= quota.limit > 0
    share = quota.used / quota.limit if quota.limit else 0.0
    tier = "low priority" if quota.low_priority else "dedicated"
    style: CellStyle = "error" if full else "plain"
    return Row(
        f"{quota.family} {tier}",
        (
            quota.family,
            Cell(tier, "muted"),
            Cell(str(quota.used), style),
            words.count(quota.limit),
            Cell(f"{bar_text(share, 14)}{' full' if full else ''}", style if full else "accent"),
        ),
    )
