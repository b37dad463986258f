"""The packages that a job file's conda file asks for, against those of the Python that runs the job on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from footplate.jobfile import JobFile
from footplate.jobfile.document import real_path
from footplate.local import children

_REQUIREMENT = re.compile(r"\s*(?:[\w-]+::)?([A-Za-z0-9][A-Za-z0-9._-]*)")
_OTHERWISE_NAMED = {"pytorch": "torch", "tensorflow-gpu": "tensorflow", "pytorch-cuda": "", "opencv": "opencv-python"}
"""Conda's names for what Python's own index calls otherwise; empty for what is no Python package."""
_NO_PACKAGES = frozenset({"python", "pip", "cudatoolkit", "cuda", "cudnn", "mkl", "openmpi", "libgcc", "gcc", "nodejs"})

_INSTALLED = (
    "import importlib.metadata as m, json; print(json.dumps([d.metadata['Name'] or '' for d in m.distributions()]))"
)


def declared(job_file: JobFile) -> tuple[str, ...]:
    """Names of the Python packages in the conda file of an inline environment; none where there is none to be read."""
    environment = job_file.get(*job_file.body, "environment")
    given = environment.get("conda_file") if isinstance(environment, Mapping) else None
    if isinstance(given, str):
        import yaml

        try:
            given = yaml.safe_load(real_path(job_file.base, given).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
            return ()  # `check` says so
    found = given.get("dependencies") if isinstance(given, Mapping) else None
    return tuple(dict.fromkeys(name for name in _names(found) if name))


def _names(dependencies: Any) -> list[str]:
    names: list[str] = []
    for one in dependencies if isinstance(dependencies, list) else ():
        if isinstance(one, Mapping):
            names += _names(one.get("pip"))
        elif isinstance(one, str) and not one.lstrip().startswith("-") and (match := _REQUIREMENT.match(one)):
            name = match[1].lower()
            names.append("" if name in _NO_PACKAGES else _OTHERWISE_NAMED.get(name, name))
    return names


def missing(python: str, wanted: Sequence[str], stop: Callable[[], bool]) -> list[str]:
    """Those of the wanted packages that a Python lacks; none where it cannot tell. Raises children.Stopped, OSError.

    What is a program of that name on PATH is not missing: conda brings programs too.
    """
    _, printed = children.run([python, "-c", _INSTALLED], folder=Path("/"), environment=dict(os.environ), stop=stop)
    try:
        there = {_normal(str(name)) for name in json.loads(children.last_line(printed))}  # above it may stand warnings
    except (ValueError, TypeError):
        return []
    return [name for name in wanted if _normal(name) not in there and shutil.which(name) is None]


def _normal(name: str) -> str:
    """A package's name as Python's index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()
