"""A log that lies elsewhere, copied as it grows into a file of the console's own, which the log view then reads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
from hashlib import sha256
from pathlib import Path

from footplate.workspace import Workspace

PIECE = 1 << 20
"""Bytes asked for at a time."""


class Spool:
    """One log file of a job, copied by offset. `file` is only appended to; a log that was replaced begins another there."""

    def __init__(self, workspace: Workspace, job: str, path: str, file: Path) -> None:
        self.file = file
        self._workspace = workspace
        self._job = job
        self._path = path
        self.total = 0
        """Bytes that the log had when it was last read."""
        self._size = 0
        self._under_way: asyncio.Task[bool] | None = None

    async def step(self) -> bool:
        """Copy one piece, and return whether there is more to be had at once.

        A step whose caller goes away ends all the same: what was half written would be written again. Raises WorkspaceError.
        """
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._step())
            self._under_way.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._under_way)

    async def _step(self) -> bool:
        chunk = await self._workspace.read_log(self._job, self._path, self._size, PIECE)
        replaced = chunk.offset != self._size
        if chunk.data or replaced:
            await asyncio.to_thread(self._write, chunk.data, replaced)
        self._size, self.total = chunk.offset + len(chunk.data), chunk.total
        return bool(chunk.data) and self._size < chunk.total

    def _write(self, data: bytes, replaced: bool) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not replaced:
            with self.file.open("ab") as file:
                file.truncate(self._size)  # a disk that was full may have taken a part of it before
                file.write(data)
            return
        other = self.file.with_suffix(".new")  # another inode: whoever has the old one open sees that it was replaced
        other.write_bytes(data)
        other.replace(self.file)


class Spools:
    """The logs that one console has copied, in a folder of its own that goes when it is closed."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        """`folder` is where consoles have theirs; those of consoles that ended otherwise are removed."""
        self._workspace = workspace
        self._above = folder
        self._folder: Path | None = None
        self._spools: dict[tuple[str, str], Spool] = {}

    async def of(self, job: str, path: str) -> Spool:
        """The copy of a job's log file: the one there is, else an empty one. Raises OSError where no folder can be made."""
        if self._folder is None:
            self._folder = await asyncio.to_thread(_make_folder, self._above)
        name = f"{sha256(f'{job}/{path}'.encode()).hexdigest()[:24]}.log"  # names are data, and may be long
        return self._spools.setdefault((job, path), Spool(self._workspace, job, path, self._folder / name))

    def close(self) -> None:
        """Remove the copies."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _make_folder(above: Path) -> Path:
    above.mkdir(parents=True, exist_ok=True, mode=0o700)
    here = f"{socket.gethostname()}@"
    for left in above.glob(f"{here}*"):
        pid = left.name.removeprefix(here).partition("-")[0]
        if pid.isdecimal() and not _alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{here}{os.getpid()}-", dir=above))


def _alive(pid: int) -> bool:
    with contextlib.suppress(PermissionError):  # somebody else's
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return True
