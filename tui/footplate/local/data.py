"""Data assets on this machine, and the sample pictures that are drawn when somebody first needs them."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from footplate import paths
from footplate.local import children, references
from footplate.local.store import Store
from footplate.workspace import DataAsset, NotFound, Unexpected


class DataAssets:
    """The registered data assets; `birds:1` is there from the start, its pictures are drawn on first use."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> Sequence[DataAsset]:
        """All versions, by name, newest version first."""
        with self._store.read() as db:
            rows = db.execute("SELECT * FROM data_asset ORDER BY name, version DESC").fetchall()
        return [
            DataAsset(row["name"], str(row["version"]), row["type"], str(self._path(row)), row["description"])
            for row in rows
        ]

    def folder(self, reference: str) -> Path:
        """Where the asset's files lie, or will lie once they are drawn. Raises NotFound, and Invalid for no reference."""
        return self._path(self._row(reference))

    def ready(self, reference: str) -> bool:
        """Whether the asset's files are there."""
        return self.folder(reference).exists()

    def prepare(self, reference: str, stop: Callable[[], bool] = children.never) -> Path:
        """See to it that the asset's files are there: draws the sample pictures, once, however many ask.

        Raises NotFound, children.Stopped, and Unexpected when the drawing fails.
        """
        row = self._row(reference)
        folder = self._path(row)
        if folder.exists():
            return folder
        if Path(row["path"]).is_absolute():
            raise NotFound(
                f"The files of data asset {row['name']}:{row['version']} are gone from {folder}.", "Put them back."
            )
        try:
            with children.locked(folder.with_name(f".{folder.name}.lock"), stop) as lock:
                if folder.exists():  # another process drew them while this one waited
                    return folder
                script = paths.asset("trainer") / "birds.py"
                code, printed = children.run(
                    [sys.executable, str(script), str(folder)],
                    lock=lock,
                    stop=stop,
                    environment=dict(os.environ),
                    folder=folder.parent,
                )
        except OSError as error:
            raise Unexpected(
                f"The sample pictures could not be drawn into {folder}: {error}.", "Free space or mend its permissions."
            ) from error
        if code != 0:
            raise Unexpected(
                f"The sample pictures could not be drawn into {folder}: {children.last_line(printed)}.",
                "The job can be launched again once that is mended.",
                printed,
            )
        return folder

    def _row(self, reference: str) -> sqlite3.Row:
        name, version = references.parse(reference, "data asset")
        with self._store.read() as db:
            row = db.execute(
                "SELECT * FROM data_asset WHERE name = ? AND (? IS NULL OR version = ?) ORDER BY version DESC LIMIT 1",
                (name, version, version),
            ).fetchone()
            known = [r[0] for r in db.execute("SELECT name || ':' || version FROM data_asset ORDER BY name LIMIT 20")]
        if row is None:
            raise NotFound(f"There is no data asset {reference!r}.", f"Known: {', '.join(known)}.")
        found: sqlite3.Row = row
        return found

    def _path(self, row: sqlite3.Row) -> Path:
        # The workspace's own assets are kept relative to the home, so that a home can be moved.
        return self._store.home / str(row["path"])
