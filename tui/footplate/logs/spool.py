"""Copies of logs that lie elsewhere, kept on this machine as they grow: exact to the byte, whatever ends the console.

A copy is a folder: pieces `1.log`, `2.log` … that are only appended to, when the bytes of each arrived beside it, and
`state.json`, which is replaced as a whole after the data. A log that began anew, or a piece that is full, begins another piece.
Consoles take turns by a lock that one holds for a look at the source; what one copied the others read.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic, time

from footplate.logs import arrivals
from footplate.logs.exact import FIRST_CHECK, Exact, Took, pause_after
from footplate.logs.spool_state import STATE, Piece, State, bytes_before, read_state, state_mark, write_state
from footplate.logs.spooled import SpooledLines
from footplate.workspace.contract import Workspace
from footplate.workspace.errors import NotFound, NotSignedIn, Throttled, Unreachable, WorkspaceError
from footplate.workspace.model import LogChunk

PIECE = 4 << 20
"""Bytes asked for at a time."""

MB = 1_000_000
_LOCK = "lock"
_LEAST_PIECE = 64 * 1024
_MOST_PIECES = 64
_ARRIVAL_SECONDS = 1.0


@dataclass(frozen=True)
class Kept:
    """How much of logs is kept: bytes of one log, and of all."""

    one: int = 500 * MB
    all: int = 2000 * MB


@dataclass
class _Known:
    """What the last look left in memory: the state, the file it stands in, and how the source is gone on with."""

    state: State
    mark: tuple[int, int, int]
    exact: Exact
    sure: int = field(default=-1)
    """Bytes of the last piece that the state vouches for, where a killed console left more; else -1."""


class Spool:
    """The copy of one log file of a job. `step` looks once, `follow` as long as there may be more.

    `size` of `total` bytes are there, as of `checked`; `fault` is why the last look failed, and `next_look` when the next one is
    due (`monotonic`), where `follow` waits for it.
    """

    def __init__(
        self, workspace: Workspace, job: str, path: str, folder: Path, kept: Kept | None = None, owner: str = ""
    ) -> None:
        self.folder = folder
        self.job = job
        self.path = path
        self.size = 0
        self.total = 0
        self.checked: datetime | None = None
        self.fault = ""
        self.next_look: float | None = None
        self.elsewhere = False
        """Whether another console was at the source at the last look; what it copies is there for this one too."""
        self._workspace = workspace
        self._owner = owner
        self._kept = kept or Kept()
        self._piece = max(_LEAST_PIECE, self._kept.one // 8)
        self._known: _Known | None = None
        self._noted = 0.0
        self._under_way: asyncio.Task[bool] | None = None
        self._wake = asyncio.Event()
        self._failures = 0

    def lines(self) -> SpooledLines:
        """The lines of the copy, for a view of its own; the caller closes them."""
        return SpooledLines(self.folder, self.path)

    async def step(self) -> bool:
        """Look at the source once, and return whether there is more to be had at once.

        A step whose caller goes away ends all the same. Raises WorkspaceError, and OSError where this machine's disk refuses.
        """
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.create_task(self._told_step())
            self._under_way.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._under_way)

    async def follow(
        self, going_on: Callable[[], bool], told: Callable[[], None], poll_seconds: Callable[[], float]
    ) -> None:
        """Copy on until nothing more can come: all was read after `going_on` was false.

        A fault does not end it: it is told in `fault`, and the pauses grow, up to a minute. `told` is called after each look.
        Where the job has ended, a fault that waiting will not mend ends it too.
        """
        while True:
            more_may_come = going_on()  # before the look: what an ended job wrote is all there
            more, pause, lasting = False, poll_seconds(), False
            try:
                more = await self.step()
            except (WorkspaceError, OSError) as error:
                if not isinstance(error, NotFound):  # a log that is still to come is looked for at the usual pace
                    self._failures += 1
                    pause = max(pause, pause_after(self._failures, error))
                lasting = not isinstance(error, NotSignedIn | Throttled | Unreachable)
            told()
            if more:
                continue
            if not more_may_come and (lasting or not (self.fault or self.elsewhere)):
                return
            self.next_look = monotonic() + pause
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)
            self.next_look = None

    def look_now(self) -> None:
        """Have `follow` look without waiting any longer."""
        self._wake.set()

    async def _told_step(self) -> bool:
        try:
            more = await self._step()
        except WorkspaceError as error:
            self.fault = f"{error.sentence} {error.next_step}".strip()
            raise
        except OSError as error:
            self._known = None  # what is on the disk is looked at anew
            self.fault = f"The log cannot be copied to this machine: {error.strerror or error}."
            raise
        finally:
            self.checked = datetime.now(UTC)
        self.fault, self._failures = "", 0
        return more

    async def _step(self) -> bool:
        lock = await asyncio.to_thread(self._take_turn)
        self.elsewhere = lock is None
        if lock is None:
            return False
        try:
            assert self._known is not None
            offset, limit = self._known.exact.request(PIECE)
            chunk = await self._workspace.read_log(self.job, self.path, offset, limit)
        except BaseException:
            os.close(lock)
            raise
        return await asyncio.to_thread(self._keep, chunk, lock)

    # On the disk; everything below runs in a thread, under the lock

    def _take_turn(self) -> int | None:
        """Take the lock and look at what is there; None while another console has it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = _lock(self.folder)
        if lock is None:
            if (state := read_state(self.folder)) is not None:
                self.size, self.total = state.size, state.total
            return None
        try:
            if self._known is None or self._known.mark != state_mark(self.folder):
                self._known = self._resume()
            self.size, self.total = self._known.exact.size, self._known.state.total
        except BaseException:
            os.close(lock)
            raise
        return lock

    def _resume(self) -> _Known:
        """Go on where the last console was, killed or not."""
        state = read_state(self.folder)
        if state is None:
            for left in self.folder.iterdir():
                if left.name != _LOCK:
                    left.unlink()
            state = State(self._owner, self.job, self.path)
            (self.folder / state.pieces[-1].file).touch(mode=0o600)
            write_state(self.folder, state)
        wanted = {_LOCK, STATE, *(name for piece in state.pieces for name in (piece.file, piece.times))}
        for left in self.folder.iterdir():
            if left.name not in wanted:
                left.unlink()  # of a piece that was begun, or let go, when the console was killed
        last = state.pieces[-1]
        file = self.folder / last.file
        there = file.stat().st_size if file.exists() else -1
        if there < last.size or state.tail != _sum(bytes_before(file, last.size)):
            # A disk that lost what it had taken, as when the power fails: the source has it, and begins in another piece.
            state = self._begin_piece(state, time())
            write_state(self.folder, state)
            return _Known(state, state_mark(self.folder), Exact())
        sure = last.size if there > last.size else -1
        if sure >= 0:
            state = replace(state, pieces=(*state.pieces[:-1], replace(last, size=there)))
        return _Known(state, state_mark(self.folder), self._exact(state), sure)

    def _exact(self, state: State) -> Exact:
        """How the source is gone on with: compared by the last bytes, those of a full piece before included."""
        part = state.part
        tail = b""
        for piece in reversed(part):
            tail = bytes_before(self.folder / piece.file, piece.size, FIRST_CHECK - len(tail)) + tail
            if len(tail) >= FIRST_CHECK:
                break
        head = b""
        if part[0].start == 0:
            with (self.folder / part[0].file).open("rb") as file:
                head = file.read(min(FIRST_CHECK, part[0].size))
            if len(head) < FIRST_CHECK and len(part) > 1:
                head = b""  # it goes on in another file; pieces are not so small but in tests
        return Exact(state.size, head, tail)

    def _keep(self, chunk: LogChunk, lock: int) -> bool:
        """Put down what an answer brought, and let go of the lock; whether to ask again at once. Raises WorkspaceError, OSError."""
        try:
            assert self._known is not None
            known = self._known
            took = known.exact.take(chunk)
            if took.anew and known.sure >= 0:
                self._back_to(known)
                return True
            self._put(known, took)
            self.size, self.total = known.exact.size, known.state.total
            return took.more
        finally:
            os.close(lock)

    def _put(self, known: _Known, took: Took) -> None:
        state = replace(known.state, total=known.exact.total)
        if took.anew:
            state = self._begin_piece(state, time())
        if took.data:
            known.sure = -1
            state = self._append(state, took.data)
        if state != known.state:
            write_state(self.folder, state)
            for piece in known.state.pieces:
                if piece.number < state.pieces[0].number:
                    for name in (piece.file, piece.times):
                        (self.folder / name).unlink(missing_ok=True)
        known.state, known.mark = state, state_mark(self.folder)

    def _back_to(self, known: _Known) -> None:
        """Give up what a killed console wrote without vouching for it: the source has other bytes there."""
        *before, last = known.state.pieces
        os.truncate(self.folder / last.file, known.sure)
        known.state = replace(known.state, pieces=(*before, replace(last, size=known.sure)))
        known.exact, known.sure = self._exact(known.state), -1

    def _append(self, state: State, data: bytes) -> State:
        """Write new bytes, into another piece where one is full; with what then is too much let go from the state."""
        pieces, lost = list(state.pieces), state.lost
        while data:
            last = pieces[-1]
            end = self._room(last, data)
            if end:
                self._write(last, data[:end])
                pieces[-1] = last = replace(last, size=last.size + end)
                data = data[end:]
            if data:
                pieces.append(Piece(last.number + 1, last.start + last.size))
                self._create(pieces[-1])
        while len(pieces) > 1 and (len(pieces) > _MOST_PIECES or sum(piece.size for piece in pieces) > self._kept.one):
            lost += pieces.pop(0).size
        if pieces[-1].number != state.pieces[-1].number:
            prune(self.folder.parent, self._kept.all, self.folder)
        tail = _sum(bytes_before(self.folder / pieces[-1].file, pieces[-1].size))
        return replace(state, pieces=tuple(pieces), lost=lost, tail=tail)

    def _room(self, last: Piece, data: bytes) -> int:
        """How many bytes go into this piece still: it ends with a line, unless a line is as long as a piece."""
        room = self._piece - last.size
        if len(data) <= room:
            return len(data)
        if end := data.rfind(b"\n", 0, max(room, 0)) + 1:
            return end
        if last.size and (room < -self._piece or bytes_before(self.folder / last.file, last.size, 1) == b"\n"):
            return 0
        return data.find(b"\n") + 1 or len(data)

    def _begin_piece(self, state: State, began: float) -> State:
        """Another piece, with which the log begins anew."""
        piece = Piece(state.pieces[-1].number + 1, 0, 0, began)
        self._create(piece)
        return replace(state, pieces=(*state.pieces, piece), tail=_sum(b""))

    def _create(self, piece: Piece) -> None:
        for name in (piece.file, piece.times):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / piece.file).touch(mode=0o600)
        self._noted = 0.0

    def _write(self, piece: Piece, data: bytes) -> None:
        now = monotonic()
        if now - self._noted >= _ARRIVAL_SECONDS or not self._noted:
            arrivals.write(self.folder / piece.times, piece.size)
            self._noted = now
        descriptor = os.open(self.folder / piece.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], piece.size + written)
        finally:
            os.close(descriptor)


class Spools:
    """The copies of a workspace's logs below a folder; `owner` tells workspaces apart."""

    def __init__(self, workspace: Workspace, folder: Path, owner: str = "", kept: Kept | None = None) -> None:
        self._workspace = workspace
        self._folder = folder
        self._owner = owner
        self._kept = kept or Kept()
        self._spools: dict[tuple[str, str], Spool] = {}
        self._pruned = False

    async def of(self, job: str, path: str) -> Spool:
        """The copy of a job's log file: the one there is, else an empty one. Raises OSError where no folder can be made."""
        spool = self._spools.get((job, path))
        if spool is None:
            folder = self._folder / _name(self._owner, job, path)
            await asyncio.to_thread(self._prepare, folder)
            spool = Spool(self._workspace, job, path, folder, self._kept, self._owner)
            spool = self._spools.setdefault((job, path), spool)
        return spool

    def _prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.utime(folder)  # what was looked at last is let go last
        if not self._pruned:
            self._pruned = True
            prune(self._folder, self._kept.all, folder)


def prune(folder: Path, most: int, but: Path | None = None) -> None:
    """Remove the copies that were looked at longest ago until all together are no more than `most` bytes."""
    found = []
    for copy in folder.iterdir():
        with contextlib.suppress(OSError):  # another console removes it at this moment
            size = sum(file.stat().st_size for file in copy.iterdir())
            found.append((copy.stat().st_mtime, size, copy))
    total = sum(size for _, size, _ in found)
    for _, size, copy in sorted(found):
        if total <= most:
            return
        if copy != but and _remove_copy(copy):
            total -= size


def remove(folder: Path, owner: str, jobs: Sequence[str]) -> None:
    """Remove the copies of these jobs' logs."""
    if not folder.is_dir():
        return
    for copy in folder.iterdir():
        state = read_state(copy)
        if state is not None and state.workspace == owner and state.job in jobs:
            _remove_copy(copy)


def _remove_copy(copy: Path) -> bool:
    """Remove a copy, unless a console is at it."""
    try:
        lock = _lock(copy)
    except OSError:
        return False
    if lock is None:
        return False
    shutil.rmtree(copy, ignore_errors=True)
    os.close(lock)
    return True


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock of a copy until it is closed; None while somebody else has it. Raises OSError."""
    while True:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # the copy was removed between the two


def _name(owner: str, job: str, path: str) -> str:
    """A folder's name for names that are data, and may be long."""
    return sha256("\0".join((owner, job, path)).encode(errors="surrogatepass")).hexdigest()[:24]


def _sum(data: bytes) -> str:
    return sha256(data).hexdigest()
