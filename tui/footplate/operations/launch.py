"""From a job file to a job: templates, changed values, and what will run before anything is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from footplate import paths
from footplate.jobfile import JobFile, plan, read
from footplate.jobfile.document import TOP_KEYS
from footplate.jobfile.upload import Upload, upload_files
from footplate.workspace import Invalid


def templates() -> list[Path]:
    """The job files offered in the launch list: footplate's own, then those of `./jobs` where the console was started."""
    folders = {paths.asset("jobs").resolve(): None}
    with suppress(FileNotFoundError):  # the current folder may be gone
        folders[(Path.cwd() / "jobs").resolve()] = None
    return [file for folder in folders for file in sorted((*folder.glob("*.yml"), *folder.glob("*.yaml")))]


def find(file: str) -> Path:
    """The job file that a command names: a path, or the bare name of a template, with or without its ending."""
    path = Path(file)
    if not path.exists() and path.parent == Path():
        for template in templates():
            if file in (template.name, template.stem):
                return template
    return path


def prepare(path: Path, changes: Iterable[str] = (), compute: str | None = None, name: str | None = None) -> JobFile:
    """Read a job file and apply `PATH=VALUE` changes, compute and name. Raises Invalid for any that does not fit."""
    job_file = read(path)
    edits: dict[str, object] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key:
            raise Invalid(f"--set {change!r} is not PATH=VALUE.", "As in --set inputs.num_epochs=5.")
        edits[key] = value
    if compute:
        edits["compute"] = compute
    if name:
        edits["name"] = name
    return change_values(job_file, edits)


def change_values(job_file: JobFile, edits: Mapping[str, object]) -> JobFile:
    """A copy of the file with values changed; for a data input the value is its path. Raises Invalid for an unknown key."""
    targets: dict[str, object] = {}
    for key, value in edits.items():
        head, _, rest = key.partition(".")
        if head not in TOP_KEYS:
            hint = (
                f"Did you mean inputs.{key}?" if key in job_file.inputs else f"Start it with {', '.join(TOP_KEYS[2:])}."
            )
            raise Invalid(f"{key!r} names nothing in a job file.", hint)
        if head == "inputs" and rest and rest.partition(".")[0] not in job_file.inputs:
            known = ", ".join(job_file.inputs) or "none"
            raise Invalid(f"{job_file.label} has no input {rest.partition('.')[0]!r}.", f"Its inputs: {known}.")
        given = job_file.inputs.get(rest) if head == "inputs" else None
        targets[f"{key}.path" if given and given.literal is None else key] = value
    return job_file.edit(targets) if targets else job_file


def upload_of(job_file: JobFile) -> Upload:
    """What the job takes along. Raises Invalid where its code folder is missing."""
    if job_file.code is None:
        return Upload((), 0, None)
    if not _is_folder(job_file.code):
        raise Invalid(
            f"{job_file.label} line {job_file.line('code')}: the code folder {job_file.code} is not there.",
            "Mend `code`; it is relative to the job file.",
        )
    return upload_files(job_file.code, leave_out=paths.home())


def dry_run(job_file: JobFile, upload: Upload | None = None) -> dict[str, Any]:
    """What `launch --dry-run` prints: every rank's command and environment, the upload, and the file's text as changed."""
    planned = plan(job_file)
    upload = upload or upload_of(job_file)
    return {
        "commands": [asdict(rank) for rank in planned.ranks()],
        "upload": {"files": len(upload.files), "bytes": upload.bytes, "ignored_by": upload.ignored_by},
        "yaml": job_file.text,
    }


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a loop of links
        return False
