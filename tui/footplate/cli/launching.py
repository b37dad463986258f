"""What `launch` does before a job starts: the check with its faults on stderr, and the dry run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from footplate import settings
from footplate.cli.check import counts, fault_lines
from footplate.cli.dry_run import dry_run_text
from footplate.cli.frame import Frame
from footplate.jobfile import JobFile, check, read
from footplate.jobfile.faults import Fault, nearest
from footplate.operations import launch
from footplate.operations.check import check_for_launch
from footplate.workspace import Contrast, Invalid, NotFound, Workspace, WorkspaceError


def prepare(file: str, changes: Sequence[str], compute: str | None, name: str | None) -> JobFile:
    """The job file that a command names, with its changes. Raises Invalid, NotFound for the name of no template."""
    path = launch.find(file)
    if path.parent == Path() and not path.suffix and not os.path.lexists(path):
        names = list(dict.fromkeys(template.stem for template in launch.templates()))
        near = nearest(file, names)
        hint = f"Did you mean {near}?" if near else f"The templates are {', '.join(names)}."
        raise NotFound(f"There is neither a file nor a template {file!r}.", hint)
    return launch.prepare(path, changes, compute, name)


async def refuse_errors(frame: Frame, workspace: Workspace, job_file: JobFile, force: bool) -> None:
    """Check a file that is about to be launched. Raises Invalid where it has an error and nothing is forced."""
    found = await check_for_launch(workspace, job_file, _severities())
    # A name that is taken is the workspace's to refuse, as Conflict: another call may take it after this look, too.
    found = [fault for fault in found if fault.severity != "note" and fault.code != "name-taken"]
    _say(frame, job_file, found)
    _refuse(job_file, found, force)
    if contrasts := await workspace.contrasts(job_file):
        topics = ", ".join(dict.fromkeys(one.topic for one in contrasts))
        frame.note(f"On Azure this would differ: {topics} (launch --dry-run tells how).")


async def checked_file(frame: Frame, workspace: Workspace, path: Path, force: bool) -> JobFile:
    """Read and check a file that is about to be deployed. Raises Invalid where it has an error and nothing is forced."""
    file = read(path)
    found = await check_for_launch(workspace, file, _severities())
    found = [fault for fault in found if fault.severity != "note"]
    _say(frame, file, found)
    _refuse_faults(file, found, force, "deploy")
    return file


def dry_run(frame: Frame, job_file: JobFile, force: bool) -> None:
    """Show what would run, and the faults. Raises Invalid after it for an error of the file itself, unless forced."""
    found, contrasts = _look(frame, job_file, _severities())
    _say(frame, job_file, found)
    document = {
        **launch.dry_run(job_file),
        "faults": [fault.document() for fault in found],
        "differs_on_azure": [asdict(one) for one in contrasts],
    }
    frame.result(document, lambda: dry_run_text(document, launch.marked_lines(job_file)))
    # A file may be meant for another workspace: what only this one lacks is said, and no error of the file.
    _refuse(job_file, [fault for fault in found if check.CODES[fault.code].needs != "workspace"], force)


def _severities() -> Mapping[str, str]:
    return settings.load().check.severities


def _look(frame: Frame, job_file: JobFile, severities: Mapping[str, str]) -> tuple[list[Fault], Sequence[Contrast]]:
    """The faults for a dry run, and what differs on Azure; a workspace that cannot be reached keeps nobody from seeing more."""

    async def look(workspace: Workspace) -> tuple[list[Fault], Sequence[Contrast]]:
        found = await check_for_launch(workspace, job_file, severities)
        return found, await workspace.contrasts(job_file)

    try:
        return frame.run(look)
    except WorkspaceError as error:
        if isinstance(error, Invalid):
            raise
        frame.note(f"Checked without the workspace: {error}")
        return check.check(job_file, severities), ()


def _say(frame: Frame, job_file: JobFile, found: Sequence[Fault]) -> None:
    for fault in found:
        frame.note("\n".join(fault_lines(str(job_file.path or job_file.label), fault)))


def _refuse(job_file: JobFile, found: Sequence[Fault], force: bool) -> None:
    launch.require_launchable(job_file)
    _refuse_faults(job_file, found, force, "launch")


def _refuse_faults(job_file: JobFile, found: Sequence[Fault], force: bool, act: str) -> None:
    if not force and any(fault.severity == "error" for fault in found):
        raise Invalid(
            f"{job_file.label} has {counts(found)}: nothing was started.",
            f"Mend what is wrong, or {act} with --force.",
        )
