"""How many threads a model may use: what the instance's CPU limit leaves to each of its workers."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def threads() -> int:
    """OMP_NUM_THREADS where it is set, else the CPUs of this instance shared among its WORKER_COUNT workers; at least 1."""
    if given := _number(os.environ.get("OMP_NUM_THREADS", "")):
        return given
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = cpu_limit(_CGROUP)
    if limit is not None:
        cores = min(cores, max(1, math.floor(limit)))
    return max(1, cores // (_number(os.environ.get("WORKER_COUNT", "")) or 1))


def cpu_limit(cgroup: Path) -> float | None:
    """The CPUs that a container's control group may use, version 2 or 1; None where it says no limit."""
    words = _text(cgroup / "cpu.max").split()
    if len(words) != 2:
        words = [_text(cgroup / "cpu" / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = _number(words[0]), _number(words[1])
    return quota / period if quota and period else None


def _number(text: str) -> int | None:
    """A whole number above zero; None for anything else, such as `max` and -1, which mean no limit."""
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
