"""Which files of a code folder a job takes along."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Upload:
    """Files relative to the code folder, their bytes together, and the ignore file that ruled (or None)."""

    files: tuple[Path, ...]
    bytes: int
    ignored_by: str | None


def upload_files(code: Path) -> Upload:
    """List a code folder by Azure's rules: `.amlignore`, else `.gitignore`, only in its root; `__pycache__` stays behind.

    Source: azure-ai-ml's own lister, measured: git's wildcards, last match wins, nested ignore files have no effect, links are
    followed (once, so that a loop ends).
    """
    from pathspec import GitIgnoreSpec

    ruling = next((name for name in (".amlignore", ".gitignore") if (code / name).is_file()), None)
    lines = (code / ruling).read_text(encoding="utf-8", errors="replace").splitlines() if ruling else []
    ignored = GitIgnoreSpec.from_lines(lines)
    files: list[Path] = []
    total = 0
    seen = {os.path.realpath(code)}
    for folder, folders, names in os.walk(code, followlinks=True):
        here = Path(folder).relative_to(code)
        kept = []
        for name in sorted(folders):
            relative = here / name
            real = os.path.realpath(code / relative)
            if name == "__pycache__" or real in seen or ignored.match_file(f"{relative.as_posix()}/"):
                continue
            seen.add(real)
            kept.append(name)
        folders[:] = kept
        for name in sorted(names):
            relative = here / name
            file = code / relative
            if not ignored.match_file(relative.as_posix()) and file.is_file():
                files.append(relative)
                total += file.stat().st_size
    return Upload(tuple(files), total, ruling)
