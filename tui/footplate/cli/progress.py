"""How far a transfer is: one line on a terminal that is written over, and nothing anywhere else."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from footplate import words
from footplate.logs.sanitise import clean
from footplate.workspace import Workspace

T = TypeVar("T")

_SECONDS = 0.1
"""Between two writings."""


class Transfer:
    """Call it with bytes done and, where it is known, bytes in all; as a context, it takes its line away at the end."""

    def __init__(self, what: str) -> None:
        """`what` stands before the figures, as in `downloading birds:1`."""
        self._what = clean(what)
        self._shown = sys.stderr.isatty()
        self._next = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._write("")

    def __call__(self, done: int, total: int | None) -> None:
        """Say how far it is, ten times a second at most."""
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS
            self._write(words.transfer(self._what, done, total))

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(f"\r{text.ljust(self._width)}" + ("" if text else "\r"))
            sys.stderr.flush()
        except OSError:  # a terminal that is gone keeps no transfer from its end
            self._shown = False
        self._width = len(text)


async def with_upload(workspace: Workspace, work: Coroutine[Any, Any, T]) -> T:
    """Do work that may send files to the workspace, and say how far that is."""
    with Transfer("uploading") as line:
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_SECONDS)
                if (sent := workspace.upload) is not None:
                    line(sent.done, sent.total)
        finally:
            if not task.done():
                task.cancel()
        return await task
