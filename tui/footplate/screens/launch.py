"""Launch: the form of a job file, with what will really run beside it."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button

from footplate import words
from footplate.jobfile import form
from footplate.jobfile.check import unreadable
from footplate.jobfile.form import Field
from footplate.operations.outlook import REFUSED, Outlook, field_of
from footplate.screens import editor, field_lists, launch_dialogs, sweep_inputs
from footplate.screens.base import bindings
from footplate.screens.dialogs import TextDialog
from footplate.screens.form_screen import FormScreen
from footplate.screens.job_children import PARENTS
from footplate.widgets.fault_list import FaultList
from footplate.widgets.job_form import SWEEP, JobForm
from footplate.widgets.run_preview import RunPreview, preview
from footplate.workspace import Job

_BESIDE_FROM_WIDTH = 100
_LOW_BELOW = 32
"""Lines of a screen below which parts stand without a blank line between them."""


class LaunchScreen(FormScreen):
    """The form made of a job file. Every value typed goes into the file's text; the right side shows what that runs.

    `original` is the job file of a past job from which this one was cloned: how they differ is shown.
    """

    where = "launch"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("launch"),
        Binding("e", "edit", "Open in the editor", show=False),
        Binding("up", "app.focus_previous", "Field above", show=False),
        Binding("down", "app.focus_next", "Field below", show=False),
        Binding("ctrl+down", "section(1)", "Next part", show=False),
        Binding("ctrl+up", "section(-1)", "Part before", show=False),
        Binding("pageup", "scroll_plan(-1)", "Scroll what will run", show=False),
        Binding("pagedown", "scroll_plan(1)", "Scroll what will run", show=False),
    ]

    DEFAULT_CSS = """
    LaunchScreen > Horizontal { height: 1fr; }
    LaunchScreen #form { width: 1fr; min-width: 46; }
    LaunchScreen #plan { width: 1.2fr; border-left: solid $panel-lighten-2; }
    LaunchScreen #faults { border-top: solid $panel-lighten-2; }
    LaunchScreen #foot { height: 1; padding: 0 0 0 18; }
    LaunchScreen #launch { min-width: 14; }
    LaunchScreen.narrow > Horizontal { layout: vertical; }
    LaunchScreen.narrow #form { width: 1fr; height: 1fr; }
    LaunchScreen.narrow #plan { width: 1fr; height: 9; border-left: none; border-top: solid $panel-lighten-2; }
    LaunchScreen.narrow #faults { border-top: none; max-height: 50%; }
    LaunchScreen.low FormSection { margin: 0; }
    LaunchScreen.plan #form { display: none; }
    LaunchScreen.plan #plan { width: 1fr; height: 1fr; border: none; }
    """

    def crumbs(self) -> tuple[str, ...]:
        """`launch ▸ file`."""
        return ("launch", self.draft.opened.label)

    def compose(self) -> ComposeResult:
        """Form on the left, what will run on the right."""
        self._fit(self.app.size.width, self.app.size.height)
        yield self.top()
        with Horizontal():
            with Vertical(id="form"):
                yield JobForm(self._shown(form.fields(self.draft.base)))
                with Horizontal(id="foot"):
                    yield Button("Launch", id="launch", variant="primary", compact=True, disabled=True)
            with Vertical(id="plan"):
                yield RunPreview()
                yield FaultList(id="faults")
        yield self.keys()

    def on_resize(self) -> None:
        """Form and plan stand beside each other where there is room, else the plan below the form."""
        self._fit(self.size.width, self.size.height)
        if self.outlook is not None:
            self.catch_up()

    def _fit(self, width: int, height: int) -> None:
        self.set_class(width < _BESIDE_FROM_WIDTH, "narrow")
        self.set_class(height < _LOW_BELOW, "low")

    def on_mount(self) -> None:
        """Start on the first field."""
        if not self.display:  # left before it was drawn
            return
        editors = [widget for line in self.form.lines for widget in line.editors.values() if not widget.disabled]
        if editors:
            editors[0].focus()
        self.watch(self.console, "access", self._show_sending, init=False)
        self.look_up_clusters()
        self.catch_up()

    # Lists to choose from

    @on(JobForm.Wanted)
    def _wanted(self, event: JobForm.Wanted) -> None:
        self._choose(event.field)

    def action_pick(self) -> None:
        """Choose from a list what the field under the cursor holds."""
        field = self.form.focused_field()
        if field is not None and not field.fixed:
            self._choose(field)

    @work(exclusive=True, group="choose")
    async def _choose(self, field: Field) -> None:
        if field.path == SWEEP:
            await self._change_sweep()
            return
        now = self.form.line_of(field.path).value(field.path)
        chosen = await field_lists.choose_value(self, self.draft.base, field, now)
        if chosen is not None and self.display:
            self.form.line_of(field.path).put(field.path, chosen)
            self.draft.put(field.path, chosen)
            self.catch_up(rebase=True)

    async def _change_sweep(self) -> None:
        """A command job becomes a sweep over chosen inputs; a sweep that was made here goes back."""
        if self.draft.one_job is not None:
            one_job = self.draft.one_job if await launch_dialogs.back_to_one_job(self.app) else None
            sweep = None
        else:
            outlook = await self._worked_out()
            one_job = outlook.job_file if outlook is not None else None
            sweep = await self.guarded(sweep_inputs.make_sweep(self.app, one_job)) if one_job is not None else None
            if sweep is None:
                return
        if one_job is not None and self.display:
            self.draft.one_job = one_job if sweep is not None else None
            self.set_file(sweep or one_job)
            if sweep is not None:
                self.form.section("Limits").unfold()

    async def _worked_out(self) -> Outlook | None:
        """What all that is typed now comes to, shown or not; None, and said, where that cannot be told, or the form was left."""
        outlook = await self.guarded(asyncio.to_thread(self.draft.work_out, self.draft.state))
        return outlook if self.is_current else None

    # Keys

    @on(Button.Pressed, "#launch")
    def _pressed(self) -> None:
        self.action_launch()

    def action_section(self, step: int) -> None:
        """Go to the heading of another part."""
        self.form.next_section(step)

    def action_scroll_plan(self, step: int) -> None:
        """Scroll what will run by a page."""
        plan = self.query_one(RunPreview)
        plan.scroll_relative(y=step * max(1, plan.size.height - 2), animate=False)

    def action_view(self) -> None:
        """What will run on the whole screen, and back."""
        self.toggle_class("plan")
        self.call_after_refresh(self.catch_up)

    def action_next_fault(self) -> None:
        """Go to the field of the next fault."""
        paths = [field.path for line in self.form.lines for field in line.fields]
        known = dict.fromkeys(paths)
        at = {place for fault in self._faults if (place := field_of(fault.place, known)) is not None}
        ordered = [path for path in paths if path in at]
        if not ordered:
            self.console.notify("No field has a fault.", markup=False, timeout=3)
            return
        field = self.form.focused_field()
        here = paths.index(field.path) if field is not None and field.path in paths else -1
        self.remove_class("plan")
        self.form.go_to(next((path for path in ordered if paths.index(path) > here), ordered[0]))

    def action_dry_run(self) -> None:
        """Show all that is known of what would run, and the file as it would be sent."""
        if self.outlook is not None:
            room = self.size.width * 9 // 10 - 6
            text = preview(self.outlook, self.workspace.kind == "local", room, 5000, self._contrasts)
            self.app.push_screen(TextDialog(f"{self.draft.opened.label} as it would be launched", text))

    def action_launch(self) -> None:
        """Start the job and go to its log; a second press while it starts does nothing."""
        if not self._starting and self.display:
            self._starting = True
            self._show_sending()
            # The app's own worker: what is under way when the form is left is not cut off halfway.
            self.app.run_worker(self._start(), group="launch")

    def _show_sending(self) -> None:
        """On the button, while the job starts: that it does, and how far its upload is."""
        if self._starting and self.display:
            button, sent = self.query_one("#launch", Button), self.workspace.upload
            button.disabled = True
            button.label = (
                f"Launching: {words.transfer('uploading', sent.done, sent.total)}"
                if sent is not None
                else "Launching …"
            )
            button.refresh(layout=True)

    async def _start(self) -> None:
        job = await self.guarded(self._launch())
        self._starting = False
        if job is not None:
            self.console.alerting.launched(job.name)
        if job is None:
            self.catch_up()
        elif self.is_current:
            self.app.pop_screen()
            self.console.open_job(job.name, "children" if job.type in PARENTS else "logs")
        else:
            self.console.notify(f"{job.name} is {job.status}; 1 shows it.", markup=False)

    async def _launch(self) -> Job | None:
        """With the values as they are in the fields now, whether or not what they run is on screen yet."""
        outlook = await asyncio.to_thread(self.draft.work_out, self.draft.state)
        faults = [*outlook.refused, *await self._check(outlook.job_file)]
        errors = [fault for fault in faults if fault.severity == "error"]
        grave = [fault for fault in errors if unreadable(fault) or fault.code == REFUSED]
        if grave:
            self.console.notify(grave[0].sentence, title="This cannot be launched", severity="error", markup=False)
            if self.display:
                self.go_to_fault(grave[0])
            return None
        if errors and not self.is_current:
            said = f"{self.draft.opened.label} was not launched: its form was left, and it has errors."
            self.console.notify(said, severity="warning", markup=False)
            return None
        if errors:
            self._starting = False
            self._show_button(outlook)  # nothing starts while it is asked
            if not await launch_dialogs.launch_all_the_same(self.app, errors):
                if self.is_current:
                    self.go_to_fault(errors[0])
                return None
            self._starting = True
            self._show_sending()
        return await self.workspace.submit(outlook.job_file)

    def action_back(self) -> None:
        """Leave the form; where values were changed, after asking."""
        if self.has_class("plan"):
            self.remove_class("plan")
        else:
            self._leave()

    @work(exclusive=True, group="leave")
    async def _leave(self) -> None:
        count = self.draft.changes()
        if not count or await launch_dialogs.leave(self.app, count):
            self.console.step_back()

    # Templates and the editor

    @work(exclusive=True, group="ask")
    async def action_save_template(self) -> None:
        """Ask for a name, then save the file as it is now."""
        outlook = await self._worked_out()
        if outlook is not None:
            saved = await self.guarded(launch_dialogs.save_as_template(self, outlook.job_file))
            if saved is not None:
                self.console.notify(f"Saved as {words.path(saved)}.", markup=False)

    @work(exclusive=True, group="editor")
    async def action_edit(self) -> None:
        """Open the file as it is now in the user's editor; come back with what was saved."""
        outlook = await self._worked_out()
        if outlook is not None:
            edited = await self.guarded(editor.edit_job_file(self.app, outlook.job_file))
            if edited is not None and self.display:
                self.set_file(edited)
