"""What a gateway counts: requests, errors and latencies of each deployment by the minute, the load of its processes."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FILE = "figures.json"
MINUTES = 60
_MOST_LATENCIES = 10_000
"""Of one minute; percentiles of more are those of the first."""

_PERCENTILES = (50, 90, 95, 99)
_TICKS = os.sysconf("SC_CLK_TCK")
_CORES = os.cpu_count() or 1


@dataclass
class _Minute:
    """One deployment's minute. `latencies` are in milliseconds; `loads` are (CPU %, memory %) of the machine."""

    requests: int = 0
    errors: int = 0
    instances: int = 0
    latencies: list[float] = field(default_factory=list)
    loads: list[tuple[float, float]] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """The minute's figures by their names in `Figures.series`."""
        found: dict[str, float] = {
            "requests_per_minute": self.requests,
            "errors_per_minute": self.errors,
            "instances": self.instances,
        }
        if len(self.latencies) > 1:
            cuts = statistics.quantiles(self.latencies, n=100, method="inclusive")
            found |= {f"latency_ms_p{per_cent}": round(cuts[per_cent - 1], 3) for per_cent in _PERCENTILES}
        elif self.latencies:
            found |= {f"latency_ms_p{per_cent}": round(self.latencies[0], 3) for per_cent in _PERCENTILES}
        if self.loads:
            found["cpu_percent"] = round(statistics.fmean(load[0] for load in self.loads), 2)
            found["memory_percent"] = round(max(load[1] for load in self.loads), 2)
        return found


class Counters:
    """The last hour's minutes, kept in the endpoint's folder too, so that a gateway's death loses a few seconds at most."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._minute = _this_minute()
        self._past = read_figures(folder)
        self._now: dict[str, _Minute] = {}
        for name, minutes in self._past.items():
            if begun := minutes.pop(self._minute, None):  # by a gateway that was started again
                requests, errors = (int(begun.get(key, 0)) for key in ("requests_per_minute", "errors_per_minute"))
                self._now[name] = _Minute(requests, errors)
        self._changed = False
        self._cpu: dict[str, tuple[float, dict[int, float]]] = {}

    def count(self, deployment: str, status: int, seconds: float) -> None:
        """One request was answered; 400 and above is an error."""
        minute = self._of(deployment)
        minute.requests += 1
        minute.errors += status >= 400
        if len(minute.latencies) < _MOST_LATENCIES:
            minute.latencies.append(seconds * 1000)
        self._changed = True

    def measure(self, guards: Mapping[str, Iterable[int]]) -> None:
        """Take the load of each deployment's processes: those below its guards."""
        for deployment, pids in guards.items():
            pids = list(pids)
            minute = self._of(deployment)
            minute.instances = max(minute.instances, len(pids))
            family = [process for pid in pids for process in _family(pid)]
            now, ticks = time.monotonic(), {pid: _cpu_ticks(pid) for pid in family}
            before, old = self._cpu.get(deployment, (0.0, {}))
            self._cpu[deployment] = (now, ticks)
            if before and now > before:
                used = sum(ticks[pid] - old.get(pid, 0.0) for pid in ticks) / _TICKS
                cpu = min(100.0, max(0.0, used / (now - before) / _CORES * 100))
                minute.loads.append((cpu, sum(_memory_kb(pid) for pid in family) / _machine_kb() * 100))
                # An idle endpoint writes once a minute.
                self._changed = self._changed or len(minute.loads) == 1

    def write(self) -> None:
        """Write what is new. Raises OSError."""
        self._turn()
        if not self._changed:
            return
        document = {name: {**minutes} for name, minutes in self._past.items()}
        for name, minute in self._now.items():
            document.setdefault(name, {})[self._minute] = minute.figures()
        new = self._file.with_name(f"{FILE}.new")
        new.write_text(json.dumps(document), encoding="utf-8")
        new.replace(self._file)
        self._changed = False

    def forget(self, deployment: str) -> None:
        """A deployment was deleted: another one of its name begins anew."""
        self._past.pop(deployment, None)
        self._now.pop(deployment, None)
        self._cpu.pop(deployment, None)
        self._changed = True

    def _of(self, deployment: str) -> _Minute:
        self._turn()
        return self._now.setdefault(deployment, _Minute())

    def _turn(self) -> None:
        """Begin a new minute where one is over, and forget what is older than an hour, or to come by a clock set back."""
        if (minute := _this_minute()) == self._minute:
            return
        for name, over in self._now.items():
            self._past.setdefault(name, {})[self._minute] = over.figures()
        for minutes in self._past.values():
            for old in [one for one in minutes if not minute - MINUTES * 60 < one <= minute]:
                del minutes[old]
        self._changed = self._changed or bool(self._now)
        self._now, self._minute = {}, minute


def read_figures(folder: Path) -> dict[str, dict[int, dict[str, float]]]:
    """By deployment and minute (seconds since the epoch): the figures of the last hour; none where nothing was counted."""
    try:
        document = json.loads((folder / FILE).read_text(encoding="utf-8"))
        newest = _this_minute()  # later ones were counted before the clock was set back
        oldest = newest - MINUTES * 60
        return {
            str(name): {
                int(minute): dict(figures) for minute, figures in minutes.items() if oldest < int(minute) <= newest
            }
            for name, minutes in document.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # nothing was counted yet; where the file is damaged, counting begins anew


def _this_minute() -> int:
    return int(time.time() // 60 * 60)


def _family(pid: int) -> list[int]:
    """A process and all below it that are there."""
    found, looked = [pid], 0
    while looked < len(found):
        try:
            children = Path(f"/proc/{found[looked]}/task/{found[looked]}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            children = []
        found.extend(int(child) for child in children)
        looked += 1
    return found


def _cpu_ticks(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return float(fields[11]) + float(fields[12])


def _memory_kb(pid: int) -> float:
    """Its proportional share of memory: what processes have in common counts once."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith("Pss:")), 0.0)


def _machine_kb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024
