"""The lines of a job's logs that somebody marked: kept in a small file a job, by file and line."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

from footplate.logs.lines import Place


class Marks:
    """The marks of one job. Reads and writes block; call them in a thread."""

    def __init__(self, folder: Path, of: str) -> None:
        self.of = of
        self.file = folder / f"{hashlib.sha256(of.encode(errors='replace')).hexdigest()[:32]}.json"

    def load(self) -> frozenset[Place]:
        """Read them; none where the file is not there or is no such file."""
        try:
            kept = json.loads(self.file.read_bytes())
            return frozenset(Place(str(file), int(line)) for file, line in kept["marks"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return frozenset()

    def toggle(self, place: Place) -> frozenset[Place]:
        """Mark a line, or no more; what another console has marked meanwhile stays. Returns all. Raises OSError."""
        marks = self.load() ^ {place}
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix="marks-", dir=self.file.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                json.dump({"of": self.of, "marks": sorted(marks)}, out)
            os.replace(name, self.file)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
            raise
        return marks
