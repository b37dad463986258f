"""Which Python runs jobs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

from footplate.settings import Settings
from footplate.workspace.errors import Invalid


def for_jobs(settings: Settings) -> str:
    """The Python that runs jobs, as an absolute path with its links kept (a virtual environment is known by them).

    It is `local.python` of the settings; else the console's own, if torch is installed there (looked up, not imported); else the
    first `python` on PATH; else the console's own. Raises Invalid when the one in the settings is not there.
    """
    if given := settings.local.python:
        # Unlike Path.expanduser it raises nothing for a user who is not there, and keeps the `./` of a relative one.
        found = shutil.which(os.path.expanduser(given))  # noqa: PTH111
        if found is None:
            raise Invalid(
                f"The Python that is to run jobs, {given!r}, is not there or cannot be run.",
                "Mend `local.python` in the settings (or FOOTPLATE_LOCAL_PYTHON), or leave it empty.",
            )
        return os.path.abspath(found)  # noqa: PTH100 - Path.resolve would follow the links
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    found = shutil.which("python") or shutil.which("python3")
    return os.path.abspath(found) if found else sys.executable  # noqa: PTH100
