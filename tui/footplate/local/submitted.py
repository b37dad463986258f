"""The job file as it was submitted: kept in the job's folder, with the place it came from."""

from __future__ import annotations

import json
import os
from pathlib import Path

from footplate.jobfile import JobFile
from footplate.jobfile.document import parse
from footplate.local.files import flush
from footplate.workspace import NotFound, Unexpected, WorkspaceError

_TEXT, _SOURCE = "job.yml", "source.json"


def keep(folder: Path, job_file: JobFile) -> None:
    """Write the file's text, its own path and the folder in which its relative paths lie into a job's folder."""
    (folder / _TEXT).write_bytes(job_file.text.encode())
    path = None if job_file.path is None else os.path.abspath(job_file.path)  # noqa: PTH100  # links stay as they were named
    source = {"path": path, "base": os.path.abspath(job_file.base)}  # noqa: PTH100
    (folder / _SOURCE).write_text(json.dumps(source), encoding="utf-8")
    for name in (_TEXT, _SOURCE):
        flush(folder / name)


def read(folder: Path) -> JobFile:
    """The file that was kept, with its relative paths in the folder of then; `code` is the kept copy where that folder is gone.

    The component files of a pipeline are their kept copies where one of them was changed since.

    Raises NotFound where no file was kept, Unexpected where it cannot be read.
    """
    try:
        text = (folder / _TEXT).read_bytes().decode()
        path, base = _source(folder)
    except FileNotFoundError as error:
        raise NotFound(
            f"The job file of {folder.name!r} is no longer there.", "Launch it from its template.", repr(error)
        ) from error
    except (OSError, ValueError) as error:
        raise Unexpected(
            f"The job file of {folder.name!r} cannot be read: {error}.", f"Look at {folder}.", repr(error)
        ) from error
    try:
        job_file = parse(text, path, base)
    except WorkspaceError as error:  # it could be read when it was submitted
        raise Unexpected(
            f"The job file that was kept of {folder.name!r} is damaged.",
            f"Look at {folder / _TEXT}, or launch it from its template.",
            str(error),
        ) from error
    if job_file.kind == "pipeline":
        from footplate.local.pipeline.components import as_they_were  # what other jobs never need

        return as_they_were(folder, job_file)
    kept = folder / "code"
    # Path.is_dir raises for a name too long, a loop of links.
    if job_file.code is None or os.path.isdir(job_file.code) or not kept.is_dir():  # noqa: PTH112
        return job_file
    return job_file.edit({(*job_file.body, "code"): str(kept)})


def _source(folder: Path) -> tuple[Path | None, Path]:
    """The file's own path and its folder; of a job that was started before these were kept, the job's folder."""
    if not (folder / _SOURCE).exists():
        return None, folder
    source = json.loads((folder / _SOURCE).read_text(encoding="utf-8"))
    path, base = (source.get("path"), source.get("base")) if isinstance(source, dict) else (None, None)
    return Path(path) if isinstance(path, str) else None, Path(base) if isinstance(base, str) else folder
