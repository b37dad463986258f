"""Files of jobs and models on this machine, found however odd the folder that scripts left."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeGuard


def files(place: Path) -> list[tuple[Path, os.stat_result]]:
    """The files in a folder, however deep, or the file itself.

    Scripts may remove them while they are counted, and leave links and folders that lead nowhere: those are passed over.
    """
    top = status(place)
    if is_file(top):
        return [(place, top)]
    paths = (Path(folder, name) for folder, _, names in os.walk(place) for name in names)
    return [(path, found) for path in paths if is_file(found := status(path))]


@contextmanager
def put_back(moved: Path, place: Path) -> Iterator[None]:
    """Where the block fails, as when a full disk takes no commit, what it has moved away from its place lies there again."""
    try:
        yield
    except BaseException:
        if moved.exists():
            moved.rename(place)
        raise


def status(path: Path) -> os.stat_result | None:
    """What a path leads to; None where that is nothing, or nothing that may be looked at."""
    try:
        return path.stat()
    except OSError:
        return None


def is_file(found: os.stat_result | None) -> TypeGuard[os.stat_result]:
    """Whether that is a regular file."""
    return found is not None and stat.S_ISREG(found.st_mode)


def flush(place: Path) -> None:
    """Have a file, or a folder with all in it, on the disk, so that no record outlives it in a power cut. Raises OSError."""
    folders = list(os.walk(place)) if place.is_dir() else []
    inside = [Path(folder, name) for folder, _, names in folders for name in names] if folders else [place]
    regular = [path for path in inside if stat.S_ISREG(path.lstat().st_mode)]  # a pipe would wait for a writer
    for path in (*regular, *(Path(folder) for folder, _, _ in folders)):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
