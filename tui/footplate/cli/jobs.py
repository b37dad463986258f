"""The commands on jobs: launch, jobs, job, logs, metrics, cancel, demo."""

from __future__ import annotations

import sys
from typing import Any

import click

from footplate import words
from footplate.cli.frame import Frame, common
from footplate.logs.sanitise import clean
from footplate.operations import demo as demos
from footplate.operations import follow, launch
from footplate.workspace import Job, JobFilter, Workspace


@click.command("launch")
@click.argument("file")
@click.option(
    "--set", "changes", metavar="PATH=VALUE", multiple=True, help="Change a value, as in inputs.num_epochs=5."
)
@click.option("--compute", metavar="NAME", help="The cluster that runs it.")
@click.option("--name", metavar="NAME", help="The job's name, in place of a made one.")
@click.option("--dry-run", is_flag=True, help="Show what would run; start nothing.")
@click.option("--follow", "follows", is_flag=True, help="Stream the log until the job has ended.")
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
) -> None:
    """Start a job from a job FILE, or from a template by its bare name."""
    job_file = launch.prepare(launch.find(file), changes, compute, name)
    if dry_run:
        document = launch.dry_run(job_file)
        frame.result(document, lambda: _dry_run_text(document))
        return

    async def work(workspace: Workspace) -> Job:
        job = await workspace.submit(job_file)
        frame.say(f"{job.name} is {job.status} on {job.compute}: {words.ranks(job.nodes, job.ranks_per_node)}")
        if follows:
            return await follow.copy_log(
                workspace, job.name, _log_writer(frame.json), follow=True, seen=_status_lines(frame)
            )
        return job

    job = frame.run(work)
    frame.result(job.document(), _ended(job) if follows else f"Follow it: footplate logs {job.name} --follow")
    if follows and job.status != "Completed":
        sys.exit(1)


@click.command("jobs")
@click.option("--filter", "expression", metavar="EXPR", default="", help="Words; status:NAME for a status.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, newest first.")
@common
@click.pass_obj
def jobs_command(frame: Frame, expression: str, limit: int) -> None:
    """List jobs, newest first."""
    matching = parse_filter(expression)

    async def work(workspace: Workspace) -> list[Job]:
        found: list[Job] = []
        async for page in workspace.jobs(matching):
            found.extend(page)
            if len(found) >= limit:
                break
        return found[:limit]

    found = frame.run(work)
    frame.table(
        [job.document() for job in found],
        ("NAME", "STATUS", "EXPERIMENT", "CLUSTER", "NODES×RANKS", "AGE", "TOOK", "METRIC", "NOTE"),
        [
            (
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
            for job in found
        ],
        "No jobs. footplate launch train.yml starts one; footplate demo runs the whole line.",
    )


@click.command("job")
@click.argument("name")
@common
@click.pass_obj
def job_command(frame: Frame, name: str) -> None:
    """Show one job."""
    job = frame.run(lambda workspace: workspace.job(name))
    frame.result(job.document(), lambda: _details(job))


@click.command("logs")
@click.argument("name")
@click.option("--file", "path", metavar="PATH", help="Which log file; without it the first user log (rank 0).")
@click.option("--follow", "follows", is_flag=True, help="Go on until the job has ended.")
@common
@click.pass_obj
def logs_command(frame: Frame, name: str, path: str | None, follows: bool) -> None:
    """Print a job's log: as it is to a file or pipe, made safe on a terminal."""

    async def work(workspace: Workspace) -> tuple[Job, list[str]]:
        files = [file.path for file in await workspace.log_files(name)]
        job = await follow.copy_log(workspace, name, _log_writer(frame.json), path, follow=follows)
        return job, files

    job, files = frame.run(work)
    if frame.json:
        frame.result(
            {"job": job.name, "status": job.status, "file": path or (files[0] if files else None), "files": files}, ""
        )
    elif not files:
        click.echo(f"{job.name} is {job.status} and has written no log yet. {job.note}", err=True)
    if follows and job.status != "Completed":
        click.echo(_ended(job), err=True)
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
        metric: [{"step": p.step, "time": p.time.isoformat(), "value": p.value} for p in points]
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
    """Ask jobs to end; every rank of them does."""

    async def work(workspace: Workspace) -> list[Job]:
        return [await workspace.cancel(name) for name in names]

    ended = frame.run(work)
    documents = [job.document() for job in ended]
    frame.result(
        documents[0] if len(names) == 1 else documents, "\n".join(f"{job.name} is {job.status}" for job in ended)
    )


@click.command("demo")
@click.option(
    "--clean", "cleans", is_flag=True, help="Remove what demos left; with nothing left, run one that leaves nothing."
)
@common
@click.pass_obj
def demo_command(frame: Frame, cleans: bool) -> None:
    """Run the whole line on drawn birds: train on two processes, register, deploy, predict. Under two minutes."""
    if cleans:
        removed = frame.run(demos.clean)
        if any(removed.values()):
            gone = [name for names in removed.values() for name in names]
            frame.result({"removed": removed}, f"Removed {', '.join(gone)}.")
            return

    async def work(workspace: Workspace) -> demos.Result:
        progress = demos.Progress(
            stage=lambda text: _stage(frame, text), job=_status_lines(frame), log=_log_writer(frame.json)
        )
        result = await demos.run(workspace, progress)
        if cleans:
            _stage(frame, "removing job, model and endpoint")
            await demos.clean(workspace)
        return result

    result = frame.run(work)
    right = "right" if result.label == result.truth else f"wrong, it is a {result.truth}"
    frame.result(
        result.document(),
        f"\n{result.label}, {words.percent(result.probability)} ({right}). best_val_acc {words.number(result.best_val_acc)}, "
        f"{result.job.world_size} ranks, {words.span(result.seconds)} in all.\n"
        + (
            "Nothing is left of it."
            if cleans
            else "footplate opens the console on what it made; footplate demo --clean removes it."
        ),
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


def parse_filter(expression: str) -> JobFilter:
    """Words and `status:A,B` terms as a filter."""
    terms = expression.split()
    wanted = [term.partition(":")[2] for term in terms if term.startswith("status:")]
    return JobFilter(
        words=tuple(term for term in terms if not term.startswith("status:")),
        status=tuple(status for term in wanted for status in term.split(",") if status),
    )


def _log_writer(to_stderr: bool) -> Any:
    """Bytes as they are to a file or pipe; on a terminal, line by line, with every control character taken out."""
    stream = sys.stderr if to_stderr else sys.stdout
    if not stream.isatty():

        def write(data: bytes) -> None:
            stream.buffer.write(data)
            stream.buffer.flush()

        return write
    pending = bytearray()

    def write_clean(data: bytes) -> None:
        pending.extend(data)
        *lines, rest = bytes(pending).split(b"\n")
        pending[:] = rest
        for line in lines:
            text = line.rstrip(b"\r").rpartition(b"\r")[2]
            stream.write(f"{clean(text.decode('utf-8', 'replace'))}\n")
        stream.flush()

    return write_clean


def _status_lines(frame: Frame) -> Any:
    """Say each status, and each note, once."""
    last = ""

    def look(job: Job) -> None:
        nonlocal last
        line = f"{job.status}{f': {job.note}' if job.note else ''}"
        if line != last:
            last = line
            click.echo(f"· {clean(line)}", err=True)

    return look


def _stage(frame: Frame, text: str) -> None:
    click.echo(f"▸ {clean(text)}", err=True)


def _ended(job: Job) -> str:
    why = f": {clean(job.error)}" if job.error else ""
    return f"{job.name} is {job.status} after {words.span(job.seconds())}{why}"


def _details(job: Job) -> str:
    rows = [(key.replace("_", " "), value) for key, value in job.document().items() if value not in (None, {}, "")]
    return "\n".join(f"{key:<28}{clean(str(value))}" for key, value in rows)


def _dry_run_text(document: dict[str, Any]) -> str:
    commands, upload = document["commands"], document["upload"]
    lines = [
        "The one rank runs:" if len(commands) == 1 else f"Every one of {len(commands)} ranks runs:",
        *(f"  {line}" for line in commands[0]["command"].splitlines()),
        "",
    ]
    for rank in commands:
        variables = " ".join(f"{name}={value}" for name, value in rank["environment"].items())
        lines.append(f"rank {rank['rank']}  node {rank['node']}  {variables}")
    by = f", by {upload['ignored_by']}" if upload["ignored_by"] else ""
    return "\n".join([*lines, "", f"Upload: {upload['files']} files, {words.size(upload['bytes'])}{by}"])
