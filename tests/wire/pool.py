"""The nodes of clusters: jobs wait for them, they come up, work, idle and leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from tests.wire import computes
from tests.wire.durations import seconds_of
from tests.wire.state import Body

if TYPE_CHECKING:
    from tests.wire.server import WireServer


class Pool:
    """The nodes of all clusters of one server."""

    def __init__(self, wire: WireServer) -> None:
        """Nobody waits."""
        self._wire = wire
        self._state = wire.state
        self._waiting: dict[str, list[tuple[str, Callable[[list[Body]], None]]]] = {}
        self._idle_since: dict[int, datetime] = {}

    def ask(self, cluster: str, job: str, start: Callable[[list[Body]], None]) -> None:
        """Let a job wait for its nodes; it is started with them."""
        self._waiting.setdefault(cluster, []).append((job, start))
        self._pump(cluster)

    def forget(self, job: str) -> None:
        """A job waits no more."""
        for waiting in self._waiting.values():
            waiting[:] = [entry for entry in waiting if entry[0] != job]

    def give_back(self, cluster: str, nodes: list[Body]) -> None:
        """A job has no more use for its nodes."""
        for node in nodes:
            self._rest(cluster, node)
        self._pump(cluster)

    def _pump(self, cluster: str) -> None:
        """Give idle nodes to the jobs that wait longest; ask for more where that is allowed."""
        waiting, state = self._waiting.get(cluster, []), self._state
        if cluster not in state.clusters:
            return
        nodes = state.nodes.setdefault(cluster, [])
        while waiting:
            idle = [node for node in nodes if node["nodeState"] == "idle"]
            need = self._nodes_needed(waiting[0][0])
            if len(idle) < need:
                break
            name, start = waiting.pop(0)
            given = idle[:need]
            for node in given:
                node |= {"nodeState": "running", "runId": name}
            computes.count(state, cluster)
            start(given)
        here = sum(node["nodeState"] in ("idle", "preparing") for node in nodes)
        most = state.clusters[cluster]["properties"]["properties"]["scaleSettings"]["maxNodeCount"]
        for _ in range(min(sum(self._nodes_needed(name) for name, _ in waiting) - here, most - len(nodes))):
            self._bring_up(cluster)

    def _nodes_needed(self, name: str) -> int:
        return int((self._state.jobs[name]["properties"].get("resources") or {}).get("instanceCount") or 1)

    def _bring_up(self, cluster: str) -> None:
        node = computes.add_node(self._state, cluster, "preparing")

        def ready() -> None:
            self._rest(cluster, node)
            self._pump(cluster)

        self._state.clock.after(self._wire.seconds["node"], ready)

    def _rest(self, cluster: str, node: Body) -> None:
        """A node has nothing to do: it leaves when it has idled long enough, if the cluster keeps enough."""
        state = self._state
        node |= {"nodeState": "idle", "runId": None}
        computes.count(state, cluster)
        body, since = state.clusters.get(cluster), state.now
        if body is None:
            return
        self._idle_since[id(node)] = since
        scale = body["properties"]["properties"]["scaleSettings"]

        def leave() -> None:
            nodes = state.nodes.get(cluster, [])
            rested = node in nodes and node["nodeState"] == "idle" and self._idle_since[id(node)] == since
            if not rested or len(nodes) <= scale["minNodeCount"]:
                return
            node["nodeState"] = "leaving"
            computes.count(state, cluster)
            state.clock.after(self._wire.seconds["node"] / 2, gone)

        def gone() -> None:
            nodes = state.nodes.get(cluster, [])
            if node in nodes:
                nodes.remove(node)
            computes.count(state, cluster)
            self._pump(cluster)

        state.clock.after(seconds_of(scale["nodeIdleTimeBeforeScaleDown"]), leave)
