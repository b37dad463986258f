"""Which files of a code folder a job takes along."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from footplate.workspace.errors import Invalid

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_STORE = "footplate.db"
"""By this file the home of a local workspace is known."""


@dataclass(frozen=True)
class Upload:
    """Files relative to the code folder, their bytes together, and the ignore file that ruled (or None)."""

    files: tuple[Path, ...]
    bytes: int
    ignored_by: str | None


def upload_files(code: Path, leave_out: Path | None = None) -> Upload:
    """List a code folder by Azure's rules: `.amlignore`, else `.gitignore`, only in its root; `__pycache__` stays behind.

    What vanishes while it is listed, and links to nothing, stay behind too; so do homes of local workspaces below it, of
    which `leave_out` is one: a job would take all earlier jobs along. Raises Invalid for what cannot be read, and for a code
    folder that is such a home itself.

    Source: azure-ai-ml's own lister, measured: git's wildcards, last match wins, nested ignore files have no effect, links are
    followed (once, so that a loop ends).
    """
    try:
        return _list(code, leave_out)
    except OSError as error:
        raise Invalid(
            f"The code folder {code} cannot be listed: {error.filename or code}: {error.strerror or error}.",
            "Mend its permissions, or name what cannot be read in .amlignore.",
            repr(error),
        ) from error


def _list(code: Path, leave_out: Path | None) -> Upload:
    from pathspec import GitIgnoreSpec

    home = None if leave_out is None else os.path.realpath(leave_out)
    if os.path.realpath(code) == home or _is_file(code / _STORE):
        raise Invalid(
            f"The code folder {code} is the home of a local workspace, with all its jobs.",
            "Name the folder of the job's own scripts, or another home in FOOTPLATE_HOME.",
        )

    ruling = next((name for name in (".amlignore", ".gitignore") if _is_file(code / name)), None)
    lines = (code / ruling).read_text(encoding="utf-8", errors="replace").splitlines() if ruling else []
    ignored = GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))
    files: list[Path] = []
    total = 0
    seen = {os.path.realpath(code)}
    for folder, folders, names in os.walk(code, onerror=_raise_unless_gone, followlinks=True):
        here = Path(folder).relative_to(code)
        kept = []
        for name in sorted(folders):
            relative = here / name
            real = os.path.realpath(code / relative)
            if name == "__pycache__" or real in seen or ignored.match_file(f"{relative.as_posix()}/"):
                continue
            if real == home or _is_file(code / relative / _STORE):
                continue
            seen.add(real)
            kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            relative = here / name
            if ignored.match_file(relative.as_posix()):
                continue
            status = _status(code / relative)
            if status is not None and stat.S_ISREG(status.st_mode):
                files.append(relative)
                total += status.st_size
    return Upload(tuple(files), total, ruling)


def _is_pattern(line: str) -> bool:
    """Whether a line of an ignore file can match anything; git passes over the others (`!` alone, `[z-a]`) without a word."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _is_file(path: Path) -> bool:
    status = _status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def _status(path: Path) -> os.stat_result | None:
    """What a path leads to; None where it leads nowhere, or to what has just gone."""
    try:
        return path.stat()
    except OSError as error:
        _raise_unless_gone(error)
        return None


def _raise_unless_gone(error: OSError) -> None:
    if error.errno not in _GONE:
        raise error
