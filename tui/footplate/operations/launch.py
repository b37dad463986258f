"""From a job file to a job: templates, changed values, and what will run before anything is started."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from footplate import paths
from footplate.jobfile import JobFile, convert, kinds, nodes, plan, read, search_space
from footplate.jobfile.changes import MarkedLine, marked
from footplate.jobfile.keys import place_of_key
from footplate.jobfile.plan import RankCommand, SweepPlan, place_of, sweep_plan
from footplate.jobfile.steps import step_plans
from footplate.jobfile.upload import LARGEST, MOST_IGNORED, Upload, upload_files
from footplate.workspace import Conflict, Invalid, Unexpected

_ENDINGS = (".yml", ".yaml")


def templates() -> list[Path]:
    """The job files offered in the launch list: footplate's own, those of `./jobs` where it was started, and the user's own.

    The user's own lie in `jobs` beside the settings file. Only regular files: a pipe would be waited for.
    """
    folders = {paths.asset("jobs").resolve(): None}
    for folder in own_folders():
        folders[folder.resolve()] = None
    return [file for folder in folders for file in _job_files(folder)]


def own_folders() -> list[Path]:
    """Where a template can be saved: `./jobs` where footplate was started, and `jobs` beside the settings file."""
    folders = []
    with suppress(FileNotFoundError):  # the current folder may be gone
        folders.append(Path.cwd() / "jobs")
    return [*folders, paths.config_file().parent / "jobs"]


def _job_files(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:  # not there, or not to be read: then it offers nothing
        return []
    return [file for file in found if file.suffix in _ENDINGS and not file.name.startswith(".") and _is_file(file)]


def find(file: str) -> Path:
    """The job file that a command names: a path, or the bare name of a template, with or without its ending."""
    path = Path(file)
    if not os.path.lexists(path) and path.parent == Path():
        for template in templates():
            if file in (template.name, template.stem):
                return template
    return path


def prepare(path: Path, changes: Iterable[str] = (), compute: str | None = None, name: str | None = None) -> JobFile:
    """Read a job file and apply `PATH=VALUE` changes, compute and name. Raises Invalid for any that does not fit."""
    return changed(read(path), changes, compute, name)


def changed(
    job_file: JobFile, changes: Iterable[str] = (), compute: str | None = None, name: str | None = None
) -> JobFile:
    """Apply `PATH=VALUE` changes, compute and name to a job file. Raises Invalid for any that does not fit.

    A pipeline's compute is that of all its steps, also of those that name another.
    """
    edits: dict[str, object] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals or not key:
            raise Invalid(f"--set {change!r} is not PATH=VALUE.", "As in --set inputs.num_epochs=5.")
        edits[key] = value
    if compute and job_file.kind == "pipeline":  # where a bare name is refused
        known = compute.startswith("azureml:") or compute.lower() == "serverless"
        named = [step for step, said in job_file.mapping("jobs").items() if nodes.mapping(said).get("compute")]
        for key in ("settings.default_compute", *(f"jobs.{step}.compute" for step in named)):
            edits[key] = compute if known else f"azureml:{compute}"
    elif compute:
        edits["compute"] = compute
    if name:
        edits["name"] = name
    return change_values(job_file, edits)


def change_values(job_file: JobFile, edits: Mapping[str, object]) -> JobFile:
    """A copy of the file with values changed, each at any key that its kind of file has.

    For a data input the value is its path. Where a list or keys belong, text is read as YAML: `[4, 8]`. Raises Invalid for a
    key that the kind does not have, naming the nearest.
    """
    targets: dict[str | nodes.Path, object] = dict(place_of_key(job_file, key, value) for key, value in edits.items())
    return job_file.edit(targets) if targets else job_file


def save_template(job_file: JobFile, name: str, folder: Path) -> Path:
    """Save a job file as a new template in a folder, with its relative paths leading to where they led; gives its path.

    Raises Conflict where there is one of that name, Invalid for what is no file's name, Unexpected where it cannot be written.
    """
    stem = name.strip()
    for ending in _ENDINGS:
        stem = stem.removesuffix(ending)
    if not stem or stem.startswith(".") or not stem.isprintable() or "/" in stem or len(stem.encode()) > 200:
        raise Invalid(f"{name!r} cannot be a template's name.", "Use a plain file name, as in my-train.")
    target = folder / f"{stem}.yml"
    text = convert.relocate(job_file, folder).text
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = _write_new(target, text.encode())
    except OSError as error:
        raise Unexpected(
            f"The template could not be written to {target}: {error.strerror or error}.",
            "Free space or mend the folder's permissions; nothing was saved.",
            repr(error),
        ) from error
    if not made:
        raise Conflict(f"There is a {target.name} in {folder} already.", "Give another name.")
    return target


_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What file systems say that have no hard links."""


def _write_new(target: Path, content: bytes) -> bool:
    """Write a file that is not there yet, whole or not at all; False where there is one."""
    made = target.parent / f".{secrets.token_hex(8)}.new"
    try:
        with made.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            target.hardlink_to(made)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(target):
                return False
            made.rename(target)
    finally:
        made.unlink(missing_ok=True)
    return True


def upload_of(job_file: JobFile) -> Upload:
    """What the job takes along. Raises Invalid where its code folder is missing."""
    return _upload_of(job_file, job_file.code)


def _upload_of(job_file: JobFile, code: Path | None) -> Upload:
    if code is None:
        return Upload((), 0, None)
    if _is_file(code):  # Azure's client takes the one file
        size = code.stat().st_size
        return Upload((Path(code.name),), size, None, largest=((code.name, size),))
    if not os.path.isdir(code):  # noqa: PTH112  Path.is_dir raises for a name too long, a loop of links
        raise Invalid(
            f"{job_file.label} line {job_file.line(*job_file.body, 'code')}: the code folder {code} is not there.",
            "Mend `code`; it is relative to the job file.",
        )
    return upload_files(code, leave_out=paths.home())


def _joined(uploads: Iterable[Upload]) -> Upload:
    """The uploads of several steps as one; what is told of each file stays told of its own folder."""
    every = list(uploads)
    if len(every) == 1:
        return every[0]
    largest = sorted((found for one in every for found in one.largest), key=lambda found: (-found[1], found[0]))
    return Upload(
        files=tuple(file for one in every for file in one.files),
        bytes=sum(one.bytes for one in every),
        ignored_by=", ".join(dict.fromkeys(one.ignored_by for one in every if one.ignored_by)) or None,
        more=any(one.more for one in every),
        largest=tuple(largest[:LARGEST]),
        ignored=tuple(found for one in every for found in one.ignored)[:MOST_IGNORED],
        ignored_count=sum(one.ignored_count for one in every),
        links_to_nothing=tuple(link for one in every for link in one.links_to_nothing),
        notes=tuple(dict.fromkeys(note for one in every for note in one.notes)),
    )


def require_launchable(job_file: JobFile) -> None:
    """Raise Invalid for a file of a kind that is not launched: nothing about it can be forced."""
    if job_file.kind not in kinds.JOBS:
        raise Invalid(
            f"{job_file.label} is {kinds.TITLES[job_file.kind]}, which is not launched.",
            "Command, sweep and pipeline jobs are.",
        )


def dry_run(job_file: JobFile) -> dict[str, Any]:
    """What `launch --dry-run` prints: every rank's command and environment, the upload, and the file's text as changed.

    `commands` holds the ranks of a sweep's trial, or of each of a pipeline's steps. Raises Invalid for what cannot run.
    """
    require_launchable(job_file)
    more: dict[str, Any] = {}
    folders = dict.fromkeys([job_file.code])
    if job_file.kind == "command":
        commands = [rank.document() for rank in plan(job_file).ranks()]
    elif job_file.kind == "sweep":
        swept = sweep_plan(job_file)
        commands = [rank.document() for rank in swept.plan.ranks()]
        more = {"search_space": dict(swept.search_space), "ranges": _ranges(job_file), "trials": _trials(swept)}
    else:
        steps = step_plans(job_file)
        commands = [{"step": s.step, **rank.document()} for s in steps if s.plan for rank in s.plan.ranks()]
        more = {"steps": [{"step": s.step, "type": s.kind, "why": s.why} for s in steps]}
        folders = dict.fromkeys(s.code for s in steps if s.code)
    return {
        "commands": commands,
        "upload": _upload_document(job_file, _joined(_upload_of(job_file, code) for code in folders)),
        "inputs": inputs_of(job_file),
        **more,
        "yaml": job_file.text,
        "changes": changes_of(job_file),
    }


def _ranges(job_file: JobFile) -> dict[str, str]:
    """The values that each search space really gives, in words."""
    ranges = {space.name: search_space.real_range(space) for space in search_space.spaces_of(job_file)}
    return {name: found.text for name, found in ranges.items() if found is not None}


def _trials(swept: SweepPlan) -> list[dict[str, Any]]:
    """Sample trials: the values drawn, and what rank 0 gets."""
    found = []
    for trial in swept.trials:
        first: RankCommand = trial.plan.ranks()[0]
        found.append({"values": dict(trial.values), "environment": dict(first.environment), "command": first.command})
    return found


_HOW = {
    "direct": "passed as its address",
    "download": "copied to the node before the start",
    "ro_mount": "mounted read-only",
    "rw_mount": "mounted, can be written",
    "eval_mount": "evaluated, then mounted",
    "eval_download": "evaluated, then copied to the node",
}


def inputs_of(job_file: JobFile) -> list[dict[str, str]]:
    """Each input: its type, its value or place, what the command gets, and how the data comes to the node."""
    found = []
    for name, given in job_file.inputs.items():
        row = {"name": name, "type": given.type, "value": given.path or "", "command": place_of(given)}
        if given.literal is None:
            mode = given.mode or "ro_mount"
            row |= {"mode": mode, "how": _HOW.get(mode, mode)}
        else:
            row |= {"value": given.literal, "mode": "", "how": "written into the command"}
        found.append(row)
    return found


def _upload_document(job_file: JobFile, upload: Upload) -> dict[str, Any]:
    document: dict[str, Any] = {"files": len(upload.files), "bytes": upload.bytes, "ignored_by": upload.ignored_by}
    if job_file.code is None and not upload.files:
        return document
    return {
        **document,
        "more": upload.more,
        "largest": [{"path": path, "bytes": size} for path, size in upload.largest],
        "ignored": [{"path": one.path, "rule": one.rule, "where": one.where} for one in upload.ignored],
        "ignored_count": upload.ignored_count,
        "links_to_nothing": list(upload.links_to_nothing),
        "notes": list(upload.notes),
    }


def marked_lines(job_file: JobFile) -> tuple[MarkedLine, ...]:
    """Every line of the text as it will be submitted, with what was changed in the file on disk, where there is one."""
    before = _text_on_disk(job_file)
    return marked(job_file.text if before is None else before, job_file.text)


def changes_of(job_file: JobFile) -> list[dict[str, Any]]:
    """The lines that differ from the file on disk: numbers (from 1), what stood there, the characters (from 0) that changed."""
    return [
        {
            "line": line.number,
            "state": line.state,
            "text": line.text,
            "before": list(line.before),
            "spans": [list(span) for span in line.spans],
        }
        for line in marked_lines(job_file)
        if line.state != "same"
    ]


def _text_on_disk(job_file: JobFile) -> str | None:
    if job_file.path is None or not _is_file(job_file.path):
        return None
    try:
        return read(job_file.path).text
    except Invalid:  # changed meanwhile to something that cannot be read: then there is nothing to compare
        return None


def _is_file(path: Path) -> bool:
    """Whether a regular file lies at a path; Path.is_file raises for a name too long, a loop of links."""
    return os.path.isfile(path)  # noqa: PTH113
