"""What stands beside the copy of a log: its pieces, how far they go, and a checksum of the end; replaced as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from footplate.logs.exact import FIRST_CHECK

VERSION = 1
STATE = "state.json"


@dataclass(frozen=True)
class Piece:
    """One file of a copy: bytes of the source from `start` on, `size` of them. `began` is set where the log began anew here."""

    number: int
    start: int
    size: int = 0
    began: float | None = None

    @property
    def file(self) -> str:
        """Its name in the folder."""
        return f"{self.number}.log"

    @property
    def times(self) -> str:
        """The name of the file that says when its bytes arrived."""
        return f"{self.number}.times"


@dataclass(frozen=True)
class State:
    """What `state.json` says. `tail` is the checksum of the last bytes, up to FIRST_CHECK, of the last piece."""

    workspace: str
    job: str
    path: str
    pieces: tuple[Piece, ...] = (Piece(1, 0),)
    lost: int = 0
    """Bytes of older pieces that are no longer kept."""
    total: int = 0
    tail: str = sha256(b"").hexdigest()
    version: int = VERSION

    @property
    def size(self) -> int:
        """Bytes of the log as it is now that have been copied."""
        return self.pieces[-1].start + self.pieces[-1].size

    @property
    def part(self) -> Sequence[Piece]:
        """The pieces of the log as it is now."""
        first = max((i for i, piece in enumerate(self.pieces) if piece.began is not None), default=0)
        return self.pieces[first:]


def read_state(folder: Path) -> State | None:
    """What a copy's state says; None where there is none that this version can read."""
    try:
        document = json.loads((folder / STATE).read_bytes())
        if document["version"] != VERSION:
            return None
        pieces = tuple(Piece(**piece) for piece in document.pop("pieces"))
        return State(**document, pieces=pieces) if pieces else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_state(folder: Path, state: State) -> None:
    """Put a state in the place of the one before. Raises OSError."""
    new = folder / f"{STATE}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  a descriptor, for the mode
        json.dump(asdict(state), file)
    new.replace(folder / STATE)


def state_mark(folder: Path) -> tuple[int, int, int]:
    """Which state file stands there; another one after every change."""
    try:
        status = (folder / STATE).stat()
    except FileNotFoundError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def bytes_before(file: Path, end: int, count: int = FIRST_CHECK) -> bytes:
    """The bytes of a file before an offset, up to `count`. Raises OSError."""
    if end <= 0 or count <= 0:
        return b""
    begin = max(0, end - count)
    with file.open("rb") as opened:
        return os.pread(opened.fileno(), end - begin, begin)
