"""What lies in a folder of this machine, whatever its names are: read, narrowed by what is typed, completed as a shell does."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from footplate.workspace.errors import Invalid

Kind = Literal["folder", "file", "other", "broken"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a folder; a link is what it leads to, `broken` where that is nothing, `other` is a device, pipe or socket.

    `size` in bytes and `changed` in seconds since 1970 are None where they may not be looked at. `leads_to` is a link's text.
    `folded` is the name as it is compared: without case, composed.
    """

    name: str
    kind: Kind
    size: int | None
    changed: float | None
    leads_to: str
    folded: str


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder and its entries: folders first, then by name, with numbers in their order."""

    folder: Path
    entries: tuple[Entry, ...]


def read_folder(folder: Path) -> Listing:
    """Look at every entry of a folder; slow for large ones, so call it in a thread. Raises Invalid where it cannot be listed."""
    try:
        with os.scandir(folder) as found:
            entries = [_entry(each) for each in found]
    except ValueError as error:  # a null character
        raise Invalid(f"There is no folder {str(folder)!r}.", "Mend the path.", repr(error)) from error
    except OSError as error:
        raise Invalid(*_refusal(folder, error), repr(error)) from error
    return Listing(folder, tuple(sorted(entries, key=_order)))


def target(folder: Path, typed: str) -> Path:
    """The path that is meant by text typed in a folder: relative to it, `~` is a home folder, `..` one step up.

    The steps are taken in the text, so that the way out of a link is the way in.
    """
    expanded = os.path.expanduser(typed)  # noqa: PTH111  # Path's own raises for no ~user
    whole = os.path.normpath(os.path.join(folder, expanded))  # noqa: PTH118  # normpath keeps links, Path has no such thing
    return Path(re.sub(r"^/{2,}", "/", whole))


def unquoted(pasted: str) -> str:
    """A path as terminals paste one that was dropped on them: in quotes, with `\\` before blanks, or as `file://…`."""
    text = pasted.strip("\r\n")
    if text.startswith("file://"):
        return unquote(text.removeprefix("file://"))
    quoted = len(text) > 1 and text[0] in "'\"" and text.rstrip()[-1] == text[0]
    if not quoted and "\\ " not in text:
        return pasted
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that does not end
        return pasted
    return words[0] if len(words) == 1 else pasted


def nearest_folder(start: Path | None) -> Path:
    """The folder itself, or the nearest above it that is there; without one the current folder, home, or the root."""
    above = (start, *start.parents) if start is not None else ()
    for folder in (*above, *_starts()):
        try:
            if folder.is_absolute() and folder.is_dir():
                return folder
        except (OSError, ValueError):  # a name too long, a loop of links, a null character
            continue
    return Path("/")


def narrow(
    entries: Sequence[Entry], typed: str, everything: bool = False, suffixes: frozenset[str] = frozenset()
) -> list[Entry]:
    """The entries whose name holds what was typed, whatever its case.

    Without `everything`, hidden names are left out unless a `.` was typed first, and so are files that end otherwise than
    in `suffixes` (lower case, with the dot; none means any file). What was typed whole is always there.
    """
    wanted = _fold(typed)

    def passes(entry: Entry) -> bool:
        if wanted not in entry.folded:
            return False
        if everything or entry.name == typed:
            return True
        if entry.name.startswith(".") and not typed.startswith("."):
            return False
        ending = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122  # ten thousand Paths are slow
        return not suffixes or entry.kind != "file" or ending in suffixes

    return [entry for entry in entries if passes(entry)]


def first_fit(entries: Sequence[Entry], typed: str) -> Entry | None:
    """The entry that is meant first: named so, else beginning so, else the first."""
    wanted = _fold(typed)
    exact = next((entry for entry in entries if entry.name == typed), None)
    beginning = next((entry for entry in entries if entry.folded.startswith(wanted)), None)
    return exact or beginning or next(iter(entries), None)


def complete(entries: Sequence[Entry], typed: str) -> str:
    """What was typed, made longer as far as all names that begin so agree; a folder that alone is meant ends in `/`.

    Where no name begins so and one alone holds it, that name. Never a character that cannot be typed.
    """
    wanted = _fold(typed)
    names = [entry for entry in entries if entry.name.startswith(typed)]
    names = names or [entry for entry in entries if entry.folded.startswith(wanted)] or list(entries)
    if not names or (len(names) > 1 and not all(entry.folded.startswith(wanted) for entry in names)):
        return typed
    if len(names) == 1 and names[0].kind == "folder" and names[0].name.isprintable():
        return f"{names[0].name}/"
    shared = os.path.commonprefix([entry.name for entry in names])  # noqa: RUF071  # letter by letter is meant
    printable = "".join(_while_printable(shared))
    return printable if len(printable) > len(typed) or _fold(printable) == wanted else typed


def _while_printable(text: str) -> Iterable[str]:
    for character in text:
        if not character.isprintable():
            return
        yield character


def _entry(found: os.DirEntry[str]) -> Entry:
    leads_to = ""
    status: os.stat_result | None = None
    kind: Kind
    try:
        if found.is_symlink():
            leads_to = os.readlink(found.path)  # noqa: PTH115
        status = found.stat()
        kind = _kind(status.st_mode)
    except OSError as error:
        if leads_to and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            kind = "broken"
        else:  # it may not be looked at: the folder itself says what it holds
            kind = "folder" if found.is_dir(follow_symlinks=False) else "file"
    size = status.st_size if status is not None and kind == "file" else None
    return Entry(found.name, kind, size, status.st_mtime if status else None, leads_to, _fold(found.name))


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def _order(entry: Entry) -> tuple[bool, list[tuple[int, str]]]:
    parts = re.split(r"(\d+)", entry.folded)
    return entry.kind != "folder", [(int(p), p) if p.isdecimal() and len(p) < 20 else (-1, p) for p in parts]


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def _starts() -> Iterable[Path]:
    for place in (Path.cwd, Path.home):
        try:
            yield place()
        except (OSError, RuntimeError):  # the current folder is gone; no home is known
            continue


def _refusal(folder: Path, error: OSError) -> tuple[str, str]:
    if error.errno == errno.ENOENT:
        return f"There is no folder {folder}.", "Mend the path."
    if error.errno == errno.ENOTDIR:
        return f"{folder} is not a folder.", "Leave out the / at its end."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"The folder {folder} may not be read.", "Pick another, or mend its permissions."
    return f"The folder {folder} cannot be listed: {error.strerror or error}.", "Pick another."
