"""A log taken elsewhere: its lines as text, as bytes, as a file that is whole or not there, and over no other file unasked."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from footplate.logs.lines import Lines
from footplate.logs.mask import masked
from footplate.logs.sanitise import clean, last_state, parse_line, steady

_NAMED = {0x09: "\t", 0x0A: "\\n", 0x0D: "\\r", 0x1B: "\\e"}
_WIDTHLESS = (0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_ESCAPES = {code: _NAMED.get(code, f"\\x{code:02x}") for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    code: f"\\u{code:04x}" for code in _WIDTHLESS
}
_TURN = 2000
"""Lines between two looks whether it is still wanted."""


class Stopped(Exception):
    """Ends what is being written."""


def visible(data: bytes) -> str:
    """Bytes as text that shows each: escape sequences, carriage returns and what is no UTF-8 spelled out."""
    return steady(data.decode("utf-8", "backslashreplace").translate(_ESCAPES).expandtabs(8))


def file_behind(lines: Lines) -> Path | None:
    """The file whose bytes these lines are, all of them and no others; None where there is none."""
    path = getattr(lines, "path", None)
    return path if isinstance(path, Path) else None


def raw_lines(lines: Lines, first: int, last: int, stopped: Callable[[], bool] = lambda: False) -> Iterator[bytes]:
    """The bytes of lines `first` to `last`, newlines included; the last has none where it has none yet.

    What stands for lines that were left out by a filter has no bytes. Raises Stopped, also where the lines are gone meanwhile.
    """
    for number in range(first, last + 1):
        if number >= lines.lines or (number % _TURN == 0 and stopped()):
            raise Stopped
        data = lines.raw(number)
        if data or not lines.display(number)[0]:
            yield data + (b"\n" if lines.complete(number) else b"")


def shown_lines(
    lines: Lines, numbers: range, raw: bool, stopped: Callable[[], bool] = lambda: False
) -> Iterator[tuple[str, bool]]:
    """The text of lines as they are shown but whole, newlines included, and whether secrets in it are masked. Raises Stopped."""
    for number in numbers:
        if number >= lines.lines or (number % _TURN == 0 and stopped()):
            raise Stopped
        text = _whole_text(lines, number, raw)
        shown = text if raw else masked(text)
        tag = clean(lines.tag(number))
        yield f"{tag} {shown}\n" if tag else f"{shown}\n", shown != text


def _whole_text(lines: Lines, number: int, raw: bool) -> str:
    data, cut = lines.display(number)
    if raw:
        return visible(lines.raw(number) or data)
    if not cut:
        return parse_line(data).text
    return clean(last_state(lines.raw(number).rstrip(b"\r\n")).decode("utf-8", "replace"))


def save(lines: Lines, path: Path, replace: bool, stopped: Callable[[], bool] = lambda: False) -> int:
    """Write the lines that are there into a file and return its bytes; blocks, so call it in a thread.

    Raises FileExistsError where the file is there and may not be replaced, OSError where it cannot be written, Stopped.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            behind, count = file_behind(lines), lines.lines
            if behind is not None:
                _copy(behind, out.fileno(), lines.size, stopped)
            else:
                out.writelines(raw_lines(lines, 0, count - 1, stopped))
            out.flush()
            os.fchmod(out.fileno(), 0o666 & ~_umask())
            size = os.fstat(out.fileno()).st_size
        if replace:
            Path(name).replace(path)
        else:
            _link(name, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
    return size


def _copy(source: Path, out: int, size: int, stopped: Callable[[], bool]) -> None:
    with source.open("rb") as file, os.fdopen(out, "wb", closefd=False) as target:
        while size > 0 and (data := file.read(min(size, 1024 * 1024))):
            if stopped():
                raise Stopped
            target.write(data)
            size -= len(data)


def _link(name: str, path: Path) -> None:
    """Give the finished file its name; where the file system has no second names, another writer could still be overwritten."""
    try:
        os.link(name, path)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError(f"{path} is there already.") from None
        shutil.move(name, path)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
