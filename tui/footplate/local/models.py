"""Registered models on this machine: versions, each a folder of its own that nobody changes."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from footplate.local import layout, records, references
from footplate.local.store import Store, moment, now
from footplate.workspace import Conflict, Invalid, Model, NotFound, Unexpected
from footplate.workspace.model import ACTIVE_STATUSES

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_METADATA_LIMIT = 1024 * 1024


class Models:
    """Model versions of one home. A version's files are copies, so that neither a job's end nor its deletion touches them."""

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

    def register(self, name: str, source: str | Path, description: str = "") -> Model:
        """Copy a folder, or the output of an ended job, as the next version of a model.

        Of a job it takes `outputs/model` where that holds a `model.json`, else its whole `outputs` folder. Raises NotFound
        (no such job), Invalid (name, empty or missing folder, broken `model.json`), Conflict while the job goes on, Unexpected
        for a full or read-only disk.
        """
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"{name!r} cannot be a model's name.",
                "Use letters, digits, and . - _ between them, a letter or digit first.",
            )
        job = None if isinstance(source, Path) else source
        folder = source if isinstance(source, Path) else self._job_output(source)
        try:
            empty = not folder.is_dir() or not any(folder.iterdir())
        except OSError as error:
            raise Invalid(
                f"{folder} cannot be read: {error.strerror or error}.",
                "Mend the permissions, or name another.",
                repr(error),
            ) from error
        if empty:
            what = f"The outputs of job {job!r} are empty" if job else f"{folder} is no folder with files in it"
            raise Invalid(f"{what}: there is nothing to register.", "Write the model to ./outputs, or name its folder.")
        if self._store.home.resolve().is_relative_to(folder.resolve()):
            raise Invalid(
                f"{folder} holds footplate's own home, {self._store.home}.",
                "Name the folder that holds the model alone.",
            )
        metadata = _metadata(folder / "model.json")
        new = self._store.home / "models" / f".new-{secrets.token_hex(8)}"
        try:
            shutil.copytree(folder, new)
            version = self._keep(new, name, job, description, metadata)
        except OSError as error:
            raise Unexpected(
                f"Model {name!r} could not be copied from {folder}: {_reason(error)}.",
                "Free space or mend the permissions; nothing was registered.",
                repr(error),
            ) from error
        finally:
            shutil.rmtree(new, ignore_errors=True)  # gone already when it was registered
        return self.model(f"{name}:{version}")

    def delete(self, reference: str) -> None:
        """Remove a version and its files. Raises NotFound, and Conflict while a deployment uses it."""
        model = self.model(reference)
        folder = layout.model_folder(self._store.home, model.name, int(model.version))
        bin_folder = self._store.home / "models" / f".deleted-{secrets.token_hex(8)}"
        try:
            with self._store.write() as db:
                users = [
                    f"{endpoint}/{deployment}"
                    for endpoint, deployment in db.execute(
                        "SELECT endpoint, name FROM deployment WHERE model = ? ORDER BY endpoint, name",
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

    def _job_output(self, job: str) -> Path:
        with self._store.read() as db:
            row = db.execute("SELECT status FROM job WHERE name = ?", (job,)).fetchone()
        if row is None:
            raise NotFound(f"There is no job {job!r} on this machine.", "The list of jobs has the names.")
        if row["status"] in ACTIVE_STATUSES:
            raise Conflict(f"Job {job!r} has not ended: {row['status']}.", "Wait for its end, or cancel it.")
        outputs = layout.job_folder(self._store.home, job) / "outputs"
        return outputs / "model" if (outputs / "model" / "model.json").is_file() else outputs

    def _keep(self, new: Path, name: str, job: str | None, description: str, metadata: Mapping[str, Any]) -> int:
        """Give the copied folder the next version number, its place and its record."""
        size = sum(file.stat().st_size for file in new.rglob("*") if file.is_file())
        with self._store.write() as db:
            last = db.execute("SELECT max(version) FROM model WHERE name = ?", (name,)).fetchone()[0]
            version = int(last or 0) + 1
            folder = layout.model_folder(self._store.home, name, version)
            if folder.exists():  # of a registration that was killed: it has no record
                shutil.rmtree(folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            new.rename(folder)
            db.execute(
                "INSERT INTO model (name, version, type, created, job, description, tags, metadata, size) "
                "VALUES (?, ?, 'custom_model', ?, ?, ?, ?, ?, ?)",
                (
                    name,
                    version,
                    now(),
                    job,
                    description,
                    json.dumps({"job": job} if job else {}),
                    json.dumps(metadata),
                    size,
                ),
            )
        return version


def _metadata(file: Path) -> Mapping[str, Any]:
    try:
        if not file.is_file():
            return {}
        if (size := file.stat().st_size) > _METADATA_LIMIT:
            raise Invalid(
                f"{file} has {size} bytes; a model.json may have {_METADATA_LIMIT}.", "Keep weights in other files."
            )
        metadata = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid(
            f"{file} cannot be read: {error.strerror or error}.", "Mend its permissions.", repr(error)
        ) from error
    except RecursionError as error:
        raise Invalid(f"{file} is nested too deep.", "Mend it, or leave it out.") from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise Invalid(f"{file} is not JSON: {error}.", "Mend it, or leave it out.", repr(error)) from error
    if not isinstance(metadata, dict):
        raise Invalid(f"{file} must hold a JSON object.", "Mend it, or leave it out.")
    return metadata


def _reason(error: OSError) -> str:
    """What went wrong; copytree gathers (from, to, why) of every file into one error."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        return str(error.args[0][0][-1])
    return error.strerror or str(error)


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
    )
