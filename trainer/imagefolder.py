"""Which pictures a data folder holds: `train/CLASS/…` and `val/CLASS/…`, checked before anything heavy is imported."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from errors import BadInput

SUFFIXES = frozenset(
    [".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".avif", ".jp2", ".j2k", ".ppm", ".pgm", ".pbm"]
)


@dataclass(frozen=True)
class Sample:
    """A picture's file and the number of its class."""

    path: Path
    label: int


@dataclass(frozen=True)
class ImageFolder:
    """The pictures to train and to validate on; the classes are in alphabetical order, as torchvision has them."""

    root: Path
    classes: tuple[str, ...]
    train: tuple[Sample, ...]
    val: tuple[Sample, ...]


def find_pictures(root: Path) -> ImageFolder:
    """Lists the folder; raises `BadInput` for whatever is missing from it or does not fit."""
    if not root.exists():
        raise BadInput(f"The data folder {root} does not exist. Give --data a folder with train/ and val/ in it.")
    if not root.is_dir():
        raise BadInput(f"{root} is a file. Give --data a folder with train/ and val/ in it.")
    for split in ("train", "val"):
        if not (root / split).is_dir():
            raise BadInput(f"{root} has no folder {split}/. It needs train/ and val/, each with one folder per class.")
    classes, val_classes = classes_of(root / "train"), classes_of(root / "val")
    if not classes:
        raise BadInput(
            f"{root / 'train'} has no class folders. Put the pictures of each class in a folder of its name."
        )
    if len(classes) == 1:
        raise BadInput(
            f"{root / 'train'} has a single class, {classes[0]}. Add the folder of at least one other class."
        )
    if classes != val_classes:
        odd = sorted(set(classes) ^ set(val_classes))
        raise BadInput(
            f"train/ and val/ of {root} differ in their classes: {', '.join(odd)} is in one only. Make them alike."
        )
    found = {split: samples(root / split, classes) for split in ("train", "val")}
    for name in classes:
        if not any(classes[sample.label] == name for sample in found["train"]):
            raise BadInput(
                f"{root / 'train' / name} has no pictures. Add some, or remove the class from train/ and val/."
            )
    if not found["val"]:
        raise BadInput(f"{root / 'val'} has no pictures. Add some of each class, which training will not see.")
    return ImageFolder(root, classes, found["train"], found["val"])


def classes_of(split: Path) -> tuple[str, ...]:
    """The names of the class folders, sorted; hidden ones are no classes."""
    try:
        return tuple(sorted(e.name for e in split.iterdir() if e.is_dir() and not e.name.startswith(".")))
    except OSError as error:
        raise BadInput(f"{split} cannot be listed: {error.strerror}. Give this user the right to read it.") from error


def samples(split: Path, classes: tuple[str, ...]) -> tuple[Sample, ...]:
    """Every picture under the class folders, at any depth, in an order that is the same on every rank."""
    found = []
    for label, name in enumerate(classes):
        for folder, inner, files in os.walk(split / name, followlinks=True):
            inner.sort()
            for file in sorted(files):
                path = Path(folder, file)
                if path.suffix.lower() in SUFFIXES and not file.startswith("."):
                    found.append(Sample(path, label))
    return tuple(found)
