"""Choose one from a list: a cluster with its room, a data asset, a model; typing narrows the list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from footplate import words
from footplate.faults import unforeseen
from footplate.logs.sanitise import clean
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable
from footplate.workspace import Cluster, DataAsset, Model, WorkspaceError

if TYPE_CHECKING:
    from footplate.screens.base import ConsoleScreen

Rows = Sequence[Row]

SERVERLESS = ""
"""What `choose_cluster` gives for a job without a cluster of its own: the file then has no `compute`."""


class ChooseScreen(ModalScreen[str | None]):
    """One list and one line that narrows it; gives the key of the row that was chosen, None when it was left.

    `rows` are the rows, or a function that fetches them: the screen opens at once and shows them when they are there.
    `hint` is a line under the list, or a function that gives it for the key of the row under the cursor. `chosen` is the key
    on which the cursor starts. `empty` is shown where there are no rows.
    """

    DEFAULT_CSS = """
    ChooseScreen { align: center middle; background: $background 60%; }
    ChooseScreen > Vertical { width: 96%; max-width: 120; height: 80%; background: $surface; padding: 1 2; }
    ChooseScreen .title { text-style: bold; height: 1; }
    ChooseScreen Input { height: 1; border: none; padding: 0 1; margin: 1 0; background: $panel; }
    ChooseScreen VirtualTable > .table--cursor { background: $primary-muted; text-style: bold; }
    ChooseScreen #hint { height: auto; max-height: 3; color: $text-muted; }
    ChooseScreen .foot { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("escape", "leave", "Clear the line, then leave"),
    ]

    def __init__(
        self,
        title: str,
        columns: Sequence[Column],
        rows: Rows | Callable[[], Awaitable[Rows]],
        hint: str | Callable[[str], str] = "",
        chosen: str | None = None,
        empty: str = "There is nothing to choose from.",
    ) -> None:
        super().__init__()
        self._title, self._hint, self._empty = title, hint, empty
        self._columns = tuple(columns)
        self._source = rows
        self._chosen = chosen
        self._rows: Rows | None = None  # until they are there
        self._table = VirtualTable(self._columns, marking=False, empty="Loading …")
        self._table.can_focus = False  # the line keeps the focus: what is typed narrows the list
        self._line = Input(placeholder="type to narrow the list", compact=True)

    def compose(self) -> ComposeResult:
        """Title, the line, the list, the hint, the keys."""
        with Vertical():
            yield Static(Content(clean(self._title)), classes="title")
            yield self._line
            yield self._table
            yield Static(Content(clean(self._hint)) if isinstance(self._hint, str) else "", id="hint", markup=False)
            yield Static(foot((("enter", "choose"), ("↑↓", "move"), ("esc", "back"))), classes="foot", markup=False)

    def on_mount(self) -> None:
        """Show or fetch the rows; the line has the focus."""
        self._line.cursor_blink = False
        self._line.focus()
        if callable(self._source):
            self._fetch(self._source)
        else:
            self._show(self._source)

    @work(exclusive=True, group="choose")
    async def _fetch(self, source: Callable[[], Awaitable[Rows]]) -> None:
        try:
            rows = await source()
        except WorkspaceError as error:
            self._table.empty = str(error)
        except Exception as error:  # noqa: BLE001  the last line before the user: a sentence, the traceback in the log
            self._table.empty = unforeseen(error)
        else:
            self._show(rows)

    def _show(self, rows: Rows) -> None:
        self._rows = rows
        self._narrow()
        if self._chosen is not None and not self._line.value:
            self._table.move_to(self._chosen)

    @on(Input.Changed)
    def _narrow(self) -> None:
        if self._rows is None:
            return
        wanted = self._line.value.casefold().split()
        self._table.empty = "None has these words. esc clears the line." if self._rows else self._empty
        self._table.set_rows([row for row in self._rows if all(word in _text(row) for word in wanted)])

    @on(VirtualTable.Highlighted)
    def _explain(self, event: VirtualTable.Highlighted) -> None:
        if not isinstance(self._hint, str):
            hint = self._hint(event.key) if event.key is not None else ""
            self.query_one("#hint", Static).update(Content(clean(hint)))

    @on(Input.Submitted)
    def _submitted(self) -> None:
        if (key := self._table.cursor_key) is not None:
            self.dismiss(key)

    @on(VirtualTable.Selected)
    def _double_click(self, event: VirtualTable.Selected) -> None:
        self.dismiss(event.key)

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        self._table.action_move(step)

    def action_page(self, step: int) -> None:
        """Move the cursor by a page."""
        self._table.action_page(step)

    def action_leave(self) -> None:
        """Clear what was typed; without anything, leave without an answer."""
        if self._line.value:
            self._line.value = ""
        else:
            self.dismiss(None)


def foot(keys: Sequence[tuple[str, str]]) -> Content:
    """The keys of a dialog, written as the key line of a screen writes them."""
    return Content("  ").join([Content.assemble((key, "bold $accent"), f" {what}") for key, what in keys])


def _text(row: Row) -> str:
    """What is searched of a row: its cells and its key."""
    return " ".join((row.key, *(cell if isinstance(cell, str) else cell.text for cell in row.cells))).casefold()


async def choose_cluster(screen: ConsoleScreen, now: str | None = None) -> str | None:
    """Let one choose a cluster by its room: its bare name, `SERVERLESS`, or None when it was left. Call it in a worker.

    `now` is the cluster that the job has: its bare name, empty for serverless.
    """
    found: dict[str, Cluster] = {}
    here = screen.workspace.kind == "local"
    title, said = ("this machine", "no cluster named") if here else ("serverless", "no compute")
    none = Row(SERVERLESS, (title, "", "", "", Cell(said, "muted")))

    async def rows() -> Rows:
        found.update((cluster.name, cluster) for cluster in await screen.workspace.clusters())
        return [*map(cluster_row, found.values()), none]

    def hint(key: str) -> str:
        if key not in found and here:
            return "The file names no cluster: the job runs on the cluster local, which is this machine."
        if key not in found:
            return (
                "No compute: Azure finds a machine. It needs resources.instance_type; queue_settings has the job tier."
            )
        cluster = found[key]
        return cluster.error or f"{cluster.type} of {cluster.size}, {cluster.tier}; {cluster.state}."

    columns = (
        Column("name", "CLUSTER", None, minimum=14, priority=100),
        Column("room", "NODES", 14, priority=90),
        Column("waiting", "WAITING", 8, priority=70),
        Column("cores", "A NODE HAS", 16, priority=60),
        Column("state", "STATE", None, minimum=10, priority=80),
    )
    return await screen.app.push_screen_wait(ChooseScreen("Where the job runs", columns, rows, hint, now))


def room_of(clusters: Sequence[Cluster], name: str) -> str:
    """The room of a cluster, as `1 of 2 free`; empty where nothing is known of it."""
    cluster = next((cluster for cluster in clusters if cluster.name == name), None)
    if cluster is None:
        return "not known here" if name and clusters else ""
    return cluster_room(cluster)


def cluster_room(cluster: Cluster) -> str:
    """`1 of 2 free`: nodes that hold no job, of the most there can be."""
    return f"{max(0, cluster.max_nodes - cluster.busy_nodes)} of {cluster.max_nodes} free"


def cluster_row(cluster: Cluster) -> Row:
    """A cluster with its room: free nodes, jobs that wait, cores and GPUs of a node, state."""
    free = max(0, cluster.max_nodes - cluster.busy_nodes)
    cores = f"{cluster.cores_per_node} core{'s' * (cluster.cores_per_node != 1)}"
    gpus = f", {cluster.gpus_per_node} GPU{'s' * (cluster.gpus_per_node > 1)}" if cluster.gpus_per_node else ""
    waiting = f"{cluster.queued_jobs} job{'s' * (cluster.queued_jobs > 1)}" if cluster.queued_jobs else "none"
    if cluster.queued_jobs is None:  # it is not told, which is not none
        waiting = words.count(None)
    return Row(
        cluster.name,
        (
            cluster.name,
            Cell(room_of((cluster,), cluster.name), "ok" if free else "warn"),
            Cell(waiting, "warn" if cluster.queued_jobs else "muted"),
            f"{cores}{gpus}",
            Cell(cluster.error, "error") if cluster.error else Cell(cluster.state, "muted"),
        ),
    )


async def choose_data_asset(screen: ConsoleScreen, now: str | None = None) -> str | None:
    """Let one choose a data asset: `azureml:name:version`, or None when it was left. Call it in a worker."""
    found: dict[str, DataAsset] = {}

    async def rows() -> Rows:
        found.update((f"azureml:{data.name}:{data.version}", data) for data in await screen.workspace.data_assets())
        return [
            Row(key, (f"{data.name}:{data.version}", data.type, data.description, Cell(data.path, "muted")))
            for key, data in found.items()
        ]

    def hint(key: str) -> str:
        return f"{found[key].description} {found[key].path}".strip() if key in found else ""

    columns = (
        Column("name", "DATA ASSET", None, minimum=20, priority=100),
        Column("type", "TYPE", 10, priority=90),
        Column("about", "WHAT IT IS", None, minimum=24, priority=80),
        Column("path", "PATH", None, minimum=20, priority=50),
    )
    empty = "This workspace has no data assets yet."
    return await screen.app.push_screen_wait(ChooseScreen("Data assets", columns, rows, hint, now, empty))


async def choose_model(screen: ConsoleScreen, now: str | None = None) -> str | None:
    """Let one choose a model version: `azureml:name:version`, or None when it was left. Call it in a worker."""
    found: dict[str, Model] = {}

    async def rows() -> Rows:
        found.update((f"azureml:{model.reference}", model) for model in await screen.workspace.models())
        return [Row(key, _model_cells(model)) for key, model in found.items()]

    def hint(key: str) -> str:
        return found[key].description if key in found else ""

    columns = (
        Column("name", "MODEL", None, minimum=20, priority=100),
        Column("type", "TYPE", 14, priority=80),
        Column("metric", "METRIC", 18, "right", priority=90),
        Column("about", "WHAT IT IS", None, minimum=20, priority=60),
    )
    empty = "This workspace has no models yet."
    return await screen.app.push_screen_wait(ChooseScreen("Models", columns, rows, hint, now, empty))


def _model_cells(model: Model) -> tuple[Cell | str, ...]:
    metric = f"{model.best_metric[0]} {words.metric(model.best_metric[1])}" if model.best_metric else ""
    return model.reference, model.type, metric, Cell(model.description, "muted")
