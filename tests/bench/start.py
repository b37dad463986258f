"""First frame of the console with 10,000 local jobs, against a Textual hello-world in the same run."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path

from tests.bench.figures import Figure

from footplate.local.store import Store, now

ROUNDS = 7
JOBS = 10_000
HELLO = (
    "from textual.app import App\n"
    "from textual.widgets import Static\n"
    "class Hello(App):\n"
    "    def compose(self):\n"
    "        yield Static('hello-world')\n"
    "Hello().run()\n"
)


def seconds_until(command: Sequence[str], environment: Mapping[str, str], markers: Sequence[bytes]) -> list[float]:
    """Start a command in a pty of 160×45; seconds from exec until each marker is among the bytes it wrote."""
    began = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(
            command[0], list(command), {**os.environ, **environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        )
    ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
    seen, found = b"", dict.fromkeys(markers, 0.0)
    try:
        while not all(found.values()):
            if time.perf_counter() - began > 30:
                raise TimeoutError(f"{command} did not show {markers} within 30 s; it wrote {seen[-400:]!r}")
            if select.select([fd], [], [], 1.0)[0]:
                seen += os.read(fd, 1 << 16)
                moment = time.perf_counter() - began
                for marker, at in found.items():
                    if not at and marker in seen:
                        found[marker] = moment
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)
    return [found[marker] for marker in markers]


def fill(home: Path) -> None:
    """A store with many ended jobs."""
    store = Store(home)
    store.prepare()
    began = now()
    with store.write() as db:
        db.executemany(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, started, ended, inputs, nodes,"
            " ranks_per_node, command, plan)"
            " VALUES (?, ?, 'command', ?, 'birds', 'local', ?, ?, ?, ?, 1, 2, 'python train.py', '{}')",
            [
                (
                    f"birds-{i:05}",
                    f"birds-{i:05}",
                    "Failed" if i % 10 == 0 else "Completed",
                    began - i * 60,
                    began - i * 60 + 1,
                    began - i * 60 + 50,
                    json.dumps({"learning_rate": "0.001"}),
                )
                for i in range(JOBS)
            ],
        )


def measure() -> list[Figure]:
    """Medians of rounds that take turns, so that a busy moment meets both."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        fill(home)
        console = [sys.executable, "-m", "footplate"]
        environment = {"FOOTPLATE_HOME": str(home), "FOOTPLATE_CONFIG": str(Path(folder) / "none.toml")}
        hello, first, rows = [], [], []
        for round_number in range(ROUNDS + 1):
            a = seconds_until([sys.executable, "-c", HELLO], {}, [b"hello-world"])
            b = seconds_until(console, environment, [b"footplate", b"birds-00003"])
            if round_number:  # the first round only warms the disk's cache
                hello += a
                first.append(b[0])
                rows.append(b[1])
    base = statistics.median(hello) * 1000
    return [
        Figure("first frame, 10,000 jobs", statistics.median(first) * 1000, "ms", base, 2.0),
        Figure("first frame with the newest jobs in it", statistics.median(rows) * 1000, "ms", base, 2.0),
    ]
