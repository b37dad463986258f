"""What the launch form asks and says: whether to launch with errors, to leave, to go back to one job, how to name a template."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from textual.app import App
from textual.screen import Screen

from footplate import words
from footplate.jobfile import JobFile
from footplate.jobfile.faults import Fault
from footplate.logs.sanitise import clean
from footplate.operations import launch
from footplate.operations.outlook import Outlook
from footplate.screens.dialogs import ConfirmDialog, Field, FieldsDialog, expanded

_MOST_NAMED = 8


async def launch_all_the_same(app: App[object], errors: Sequence[Fault]) -> bool:
    """Name the errors and ask whether to launch; it starts on the harmless answer. Call it in a worker."""
    lines = [clean(f"line {fault.line}: {fault.message}") for fault in errors[:_MOST_NAMED]]
    if len(errors) > _MOST_NAMED:
        lines.append(f"… and {len(errors) - _MOST_NAMED} more")
    title = f"Launch with {len(errors)} error{'s' * (len(errors) > 1)}?"
    asked = ConfirmDialog(title, "\n".join(lines), "Launch all the same", harmless="Mend it first")
    answer: bool | None = await app.push_screen_wait(asked)
    return bool(answer)


async def leave(app: App[object], count: int) -> bool:
    """Ask whether to leave a form in which so many values were changed. Call it in a worker."""
    text = f"{count} changed value{'s' * (count > 1)} would be lost; the file itself is unchanged."
    answer: bool | None = await app.push_screen_wait(ConfirmDialog("Leave the form?", text, "Leave", harmless="Stay"))
    return bool(answer)


async def back_to_one_job(app: App[object]) -> bool:
    """Ask whether to drop the sweep that was made of a command job. Call it in a worker."""
    text = "The search space, sampling, objective and limits that were made here are dropped."
    asked = ConfirmDialog("Back to one job?", text, "One job", harmless="Keep the sweep")
    answer: bool | None = await app.push_screen_wait(asked)
    return bool(answer)


def stoppable(outlook: Outlook) -> tuple[Fault, ...]:
    """How many trials a sweep's policy can stop at most, as a note at the policy."""
    if outlook.stoppable is None:
        return ()
    stopped, total = outlook.stoppable
    said = f"At most {stopped} of {total} trials can be stopped early."
    return (Fault("stoppable", "note", said, "", 0, 1, ("early_termination", "type")),)


async def save_as_template(form: Screen[None], job_file: JobFile) -> Path | None:
    """Ask for name and folder, then save; None when it was left. Call it in a worker. Raises as `launch.save_template`."""
    folders = await asyncio.to_thread(launch.own_folders)
    if not form.is_current:
        return None  # left meanwhile
    asked = FieldsDialog(
        "Save as a new template",
        "It is offered in the launch list from then on. Relative paths are kept leading where they lead.",
        "Save",
        (
            Field("name", "Name", job_file.path.stem if job_file.path else "job"),
            Field("folder", "Folder", words.path(folders[-1])),
        ),
    )
    answer = await form.app.push_screen_wait(asked)
    if not answer:
        return None
    return await asyncio.to_thread(launch.save_template, job_file, answer["name"], expanded(answer["folder"]))
