"""What a model sees of a picture: the scoring code's own preprocessing, loaded from the score folder by its path."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from footplate.paths import asset
from footplate.workspace.errors import Invalid

if TYPE_CHECKING:
    from PIL.Image import Image

_lock = threading.Lock()

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
"""How picture files are named."""


@dataclass(frozen=True)
class Look:
    """A picture file and what the model makes of it.

    `original`: upright RGB. `seen`: 8-bit RGB at the model's size. `size`: (width, height) of the file's pixels.
    `bytes`: the file's size. `steps`: what was done, in order, in a few words each.
    """

    original: Image
    seen: Image
    steps: tuple[str, ...]
    size: tuple[int, int]
    format: str
    bytes: int


def score_module(name: str) -> ModuleType:
    """`pictures` or `preprocessing` of the score folder; imported once, under a name of its own."""
    private = f"_footplate_score_{name}"
    with _lock:
        if loaded := sys.modules.get(private):
            return loaded
        path = asset("score") / f"{name}.py"
        spec = importlib.util.spec_from_file_location(private, path)
        if spec is None or spec.loader is None:
            raise FileNotFoundError(f"{path} is missing from this installation; install footplate again.")
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up by its name while it is being executed.
        sys.modules[private] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[private]
            raise
        return module


def look(path: Path, spec: Mapping[str, Any] | None = None) -> Look:
    """Open a picture and preprocess it by model.json's `preprocessing` block, or as ImageNet's models do without one.

    Slow (decodes the picture): call it in a thread. Raises `Invalid` for a file that is no usable picture and for a
    faulty block.
    """
    with _as_invalid():
        picture, prepared = _prepared(path, spec)
    return Look(picture.image, prepared.seen, prepared.steps, picture.original_size, picture.format, picture.bytes)


def check(path: Path) -> str:
    """The content type of a usable picture file; decodes it whole. Raises `Invalid`."""
    with _as_invalid():
        picture = score_module("pictures").open_picture(path)
    from PIL import Image

    return Image.MIME.get(picture.format, "application/octet-stream")


def tensor_request(path: Path, spec: Mapping[str, Any] | None = None) -> tuple[bytes, tuple[str, ...]]:
    """Microsoft's request, `{"data": [1 × 3 × H × W numbers]}` as JSON, and the steps taken. Raises `Invalid`."""
    with _as_invalid():
        _, prepared = _prepared(path, spec)
    return json.dumps({"data": prepared.array.tolist()}).encode(), prepared.steps


def resized_request(path: Path, spec: Mapping[str, Any]) -> tuple[bytes, tuple[str, ...]]:
    """The picture after the model's first step as a PNG, and the steps taken; it scores like the file itself.

    Raises `Invalid`.
    """
    with _as_invalid():
        picture = score_module("pictures").open_picture(path)
        image, steps = score_module("preprocessing").resized(picture, spec)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue(), steps


def _prepared(path: Path, spec: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """The opened picture and its preprocessed form."""
    preprocessing = score_module("preprocessing")
    picture = score_module("pictures").open_picture(path)
    return picture, preprocessing.preprocess(picture, preprocessing.IMAGENET if spec is None else spec)


@contextmanager
def _as_invalid() -> Iterator[None]:
    """The scoring code's refusals as the console's own error."""
    pictures, preprocessing = score_module("pictures"), score_module("preprocessing")
    try:
        yield
    except (pictures.BadPicture, preprocessing.BadPreprocessing, preprocessing.PictureDoesNotFit) as fault:
        raise Invalid(str(fault)) from fault


def pictures_of(folder: Path) -> list[Path]:
    """The picture files of a folder, in order. Raises Invalid where it cannot be listed."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise Invalid(f"The folder {folder} cannot be listed: {error.strerror}.", "Pick another picture.") from error
