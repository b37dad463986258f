"""The supervisor's end of the pipe to its watchdog."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from footplate.local.groups import Group

_WATCHDOG = Path(__file__).with_name("watchdog.py")


class Guard:
    """One small process that ends the groups it was told of when this process dies. Use as a context."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WATCHDOG)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the watchdog go; it ends what it still guards."""
        if self._process.stdin:
            with suppress(BrokenPipeError):  # it is gone already, as `_tell` has said
                self._process.stdin.close()
        self._process.wait()

    def add(self, group: Group) -> None:
        """Guard a group from now on."""
        self._tell(f"{group.pid} {group.started}\n")

    def clear(self) -> None:
        """Guard nothing any more."""
        self._tell("end\n")

    def _tell(self, line: str) -> None:
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            # Somebody killed the watchdog. Readers still clean up after a dead supervisor, only later.
            print(
                "The watchdog is gone; if this supervisor is killed too, the ranks go on until somebody looks.",
                flush=True,
            )
