"""The local index of an Azure workspace: its jobs as they were last seen, kept for the first paint and for quick lists.

One SQLite file for each workspace, with nothing but the standard library behind it, because it is read before the first frame.
It can be thrown away at any time: what is damaged, or of another version, is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from footplate.azure.masking import mask
from footplate.faults import record
from footplate.workspace.model import Job, Stage

T = TypeVar("T")
MOST_JOBS = 20_000
"""Older ones than so many are let go: 20 MB."""
_MOMENTS = frozenset({"created", "started", "ended"})
_NAMES = tuple(one.name for one in fields(Job))
_VERSION = zlib.crc32(json.dumps([2, _NAMES]).encode()) & 0x7FFFFFFF
"""Of the tables and of what a job is: a job with another field makes another index."""
_WAIT_SECONDS = 2.0
_AGE_SECONDS = 10.0
"""A page that brought nothing new is noted no more often than this: each note is a write to the disk."""
_TABLES = """
CREATE TABLE job (name TEXT PRIMARY KEY, created REAL NOT NULL, active INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX job_created ON job (created);
CREATE TABLE seen (what TEXT PRIMARY KEY, at REAL NOT NULL, down_to REAL);
CREATE TABLE told (name TEXT PRIMARY KEY, started REAL, ended REAL, error TEXT, metric TEXT, value REAL);
"""
_SUSPECT = ("sig", "bearer", "eyj", "key", "token", "secret", "password")
"""One of these is in every text that `mask` would change."""
_DAMAGED = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@dataclass(frozen=True)
class Pass:
    """When the list was last read in one go from its newest job, and down to which moment (None: to its end)."""

    at: datetime
    down_to: datetime | None


@dataclass(frozen=True)
class Told:
    """What else than its record tells of a job: when it ran, why it failed, and the metric that a list shows."""

    started: datetime | None = None
    ended: datetime | None = None
    error: str | None = None
    headline: tuple[str, float] | None = None


class Index:
    """Jobs of one workspace by name. Every method blocks for a few milliseconds, and none raises.

    Where the file cannot be used, as on a full disk, it remembers nothing; the reason is in the console's log.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._off = False

    def newest(self, limit: int) -> tuple[list[Job], datetime | None]:
        """The newest jobs as they were last seen, and when that was; nothing, and None, where there is no index yet."""
        nothing: tuple[list[Job], datetime | None] = ([], None)

        if not self.file.exists():
            return nothing

        def act(db: sqlite3.Connection) -> tuple[list[Job], datetime | None]:
            at = db.execute("SELECT at FROM seen WHERE what = 'page'").fetchone()
            rows = db.execute("SELECT body FROM job ORDER BY created DESC, rowid LIMIT ?", (limit,))
            return [read(body) for (body,) in rows], None if at is None else _moment(at[0])

        return self._do(act, nothing)

    def older(self, than: datetime, down_to: datetime | None) -> list[Job]:
        """The jobs created before one moment, down to another (None: all), newest first."""
        floor = float("-inf") if down_to is None else down_to.timestamp()
        question = "SELECT body FROM job WHERE created <= ? AND created >= ? ORDER BY created DESC, rowid"
        return self._do(lambda db: [read(body) for (body,) in db.execute(question, (than.timestamp(), floor))], [])

    def put_page(
        self,
        jobs: Sequence[Job],
        below: datetime | None,
        now: datetime,
        *,
        last: bool = False,
        bodies: Sequence[str] | None = None,
    ) -> frozenset[str]:
        """Keep a page of the list, which is in order and follows on a job created at `below` (None: it is the first).

        Jobs that are known, and would have to stand on it and do not, are gone. `last`: nothing comes after it. `bodies` are the
        jobs as `write` gives them, where that was done already. Gives the names on it of jobs that were known to have ended.
        """
        down_to = None if last or not jobs else jobs[-1].created
        ceiling = float("inf") if below is None else below.timestamp()
        floor = float("-inf") if down_to is None else down_to.timestamp()

        def act(db: sqlite3.Connection) -> frozenset[str]:
            marks = ", ".join("?" * len(jobs))
            names = [job.name for job in jobs]
            known = db.execute(f"SELECT name FROM job WHERE active = 0 AND name IN ({marks})", names)
            ended = frozenset(name for (name,) in known)
            changed = self._put(db, jobs, bodies)
            between = db.execute("SELECT name FROM job WHERE created < ? AND created > ?", (ceiling, floor))
            gone = {name for (name,) in between} - {job.name for job in jobs}
            db.executemany("DELETE FROM job WHERE name = ?", [(name,) for name in gone])
            if below is None:
                self._note(db, "page", now, None, changed or bool(gone))
            return ended

        return self._do(act, frozenset())

    def put(self, jobs: Sequence[Job]) -> None:
        """Keep jobs as they are now."""
        self._do(lambda db: self._put(db, jobs), False)

    def drop(self, name: str) -> None:
        """Forget a job that is in the list no more."""
        self._do(lambda db: db.execute("DELETE FROM job WHERE name = ?", (name,)).close(), None)

    def last_pass(self) -> Pass | None:
        """The last whole look at the list; None where there was none, or it does not count any more."""
        question = "SELECT at, down_to FROM seen WHERE what = 'pass'"

        def act(db: sqlite3.Connection) -> Pass | None:
            found = db.execute(question).fetchone()
            return None if found is None else Pass(_moment(found[0]), _moment(found[1]) if found[1] else None)

        return self._do(act, None)

    def put_pass(self, at: datetime, down_to: datetime | None) -> None:
        """Note a whole look at the list, and let go of the oldest jobs of very many."""

        def act(db: sqlite3.Connection) -> None:
            self._note(db, "pass", at, down_to, True)
            db.execute(
                "DELETE FROM job WHERE created < (SELECT created FROM job ORDER BY created DESC LIMIT 1 OFFSET ?)",
                (MOST_JOBS - 1,),
            )
            db.execute("DELETE FROM told WHERE name NOT IN (SELECT name FROM job)")

        self._do(act, None)

    def told(self) -> dict[str, Told]:
        """What was told of jobs that have ended, by name."""
        question = "SELECT name, started, ended, error, metric, value FROM told"

        def act(db: sqlite3.Connection) -> dict[str, Told]:
            return {
                name: Told(_at(started), _at(ended), error, None if metric is None else (str(metric), float(value)))
                for name, started, ended, error, metric, value in db.execute(question)
            }

        return self._do(act, {})

    def put_told(self, told: Mapping[str, Told]) -> None:
        """Keep what was told of jobs that have ended."""
        rows = [
            (
                name,
                one.started and one.started.timestamp(),
                one.ended and one.ended.timestamp(),
                one.error and mask(one.error),
                *(one.headline or (None, None)),
            )
            for name, one in told.items()
        ]
        self._do(lambda db: db.executemany("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?, ?, ?)", rows).close(), None)

    def distrust(self) -> None:
        """Let the next whole look read the list from its newest job to its end."""
        self._do(lambda db: db.execute("DELETE FROM seen WHERE what = 'pass'").close(), None)

    # Inside

    @staticmethod
    def _put(db: sqlite3.Connection, jobs: Sequence[Job], bodies: Sequence[str] | None = None) -> bool:
        """Write what is new or other than it was; says whether there was anything."""
        marks = ", ".join("?" * len(jobs))
        known = dict(db.execute(f"SELECT name, body FROM job WHERE name IN ({marks})", [job.name for job in jobs]))
        texts = bodies if bodies is not None else [write(job) for job in jobs]
        pairs = zip(jobs, texts, strict=True)
        written = [(job.name, job.created.timestamp(), job.active, body) for job, body in pairs]
        new = [row for row in written if known.get(row[0]) != row[3]]
        db.executemany("INSERT OR REPLACE INTO job (name, created, active, body) VALUES (?, ?, ?, ?)", new)
        return bool(new)

    @staticmethod
    def _note(db: sqlite3.Connection, what: str, at: datetime, down_to: datetime | None, changed: bool) -> None:
        if not changed:
            noted = db.execute("SELECT at FROM seen WHERE what = ?", (what,)).fetchone()
            if noted is not None and 0 <= at.timestamp() - noted[0] < _AGE_SECONDS:
                return
        row = (what, at.timestamp(), None if down_to is None else down_to.timestamp())
        db.execute("INSERT OR REPLACE INTO seen (what, at, down_to) VALUES (?, ?, ?)", row)

    def _do(self, act: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Act on the open file; once more on a new one where it is damaged."""
        for again in (True, False):
            if self._off:
                break
            try:
                with self._opened() as db:
                    return act(db)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
                if code in _BUSY:  # another console writes: this time without it
                    break
                if not again or code not in _DAMAGED:
                    self._give_up(error)
            except OSError as error:
                self._give_up(error)
            except (
                ValueError,
                TypeError,
                LookupError,
                AttributeError,
                RecursionError,
            ) as error:  # a body that is no job
                if not again:
                    self._give_up(error)
            if not self._off:
                self._throw_away()
        return otherwise

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not self.file.exists():
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(self.file, timeout=_WAIT_SECONDS, isolation_level=None)) as db:
            if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                self._make(db)
            db.execute("PRAGMA synchronous = OFF")  # what a power cut damages is made anew
            db.execute("BEGIN")
            yield db
            db.execute("COMMIT")

    @staticmethod
    def _make(db: sqlite3.Connection) -> None:
        """Make the tables, in place of those of another version."""
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:  # else another console was quicker
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                db.execute(f'DROP TABLE "{name}"')
            for statement in filter(str.strip, _TABLES.split(";")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")

    def _throw_away(self) -> None:
        try:
            for ending in ("", "-journal", "-wal", "-shm"):
                Path(f"{self.file}{ending}").unlink(missing_ok=True)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._off = True
        record(error)


def index_file(folder: Path, resource_manager: str, path: str) -> Path:
    """The file of a workspace: named by a hash of its address, in which Azure knows no upper and lower case."""
    name = hashlib.sha256(f"{resource_manager}{path}".lower().encode()).hexdigest()[:24]
    return folder / f"{name}.sqlite"


def write(job: Job) -> str:
    """A job as JSON: its fields in order, without what is secret; a moment in seconds."""
    values = [_plain(name, getattr(job, name)) for name in _NAMES]
    body = _ENCODER.encode(values)
    small = body.lower()
    if any(word in small for word in _SUSPECT):  # looking for secrets takes ten times as long as the rest
        body = _ENCODER.encode(_masked(values))
    return body


def read(body: str) -> Job:
    """A job from its JSON. Raises ValueError or TypeError for what is none."""
    values = json.loads(body)
    given = {name: _meant(name, value) for name, value in zip(_NAMES, values, strict=True)}
    return Job(**given)


def _plain(name: str, value: Any) -> Any:
    if name in _MOMENTS:
        return None if value is None else value.timestamp()
    if name == "stages":
        return [[stage.name, stage.started.timestamp(), stage.ended and stage.ended.timestamp()] for stage in value]
    return value


def _simple(value: Any) -> Any:
    """What JSON does not know: a mapping that is no dict, and what nobody foresaw, as text."""
    return dict(value) if isinstance(value, Mapping) else str(value)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _masked(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(one) for one in value]
    return value


def _meant(name: str, value: Any) -> Any:
    if name in _MOMENTS:
        return None if value is None else _moment(value)
    if name == "stages":
        return tuple(Stage(stage, _moment(began), None if end is None else _moment(end)) for stage, began, end in value)
    if name == "headline":
        return None if value is None else (str(value[0]), float(value[1]))
    return value


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else _moment(seconds)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_simple)  # made once: it takes as long as a job
