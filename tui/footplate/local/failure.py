"""Why a job's ranks failed, in one line: from their logs and exit codes."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from footplate.logs.sanitise import clean

_TAIL_BYTES = 64 * 1024
_LONGEST = 300
_RANK_PREFIX = re.compile(r"^\[rank\d+\]:\s?")
"""torch's excepthook repeats the traceback with this before every line."""


def explain(logs: Mapping[int, Path], ends: Mapping[int, int], first: int, nodes: int = 1) -> str:
    """What the rank that is to blame said and how it ended: `rank 1: ValueError: no pictures (exit code 1)`.

    `logs` and `ends` (exit codes) are by rank, `first` is the one whose process failed first; of a job of one rank the number is
    told only where the log itself names others, as torchrun's does.
    """
    from footplate.logs.failure import Known, LogText, find  # by jobs that failed only

    texts = [
        LogText(path.name, rank, tail(path).encode("utf-8", "replace"), None, _changed(path))
        for rank, path in logs.items()
    ]
    alone = len(ends) == 1
    known = Known(nodes, -(-len(ends) // nodes), ends, "" if alone else f"rank {first}: ")
    card = find(texts, known)
    rank = first if card.rank is None else card.rank
    told = card.exception or (card.message if card.is_told else "")
    said = card.headline.removeprefix(f"rank {card.rank}: ") if told else last_words(logs.get(rank, logs.get(first)))
    code = ends.get(rank) or ends.get(first, 1)
    line = f"{_cut(said)} ({_ending(code)})" if said else f"it said nothing ({_ending(code)})"
    return line if len(card.ranks) < 2 and alone else f"rank {rank}: {line}"


def _changed(log: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(log.stat().st_mtime, UTC)
    except OSError:
        return None


def _ending(exit_code: int) -> str:
    if exit_code > 128 and exit_code - 128 in set(signal.Signals):
        number = signal.Signals(exit_code - 128)
        ending = f"ended by {number.name}, exit code {exit_code}"
        return f"{ending}; often the machine has run out of memory" if number == signal.SIGKILL else ending
    return f"exit code {exit_code}"


def last_words(log: Path | None) -> str:
    """The last line of a log that is not blank; clean, and at most 300 characters."""
    lines = tail(log).splitlines() if log else []
    return _cut(_RANK_PREFIX.sub("", next((line for line in reversed(lines) if line.strip()), "")))


def _cut(said: str) -> str:
    said = clean(said).strip()
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def tail(log: Path) -> str:
    """The last 64 KiB of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
