"""The logs of jobs as lines: where they lie on this machine, or a copy of them; and the lines that a command prints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from footplate import paths, settings
from footplate.logs.filtered import Filtered, Wanted
from footplate.logs.index import LineIndex
from footplate.logs.levels import Level
from footplate.logs.lines import Lines
from footplate.logs.search import Search, compile_search
from footplate.logs.spool import MB, Kept, Spool, Spools
from footplate.operations.cleaning import age
from footplate.operations.follow import Copied, Patience, looks
from footplate.workspace import Invalid, Job, LogFile, Unexpected, Workspace, WorkspaceError

Write = Callable[[Lines, int], None]
"""Puts a line of these out."""


@dataclass(frozen=True)
class Choice:
    """Which lines of a log a command prints: of those that are `wanted` the last `tail`, and what comes."""

    wanted: Wanted = Wanted()  # noqa: RUF009  frozen
    tail: int | None = None


def spools(workspace: Workspace) -> Spools:
    """The copies of a workspace's logs, as much of them as the settings keep. Raises Invalid for faulty settings."""
    kept = settings.load().logs
    return Spools(workspace, paths.cache() / "logs", workspace.name, Kept(kept.keep_file_mb * MB, kept.keep_mb * MB))


def choice(
    grep: str | None, level: str | None, since: str | None, context: int, tail: int | None, now: datetime | None = None
) -> Choice:
    """Which lines these words mean: `since` is an age (5m) or a time. Raises Invalid."""
    wanted = Wanted(
        search=_search(grep) if grep else None,
        before=context,
        after=context,
        least=Level[level.upper()] if level else Level.NONE,
        since=_moment(since, now or datetime.now(UTC)) if since else None,
    )
    return Choice(wanted, tail)


async def print_log(
    workspace: Workspace,
    name: str,
    chosen: Choice,
    write: Write,
    path: str | None = None,
    *,
    follow: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Copied:
    """Write the chosen lines of a log; with `follow`, until the job has ended. Otherwise as `copy_log`."""
    log: _Log | None = None
    printed, patience = _Printed(chosen, write), Patience(say)
    try:
        async for job, file, going_on in looks(workspace, name, path, follow=follow):
            if file is not None:
                log = log or await _open(workspace, name, file, chosen)
                while True:
                    try:
                        await log.catch_up()
                        break
                    except WorkspaceError as error:
                        if not follow:
                            raise
                        await patience.bear(error)
                        if going_on:
                            break
                patience.went_well()
                await asyncio.to_thread(printed.print, log.shown, not going_on)
            if not going_on:
                return _copied(job, file)
    finally:
        if log is not None:
            log.close()
    raise AssertionError("unreachable")


class _Log:
    """The lines of one log file, and those of them that are wanted."""

    def __init__(self, lines: Lines, spool: Spool | None, wanted: Wanted) -> None:
        self._lines, self._spool = lines, spool
        self.shown: Lines = lines if wanted == Wanted() else Filtered(lines, wanted)

    async def catch_up(self) -> None:
        """Take in all that is there now. Raises WorkspaceError."""
        try:
            await self._copy()
            await asyncio.to_thread(self._scan)
        except OSError as error:
            raise Unexpected(
                f"The log cannot be copied to {paths.cache() / 'logs'}: {error.strerror or error}.",
                "Free space there; without --tail, --since, --grep, --level and --timestamps it is printed without a copy.",
                repr(error),
            ) from error

    async def _copy(self) -> None:
        while self._spool is not None and (await self._spool.step() or self._spool.elsewhere):
            if self._spool.elsewhere:
                if self._spool.size >= self._spool.total:
                    break
                await asyncio.sleep(0.1)  # another console copies it

    def _scan(self) -> None:
        while self.shown.scan():
            pass
        if isinstance(self.shown, Filtered) and self.shown.fault:
            raise Invalid(self.shown.fault, "Give another one to --grep.")

    def close(self) -> None:
        """Let go of the files."""
        self._lines.close()


class _Printed:
    """How far lines have been printed."""

    def __init__(self, chosen: Choice, write: Write) -> None:
        self._chosen, self._write = chosen, write
        self._next: int | None = None
        self._restarts = 0
        self._last = b""

    def print(self, lines: Lines, all_of_them: bool) -> None:
        """Print what is new: lines that have their end, in the end all."""
        if self._next is None:
            tail = self._chosen.tail
            self._next = 0 if tail is None else max(0, lines.lines - tail)
        elif lines.restarts != self._restarts:
            self._next = self._find(lines)
        self._restarts = lines.restarts
        while self._next < lines.lines and (all_of_them or lines.complete(self._next)):
            self._write(lines, self._next)
            self._last = lines.raw(self._next)
            self._next += 1

    def _find(self, lines: Lines) -> int:
        """After what was printed last, among lines that are numbered anew since older ones were let go."""
        for number in range(lines.lines - 1, -1, -1):
            if self._last and lines.raw(number) == self._last:
                return number + 1
        return 0


async def _open(workspace: Workspace, name: str, file: LogFile, chosen: Choice) -> _Log:
    if file.local_path is not None:
        return _Log(LineIndex(file.local_path, file.path), None, chosen.wanted)
    spool = await spools(workspace).of(name, file.path)
    return _Log(spool.lines(), spool, chosen.wanted)


def _copied(job: Job, file: LogFile | None) -> Copied:
    return Copied(job, file.path if file else None)


def _search(expression: str) -> Search:
    import regex  # not free at start-up

    try:
        regex.compile(expression)
    except regex.error as error:
        raise Invalid(
            f"{expression!r} is no regular expression: {error}.", "Escape what is meant as text: \\[."
        ) from error
    return compile_search(expression)


def _moment(written: str, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        try:
            return now - age(written)
        except Invalid as error:
            raise Invalid(
                f"{written!r} is neither an age nor a time.", "Write 5m, 2h, 1d, or 2026-01-31T14:00."
            ) from error
    return moment.astimezone(UTC)
