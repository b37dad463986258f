"""Clone a past job: its file as it was submitted, ready to be launched again under a name of its own."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from footplate import paths
from footplate.jobfile import JobFile
from footplate.workspace import NotFound, Workspace
from footplate.workspace.names import next_name

_MOST_TRIED = 50


@dataclass(frozen=True)
class Clone:
    """A past job's file: `past` as it was, `job_file` as it can be launched now, and what else is to be said."""

    name: str
    past: JobFile
    job_file: JobFile
    notes: tuple[str, ...] = ()


async def clone(workspace: Workspace, name: str) -> Clone:
    """Make a job's file ready to be launched again: every field stays, only a fixed name becomes the next that is free.

    Raises NotFound.
    """
    past = await workspace.job_file(name)
    notes = []
    if past.code is not None and past.code.is_relative_to(paths.home() / "jobs"):
        notes.append(f"The code folder of then is gone: code is the copy that {past.code.parent.name} kept.")
    if f"{paths.home() / 'jobs' / name / 'components'}/" in past.text:
        notes.append(f"Component files were changed since: the copies that {name} kept are used.")
    job_file = past
    if past.name and not await _is_free(workspace, past.name):
        job_file = past.edit({"name": await free_name(workspace, past.name)})
    return Clone(name, past, job_file, tuple(notes))


async def free_name(workspace: Workspace, taken: str) -> str:
    """The next name after one that is taken, where that is free, else the one after it, and so on."""
    name = taken
    for _ in range(_MOST_TRIED):
        name = next_name(name)
        if await _is_free(workspace, name):
            return name
    return f"{name}-{secrets.token_hex(3)}"


async def _is_free(workspace: Workspace, name: str) -> bool:
    try:
        await workspace.job(name)
    except NotFound:
        return True
    return False
