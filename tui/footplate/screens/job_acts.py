"""What is asked before jobs are changed, and done then: cancel, archive, restore, name and tags, register the model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from footplate import words
from footplate.operations import download as downloading
from footplate.screens.dialogs import ConfirmDialog, Field, FieldsDialog, Verdict, expanded
from footplate.workspace import Invalid, Job

if TYPE_CHECKING:
    from footplate.app import FootplateApp

_CANCEL_UNTYPED = 5
"""Cancelling more jobs than this asks for their number."""
_MOST_NAMED = 6
_ALL = "all of them"


async def cancel(console: FootplateApp, jobs: Sequence[Job]) -> None:
    """Ask, then cancel; more than five need their number typed. Call it in a worker."""
    if console.cannot("cancel"):
        return
    many = len(jobs) > 1
    lines = [f"{job.name}: {_ends(job)}" if many else _ends(job) for job in jobs[:_MOST_NAMED]]
    if len(jobs) > _MOST_NAMED:
        lines.append(f"… and {len(jobs) - _MOST_NAMED} more")
    dialog = ConfirmDialog(
        f"Cancel {len(jobs)} jobs?" if many else f"Cancel job {jobs[0].name}?",
        "\n".join([*lines, f"What is written stays. Workspace {console.workspace_name}."]),
        "Cancel jobs" if many else "Cancel job",
        str(len(jobs)) if len(jobs) > _CANCEL_UNTYPED else "",
        "Let run",
    )
    if await console.push_screen_wait(dialog):
        for job in jobs:
            ended = await console.attempt(console.workspace.cancel(job.name))
            if ended is not None:
                console.notify(f"{job.name}: {ended.status}", markup=False, timeout=4)


def _ends(job: Job) -> str:
    """What ends with a job."""
    if job.type == "sweep":
        return f"No more trials are drawn, and those that run on {job.compute or 'serverless'} stop."
    if job.type == "pipeline":
        return "Steps that run or wait stop."
    ranks, stop = ("1 rank", "stops") if job.world_size == 1 else (f"{job.world_size} ranks", "stop")
    return f"{ranks} on {f'cluster {job.compute}' if job.compute else 'serverless'} {stop}."


async def archive(console: FootplateApp, jobs: Sequence[Job]) -> None:
    """Hide jobs from the lists, or show them again where all are hidden: nothing is lost by either, so nothing is asked."""
    back = all(job.archived for job in jobs)
    if console.cannot("restore" if back else "archive"):
        return
    act = console.workspace.restore if back else console.workspace.archive
    done = [job for job in jobs if job.archived == back and await console.attempt(act(job.name)) is not None]
    if done:
        which = done[0].name if len(done) == 1 else f"{len(done)} jobs"
        said = "shown in the lists again" if back else "archived: A shows it, a there brings it back"
        console.notify(f"{which}: {said}.", markup=False, timeout=5)


async def edit(console: FootplateApp, job: Job) -> None:
    """Ask for display name and tags, then change what was changed."""
    if console.cannot("update_job"):
        return
    asked = FieldsDialog(
        f"Name and tags of {job.name}",
        "Tags are written key=value with spaces between them; quotes hold a value with spaces together.",
        "Save",
        (Field("name", "Display name", job.display_name), Field("tags", "Tags", tags_text(job.tags))),
        _judge_tags,
    )
    answer = await console.push_screen_wait(asked)
    if not answer:
        return
    now = read_tags(answer["tags"])
    changed: dict[str, str | None] = {key: value for key, value in now.items() if job.tags.get(key) != value}
    changed |= {key: None for key in job.tags if key not in now}
    name = answer["name"] if answer["name"] != job.display_name else None
    if changed or name is not None:
        await console.attempt(console.workspace.update_job(job.name, display_name=name, tags=changed))


def tags_text(tags: Mapping[str, str]) -> str:
    """Tags on one line, as `read_tags` reads them."""
    return " ".join(shlex.quote(f"{key}={value}") for key, value in tags.items())


def read_tags(text: str) -> dict[str, str]:
    """Tags of one line of key=value. Raises Invalid for a quote that is left open and for a word without a key."""
    try:
        parts = [word.partition("=") for word in shlex.split(text)]
    except ValueError:
        raise Invalid("A quote is left open.", "Close it.") from None
    for key, equals, value in parts:
        if not equals or not key:
            raise Invalid(f"{key or value!r} is no tag.", "Write key=value.")
    return {key: value for key, _, value in parts}


def _judge_tags(values: Mapping[str, str]) -> Verdict:
    try:
        count = len(read_tags(values["tags"]))
    except Invalid as error:
        return str(error), False
    return f"{count} tag{'s' * (count != 1)}", True


async def download(console: FootplateApp, job: Job) -> None:
    """Ask for output and folder, then fetch what the job wrote."""
    if console.cannot("download"):
        return
    outputs = await console.attempt(console.workspace.outputs(job.name))
    if outputs is None:
        return
    if not outputs:
        console.notify(f"{job.name} has no outputs.", markup=False, timeout=4)
        return
    sizes = [f"{one.name}: {words.count(one.files)} files, {words.size(one.size)}" for one in outputs]
    asked = FieldsDialog(
        f"Download what {job.name} wrote",
        "\n".join([*sizes, "Each output comes into a folder of its name."]),
        "Download",
        (
            Field("output", "Output", _ALL, (_ALL, *(one.name for one in outputs))),
            Field("folder", "Into", job.name),
        ),
    )
    answer = await console.push_screen_wait(asked)
    if not answer:
        return
    wanted = None if answer["output"] == _ALL else answer["output"]
    with console.transfer("downloading") as progress:
        done = await console.attempt(
            downloading.outputs(console.workspace, job.name, expanded(answer["folder"]), wanted, progress)
        )
    if done is not None:
        files = sum(one.files for one in done)
        console.notify(f"{files} files of {job.name} are in {words.path(done[0].folder.parent)}.", markup=False)


async def register(console: FootplateApp, job: Job) -> None:
    """Ask for a name, then register the job's model, a sweep's best trial's."""
    if console.cannot("register"):
        return
    text = "The version is the next free one."
    if job.type == "sweep":
        if job.best_child is None:
            metric = job.primary_metric or "the metric of its objective"
            console.notify(f"No trial of {job.name} has logged {metric}, so none is the best.", markup=False, timeout=6)
            return
        text = f"{await _best(console, job)}\n{text}"
    asked = FieldsDialog(
        f"Register the model of {job.name}", text, "Register", (Field("name", "Name", job.experiment),)
    )
    answer = await console.push_screen_wait(asked)
    if answer:
        model = await console.attempt(console.workspace.register(answer["name"], job.name))
        if model is not None:
            console.notify(f"{model.reference} is registered; 3 shows it, d there deploys it.", markup=False)
            await console.switch("models")


async def _best(console: FootplateApp, job: Job) -> str:
    """A sweep's best trial, with its metric and values where they are told."""
    trials = await console.attempt(console.workspace.children(job.name)) or ()
    best = next((trial for trial in trials if trial.name == job.best_child), None)
    parts = [f"From the best trial, {job.best_child}"]
    if best is not None and best.metric is not None:
        parts.append(f"{job.primary_metric} {words.metric(best.metric)}")
    if best is not None:
        parts += [f"{name} {words.value(value)}" for name, value in best.parameters.items()]
    return f"{', '.join(parts)}."
