"""Makes a pipeline ready to start: every step is looked at before anything is written."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from footplate.jobfile import JobFile, Plan, kinds, plan
from footplate.jobfile.plan import sweep_plan
from footplate.local import inputs, layout, nodes
from footplate.local.data import DataAssets
from footplate.local.pipeline.steps import Step, Steps, steps_of
from footplate.local.store import Store
from footplate.local.submission import Start, require_runnable
from footplate.local.sweep.spec import Spec
from footplate.workspace import Conflict, Invalid, WorkspaceError
from footplate.workspace.names import next_name

WHOLE = ("artifacts", "default")
"""Outputs that every job has on Azure without declaring them: all that the run itself wrote."""


def place(home: Path, job: str, output: str) -> Path:
    """Where a job writes an output, for the steps that take it."""
    folder = layout.job_folder(home, job)
    return folder if output in WHOLE else folder / "named" / output


def prepared(store: Store, data_assets: DataAssets, job_file: JobFile, name: str, python: str) -> Start:
    """A pipeline that may start. Raises what `Workspace.submit` raises, naming the step, for what could never run."""
    found = steps_of(job_file, name, lambda job, output: str(place(store.home, job, output)))
    if not found.steps:
        raise Invalid(f"{job_file.label} has no steps.", "Add some under `jobs`.")
    for step in found.steps:
        _check(store, data_assets, step, found)
    _refuse_taken(store, name, [step.job for step in found.steps])
    settings = job_file.mapping("settings")
    codes = {step.job: code for step in found.steps if (code := step.file.code) is not None}
    own = job_file.outputs
    types = {step.name: step.file.outputs for step in found.steps}
    return Start(
        name=name,
        compute=str(settings.get("default_compute") or job_file.compute or nodes.LOCAL).removeprefix("azureml:"),
        python=python,
        plan=Plan("", 1, 1, ""),
        inputs={},
        assets=(),
        outputs={
            output: own[output].type
            if output in own
            else types[step][source].type
            if source in types[step]
            else "uri_folder"
            for output, (step, source) in found.outputs.items()
        },
        display_name=job_file.display_name or name,
        file=job_file,
        codes=codes,
        work={
            "steps": [step.document() for step in found.steps],
            "outputs": {output: list(source) for output, source in found.outputs.items()},
            "last": list(found.last),
            # Source: Azure, reference-yaml-job-pipeline: without it, steps that do not need a failed one go on.
            "stop_at_failure": settings.get("continue_on_step_failure") is False,
        },
    )


def require_steps(job_file: JobFile) -> None:
    """Raise Invalid, naming the step, for what this machine never runs, whatever is there; reads component files."""
    for step in steps_of(
        job_file, job_file.name or "pipeline", lambda job, output: f"<output {output} of {job}>"
    ).steps:
        with _named(step):
            require_runnable(step.file)
            if step.file.kind == "sweep":
                Spec.read(step.file, 0)


def _refuse_taken(store: Store, name: str, steps: Sequence[str]) -> None:
    """Raise Conflict where another job has the name of a step's, which would fail in the middle of the pipeline."""
    with store.read() as db:
        query = f"SELECT name FROM job WHERE name IN ({', '.join('?' * len(steps))})"
        taken = db.execute(query, tuple(steps)).fetchone()
    if taken:
        raise Conflict(
            f"There is a job {taken[0]!r} already, which a step of {name!r} would be called.",
            f"Give another name, as {next_name(name)}.",
        )


@contextmanager
def _named(step: Step) -> Iterator[None]:
    """Name the step in what is raised."""
    try:
        yield
    except WorkspaceError as error:
        raise type(error)(f"Step {step.name}: {error.sentence}", error.next_step, error.raw) from error


def _check(store: Store, data_assets: DataAssets, step: Step, found: Steps) -> None:
    with _named(step):
        file = step.file
        require_runnable(file)
        with store.read() as db:
            nodes.check(db, file.compute or nodes.LOCAL, file.nodes)
        if file.code is not None and not inputs.look(file.code, lambda mode: stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise Invalid(f"the code folder {file.code} is not there.", "Mend `code`; it is relative to the file.")
        folders = [layout.job_folder(store.home, other.job) for other in found.steps]
        given = {
            name: item
            for name, item in file.inputs.items()
            if not (item.path and any(Path(item.path).is_relative_to(folder) for folder in folders))
        }
        places = inputs.resolve(store, data_assets, given, file.base, step.job, f"step {step.name}").places
        _plan(file, {**{name: item.path or "" for name, item in file.inputs.items() if item.literal is None}, **places})


def _plan(file: JobFile, places: Mapping[str, str]) -> None:
    """Raise Invalid for a command that no values can be filled into."""
    outputs = {output: f"<output {output}>" for output in file.outputs}
    if file.kind == "sweep":
        sweep_plan(file, places, outputs)
        Spec.read(file, 0)  # raises Invalid for what no sweep can do
    elif file.kind == "command":
        plan(file, places, outputs)
    else:
        raise Invalid(f"this is {kinds.TITLES[file.kind]}.", "Steps are commands and sweeps.")
