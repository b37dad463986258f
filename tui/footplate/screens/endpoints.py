"""The list of endpoints, each with its deployments below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.content import Content

from footplate import words
from footplate.logs.sanitise import clean
from footplate.screens import endpoint_acts
from footplate.screens.base import bindings
from footplate.screens.listing import ListScreen
from footplate.widgets.bars import bar_text
from footplate.widgets.virtual_table import Cell, CellStyle, Column, Row
from footplate.workspace import Deployment, Endpoint
from footplate.workspace.traffic import shares_text

_STYLES: dict[str, CellStyle] = {
    "Succeeded": "ok",
    "Failed": "error",
    "Stopped": "warn",
    "Creating": "warn",
    "Updating": "warn",
    "Deleting": "muted",
}
_BAR = 8


class EndpointsScreen(ListScreen):
    """Online endpoints and their deployments. A deployment's row is known by `ENDPOINT/DEPLOYMENT`."""

    where = "endpoints"
    BINDINGS = bindings("endpoints")
    watched_kind = "endpoint"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "ENDPOINT", None, minimum=16, priority=100),
        Column("status", "STATE", 11, priority=95),
        Column("traffic", "TRAFFIC", 22, priority=90),
        Column("mirror", "MIRROR", 10, priority=65),
        Column("instances", "INST", 4, "right", priority=75),
        Column("model", "MODEL", None, minimum=14, priority=85),
        Column("age", "AGE", 4, "right", priority=60),
        Column("address", "ADDRESS", None, minimum=24, priority=30),
    )
    empty = "No endpoints yet.\n\nd on a model (3) deploys it."

    def __init__(self) -> None:
        super().__init__()
        self._endpoints: dict[str, Endpoint] = {}

    async def fetch(self) -> Sequence[Row]:
        """All endpoints, each before its deployments."""
        self._endpoints = {endpoint.name: endpoint for endpoint in await self.workspace.endpoints()}
        self.console.alerting.saw_endpoints(self._endpoints.values())
        rows: list[Row] = []
        for endpoint in self._endpoints.values():
            rows.append(_endpoint_row(endpoint))
            last = len(endpoint.deployments) - 1
            for number, deployment in enumerate(endpoint.deployments):
                rows.append(_deployment_row(endpoint, deployment, number == last))
        return rows

    # What is under the cursor

    def at(self, key: str | None) -> tuple[Endpoint | None, Deployment | None]:
        """The endpoint of a row, and the deployment where the row is one's."""
        name, _, deployment = (key or "").partition("/")
        endpoint = self._endpoints.get(name)
        found = endpoint.deployments if endpoint is not None else ()
        return endpoint, next((d for d in found if d.name == deployment), None)

    def explain(self, key: str) -> Content:
        """The first fault, or what it is."""
        endpoint, deployment = self.at(key)
        if endpoint is None:
            return Content("")
        several = (deployment,) if deployment is not None else endpoint.deployments
        error = (endpoint.error if deployment is None else "") or next((d.error for d in several if d.error), "")
        name = Content.styled(f"{clean(deployment.name if deployment else endpoint.name)}  ", "bold")
        if error:
            more = "   l shows the rest" if "\n" in error.strip() else ""
            return name + Content.styled(f"{clean(_first_line(error))}{more}", "$text-error")
        if endpoint.state == "Stopped":
            return name + Content.styled("its gateway does not run; u starts it", "$text-warning")
        if deployment is not None:
            parts = (deployment.note, deployment.model, deployment.size, f"of {endpoint.name}")
        else:
            parts = (
                endpoint.description,
                "" if endpoint.deployments else "no deployments",
                endpoint.scoring_uri,
                f"asked with a {endpoint.auth_mode}" if endpoint.auth_mode else "",
            )
        return name + Content.styled(clean(" · ".join(part for part in parts if part)), "$text-muted")

    def not_now(self, key: str | None) -> frozenset[str]:
        """Only a stopped endpoint can be started, only a deployment scaled, only what has deployments be shared out."""
        endpoint, deployment = self.at(key)
        if endpoint is None:
            acts = (
                "open",
                "delete",
                "start",
                "server_log",
                "traffic",
                "mirror",
                "scale",
                "endpoint_keys",
                "monitor",
                "copy",
                "watch",
            )
            return frozenset(acts)
        off = set() if endpoint.state == "Stopped" else {"start"}
        off |= {"server_log", "traffic", "monitor"} if not endpoint.deployments else set()
        off |= {"mirror"} if len(endpoint.deployments) < 2 else set()
        off |= {"scale"} if deployment is None and len(endpoint.deployments) != 1 else set()
        return frozenset(off)

    def _under_cursor(self) -> tuple[Endpoint | None, Deployment | None]:
        """Endpoint and deployment under the cursor; an endpoint's only deployment is meant where none is."""
        endpoint, deployment = self.at(self.table.cursor_key)
        if endpoint is not None and deployment is None and len(endpoint.deployments) == 1:
            deployment = endpoint.deployments[0]
        return endpoint, deployment

    def current(self) -> Endpoint | None:
        """The endpoint under the cursor, a deployment's too."""
        return self.at(self.table.cursor_key)[0]

    # Keys

    def action_open(self) -> None:
        """Test it with a picture."""
        if endpoint := self.current():
            self.console.open_invoke(endpoint.name)

    def action_delete(self) -> None:
        """Delete what is under the cursor: an endpoint after its name was typed, or a deployment after asking."""
        endpoint, deployment = self.at(self.table.cursor_key)
        if endpoint is not None and deployment is not None:
            self.console.act(endpoint_acts.delete_deployment(self.console, endpoint, deployment))
        elif endpoint is not None:
            self.console.act(endpoint_acts.delete(self.console, endpoint))

    def action_traffic(self) -> None:
        """Share out the traffic among the deployments."""
        if endpoint := self.current():
            self.console.act(endpoint_acts.set_traffic(self.console, endpoint))

    def action_mirror(self) -> None:
        """Send copies of requests to a deployment."""
        if endpoint := self.current():
            self.console.act(endpoint_acts.set_mirror(self.console, endpoint))

    def action_scale(self) -> None:
        """Run more or fewer instances of the deployment under the cursor."""
        endpoint, deployment = self._under_cursor()
        if deployment is not None:
            self.console.act(endpoint_acts.scale(self.console, deployment))
        elif endpoint is not None:
            self.console.notify("Put the cursor on the deployment that is meant.", markup=False, timeout=4)

    def action_watch(self) -> None:
        """Watch the endpoint under the cursor, or no more."""
        if endpoint := self.current():
            self.console.alerting.toggle("endpoint", endpoint.name)

    def action_monitor(self) -> None:
        """The last hour's requests, errors and latency."""
        from footplate.screens.monitor import MonitorScreen

        if endpoint := self.current():
            self.app.push_screen(MonitorScreen(endpoint.name))

    @work(exclusive=True, group="keys")
    async def action_endpoint_keys(self) -> None:
        """Its keys, hidden until asked for."""
        from footplate.screens.endpoint_keys import KeysDialog

        if endpoint := self.current():
            keys = await self.guarded(self.workspace.keys(endpoint.name))
            if keys is not None and self.is_current:
                self.app.push_screen(KeysDialog(endpoint, keys))

    @work(exclusive=True, group="start")
    async def action_start(self) -> None:
        """Start a stopped endpoint."""
        if (endpoint := self.current()) and endpoint.state == "Stopped" and not self.console.cannot("start_endpoint"):
            await self.guarded(self.workspace.start_endpoint(endpoint.name))
            self.poll()

    def action_server_log(self) -> None:
        """The end of a deployment's log: of the one under the cursor, else of the newest."""
        from footplate.screens.server_log import ServerLog

        endpoint, deployment = self.at(self.table.cursor_key)
        if endpoint is not None and endpoint.deployments:
            meant = deployment or max(endpoint.deployments, key=lambda d: d.created)
            self.app.push_screen(ServerLog(self.workspace, endpoint.name, meant.name, meant.error))


def _first_line(error: str) -> str:
    """The sentence of a fault; below it may stand a traceback and a folder's tree."""
    return error.strip().partition("\n")[0]


def _endpoint_row(e: Endpoint) -> Row:
    failed = any(d.state == "Failed" for d in e.deployments)
    coming = next((d.state for d in e.deployments if d.state in ("Creating", "Updating")), e.state)
    state = "Failed" if failed else coming if e.state == "Succeeded" else e.state
    traffic = shares_text(e.traffic)
    mirror = shares_text(e.mirror) if any(e.mirror.values()) else ""
    return Row(
        e.name,
        (
            e.name,
            Cell(state, _STYLES.get(state, "plain")),
            Cell(traffic, "muted" if traffic == "none" else "plain"),
            Cell(mirror, "muted"),
            "",
            Cell(f"{len(e.deployments)} deployment{'s' * (len(e.deployments) != 1)}", "muted"),
            words.age(e.created),
            Cell(e.scoring_uri, "muted"),
        ),
    )


def _deployment_row(e: Endpoint, d: Deployment, last: bool) -> Row:
    share, copies = e.traffic.get(d.name, 0), e.mirror.get(d.name, 0)
    traffic = f"{bar_text(share / 100, _BAR)} {share:>3} %" if share else f"{'':{_BAR}}   0 %"
    return Row(
        f"{e.name}/{d.name}",
        (
            f"{'└' if last else '├'} {d.name}",
            Cell(d.state, _STYLES.get(d.state, "plain")),
            Cell(traffic, "accent" if share else "muted"),
            Cell(f"{copies} %" if copies else "", "warn"),
            str(d.instances),
            d.model,
            words.age(d.created),
            Cell(_first_line(d.error), "error") if d.error else Cell(d.note or d.size, "muted"),
        ),
    )
