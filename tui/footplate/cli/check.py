"""The command `check`: every fault of files, without Azure's SDK, and against a workspace where one is named."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from footplate import settings
from footplate.cli.frame import Frame, common, fail
from footplate.jobfile import JobFile
from footplate.jobfile.check import check_file
from footplate.jobfile.faults import Fault
from footplate.jobfile.kinds import TITLES
from footplate.logs.sanitise import clean
from footplate.workspace import Invalid, Workspace

_HINT_INDENT = 4
_NARROWEST = 40


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@common
@click.pass_obj
def check_command(frame: Frame, files: tuple[str, ...]) -> None:
    """Find every fault of job, sweep, pipeline, endpoint, deployment and cluster files.

    FILE is a path, or a template's bare name. With --workspace NAME also against what that workspace has. Ends with 2 where a
    file has an error; [check.severities] in the settings says what counts as one.
    """
    severities = settings.load().check.severities
    paths = [_find(file) for file in files]
    if frame.workspace:
        checked = frame.run(lambda workspace: _check_all(paths, severities, workspace))
    else:
        checked = [_check(path, severities) for path in paths]
    every = [fault for one in checked if not isinstance(one, Invalid) for fault in one[1]]
    text = "" if frame.json else _text(paths, checked)
    if frame.json or text:
        frame.result([fault.document() for fault in every], text)
    for one in checked:
        if isinstance(one, Invalid):
            fail(one.sentence, one.next_step)
    if any(isinstance(one, Invalid) for one in checked) or any(fault.severity == "error" for fault in every):
        sys.exit(2)


def _find(file: str) -> Path:
    if os.path.exists(file):  # noqa: PTH110  Path.exists raises for a name too long
        return Path(file)
    from footplate.operations import launch  # what else it loads is not needed for a path

    return launch.find(file)


_Checked = tuple[JobFile | None, list[Fault]] | Invalid
"""A file with its faults, or why there is no such file."""


def _check(path: Path, severities: Mapping[str, str]) -> _Checked:
    try:
        return check_file(path, severities)
    except Invalid as error:
        return error


async def _check_all(paths: Sequence[Path], severities: Mapping[str, str], workspace: Workspace) -> list[_Checked]:
    from footplate.operations.check import check_path_on  # with what asks a workspace, which a file alone needs none of

    checked: list[_Checked] = []
    for path in paths:
        try:
            checked.append(await check_path_on(workspace, path, severities))
        except Invalid as error:
            checked.append(error)
    return checked


def _text(paths: Sequence[Path], checked: Sequence[_Checked]) -> str:
    """The faults of each file, each with its hint below it, and what there is in all."""
    lines: list[str] = []
    read = [(path, one) for path, one in zip(paths, checked, strict=True) if not isinstance(one, Invalid)]
    for path, (job_file, faults) in read:
        for fault in faults:
            lines += fault_lines(str(path), fault)
        if not faults:
            lines.append(clean(f"{path}: {TITLES[job_file.kind] if job_file else 'a file'}, no faults"))
    every = [fault for _, (_, faults) in read for fault in faults]
    if every:
        lines.append(f"{counts(every)} in {len(read)} file{'s' if len(read) > 1 else ''}")
    return "\n".join(lines)


def fault_lines(file: str, fault: Fault) -> list[str]:
    """A fault as lines: place, severity, message and code; the hint indented. Wrapped on a terminal, else one line each."""
    indent = " " * _HINT_INDENT
    first = f"{file}:{fault.line}:{fault.column}: {fault.severity}: {fault.message} [{fault.code}]"
    lines = [clean(first), *([indent + clean(fault.hint)] if fault.hint else [])]
    if not sys.stdout.isatty():
        return lines
    import shutil
    import textwrap

    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    return [
        part
        for line, further in zip(lines, ("  ", indent), strict=False)
        for part in textwrap.wrap(
            line,
            width,
            subsequent_indent=further,
            break_on_hyphens=False,
            break_long_words=False,
            replace_whitespace=False,
        )
    ]


def counts(faults: Sequence[Fault]) -> str:
    """`2 errors, 1 warning`."""
    found = Counter(fault.severity for fault in faults)
    return ", ".join(
        f"{found[severity]} {severity}{'s' if found[severity] > 1 else ''}"
        for severity in ("error", "warning", "note")
        if found[severity]
    )


def add_to(group: click.Group) -> None:
    """Put this command into the group."""
    group.add_command(check_command)
