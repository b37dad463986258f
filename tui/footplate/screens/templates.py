"""The list of job files that can be launched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from footplate import words
from footplate.faults import record
from footplate.jobfile import JobFile, kinds
from footplate.logs.sanitise import clean
from footplate.operations import launch
from footplate.screens.base import ConsoleScreen, bindings
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable
from footplate.workspace import WorkspaceError


class TemplatesScreen(ConsoleScreen):
    """Footplate's own templates, those of `./jobs`, and the user's own."""

    where = "templates"
    BINDINGS = bindings("templates")

    DEFAULT_CSS = """
    TemplatesScreen #explain { height: 3; padding: 0 2; border-top: solid $panel-lighten-2; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._about: dict[str, Cell | str] = {}

    def crumbs(self) -> tuple[str, ...]:
        """`launch`."""
        return ("launch",)

    def compose(self) -> ComposeResult:
        """The list, and the whole of what the row under the cursor has no room for."""
        yield self.top()
        columns = (
            Column("file", "TEMPLATE", 28, priority=100),
            Column("kind", "KIND", 18, priority=80),
            Column("about", "WHAT IT DOES", None, minimum=28, priority=90),
            Column("folder", "FOLDER", None, minimum=24, priority=10),
        )
        table = VirtualTable(columns, id="table")
        table.empty = "No job files. Put Azure ML job files (YAML) into ./jobs where you start footplate."
        yield table
        yield Static("", id="explain", markup=False)
        yield self.keys()

    def on_mount(self) -> None:
        """Read the templates off the loop."""
        self.query_one(VirtualTable).focus()
        self.load()

    def on_screen_resume(self) -> None:
        """A file may have come or gone."""
        self.load()

    @work(exclusive=True, group="templates", thread=True)
    def load(self) -> None:
        """Read every template's first facts; one that cannot be read is listed with the reason."""
        self.app.call_from_thread(self._show, [_row(path) for path in launch.templates()])

    def _show(self, rows: Sequence[Row]) -> None:
        self._about = {row.key: row.cells[2] for row in rows}
        table = self.query_one(VirtualTable)
        table.set_rows(rows)
        self._explain(table.cursor_key)

    @on(VirtualTable.Highlighted)
    def _highlighted(self, event: VirtualTable.Highlighted) -> None:
        self._explain(event.key)

    def _explain(self, key: str | None) -> None:
        """Where the file lies, since two folders may hold one of the same name, and what it does."""
        about = self._about.get(key or "", "")
        text, style = (about, "") if isinstance(about, str) else (about.text, "$text-error" * (about.style == "error"))
        where = words.path(Path(key)) if key else ""
        self.query_one("#explain", Static).update(
            Content.assemble((clean(where), "$foreground"), "\n", (clean(" ".join(text.split())), style))
        )

    @on(VirtualTable.Selected)
    def _selected(self) -> None:
        self.action_open()

    @work(exclusive=True, group="open")
    async def action_open(self) -> None:
        """Open the form; a file that cannot be one is explained instead."""
        key = self.query_one(VirtualTable).cursor_key
        if key is not None:
            job_file = await self.guarded(asyncio.to_thread(launch.prepare, Path(key)))
            if job_file is not None:
                open_job_file(self, job_file)


def open_job_file(screen: ConsoleScreen, job_file: JobFile) -> None:
    """Open a file as its kind asks for; of one that is no job, say what it is."""
    from footplate.screens.launch import LaunchScreen
    from footplate.screens.pipeline import PipelineScreen

    if job_file.kind in kinds.JOBS:
        form = PipelineScreen if job_file.kind == "pipeline" else LaunchScreen
        screen.app.push_screen(form(job_file))
        return
    what = f"{job_file.label} is {kinds.TITLES[job_file.kind]}."
    step = "The launch form opens command, sweep and pipeline jobs; footplate check tells what is wrong with others."
    screen.console.notify(f"{what}\n{step}", severity="warning", markup=False, timeout=10)


def _row(path: Path) -> Row:
    kind = ""
    try:
        file = launch.prepare(path)
        about: Cell | str = file.description or file.display_name or file.experiment_name
        kind = _kind(file)
        if file.kind not in kinds.JOBS:
            about = Cell(f"{kinds.TITLES[file.kind]}, which is not launched", "muted")
    except WorkspaceError as error:
        about = Cell(str(error), "error")
    except Exception as error:  # noqa: BLE001  one strange file must not hide the others
        about = Cell(f"footplate cannot read it: {error!r}. See {record(error)}.", "error")
    return Row(str(path), (path.name, kind, about, Cell(words.path(path.parent), "muted")))


def _kind(file: JobFile) -> str:
    """`command 2×4`, `sweep 12 trials`, `pipeline 3 steps`."""
    if file.kind == "command":
        return f"command {file.nodes}×{file.ranks_per_node}"
    if file.kind == "sweep":
        trials = file.whole("limits", "max_total_trials", default=0)
        return f"sweep {trials} trial{'s' * (trials != 1)}" if trials else "sweep"
    if file.kind == "pipeline":
        steps = len(file.mapping("jobs"))
        return f"pipeline {steps} step{'s' * (steps != 1)}"
    return file.kind
