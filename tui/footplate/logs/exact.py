"""Which bytes an answer adds to what is held of a log: none lost, none twice, and a log that began anew is noticed.

Each request begins a little before the end of what is held: what stands there now tells whether it is still the same log. An
answer that contradicts it is asked for once more before a log is given up for another.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from footplate.workspace.errors import Throttled, Unexpected
from footplate.workspace.model import LogChunk

FIRST_CHECK = 4096
"""Bytes that are compared with the source's before what an earlier console held is gone on with."""
_CHECK = 64
_MOST_USELESS = 4
_LONGEST_PAUSE = 60.0


def pause_after(failures: int, error: Exception) -> float:
    """Seconds to wait after so many failures in a row: twice as long each time, up to a minute, a little at random.

    A service that throttles says how long.
    """
    pause = min(_LONGEST_PAUSE, 2.0 ** min(failures, 6)) * random.uniform(0.8, 1.0)
    asked = error.retry_after if isinstance(error, Throttled) else None
    return max(pause, asked or 0.0)


class Took(NamedTuple):
    """What an answer brought: bytes to add, whether another log begins with them, whether to ask again at once."""

    data: bytes
    anew: bool
    more: bool


class Exact:
    """How far a log is held: `size` bytes of it, of `total` that it was last said to have. Ask for `request`, then `take`."""

    def __init__(self, size: int = 0, head: bytes = b"", tail: bytes = b"") -> None:
        """`head` and `tail` are the first and last bytes held, up to FIRST_CHECK each; `head` is empty where it is not known."""
        self.size = size
        self.total = size
        self._head = head
        self._tail = tail
        self._check = FIRST_CHECK
        self._doubts = 0
        self._useless = 0

    def request(self, limit: int) -> tuple[int, int]:
        """Where to read from, and how many bytes, so that up to `limit` new ones come."""
        known = min(self._check, len(self._tail))
        return self.size - known, limit + known

    def take(self, chunk: LogChunk) -> Took:
        """Take an answer in. Raises Unexpected for one that begins behind what was asked for, or does not come further."""
        end = chunk.offset + len(chunk.data)
        total = max(chunk.total, end)
        if chunk.offset > self.size:
            raise Unexpected(
                f"The log was asked for from byte {self.size:,}, and came from byte {chunk.offset:,}.",
                "It is asked again.",
            )
        if total < self.size or not self._agrees(chunk.offset, chunk.data):
            if not self._doubts:
                self._doubts = 1
                return Took(b"", False, True)
            return self._begin(chunk, total)
        self._doubts, self.total = 0, total
        new = chunk.data[self.size - chunk.offset :] if end > self.size else b""
        checked = chunk.offset < self.size
        if new:
            self._add(new)
            # What came with little to compare is compared together with what was there before.
            self._check = min(FIRST_CHECK, _CHECK + (len(new) if self._check < _CHECK else 0))
            self._useless = 0
            return Took(new, False, self.size < total)
        if self.size >= total or (not checked and end == self.size):
            self._useless = 0  # all is here; or there is more, but it is not handed out yet
            return Took(b"", False, False)
        # A short answer, or one from further before: with less to compare there is room for what is new.
        self._check //= 4
        self._useless += self._check == 0
        if self._useless > _MOST_USELESS:
            self._check, self._useless = _CHECK, 0
            raise Unexpected("The log's answers bring nothing new, though it has grown.", "It is asked again.")
        return Took(b"", False, True)

    def _begin(self, chunk: LogChunk, total: int) -> Took:
        self.size, self.total, self._head, self._tail, self._doubts, self._useless = 0, total, b"", b"", 0, 0
        self._check = _CHECK
        data = chunk.data if chunk.offset == 0 else b""
        self._add(data)
        return Took(data, True, self.size < total)

    def _add(self, data: bytes) -> None:
        if len(self._head) == self.size < FIRST_CHECK:
            self._head = (self._head + data)[:FIRST_CHECK]
        self.size += len(data)
        self._tail = (self._tail + data[-FIRST_CHECK:])[-FIRST_CHECK:]

    def _agrees(self, offset: int, data: bytes) -> bool:
        """Whether bytes that the source has from `offset` on are those that are held, as far as these are known."""
        for begin, held in ((0, self._head), (self.size - len(self._tail), self._tail)):
            first, last = max(begin, offset), min(begin + len(held), offset + len(data))
            if first < last and held[first - begin : last - begin] != data[first - offset : last - offset]:
                return False
        return True
