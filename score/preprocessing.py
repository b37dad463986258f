"""An upright RGB picture becomes the numbers that a model takes, as model.json's `preprocessing` block says.

Equal to the bit to torchvision's PIL transforms Resize, CenterCrop, ToTensor and Normalize, without importing torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

if TYPE_CHECKING:
    from pictures import Picture

IMAGENET: Mapping[str, Any] = {
    "resize": 256,
    "crop": 224,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "interpolation": "bilinear",
}
"""The preprocessing of Microsoft's tutorial (train a PyTorch model) and of torchvision's ImageNet weights."""

MAX_SIDE = 4096
"""The largest `resize` and `crop`, in pixels."""

MAX_RESIZED_PIXELS = 40_000_000
"""A long, thin picture grows when its short side is resized up; beyond this many pixels it is refused."""

_INTERPOLATIONS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


class BadPreprocessing(ValueError):
    """A `preprocessing` block that cannot be followed; its text is a plain sentence."""


class PictureDoesNotFit(ValueError):
    """A picture that cannot be brought to the model's size; its text is a plain sentence."""


@dataclass(frozen=True)
class Prepared:
    """What the model takes, and the same as a picture.

    `array`: float32, shape (1, 3, crop, crop). `seen`: the 8-bit RGB picture before the numbers were normalised.
    """

    array: npt.NDArray[np.float32]
    seen: Image.Image
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Preprocessing:
    """A checked `preprocessing` block."""

    resize: int
    crop: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str


def read_spec(spec: Mapping[str, Any]) -> Preprocessing:
    """Check a `preprocessing` block; raises `BadPreprocessing` naming the key at fault."""
    if unknown := sorted(set(map(str, spec)) - set(IMAGENET)):
        raise BadPreprocessing(f"preprocessing has a key that this version does not know: {', '.join(unknown)}.")
    if missing := sorted(set(IMAGENET) - {"interpolation"} - set(spec)):
        raise BadPreprocessing(f"preprocessing lacks {', '.join(missing)}.")
    interpolation = spec.get("interpolation", "bilinear")
    if interpolation not in _INTERPOLATIONS:
        raise BadPreprocessing(f"preprocessing.interpolation is {interpolation!r}; it must be bilinear or bicubic.")
    std = _three(spec, "std")
    if min(std) <= 0:
        raise BadPreprocessing("preprocessing.std must be above zero.")
    return Preprocessing(_pixels(spec, "resize"), _pixels(spec, "crop"), _three(spec, "mean"), std, interpolation)


def preprocess(picture: Picture, spec: Mapping[str, Any] | Preprocessing) -> Prepared:
    """Resize, crop and normalise a picture.

    Raises `BadPreprocessing` for a faulty block and `PictureDoesNotFit` for a picture too long and thin to resize.
    """
    rules = spec if isinstance(spec, Preprocessing) else read_spec(spec)
    steps = list(picture.steps)
    image = _resize(picture.image, rules, steps)
    seen = _center_crop(image, rules.crop, steps)
    values = np.asarray(seen, dtype=np.uint8).transpose(2, 0, 1)[np.newaxis].astype(np.float32)
    # In place and in float32, in torchvision's order of operations: each rounding is the same.
    values /= np.float32(255)
    values -= np.asarray(rules.mean, dtype=np.float32).reshape(1, 3, 1, 1)
    values /= np.asarray(rules.std, dtype=np.float32).reshape(1, 3, 1, 1)
    return Prepared(np.ascontiguousarray(values), seen, tuple(steps))


def resized(picture: Picture, spec: Mapping[str, Any] | Preprocessing) -> tuple[Image.Image, tuple[str, ...]]:
    """The picture after the first step alone, with the steps so far: `preprocess` of it gives the same numbers.

    Raises as `preprocess` does.
    """
    rules = spec if isinstance(spec, Preprocessing) else read_spec(spec)
    steps = list(picture.steps)
    return _resize(picture.image, rules, steps), tuple(steps)


def _pixels(spec: Mapping[str, Any], key: str) -> int:
    value = spec[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIDE:
        raise BadPreprocessing(f"preprocessing.{key} must be a whole number of pixels from 1 to {MAX_SIDE}.")
    return value


def _three(spec: Mapping[str, Any], key: str) -> tuple[float, float, float]:
    value = spec[key]
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise BadPreprocessing(f"preprocessing.{key} must be three numbers: red, green, blue.")
    if not all(isinstance(number, int | float) and np.isfinite(number) for number in value):
        raise BadPreprocessing(f"preprocessing.{key} must be three numbers: red, green, blue.")
    return float(value[0]), float(value[1]), float(value[2])


def _resize(image: Image.Image, rules: Preprocessing, steps: list[str]) -> Image.Image:
    """The short side brought to `resize`; the long side is cut to a whole number, not rounded, as torchvision does."""
    width, height = image.size
    long_side = int(rules.resize * max(width, height) / min(width, height))
    if long_side * rules.resize > MAX_RESIZED_PIXELS:
        raise PictureDoesNotFit(
            f"The picture is too long and thin ({width} × {height} pixels) for a model that takes "
            f"{rules.crop} × {rules.crop}; cut it closer to a square."
        )
    size = (rules.resize, long_side) if width <= height else (long_side, rules.resize)
    if size == image.size:
        return image
    steps.append(f"resized to {rules.resize}")
    return image.resize(size, _INTERPOLATIONS[rules.interpolation])


def _center_crop(image: Image.Image, crop: int, steps: list[str]) -> Image.Image:
    """The middle square; where the picture is smaller it is first put on black, as torchvision does."""
    width, height = image.size
    if width < crop or height < crop:
        across, down = max(crop - width, 0), max(crop - height, 0)
        image = ImageOps.expand(image, border=(across // 2, down // 2, (across + 1) // 2, (down + 1) // 2), fill=0)
        steps.append(f"padded to {crop}")
        width, height = image.size
    if (width, height) == (crop, crop):
        return image
    top, left = round((height - crop) / 2.0), round((width - crop) / 2.0)
    steps.append(f"cropped to {crop}")
    return image.crop((left, top, left + crop, top + crop))
