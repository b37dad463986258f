"""What torchrun's summary of a failure tells of its ranks: when each ended, and with which exit code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from footplate.logs.tracebacks import Said

_BEGIN = re.compile(r"Root Cause \(first observed failure\):|^Failures:")
_RANK = re.compile(r"\s*rank\s*: (\d+) \(local_rank: (\d+)\)")
_EXIT = re.compile(r"\s*exitcode\s*: (-?\d+)")
_TIME = re.compile(r"\s*time\s*: (\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)")
_ENTRY = 12


@dataclass(frozen=True, slots=True)
class Ended:
    """One rank's end as torchrun saw it; `exit_code` is the shell's, 128 + N for signal N."""

    rank: int
    local_rank: int
    exit_code: int
    time: datetime | None


def summary(lines: Sequence[Said]) -> list[Ended]:
    """The ranks that torchrun's summaries name, in the order they stand there."""
    found: list[Ended] = []
    inside = False
    time: datetime | None = None
    for i, line in enumerate(lines):
        inside = inside or bool(_BEGIN.search(line.text))
        if not inside:
            continue
        if when := _TIME.match(line.text):
            time = _moment(when[1], when[2])
        elif rank := _RANK.match(line.text):
            code = next((int(match[1]) for one in lines[i : i + _ENTRY] if (match := _EXIT.match(one.text))), 1)
            found.append(Ended(int(rank[1]), int(rank[2]), code if code >= 0 else 128 - code, time))
    return found


def _moment(day: str, time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC)
    except ValueError:
        return None
