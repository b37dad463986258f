"""Named outputs that a job file registers: checked at submit, kept as a data asset or a model when the job has completed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from footplate.jobfile import JobFile
from footplate.local import layout, model_files, unfinished
from footplate.local.files import flush
from footplate.local.inputs import MODEL_TYPES
from footplate.local.models import Models
from footplate.local.store import Store, now
from footplate.workspace.errors import Conflict, Invalid, Unexpected

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


def wanted(store: Store, job_file: JobFile) -> dict[str, Any]:
    """What a file's outputs are registered as: `{output: {name, version, type}}`, version None for the next.

    Raises Invalid for a name or version that cannot be, Conflict for a version that is there already: it is never changed.
    """
    found: dict[str, Any] = {}
    for output in job_file.outputs.values():
        if output.asset is None:
            continue
        where = f"{job_file.label} line {job_file.line('outputs', output.name)}: output {output.name!r}"
        if not _NAME.fullmatch(output.asset):
            raise Invalid(
                f"{where} cannot be registered as {output.asset!r}.",
                "Use letters, digits, and . - _ between them, a letter or digit first, 255 at most.",
            )
        if output.version is not None and not re.fullmatch(r"[1-9][0-9]{0,8}", output.version):
            raise Invalid(
                f"{where} cannot have the version {output.version!r} on this machine.",
                "Give a whole number, or leave `version` out for the next one.",
            )
        version = None if output.version is None else int(output.version)
        table = "model" if output.type in MODEL_TYPES else "data_asset"
        with store.read() as db:
            query = f"SELECT 1 FROM {table} WHERE name = ? AND version = ?"
            taken = version and db.execute(query, (output.asset, version)).fetchone()
        if taken:
            raise Conflict(
                f"{where} is to become {output.asset}:{version}, which is there already.",
                "Give another version, or leave `version` out for the next one.",
            )
        found[output.name] = {"name": output.asset, "version": version, "type": output.type}
    return found


def register(store: Store, job: str, wanted: Mapping[str, Any]) -> list[str]:
    """Register a completed job's outputs; gives a line for each, also for one that could not be registered."""
    lines: list[str] = []
    made: list[str] = []
    for output, one in wanted.items():
        source = layout.job_folder(store.home, job) / "named" / output
        name, version, kind = one["name"], one["version"], one["type"]
        try:
            # A sweep's process that was killed right after this registers again in its successor.
            if found := _kept_before(store, job, name, source, kind, made):
                reference = found
            elif kind in MODEL_TYPES:
                reference = Models(store).register_output(name, source, job, kind, version).reference
            else:
                reference = _keep_data(store, job, source, name, version, kind)
        except (Invalid, Conflict, Unexpected) as error:
            lines.append(f"output {output} was not registered as {name}: {error}")
        else:
            made.append(reference)
            lines.append(f"output {output} is {reference}")
    return lines


def _kept_before(store: Store, job: str, name: str, source: Path, kind: str, others: Collection[str]) -> str | None:
    """The version as which this output of the job was kept already; `others` are those of its other outputs."""
    if kind in MODEL_TYPES:
        query = "SELECT version FROM model WHERE name = ? AND job = ? AND folder = ? ORDER BY version"
        values = (name, job, "" if source.is_file() else source.name)
    else:
        query = "SELECT version FROM data_asset WHERE name = ? AND job = ? AND type = ? ORDER BY version"
        values = (name, job, kind)
    with store.read() as db:
        kept = [f"{name}:{row[0]}" for row in db.execute(query, values)]
    return next((reference for reference in kept if reference not in others), None)


def _keep_data(store: Store, job: str, source: Path, name: str, version: int | None, kind: str) -> str:
    """Keep an output as a data asset's version: the files are the output's own, read-only from then on, and outlive the job.

    Raises Invalid where nothing was written, Conflict for a version that is there, Unexpected for a full disk.
    """
    if not source.is_file() and (not source.is_dir() or not any(source.iterdir())):
        raise Invalid("nothing was written to it.")
    unfinished.sweep(store.home / "data")
    new = unfinished.new(store.home / "data")
    try:
        if source.is_file():
            new.mkdir(parents=True)
            shutil.copy2(source, new)
        else:
            new.parent.mkdir(parents=True, exist_ok=True)
            model_files.keep_once(source, new)
        flush(new)
        with store.write() as db:
            last = db.execute("SELECT max(version) FROM data_asset WHERE name = ?", (name,)).fetchone()[0]
            version = version or int(last or 0) + 1
            if db.execute("SELECT 1 FROM data_asset WHERE name = ? AND version = ?", (name, version)).fetchone():
                raise Conflict(f"{name}:{version} is there already.")
            folder = layout.data_folder(store.home, name, version)
            if folder.exists():  # of a registration that was killed: it has no record
                shutil.rmtree(folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            new.rename(folder)
            path = folder / source.name if source.is_file() else folder
            db.execute(
                "INSERT INTO data_asset (name, version, type, path, description, created, job) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (name, version, kind, str(path.relative_to(store.home)), f"output of job {job}", now(), job),
            )
    except OSError as error:
        raise Unexpected(
            f"its files could not be kept: {model_files.reason(error)}.", "Free space.", repr(error)
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)  # gone already when it was registered
    return f"{name}:{version}"
