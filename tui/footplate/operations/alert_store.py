"""What consoles remember of alerts: what is watched, what was told, and who is about to tell it. One small SQLite file."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from footplate import paths
from footplate.operations.alert_rules import Finding
from footplate.workspace.errors import Unexpected

LEASE_SECONDS = 120.0
"""After so long, what was claimed and not told in full is told by another console: the one that claimed it has ended."""
QUIET_SECONDS = 600.0
"""What was over and comes back within this time is not told anew: a node that comes and goes would ring all day."""
_KEPT_SECONDS, _BACK_SECONDS = 30 * 86400.0, 7 * 86400.0
_VERSION = 1
_SCHEMA = """
CREATE TABLE watched (
    workspace TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, since REAL NOT NULL,
    PRIMARY KEY (workspace, kind, name)
) STRICT;
CREATE TABLE told (
    workspace TEXT NOT NULL, key TEXT NOT NULL, finding TEXT NOT NULL, claimed REAL NOT NULL, claimer TEXT NOT NULL,
    acted TEXT NOT NULL DEFAULT '[]', told REAL, fault TEXT NOT NULL DEFAULT '', over REAL,
    PRIMARY KEY (workspace, key)
) STRICT;
CREATE TABLE looked (workspace TEXT PRIMARY KEY, since REAL NOT NULL) STRICT;
"""


@dataclass(frozen=True)
class Watched:
    """A thing on the watch list, and since when, in seconds since 1970."""

    kind: str
    name: str
    since: float


@dataclass(frozen=True)
class Told:
    """What was told, when, and what went wrong with telling it."""

    finding: Finding
    when: float
    fault: str


def store_of(workspace: str) -> AlertStore:
    """The alerts of a workspace, by its name, in the file that the consoles of this home share. Raises Invalid for no path."""
    return AlertStore(paths.state() / "alerts.db", workspace)


class AlertStore:
    """The alerts of one workspace in the file that all consoles share. Every method blocks: call it in a thread.

    Raises Unexpected with a sentence where the file cannot be read or written.
    """

    def __init__(self, file: Path, workspace: str, clock: Callable[[], float] = time.time) -> None:
        self.file = file
        self._workspace = workspace
        self._clock = clock
        self._me = uuid.uuid4().hex

    def stamp(self) -> object:
        """What changes when another console has written; None while there is no file."""
        try:
            found = self.file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    # The watch list

    def watched(self) -> list[Watched]:
        """What is watched, in the order it was put there."""
        with self._open() as db:
            rows = db.execute(
                "SELECT kind, name, since FROM watched WHERE workspace = ? ORDER BY since, rowid", (self._workspace,)
            ).fetchall()
        return [Watched(*row) for row in rows]

    def watch(self, kind: str, name: str) -> None:
        """Put a thing on the list; twice is no error."""
        with self._open() as db:
            db.execute(
                "INSERT INTO watched VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (self._workspace, kind, name, self._clock()),
            )

    def unwatch(self, kind: str, name: str) -> None:
        """Take a thing off the list."""
        with self._open() as db:
            self._unwatch(db, kind, name)

    def _unwatch(self, db: sqlite3.Connection, kind: str, name: str) -> None:
        db.execute("DELETE FROM watched WHERE workspace = ? AND kind = ? AND name = ?", (self._workspace, kind, name))

    # Told once

    def begin(self) -> float:
        """From which moment on ends are told that nobody saw coming: the first look ever, at most a week ago. Forgets the old."""
        now = self._clock()
        with self._open() as db:
            db.execute("INSERT INTO looked VALUES (?, ?) ON CONFLICT DO NOTHING", (self._workspace, now))
            db.execute("DELETE FROM told WHERE told < ?", (now - _KEPT_SECONDS,))
            since = db.execute("SELECT since FROM looked WHERE workspace = ?", (self._workspace,)).fetchone()[0]
        return max(float(since), now - _BACK_SECONDS)

    def claim(self, findings: Iterable[Finding]) -> list[Finding]:
        """Those of the findings that this console is to tell: nobody has told them, or is about to.

        A job whose end is claimed leaves the watch list. A passing thing that was over can be claimed again after a while.
        """
        now = self._clock()
        mine = []
        with self._open() as db:
            for found in findings:
                done = db.execute(
                    "INSERT INTO told (workspace, key, finding, claimed, claimer) VALUES (?, ?, ?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET finding = excluded.finding, claimed = excluded.claimed, "
                    "claimer = excluded.claimer, acted = '[]', told = NULL, fault = '', over = NULL "
                    "WHERE told.over IS NOT NULL AND told.claimed < ?",
                    (
                        self._workspace,
                        found.key,
                        json.dumps(found.as_fields()),
                        now,
                        self._me,
                        now - QUIET_SECONDS,
                    ),
                )
                if done.rowcount:
                    mine.append(found)
                if found.event in ("failed", "finished", "gone"):
                    self._unwatch(db, found.kind, found.name)
        return mine

    def abandoned(self) -> list[tuple[Finding, frozenset[str]]]:
        """What consoles claimed that ended before they told it in full, now claimed by this one; and which acts were done."""
        now = self._clock()
        with self._open() as db:
            rows = db.execute(
                "UPDATE told SET claimed = ?, claimer = ? WHERE workspace = ? AND told IS NULL AND claimed < ? "
                "RETURNING finding, acted",
                (now, self._me, self._workspace, now - LEASE_SECONDS),
            ).fetchall()
        return [(Finding(**json.loads(finding)), frozenset(json.loads(acted))) for finding, acted in rows]

    def release(self) -> None:
        """Let another console do what this one did not do in full."""
        with self._open() as db:
            db.execute("UPDATE told SET claimed = 0 WHERE told IS NULL AND claimer = ?", (self._me,))

    def acted(self, key: str, act: str, fault: str = "") -> None:
        """Remember that an act was done, and what went wrong with it."""
        with self._open() as db:
            db.execute(
                "UPDATE told SET acted = json_insert(acted, '$[#]', ?), fault = CASE WHEN ? = '' THEN fault ELSE ? END "
                "WHERE workspace = ? AND key = ? AND claimer = ?",
                (act, fault, fault, self._workspace, key, self._me),
            )

    def told(self, key: str) -> None:
        """Remember that all was done."""
        with self._open() as db:
            db.execute(
                "UPDATE told SET told = ? WHERE workspace = ? AND key = ? AND claimer = ?",
                (self._clock(), self._workspace, key, self._me),
            )

    def standing(self) -> dict[str, Finding]:
        """The passing things that were told and are not over, by their keys."""
        with self._open() as db:
            rows = db.execute(
                "SELECT key, finding FROM told WHERE workspace = ? AND over IS NULL "
                "AND json_extract(finding, '$.passing')",
                (self._workspace,),
            ).fetchall()
        return {key: Finding(**json.loads(finding)) for key, finding in rows}

    def over(self, keys: Iterable[str], seen: float) -> None:
        """Remember that passing things are over, as was seen at a moment; what was claimed after it stands."""
        with self._open() as db:
            db.executemany(
                "UPDATE told SET over = ? WHERE workspace = ? AND key = ? AND claimed < ?",
                [(self._clock(), self._workspace, key, seen) for key in keys],
            )

    def history(self, most: int = 500) -> list[Told]:
        """What was told, newest first."""
        with self._open() as db:
            rows = db.execute(
                "SELECT finding, claimed, fault FROM told WHERE workspace = ? ORDER BY claimed DESC, rowid DESC LIMIT ?",
                (self._workspace, most),
            ).fetchall()
        return [Told(Finding(**json.loads(finding)), when, fault) for finding, when, fault in rows]

    # The file

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the file, which is made where it is missing."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self.file.exists():
                self.file.touch(0o600)
            with closing(sqlite3.connect(self.file, timeout=10, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                _prepare(db)
                yield db
                db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise Unexpected(
                f"Alerts cannot be kept: {self.file} cannot be used ({error}).",
                "Free space there or mend its permissions; where the file is damaged, move it away.",
                repr(error),
            ) from error


def _prepare(db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        raise sqlite3.DatabaseError(f"a newer footplate wrote it, version {version}")
    if version < _VERSION:
        for statement in _SCHEMA.split(";\n"):
            if statement.strip():
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")


def names(watched: Sequence[Watched]) -> frozenset[tuple[str, str]]:
    """Kind and name of each."""
    return frozenset((one.kind, one.name) for one in watched)
