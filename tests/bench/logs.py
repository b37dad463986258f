"""A log of a million lines opened, beside toolong, less and Textual's Log; keys while 200,000 lines a second arrive.

Writes docs/logs-figures.md from what it measured.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.keys import HEAD, ROUNDS, latencies, open_app, percentile
from tests.terminal import Terminal

from footplate.logs.filtered import Filtered, Wanted
from footplate.logs.index import LineIndex
from footplate.logs.levels import Level
from footplate.logs.lines import Lines

LINES = 1_000_000
RATE = 200_000
SECONDS = 6
TOOLONG = "toolong==1.5.0"
PAGE = Path(__file__).parents[2] / "docs" / "logs-figures.md"

STOCK = (
    HEAD
    + """
from textual.widgets import Log
class Stock(Told):
    def compose(self):
        yield Log()
        yield Static("", id="told")
    def on_mount(self):
        self.call_after_refresh(self.fill)
    def fill(self):
        with open(sys.argv[1], errors="replace") as file:
            self.query_one(Log).write_lines(file)
        self.call_after_refresh(self.query_one("#told").update, "<all>")
Stock().run()
"""
)

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


@dataclass(frozen=True)
class Opened:
    """How a viewer opened the log."""

    name: str
    seconds: float
    mib: float


def until_idle(command: Sequence[str | Path], shown: bytes, seconds: float = 60) -> tuple[float, float]:
    """Return the seconds until the command has shown a text and then used no CPU for 0.3 s, and its peak MiB."""
    began = time.perf_counter()
    with Terminal(command, columns=160, rows=45) as terminal:
        terminal.read_until(shown, seconds)
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


def write_million(log: Path) -> None:
    """A log of a million lines with colours, 105 MB."""
    with log.open("wb") as file:
        file.writelines(
            b"\x1b[32m2026-01-01 12:00:00\x1b[0m INFO step %07d loss 0.123456 acc 0.9876 lr 0.001 118 img/s r0 %s\n"
            % (number, b"x" * (number % 30))
            for number in range(LINES)
        )


def measure_open(folder: Path) -> tuple[list[Figure], list[Opened]]:
    """The time until the end of the log is on screen and the process is idle, and its memory: ours and others'."""
    log = folder / "million.log"
    write_million(log)
    last = b"%07d" % (LINES - 1)
    theirs = rival()
    ours, toolong, less = [], [], []
    for _ in range(ROUNDS):
        ours.append(until_idle([sys.executable, "-c", VIEW, log, str(LINES)], b"<all %d" % LINES))
        if theirs is not None:
            toolong.append(until_idle([*theirs, str(log)], last))
        if (pager := shutil.which("less")) is not None:
            less.append(until_idle([pager, "-R", "+G", str(log)], last))
    stock = [until_idle([sys.executable, "-c", STOCK, log], b"<all>", 600)]  # minutes: once
    names = ("footplate", TOOLONG.replace("==", " "), "less -R +G", "Textual's Log")
    opened = [_median(name, times) for name, times in zip(names, (ours, toolong, less, stock), strict=True) if times]
    mine = opened[0]
    figures = [Figure("open, until idle", mine.seconds, "s"), Figure("memory", mine.mib, "MiB")]
    if toolong:
        other = opened[1]
        figures = [
            Figure("open, until idle, to toolong's", mine.seconds, "s", other.seconds, 0.5),
            Figure("memory, to toolong's", mine.mib, "MiB", other.mib, 1.0),
        ]
    else:
        print(f"{TOOLONG} could not be installed: its figures are left out.")
    for other in opened[1:]:
        if not other.name.startswith("toolong"):
            figures.append(Figure(f"open, until idle, to {other.name}", mine.seconds, "s", other.seconds))
    return [*figures, *measure_engine(log)], opened


def measure_engine(log: Path) -> list[Figure]:
    """What the engine takes for the same log without a screen: counting its lines, and leaving only its warnings."""

    def taken(make: Callable[[], Lines]) -> float:
        lines = make()
        began = time.perf_counter()
        while lines.scan():
            pass
        seconds = time.perf_counter() - began
        lines.close()
        return seconds

    index = LineIndex(log)
    counting = taken(lambda: index)
    base = LineIndex(log)
    taken_in = taken(lambda: Filtered(base, Wanted(least=Level.WARNING)))
    base.close()
    return [
        Figure("index of a million lines", counting, "s"),
        Figure("only its warnings, to the index alone", taken_in, "s", counting),
    ]


def _median(name: str, times: Sequence[tuple[float, float]]) -> Opened:
    seconds, mib = (statistics.median(values) for values in zip(*times, strict=True))
    return Opened(name, seconds, mib)


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
        said = bytes(terminal.output)  # on a busy machine it was said while keys were pressed
        if not re.search(all_there + rb"\d+>", said):
            said = terminal.read_until(lambda seen: re.search(all_there + rb"\d+>", seen), 60)
        writer.wait(60)
        return times, int(said.rpartition(all_there)[2].partition(b">")[0])


def measure() -> list[Figure]:
    """Opening, then keys at 200,000 lines a second."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        figures, opened = measure_open(Path(folder))
        log = Path(folder) / "growing.log"
        still: list[float] = []
        growing: list[float] = []
        updates = []
        for _ in range(ROUNDS):
            still += keys_while(log, False)[0]
            times, count = keys_while(log, True)
            growing += times
            updates.append(count)
    figures += [
        Figure("key p50 at 200,000 lines/s", percentile(growing, 50), "ms", percentile(still, 50)),
        Figure("key p99 at 200,000 lines/s", percentile(growing, 99), "ms", percentile(still, 99), 2.0),
        Figure("screen updates a second", statistics.median(updates) / SECONDS, "a second", 10.0, 1.05),
    ]
    PAGE.write_text(page(opened, figures, load))
    return figures


def page(opened: Sequence[Opened], figures: Sequence[Figure], load: float) -> str:
    """The page of figures."""
    mine = opened[0].seconds
    rows = [f"| {one.name} | {one.seconds:.2f} s | {one.seconds / mine:.1f} | {one.mib:.0f} MiB |" for one in opened]
    measured = [
        f"| {f.name} | {f.value:.3g} {f.unit} | {f'{f.baseline:.3g} {f.unit}' if f.baseline is not None else ''} "
        f"| {f'≤ {f.budget:g} ×' if f.budget else ''} |"
        for f in figures
        if not f.name.startswith(("open", "memory"))
    ]
    return "\n".join(
        [
            "# Logs: figures",
            "",
            "Written by `make bench ONLY=logs`; ratios are what counts, seconds depend on the machine.",
            f"{os.cpu_count()} processors, load {load:.1f} as it began.",
            "",
            f"A log of {LINES:,} lines with colours (105 MB) opened at its end, until nothing moves any more; peak memory.",
            f"Median of {ROUNDS}, in turns; Textual's own `Log` once.",
            "",
            "| viewer | until idle | to footplate's | memory |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            "| what | footplate | beside | budget |",
            "| --- | --- | --- | --- |",
            *measured,
            "",
            "Keys: from the key to the bytes that show its effect, in a pty, beside the same view on a log that stands still.",
            "No line is lost: the run ends when the last line that was written is counted.",
            "",
        ]
    )
