"""Fetch a job's outputs and a model's files: each file whole or not at all, by ranges that go on where they were cut."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import stat
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from footplate.azure.jobs import Jobs, output_addresses
from footplate.azure.models import Models
from footplate.azure.storage import File, Storage
from footplate.workspace.errors import Conflict, Invalid, NotFound, Unexpected, WorkspaceError

_AT_ONCE = 4
_PIECE = 4 * 1024 * 1024
_OTHER_SECONDS = 0.2

T = TypeVar("T")
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class _Wanted:
    """A file that is to be fetched, and where to."""

    file: File
    target: Path


class Downloads:
    """The downloads of one workspace."""

    def __init__(self, jobs: Jobs, models: Models, storage: Storage) -> None:
        self._jobs = jobs
        self._models = models
        self._storage = storage

    async def output(self, name: str, output: str, folder: Path, progress: Progress | None) -> int:
        """Fetch an output of a job into a folder; gives how many files it has. Raises what `Workspace.download` raises."""
        named = output_addresses(await self._jobs.record(name))
        if output not in named:
            raise NotFound(f"Job {name!r} has no output {output!r}.", f"It has: {', '.join(named) or 'none'}.")
        uri = named[output][1]
        return await self._fetch(uri, folder, progress) if uri else 0

    async def model(self, reference: str, folder: Path, progress: Progress | None) -> int:
        """Fetch the files of a model's version into a folder; gives how many it has."""
        return await self._fetch(await self._models.address(reference), folder, progress)

    async def _fetch(self, uri: str, folder: Path, progress: Progress | None) -> int:
        files = await self._storage.files(uri)
        wanted = await asyncio.to_thread(_plan, files, folder)
        total = sum(file.size for file in files)
        done = total - sum(one.file.size for one in wanted)

        def told(size: int) -> None:
            nonlocal done
            done += size
            if progress is not None:
                progress(done, total)

        told(0)
        limit = asyncio.Semaphore(_AT_ONCE)
        tasks = [asyncio.create_task(self._one(uri, one, limit, told)) for one in wanted]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # no file is written to when this is left
        return len(files)

    async def _one(self, uri: str, wanted: _Wanted, limit: asyncio.Semaphore, told: Callable[[int], None]) -> None:
        file = wanted.file
        async with limit:
            part = _Part(wanted)
            try:
                await _in_thread(part.open)
                while not await _in_thread(part.take):  # noqa: ASYNC110  another process may have it
                    await asyncio.sleep(_OTHER_SECONDS)
                if await _in_thread(lambda: _is_there(wanted)):
                    told(file.size)
                    return
                told(part.size)
                while part.size < file.size:
                    data = await self._piece(uri, part, file)
                    await _in_thread(lambda data=data: part.append(data))  # type: ignore[misc]
                    told(len(data))
                await _in_thread(part.finish)
            finally:
                part.close()

    async def _piece(self, uri: str, part: _Part, file: File) -> bytes:
        """The next bytes of a file; of one that was replaced meanwhile the part is of no more use."""
        try:
            return await self._storage.piece(uri, file, part.size, min(_PIECE, file.size - part.size))
        except Conflict:
            await _in_thread(part.drop)
            raise


async def _in_thread(work: Callable[[], T]) -> T:
    """Do something with a file in a thread, which cannot be stopped: whoever is cancelled meanwhile goes when it is done."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class _Part:
    """The beginning of a file, beside its target under a name of its own; a later try goes on where it ends.

    Its name holds which content it is of, so that a file that was replaced begins anew.
    """

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self._file = -1
        self.size = 0
        content = hashlib.sha256(f"{wanted.file.name}\n{wanted.file.etag}\n{wanted.file.size}".encode())
        self._path = wanted.target.with_name(f".footplate-{content.hexdigest()[:24]}.part")

    def open(self) -> None:
        """Open it, and make the folders above it. Raises Conflict for a file in a folder's place, Unexpected."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except (FileExistsError, NotADirectoryError) as error:
            raise Conflict(f"{self._path.parent} cannot be a folder: a file is in its way.", "Remove it.") from error
        except OSError as error:
            raise self._failed(error) from error

    def take(self) -> bool:
        """Have it alone, and find out how much of it is there; False while another has it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._failed(error) from error
        self.size = os.fstat(self._file).st_size
        if self.size > self._wanted.file.size or not self._wanted.file.etag:
            os.ftruncate(self._file, 0)
            self.size = 0
        return True

    def append(self, data: bytes) -> None:
        """Write on. Raises Unexpected where the disk is full or may not be written."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise self._failed(error) from error
        self.size += len(data)

    def finish(self) -> None:
        """Give the whole file its name. Raises Conflict where something was put there meanwhile, Unexpected."""
        try:
            os.fsync(self._file)
            os.link(self._path, self._wanted.target)  # which replaces nothing, unlike a rename
            self._path.unlink()
        except FileExistsError as error:
            raise _in_the_way(self._wanted.target) from error
        except OSError:
            self._rename()

    def _rename(self) -> None:
        """As `finish`, where the file system has no links."""
        try:
            if self._wanted.target.exists():
                raise _in_the_way(self._wanted.target)
            self._path.replace(self._wanted.target)
        except OSError as error:
            raise self._failed(error) from error

    def drop(self) -> None:
        """Remove it."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of it; a part stays for the next try."""
        if self._file >= 0:
            os.close(self._file)

    def _failed(self, error: OSError) -> WorkspaceError:
        return Unexpected(
            f"{self._wanted.target} could not be written: {error.strerror or error}.",
            "Free space or mend its permissions; what was fetched stays, and the next try goes on there.",
            repr(error),
        )


def _plan(files: Sequence[File], folder: Path) -> list[_Wanted]:
    """The files that are not there yet. Raises Invalid for a name that leads elsewhere, Conflict for what is in the way."""
    root = folder.resolve()
    names = {file.path for file in files}
    wanted = []
    for file in files:
        pieces = file.path.split("/")
        if any(piece in ("", ".", "..") for piece in pieces) or "\0" in file.path:
            raise Invalid(f"A file is named {file.path!r}, which leads out of the folder.", "Nothing was fetched.")
        above = next((str(each) for each in PurePosixPath(file.path).parents if str(each) in names), None)
        if above is not None:
            raise Invalid(f"{above!r} is both a file and a folder, which no disk can hold.", "Nothing was fetched.")
        target = root.joinpath(*pieces)
        if not target.parent.resolve().is_relative_to(root):
            raise Conflict(f"{target.parent} leads out of {root}.", "Remove that link, or name another folder.")
        if not _is_there(one := _Wanted(file, target)):
            wanted.append(one)
    return wanted


def _is_there(wanted: _Wanted) -> bool:
    """Whether it is there already: a file of its size, and with its content where storage tells the sum of that.

    Raises Conflict for anything else, Unexpected where it cannot be told.
    """
    target = wanted.target
    try:
        found = target.lstat()
    except FileNotFoundError:
        return False
    except NotADirectoryError as error:
        raise Conflict(f"{target.parent} cannot be a folder: a file is in its way.", "Remove it.") from error
    except OSError as error:
        raise Unexpected(
            f"{target} cannot be looked at: {error.strerror or error}.", "Mend it, or name another folder.", repr(error)
        ) from error
    if not stat.S_ISREG(found.st_mode) or found.st_size != wanted.file.size:
        raise _in_the_way(target)
    if wanted.file.md5 and _md5(target) != wanted.file.md5:  # weights of one architecture all have one size
        raise _in_the_way(target)
    return True


def _md5(path: Path) -> str:
    """The sum of a file's content as storage writes it. Raises Unexpected where it cannot be read."""
    try:
        with path.open("rb") as file:
            return b64encode(hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()).decode()
    except OSError as error:
        raise Unexpected(
            f"{path} cannot be read: {error.strerror or error}.", "Mend it, or name another folder."
        ) from error


def _in_the_way(target: Path) -> Conflict:
    return Conflict(f"{target} is in the way: it is another file.", "Remove it, or name another folder.")
