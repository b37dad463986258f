"""A log of a million lines opened, against toolong; and keys while 200,000 lines a second arrive, against a still log."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.keys import HEAD, ROUNDS, latencies, open_app, percentile
from tests.terminal import Terminal

LINES = 1_000_000
RATE = 200_000
SECONDS = 6
TOOLONG = "toolong==1.5.0"

VIEW = (
    HEAD
    + """
from footplate.widgets.log_view import LogView
class View(Told):
    updates = 0
    def compose(self):
        yield LogView(Path(sys.argv[1]))
        yield Static("", id="told")
        yield Static("", id="said")
    def on_mount(self):
        view = self.query_one(LogView)
        view.focus()
        self.watch(view, "total_lines", self.count, init=False)
        self.watch(view, "scroll_y", lambda y: self.tell(round(y)), init=False)
    def count(self, lines):
        self.updates += 1
        if lines == int(sys.argv[2]):
            self.query_one("#said").update(f"<all {lines} in {self.updates}>")
View().run()
"""
)

WRITER = """
import sys, time
rate, seconds = int(sys.argv[2]), int(sys.argv[3])
with open(sys.argv[1], "ab", buffering=0) as file:
    begin = time.monotonic()
    for part in range(seconds * 20):
        first = part * rate // 20
        file.write(b"".join(b"step %08d loss 0.123456 acc 0.9876\\n" % number for number in range(first, first + rate // 20)))
        time.sleep(max(0.0, begin + (part + 1) / 20 - time.monotonic()))
"""


def rival() -> list[str] | None:
    """Return the command of toolong, installed once in an environment of its own; None where that cannot be done."""
    folder = Path("build/bench/rivals/toolong")
    command = folder / "bin" / "tl"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", TOOLONG]
        if subprocess.run(install, check=False).returncode:
            return None
    return [str(command.absolute())]


def until_idle(command: Sequence[str | Path], shown: bytes) -> tuple[float, float]:
    """Return the seconds until the command has shown a text and then used no CPU for 0.3 s, and its peak MiB."""
    began = time.perf_counter()
    with Terminal(command, columns=160, rows=45) as terminal:
        terminal.read_until(shown, 60)
        process, busy_until, used = terminal.process.pid, time.perf_counter(), cpu_ticks(terminal.process.pid)
        while time.perf_counter() - busy_until < 0.3:
            terminal.read(0.02)
            now = cpu_ticks(process)
            if now > used:
                busy_until, used = time.perf_counter(), now
        status = Path(f"/proc/{process}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return busy_until - began, peak / 1024


def cpu_ticks(process: int) -> int:
    """Return the CPU time a process and its threads have used, in clock ticks."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def measure_open(folder: Path) -> list[Figure]:
    """The time until the end of the log is on screen and the process is idle, and its memory."""
    log = folder / "million.log"
    with log.open("wb") as file:
        file.writelines(
            b"\x1b[32m2026-01-01 12:00:00\x1b[0m INFO step %07d loss 0.123456 acc 0.9876 lr 0.001 118 img/s r0 %s\n"
            % (number, b"x" * (number % 30))
            for number in range(LINES)
        )
    theirs = rival()
    ours, others = [], []
    for _ in range(ROUNDS):
        ours.append(until_idle([sys.executable, "-c", VIEW, log, str(LINES)], b"<all %d" % LINES))
        if theirs is not None:
            others.append(until_idle([*theirs, str(log)], b"%07d" % (LINES - 1)))
    seconds, memory = (statistics.median(values) for values in zip(*ours, strict=True))
    if not others:
        print(f"{TOOLONG} could not be installed: its figures are left out.")
        return [Figure("open, until idle", seconds, "s"), Figure("memory", memory, "MiB")]
    their_seconds, their_memory = (statistics.median(values) for values in zip(*others, strict=True))
    return [
        Figure("open, until idle, to toolong's", seconds, "s", their_seconds, 0.5),
        Figure("memory, to toolong's", memory, "MiB", their_memory, 1.0),
    ]


def keys_while(log: Path, writing: bool) -> tuple[list[float], int]:
    """Return key times in a log, still or growing, and in the latter case the updates of the screen."""
    seconds = SECONDS if writing else 1
    total = RATE * seconds
    log.write_bytes(b"")
    command = [sys.executable, "-c", WRITER, os.fspath(log), str(RATE), str(seconds)]
    if not writing:
        subprocess.run(command, check=True)
    with open_app(VIEW, log, str(total)) as terminal:
        all_there = b"<all %d in " % total
        if writing:
            writer = subprocess.Popen(command)
            terminal.read_until(b"step 00")
        else:
            terminal.read_until(all_there)
        terminal.write("g")
        terminal.read_until(b"<0>")
        times = latencies(terminal)
        if not writing:
            return times, 0
        said = terminal.read_until(lambda seen: re.search(all_there + rb"\d+>", seen), 60)
        writer.wait(60)
        return times, int(said.rpartition(all_there)[2].partition(b">")[0])


def measure() -> list[Figure]:
    """Opening, then keys at 200,000 lines a second."""
    with tempfile.TemporaryDirectory() as folder:
        figures = measure_open(Path(folder))
        log = Path(folder) / "growing.log"
        still: list[float] = []
        growing: list[float] = []
        updates = []
        for _ in range(ROUNDS):
            still += keys_while(log, False)[0]
            times, count = keys_while(log, True)
            growing += times
            updates.append(count)
    return [
        *figures,
        Figure("key p50 at 200,000 lines/s", percentile(growing, 50), "ms", percentile(still, 50)),
        Figure("key p99 at 200,000 lines/s", percentile(growing, 99), "ms", percentile(still, 99), 2.0),
        Figure("screen updates a second", statistics.median(updates) / SECONDS, "a second", 10.0, 1.05),
    ]
