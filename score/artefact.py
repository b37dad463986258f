"""The model artefact: finding model.json under the model folder, reading it, and checking the files it names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from preprocessing import BadPreprocessing, Preprocessing, read_spec

FORMAT = 1
"""The version of model.json that is understood."""

MAX_DEPTH = 5
"""How many folders deep model.json is looked for: Azure mounts a registered folder inside the model folder."""

MAX_TREE_LINES = 100


class BadModel(Exception):
    """A model folder that cannot be served; its text is a plain sentence, followed by the folder's tree."""


@dataclass(frozen=True)
class Limits:
    """What one request may hold: bytes of its body, pixels of a picture, pictures."""

    body_bytes: int = 32 * 1024 * 1024
    pixels: int = 100_000_000
    batch: int = 64


MOST = Limits(body_bytes=256 * 1024 * 1024, pixels=400_000_000, batch=1024)
"""How far a model.json may raise its limits."""


@dataclass(frozen=True)
class Artefact:
    """A read and checked model folder; a file that is not there is None.

    `input_shape`: (3, height, width). `classes`: names in the order of the model's outputs. `told`: what model.json says
    of the model's making, passed on and not understood.
    """

    folder: Path
    architecture: str
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    input_shape: tuple[int, int, int]
    weights: Path | None
    onnx: Path | None
    limits: Limits
    told: Mapping[str, Any]


def open_artefact(root: Path) -> Artefact:
    """Read the artefact in `root` or below it.

    Raises `BadModel`: no folder, no or several model.json, an unknown format, a faulty entry, a file that is missing
    or whose checksum differs.
    """
    try:
        return _read(_find(root))
    except BadModel as fault:
        raise BadModel(f"{fault}\n{tree(root)}") from fault


def tree(root: Path) -> str:
    """The files below a folder, one a line with their sizes, at most `MAX_TREE_LINES`."""
    lines = list(islice(_tree_lines(root, 1), MAX_TREE_LINES + 1)) if root.is_dir() else []
    if len(lines) > MAX_TREE_LINES:
        lines[-1] = f"… more than {MAX_TREE_LINES} lines"
    return "\n".join([f"The model folder {root} holds:", *(lines or ["  nothing"])])


def _tree_lines(folder: Path, depth: int) -> Iterator[str]:
    for entry in _entries(folder):
        if entry.is_dir():
            yield f"{'  ' * depth}{entry.name}/"
            if depth < MAX_DEPTH and not entry.is_symlink():
                yield from _tree_lines(entry, depth + 1)
        else:
            size = f"{entry.stat().st_size:,} bytes" if entry.exists() else "broken link"
            yield f"{'  ' * depth}{entry.name}  {size}"


def _entries(folder: Path) -> list[Path]:
    """What a folder holds, sorted; nothing where it may not be read."""
    return sorted(folder.iterdir()) if os.access(folder, os.R_OK | os.X_OK) else []


def _find(root: Path) -> Path:
    """The one model.json nearest to the root."""
    if not root.is_dir():
        raise BadModel(f"The model folder {root} does not exist or is not a folder; check AZUREML_MODEL_DIR.")
    level = [root]
    for _ in range(MAX_DEPTH + 1):
        found = [folder / "model.json" for folder in level if (folder / "model.json").is_file()]
        if len(found) > 1:
            places = ", ".join(str(path.relative_to(root)) for path in found)
            raise BadModel(f"There are several models in the model folder ({places}); register one model's folder.")
        if found:
            return found[0]
        level = [
            Path(entry.path) for folder in level for entry in sorted(os.scandir(folder), key=str) if entry.is_dir()
        ]
    raise BadModel("There is no model.json in the model folder; register the folder that the training job wrote.")


def _read(path: Path) -> Artefact:
    """Check each entry of model.json, and the files it names."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise BadModel(f"{path} cannot be read as JSON: {fault}.") from fault
    if not isinstance(document, dict):
        raise BadModel(f"{path} is not a JSON object.")
    if document.get("format") != FORMAT:
        raise BadModel(
            f"{path} has format {document.get('format')!r}, and this score.py reads format {FORMAT}; "
            "deploy the score folder of the footplate that trained the model."
        )
    folder = path.parent
    weights = _file(folder, document, "weights")
    onnx = _file(folder, document, "onnx")
    if weights is None and onnx is None:
        raise BadModel(f"Neither the weights nor the ONNX file that {path} names is there.")
    return Artefact(
        folder=folder,
        architecture=_text(document, "architecture", path),
        classes=_classes(document, path),
        preprocessing=_preprocessing(document, path),
        input_shape=_input_shape(document, path),
        weights=weights,
        onnx=onnx,
        limits=_limits(document, path),
        told={key: document.get(key) for key in ("metrics", "versions", "git_commit", "created")},
    )


def _file(folder: Path, document: Mapping[str, Any], key: str) -> Path | None:
    """A file that model.json names, its checksum verified; None where there is no entry or no such file."""
    entry = document.get(key)
    if entry is None:
        return None
    name, expected = (entry.get("file"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(expected, str):
        raise BadModel(f"{key} in model.json must give a file and its sha256.")
    if not name or Path(name).name != name:
        raise BadModel(f"{key}.file in model.json must be the name of a file beside it, without a folder.")
    path = folder / name
    if not path.is_file():
        return None
    actual = _sha256(path)
    if actual != expected.lower():
        raise BadModel(
            f"{name} is not the file that was trained: its SHA-256 begins with {actual[:12]}, model.json says "
            f"{expected[:12]}. It was changed or copied badly; download or register the model again."
        )
    return path


def _sha256(path: Path) -> str:
    # hashlib.file_digest would do it, but Azure's images still have Python 3.10.
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1024 * 1024):
            digest.update(block)
    return digest.hexdigest()


def _text(document: Mapping[str, Any], key: str, path: Path) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise BadModel(f"{key} in {path} must be a text.")
    return value


def _classes(document: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    value = document.get("classes")
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise BadModel(f"classes in {path} must be a list of names.")
    return tuple(value)


def _preprocessing(document: Mapping[str, Any], path: Path) -> Preprocessing:
    value = document.get("preprocessing")
    if not isinstance(value, dict):
        raise BadModel(f"{path} has no preprocessing.")
    try:
        return read_spec(value)
    except BadPreprocessing as fault:
        raise BadModel(f"{path}: {fault}") from fault


def _limits(document: Mapping[str, Any], path: Path) -> Limits:
    """The `limits` block, whose keys may each be left out."""
    block = document.get("limits", {})
    most = asdict(MOST)
    if not isinstance(block, dict) or not set(block) <= set(most):
        raise BadModel(f"limits in {path} may have {', '.join(most)} and nothing else.")
    for key, value in block.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most[key]:
            raise BadModel(f"limits.{key} in {path} must be a whole number from 1 to {most[key]}.")
    return Limits(**block)


def _input_shape(document: Mapping[str, Any], path: Path) -> tuple[int, int, int]:
    value = document.get("input_shape")
    if not isinstance(value, list) or len(value) != 3 or value[0] != 3:
        raise BadModel(f"input_shape in {path} must be [3, height, width].")
    if not all(isinstance(number, int) and number > 0 for number in value):
        raise BadModel(f"input_shape in {path} must be [3, height, width] in whole numbers.")
    return 3, value[1], value[2]
