"""Text for the clipboard: handed to the terminal, also from within tmux and screen, and kept in a file beside it."""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from footplate import paths
from footplate.logs.sanitise import size_text
from footplate.settings import load
from footplate.workspace.errors import Invalid

_PIECE = 240
"""Characters that screen passes on at a time; it cuts what is much longer."""


@dataclass(frozen=True)
class Copied:
    """What became of a text: its bytes, itself where the terminal may have it, the file that holds it or why none does."""

    size: int
    cap: int
    text: str | None
    file: Path | None
    fault: str = ""


def within(environ: Mapping[str, str] = os.environ) -> str:
    """`tmux` or `screen` where the console runs in one, else empty. TERM tells it where it was started from afar."""
    if environ.get("TMUX"):
        return "tmux"
    if environ.get("STY"):
        return "screen"
    return environ.get("TERM", "").partition("-")[0] if environ.get("TERM", "").startswith(("tmux", "screen")) else ""


def sequence(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return what makes a terminal put a text into its clipboard (OSC 52), so that it gets through what lies between.

    tmux takes it itself where `set-clipboard` is on, and passes on what is wrapped where `allow-passthrough` is.
    """
    plain = f"\x1b]52;c;{base64.b64encode(text.encode(errors='replace')).decode()}\x07"
    return (plain if within(environ) == "tmux" else "") + passed_on(plain, environ)


def passed_on(plain: str, environ: Mapping[str, str] = os.environ) -> str:
    """A sequence that ends with BEL, so wrapped that tmux or screen passes it on to the terminal; as it is without them."""
    between = within(environ)
    if between == "tmux":
        return "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if between == "screen":
        return "".join(f"\x1bP{plain[at : at + _PIECE]}\x1b\\" for at in range(0, len(plain), _PIECE))
    return plain


def copied_file() -> Path:
    """Where the text that was copied last is kept. Raises Invalid for no path."""
    return paths.state() / "copied.txt"


def keep(pieces: Iterable[str]) -> Copied:
    """Write a text into the file that holds what was copied last, readable by its user alone; blocks, so call it in a thread.

    Larger texts than the settings' `clipboard.max_kb` are for the file only.
    """
    fault = ""
    try:
        cap = load().clipboard.max_kb * 1000
    except Invalid as error:
        cap, fault = 0, error.sentence
    small: list[str] = []
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for piece in pieces:
            data = piece.encode(errors="replace")
            size += len(data)
            if size <= cap:
                small.append(piece)
            yield data

    rest, file = counted(), None
    try:
        file = _write(rest)
    except Invalid as error:
        fault = error.sentence
    except OSError as error:
        fault = f"No file could be written: {error.strerror or error}."
    for _ in rest:
        pass  # what no file holds may yet be small enough for the terminal
    return Copied(size, cap, "".join(small) if size <= cap else None, file, fault)


def _write(pieces: Iterable[bytes]) -> Path:
    file = copied_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix="copied-", dir=file.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as out:
            for piece in pieces:
                out.write(piece)
        Path(name).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    return file


def said(copied: Copied, what: str, environ: Mapping[str, str] = os.environ) -> str:
    """Say what was done with a text that is called `what`."""
    size = size_text(copied.size)
    kept = f"into {copied.file}" if copied.file is not None else "into no file"
    if copied.text is None and copied.file is None:
        return f"{what} ({size}) cannot be copied. {copied.fault}"
    if copied.text is None:
        why = copied.fault or f"The terminal's clipboard gets at most {size_text(copied.cap)} (clipboard.max_kb)."
        return f"{what} ({size}) went {kept} only. {why}"
    through = f" through {way}" if (way := within(environ)) else ""
    return f"{what} ({size}) went to the terminal's clipboard{through}, where it takes it, and {kept}. {copied.fault}".rstrip()
