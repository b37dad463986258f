"""The commands on jobs: launch, jobs, job, logs, metrics, cancel, demo."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from footplate import words
from footplate.cli.frame import Failed, Frame, common, each, fielded
from footplate.cli.log_output import LogOutput
from footplate.operations import follow
from footplate.operations.filters import Filter
from footplate.workspace import Invalid, Job, JobFilter, Workspace
from footplate.workspace.model import iso


@click.command("launch")
@click.argument("file")
@click.option(
    "--set", "changes", metavar="PATH=VALUE", multiple=True, help="Change a value, as in inputs.num_epochs=5."
)
@click.option("--compute", metavar="NAME", help="The cluster that runs it.")
@click.option("--name", metavar="NAME", help="The job's name, in place of a made one.")
@click.option("--dry-run", is_flag=True, help="Show what would run; start nothing.")
@click.option("--follow", "follows", is_flag=True, help="Stream the log until the job has ended.")
@click.option("--force", is_flag=True, help="Go on whatever errors the check finds.")
@common
@click.pass_obj
def launch_command(
    frame: Frame,
    file: str,
    changes: tuple[str, ...],
    compute: str | None,
    name: str | None,
    dry_run: bool,
    follows: bool,
    force: bool,
) -> None:
    """Start a job from a job FILE, or from a template by its bare name.

    The file is checked first, as `footplate check` does, and against the workspace; faults go to stderr. Errors end the launch
    with exit code 2 before anything is started, unless --force; warnings never do. A dry run shows what it can whatever is found.
    """
    from footplate.cli import launching  # with all rules of the check, which a list of jobs need not wait for

    job_file = launching.prepare(file, changes, compute, name)
    if dry_run:
        launching.dry_run(frame, job_file, force)
        return

    async def work(workspace: Workspace) -> Job:
        await launching.refuse_errors(frame, workspace, job_file, force)
        job = await workspace.submit(job_file)
        frame.say(f"{job.name} is {job.status} on {job.compute}: {words.ranks(job.nodes, job.ranks_per_node)}")
        if follows:
            return (await _copy_log(frame, workspace, job.name, follows=True, seen=_status_lines(frame))).job
        return job

    job = frame.run(work)
    frame.result(job.document(), _ended(job) if follows else f"Follow it: footplate logs {job.name} --follow")
    if follows and job.status != "Completed":
        sys.exit(1)


@click.command("jobs")
@click.option(
    "--filter",
    "expression",
    metavar="EXPR",
    default="",
    help="Words that must occur, !WORD that must not, status:failed,running by the beginning of the status.",
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, newest first.")
@common
@click.pass_obj
def jobs_command(frame: Frame, expression: str, limit: int) -> None:
    """List jobs, newest first."""
    wanted = Filter.parse(expression)
    if wanted.error:
        raise Invalid(wanted.error)

    async def work(workspace: Workspace) -> list[tuple[Job, tuple[str, ...]]]:
        found: list[tuple[Job, tuple[str, ...]]] = []
        async for page in workspace.jobs(JobFilter()):
            for job in page:
                cells = _cells(job)
                if wanted.passes(" ".join((*cells, job.display_name)), job.status):
                    found.append((job, cells))
                    if len(found) == limit:
                        return found
        return found

    found = frame.run(work)
    frame.table(
        [job.document() for job, _ in found],
        ("NAME", "STATUS", "EXPERIMENT", "CLUSTER", "NODES×RANKS", "AGE", "TOOK", "METRIC", "NOTE"),
        [cells for _, cells in found],
        "No job passes the filter."
        if expression.strip()
        else "No jobs. footplate launch train.yml starts one; footplate demo runs the whole line.",
    )


@click.command("job")
@click.argument("name")
@common
@click.pass_obj
def job_command(frame: Frame, name: str) -> None:
    """Show one job."""
    job = frame.run(lambda workspace: workspace.job(name))
    frame.result(job.document(), lambda: fielded(job.document(), 28))


@click.command("logs")
@click.argument("name")
@click.option("--file", "path", metavar="PATH", help="Which log file; without it the first user log (rank 0).")
@click.option("--follow", "follows", is_flag=True, help="Go on until the job has ended.")
@common
@click.pass_obj
def logs_command(frame: Frame, name: str, path: str | None, follows: bool) -> None:
    """Print a job's log: as it is to a file or pipe, made safe on a terminal."""

    async def work(workspace: Workspace) -> tuple[follow.Copied, list[str]]:
        copied = await _copy_log(frame, workspace, name, path, follows=follows)
        return copied, [file.path for file in await workspace.log_files(name)]

    copied, files = frame.run(work)
    job = copied.job
    if frame.json:
        frame.result({"job": job.name, "status": job.status, "file": copied.file, "files": files}, "")
    elif copied.file is None:
        frame.note(f"{job.name} is {job.status} and has written no log yet. {job.note}".rstrip())
    if follows and job.status != "Completed":
        frame.note(_ended(job))
        sys.exit(1)


@click.command("metrics")
@click.argument("name")
@common
@click.pass_obj
def metrics_command(frame: Frame, name: str) -> None:
    """Print a job's metrics: the latest values, or every point with --json."""

    async def work(workspace: Workspace) -> Any:
        await workspace.job(name)
        return await workspace.metrics(name)

    found = frame.run(work)
    document = {
        metric: [{"step": p.step, "time": iso(p.time), "value": p.value} for p in points]
        for metric, points in found.items()
    }
    if frame.json:
        frame.result(document, "")
        return
    frame.table(
        [],
        ("METRIC", "LATEST", "STEP", "POINTS"),
        [(m, words.number(p[-1].value), str(p[-1].step), str(len(p))) for m, p in found.items() if p],
        f"{name} has logged no metrics.",
    )


@click.command("cancel")
@click.argument("names", nargs=-1, required=True)
@common
@click.pass_obj
def cancel_command(frame: Frame, names: tuple[str, ...]) -> None:
    """Ask jobs to end; every rank of them does.

    A job that cannot be cancelled does not keep the others; the command ends with the highest of their exit codes.
    """

    done = frame.run(lambda workspace: each(names, workspace.cancel))
    frame.results(
        [{"name": one.name, "error": one.error} if isinstance(one, Failed) else one.document() for one in done],
        "\n".join(f"{one.name} is {one.status}" for one in done if isinstance(one, Job)),
        [one for one in done if isinstance(one, Failed)],
    )


@click.command("demo")
@click.option(
    "--clean", "cleans", is_flag=True, help="Run none; remove the jobs, models and endpoints that demos left."
)
@common
@click.pass_obj
def demo_command(frame: Frame, cleans: bool) -> None:
    """Run the whole line on drawn birds: train on two processes, register, deploy, predict. Under two minutes."""
    from footplate.operations import demo as demos  # seldom needed, and not free at start-up

    if cleans:
        removed = frame.run(demos.clean)
        gone = [name for names in removed.values() for name in names]
        frame.result({"removed": removed}, f"Removed {', '.join(gone)}." if gone else "There is nothing to remove.")
        return

    async def work(workspace: Workspace) -> demos.Result:
        with _log_output(frame) as log:
            return await demos.run(
                workspace,
                demos.Progress(stage=lambda text: frame.note(f"▸ {text}"), job=_status_lines(frame), log=log),
            )

    result = frame.run(work)
    right = "right" if result.label == result.truth else f"wrong, it is a {result.truth}"
    frame.result(
        result.document(),
        f"\n{result.label}, {words.percent(result.probability)} ({right}). best_val_acc {words.number(result.best_val_acc)}, "
        f"{result.job.world_size} ranks, {words.span(result.seconds)} in all.\n"
        "footplate opens the console on what it made; footplate demo --clean removes it.",
    )


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (
        launch_command,
        jobs_command,
        job_command,
        logs_command,
        metrics_command,
        cancel_command,
        demo_command,
    ):
        group.add_command(command)


def _cells(job: Job) -> tuple[str, ...]:
    """A job's row in the list."""
    return (
        job.name,
        job.status,
        job.experiment,
        job.compute,
        f"{job.nodes}×{job.ranks_per_node}",
        words.age(job.created),
        words.span(job.seconds()),
        f"{job.headline[0]} {words.number(job.headline[1])}" if job.headline else "",
        job.note or job.error or "",
    )


def _log_output(frame: Frame) -> LogOutput:
    """Where a log goes: stdout, or stderr when stdout holds one JSON document."""
    return LogOutput(sys.stderr if frame.json else sys.stdout)


async def _copy_log(
    frame: Frame,
    workspace: Workspace,
    name: str,
    path: str | None = None,
    *,
    follows: bool,
    seen: Callable[[Job], None] | None = None,
) -> follow.Copied:
    """Print a job's log; of one that wrote none itself the first there is, with a sentence that says so."""
    with _log_output(frame) as log:
        copied = await follow.copy_log(workspace, name, log, path, follow=follows, seen=seen)
        others = [] if copied.file is not None else await workspace.log_files(name)
        if not others:
            return copied
        yet = " yet" if copied.job.active else ""
        frame.note(f"{name} is {copied.job.status}; its command has written no log{yet}. This is {others[0].path}:")
        return await follow.copy_log(workspace, name, log, others[0].path)


def _status_lines(frame: Frame) -> Callable[[Job], None]:
    """Say each status, and each note, once."""
    last = ""

    def look(job: Job) -> None:
        nonlocal last
        line = f"{job.status}{f': {job.note}' if job.note else ''}"
        if line != last:
            last = line
            frame.note(f"· {line}")

    return look


def _ended(job: Job) -> str:
    seconds = job.seconds()
    took = f" after {words.span(seconds)}" if seconds is not None else ""
    return f"{job.name} is {job.status}{took}{f': {job.error}' if job.error else ''}"
