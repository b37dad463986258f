"""The console in a real tmux, driven by keys and read as an operator reads it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pytest
from tests.at_work import until

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A tmux server of its own with one window; use it as a context, which ends it and what runs in it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], columns: int = 120, rows: int = 40
    ) -> None:
        self._socket = f"footplate-{uuid.uuid4().hex[:10]}"
        line = " ".join(
            [
                "env",
                "-u",
                "COLUMNS",
                "-u",
                "LINES",
                *(shlex.quote(f"{k}={v}") for k, v in environment.items()),
                *map(shlex.quote, command),
            ]
        )
        self._tmux(
            "-f",
            os.devnull,
            "new-session",
            "-d",
            "-x",
            str(columns),
            "-y",
            str(rows),
            f"{line}; echo left $?; exec cat",
        )

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server", check=False)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], capture_output=True, text=True, timeout=20, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type text as it is."""
        self._tmux("send-keys", "-l", text)

    def screen(self) -> str:
        """What is on screen."""
        return self._tmux("capture-pane", "-p")

    def press_until_drawn(self, *keys: str, deadline_seconds: float = 10) -> None:
        """Press keys and wait until their effect, were it only a colour, is on screen."""
        before = self._tmux("capture-pane", "-p", "-e")
        self.keys(*keys)
        end = time.monotonic() + deadline_seconds
        while self._tmux("capture-pane", "-p", "-e") == before:
            assert time.monotonic() < end, f"{keys} changed nothing on screen:\n{before}"
            time.sleep(0.05)

    def pid(self) -> int:
        """The process of the pane."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def hang_up(self) -> None:
        """Take the terminal away, as a connection that drops does."""
        self._tmux("kill-server")

    def wait(self, wanted: str | Callable[[str], object], deadline_seconds: float = 30) -> str:
        """Wait until the screen holds the text, or satisfies the condition; returns the screen."""
        end = time.monotonic() + deadline_seconds
        while True:
            screen = self.screen()
            if wanted in screen if isinstance(wanted, str) else wanted(screen):
                return screen
            assert time.monotonic() < end, f"{wanted!r} did not come on screen within {deadline_seconds} s:\n{screen}"
            time.sleep(0.1)  # the pause of a polling wait on a condition, not a guess at a duration


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def console_pid(tmux: Tmux) -> int:
    """The console below the pane's shell."""
    found: list[int] = []

    def look() -> bool:
        pids = [tmux.pid()]
        while pids:
            pid = pids.pop()
            if "footplate" in Path(f"/proc/{pid}/cmdline").read_text() and "-m" in Path(
                f"/proc/{pid}/cmdline"
            ).read_text().split("\0"):
                found.append(pid)
                return True
            pids += children(pid)
        return False

    until(look)
    return found[0]
