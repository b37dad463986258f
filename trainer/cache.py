"""The folder where unpacked data, indexes and features are kept from one training to the next, and its locks.

It lies on the node's own disk, apart from the outputs. Whatever is in it may be removed at any time: it is made again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from errors import BadInput

POLL_SECONDS = 0.1
SAY_AFTER_SECONDS = 5.0
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


def folder(given: Path | None) -> Path:
    """The cache folder, made where it is missing: the given one, else this user's. Raises `BadInput`."""
    own = os.environ.get("XDG_CACHE_HOME") or (Path.home() / ".cache" if os.environ.get("HOME") else None)
    choices = [given] if given else [Path(top, "footplate", "trainer") for top in (own, temporary()) if top]
    fault: OSError | None = None
    for path in choices:
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            fault = error
        else:
            if os.access(path, os.W_OK):
                return path
    reason = fault.strerror if fault else "it cannot be written to"
    raise BadInput(f"The cache folder {choices[0]} cannot be used: {reason}. Give --cache_dir another one.")


def temporary() -> Path:
    """This user's part of the folder for temporary files."""
    return Path(tempfile.gettempdir(), f"cache-{os.getuid()}")


@contextmanager
def locked(path: Path, say: Callable[[str], None], what: str) -> Iterator[None]:
    """Holds the lock file's lock, waiting for whoever has it; a process that dies lets go of it.

    Where the file system knows no locks it is as if nobody else were there: what is written takes its place whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        began, said = time.monotonic(), False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno in NO_LOCKS:
                    break
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            if not said and time.monotonic() - began > SAY_AFTER_SECONDS:
                say(f"Another training makes {what}; waiting for it.")
                said = True
            time.sleep(POLL_SECONDS)
        yield


def put(path: Path, blocks: list[bytes]) -> None:
    """Writes a file that is whole from the first moment it is there; raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.writelines(blocks)
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink()
            raise
