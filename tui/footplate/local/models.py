"""Registered models on this machine: versions, each a folder of its own that nobody changes."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from footplate.local import layout, lineage, model_files, records, references, unfinished
from footplate.local.files import flush, put_back
from footplate.local.inputs import MODEL_TYPES
from footplate.local.store import Store, moment, now
from footplate.workspace import Conflict, Invalid, Model, NotFound, Unexpected
from footplate.workspace.names import check_model_name

_PLAIN = "custom_model"
"""The type of what a job wrote to `./outputs`, and of a folder."""


@dataclass(frozen=True)
class _New:
    """A version that is about to be kept; `folder` is the name that its files lie under where it is deployed."""

    name: str
    folder: str
    description: str
    job: str | None = None
    lineage: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    type: str = _PLAIN
    version: int | None = None
    """None: the next."""


class Models:
    """Model versions of one home.

    A job's output is kept once: the version's files are links to it, read-only from then on, and outlive the job. Another
    folder is its owner's, who may write into it, so that its files are copied.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> Sequence[Model]:
        """All versions, newest first."""
        with self._store.read() as db:
            return [_model(row) for row in db.execute("SELECT * FROM model ORDER BY created DESC, version DESC")]

    def model(self, reference: str) -> Model:
        """One version, the newest for a bare name. Raises NotFound, and Invalid for no reference."""
        name, version = references.parse(reference, "model")
        with self._store.read() as db:
            row = db.execute(
                "SELECT * FROM model WHERE name = ? AND (? IS NULL OR version = ?) ORDER BY version DESC LIMIT 1",
                (name, version, version),
            ).fetchone()
            known = [
                r[0] for r in db.execute("SELECT name || ':' || version FROM model ORDER BY created DESC LIMIT 20")
            ]
        if row is None:
            hint = f"Known: {', '.join(known)}." if known else "There are no models yet; register one from a job."
            raise NotFound(f"There is no model {reference!r}.", hint)
        return _model(row)

    def register(self, name: str, source: str | Path, description: str = "", output: str | None = None) -> Model:
        """Register a folder, or the output of an ended job, of a sweep that of its best trial, as a model's next version.

        Which output is as `Workspace.register` says it. Raises NotFound (no such job or output), Invalid (name, empty or missing
        folder, several outputs, broken `model.json`), Conflict while the job goes on and for a sweep without a best trial,
        Unexpected for a full or read-only disk.
        """
        check_model_name(name)
        if isinstance(source, Path):
            return self._register(source, _New(name, "" if source.is_file() else source.resolve().name, description))
        with self._store.read() as db:
            writer = lineage.writer(db, source)
        folder, kind = self._job_output(writer.job, output)
        # A pipeline's output is a link to its step's.
        return self._register(
            folder.resolve(), _New(name, folder.name, description, writer.job, writer.lineage, type=kind)
        )

    def register_output(self, name: str, output: Path, job: str, kind: str, version: int | None) -> Model:
        """Register a named output of a job that is about to complete, as its file says; raises what `register` does."""
        with self._store.read() as db:
            made_of = lineage.of_job(db, job)
        return self._register(
            output, _New(name, "" if output.is_file() else output.name, "", job, made_of, {}, kind, version)
        )

    def _register(self, source: Path, new: _New) -> Model:
        """Keep a folder's files, or one file, as a new version."""
        try:
            empty = not source.is_file() and (not source.is_dir() or not any(source.iterdir()))
        except OSError as error:
            raise Invalid(
                f"{source} cannot be read: {error.strerror or error}.",
                "Mend the permissions, or name another.",
                repr(error),
            ) from error
        if empty:
            what = f"Job {new.job!r} has written no model" if new.job else f"{source} is no folder with files in it"
            raise Invalid(
                f"{what}: there is nothing to register.",
                "Write the model to ./outputs, or to an output of type custom_model, or name its folder.",
            )
        if self._store.home.resolve().is_relative_to(source.resolve()):
            raise Invalid(
                f"{source} holds footplate's own home, {self._store.home}.",
                "Name the folder that holds the model alone.",
            )
        metadata = model_files.read_metadata(source / "model.json") if source.is_dir() else {}
        made_of = lineage.with_metadata(new.lineage, metadata)
        unfinished.sweep(self._store.home / "models")
        files = unfinished.new(self._store.home / "models")
        try:
            if source.is_file():
                files.mkdir(parents=True)
                shutil.copy2(source, files)
            elif new.job:
                model_files.keep_once(source, files)
            else:
                shutil.copytree(source, files)
            flush(files)
            version = self._keep(files, replace(new, metadata=metadata, lineage=made_of))
        except OSError as error:
            raise Unexpected(
                f"Model {new.name!r} could not be kept from {source}: {model_files.reason(error)}.",
                "Free space or mend the permissions; nothing was registered.",
                repr(error),
            ) from error
        finally:
            shutil.rmtree(files, ignore_errors=True)  # gone already when it was registered
        return self.model(f"{new.name}:{version}")

    def download(self, reference: str, folder: Path, progress: Callable[[int, int | None], None] | None = None) -> int:
        """Copy a version's files into a folder, as `model_files.hand_out` does. Raises NotFound, Conflict, Unexpected."""
        model = self.model(reference)
        return model_files.hand_out(
            layout.model_folder(self._store.home, model.name, int(model.version)), folder, progress
        )

    def delete(self, reference: str) -> None:
        """Remove a version and its files. Raises NotFound, and Conflict while a deployment uses it."""
        model = self.model(reference)
        folder = layout.model_folder(self._store.home, model.name, int(model.version))
        bin_folder = unfinished.deleted(self._store.home / "models")
        try:
            with put_back(bin_folder, folder), self._store.write() as db:
                users = [
                    f"{endpoint}/{deployment}"
                    for endpoint, deployment in db.execute(
                        "SELECT endpoint, name FROM deployment WHERE ? IN (model, CASE next WHEN '' THEN '' ELSE"
                        " json_extract(next, '$.model') END) ORDER BY endpoint, name",
                        (model.reference,),
                    )
                ]
                if users:
                    raise Conflict(
                        f"Model {model.reference} is used by {', '.join(users)}.",
                        "Delete the endpoint or deployment first.",
                    )
                db.execute("DELETE FROM model WHERE name = ? AND version = ?", (model.name, int(model.version)))
                if folder.exists():
                    folder.rename(bin_folder)
            if bin_folder.exists():
                shutil.rmtree(bin_folder)
        except OSError as error:
            raise Unexpected(
                f"The files of model {model.reference} could not all be removed: {error}.",
                "Mend the permissions.",
                repr(error),
            ) from error

    def _job_output(self, job: str, output: str | None) -> tuple[Path, str]:
        """What is to be registered of a job, and the model's type. Raises NotFound, and Invalid where it is one of several."""
        folder = layout.job_folder(self._store.home, job)
        outputs = folder / "outputs"
        if output is None and (outputs / "model" / "model.json").is_file():
            return outputs / "model", _PLAIN
        if output == "default" or (output is None and outputs.is_dir() and any(outputs.iterdir())):
            return outputs, _PLAIN
        with self._store.read() as db:
            kinds = records.mapping(db.execute("SELECT outputs FROM job WHERE name = ?", (job,)).fetchone()[0])
        if output is not None:
            if output not in kinds:
                raise NotFound(f"Job {job!r} has no output {output!r}.", f"It has {', '.join(['default', *kinds])}.")
            return folder / "named" / output, _model_type(kinds[output])
        written = {
            name: kind for name, kind in kinds.items() if next(model_files.files_in(folder / "named" / name), None)
        }
        # Of a job that declares a model, no other output is taken for one.
        declared = any(kind in MODEL_TYPES for kind in kinds.values())
        models = {name: kind for name, kind in written.items() if kind in MODEL_TYPES or not declared}
        if len(models) > 1:
            raise Invalid(
                f"Job {job!r} has written several {'models' if declared else 'outputs'}: {', '.join(models)}.",
                "Name one of them: --output NAME.",
            )
        return next(((folder / "named" / name, _model_type(kind)) for name, kind in models.items()), (outputs, _PLAIN))

    def _keep(self, files: Path, new: _New) -> int:
        """Give a version's files the next number, their place and their record."""
        size = sum(file.stat().st_size for file in files.rglob("*") if file.is_file())
        with self._store.write() as db:
            last = db.execute("SELECT max(version) FROM model WHERE name = ?", (new.name,)).fetchone()[0]
            version = new.version or int(last or 0) + 1
            if db.execute("SELECT 1 FROM model WHERE name = ? AND version = ?", (new.name, version)).fetchone():
                raise Conflict(f"Model {new.name}:{version} is there already.", "Give another version.")
            folder = layout.model_folder(self._store.home, new.name, version)
            if folder.exists():  # of a registration that was killed: it has no record
                shutil.rmtree(folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            files.rename(folder)
            db.execute(
                "INSERT INTO model (name, version, type, created, job, description, tags, metadata, size, lineage, folder)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    new.name,
                    version,
                    new.type,
                    now(),
                    new.job,
                    new.description,
                    json.dumps({"job": new.job} if new.job else {}),
                    json.dumps(new.metadata),
                    size,
                    json.dumps(new.lineage),
                    new.folder,
                ),
            )
        return version


def _model(row: sqlite3.Row) -> Model:
    return Model(
        name=row["name"],
        version=str(row["version"]),
        type=row["type"],
        created=moment(row["created"]),
        job=row["job"],
        description=row["description"],
        tags=records.mapping(row["tags"]),
        metadata=records.mapping(row["metadata"]),
        size=row["size"],
        lineage=records.mapping(row["lineage"]),
    )


def _model_type(kind: object) -> str:
    """A model's type by that of the output it was: a plain folder or file is a custom model."""
    return str(kind) if kind in MODEL_TYPES else _PLAIN
