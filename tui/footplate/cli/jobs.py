"""The commands on jobs that are there: jobs, job, children, services, cancel, archive, restore, update."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import click

from footplate import words
from footplate.cli import names as known
from footplate.cli.frame import Failed, Frame, common, each, fielded
from footplate.operations.filters import Filter
from footplate.workspace import Invalid, Job, JobFilter, Workspace


@click.command("jobs")
@click.option(
    "--filter",
    "expression",
    metavar="EXPR",
    default="",
    help="Words that must occur, !WORD that must not, status:failed,running by the beginning of the status.",
)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, newest first.")
@click.option("--archived", is_flag=True, help="Archived jobs too.")
@common
@click.pass_obj
def jobs_command(frame: Frame, expression: str, limit: int, archived: bool) -> None:
    """List jobs, newest first."""
    wanted = Filter.parse(expression)
    if wanted.error:
        raise Invalid(wanted.error)

    async def work(workspace: Workspace) -> list[tuple[Job, tuple[str, ...]]]:
        found: list[tuple[Job, tuple[str, ...]]] = []
        async for page in workspace.jobs(JobFilter(archived=archived)):
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
@click.argument("name", shell_complete=known.jobs)
@common
@click.pass_obj
def job_command(frame: Frame, name: str) -> None:
    """Show one job."""
    job = frame.run(lambda workspace: workspace.job(name))
    told = {**job.document(), "note": job.note, "archived": "yes" if job.archived else "", "studio": job.studio_url}
    frame.result(job.document(), lambda: fielded(told, 28))


@click.command("children")
@click.argument("name", shell_complete=known.jobs)
@common
@click.pass_obj
def children_command(frame: Frame, name: str) -> None:
    """List the trials of a sweep with their values, or the steps of a pipeline."""

    async def work(workspace: Workspace) -> tuple[Job, Sequence[Job]]:
        return await workspace.job(name), await workspace.children(name)

    job, listed = frame.run(work)
    found = sorted(listed, key=lambda child: (child.created, len(child.name), child.name))  # trial 2 before trial 10
    inputs = list(dict.fromkeys(key for child in found for key in child.parameters))
    metric = (job.primary_metric or "metric").upper()
    frame.table(
        [child.document() for child in found],
        ("NAME", "STATUS", metric, *(key.upper() for key in inputs), "TOOK", "NOTE"),
        [
            (
                f"{child.name} (best)" if child.name == job.best_child else child.name,
                child.status,
                "" if child.metric is None else words.number(child.metric),
                *(str(child.parameters.get(key, "")) for key in inputs),
                words.span(child.seconds()),
                child.note or child.error or "",
            )
            for child in found
        ],
        f"{name} has no trials or steps{' yet' if job.active and job.type != 'command' else ''}.",
    )


@click.command("services")
@click.argument("name", shell_complete=known.jobs)
@common
@click.pass_obj
def services_command(frame: Frame, name: str) -> None:
    """List what a job serves while it runs, as Jupyter or TensorBoard, and where."""
    found = frame.run(lambda workspace: workspace.services(name))
    frame.table(
        [
            {"name": s.name, "type": s.type, "status": s.status, "url": s.url or None, "error": s.error or None}
            for s in found
        ],
        ("SERVICE", "TYPE", "STATUS", "ADDRESS", "ERROR"),
        [(s.name, s.type, s.status, s.url, s.error) for s in found],
        f"{name} serves nothing.",
    )


@click.command("cancel")
@click.argument("names", nargs=-1, required=True, shell_complete=known.jobs)
@click.option("--force", is_flag=True, help="End the record of a job that is NotResponding: its machine is gone.")
@common
@click.pass_obj
def cancel_command(frame: Frame, names: tuple[str, ...], force: bool) -> None:
    """Ask jobs to end; every rank of them does.

    A job that cannot be cancelled does not keep the others; the command ends with the highest of their exit codes.
    """
    _act_on_each(
        frame,
        names,
        lambda workspace: partial(workspace.cancel, force=True) if force else workspace.cancel,
        lambda job: f"{job.name} is {job.status}",
    )


@click.command("archive")
@click.argument("names", nargs=-1, required=True, shell_complete=known.jobs)
@common
@click.pass_obj
def archive_command(frame: Frame, names: tuple[str, ...]) -> None:
    """Hide jobs from the lists; nothing of them is lost, and `restore` shows them again."""
    _act_on_each(frame, names, lambda workspace: workspace.archive, lambda job: f"{job.name} is archived")


@click.command("restore")
@click.argument("names", nargs=-1, required=True)
@common
@click.pass_obj
def restore_command(frame: Frame, names: tuple[str, ...]) -> None:
    """Show archived jobs in the lists again."""
    _act_on_each(frame, names, lambda workspace: workspace.restore, lambda job: f"{job.name} is restored")


@click.command("update")
@click.argument("name", shell_complete=known.jobs)
@click.option("--display-name", metavar="TEXT", help="What lists show beside the name.")
@click.option("--tag", "given", metavar="KEY=VALUE", multiple=True, help="Set a tag.")
@click.option("--remove-tag", "removed", metavar="KEY", multiple=True, help="Remove a tag.")
@common
@click.pass_obj
def update_command(
    frame: Frame, name: str, display_name: str | None, given: tuple[str, ...], removed: tuple[str, ...]
) -> None:
    """Change a job's display name and tags: what is given, and only that."""
    tags: dict[str, str | None] = dict.fromkeys(removed)
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise Invalid(f"--tag {one!r} is not KEY=VALUE.", "As in --tag owner=me.")
        if key in tags:
            raise Invalid(f"The tag {key!r} is given twice.", "Set or remove it once.")
        tags[key] = value
    if display_name is None and not tags:
        raise Invalid("There is nothing to change.", "Give --display-name, --tag or --remove-tag.")
    job = frame.run(lambda workspace: workspace.update_job(name, display_name=display_name, tags=tags))
    told = ", ".join(f"{key}={value}" for key, value in job.tags.items()) or "no tags"
    frame.result(job.document(), f"{job.name}: {job.display_name}, {told}")


def add_to(group: click.Group) -> None:
    """Put these commands into the group."""
    for command in (
        jobs_command,
        job_command,
        children_command,
        services_command,
        cancel_command,
        archive_command,
        restore_command,
        update_command,
    ):
        group.add_command(command)


def _act_on_each(
    frame: Frame,
    names: Sequence[str],
    act: Callable[[Workspace], Callable[[str], Awaitable[Job]]],
    line: Callable[[Job], str],
) -> None:
    """Do something to each job; a fault of one does not keep the others, the highest exit code ends the command."""
    done = frame.run(lambda workspace: each(names, act(workspace)))
    frame.results(
        [{"name": one.name, "error": one.error} if isinstance(one, Failed) else one.document() for one in done],
        "\n".join(line(one) for one in done if isinstance(one, Job)),
        [one for one in done if isinstance(one, Failed)],
    )


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
