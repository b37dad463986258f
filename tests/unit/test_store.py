"""The local workspace's SQLite file: created once, versioned, transactional, and faults as sentences."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import fields, replace

import pytest

from footplate.local import records
from footplate.local.store import SCHEMA_VERSION, Store
from footplate.workspace import Conflict, Invalid, Job, Unexpected

_INSERT = "INSERT INTO endpoint (name, state, created) VALUES (?, 'Stopped', 0)"


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "home")
    made.prepare()
    return made


def endpoints(store):
    with store.read() as db:
        return [row["name"] for row in db.execute("SELECT name FROM endpoint ORDER BY name")]


def test_first_consoles_that_start_at_once_make_one_store(tmp_path):
    script = "import sys; from pathlib import Path; from footplate.local.store import Store; Store(Path(sys.argv[1])).prepare()"
    home = tmp_path / "deep" / "home"
    started = [subprocess.Popen([sys.executable, "-c", script, str(home)]) for _ in range(6)]
    assert [process.wait() for process in started] == [0] * 6
    with Store(home).read() as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
        assert [tuple(row) for row in db.execute("SELECT name, version FROM data_asset")] == [("birds", 1)]


def test_the_home_is_the_users_alone(store):
    assert store.home.stat().st_mode & 0o077 == 0


def test_preparing_again_keeps_what_is_there(store):
    with store.write() as db:
        db.execute(_INSERT, ("kept",))
    store.prepare()
    assert endpoints(store) == ["kept"]


def test_an_error_rolls_the_whole_transaction_back(store):
    with pytest.raises(sqlite3.IntegrityError), store.write() as db:
        db.executemany(_INSERT, [("half",), ("half",)])
    assert endpoints(store) == []


def test_a_taken_name_stays_the_callers_to_answer(store):
    with store.write() as db:
        db.execute(_INSERT, ("twin",))
    with pytest.raises(sqlite3.IntegrityError), store.write() as db:
        db.execute(_INSERT, ("twin",))


@pytest.mark.parametrize(("value", "words"), [("v\udcf6gel", "not UTF-8"), (2**63, "too large")])
def test_what_sqlite_cannot_hold_is_refused_in_a_sentence(store, value, words):
    with pytest.raises(Invalid, match=words), store.read() as db:
        db.execute("SELECT * FROM endpoint WHERE name = ?", (value,))
    with pytest.raises(Invalid, match=words), store.write() as db:
        db.execute(_INSERT, (value,))
    assert endpoints(store) == []


def test_a_newer_store_is_refused_in_a_sentence(store):
    with sqlite3.connect(store.file) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()
    with pytest.raises(Conflict, match="newer footplate"):
        store.prepare()


def test_a_home_that_is_a_file_is_a_sentence(tmp_path):
    (tmp_path / "home").write_text("not a folder")
    with pytest.raises(Unexpected, match="FOOTPLATE_HOME"):
        Store(tmp_path / "home").prepare()


def test_a_damaged_store_is_a_sentence(store):
    for file in store.home.glob("footplate.db*"):
        file.unlink()
    store.file.write_bytes(b"not a database" * 100)
    with pytest.raises(Unexpected, match="cannot be used"), store.read() as db:
        db.execute("SELECT 1 FROM job")
    with pytest.raises(Unexpected, match="FOOTPLATE_HOME"):
        store.prepare()


def test_deleting_a_job_deletes_what_hangs_on_it(store):
    with store.write() as db:
        db.execute(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, nodes, ranks_per_node, command, "
            "plan) VALUES ('a', 'a', 'command', 'Completed', 'x', 'local', 0, 1, 1, 'true', '{}')"
        )
        db.execute("INSERT INTO slot VALUES ('local', 0, 'a')")
        db.execute("INSERT INTO rank VALUES ('a', 0, 1, 1.0, NULL)")
        db.execute("DELETE FROM job")
        assert db.execute("SELECT (SELECT count(*) FROM slot) + (SELECT count(*) FROM rank)").fetchone()[0] == 0


def test_a_listed_job_is_whole(store):
    """It is made without the dataclass's own `__init__`, which is too slow for lists: no field may be forgotten."""
    with store.write() as db:
        db.execute(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, started, tags, inputs, nodes, "
            "ranks_per_node, command, plan, metric, primary_metric) VALUES "
            "('a', 'A', 'sweep', 'Running', 'x', 'local', 1, 2, '{\"b\": \"c\"}', '[]', 1, 1, 'true', '{}', 0.5, 'acc')"
        )
        listed = records.listed(db.execute(f"SELECT {records.JOB_COLUMNS} FROM job").fetchone(), None)
        alone = records.job(db.execute("SELECT * FROM job").fetchone())
    made = Job(**{field.name: getattr(listed, field.name) for field in fields(Job)})
    assert listed == alone == made
    assert (listed.tags, listed.inputs, listed.headline, listed.studio_url) == ({"b": "c"}, {}, ("acc", 0.5), "")
    assert replace(listed, note="x").note == "x"
