"""Which Python runs jobs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from footplate.settings import Settings
from footplate.workspace.errors import Invalid


def for_jobs(settings: Settings) -> str:
    """The Python that runs jobs, as an absolute path with its links kept (a virtual environment is known by them).

    It is `local.python` of the settings; else the console's own, if torch is installed there (looked up, not imported); else the
    first `python` on PATH; else the console's own. Raises Invalid when the one in the settings is not there.
    """
    if given := settings.local.python:
        try:
            found = shutil.which(Path(given).expanduser())
        except RuntimeError:  # ~user of a user who is not there
            found = None
        if found is None:
            raise Invalid(
                f"The Python that is to run jobs, {given!r}, is not there or cannot be run.",
                "Mend `local.python` in the settings (or FOOTPLATE_LOCAL_PYTHON), or leave it empty.",
            )
        return _absolute(found)
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    found = shutil.which("python") or shutil.which("python3")
    return _absolute(found) if found else sys.executable


def _absolute(python: str) -> str:
    try:
        return os.path.abspath(python)  # noqa: PTH100 - Path.resolve would follow the links
    except OSError as error:
        raise Invalid(
            f"The Python that is to run jobs, {python!r}, is named from the current folder, and that is gone.",
            "Change to a folder that is there, or give the whole path in `local.python` (or FOOTPLATE_LOCAL_PYTHON).",
            repr(error),
        ) from error
