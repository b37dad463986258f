"""What a job's ranks use of this machine, sampled beside them by the job's supervisor, and read back for the console.

One JSON line a sample in the job's `usage.jsonl`. Twice as many samples as are kept make the file half, every second one: a long
job has all of its time at half the detail, in a file that never grows past a bound.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from footplate.local import groups, machine
from footplate.workspace import Usage
from footplate.workspace.points import Points

EVERY_SECONDS = 5.0
MOST_SAMPLES = 4096
"""After them every second one goes and the time between two doubles: 5 seconds last for more than five hours."""
_SOON_SECONDS = 1.0
_DIGITS = 3
_KEPT = 16
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_MB = 1e6


class RunningRank(Protocol):
    """What is looked at: a rank's number and process group."""

    number: int
    group: groups.Group


def file_of(folder: Path) -> Path:
    """Where a job's samples lie in its folder."""
    return folder / "usage.jsonl"


@dataclass(frozen=True)
class _Process:
    """A process at one sample: whose it is, when it began, what it has used by then (bytes, seconds)."""

    leader: int
    began: str
    cpu_seconds: float
    memory: int
    read: int = 0
    written: int = 0


class Sampler:
    """Samples when it is time to; a fault in it is said once and ends the sampling, never the job."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._file = file_of(folder)
        self._say = say
        self._due = 0.0
        self._last: float | None = None
        self._every = EVERY_SECONDS
        self._count = 0
        self._seen: dict[int, _Process] = {}
        self._network: tuple[int, int] | None = None
        self._gpus: list[Any] = []
        self._psutil: Any = None
        self._begun = self._ended = False

    def look(self, ranks: Sequence[RunningRank]) -> None:
        """Take a sample of the ranks that run, where one is due."""
        now = time.monotonic()
        if self._ended or now < self._due or not ranks:
            return
        # The first one has no rates yet: the second comes soon, so that a short job has some too.
        self._due = now + (_SOON_SECONDS if self._last is None else self._every)
        try:
            if not self._begun:
                self._begin()
            self._write(self._sample(ranks, now))
        except Exception as error:  # noqa: BLE001 - figures of the load must never end a job
            self._end(f"Usage is not sampled any more: {error!r}.")

    def close(self) -> None:
        """Let the driver go; the next look begins anew."""
        self._last = self._network = None
        self._seen, self._begun = {}, False
        if self._gpus:
            import pynvml

            self._gpus = []
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError as error:
                self._say(f"NVML was not shut down: {error}")

    def _begin(self) -> None:
        self._begun = True
        if self._file.exists():  # the job was preempted and runs again: its samples go on
            with self._file.open("rb") as file:
                self._count = sum(1 for _ in file)
        for note in filter(None, (self._open_psutil(), self._open_gpus())):
            self._say(note)
            self._append({"note": note})

    def _open_psutil(self) -> str:
        try:
            self._psutil = import_module("psutil")
        except ModuleNotFoundError:
            return "The machine's own load is not sampled: psutil is not installed. pip install 'footplate[local]' brings it."
        self._psutil.cpu_percent()  # the first call measures from here
        return ""

    def _open_gpus(self) -> str:
        """Find the GPUs that NVIDIA's library shows; gives what is to be said where there are some and it does not."""
        if not machine.gpus():
            return ""
        try:
            import pynvml

            pynvml.nvmlInit()
            self._gpus = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
        except ModuleNotFoundError:
            return "GPUs are not sampled: nvidia-ml-py is not installed. pip install 'footplate[local]' brings it."
        except Exception as error:  # noqa: BLE001 - the library's own errors are not known before it is loaded
            return f"GPUs are not sampled: NVIDIA's library says {error}."
        return ""

    def _end(self, note: str) -> None:
        self._ended = True
        self._say(note)
        try:
            self._append({"note": note})
        except OSError:
            return  # a full disk; the supervisor's log has it, where that can be written

    # Samples

    def _sample(self, ranks: Sequence[RunningRank], now: float) -> dict[str, float]:
        passed = None if self._last is None else max(0.001, now - self._last)
        self._last = now
        numbers = {rank.group.pid: rank.number for rank in ranks}
        named = {pid: f"/rank {number}" if len(ranks) > 1 else "" for pid, number in numbers.items()}
        cpu, memory, read, written = dict.fromkeys(numbers, 0.0), dict.fromkeys(numbers, 0), 0, 0
        seen = _processes(set(numbers))
        for pid, process in seen.items():
            before = self._seen.get(pid)
            if before is None or before.began != process.began:  # it began since: all that it used counts
                before = _Process(process.leader, process.began, 0.0, 0)
            cpu[process.leader] += process.cpu_seconds - before.cpu_seconds
            memory[process.leader] += process.memory
            read += max(0, process.read - before.read)
            written += max(0, process.written - before.written)
        self._seen = seen
        there = [pid for pid in numbers if any(process.leader == pid for process in seen.values())]
        sample = {f"memory_gb{named[pid]}": memory[pid] / 1e9 for pid in there}
        if passed is not None:
            sample |= {f"cpu_percent{named[pid]}": cpu[pid] / passed * 100 for pid in there}
            sample["disk_read_mb_per_second"] = read / passed / _MB
            sample["disk_write_mb_per_second"] = written / passed / _MB
        return {**sample, **self._of_machine(passed), **self._of_gpus()}

    def _of_machine(self, passed: float | None) -> dict[str, float]:
        if self._psutil is None:
            return {}
        sample = {"machine_memory_percent": float(self._psutil.virtual_memory().percent)}
        # The loopback is not counted: what it carries goes nowhere.
        counts = [own for name, own in self._psutil.net_io_counters(pernic=True).items() if name != "lo"]
        network = sum(own.bytes_recv for own in counts), sum(own.bytes_sent for own in counts)
        if passed is not None:
            sample["machine_cpu_percent"] = float(self._psutil.cpu_percent())
        if passed is not None and self._network is not None:
            sample["network_in_mb_per_second"] = (network[0] - self._network[0]) / passed / _MB
            sample["network_out_mb_per_second"] = (network[1] - self._network[1]) / passed / _MB
        self._network = network
        return sample

    def _of_gpus(self) -> dict[str, float]:
        if not self._gpus:
            return {}
        import pynvml

        sample = {}
        for at, handle in enumerate(self._gpus):
            name = f"/GPU {at}" if len(self._gpus) > 1 else ""
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            sample[f"gpu_percent{name}"] = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            sample[f"gpu_memory_percent{name}"] = memory.used / memory.total * 100
        return sample

    # The file

    def _write(self, sample: Mapping[str, float]) -> None:
        self._append({"t": round(time.time(), 1), **{name: round(value, _DIGITS) for name, value in sample.items()}})
        self._count += 1
        if self._count >= MOST_SAMPLES:
            self._thin()

    def _append(self, line: Mapping[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _thin(self) -> None:
        """Keep every second sample; a reader sees the old file or the new one."""
        lines = self._file.read_text(encoding="utf-8").splitlines(keepends=True)
        notes = [line for line in lines if line.startswith('{"note"')]
        kept = [*notes, *[line for line in lines if not line.startswith('{"note"')][1::2]]
        new = self._file.with_suffix(".new")
        new.write_text("".join(kept), encoding="utf-8")
        new.replace(self._file)
        self._count = len(kept)
        self._every *= 2


def _processes(leaders: set[int]) -> dict[int, _Process]:
    """The live processes of the ranks by pid: those in a rank's group, and what they started in others (mpirun does)."""
    stats: dict[int, list[str]] = {}
    owners: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended between the listing and the look, or is hidden
        if fields[0] != "Z":
            stats[int(entry.name)] = fields
            if int(fields[2]) in leaders:
                owners[int(entry.name)] = int(fields[2])
    for pid in stats:
        line = [pid]
        while line[-1] in stats and line[-1] not in owners and (parent := int(stats[line[-1]][1])) not in line:
            line.append(parent)
        if line[-1] in owners:
            owners |= dict.fromkeys(line, owners[line[-1]])
    found = {}
    for pid, leader in owners.items():
        fields = stats[pid]
        used = (int(fields[11]) + int(fields[12])) / _TICKS  # of proc(5): utime, stime, starttime, rss
        found[pid] = _Process(leader, fields[19], used, int(fields[21]) * _PAGE, *_moved(pid))
    return found


def _moved(pid: int) -> tuple[int, int]:
    """Bytes that a process had read from and written to disks."""
    try:
        lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        return int(lines["read_bytes"]), int(lines["write_bytes"])
    except (OSError, KeyError, ValueError):  # it ended, or became another user's, as what sudo starts
        return 0, 0


class Readings:
    """Reads samples, a file again only where it has changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int, int], Usage]] = {}

    def read(self, folder: Path) -> Usage:
        """The samples of the job in this folder."""
        file = file_of(folder)
        try:
            status = file.stat()
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
            known = self._known.get(file)
            if known is not None and known[0] == stamp:
                return known[1]
            with file.open(encoding="utf-8", errors="replace") as lines:
                usage = parse(lines)
        except FileNotFoundError:
            return Usage()
        except OSError as error:
            return Usage(note=f"{file} cannot be read: {error.strerror or error}.")
        if len(self._known) > _KEPT:
            self._known.clear()
        self._known[file] = (stamp, usage)
        return usage


def parse(lines: Iterable[str]) -> Usage:
    """Samples from their lines; one that is torn or strange is passed over."""
    times: dict[str, array[float]] = {}
    values: dict[str, array[float]] = {}
    notes: dict[str, None] = {}
    for line in lines:
        try:
            sample = json.loads(line)
        except ValueError:
            continue
        if not isinstance(sample, dict):
            continue
        if isinstance(note := sample.get("note"), str):
            notes[note] = None
        at = sample.pop("t", None)
        if not isinstance(at, int | float):
            continue
        for name, value in sample.items():
            if isinstance(value, int | float):
                times.setdefault(name, array("d")).append(at)
                values.setdefault(name, array("d")).append(value)
    series = {name: Points(array("q", range(len(own))), times[name], own) for name, own in values.items()}
    return Usage(series, " ".join(notes))
