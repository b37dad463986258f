"""The list of jobs: the first screen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from footplate.workspace import Job, JobFilter

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
_FULL_LOOK_SECONDS, _LONG_LOOK_SECONDS = 30, 600


def status_cell(status: str) -> Cell:
    """A status as Azure spells it, told by its first letter as well as by colour."""
    letter = _LETTERS.get(status, status[:1].upper())
    return Cell(f"{letter} {status}", _STATUS_STYLES.get(status, "plain"))


class JobsScreen(ListScreen):
    """Jobs, newest first."""

    where = "jobs"
    BINDINGS = bindings("jobs")
    marking = True
    columns: ClassVar[tuple[Column, ...]] = (
        Column("name", "NAME", None, minimum=20, priority=100),
        Column("status", "STATUS", 14, priority=99),
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

    async def fetch(self) -> Sequence[Row]:
        """The newest page each second; all pages at first and now and then, shown as they come.

        Where the workspace asks for the newest jobs only, the older pages are asked for seldom.
        """
        now, limit = datetime.now(UTC), self.workspace.newest_jobs
        seldom = _FULL_LOOK_SECONDS if limit is None else _LONG_LOOK_SECONDS
        whole = self._whole is None or (now - self._whole).total_seconds() > seldom
        seen: dict[str, Job] = {}
        async for page in self.workspace.jobs(JobFilter()):
            seen.update((job.name, job) for job in page)
            if not whole:
                break
            if not self._loaded:
                self._jobs = dict(seen)
                await self._draw_first(self._build(now))
            if limit is not None and len(seen) >= limit:
                self.scope = " newest"
                break
        if whole:
            self._whole = now
            self._jobs = seen
        else:
            oldest = min((job.created for job in seen.values()), default=now)
            self._jobs = seen | {n: j for n, j in self._jobs.items() if n not in seen and j.created < oldest}
        self.console.summarise(self._jobs.values())
        return await asyncio.to_thread(self._build, now)

    async def _draw_first(self, rows: Sequence[Row]) -> None:
        """Show the newest page and wait until it is on screen: reading the rest at the same time would delay it."""
        with suppress(WorkerCancelled):
            await self.show_rows(rows).wait()
        drawn = asyncio.Event()
        if self.call_after_refresh(drawn.set):
            await drawn.wait()

    def _build(self, now: datetime) -> list[Row]:
        """Rows in the jobs' order; one whose job and age are unchanged is the same object, so nothing is drawn again."""
        rows = []
        for job in self._jobs.values():
            ages = f"{words.age(job.created, now)} {words.span(job.seconds(now))}"
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
                job.experiment,
                job.compute,
                f"{job.nodes}×{job.ranks_per_node}",
                words.age(job.created, now),
                words.span(job.seconds(now)),
                metric,
                Cell(job.error, "error") if job.error else Cell(job.note, "muted"),
            ),
        )

    def explain(self, key: str) -> Content:
        """Why it waits or failed, or what it is."""
        job = self._jobs.get(key)
        if job is None:
            return Content("")
        if job.error:
            return Content.assemble((f"{job.name}  ", "bold"), (clean(job.error), "$text-error"))
        inputs = ", ".join(f"{name} {value}" for name, value in job.inputs.items())
        rest = job.note or inputs or job.command.strip()
        return Content.assemble((f"{clean(job.display_name or job.name)}  ", "bold"), (clean(rest), "$text-muted"))

    def not_now(self, key: str | None) -> frozenset[str]:
        """A job that has ended cannot be cancelled; one that goes on has no model yet."""
        job = self._jobs.get(key) if key else None
        if job is None:
            return frozenset({"open", "logs", "metrics", "clone", "cancel", "register"})
        return frozenset({"register"} if job.active else {"cancel"})

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

    def action_cancel(self) -> None:
        """Cancel the marked jobs, or the one under the cursor, after asking."""
        names = self.table.marks or {self.table.cursor_key}
        if active := [job for name, job in self._jobs.items() if name in names and job.active]:
            self.console.cancel_jobs(active)
        elif names != {None}:
            self.console.notify("Nothing to cancel: it has ended.", markup=False, timeout=4)

    def action_mark(self) -> None:
        """Mark the job under the cursor."""
        self.table.action_mark()

    def action_register(self) -> None:
        """Register the model of the job under the cursor."""
        if (job := self.current()) and not job.active:
            self.console.register_job(job)

    def action_demo(self) -> None:
        """Run the whole line; at once on an empty list, else after asking."""
        self.console.run_demo(ask=bool(self._jobs))
