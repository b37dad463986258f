"""Log files of a job by byte range: addresses signed anew when they are old, a replaced file noticed by its overlap."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from footplate.azure.client import Bytes, Client
from footplate.azure.runs import Run, Runs
from footplate.azure.storage import OLD_ADDRESS, refusal, storage_code
from footplate.workspace.errors import Invalid, NotFound, Unexpected, WorkspaceError
from footplate.workspace.model import LogChunk, LogFile

_OVERLAP = 64
"""Bytes before an offset that are read again: what stands there now tells whether the file is still the same."""
_SAME_LOOK_SECONDS = 0.5
"""A screen looks at a job and then at its files: one request is enough."""
_GROUPS = ("user_logs/", "logs/", "azureml-logs/", "system_logs/")
_DIGITS = re.compile(r"(\d+)")
_TOTAL = re.compile(r"bytes (?:\d+-\d+|\*)/(\d+)")


class Logs:
    """The log files of one workspace's jobs. It keeps signed addresses and the last bytes read, and shows neither."""

    def __init__(self, client: Client, runs: Runs) -> None:
        self._client = client
        self._runs = runs
        self._addresses: dict[str, Mapping[str, str]] = {}
        self._ends: dict[tuple[str, str], tuple[int, bytes]] = {}

    async def files(self, name: str) -> Sequence[LogFile]:
        """The log files, user logs first, ranks in order; their sizes are not told. Raises NotFound."""
        run = await self._fresh(name, _SAME_LOOK_SECONDS)
        return [LogFile(path, None, None) for path in sorted(run.log_files, key=lambda path: _order(path, run.status))]

    async def read(self, name: str, path: str, offset: int, limit: int) -> LogChunk:
        """At most `limit` bytes from `offset`; where the file was replaced by another, its first bytes, with offset 0.

        Raises NotFound, Invalid for a negative offset, NotAllowed where storage keeps this machine or sign-in out.
        """
        if offset < 0 or limit < 0:
            raise Invalid(f"A log cannot be read from byte {offset}.", "Count from 0.")
        end, kept = self._ends.get((name, path), (0, b""))
        known = kept if end == offset else b""
        answer = await self._ask(name, path, offset - len(known), limit + len(known))
        start, data, total = _piece(answer, offset - len(known))
        if total < offset or data[: len(known)] != known:
            if offset == 0:
                raise Unexpected(f"Log {path} of job {name!r} came with a wrong range.", "Look again.")
            self._ends.pop((name, path), None)
            return await self.read(name, path, 0, limit)  # another file stands there now
        data = data[len(known) :][:limit]
        if start + len(known) != offset:
            raise Unexpected(f"Log {path} of job {name!r} came with a wrong range.", "Look again.")
        self._ends[(name, path)] = (offset + len(data), (known + data)[-_OVERLAP:])
        return LogChunk(offset, data, total)

    async def _fresh(self, name: str, age_seconds: float = 0.0) -> Run:
        run = await self._runs.details(name, age_seconds)
        self._addresses[name] = run.log_files
        return run

    async def _ask(self, name: str, path: str, start: int, limit: int) -> Bytes:
        """A piece of the file; once more with a new address where the one at hand is old or leads nowhere."""
        headers = {"Range": f"bytes={start}-{start + max(limit, 1) - 1}", "Accept-Encoding": "identity"}
        refused: Bytes | None = None
        new = path not in self._addresses.get(name, {})
        for _ in range(2):
            if new:
                await self._fresh(name)
            if (address := self._addresses[name].get(path)) is None:
                break
            answer = await self._client.download(address, headers)
            if answer.status in (200, 206, 416):
                return answer
            refused = answer
            if storage_code(answer) not in OLD_ADDRESS and answer.status != 404:
                break
            if new and answer.status == 404:
                break  # it was just told, and is not there
            new = True
        raise _refusal(name, path, refused)


def _piece(answer: Bytes, start: int) -> tuple[int, bytes, int]:
    """Where the bytes begin, the bytes, and how many the file has."""
    found = _TOTAL.match(_header(answer, "content-range"))
    if answer.status == 416:
        return start, b"", int(found[1]) if found else start
    if answer.status == 200:  # the whole file: its server takes no ranges
        return start, answer.body[start:], len(answer.body)
    told = _header(answer, "content-range").removeprefix("bytes ").partition("-")[0]
    begins = int(told) if told.isdecimal() else start
    return begins, answer.body, int(found[1]) if found else begins + len(answer.body)


def _refusal(name: str, path: str, answer: Bytes | None) -> WorkspaceError:
    if answer is None or answer.status == 404:
        return NotFound(f"Job {name!r} has no log file {path!r}.", "Its list of log files has the paths.")
    return refusal(answer, f"log {path} of job {name!r}")


def _header(answer: Bytes, name: str) -> str:
    return next((value for key, value in answer.headers.items() if key.lower() == name), "")


def _order(path: str, status: str) -> tuple[Any, ...]:
    """User logs first and ranks by number; while a job is being prepared, the log of its image's build before all."""
    building = status in ("Preparing", "Provisioning", "Starting") and "image_build" in path
    group = next((i for i, start in enumerate(_GROUPS) if path.startswith(start)), len(_GROUPS))
    pieces = tuple((piece.isdecimal(), int(piece) if piece.isdecimal() else 0, piece) for piece in _DIGITS.split(path))
    return (not building, group, pieces)
