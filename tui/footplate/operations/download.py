"""Fetch what a job wrote, or a model's files, into a folder of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from footplate.workspace import Conflict, Invalid, NotFound, Unexpected, Workspace

Progress = Callable[[int, int | None], None]
"""Gets bytes done and, where it is known, bytes in all."""


@dataclass(frozen=True)
class Fetched:
    """One output, or a model: where its files lie now, and how many they are."""

    name: str
    folder: Path
    files: int


async def outputs(
    workspace: Workspace, job: str, folder: Path, output: str | None = None, progress: Progress | None = None
) -> list[Fetched]:
    """Fetch a job's outputs, or the one named, each into a folder of its name below `folder`.

    Raises NotFound for the job, for a name that it does not have, and where it wrote nothing; Conflict for a file in the way.
    """
    found = [one.name for one in await workspace.outputs(job) if one.files != 0 or one.name == output]
    if output is not None:
        if output not in found:
            known = ", ".join(one.name for one in await workspace.outputs(job)) or "none"
            raise NotFound(f"Job {job!r} has no output {output!r}.", f"It has: {known}.")
        found = [output]
    if not found:
        parent = (await workspace.job(job)).type in ("sweep", "pipeline")
        hint = (
            f"What its trials or steps wrote is theirs: footplate children {job}." if parent else "Its log may say why."
        )
        raise NotFound(f"Job {job!r} has written no output: there is nothing to download.", hint)
    fetched = []
    for name in found:
        if name in (".", "..") or "/" in name or "\0" in name:
            raise Invalid(f"Job {job!r} has an output {name!r}, which cannot be a folder's name.")
        target = _folder(folder / name)
        fetched.append(Fetched(name, target, await workspace.download(job, name, target, progress)))
    return fetched


async def model(workspace: Workspace, reference: str, folder: Path, progress: Progress | None = None) -> Fetched:
    """Fetch a model's files into a folder. Raises NotFound, Conflict for a file in the way."""
    found = (await workspace.model(reference)).reference
    target = _folder(folder)
    return Fetched(found, target, await workspace.download_model(found, target, progress))


def _folder(path: Path) -> Path:
    """Make the folder where it is missing. Raises Conflict, Unexpected."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Conflict(f"{path} cannot be a folder: a file is in its way.", "Name another folder.") from error
    except OSError as error:
        raise Unexpected(
            f"The folder {path} cannot be made: {error.strerror or error}.",
            "Free space or mend its permissions, or name another folder.",
            repr(error),
        ) from error
    return path.absolute()
