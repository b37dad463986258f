"""The list of endpoints and their deployments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.content import Content

from footplate import words
from footplate.screens.base import bindings
from footplate.screens.dialogs import TextDialog
from footplate.screens.listing import ListScreen
from footplate.widgets.virtual_table import Cell, CellStyle, Column, Row
from footplate.workspace import Endpoint

_STYLES: dict[str, CellStyle] = {
    "Succeeded": "ok",
    "Failed": "error",
    "Stopped": "warn",
    "Creating": "warn",
    "Deleting": "muted",
}


class EndpointsScreen(ListScreen):
    """Online endpoints."""

    where = "endpoints"
    BINDINGS = bindings("endpoints")
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "ENDPOINT", None, minimum=14, priority=100),
        Column("status", "STATE", 11, priority=95),
        Column("traffic", "TRAFFIC", 22, priority=80),
        Column("models", "MODELS", None, minimum=14, priority=70),
        Column("age", "AGE", 4, "right", priority=60),
        Column("address", "ADDRESS", None, minimum=28, priority=30),
    )
    empty = "No endpoints yet.\n\nd on a model (3) deploys it."

    def __init__(self) -> None:
        super().__init__()
        self._endpoints: dict[str, Endpoint] = {}

    async def fetch(self) -> Sequence[Row]:
        """All endpoints."""
        self._endpoints = {endpoint.name: endpoint for endpoint in await self.workspace.endpoints()}
        return [self._row(e) for e in self._endpoints.values()]

    @staticmethod
    def _row(e: Endpoint) -> Row:
        failed = any(d.state == "Failed" for d in e.deployments)
        coming = any(d.state in ("Creating", "Updating") for d in e.deployments)
        state = "Failed" if failed else "Creating" if coming and e.state == "Succeeded" else e.state
        live = [(name, weight) for name, weight in e.traffic.items() if weight]
        bars = [f"{'█' * round(weight / 12.5)} " if len(live) == 1 else "" for _, weight in live]  # two have no room
        traffic = "  ".join(f"{name} {bar}{weight} %" for (name, weight), bar in zip(live, bars, strict=True))
        return Row(
            e.name,
            (
                e.name,
                Cell(state, _STYLES.get(state, "plain")),
                traffic or Cell("none", "muted"),
                ", ".join(f"{d.name} {d.model}" for d in e.deployments),
                words.age(e.created),
                Cell(e.scoring_uri, "muted"),
            ),
        )

    def explain(self, key: str) -> Content:
        """The first fault, or the deployments."""
        endpoint = self._endpoints[key]
        error = endpoint.error or next((d.error for d in endpoint.deployments if d.error), "")
        if error:
            return Content.assemble((f"{key}  ", "bold"), (error, "$text-error"))
        if endpoint.state == "Stopped":
            return Content.assemble((f"{key}  ", "bold"), ("its gateway does not run; u starts it", "$text-warning"))
        each = " · ".join(f"{d.name} {d.model} {d.state}" for d in endpoint.deployments) or "no deployments"
        return Content.assemble((f"{key}  ", "bold"), (each, "$text-muted"))

    def not_now(self, key: str | None) -> frozenset[str]:
        """Only a stopped endpoint can be started."""
        endpoint = self._endpoints.get(key or "")
        if endpoint is None:
            return frozenset({"open", "delete", "start", "server_log"})
        return frozenset() if endpoint.state == "Stopped" else frozenset({"start"})

    def current(self) -> Endpoint | None:
        """The endpoint under the cursor."""
        return self._endpoints.get(self.table.cursor_key or "")

    def action_open(self) -> None:
        """Test it with a picture."""
        if endpoint := self.current():
            self.console.open_invoke(endpoint.name)

    def action_delete(self) -> None:
        """Delete it, after its name was typed."""
        if endpoint := self.current():
            self.console.delete_endpoint(endpoint)

    @work(exclusive=True, group="start")
    async def action_start(self) -> None:
        """Start a stopped endpoint."""
        if (endpoint := self.current()) and endpoint.state == "Stopped":
            await self.guarded(self.workspace.start_endpoint(endpoint.name))
            self.poll()

    @work(exclusive=True, group="log")
    async def action_server_log(self) -> None:
        """Show the end of the log of its newest deployment."""
        endpoint = self.current()
        if endpoint is None or not endpoint.deployments:
            return
        newest = max(endpoint.deployments, key=lambda d: d.created)
        text = await self.guarded(self.workspace.deployment_log(endpoint.name, newest.name, 200))
        if text is not None:
            self.app.push_screen(
                TextDialog(f"{endpoint.name} / {newest.name}: end of its log", text or "No output yet.")
            )
