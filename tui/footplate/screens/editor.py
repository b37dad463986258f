"""A job file in the editor that the user has chosen, on the console's own terminal."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from footplate.jobfile import JobFile, document
from footplate.jobfile.document import Unreadable
from footplate.logs.sanitise import clean
from footplate.screens.dialogs import ConfirmDialog
from footplate.workspace import Invalid


def command() -> list[str]:
    """The command of `$VISUAL`, else of `$EDITOR`. Raises Invalid where neither says one."""
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise Invalid(f"The editor {given!r} is no command: {error}.", "Mend VISUAL or EDITOR.", repr(error)) from error
    if not words:
        raise Invalid(
            "No editor is set.", "Set VISUAL or EDITOR before you start footplate, as in EDITOR=nano footplate."
        )
    return words


def edit(app: App[object], text: str, name: str) -> str:
    """Let the user edit a copy of a text, and give it as it is then; the console waits, and is drawn again.

    The copy lies in a folder of its own under the file's name and is removed. Raises Invalid where there is no editor, where
    it fails, and where this terminal cannot be lent.
    """
    words = command()
    # Bytes, not text: line breaks and a byte order mark are the file's own.
    with tempfile.TemporaryDirectory(prefix="footplate-") as folder:
        copy = Path(folder) / (Path(name).name or "job.yml")
        copy.write_bytes(text.encode())
        try:
            with app.suspend():
                done = subprocess.run([*words, str(copy)], check=False)
        except SuspendNotSupported as error:
            raise Invalid(
                "An editor cannot be shown here: the console does not run on a terminal of its own.",
                "Edit the file elsewhere and open it again.",
            ) from error
        except OSError as error:
            raise Invalid(
                clean(f"The editor {words[0]} cannot be started: {error.strerror or error}."),
                "Mend VISUAL or EDITOR.",
                repr(error),
            ) from error
        if done.returncode:
            raise Invalid(
                f"The editor {words[0]} ended with code {done.returncode}; nothing was changed.",
                "Mend VISUAL or EDITOR.",
            )
        try:
            return copy.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(
                f"What the editor left cannot be read: {error}.", "Save it as UTF-8 text.", repr(error)
            ) from error


async def edit_job_file(app: App[object], job_file: JobFile) -> JobFile | None:
    """Let the user edit a copy of a job file; None where nothing was changed. Call it in a worker. Raises Invalid as `edit`.

    What cannot be read any more can be edited again, or dropped.
    """
    text = job_file.text
    while True:
        text = edit(app, text, job_file.label if job_file.path else "job.yml")
        if text == job_file.text:
            return None
        try:
            return await asyncio.to_thread(document.parse, text, job_file.path, job_file.base)
        except Unreadable as error:
            asked = ConfirmDialog("The file cannot be read", str(error), "Drop the changes", harmless="Edit again")
            if await app.push_screen_wait(asked):
                return None
