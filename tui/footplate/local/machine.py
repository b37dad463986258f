"""What this machine has: cores and GPUs."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> int:
    """Cores that processes of this user may use."""
    return len(os.sched_getaffinity(0))


def gpus() -> int:
    """GPUs that NVIDIA's driver shows; 0 without the driver."""
    folder = Path("/proc/driver/nvidia/gpus")
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0


def memory_gb() -> float:
    """Memory in GiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
