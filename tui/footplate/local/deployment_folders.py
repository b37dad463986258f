"""What a deployment's server finds when it starts: its code and its model, each in a folder of this revision."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from footplate import paths
from footplate.local import model_files
from footplate.local.deployment_spec import Spec
from footplate.workspace.errors import Invalid, Unexpected

LOG = "storage-initializer.log"
"""What was linked or copied of the model, with the tree that the scoring script sees; named as Azure's container."""


def code_files(code: Path | None, home: Path) -> tuple[Path, tuple[Path, ...]]:
    """A code folder and the files of it that are taken along, by Azure's ignore rules; without one footplate's own `score`."""
    from footplate.jobfile.upload import upload_files  # reads YAML, which a list of endpoints need not wait for

    folder = code or paths.asset("score")
    listed = upload_files(folder, leave_out=home, most=None)
    if listed.more:
        raise Invalid(
            f"The code folder {folder} holds too much to be copied: its list did not end.",
            "Name a smaller folder, or leave folders out in .amlignore.",
        )
    return folder, listed.files


def digest(code: Path, home: Path) -> str:
    """The SHA-256 of a code folder's files and their names, of those that are taken along. Raises Invalid."""
    folder, files = code_files(code, home)
    found = hashlib.sha256()
    try:
        for file in files:
            content = hashlib.sha256((folder / file).read_bytes()).hexdigest()
            found.update(f"{content} {file}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise Invalid(
            f"The code folder {folder} cannot be read: {error.filename}: {error.strerror or error}.",
            "Mend its permissions, or name what cannot be read in .amlignore.",
            repr(error),
        ) from error
    return found.hexdigest()


def place(folder: Path, spec: Spec, code: Path | None, model: tuple[str, Path, str] | None, home: Path) -> None:
    """Put a revision's code and model into a deployment's folder, or nothing of it. Raises Invalid, Unexpected.

    `model`: its reference, its files, and the folder's name that they lie under in AZUREML_MODEL_DIR (as on Azure that of
    the folder that was registered; empty for none). None: it has no model.
    """
    source, files = code_files(code, home)
    with _whole(folder, spec):
        target = folder / spec.code
        target.mkdir(parents=True)
        for file in files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / file, target / file)
        place_model(folder, spec, model)


def place_model(folder: Path, spec: Spec, model: tuple[str, Path, str] | None) -> None:
    """Link a model's files, or copy where there can be no links, and say so in the storage initializer's log. Raises OSError."""
    target = folder / spec.model
    said = "no model"
    if model is None or not model[1].is_dir():
        target.mkdir(parents=True)
        said = f"{model[0]} has no files" if model else said
    else:
        reference, source, name = model
        if name:
            target.mkdir(parents=True)
        linked, copied = model_files.keep_once(source, target / name)
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        said = f"{reference}: {linked + copied} files, {linked} linked and {copied} copied, {size:,} bytes"
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {said}\n{model_files.tree(target)}\n")


@contextmanager
def _whole(folder: Path, spec: Spec) -> Iterator[None]:
    """Remove a revision's folders where they cannot be filled, and say why."""
    for name in (spec.code, spec.model):
        shutil.rmtree(folder / name, ignore_errors=True)  # of an attempt that was killed
    try:
        yield
    except BaseException as error:
        for name in (spec.code, spec.model):
            shutil.rmtree(folder / name, ignore_errors=True)
        if isinstance(error, OSError):
            raise Unexpected(
                f"The code or the model of deployment {folder.name!r} cannot be copied: {model_files.reason(error)}.",
                "Free space or mend the permissions, then deploy again.",
                repr(error),
            ) from error
        raise
