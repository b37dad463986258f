"""A job's log on the way to the reader: as it is to a file or pipe, line by line and made safe on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import TextIO

from footplate.logs.lines import Lines
from footplate.logs.sanitise import clean, last_state

_LONGEST = 1 << 20
"""Bytes of a line without an end after which the terminal gets what there is, so that memory stays bounded."""


class LogOutput:
    """Call it with bytes as they come; as a context, it shows a last line that has no line end when the log is over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on_terminal = stream.isatty()
        self._pending = b""

    def __enter__(self) -> LogOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pending:
            self._show([self._pending])
            self._pending = b""

    def __call__(self, data: bytes) -> None:
        """Write the next bytes of the log."""
        if not self._on_terminal:
            self._stream.buffer.write(data)
            self._stream.buffer.flush()
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        if len(self._pending) > _LONGEST:
            lines.append(self._pending)
            self._pending = b""
        self._show(lines)

    def line(self, lines: Lines, number: int, stamped: bool = False) -> None:
        """Write one of several lines; with `stamped`, after the time it was written or arrived, in UTC."""
        text = lines.raw(number) or lines.display(number)[0]  # a mark between lines is no bytes of the log
        if stamped:
            time = lines.time(number)
            stamp = "-" * 24 if time is None else f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"
            text = f"{stamp} ".encode() + (last_state(text.rstrip(b"\r")) if self._on_terminal else text)
        self(text + b"\n")

    def _show(self, lines: list[bytes]) -> None:
        for line in lines:
            # Of a line that was overwritten, as progress bars are, the last state counts.
            text = last_state(line.rstrip(b"\r")).decode("utf-8", "replace")
            self._stream.write(f"{clean(text)}\n")
        self._stream.flush()
