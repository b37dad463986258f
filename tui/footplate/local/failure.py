"""Why a rank failed, in one line: from its log and its exit code."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from footplate.logs.sanitise import clean

_TAIL_BYTES = 64 * 1024
_LONGEST = 300
_RANK_PREFIX = re.compile(r"^\[rank\d+\]:\s?")
"""torch's excepthook repeats the traceback with this before every line."""


_TRACEBACK = re.compile(r"(Original )?Traceback \(most recent call last\)")
"""A DataLoader hands on its worker's own traceback as the original one."""


def describe(log: Path, exit_code: int) -> str:
    """The last thing that the rank said of its failure, and how it ended: `ValueError: no pictures (exit code 1)`."""
    if exit_code > 128 and exit_code - 128 in set(signal.Signals):
        number = signal.Signals(exit_code - 128)
        ending = f"ended by {number.name}, exit code {exit_code}"
        if number == signal.SIGKILL:
            ending += "; often the machine has run out of memory"
    else:
        ending = f"exit code {exit_code}"
    said = last_words(log)
    return f"{said} ({ending})" if said else f"it said nothing ({ending})"


def last_words(log: Path) -> str:
    """The line under the last traceback, else the last line that is not blank; clean, and at most 300 characters."""
    lines = [_RANK_PREFIX.sub("", line) for line in tail(log).splitlines()]
    traceback = next((i for i in reversed(range(len(lines))) if _TRACEBACK.match(lines[i])), None)
    after = [] if traceback is None else [line for line in lines[traceback + 1 :] if line and not line[0].isspace()]
    said = after[0] if after else next((line for line in reversed(lines) if line.strip()), "")
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
