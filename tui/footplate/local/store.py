"""The local workspace's state: one SQLite file, its schema, and short transactions on it."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, overload

from footplate import mounts
from footplate.workspace.errors import Conflict, Invalid, Unexpected

_FIRST_SCHEMA = """
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

_SECOND_SCHEMA = """
ALTER TABLE job ADD COLUMN work TEXT NOT NULL DEFAULT '{}';
ALTER TABLE job ADD COLUMN step TEXT;
ALTER TABLE job ADD COLUMN stages TEXT NOT NULL DEFAULT '[]';
ALTER TABLE job ADD COLUMN parameters TEXT NOT NULL DEFAULT '{}';
ALTER TABLE job ADD COLUMN metric REAL;
ALTER TABLE job ADD COLUMN best_child TEXT;
ALTER TABLE job ADD COLUMN primary_metric TEXT;
ALTER TABLE job ADD COLUMN goal TEXT;
ALTER TABLE job ADD COLUMN host TEXT NOT NULL DEFAULT '';
CREATE INDEX job_parent ON job (parent, created) WHERE parent IS NOT NULL;
CREATE TABLE cluster (
    name TEXT PRIMARY KEY,
    cores INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    min_nodes INTEGER NOT NULL,
    max_nodes INTEGER NOT NULL,
    idle_seconds INTEGER NOT NULL,
    tier TEXT NOT NULL,
    created REAL NOT NULL
) STRICT;
CREATE TABLE node (
    cluster TEXT NOT NULL,
    node INTEGER NOT NULL,
    since REAL NOT NULL,
    freed REAL,
    state TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (cluster, node)
) STRICT;
CREATE TRIGGER slot_freed AFTER DELETE ON slot BEGIN
    UPDATE node SET freed = (julianday('now') - 2440587.5) * 86400 WHERE cluster = OLD.cluster AND node = OLD.node; END;
ALTER TABLE model ADD COLUMN lineage TEXT NOT NULL DEFAULT '{}';
ALTER TABLE data_asset ADD COLUMN created REAL;
ALTER TABLE data_asset ADD COLUMN job TEXT;
ALTER TABLE endpoint ADD COLUMN mirror TEXT NOT NULL DEFAULT '{}';
ALTER TABLE deployment ADD COLUMN instances INTEGER NOT NULL DEFAULT 1;
ALTER TABLE deployment ADD COLUMN spec TEXT NOT NULL DEFAULT '{}';
ALTER TABLE deployment ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE deployment ADD COLUMN next TEXT NOT NULL DEFAULT '';
ALTER TABLE endpoint ADD COLUMN tags TEXT NOT NULL DEFAULT '{}';
ALTER TABLE model ADD COLUMN folder TEXT NOT NULL DEFAULT '';
"""

_SCHEMAS = (_FIRST_SCHEMA, _SECOND_SCHEMA)
SCHEMA_VERSION = len(_SCHEMAS)
"""A store is brought from each version to the next by the statements at that place of `_SCHEMAS`."""


def now() -> float:
    """Seconds since the epoch, UTC: how the store keeps time."""
    return datetime.now(UTC).timestamp()


def storable(value: Any) -> Any:
    """A value as SQLite takes it: of text that is not UTF-8, as names of files can be, the strange bytes become `?`."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


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

        Raises Unexpected, with the system's own words, for a home that is full, read-only or not a folder, and for one whose
        store is lost; Conflict for a store of a newer footplate.
        """
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self.home / ".store.lock").open("w") as lock:
                # SQLite does not wait for its lock while it changes the journal's mode, so two first consoles would clash.
                fcntl.flock(lock, fcntl.LOCK_EX)
                version = self._bring_up_to_date()
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

    def _bring_up_to_date(self) -> int:
        """Create the store, or bring an older one to this version with a copy of it kept beside; gives its version."""
        with closing(self._connect()) as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version > SCHEMA_VERSION:
                return version
            if version == 0:
                self._require_nothing_lost()
            self._choose_journal(db)
            if version == SCHEMA_VERSION:
                return version
            if version > 0:
                self._keep_copy(db, version)
            db.execute("BEGIN IMMEDIATE")
            for schema in _SCHEMAS[version:]:
                for statement in schema.split(";\n"):
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("COMMIT")
            return SCHEMA_VERSION

    def _require_nothing_lost(self) -> None:
        """Raise Unexpected for a store that is new although there are jobs: theirs was removed, or a power cut tore it."""
        jobs = self.home / "jobs"
        if jobs.is_dir() and any(not folder.name.startswith(".") for folder in jobs.iterdir()):
            raise Unexpected(
                f"The store {self.file} is empty or gone, and {jobs} holds jobs: their records are lost.",
                "Put a copy of it back, or move the jobs away, or name another folder in FOOTPLATE_HOME.",
            )

    def _choose_journal(self, db: sqlite3.Connection) -> None:
        """A write-ahead log; over a network, where its shared memory is not shared, a rollback journal. The file keeps which."""
        wanted = "delete" if mounts.on_network(self.home) else "wal"
        if db.execute("PRAGMA journal_mode").fetchone()[0] == wanted:
            return
        try:
            db.execute(f"PRAGMA journal_mode = {wanted}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            return  # a home that was moved, and is in use: the next console tries again

    def _keep_copy(self, db: sqlite3.Connection, version: int) -> None:
        """Copy the store as it is to `footplate.db.vN`, whole or not at all."""
        kept = self.file.with_name(f"{self.file.name}.v{version}")
        new = kept.with_name(f"{kept.name}.new")
        new.unlink(missing_ok=True)
        with closing(sqlite3.connect(new)) as copy:
            db.backup(copy)
        new.replace(kept)

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.file, timeout=self._busy_seconds, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA synchronous = FULL")  # what was acknowledged outlives a power cut
        db.execute("PRAGMA foreign_keys = ON")
        return db

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for one consistent read. Raises Unexpected when the file cannot be read, Invalid as `write`."""
        with self._sentences(), closing(self._connect()) as db:
            db.execute("BEGIN")
            yield db

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A connection that holds the write lock; commits at the end, rolls back on any error.

        Raises Unexpected when the disk is full or read-only, or the file is damaged; Invalid for text that is not UTF-8 and
        numbers of more than 64 bits.
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
        except UnicodeEncodeError as error:
            raise Invalid(f"{error.object!r} cannot be a name here: it is not UTF-8.", "Write it in UTF-8.") from error
        except OverflowError as error:
            raise Invalid("A number is too large to be kept.", f"Give one below {2**63:,}.", repr(error)) from error
        except sqlite3.DatabaseError as error:
            raise Unexpected(
                f"The store {self.file} cannot be used: {error}.",
                "Free space or mend its permissions, or name another folder in FOOTPLATE_HOME.",
                repr(error),
            ) from error
