"""Which Python runs the scoring servers, and why none can."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from footplate.settings import Settings
from footplate.workspace.errors import Invalid

_NEEDED = ("azureml_inference_server_http", "gunicorn")
_PROBE = f"import importlib.util as u, sys; sys.exit(any(u.find_spec(n) is None for n in {_NEEDED!r}))"
_PROBE_SECONDS = 20


def serving_python(settings: Settings) -> str:
    """The Python of `serving.python`; without that setting the first that has the scoring server: jobs', ours, PATH's.

    Raises Invalid with the next step where none has it.
    """
    if settings.serving.python:
        candidates = [settings.serving.python]
    else:
        candidates = [name for name in (settings.local.python, sys.executable, "python") if name]
    for candidate in candidates:
        if (path := shutil.which(Path(candidate).expanduser())) and _has_server(path):
            return os.path.abspath(path)  # noqa: PTH100  # Path.resolve would follow a virtual environment's links
    raise Invalid(
        f"No Python that can serve a model was found: azureml-inference-server-http is missing in {', '.join(candidates)}.",
        "Install footplate's extra: pip install 'footplate[local]', or name a Python that has it in serving.python.",
    )


def _has_server(python: str) -> bool:
    if python == sys.executable:
        return all(importlib.util.find_spec(name) is not None for name in _NEEDED)
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False  # not a program that runs: the same to us as a Python without the server
    return probe.returncode == 0
