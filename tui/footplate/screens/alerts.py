"""What was told and what is watched: two tables, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from footplate import words
from footplate.logs.sanitise import clean
from footplate.screens.base import ConsoleScreen, bindings
from footplate.widgets.chrome import KeyLine
from footplate.widgets.virtual_table import Cell, CellStyle, Column, Row, VirtualTable

if TYPE_CHECKING:
    from footplate.operations.alert_rules import Finding
    from footplate.operations.alert_store import Watched

_NO_ALERTS = (
    "Nothing was told yet.\n\n"
    "How watched jobs end is told here and in a toast, even where no console\n"
    "was open meanwhile. Rules in the settings ring, run a command or post to\n"
    "a webhook: docs/alerts.md."
)
_NOTHING_WATCHED = "Nothing. W on a job, cluster or endpoint watches it; jobs launched here are."


class AlertsScreen(ConsoleScreen):
    """The alerts of this workspace. Enter opens what an alert is about."""

    where = "alerts"
    BINDINGS = bindings("alerts")
    DEFAULT_CSS = """
    AlertsScreen .head { height: 1; padding: 0 1; color: $text-muted; text-style: bold; }
    AlertsScreen #told-head { margin: 1 0 0 0; }
    AlertsScreen #watched { height: 3; }
    AlertsScreen #told { height: 1fr; }
    AlertsScreen #explain { height: 2; padding: 0 2; border-top: solid $panel-lighten-2; }
    """
    _WATCHED: ClassVar[tuple[Column, ...]] = (
        Column("name", "NAME", None, minimum=20, priority=100),
        Column("kind", "KIND", 9, priority=90),
        Column("status", "STATUS", 14, priority=95),
        Column("since", "WATCHED", 7, "right", priority=80),
    )
    _TOLD: ClassVar[tuple[Column, ...]] = (
        Column("age", "AGE", 4, "right", priority=100),
        Column("event", "EVENT", 11, priority=95),
        Column("text", "TOLD", None, minimum=30, priority=90),
    )

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, tuple[Finding, str]] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._entered = False

    def crumbs(self) -> tuple[str, ...]:
        """`alerts`."""
        return ("alerts",)

    def compose(self) -> ComposeResult:
        """What is watched, what was told, a line on the row under the cursor, keys."""
        yield self.top()
        yield Static("Watched", classes="head", markup=False)
        yield VirtualTable(self._WATCHED, id="watched", marking=False, empty="Loading …")
        yield Static("Told", classes="head", id="told-head", markup=False)
        yield VirtualTable(self._TOLD, id="told", marking=False, empty="Loading …")
        yield Static("", id="explain", markup=False)
        yield self.keys()

    def on_mount(self) -> None:
        """Load now, then again and again; nobody but the console's own file is asked."""
        self._table("told").focus()
        self.set_interval(1.0, self.tick)
        self.watch(self.console, "watched", self._list_changed, init=False)
        self.poll()

    def _list_changed(self) -> None:
        self.poll()

    def _table(self, name: str) -> VirtualTable:
        return self.query_one(f"#{name}", VirtualTable)

    async def look(self) -> None:
        """Read both lists."""
        alerts = await self.console.alerting.alerts()
        watched, told = await alerts.history()
        if not self.is_attached:
            return
        self._show_watched(watched, alerts.statuses)
        now = datetime.now(UTC)
        self._found = {one.key: (one, fault) for one, _, fault in told}
        table = self._table("told")
        table.empty = _NO_ALERTS
        table.set_rows([_told_row(one, datetime.fromtimestamp(when, UTC), fault, now) for one, when, fault in told])
        if not self._entered and watched and not told:
            self._table("watched").focus()
        self._entered = True
        self._explain()

    def _show_watched(self, watched: Sequence[Watched], statuses: dict[tuple[str, str], str]) -> None:
        table = self._table("watched")
        table.empty = _NOTHING_WATCHED
        self._names = {f"{one.kind}/{one.name}": (one.kind, one.name) for one in watched}
        now = datetime.now(UTC)
        table.set_rows(
            [
                Row(
                    f"{one.kind}/{one.name}",
                    (
                        one.name,
                        Cell(one.kind, "muted"),
                        statuses.get((one.kind, one.name), ""),
                        words.age(datetime.fromtimestamp(one.since, UTC), now),
                    ),
                )
                for one in watched
            ]
        )
        table.styles.height = min(len(watched) + 1, max(3, self.size.height // 3)) if watched else 3

    def say_fault(self, sentence: str) -> None:
        """In the line below; what was shown stays."""
        self.query_one("#explain", Static).update(Content.styled(clean(sentence), "$text-error"))

    @property
    def _at(self) -> tuple[str, str] | None:
        """Kind and name of what is under the cursor of the table in focus."""
        if self._table("watched").has_focus:
            return self._names.get(self._table("watched").cursor_key or "")
        found = self._found.get(self._table("told").cursor_key or "")
        return (found[0].kind, found[0].name) if found else None

    @on(VirtualTable.Highlighted)
    def _highlighted(self) -> None:
        self._explain()

    def on_descendant_focus(self) -> None:
        """The keys are those of the table in focus."""
        self._explain()

    def _explain(self) -> None:
        at, in_watched = self._at, self._table("watched").has_focus
        said = Content("")
        if not in_watched and (found := self._found.get(self._table("told").cursor_key or "")):
            one, fault = found
            style = "$text-error" if one.event == "failed" else "$text-warning" if one.bad else ""
            said = Content.styled(clean(one.text), style)
            if fault:
                said = Content.styled(clean(fault), "$text-warning")
        elif in_watched and at is not None:
            said = Content.styled(clean(f"footplate watch {at[1]}  waits for it in a script"), "$text-muted")
        self.query_one("#explain", Static).update(said)
        off = {"open", "watch"} if at is None else set() if in_watched else {"watch"}
        self.query_one(KeyLine).turn_off(frozenset(off))

    # Keys

    def action_other_table(self) -> None:
        """To the other table."""
        self._table("told" if self._table("watched").has_focus else "watched").focus()

    def action_watch(self) -> None:
        """Watch it no more."""
        if self._table("watched").has_focus and self._at is not None:
            self.console.alerting.toggle(*self._at)

    @on(VirtualTable.Selected)
    def action_open(self) -> None:
        """Open the job, the cluster, or the list of endpoints at the one that it is about."""
        if self._at is None:
            return
        kind, name = self._at
        if kind == "job":
            self.console.open_job(name, "overview")
        elif kind == "cluster":
            from footplate.screens.cluster import ClusterScreen

            self.app.push_screen(ClusterScreen(name))
        else:
            self.console.show_endpoint(name)


_STYLES: dict[str, CellStyle] = {"finished": "ok", "metric": "accent", "gone": "muted", "failed": "error"}


def _told_row(one: Finding, when: datetime, fault: str, now: datetime) -> Row:
    style: CellStyle = "error" if one.event == "failed" else "warn" if one.bad else _STYLES.get(one.event, "plain")
    text = Cell(f"{one.text} · {fault}", "warn") if fault else one.text
    return Row(one.key, (words.age(when, now), Cell(one.event, style), text))
