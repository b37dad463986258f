"""What a file names on this machine: code folders, data, environments' files, scripts."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile, as_path, is_remote
from footplate.jobfile.faults import Code, Report, Severity, nearest

CODES = (
    Code(
        "code-missing",
        "error",
        "A code folder that is not there. Paths are relative to the file that names them.",
        "command: python train.py\nenvironment: azureml:e:1\ncode: ./scr  # here\n",
    ),
    Code(
        "code-not-folder",
        "warning",
        "`code` names one file. Azure takes it alone; the local workspace takes folders only.",
        "command: python train.py\nenvironment: azureml:e:1\ncode: ./train.py  # here\n",
        needs="files",
    ),
    Code(
        "data-missing",
        "warning",
        "Data, or a model, that is not at its path on this machine. A launch makes an error of it.",
        "command: head ${{inputs.table}}\nenvironment: azureml:e:1\ninputs:\n"
        "  table:\n    type: uri_file\n    path: ./tabel.csv  # here\n",
    ),
    Code(
        "data-kind",
        "warning",
        "A file where the input's type says folder, or the other way round. A launch makes an error of it.",
        "command: head ${{inputs.table}}\nenvironment: azureml:e:1\ninputs:\n"
        "  table:\n    type: uri_folder\n    path: ./table.csv  # here\n",
        needs="files",
    ),
    Code(
        "environment-file-missing",
        "error",
        "A conda file, build folder or environment file that is not there.",
        "command: python train.py\nenvironment:\n  image: python:3.11\n  conda_file: ./conda.yml  # here\n",
    ),
    Code(
        "script-missing",
        "warning",
        "The command runs a Python script that is not in the code folder.",
        "code: ./src\nenvironment: azureml:e:1\ncommand: python trian.py  # here\n",
        needs="files",
    ),
)

FOLDER, FILE = "folder", "file"

_FOLDER_TYPES = ("uri_folder", "mltable")
_MOST_HINTS = 50
_MOST_NAMES = 1_000
"""So many names are looked through for the nearest one, and so many faults of a file get one."""

# A script right after the interpreter and flags without a value; what comes before it in the command is group 1.
_SCRIPT = re.compile(r"(?s)\A(.*?)(?<![\w./-])python[\d.]*((?:[ \t]+-[uBEIOsSvx]+)*)[ \t]+([\w./-]+\.py)(?![\w./-])")
_MAKES_FILES = re.compile(r"\b(cd|pushd|git|wget|curl|unzip|tar|cp|mv|ln|azcopy|az|cat|tee|install)\b|>")


def local_path(value: object) -> str:
    """The path on this machine that a value names; empty for anything else: assets, addresses, `${{…}}`, no text."""
    if not isinstance(value, str) or "${{" in value or "$[[" in value or is_remote(value.strip()):
        return ""
    return as_path(value.strip())


def found_at(path: Path) -> str | None:
    """`folder`, `file` or (nothing there, a link to nothing, a loop of links) empty; None where nobody may look."""
    try:
        mode = path.stat().st_mode
    except PermissionError:
        return None
    except (OSError, ValueError):
        return ""
    return FOLDER if stat.S_ISDIR(mode) else FILE


def names_in(folder: Path) -> list[str]:
    """Names in a folder, as far as they help to find a misspelt one; empty where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _MOST_NAMES)]
    except (OSError, ValueError):
        return []


def near_name(name: str, known: Iterable[str], report: Report) -> str:
    """The nearest known name; none any more for a file with so many faults that looking for each would take minutes."""
    return nearest(name, islice(known, _MOST_NAMES)) if len(report.faults) < _MOST_HINTS else ""


def near_path(base: Path, text: str, report: Report) -> str:
    """The path that is there and nearest to one that is not; empty where none is near."""
    folder, _, name = text.rstrip("/").rpartition("/")
    near = near_name(name, (known for known in names_in(base / folder) if not known.startswith(".")), report)
    # An ending that both have says nothing: nope.yml is not near to comp.yml.
    if near and Path(near).suffix == Path(name).suffix and not nearest(Path(name).stem, [Path(near).stem]):
        near = ""
    return f"{folder}/{near}" if folder and near else near


def not_there(base: Path, text: str, report: Report) -> str:
    """The next step for a path that is not there."""
    near = near_path(base, text, report)
    return f"Did you mean `{near}`?" if near else f"Paths are relative to the file's own folder, {base}."


def bodies(job_file: JobFile) -> Iterator[tuple[nodes.Path, Mapping[str, Any]]]:
    """Every mapping that can hold command, code and environment: the job's, a trial's, each step's, inline components'."""
    yield from _bodies(job_file.values, ())


def _bodies(values: Mapping[str, Any], place: nodes.Path) -> Iterator[tuple[nodes.Path, Mapping[str, Any]]]:
    yield place, values
    for key in ("trial", "component", "task"):
        inner = values.get(key)
        if isinstance(inner, Mapping):
            yield from _bodies(inner, (*place, key))
    for name, step in nodes.mapping(values.get("jobs")).items():
        if isinstance(step, Mapping):
            yield from _bodies(step, (*place, "jobs", name))


def code(job_file: JobFile, report: Report) -> None:
    """Code folders are there, and the scripts that commands run are in them."""
    for place, body in bodies(job_file):
        text = local_path(body.get("code"))
        if text:
            folder = job_file.base / text
            found = found_at(folder)
            where = (*place, "code")
            if found == "":
                report.add(
                    "code-missing",
                    where,
                    f"The code folder {text} is not there.",
                    not_there(job_file.base, text, report),
                )
            elif found == FILE:
                report.add("code-not-folder", where, f"The code {text} is one file, not a folder.", "Name its folder.")
            elif found == FOLDER and not body.get("additional_includes"):
                _script((*place, "command"), body.get("command"), folder, text, report)


def _script(place: nodes.Path, command: object, folder: Path, shown: str, report: Report) -> None:
    """A script is looked for only where nothing before it can have made it or gone to another folder."""
    match = _SCRIPT.match(command) if isinstance(command, str) else None
    if match is None or match[3].startswith("/") or _MAKES_FILES.search(match[1]):
        return
    script = match[3]
    if found_at(folder / script) == "":
        near = near_path(folder, script, report)
        hint = f"Did you mean {near}?" if near.endswith(".py") else "The command starts inside the code folder."
        report.add(
            "script-missing", place, f"The script {script} is not in the code folder {shown}.", hint, within=script
        )


def environments(job_file: JobFile, report: Report) -> None:
    """The files that environments name are there."""
    for place, body in bodies(job_file):
        given, where = body.get("environment"), (*place, "environment")
        if isinstance(given, str) and given.startswith("file:"):
            _needed(job_file, given, where, "environment file", report)
        elif isinstance(given, Mapping):
            _needed(job_file, given.get("conda_file"), (*where, "conda_file"), "conda file", report)
            build = given.get("build")
            if isinstance(build, Mapping):
                _needed(job_file, build.get("path"), (*where, "build", "path"), "build folder", report)


def _needed(job_file: JobFile, value: object, place: nodes.Path, what: str, report: Report) -> None:
    text = local_path(value)
    if text and found_at(job_file.base / text) == "":
        report.add(
            "environment-file-missing",
            place,
            f"The {what} {text} is not there.",
            not_there(job_file.base, text, report),
        )


def data(job_file: JobFile, report: Report) -> None:
    """Inputs with a path on this machine are there, and are what their type says."""
    for place, body in bodies(job_file):
        for name, given in nodes.mapping(body.get("inputs")).items():
            if isinstance(given, Mapping):
                check_data(job_file, given, (*place, "inputs", name), report)


def check_data(
    job_file: JobFile, given: Mapping[str, Any], place: nodes.Path, report: Report, severity: Severity | None = None
) -> None:
    """One data input, or a model: a mapping with a path, and perhaps a type. `severity` is that of data not there."""
    text = local_path(given.get("path"))
    if not text:
        return
    # expanduser: the local workspace reads ~ as the shell does
    found = found_at(job_file.base / os.path.expanduser(text))  # noqa: PTH111  Path.expanduser raises for no ~user
    where, kind = (*place, "path"), str(given.get("type") or "")
    if found == "":
        hint = not_there(job_file.base, text, report)
        report.add("data-missing", where, f"The data {text} is not there.", hint, severity=severity)
    elif found == FILE and kind in _FOLDER_TYPES:
        report.add(
            "data-kind",
            where,
            f"The data {text} is a file; the type {kind} is a folder.",
            "Use uri_file, or name its folder.",
        )
    elif found == FOLDER and kind == "uri_file":
        report.add(
            "data-kind",
            where,
            f"The data {text} is a folder; the type uri_file is a file.",
            "Use uri_folder, or name a file in it.",
        )


_HAVE_CODE = ("command", "sweep", "pipeline", "component")

RULES = ((_HAVE_CODE, code), ((*_HAVE_CODE, "deployment"), environments), (_HAVE_CODE, data))
