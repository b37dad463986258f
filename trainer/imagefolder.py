"""Which pictures a data folder holds: `train/CLASS/…` and `val/CLASS/…`, checked before anything heavy is imported.

A listing is kept in the cache folder together with the times at which the folders last changed: the next start looks at
the folders alone, not at their files.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from bisect import bisect_right
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import cache
from errors import BadInput

SUFFIXES = frozenset(
    [".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".avif", ".jp2", ".j2k", ".ppm", ".pgm", ".pbm"]
)
QUICK = frozenset([".jpg", ".JPG", ".png", ".PNG"])
MANY = 10_000
"""Fewer pictures are listed anew each time."""

VERSION = 1
SETTLED_NS = 2_000_000_000
"""A folder that changed less than this before it was listed may have changed again within the same tick of its clock."""


@dataclass(frozen=True)
class Sample:
    """A picture's file and the number of its class."""

    path: Path
    label: int


@dataclass(frozen=True)
class Listing:
    """The pictures of one folder: `folder` is relative to the data folder, `names` lie at those bytes of the blob."""

    folder: str
    label: int  # -1 for train/ and val/ themselves
    changed_ns: int
    count: int
    start: int
    end: int


class Samples(Sequence[Sample]):
    """The pictures of a split, in the same order on every rank. Names are read when they are asked for."""

    def __init__(self, root: Path, listings: Sequence[Listing], blob: bytes, left_out: Collection[int] = ()) -> None:
        self.root, self._listings, self._blob = root, [each for each in listings if each.count], blob
        self._starts = [0]
        for each in self._listings:
            self._starts.append(self._starts[-1] + each.count)
        self._kept = [i for i in range(self._starts[-1]) if i not in left_out] if left_out else None
        self._names: dict[int, list[bytes]] = {}

    def __len__(self) -> int:
        return self._starts[-1] if self._kept is None else len(self._kept)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        folder, name = self._find(range(len(self))[index])
        return Sample(self.root / folder.folder / name, folder.label)

    def _find(self, index: int) -> tuple[Listing, str]:
        if self._kept is not None:
            index = self._kept[index]
        at = bisect_right(self._starts, index) - 1
        listing = self._listings[at]
        if (names := self._names.get(at)) is None:
            if len(self._names) >= 256:
                self._names.clear()
            names = self._names[at] = self._blob[listing.start : listing.end].split(b"\0")
        return listing, os.fsdecode(names[index - self._starts[at]])

    def labels(self) -> list[int]:
        """Every picture's class."""
        every = [each.label for each in self._listings for _ in range(each.count)]
        return every if self._kept is None else [every[i] for i in self._kept]

    def name(self, index: int) -> str:
        """The picture's path within the data folder."""
        listing, name = self._find(index)
        return f"{listing.folder}/{name}"

    def without(self, indices: Collection[int]) -> Samples:
        """The same pictures less some."""
        gone = {self._kept[i] for i in indices} if self._kept is not None else set(indices)
        before = set(range(self._starts[-1])) - set(self._kept) if self._kept is not None else set()
        return Samples(self.root, self._listings, self._blob, gone | before)


@dataclass(frozen=True)
class ImageFolder:
    """The pictures to train and to validate on; the classes are in alphabetical order, as torchvision has them."""

    root: Path
    classes: tuple[str, ...]
    train: Samples
    val: Samples
    digest: str
    """Of all names: ranks that have the same digest see the same pictures."""


def find_pictures(root: Path, cache_folder: Path | None = None) -> ImageFolder:
    """Lists the folder, or reads the listing kept of it; raises `BadInput` for whatever is missing or does not fit."""
    if not root.exists():
        raise BadInput(f"The data folder {root} does not exist. Give --data a folder with train/ and val/ in it.")
    if not root.is_dir():
        raise BadInput(f"{root} is a file. Give --data a folder with train/ and val/ in it.")
    for split in ("train", "val"):
        if not (root / split).is_dir():
            raise BadInput(f"{root} has no folder {split}/. It needs train/ and val/, each with one folder per class.")
    file = kept_in(cache_folder, root) if cache_folder else None
    known = read(file, root) if file else None
    if known is None:
        known = scan(root)
        if file and sum(each.count for each in known[1]) >= MANY:
            with suppress(OSError):  # a listing that cannot be kept is made anew next time
                write(file, *known)
    return checked(root, *known)


Known = tuple[tuple[str, ...], list[Listing], bytes]


def checked(root: Path, classes: tuple[str, ...], listings: list[Listing], blob: bytes) -> ImageFolder:
    """The pictures of both splits; raises `BadInput` where a class or a split has none."""
    train, val = (
        Samples(root, [each for each in listings if each.folder.split("/", 1)[0] == split and each.label >= 0], blob)
        for split in ("train", "val")
    )
    there = {each.label for each in listings if each.count and each.folder.startswith("train/")}
    for label, name in enumerate(classes):
        if label not in there:
            raise BadInput(
                f"{root / 'train' / name} has no pictures. Add some, or remove the class from train/ and val/."
            )
    if not val:
        raise BadInput(f"{root / 'val'} has no pictures. Add some of each class, which training will not see.")
    digest = hashlib.sha256(json.dumps([[each.folder, each.label, each.count] for each in listings]).encode())
    digest.update(blob)
    return ImageFolder(root, classes, train, val, digest.hexdigest())


def scan(root: Path) -> Known:
    """Lists train/ and val/ on the disk."""
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
    listings: list[Listing] = []
    blocks: list[bytes] = []
    length = 0
    for split in ("train", "val"):
        listings.append(Listing(split, -1, (root / split).stat().st_mtime_ns, 0, 0, 0))
        for label, name in enumerate(classes):
            for folder, changed_ns, names in walk(root, f"{split}/{name}"):
                block = os.fsencode("\0".join(names))
                listings.append(Listing(folder, label, changed_ns, len(names), length, length + len(block)))
                blocks.append(block)
                length += len(block)
    return classes, listings, b"".join(blocks)


def classes_of(split: Path) -> tuple[str, ...]:
    """The names of the class folders, sorted; hidden ones are no classes."""
    try:
        return tuple(sorted(e.name for e in split.iterdir() if e.is_dir() and not e.name.startswith(".")))
    except OSError as error:
        raise cannot_list(split, error) from error


def walk(root: Path, top: str) -> list[tuple[str, int, list[str]]]:
    """Every folder under a class's: its path within the data folder, when it changed, the sorted names of its pictures.

    Links are followed, each folder once.
    """
    found, waiting, seen = [], [top], set()
    while waiting:
        folder = waiting.pop()
        path = root / folder
        try:
            status = path.stat()  # before the listing, so that what comes in between shows next time
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            entries = os.listdir(path)  # noqa: PTH208 - a million names, not a million paths
        except OSError as error:
            raise cannot_list(path, error) from error
        names = [name for name in entries if name[-4:] in QUICK and name[0] != "."]
        if len(names) < len(entries):
            rest = [name for name in entries if name[0] != "." and name[-4:] not in QUICK]
            pictures = [name for name in rest if name[name.rfind(".") :].lower() in SUFFIXES]
            names += pictures
            others = sorted(set(rest) - set(pictures), reverse=True)
            waiting += [f"{folder}/{name}" for name in others if (path / name).is_dir()]
        names.sort()
        found.append((folder, status.st_mtime_ns, names))
    return found


def cannot_list(path: Path, error: OSError) -> BadInput:
    """The sentence about a folder that cannot be listed."""
    return BadInput(f"{path} cannot be listed: {error.strerror}. Give this user the right to read it.")


def kept_in(cache_folder: Path, root: Path) -> Path:
    """Where the listing of this folder is kept."""
    return cache_folder / "listings" / hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]


def write(file: Path, classes: tuple[str, ...], listings: Sequence[Listing], blob: bytes) -> None:
    """Keeps a listing: a line of JSON, then the names as they are."""
    header: dict[str, Any] = {
        "version": VERSION,
        "listed_ns": time.time_ns(),
        "classes": classes,
        "bytes": len(blob),
        "folders": [[each.folder, each.label, each.changed_ns, each.count, each.start, each.end] for each in listings],
    }
    cache.put(file, [json.dumps(header).encode(), b"\n", blob])


def read(file: Path, root: Path) -> Known | None:
    """The kept listing, None where there is none that still holds."""
    try:
        text, _, blob = file.read_bytes().partition(b"\n")
        header = json.loads(text)
        if header["version"] != VERSION or header["bytes"] != len(blob):
            return None
        listings = [Listing(*row) for row in header["folders"]]
        for each in listings:
            changed_ns = (root / each.folder).stat().st_mtime_ns
            if changed_ns != each.changed_ns or changed_ns > header["listed_ns"] - SETTLED_NS:
                return None
        return tuple(header["classes"]), listings, blob
    except (OSError, ValueError, KeyError, TypeError):
        return None
