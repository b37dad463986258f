"""The log of a scoring server: its last lines, and the reason for a failure that it holds."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOST_BYTES = 1024 * 1024
_MOST_REASON = 400

_TRACEBACK = "Traceback (most recent call last):"
# The server's own wrapper round the user's exception, and its way out: true, and no reason.
_WRAPPERS = ("UserScriptException", "UserScriptImportException", "SystemExit")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def tail(path: Path, lines: int, start: int = 0) -> str:
    """The last lines of a log, none before byte `start`, read from its end: at most one megabyte, whatever its size."""
    if lines <= 0 or not path.is_file():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(start, size - _MOST_BYTES, 0)
        file.seek(min(begin, size))
        text = file.read(_MOST_BYTES).decode("utf-8", errors="replace")
    return "\n".join(text.rstrip("\n").split("\n")[-lines:])


def reason(path: Path, start: int) -> str:
    """Why the server ended, in one line: its last exception, else its last line; empty when it said nothing."""
    lines = tail(path, 2000, start).split("\n")
    found = [line for line in _exceptions(lines) if not line.partition(":")[0].endswith(_WRAPPERS)]
    if found:
        kind, colon, message = found[-1].partition(":")
        line = f"{kind.rpartition('.')[2]}{colon}{message}"
    else:
        line = next((line for line in reversed(lines) if line.strip()), "")
    return _CONTROL.sub(" ", line).strip()[:_MOST_REASON]


def _exceptions(lines: list[str]) -> list[str]:
    """The line that ends each traceback: the first that is not indented."""
    found = []
    inside = False
    for line in lines:
        if _TRACEBACK in line:
            inside = True
        elif inside and line and not line[0].isspace():
            found.append(line)
            inside = False
    return found
