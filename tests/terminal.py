"""A real terminal for tests: a command in a pty of a given size, its keys and its bytes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType


class Terminal:
    """A command whose standard input, output and error are one pty; use it as a context, which ends the command.

    `output` holds every byte the command has written so far and that was read.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 80,
        rows: int = 24,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.output = bytearray()
        self._descriptor, inner = pty.openpty()
        self.resize(columns, rows)
        variables = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "TEXTUAL_ANIMATIONS": "none",
            **(environment or {}),
        }
        for name in (
            "COLUMNS",
            "LINES",
        ):  # they go before the terminal's own size; readline, where it is loaded, sets both
            variables.pop(name, None)
        # A session of its own, with the pty as its controlling terminal, as a shell would have it.
        self.process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=variables,
            cwd=folder,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(inner)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def resize(self, columns: int, rows: int) -> None:
        """Give the pty another size; the command gets SIGWINCH."""
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def write(self, keys: str | bytes) -> None:
        """Type keys."""
        os.write(self._descriptor, keys.encode() if isinstance(keys, str) else keys)

    def read(self, timeout_seconds: float) -> bytes:
        """Return what comes within the time, at once when there is something; empty at the time-out or at the end."""
        ready, _, _ = select.select([self._descriptor], [], [], timeout_seconds)
        if not ready:
            return b""
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # the other end is closed: the command has ended
            return b""
        self.output += data
        return data

    def read_until(self, wanted: bytes | Callable[[bytes], object], deadline_seconds: float = 30) -> bytes:
        """Read until the output since this call holds `wanted`, or satisfies it; return that output.

        Raises `AssertionError`, with the end of the output, where it does not come in time or the command ends.
        """
        start, end = len(self.output), monotonic() + deadline_seconds
        while True:
            seen = bytes(self.output[start:])
            if wanted in seen if isinstance(wanted, bytes) else wanted(seen):
                return seen
            ended = self.process.poll() is not None
            if not self.read(0.1) and (ended or monotonic() > end):
                reason = f"the command ended with {self.process.returncode}" if ended else "the deadline passed"
                raise AssertionError(f"{reason}; last output: {seen[-2000:]!r}")

    def wait(self, deadline_seconds: float = 30) -> int:
        """Read on until the command ends; return its exit code (negative: the signal)."""
        end = monotonic() + deadline_seconds
        while self.process.poll() is None:
            if monotonic() > end:
                raise AssertionError(f"the command did not end; last output: {bytes(self.output[-2000:])!r}")
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.returncode

    def close(self) -> None:
        """End the command and everything in its session's process group, and give the pty back."""
        if self._descriptor < 0:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        os.close(self._descriptor)
        self._descriptor = -1


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
