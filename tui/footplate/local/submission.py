"""From a job file to a running supervisor: checks first, then the job's folder, its record and its process, or nothing at all."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sqlite3
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from footplate.jobfile import JobFile, Plan, kinds, plan
from footplate.jobfile.plan import sweep_plan
from footplate.jobfile.upload import upload_files
from footplate.local import inputs, layout, nodes, packages, python, registering, submitted, supervisors, unfinished
from footplate.local.data import DataAssets
from footplate.local.store import Store, now, storable
from footplate.settings import Settings
from footplate.workspace import Conflict, Invalid, Unexpected
from footplate.workspace.names import next_name

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_DISTRIBUTIONS = ("", "pytorch", "mpi", "tensorflow")


@dataclass(frozen=True)
class Child:
    """What a sweep or pipeline says of a job that it starts: its own name, the step, and the Python that all of it runs with.

    `parameters` are a trial's values of the search space, `variables` what is set for it besides the file's own variables.
    `code` is a folder of code that was copied already: it is linked to, not copied once more. `work` is JSON data for parent
    and child.
    """

    parent: str
    python: str
    step: str | None = None
    display_name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    code: Path | None = None
    work: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Start:
    """A job that may start: nothing has been written yet. `file` is kept with it, and what lies in `file.code` copied.

    `codes` are a pipeline's: the folder of each step. `work` is JSON data for the job's own supervisor. `objective` of a
    sweep is the primary metric and the goal.
    """

    name: str
    compute: str
    python: str
    plan: Plan
    inputs: Mapping[str, str]
    assets: tuple[str, ...]
    outputs: Mapping[str, str]
    display_name: str
    file: JobFile
    fetch: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    register: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    child: Child | None = None
    codes: Mapping[str, Path] = field(default_factory=dict)
    work: Mapping[str, Any] = field(default_factory=dict)
    objective: tuple[str | None, str | None] = (None, None)


def submit(
    store: Store,
    settings: Settings | None,
    data_assets: DataAssets,
    job_file: JobFile,
    name: str | None,
    child: Child | None = None,
) -> str:
    """Start a job and return its name. Raises what `Workspace.submit` raises, and Unexpected for a full or read-only disk.

    A sweep or pipeline says in `child` what it knows of a job that it starts; it has no settings.
    """
    job = _check(store, settings, data_assets, job_file, name, child)
    folder = layout.job_folder(store.home, job.name)
    unfinished.sweep(folder.parent)
    new = unfinished.new(folder.parent)
    try:
        _write_folder(new, job, store.home)
        _start(store, job, new, folder)
    except OSError as error:
        raise Unexpected(
            f"The job could not be written to {folder}: {error.strerror or error}.",
            "Free space or mend its permissions; nothing of the job was kept.",
            repr(error),
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)  # gone already when the job started
    return job.name


def _check(
    store: Store,
    settings: Settings | None,
    data_assets: DataAssets,
    job_file: JobFile,
    name: str | None,
    child: Child | None,
) -> Start:
    require_runnable(job_file)
    compute = job_file.compute or nodes.LOCAL
    if settings is not None:
        nodes.keep_local(store, settings)
    if job_file.kind != "pipeline":  # whose steps are looked at one by one
        with store.read() as db:
            nodes.check(db, compute, job_file.nodes)
    name = name or job_file.name or _generated_name(job_file)
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be a job's name.", "Use letters, digits, - and _, a letter or digit first, 255 at most."
        )
    with store.read() as db:
        if db.execute("SELECT 1 FROM job WHERE name = ?", (name,)).fetchone():
            raise _taken(name)
    _check_names(job_file)
    if job_file.kind == "pipeline":
        from footplate.local.pipeline import submitting  # what other jobs never need

        return submitting.prepared(store, data_assets, job_file, name, _python(settings, child))
    copied = child is not None and child.code is not None
    if (
        not copied
        and job_file.code is not None
        and not inputs.look(job_file.code, lambda mode: stat.S_ISDIR(mode) or stat.S_ISREG(mode))
    ):
        raise Invalid(
            f"{job_file.label} line {job_file.line('code')}: the code folder {job_file.code} is not there.",
            "Mend `code`; it is relative to the job file.",
        )
    if shutil.which("bash") is None:
        raise Invalid("There is no bash on PATH, which runs a job's command.", "Install bash.")
    data = inputs.resolve(store, data_assets, job_file.inputs, job_file.base, name, job_file.label)
    named = layout.job_folder(store.home, name) / "named"
    places = {output: str(named / output) for output in job_file.outputs}
    swept = job_file.kind == "sweep"
    resolved = sweep_plan(job_file, data.places, places).plan if swept else plan(job_file, data.places, places)
    if child is not None:
        resolved = replace(resolved, environment_variables={**resolved.environment_variables, **child.variables})
    job = Start(
        name=name,
        compute=compute,
        python=_python(settings, child),
        plan=resolved,
        inputs=data.places,
        assets=tuple(data.assets),
        fetch=data.fetch,
        # A sweep itself registers what its best trial wrote.
        register={} if child is not None and child.step is None else registering.wanted(store, job_file),
        packages=packages.declared(job_file),
        outputs={spec.name: spec.type for spec in job_file.outputs.values()},
        display_name=(child.display_name if child else "") or job_file.display_name or name,
        file=job_file,
        child=child,
        work=child.work if child else {},
    )
    if job_file.kind != "sweep":
        return job
    from footplate.local.sweep.submitting import prepared  # what a command job never needs

    return prepared(store, job)


def _python(settings: Settings | None, child: Child | None) -> str:
    if child is not None:
        return child.python
    assert settings is not None, "only a child is started without settings"
    return python.for_jobs(settings)


def require_runnable(job_file: JobFile) -> None:
    """Raise Invalid for what the local workspace does not run, before anything else is said of the file."""
    where: tuple[str, ...] = ("type",)
    what = ""
    if job_file.kind not in kinds.JOBS:
        what = f"{kinds.TITLES[job_file.kind]}, which is not launched."
    elif job_file.kind not in ("command", "sweep", "pipeline"):
        what = f"{kinds.TITLES[job_file.kind]}, and the local workspace does not run one yet."
    elif job_file.distribution not in _DISTRIBUTIONS:
        where = ("distribution", "type")
        what = f"a job with distribution {job_file.distribution!r}, which the local workspace does not run."
    if what:
        raise Invalid(
            f"{job_file.label} line {job_file.line(*where)}: this is {what}",
            "The local workspace runs commands, sweeps and pipelines, with distribution pytorch, mpi, tensorflow or none.",
        )
    if job_file.kind == "sweep":
        from footplate.local.sweep.spec import require_packages  # what other jobs never need

        require_packages(job_file)


def _check_names(job_file: JobFile) -> None:
    """Raise Invalid for names that no folder and no environment variable can have; an output's name becomes both."""
    for name in job_file.outputs:
        if not _KEY.fullmatch(name):
            raise Invalid(
                f"{job_file.label} line {job_file.line('outputs', name)}: {name!r} cannot be an output's name.",
                "Use letters, digits and _, no digit first.",
            )
    for section, kind in (("inputs", "an input's"), ("environment_variables", "an environment variable's")):
        for name in getattr(job_file, section):
            if not name or "=" in name or "\0" in name:
                raise Invalid(
                    f"{job_file.label} line {job_file.line(section, name)}: {name!r} cannot be {kind} name.",
                    "Use letters, digits and _.",
                )


def _generated_name(job_file: JobFile) -> str:
    stem = str(job_file.values.get("experiment_name") or (job_file.path.stem if job_file.path else "job"))
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", stem).strip("-_")[:60] or "job"
    return f"{plain}-{''.join(secrets.choice(_BASE32) for _ in range(6))}"


def _write_folder(folder: Path, job: Start, home: Path) -> None:
    for name in ("outputs", "logs", "named", "user_logs", "system_logs"):
        (folder / name).mkdir(parents=True)
    submitted.keep(folder, job.file)
    if job.file.kind == "pipeline":
        from footplate.local.pipeline import components  # what other jobs never need

        components.keep(folder, job.file)
    for output, kind in job.outputs.items():
        if kind != "uri_file":  # the script writes that one itself
            (folder / "named" / output).mkdir()
    if job.child is not None and job.child.code is not None:
        # Relative, so that a home that is moved stays whole.
        (folder / "code").symlink_to(os.path.relpath(job.child.code, folder))
    else:
        _copy_code(folder / "code", job.file.code, home)
    for step, code in job.codes.items():
        _copy_code(folder / "code" / step, code, home)


def _copy_code(target: Path, code: Path | None, home: Path) -> None:
    target.mkdir()
    if code is None:
        return
    if code.is_file():  # Azure's client takes the one file
        shutil.copy2(code, target / code.name)
        return
    listed = upload_files(code, leave_out=home, most=None)
    if listed.more:
        raise Invalid(
            f"The code folder {code} holds too much to be copied: its list did not end.",
            "Name a smaller folder, or leave folders out in .amlignore.",
        )
    for file in listed.files:
        place = target / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(code / file, place)


def _start(store: Store, job: Start, new: Path, folder: Path) -> None:
    """Put the folder in its place, the record into the store and the supervisor to work, in one transaction.

    The supervisor's first act waits for this transaction: without a record it ends and removes the folder.
    """
    moved = False
    try:
        with store.write() as db:
            try:
                _insert(db, job)
            except sqlite3.IntegrityError:
                raise _taken(job.name) from None
            if folder.exists():  # of a submit that was killed: it has no record
                shutil.rmtree(folder)
            # Started first: from the moment the folder is in its place somebody is there to remove it.
            supervisors.start(db, store, job.name, new)
            new.rename(folder)
            moved = True
    except BaseException:
        if moved:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _insert(db: sqlite3.Connection, job: Start) -> None:
    child, file = job.child, job.file
    given = {item.name: item.path if item.literal is None else item.literal for item in file.inputs.values()}
    values = {
        "name": job.name,
        "display_name": job.display_name,
        "type": file.kind,
        "status": "NotStarted",
        "experiment": file.experiment_name,
        "compute": job.compute,
        "created": now(),
        "parent": child.parent if child else None,
        "step": child.step if child else None,
        "parameters": json.dumps(dict(child.parameters) if child else {}),
        "tags": json.dumps(dict(file.tags)),
        "inputs": json.dumps(given),
        "nodes": job.plan.nodes,
        "ranks_per_node": job.plan.ranks_per_node,
        "command": job.plan.command,
        "plan": json.dumps(
            {
                "plan": job.plan.document(),
                "inputs": job.inputs,
                "fetch": job.fetch,
                "register": job.register,
                "packages": job.packages,
            }
        ),
        "python": job.python,
        "assets": json.dumps(job.assets),
        "outputs": json.dumps(job.outputs),
        "timeout_s": file.timeout_s,
        "work": json.dumps(dict(job.work)),
        "primary_metric": job.objective[0],
        "goal": job.objective[1],
    }
    db.execute(
        f"INSERT INTO job ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
        [*map(storable, values.values())],
    )


def _taken(name: str) -> Conflict:
    return Conflict(
        f"There is a job {name!r} already.", f"Give another name, as {next_name(name)}, or none to have one made."
    )
