"""The local workspace's state: one SQLite file, its schema, and short transactions on it."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import overload

from footplate.workspace.errors import Conflict, Unexpected

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE job (
    name TEXT PRIMARY KEY,
    display_name TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    experiment TEXT NOT NULL,
    compute TEXT NOT NULL,
    created REAL NOT NULL,
    started REAL,
    ended REAL,
    parent TEXT,
    tags TEXT NOT NULL DEFAULT '{}',
    inputs TEXT NOT NULL DEFAULT '{}',
    error TEXT,
    note TEXT NOT NULL DEFAULT '',
    nodes INTEGER NOT NULL,
    ranks_per_node INTEGER NOT NULL,
    command TEXT NOT NULL,
    plan TEXT NOT NULL,
    supervisor_pid INTEGER,
    supervisor_started REAL,
    python TEXT NOT NULL DEFAULT '',
    assets TEXT NOT NULL DEFAULT '[]',
    outputs TEXT NOT NULL DEFAULT '{}',
    timeout_s INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    mlflow_run_id TEXT,
    archived INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX job_created ON job (created DESC);
CREATE INDEX job_active ON job (created) WHERE ended IS NULL;
CREATE TABLE rank (
    job TEXT NOT NULL REFERENCES job (name) ON DELETE CASCADE,
    rank INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    started REAL NOT NULL,
    exit_code INTEGER,
    PRIMARY KEY (job, rank)
) STRICT;
CREATE TABLE slot (
    cluster TEXT NOT NULL,
    node INTEGER NOT NULL,
    job TEXT NOT NULL REFERENCES job (name) ON DELETE CASCADE,
    PRIMARY KEY (cluster, node)
) STRICT;
CREATE TABLE model (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    type TEXT NOT NULL,
    created REAL NOT NULL,
    job TEXT,
    description TEXT NOT NULL DEFAULT '',
    tags TEXT NOT NULL DEFAULT '{}',
    metadata TEXT NOT NULL DEFAULT '{}',
    size INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE data_asset (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    type TEXT NOT NULL,
    path TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (name, version)
) STRICT;
INSERT INTO data_asset VALUES
    ('birds', 1, 'uri_folder', 'data/birds/1', 'drawn on first use: 240 training, 200 validation pictures');
CREATE TABLE endpoint (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    port INTEGER,
    gateway_pid INTEGER,
    gateway_started REAL,
    traffic TEXT NOT NULL DEFAULT '{}',
    error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE deployment (
    endpoint TEXT NOT NULL REFERENCES endpoint (name) ON DELETE CASCADE,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    error TEXT NOT NULL DEFAULT '',
    server_pid INTEGER,
    server_started REAL,
    PRIMARY KEY (endpoint, name)
) STRICT;
"""


def now() -> float:
    """Seconds since the epoch, UTC: how the store keeps time."""
    return datetime.now(UTC).timestamp()


@overload
def moment(seconds: float) -> datetime: ...
@overload
def moment(seconds: None) -> None: ...
def moment(seconds: float | None) -> datetime | None:
    """The store's seconds as a moment in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


class Store:
    """The SQLite file of one home folder. A connection a call: cheap (50 µs), and safe between threads and processes.

    Where another process holds its lock, a call waits `busy_seconds` before it raises Unexpected.
    """

    def __init__(self, home: Path, busy_seconds: float = 30.0) -> None:
        self.home = home
        self._busy_seconds = busy_seconds
        self.file = home / "footplate.db"

    def prepare(self) -> None:
        """Create the home and the store where missing, and check the version.

        Raises Unexpected, with the system's own words, for a home that is full, read-only or not a folder, and Conflict for
        a store of a newer footplate.
        """
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self.home / ".store.lock").open("w") as lock:
                # SQLite does not wait for its lock while it changes the journal's mode, so two first consoles would clash.
                fcntl.flock(lock, fcntl.LOCK_EX)
                version = self._create_if_new()
        except (OSError, sqlite3.Error) as error:
            raise Unexpected(
                f"The home folder {self.home} cannot be used: {error}.",
                "Free space or mend its permissions, or name another folder in FOOTPLATE_HOME.",
                repr(error),
            ) from error
        if version > SCHEMA_VERSION:
            raise Conflict(
                f"The store {self.file} was written by a newer footplate (version {version}; this one knows {SCHEMA_VERSION}).",
                "Update footplate, or name another folder in FOOTPLATE_HOME.",
            )

    def _create_if_new(self) -> int:
        with closing(self._connect()) as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version != 0:
                return version
            db.execute("PRAGMA journal_mode = WAL")  # kept in the file
            db.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("COMMIT")
            return SCHEMA_VERSION

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.file, timeout=self._busy_seconds, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        return db

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for one consistent read. Raises Unexpected when the file cannot be read."""
        with self._sentences(), closing(self._connect()) as db:
            db.execute("BEGIN")
            yield db

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A connection that holds the write lock; commits at the end, rolls back on any error.

        Raises Unexpected when the disk is full or read-only, or the file is damaged.
        """
        with self._sentences(), closing(self._connect()) as db:  # closing without COMMIT rolls back
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise  # a taken name, which the caller answers
        except sqlite3.DatabaseError as error:
            raise Unexpected(
                f"The store {self.file} cannot be used: {error}.",
                "Free space or mend its permissions, or name another folder in FOOTPLATE_HOME.",
                repr(error),
            ) from error
