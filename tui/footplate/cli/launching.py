"""What `launch` does before a job starts: the check with its faults on stderr, and the dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from footplate import settings
from footplate.cli.check import counts, fault_lines
from footplate.cli.dry_run import dry_run_text
from footplate.cli.frame import Frame
from footplate.jobfile import JobFile, check
from footplate.jobfile.faults import Fault
from footplate.operations import launch
from footplate.operations.check import check_for_launch
from footplate.workspace import Invalid, Workspace, WorkspaceError


def prepare(file: str, changes: Sequence[str], compute: str | None, name: str | None) -> JobFile:
    """The job file that a command names, with its changes. Raises Invalid."""
    return launch.prepare(launch.find(file), changes, compute, name)


async def refuse_errors(frame: Frame, workspace: Workspace, job_file: JobFile, force: bool) -> None:
    """Check a file that is about to be launched. Raises Invalid where it has an error and nothing is forced."""
    found = await check_for_launch(workspace, job_file, _severities())
    # A name that is taken is the workspace's to refuse, as Conflict: another call may take it after this look, too.
    found = [fault for fault in found if fault.severity != "note" and fault.code != "name-taken"]
    _say(frame, job_file, found)
    _refuse(job_file, found, force)


def dry_run(frame: Frame, job_file: JobFile, force: bool) -> None:
    """Show what would run, and the faults. Raises Invalid after it for an error of the file itself, unless forced."""
    found = _look(frame, job_file, _severities())
    _say(frame, job_file, found)
    document = {**launch.dry_run(job_file), "faults": [fault.document() for fault in found]}
    frame.result(document, lambda: dry_run_text(document, launch.marked_lines(job_file)))
    # A file may be meant for another workspace: what only this one lacks is said, and no error of the file.
    _refuse(job_file, [fault for fault in found if check.CODES[fault.code].needs != "workspace"], force)


def _severities() -> Mapping[str, str]:
    return settings.load().check.severities


def _look(frame: Frame, job_file: JobFile, severities: Mapping[str, str]) -> list[Fault]:
    """The faults for a dry run: a workspace that cannot be reached keeps nobody from seeing what the file would run."""
    try:
        return frame.run(lambda workspace: check_for_launch(workspace, job_file, severities))
    except WorkspaceError as error:
        if isinstance(error, Invalid):
            raise
        frame.note(f"Checked without the workspace: {error}")
        return check.check(job_file, severities)


def _say(frame: Frame, job_file: JobFile, found: Sequence[Fault]) -> None:
    for fault in found:
        frame.note("\n".join(fault_lines(str(job_file.path or job_file.label), fault)))


def _refuse(job_file: JobFile, found: Sequence[Fault], force: bool) -> None:
    launch.require_launchable(job_file)
    if not force and any(fault.severity == "error" for fault in found):
        raise Invalid(
            f"{job_file.label} has {counts(found)}: nothing was started.",
            "Mend what is wrong, or launch with --force.",
        )
