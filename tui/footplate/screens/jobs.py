"""The list of jobs: the first screen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import ClassVar

from textual import work
from textual.content import Content
from textual.worker import WorkerCancelled

from footplate import words
from footplate.logs.sanitise import clean
from footplate.screens.base import bindings
from footplate.screens.listing import ListScreen
from footplate.widgets.virtual_table import Cell, CellStyle, Column, Row
from footplate.workspace import Job, JobFilter, WorkspaceError

_STATUS_STYLES: dict[str, CellStyle] = {
    "Completed": "ok",
    "Running": "accent",
    "Finalizing": "accent",
    "Failed": "error",
    "NotResponding": "error",
    "Canceled": "muted",
    "CancelRequested": "warn",
    "Queued": "warn",
    "Preparing": "warn",
    "Provisioning": "warn",
    "Starting": "warn",
}
_LETTERS = {"Canceled": "X", "CancelRequested": "X"}  # Completed has the C
_RUNNING = ("Running", "NotResponding")
_FIRST_STALL_LOOK_SECONDS, _STALL_LOOK_SECONDS = 2.0, 30.0
_MOST_LOOKED_AT = 20
"""Running jobs whose logs are asked for at a time, the newest."""
_FULL_LOOK_SECONDS, _LONG_LOOK_SECONDS = 30, 60


def status_cell(status: str) -> Cell:
    """A status as Azure spells it, told by its first letter as well as by colour."""
    letter = _LETTERS.get(status, status[:1].upper())
    return Cell(f"{letter} {status}", _STATUS_STYLES.get(status, "plain"))


class JobsScreen(ListScreen):
    """Jobs, newest first."""

    where = "jobs"
    BINDINGS = bindings("jobs")
    marking = True
    watched_kind = "job"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "NAME", None, minimum=20, priority=100),
        Column("status", "STATUS", 14, priority=99),
        Column("display", "DISPLAY NAME", None, minimum=16, priority=45),
        Column("experiment", "EXPERIMENT", 14, priority=50),
        Column("cluster", "CLUSTER", 12, priority=55),
        Column("ranks", "N×R", 5, priority=60),
        Column("age", "AGE", 4, "right", priority=80),
        Column("took", "TOOK", 6, "right", priority=75),
        Column("metric", "METRIC", 19, "right", priority=70),
        Column("note", "NOTE", None, minimum=16, priority=40),
    )
    empty = (
        "No jobs yet.\n\n"
        "5  launch one from a template\n"
        "d  run the whole line on drawn birds: train on two processes,\n"
        "   register, deploy, predict; in about two minutes"
    )

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[str, Job] = {}
        self._rows: dict[str, tuple[Job, str, Row]] = {}
        self._whole: datetime | None = None
        self._archived = False
        self._as_of: datetime | None = None
        """When the workspace answered last; what is on screen is no younger."""
        self._answered = False
        self._stalled: dict[str, str] = {}
        """What is said of running jobs that make no progress."""
        self._told_stalls: set[str] = set()

    def on_mount(self) -> None:
        """Look now and then for running jobs that make no progress."""
        self.set_timer(_FIRST_STALL_LOOK_SECONDS, self._look_for_stalls)
        self.set_interval(_STALL_LOOK_SECONDS, self._look_for_stalls)

    async def fetch(self) -> Sequence[Row]:
        """The newest page each second; all pages at first and now and then, shown as they come.

        Before the first answer, what was seen last is shown with its age. Where the workspace asks for the newest jobs only,
        the older pages are asked for seldom.
        """
        now, limit = datetime.now(UTC), self.workspace.newest_jobs
        if not self._loaded:
            await self._show_cached(now)
        seldom = _FULL_LOOK_SECONDS if limit is None else _LONG_LOOK_SECONDS
        whole = self._whole is None or (now - self._whole).total_seconds() > seldom
        if whole:
            self._whole = now
        try:
            seen = await self._read(now, limit, whole)
        except WorkspaceError:
            self._whole = None if whole else self._whole
            raise
        if whole:
            self._jobs = seen
        else:
            self._jobs = self._with_older(seen, now)
        self._note_answer(now)
        return await asyncio.to_thread(self._build, now)

    async def _show_cached(self, now: datetime) -> None:
        """Show the jobs as they were seen last: the workspace may take a while to answer."""
        kept, self._as_of = await self.workspace.cached_jobs()
        if kept:
            self._jobs = {job.name: job for job in kept}
            self.console.summarise(kept, self._as_of)
            await self._draw_first(self._build(now))

    def _note_answer(self, now: datetime) -> None:
        self._as_of, self._answered = now, True
        self.console.summarise(self._jobs.values())

    def say_fault(self, sentence: str) -> None:
        """The rows stay, and their age is said."""
        super().say_fault(sentence)
        if self._jobs:
            self.console.summarise(self._jobs.values(), self._as_of)

    def _with_older(self, seen: Mapping[str, Job], now: datetime) -> dict[str, Job]:
        """The newest jobs, and those beyond them that are known."""
        oldest = min((job.created for job in seen.values()), default=now)
        return dict(seen) | {n: j for n, j in self._jobs.items() if n not in seen and j.created < oldest}

    async def _read(self, now: datetime, limit: int | None, whole: bool) -> dict[str, Job]:
        """The newest page, or all that are asked for."""
        seen: dict[str, Job] = {}
        async for page in self.workspace.jobs(JobFilter(archived=self._archived)):
            seen.update((job.name, job) for job in page)
            if not whole:
                break
            if not self._answered:
                self._jobs = self._with_older(seen, now)
                self._note_answer(now)
                await self._draw_first(self._build(now))
            if limit is not None and len(seen) >= limit:
                self.scope = " newest"
                break
        return seen

    async def _draw_first(self, rows: Sequence[Row]) -> None:
        """Show the newest page and wait until it is on screen: reading the rest at the same time would delay it."""
        with suppress(WorkerCancelled):
            await self.show_rows(rows).wait()
        drawn = asyncio.Event()
        if self.call_after_refresh(drawn.set):
            await drawn.wait()

    @work(exclusive=True, group="stalls")
    async def _look_for_stalls(self) -> None:
        """See which running jobs make no progress; each is told once, unless it is watched, which tells it by itself."""
        if not self.is_current:
            return
        from footplate.operations.stalls import stalled_seconds

        running = [job for job in self._jobs.values() if job.started is not None and job.status in _RUNNING]
        found: dict[str, str] = {}
        for job in running[:_MOST_LOOKED_AT]:
            try:
                quiet = await stalled_seconds(self.workspace, job, self.console.quiet_minutes)
            except WorkspaceError:  # the list itself says what is wrong with the workspace
                return
            if quiet is not None:
                found[job.name] = f"no progress for {words.span(quiet)}"
        self._stalled = found
        new = [name for name in found if name not in self._told_stalls and ("job", name) not in self.console.watched]
        self._told_stalls |= found.keys()
        if new:
            named = (
                f"{new[0]}: {found[new[0]]}" if len(new) == 1 else f"{len(new)} jobs make no progress: {', '.join(new)}"
            )
            self.console.notify(clean(named), severity="warning", markup=False, timeout=10)
        self.poll()

    def _build(self, now: datetime) -> list[Row]:
        """Rows in the jobs' order; one whose job and age are unchanged is the same object, so nothing is drawn again."""
        rows = []
        for job in self._jobs.values():
            ages = f"{words.age(job.created, now)} {words.span(job.seconds(now))} {self._stalled.get(job.name, '')}"
            known = self._rows.get(job.name)
            if known is None or known[1] != ages or known[0] != job:
                known = self._rows[job.name] = (job, ages, self._row(job, now))
            rows.append(known[2])
        return rows

    def _row(self, job: Job, now: datetime) -> Row:
        metric = f"{job.headline[0]} {words.metric(job.headline[1])}" if job.headline else ""
        return Row(
            job.name,
            (
                job.name,
                status_cell(job.status),
                job.display_name if job.display_name != job.name else "",
                job.experiment,
                job.compute,
                f"{job.nodes}×{job.ranks_per_node}",
                words.age(job.created, now),
                words.span(job.seconds(now)),
                metric,
                _note(job, self._stalled.get(job.name, "")),
            ),
        )

    def explain(self, key: str) -> Content:
        """Why it waits or failed, or what it is."""
        job = self._jobs.get(key)
        if job is None:
            return Content("")
        said = clean(job.display_name or job.name)
        if job.error:
            return Content.assemble((f"{said}  ", "bold"), (clean(job.error.splitlines()[0]), "$text-error"))
        inputs = ", ".join(f"{name} {value}" for name, value in job.inputs.items())
        rest = job.note or inputs or job.command.strip()
        return Content.assemble((f"{said}  ", "bold"), (clean(rest), "$text-muted"))

    def not_now(self, key: str | None) -> frozenset[str]:
        """A job that has ended cannot be cancelled; one that goes on has no model yet."""
        job = self._jobs.get(key) if key else None
        if job is None:
            return frozenset(
                {
                    "open",
                    "logs",
                    "metrics",
                    "clone",
                    "cancel",
                    "register",
                    "archive",
                    "edit",
                    "copy",
                    "download",
                    "watch",
                }
            )
        return frozenset({"register"} if job.active and job.type != "sweep" else {"cancel"} if not job.active else ())

    # Keys

    def current(self) -> Job | None:
        """The job under the cursor."""
        key = self.table.cursor_key
        return self._jobs.get(key) if key else None

    def action_open(self) -> None:
        """Open the job: the children of one that has them, the log of one that goes on, the overview of one that ended."""
        if job := self.current():
            own = "logs" if job.active else "overview"
            self.console.open_job(job.name, "children" if job.type in ("sweep", "pipeline", "automl") else own)

    def action_logs(self) -> None:
        """Open the job at its log."""
        if job := self.current():
            self.console.open_job(job.name, "logs")

    def action_metrics(self) -> None:
        """Open the job at its metrics."""
        if job := self.current():
            self.console.open_job(job.name, "metrics")

    @work(exclusive=True, group="clone")
    async def action_clone(self) -> None:
        """Open the form on the job's file, to launch it again."""
        from footplate.screens.clone import open_clone  # reads YAML, which a list need not wait for

        if self.console.cannot("job_file"):
            return
        if job := self.current():
            await open_clone(self, job.name)

    def _chosen(self) -> list[Job]:
        """The marked jobs, or the one under the cursor."""
        names = self.table.marks or {self.table.cursor_key}
        return [job for name, job in self._jobs.items() if name in names]

    # Dialogs are loaded when they are first asked for: the first frame need not wait for them.

    def action_cancel(self) -> None:
        """Cancel the marked jobs, or the one under the cursor, after asking."""
        from footplate.screens import job_acts

        chosen = self._chosen()
        if active := [job for job in chosen if job.active]:
            self.console.act(job_acts.cancel(self.console, active))
        elif chosen:
            self.console.notify("Nothing to cancel: it has ended.", markup=False, timeout=4)

    @work(group="archive")
    async def action_archive(self) -> None:
        """Hide the marked jobs, or the one under the cursor, from the list; show again those that are hidden."""
        from footplate.screens import job_acts

        if chosen := self._chosen():
            await job_acts.archive(self.console, chosen)
            self.table.clear_marks()
            self._look_at_all()

    def action_archived(self) -> None:
        """Show archived jobs among the others, or no more."""
        self._archived = not self._archived
        said = (
            "Archived jobs are shown too; a brings one back, A hides them."
            if self._archived
            else "Archived jobs are hidden."
        )
        self.console.notify(said, markup=False, timeout=4)
        self._look_at_all()

    def _look_at_all(self) -> None:
        """Look at all pages again, since a job of any age came or went."""
        self._whole = None
        self.poll()

    def action_edit(self) -> None:
        """Change display name and tags."""
        from footplate.screens import job_acts

        if job := self.current():
            self.console.act(job_acts.edit(self.console, job))

    def action_compare(self) -> None:
        """The charts of the marked jobs over each other, with what differs."""
        from footplate.screens.compare import compare

        compare(self.console, self._chosen())

    def action_mark(self) -> None:
        """Mark the job under the cursor."""
        self.table.action_mark()

    def action_watch(self) -> None:
        """Watch the marked jobs, or the one under the cursor; or no more."""
        chosen = self._chosen()
        if going := [job.name for job in chosen if job.active]:
            self.console.alerting.toggle("job", *going)
        elif chosen:
            self.console.notify("Nothing to watch: it has ended.", markup=False, timeout=4)

    def action_download(self) -> None:
        """Fetch what the job wrote into a folder of this machine."""
        from footplate.screens import job_acts

        if job := self.current():
            self.console.act(job_acts.download(self.console, job))

    def action_register(self) -> None:
        """Register the model of the job under the cursor, of a sweep that of its best trial."""
        from footplate.screens import job_acts

        if (job := self.current()) and (not job.active or job.type == "sweep"):
            self.console.act(job_acts.register(self.console, job))

    def action_demo(self) -> None:
        """Run the whole line; at once on an empty list, else after asking."""
        from footplate.screens import demo_act

        self.console.act(demo_act.run(self.console, bool(self._jobs)))


def _note(job: Job, stalled: str) -> Cell:
    """Why it failed or what it does now, after the word that says it is archived, or that it stands still."""
    parts = ("archived" if job.archived else "", stalled, job.error or job.note)
    return Cell(" · ".join(part for part in parts if part), "error" if job.error else "warn" if stalled else "muted")
