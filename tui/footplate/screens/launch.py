"""Launch: choose a template, change its values, see what will really run, start it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Static

from footplate import words
from footplate.faults import record
from footplate.jobfile import JobFile, plan
from footplate.jobfile.upload import Upload
from footplate.logs.sanitise import clean
from footplate.operations import launch
from footplate.screens.base import ConsoleScreen, bindings
from footplate.screens.dialogs import ConfirmDialog, TextDialog
from footplate.widgets.virtual_table import Cell, Column, Row, VirtualTable
from footplate.workspace import Job, WorkspaceError

_BESIDE_FROM_WIDTH = 100


class TemplatesScreen(ConsoleScreen):
    """The job files that can be launched."""

    where = "templates"
    BINDINGS = bindings("templates")

    def crumbs(self) -> tuple[str, ...]:
        """`launch`."""
        return ("launch",)

    def compose(self) -> ComposeResult:
        """The list."""
        yield self.top()
        columns = (
            Column("file", "TEMPLATE", 28, priority=100),
            Column("kind", "N×R", 5, priority=80),
            Column("about", "WHAT IT DOES", None, minimum=30, priority=90),
            Column("folder", "FOLDER", None, minimum=24, priority=10),
        )
        table = VirtualTable(columns, id="table")
        table.empty = "No job files. Put Azure ML job files (YAML) into ./jobs where you start footplate."
        yield table
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
        rows = []
        for path in launch.templates():
            try:
                file = launch.prepare(path)
                about: Cell | str = file.description or file.display_name or file.experiment_name
                shape = f"{file.nodes}×{file.ranks_per_node}"
            except WorkspaceError as error:
                about, shape = Cell(str(error), "error"), ""
            except Exception as error:  # noqa: BLE001  one strange file must not hide the others
                about, shape = Cell(f"footplate cannot read it: {error!r}. See {record(error)}.", "error"), ""
            rows.append(Row(str(path), (path.name, shape, about, Cell(words.path(path.parent), "muted"))))
        self.app.call_from_thread(self.query_one(VirtualTable).set_rows, rows)

    @on(VirtualTable.Selected)
    def _selected(self) -> None:
        self.action_open()

    @work(exclusive=True, group="open")
    async def action_open(self) -> None:
        """Open the form; a file with a fault is explained instead."""
        key = self.query_one(VirtualTable).cursor_key
        if key is not None:
            job_file = await self.guarded(asyncio.to_thread(launch.prepare, Path(key)))
            if job_file is not None:
                self.app.push_screen(LaunchScreen(job_file))


class LaunchScreen(ConsoleScreen):
    """The form made of a job file. Every value typed goes into the file's text; the right side shows what that runs."""

    where = "launch"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("launch"),
        Binding("up", "app.focus_previous", "Field above", show=False),
        Binding("down", "app.focus_next", "Field below", show=False),
    ]

    DEFAULT_CSS = """
    LaunchScreen > Horizontal { height: 1fr; }
    LaunchScreen #form { width: 1fr; min-width: 36; padding: 0 1; scrollbar-size-vertical: 1; }
    LaunchScreen #plan { width: 1.2fr; padding: 0 1; border-left: solid $panel-lighten-2; scrollbar-size-vertical: 1; }
    LaunchScreen.narrow > Horizontal { layout: vertical; }
    LaunchScreen.narrow #form { width: 1fr; height: 1fr; }
    LaunchScreen.narrow #plan { width: 1fr; height: 10; border-left: none; border-top: solid $panel-lighten-2; }
    LaunchScreen .head { color: $text-muted; text-style: bold; height: 1; margin: 1 0 0 0; }
    LaunchScreen .row { height: 1; }
    LaunchScreen .label { width: 16; height: 1; }
    LaunchScreen .read { width: 12; height: 1; color: $text-muted; padding: 0 0 0 1; }
    LaunchScreen #form Input { width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; }
    LaunchScreen #form Input:focus { background: $primary-muted; }
    LaunchScreen #launch { margin: 1 0 0 16; min-width: 14; }
    LaunchScreen #plan-text { height: auto; }
    """

    def __init__(self, job_file: JobFile) -> None:
        super().__init__()
        self._original = job_file
        self._file: JobFile | None = job_file
        self._fields: dict[str, str] = {}  # widget id → dotted key of the job file
        self._clusters: tuple[str, ...] = ()
        self._starting = False
        self._upload: Upload | None = None  # the code folder is listed once, not at every key

    def crumbs(self) -> tuple[str, ...]:
        """`launch ▸ file`."""
        return ("launch", self._original.label)

    def compose(self) -> ComposeResult:
        """Form on the left, plan on the right."""
        file = self._original
        yield self.top()
        with Horizontal():
            with VerticalScroll(id="form", can_focus=False):
                if file.inputs:
                    yield Static("Inputs", classes="head", markup=False)
                for name, given in file.inputs.items():
                    yield from self._row(
                        f"inputs.{name}", name, given.path if given.literal is None else given.literal, given.read_as
                    )
                yield Static("Where", classes="head", markup=False)
                yield from self._row("compute", "cluster", file.compute or "local", "")
                yield from self._row("resources.instance_count", "nodes", str(file.nodes), "")
                if file.distribution:
                    yield from self._row(
                        "distribution.process_count_per_instance", "ranks a node", str(file.ranks_per_node), ""
                    )
                yield Static("Name", classes="head", markup=False)
                yield from self._row("name", "job name", file.name or "", "made up" if not file.name else "")
                yield from self._row("experiment_name", "experiment", file.experiment_name, "")
                yield Button("Launch", id="launch", variant="primary", compact=True)
            with VerticalScroll(id="plan", can_focus=False):
                yield Static("", id="plan-text", markup=False)
        yield self.keys()

    def _row(self, key: str, label: str, value: str | None, read: str) -> ComposeResult:
        field = f"field-{len(self._fields)}"
        self._fields[field] = key
        with Horizontal(classes="row"):
            yield Static(Content(clean(label)), classes="label")
            # A value of several lines does not fit a field; it stays as it is in the file.
            lines = len((value or "").splitlines())
            yield (
                Input(clean(value or ""), id=field, compact=True, disabled=True)
                if lines > 1
                else Input(value or "", id=field, compact=True)
            )
            yield Static(Content(f"{lines} lines" if lines > 1 else read), id=f"{field}-read", classes="read")

    def on_resize(self) -> None:
        """Form and plan stand beside each other where there is room, else the plan below the form."""
        self.set_class(self.size.width < _BESIDE_FROM_WIDTH, "narrow")

    def on_mount(self) -> None:
        """Start on the first field."""
        for field in self.query(Input):
            field.cursor_blink = False
        self.query(Input).first().focus()
        self.look_up_clusters()
        self.replan()

    @work(exclusive=True, group="clusters")
    async def look_up_clusters(self) -> None:
        """Which clusters there are, so that a wrong name is said before launch."""
        clusters = await self.guarded(self.workspace.clusters())
        if clusters is not None:
            self._clusters = tuple(cluster.name for cluster in clusters)
            self.replan()

    @on(Input.Changed)
    def _changed(self) -> None:
        self.replan()

    @on(Input.Submitted)
    def _next_field(self) -> None:
        self.focus_next()

    def _edits(self) -> dict[str, object]:
        """What was typed, where it differs from the file."""
        edits: dict[str, object] = {}
        original = self._original
        for field, key in self._fields.items():
            widget = self.query_one(f"#{field}", Input)
            if widget.disabled:
                continue
            value = widget.value if key.startswith("inputs.") else widget.value.strip()
            before = {
                "compute": original.compute or "local",
                "resources.instance_count": str(original.nodes),
                "distribution.process_count_per_instance": str(original.ranks_per_node),
                "name": original.name or "",
                "experiment_name": original.experiment_name,
            }.get(key)
            if before is None:
                given = original.inputs[key.removeprefix("inputs.")]
                before = given.literal if given.literal is not None else given.path
            if value != before and not (key == "name" and not value):
                edits[key] = value
        return edits

    @work(exclusive=True, group="plan")
    async def replan(self) -> None:
        """Put the values into the file and show what that runs, or the fault; reading YAML and folders is a thread's work."""
        edits = self._edits()
        fault: list[str] = []
        worked_out = await self.guarded(asyncio.to_thread(self._work_out, edits), fault.append)
        if not self.query("#plan-text"):
            return  # left meanwhile
        if worked_out is None:
            self._file = None
            text = Content.assemble(("This cannot be launched", "bold $text-error"), f"\n{clean(fault[0])}")
        else:
            self._file, text = worked_out
        self.query_one("#plan-text", Static).update(text)
        self.query_one("#launch", Button).disabled = self._file is None or self._starting or self.console.read_only
        if self._file is not None:
            for field, key in self._fields.items():
                if key.startswith("inputs.") and not self.query_one(f"#{field}", Input).disabled:
                    given = self._file.inputs[key.removeprefix("inputs.")]
                    self.query_one(f"#{field}-read", Static).update(Content(given.read_as))

    def _work_out(self, edits: dict[str, object]) -> tuple[JobFile, Content]:
        file = launch.change_values(self._original, edits)
        self._upload = self._upload or launch.upload_of(file)
        return file, Content("\n").join(self._plan_text(file, launch.dry_run(file, self._upload)))

    def _plan_text(self, file: JobFile, document: dict[str, Any]) -> list[Content]:
        planned = plan(file)
        head, muted = "bold $text-accent", "$text-muted"
        command = planned.command.strip().splitlines()
        lines = [
            Content.assemble(("What will run   ", head), words.ranks(planned.nodes, planned.ranks_per_node)),
            *(Content(clean(line)) for line in command),
            Content(""),
        ]
        ranks = [rank["environment"] for rank in document["commands"]]
        shared = {k: v for k, v in ranks[0].items() if all(rank.get(k) == v for rank in ranks)}
        if shared:
            lines.append(
                Content.assemble(("every rank  ", muted), clean("  ".join(f"{k}={v}" for k, v in shared.items())))
            )
        for number, variables in enumerate(ranks[:8] if len(ranks) > 1 else []):
            own = "  ".join(f"{k}={v}" for k, v in variables.items() if k not in shared)
            lines.append(Content.assemble((f"rank {number:<7}", muted), clean(own)))
        if len(ranks) > 8:
            lines.append(Content.styled(f"… and {len(ranks) - 8} more", muted))
        upload = document["upload"]
        by = f", by {upload['ignored_by']}" if upload["ignored_by"] else ""
        code = f" from {file.values['code']}" if file.code else ""
        lines += [
            Content(""),
            Content.assemble(
                ("upload      ", muted), clean(f"{upload['files']} files, {words.size(upload['bytes'])}{by}{code}")
            ),
            Content.assemble(("environment ", muted), clean(file.environment.removeprefix("azureml://registries/"))),
        ]
        if self.workspace.kind == "local":
            lines.append(Content.styled("            this machine's Python stands in for it", muted))
        for name, given in file.inputs.items():
            before = self._original.inputs[name].read_as
            if before in ("integer", "number") and given.read_as == "text":
                value = f"{given.literal!r}" if given.literal else "nothing"
                lines += [
                    Content.styled(
                        clean(f"⚠ {name} is {before} in the file and is now text: {value}."), "$text-warning"
                    )
                ]
        compute = file.compute or "local"
        if self._clusters and compute not in self._clusters:
            lines += [
                Content(""),
                Content.styled(
                    clean(f"⚠ There is no cluster {compute!r}; known: {', '.join(self._clusters)}."), "$text-warning"
                ),
            ]
        return lines

    # Keys

    @on(Button.Pressed, "#launch")
    def _pressed(self) -> None:
        self.action_launch()

    def action_launch(self) -> None:
        """Start the job and go to its log; a second press while it starts does nothing."""
        if not self._starting:
            self._starting = True
            self.query_one("#launch", Button).disabled = True
            self._start()

    @work(group="launch")
    async def _start(self) -> None:
        job = await self.guarded(self._launch(self._edits()))
        self._starting = False
        if job is None:
            if self.query("#launch"):
                self.query_one("#launch", Button).disabled = False
        elif self.is_current:
            self.app.pop_screen()
            self.console.open_job(job.name, "logs")
        else:
            self.console.notify(f"{job.name} is {job.status}; 1 shows it.", markup=False)

    async def _launch(self, edits: dict[str, object]) -> Job:
        """With the values as they are in the fields now, whether or not their plan is on screen yet."""
        return await self.workspace.submit(await asyncio.to_thread(launch.change_values, self._original, edits))

    def action_back(self) -> None:
        """Leave the form; where values were changed, after asking."""
        self._leave()

    @work(exclusive=True, group="leave")
    async def _leave(self) -> None:
        if count := len(self._edits()):
            text = f"{count} changed value{'s' * (count > 1)} would be lost; the file itself is unchanged."
            if not await self.app.push_screen_wait(ConfirmDialog("Leave the form?", text, "Leave", harmless="Stay")):
                return
        self.console.step_back()

    def action_dry_run(self) -> None:
        """Show the file as it would be sent, with every change in it."""
        if self._file is not None:
            self.app.push_screen(TextDialog(f"{self._original.label} as it would be launched", self._file.text))
