"""From a job file to a running supervisor: checks first, then the job's folder, its record and its process, or nothing at all."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from footplate.jobfile import JobFile, Plan, kinds, plan
from footplate.jobfile.upload import upload_files
from footplate.local import clusters, layout, processes, python, references, submitted
from footplate.local.data import DataAssets
from footplate.local.store import Store, now
from footplate.settings import Settings
from footplate.workspace import Conflict, Invalid, NotFound, Unexpected
from footplate.workspace.names import next_name

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_DISTRIBUTIONS = ("", "pytorch")
_MODEL_TYPES = frozenset({"custom_model", "mlflow_model", "triton_model"})


@dataclass(frozen=True)
class _Checked:
    """A job that may start: nothing has been written yet."""

    name: str
    compute: str
    python: str
    plan: Plan
    inputs: Mapping[str, str]
    assets: tuple[str, ...]
    outputs: Mapping[str, str]


def submit(store: Store, settings: Settings, data_assets: DataAssets, job_file: JobFile, name: str | None) -> str:
    """Start a job and return its name. Raises what `Workspace.submit` raises, and Unexpected for a full or read-only disk."""
    checked = _check(store, settings, data_assets, job_file, name)
    folder = layout.job_folder(store.home, checked.name)
    new = folder.parent / f".new-{secrets.token_hex(8)}"
    try:
        _write_folder(new, job_file, checked, store.home)
        _start(store, job_file, checked, new, folder)
    except OSError as error:
        raise Unexpected(
            f"The job could not be written to {folder}: {error.strerror or error}.",
            "Free space or mend its permissions; nothing of the job was kept.",
            repr(error),
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)  # gone already when the job started
    return checked.name


def _check(store: Store, settings: Settings, data_assets: DataAssets, job_file: JobFile, name: str | None) -> _Checked:
    _require_runnable(job_file)
    compute = job_file.compute or clusters.LOCAL
    clusters.check(compute, job_file.nodes)
    name = name or job_file.name or _generated_name(job_file)
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be a job's name.", "Use letters, digits, - and _, a letter or digit first, 255 at most."
        )
    with store.read() as db:
        if db.execute("SELECT 1 FROM job WHERE name = ?", (name,)).fetchone():
            raise _taken(name)
    _check_names(job_file)
    if job_file.code is not None and not _look(job_file.code, lambda mode: stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise Invalid(
            f"{job_file.label} line {job_file.line('code')}: the code folder {job_file.code} is not there.",
            "Mend `code`; it is relative to the job file.",
        )
    if shutil.which("bash") is None:
        raise Invalid("There is no bash on PATH, which runs a job's command.", "Install bash.")
    inputs, assets = _resolve_inputs(store, data_assets, job_file)
    named = layout.job_folder(store.home, name) / "named"
    resolved = plan(job_file, inputs, {output: str(named / output) for output in job_file.outputs})
    return _Checked(
        name=name,
        compute=compute,
        python=python.for_jobs(settings),
        plan=resolved,
        inputs=inputs,
        assets=assets,
        outputs={spec.name: spec.type for spec in job_file.outputs.values()},
    )


def _require_runnable(job_file: JobFile) -> None:
    """Raise Invalid for what the local workspace does not run, before anything else is said of the file."""
    where: tuple[str, ...] = ("type",)
    what = ""
    if job_file.kind not in kinds.JOBS:
        what = f"{kinds.TITLES[job_file.kind]}, which is not launched."
    elif job_file.kind != "command":
        what = f"{kinds.TITLES[job_file.kind]}, and the local workspace does not run one yet."
    elif job_file.distribution not in _DISTRIBUTIONS:
        where = ("distribution", "type")
        what = f"a job with distribution {job_file.distribution!r}, and the local workspace does not run one yet."
    if what:
        raise Invalid(
            f"{job_file.label} line {job_file.line(*where)}: this is {what}",
            "The local workspace runs command jobs: without `distribution`, or with `type: pytorch`.",
        )


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


def _resolve_inputs(store: Store, data_assets: DataAssets, job_file: JobFile) -> tuple[dict[str, str], tuple[str, ...]]:
    """Where each data input lies, and the assets that must be there before the job runs."""
    inputs: dict[str, str] = {}
    assets: list[str] = []
    for given in job_file.inputs.values():
        if given.literal is not None:
            continue
        path = given.path or ""
        if path.startswith("azureml:") and not path.startswith("azureml://"):
            if given.type in _MODEL_TYPES:
                inputs[given.name] = str(_model_folder(store, path))
            else:
                inputs[given.name] = str(data_assets.folder(path))
                assets.append(path)
            continue
        if "://" in path or path.startswith("azureml:"):
            raise Invalid(
                f"Input {given.name!r}: {path} cannot be read by the local workspace yet.",
                "Download it and give a path.",
            )
        place = Path(os.path.realpath(job_file.base / os.path.expanduser(path)))  # noqa: PTH111  # raises for no ~user
        if not _look(place, lambda _: True):
            raise Invalid(f"Input {given.name!r}: {place} is not there.", f"Mend its `path` in {job_file.label}.")
        if given.type in ("uri_folder", "mltable") and not _look(place, stat.S_ISDIR):
            raise Invalid(
                f"Input {given.name!r}: {place} is not a folder.", "Set its type to uri_file, or name a folder."
            )
        if given.type == "uri_file" and not _look(place, stat.S_ISREG):
            raise Invalid(
                f"Input {given.name!r}: {place} is not a file.", "Set its type to uri_folder, or name a file."
            )
        inputs[given.name] = str(place)
    return inputs, tuple(assets)


def _look(place: Path, of_kind: Callable[[int], bool]) -> bool:
    """Whether a place is there, with a mode of that kind. Raises Invalid where it may not be looked at."""
    try:
        return of_kind(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise Invalid(
            f"{place} cannot be looked at: {error.strerror or error}.", "Mend the path or its permissions.", repr(error)
        ) from error


def _model_folder(store: Store, reference: str) -> Path:
    name, version = references.parse(reference, "model")
    with store.read() as db:
        found = db.execute(
            "SELECT max(version) FROM model WHERE name = ? AND (? IS NULL OR version = ?)", (name, version, version)
        ).fetchone()[0]
    if found is None:
        raise NotFound(f"There is no model {reference!r}.", "Register it first.")
    return layout.model_folder(store.home, name, found)


def _write_folder(folder: Path, job_file: JobFile, checked: _Checked, home: Path) -> None:
    for name in ("code", "outputs", "logs", "named", "user_logs", "system_logs"):
        (folder / name).mkdir(parents=True)
    submitted.keep(folder, job_file)
    for output, kind in checked.outputs.items():
        if kind != "uri_file":  # the script writes that one itself
            (folder / "named" / output).mkdir()
    if job_file.code is None:
        return
    if job_file.code.is_file():  # Azure's client takes the one file
        shutil.copy2(job_file.code, folder / "code" / job_file.code.name)
    else:
        listed = upload_files(job_file.code, leave_out=home, most=None)
        if listed.more:
            raise Invalid(
                f"The code folder {job_file.code} holds too much to be copied: its list did not end.",
                "Name a smaller folder, or leave folders out in .amlignore.",
            )
        for file in listed.files:
            target = folder / "code" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(job_file.code / file, target)


def _start(store: Store, job_file: JobFile, checked: _Checked, new: Path, folder: Path) -> None:
    """Put the folder in its place, the record into the store and the supervisor to work, in one transaction.

    The supervisor's first act waits for this transaction: without a record it ends and removes the folder.
    """
    moved = False
    try:
        with store.write() as db:
            try:
                _insert(db, job_file, checked)
            except sqlite3.IntegrityError:
                raise _taken(checked.name) from None
            if folder.exists():  # of a submit that was killed: it has no record
                shutil.rmtree(folder)
            new.rename(folder)
            moved = True
            pid = _start_supervisor(store, folder)
            db.execute(
                "UPDATE job SET supervisor_pid = ?, supervisor_started = ? WHERE name = ?",
                (pid, processes.start_time(pid), checked.name),
            )
    except BaseException:
        if moved:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _insert(db: sqlite3.Connection, job_file: JobFile, checked: _Checked) -> None:
    inputs = {given.name: given.path if given.literal is None else given.literal for given in job_file.inputs.values()}
    values = {
        "name": checked.name,
        "display_name": job_file.display_name or checked.name,
        "type": "command",
        "status": "NotStarted",
        "experiment": job_file.experiment_name,
        "compute": checked.compute,
        "created": now(),
        "tags": json.dumps(dict(job_file.tags)),
        "inputs": json.dumps(inputs),
        "nodes": checked.plan.nodes,
        "ranks_per_node": checked.plan.ranks_per_node,
        "command": checked.plan.command,
        "plan": json.dumps({"plan": checked.plan.document(), "inputs": checked.inputs}),
        "python": checked.python,
        "assets": json.dumps(checked.assets),
        "outputs": json.dumps(checked.outputs),
        "timeout_s": job_file.timeout_s,
    }
    db.execute(f"INSERT INTO job ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values()))


def _start_supervisor(store: Store, folder: Path) -> int:
    """Start the detached process that looks after the job from now on: a session of its own, no terminal, no pipe."""
    with (folder / "system_logs" / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            # -P: what lies in the folder where the console was started is no module of ours
            [sys.executable, "-P", "-m", "footplate.local.supervisor", str(store.home), folder.name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=dict(os.environ),
        )
    # Somebody has to take its exit code if this process lives longer; nobody waits for it.
    threading.Thread(target=process.wait, name=f"reap {process.pid}", daemon=True).start()
    return process.pid


def _taken(name: str) -> Conflict:
    return Conflict(
        f"There is a job {name!r} already.", f"Give another name, as {next_name(name)}, or none to have one made."
    )
