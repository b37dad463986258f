"""The files of a model: kept once where the file system can, handed out whole, and described by a `model.json`."""

from __future__ import annotations

import filecmp
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from footplate.workspace.errors import Conflict, Invalid, Unexpected

METADATA_BYTES = 1024 * 1024
"""A model.json may have so many."""

_CHUNK = 1024 * 1024
_WRITABLE = 0o222


def keep_once(source: Path, target: Path) -> tuple[int, int]:
    """Make `target` the same tree as `source` with its very files: hard links, and copies where there can be none.

    A linked file becomes read-only, as it is now more than one thing's; what symbolic links lead to is copied, also the files of
    a folder, as it is somebody else's. Gives how many files were linked and how many copied. Raises OSError.
    """
    linked = copied = 0
    top = os.path.realpath(source)

    def place(here: str, there: str) -> str:
        nonlocal linked, copied
        if os.path.realpath(here) == os.path.join(top, os.path.relpath(here, source)):  # noqa: PTH118
            try:
                os.link(here, there)
            except OSError:  # another file system, or one that has no links
                pass
            else:
                Path(there).chmod(Path(there).stat().st_mode & ~_WRITABLE)
                linked += 1
                return there
        copied += 1
        return str(shutil.copy2(here, there))

    shutil.copytree(source, target, copy_function=place)
    return linked, copied


def files_in(folder: Path) -> Iterator[Path]:
    """Every file below a folder, by its path relative to it, sorted; a file itself is its only one."""
    if folder.is_file():
        yield Path(folder.name)
        return
    yield from sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def same_files(first: Path, second: Path) -> bool:
    """Whether two folders hold the same files, byte for byte."""
    names = list(files_in(first))
    return names == list(files_in(second)) and all(same_content(first / name, second / name) for name in names)


def same_content(first: Path, second: Path) -> bool:
    """Whether two files are the same, byte for byte."""
    return filecmp.cmp(first, second, shallow=False)


def hand_out(source: Path, folder: Path, progress: Callable[[int, int | None], None] | None = None) -> int:
    """Copy the files of a folder, or the one file, into another folder, each whole or not at all; gives how many it holds.

    A file that is there with the same content is not copied again. Raises Conflict, before anything is copied, for anything
    else in the way, and Unexpected for a full or read-only disk.
    """
    try:
        names = list(files_in(source))
        source = source.parent if source.is_file() else source
        sizes = {name: (source / name).stat().st_size for name in names}
        wanted = [name for name in names if not _is_there(folder / name, source / name)]
        total = sum(sizes.values())
        done = total - sum(sizes[name] for name in wanted)
        for name in wanted:
            done = _copy(source / name, folder / name, done, total, progress)
    except OSError as error:
        raise Unexpected(
            f"{error.filename or folder} cannot be copied: {error.strerror or error}.",
            "Free space or mend the permissions, then do it again: what is there already is not copied twice.",
            repr(error),
        ) from error
    if progress and not wanted:
        progress(done, total)
    return len(names)


def _is_there(path: Path, source: Path) -> bool:
    for above in path.parents:
        if above.is_dir():
            break
        if above.exists() or above.is_symlink():
            raise Conflict(f"{above} is in the way: a folder belongs there.", "Move it, or name another folder.")
    if not path.exists() and not path.is_symlink():
        return False
    if path.is_file() and same_content(path, source):  # weights of one architecture all have one size
        return True
    raise Conflict(
        f"{path} is in the way: it is there already, and differs.",
        "Move it, or name another folder; nothing was copied.",
    )


def _copy(source: Path, target: Path, done: int, total: int, progress: Callable[[int, int | None], None] | None) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with source.open("rb") as reading, new.open("xb") as writing:
            while chunk := reading.read(_CHUNK):
                writing.write(chunk)
                done += len(chunk)
                if progress:
                    progress(done, total)
        new.rename(target)
    finally:
        new.unlink(missing_ok=True)
    return done


def read_metadata(file: Path) -> Mapping[str, Any]:
    """A `model.json`; empty where there is none. Raises Invalid for what is no JSON object, too large or cannot be read."""
    try:
        if not file.is_file():
            return {}
        if (size := file.stat().st_size) > METADATA_BYTES:
            raise Invalid(
                f"{file} has {size} bytes; a model.json may have {METADATA_BYTES}.", "Keep weights in other files."
            )
        metadata = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid(
            f"{file} cannot be read: {error.strerror or error}.", "Mend its permissions.", repr(error)
        ) from error
    except RecursionError as error:
        raise Invalid(f"{file} is nested too deep.", "Mend it, or leave it out.") from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise Invalid(f"{file} is not JSON: {error}.", "Mend it, or leave it out.", repr(error)) from error
    if not isinstance(metadata, dict):
        raise Invalid(f"{file} must hold a JSON object.", "Mend it, or leave it out.")
    return metadata


def reason(error: OSError) -> str:
    """What went wrong; copytree gathers (from, to, why) of every file into one error."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        return str(error.args[0][0][-1])
    return error.strerror or str(error)


def tree(folder: Path, most: int = 100) -> str:
    """The files below AZUREML_MODEL_DIR, one a line with their bytes, as a scoring script sees them."""
    lines = []
    for path in sorted(folder.rglob("*")):
        name = f"{'  ' * len(path.relative_to(folder).parts)}{path.name}"
        lines.append(f"{name}/" if path.is_dir() else f"{name}  {path.lstat().st_size:,} bytes")
    more = [f"  … and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([f"AZUREML_MODEL_DIR, {folder}, holds:", *(lines[:most] or ["  nothing"]), *more])
