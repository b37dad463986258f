"""A screen with the form of a job file: what is typed is worked out, and all that is shown keeps up with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from textual import on, work
from textual.content import Content
from textual.css.query import NoMatches
from textual.widget import Widget
from textual.widgets import Button, Input

from footplate import settings
from footplate.jobfile import JobFile, nodes
from footplate.jobfile.check import check
from footplate.jobfile.faults import Fault
from footplate.jobfile.form import OFF, Field
from footplate.logs.sanitise import clean
from footplate.operations import sweeps
from footplate.operations.check import check_for_launch
from footplate.operations.draft import Draft, State
from footplate.operations.outlook import REFUSED, Outlook, field_of
from footplate.screens import choose, launch_dialogs
from footplate.screens.base import ConsoleScreen
from footplate.widgets.fault_list import FaultList
from footplate.widgets.job_form import SWEEP, JobForm, shown_fields
from footplate.widgets.run_preview import RunPreview, preview
from footplate.workspace import Cluster, Contrast

_PAUSE_SECONDS = 0.06
"""What is typed within this time is worked out at once."""
_TOGETHER_SECONDS = 0.2
"""Faults that are found within this time are shown together with what will run."""


class FormScreen(ConsoleScreen):
    """A screen that is composed of a `JobForm`, a `RunPreview`, a `FaultList` and a button `#launch`, and keeps them true.

    `original` is the job file of a past job from which this one was cloned: how they differ is shown.
    """

    def __init__(self, job_file: JobFile, original: JobFile | None = None) -> None:
        super().__init__()
        self.draft = Draft(job_file, original)
        self._faults: tuple[Fault, ...] = ()
        self._clusters: tuple[Cluster, ...] = ()
        self._severities: Mapping[str, str] | None = None
        self._contrasts: Sequence[Contrast] = ()
        self._starting = False
        self._behind = self._keeping_up = self._rebase = False

    @property
    def outlook(self) -> Outlook | None:
        """The file with what was typed and what it runs, as it was worked out last."""
        return self.draft.outlook

    @property
    def settled(self) -> bool:
        """Whether all that was typed is worked out and shown."""
        return self.outlook is not None and not self._keeping_up

    @property
    def form(self) -> JobForm:
        """The form itself."""
        return self.query_one(JobForm)

    def editor(self, *path: str | int) -> Widget:
        """The widget that changes a value of the file."""
        return self.form.editor(*path)

    @work(exclusive=True, group="clusters")
    async def look_up_clusters(self) -> None:
        """Which clusters there are, and their room."""
        clusters = await self.guarded(self.workspace.clusters())
        if clusters is not None:
            self._clusters = tuple(clusters)
            self.catch_up()

    def _shown(self, fields: tuple[Field, ...]) -> list[Field]:
        """The fields that matter here, in their order, with the line that makes a sweep of a command job."""
        found = shown_fields(fields, self.workspace.kind == "local")
        if self.draft.base.kind == "command" and sweeps.sweepable(self.draft.base):
            found.append(Field(SWEEP, "sweep", "Sweep", "choice", hint=OFF))
        elif self.draft.one_job is not None:
            found.append(Field(SWEEP, "sweep", "Sweep", "choice", "on"))
        return found

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Until the form is there, keys do nothing but leave it."""
        return super().check_action(action, parameters) if self.is_mounted or action == "back" else False

    # Keeping up with what is typed

    @on(JobForm.Edited)
    def _edited(self, event: JobForm.Edited) -> None:
        self.draft.put(event.path, event.value)
        field = next((f for line in self.form.lines for f in line.fields if f.path == event.path), None)
        self.catch_up(rebase=field is not None and field.kind == "choice")

    @on(Input.Submitted)
    def _next_field(self) -> None:
        self.focus_next()

    def catch_up(self, rebase: bool = False) -> None:
        """Work out again what is shown, soon; `rebase` where fields may come or go."""
        self._behind = True
        self._rebase |= rebase
        if not self._keeping_up and self.display:
            self._keeping_up = True
            self._keep_up()

    @work(group="outlook")
    async def _keep_up(self) -> None:
        try:
            while self._behind and self.display:
                await asyncio.sleep(_PAUSE_SECONDS)
                self._behind = False
                await self._look_out()
        except NoMatches:
            if self.display:  # else the screen is being taken down, and nobody misses what it would have shown
                raise
        finally:
            self._keeping_up = False

    async def _look_out(self) -> None:
        """Reading YAML and folders is a thread's work; what comes back is shown at once, with the faults where they come soon."""
        state, rebase = self.draft.state, self._rebase
        self._rebase = False
        fault: list[str] = []
        room = self.query_one(RunPreview).room
        outlook, text = await self.guarded(asyncio.to_thread(self._work_out, state), fault.append), Content("")
        if outlook is not None:
            self._contrasts = await self.guarded(self.workspace.contrasts(outlook.job_file)) or ()
            here = self.workspace.kind == "local"
            text = await asyncio.to_thread(preview, outlook, here, room, contrasts=self._contrasts)
        if not self.display:
            return  # left meanwhile
        if outlook is None:
            self.query_one(RunPreview).show(Content.styled(clean(fault[0]), "$text-error"))
            return
        afresh = self.outlook is None
        if not self.draft.accept(state, outlook):
            self._behind = True  # another file came meanwhile
            self._rebase |= rebase
            return
        if rebase:
            self.draft.settle(state, outlook)
            await self.form.set_fields(self._shown(outlook.fields), self.draft.typed, afresh)
        checking = asyncio.ensure_future(self._faults_of(outlook))
        try:
            if not (await asyncio.wait({checking}, timeout=_TOGETHER_SECONDS))[0]:
                self._show(text)  # a slow workspace: what is known is shown first
            faults = await checking
        finally:
            checking.cancel()
        if self.display:
            self._faults = faults
            self._show(text)

    async def _faults_of(self, outlook: Outlook) -> tuple[Fault, ...]:
        """All that is wrong with an outlook's file; what the workspace could not tell is said among the faults."""
        fault: list[str] = []
        faults = await self.guarded(self._check(outlook.job_file), fault.append)
        if faults is None:
            faults = await asyncio.to_thread(check, outlook.job_file, self._severities)
            faults.append(Fault("not-asked", "warning", f"Not all could be checked: {fault[0]}", "", 0, 1))
        return (*outlook.refused, *faults)

    async def _check(self, job_file: JobFile) -> list[Fault]:
        """All faults, as grave as the settings say."""
        if self._severities is None:
            self._severities = (await asyncio.to_thread(settings.load)).check.severities
        return await check_for_launch(self.workspace, job_file, self._severities)

    def _work_out(self, state: State) -> Outlook:
        """In a thread: what a state comes to."""
        return self.draft.work_out(state)

    def _show(self, text: Content) -> None:
        """Bring everything that is drawn up to date at once: one layout, not one a part."""
        outlook = self.outlook
        assert outlook is not None
        with self.app.batch_update():
            self.query_one(RunPreview).show(text)
            self._show_faults()
            beside = [*self._faults, *launch_dialogs.stoppable(outlook)]
            self.form.show(
                outlook.fields, beside, self.draft.changed_fields(), self._told(outlook), outlook.spaces or {}
            )
            self._show_button(outlook)

    def _show_faults(self) -> None:
        self.query_one(FaultList).show(self._faults)

    def _told(self, outlook: Outlook) -> dict[nodes.Path, str]:
        """What is said beside a field in place of how its value was read: the room of its cluster."""
        at: nodes.Path = ("settings", "default_compute") if outlook.job_file.kind == "pipeline" else ("compute",)
        name = outlook.job_file.text_at(*at).removeprefix("azureml:")
        return {at: choose.room_of(self._clusters, name or ("local" if self.workspace.kind == "local" else ""))}

    def _show_button(self, outlook: Outlook) -> None:
        if self._starting:
            return  # the button says how far that is
        button = self.query_one("#launch", Button)
        button.disabled = self.console.read_only or bool(outlook.plan_fault) or outlook.impossible
        errors = sum(fault.severity == "error" for fault in self._faults)
        label = f"Launch with {errors} error{'s' * (errors > 1)} …" if errors and not button.disabled else "Launch"
        if any(fault.code == REFUSED for fault in self._faults):
            button.disabled, label = True, "Launch"
        if str(button.label) != label:
            button.label = label
            button.refresh(layout=True)

    def go_to_fault(self, fault: Fault) -> bool:
        """Put the focus on the field of a fault; False where no field has it."""
        known = {field.path: field for line in self.form.lines for field in line.fields}
        place = field_of(fault.place, known)
        if place is not None:
            self.remove_class("plan")
        return place is not None and self.form.go_to(place)

    def set_file(self, job_file: JobFile) -> None:
        """Show another state of the file; what was typed before is in it, or is gone."""
        self.draft.replace(job_file)
        self.catch_up(rebase=True)
