"""Where tracebacks go: the console's own log file, never the screen."""

from __future__ import annotations

import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from footplate import paths


def unforeseen(error: BaseException) -> str:
    """Record a fault that nobody foresaw, and return the sentence for it."""
    return f"footplate met a fault it did not foresee: {error!r}. The traceback is in {record(error)}."


def record(error: BaseException) -> Path:
    """Append a traceback to the log file and return the file's path; a temporary file where the home cannot be written."""
    text = f"{datetime.now(UTC).isoformat()}\n{''.join(traceback.format_exception(error))}\n"
    for place in (paths.console_log, lambda: Path(tempfile.gettempdir()) / "footplate-console.log"):
        try:
            file = place()  # fails too, where the home is a relative path and the current folder is gone
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file.open("a", encoding="utf-8") as log:
                log.write(text)
        except OSError:
            continue
        return file
    return Path("/dev/null")
