"""The component files of a pipeline as they were when it was submitted, kept in its job's folder for another run of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from footplate.jobfile import JobFile, document, nodes
from footplate.jobfile.document import is_remote, real_path
from footplate.workspace import Invalid

_FOLDER, _INDEX = "components", "components.json"
_MOST = 200


def keep(folder: Path, pipeline: JobFile) -> None:
    """Write copies of the files that the pipeline names, and those name, into its job's folder; nothing where there are none.

    A copy names the other copies; its code, data and conda files are where they were.
    """
    found: dict[Path, JobFile] = {}
    _collect(pipeline, found)
    if not found:
        return
    names = {path: f"{number}-{path.name}" for number, path in enumerate(found)}
    (folder / _FOLDER).mkdir()
    for path, file in found.items():
        changes: dict[str | nodes.Path, object] = {
            place: str(there) for place, there in _beside(file.values, (), file.base)
        }
        changes |= {place: f"./{names[there]}" for place, there in _named(file.values, (), file.base) if there in names}
        (folder / _FOLDER / names[path]).write_text((file.edit(changes) if changes else file).text, encoding="utf-8")
    index = {str(path): [names[path], _sum(file.text)] for path, file in found.items()}
    (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")


def as_they_were(folder: Path, pipeline: JobFile) -> JobFile:
    """The pipeline with its kept components in the place of its files, where one of those is another now, or gone."""
    try:
        index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it has none
        return pipeline
    if all(_same(Path(path), total) for path, (_, total) in index.items()):
        return pipeline
    named = _named(pipeline.values, (), pipeline.base)
    kept: dict[str | nodes.Path, object] = {
        place: str(folder / _FOLDER / index[str(path)][0]) for place, path in named if str(path) in index
    }
    return pipeline.edit(kept) if kept else pipeline


def _collect(file: JobFile, found: dict[Path, JobFile]) -> None:
    for _, path in _named(file.values, (), file.base):
        if path in found or len(found) >= _MOST:
            continue
        try:
            found[path] = document.read(path)
        except Invalid:  # submit refuses it
            continue
        _collect(found[path], found)


def _named(values: Mapping[str, Any], place: nodes.Path, base: Path) -> Iterator[tuple[nodes.Path, Path]]:
    """Where a pipeline names component files, and which."""
    for key in ("component", "trial"):
        given = values.get(key)
        if isinstance(given, str) and given and not is_remote(given):
            yield (*place, key), real_path(base, given)
        elif isinstance(given, Mapping):
            yield from _named(given, (*place, key), base)
    for name, step in nodes.mapping(values.get("jobs")).items():
        if isinstance(step, Mapping):
            yield from _named(step, (*place, "jobs", name), base)


def _beside(values: Mapping[str, Any], place: nodes.Path, base: Path) -> Iterator[tuple[nodes.Path, Path]]:
    """Where a file names what else lies beside it: code, a conda file, data."""
    candidates: list[tuple[nodes.Path, Any]] = [
        (("code",), values.get("code")),
        (("environment", "conda_file"), nodes.mapping(values.get("environment")).get("conda_file")),
        *(
            (("inputs", name, "path"), nodes.mapping(item).get("path"))
            for name, item in nodes.mapping(values.get("inputs")).items()
        ),
    ]
    for own, given in candidates:
        if isinstance(given, str) and given and not is_remote(given) and "${{" not in given:
            yield (*place, *own), real_path(base, given)
    for key in ("component", "trial"):
        if isinstance(values.get(key), Mapping):
            yield from _beside(values[key], (*place, key), base)
    for name, step in nodes.mapping(values.get("jobs")).items():
        if isinstance(step, Mapping):
            yield from _beside(step, (*place, "jobs", name), base)


def _same(path: Path, total: str) -> bool:
    try:
        return _sum(document.read(path).text) == total
    except Invalid:
        return False


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
