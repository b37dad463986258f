"""When the bytes of a log arrived: a moment for each stretch of them, noted sparsely."""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from datetime import UTC, datetime
from pathlib import Path
from time import time

_RECORD = struct.Struct("<QQ")  # offset, milliseconds since 1970 (0: not known)
_BETWEEN_SECONDS = 0.1


class Arrivals:
    """Moments by offset. With a file it reads what another object, here or in another process, notes there."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._read = 0
        self._offsets = array("Q")
        self._moments = array("Q")

    def note(self, offset: int, moment: float | None) -> None:
        """The bytes from `offset` on arrived at that moment (seconds since 1970; None: nobody knows)."""
        milliseconds = int(moment * 1000) if moment else 0
        if self._offsets and milliseconds - self._moments[-1] < _BETWEEN_SECONDS * 1000 and milliseconds:
            return  # with those before
        self._moments.append(milliseconds)
        self._offsets.append(offset)

    def at(self, offset: int) -> datetime | None:
        """When a byte arrived; None where that is not known."""
        place = bisect_right(self._offsets, offset) - 1
        moment = self._moments[place] if place >= 0 else 0
        return datetime.fromtimestamp(moment / 1000, UTC) if moment else None

    def refresh(self) -> None:
        """Read what was noted in the file meanwhile."""
        if self._file is None:
            return
        try:
            with self._file.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return  # lines then have no time of arrival, which is said as such
        whole = len(data) - len(data) % _RECORD.size
        for offset, moment in _RECORD.iter_unpack(data[:whole]):
            if not self._offsets or offset >= self._offsets[-1]:
                self._moments.append(moment)
                self._offsets.append(offset)
        self._read += whole


def write(file: Path, offset: int, moment: float | None = None) -> None:
    """Note, in a file that `Arrivals` read, that the bytes from `offset` on arrive now. Raises OSError."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # A record that a killed console wrote in part is written over.
        end = os.fstat(descriptor).st_size // _RECORD.size * _RECORD.size
        os.pwrite(descriptor, _RECORD.pack(offset, int((time() if moment is None else moment) * 1000)), end)
    finally:
        os.close(descriptor)
