"""The log of a scoring server: its last lines, and the reason for a failure that it holds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_MOST_BYTES = 1024 * 1024
_MOST_REASON = 400
_MOST_TRACEBACK = 4000

_TRACEBACK = "Traceback (most recent call last):"
# The server's own wrapper round the user's exception, and its way out: true, and no reason.
_WRAPPERS = ("UserScriptException", "UserScriptImportException", "SystemExit")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_SERVERS_OWN = re.compile(r'\s*File "[^"]*(?:azureml_inference_server_http/|<frozen )')


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
    return failure(path, start)[0]


def failure(path: Path, start: int) -> tuple[str, str]:
    """Why the server ended, in one line, and the traceback that ends in it; each empty where there is none.

    The traceback has the script's own frames alone, without those of the server that called it.
    """
    lines = tail(path, 2000, start).split("\n")
    found = [block for block in _tracebacks(lines) if not block[-1].partition(":")[0].endswith(_WRAPPERS)]
    if not found:
        line = next((line for line in reversed(lines) if line.strip()), "")
        return _CONTROL.sub(" ", line).strip()[:_MOST_REASON], ""
    kind, colon, message = found[-1][-1].partition(":")
    line = f"{kind.rpartition('.')[2]}{colon}{message}"
    text = "\n".join(_CONTROL.sub(" ", one).rstrip() for one in _frames(found[-1]))
    return _CONTROL.sub(" ", line).strip()[:_MOST_REASON], text[-_MOST_TRACEBACK:]


def _tracebacks(lines: list[str]) -> Iterator[list[str]]:
    """Each traceback: from its first line to the first that is not indented, which ends it."""
    block: list[str] = []
    for line in lines:
        if _TRACEBACK in line:
            block = [_TRACEBACK]
        elif block and line:
            block.append(line)
            if not line[0].isspace():
                yield block
                block = []


def _frames(block: list[str]) -> Iterator[str]:
    own = False
    for line in block[:-1]:
        if line.lstrip().startswith("File "):
            own = not _SERVERS_OWN.match(line)
        if own or line == _TRACEBACK:
            yield line
    yield block[-1]
