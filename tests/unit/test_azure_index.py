"""The local index of an Azure workspace: what is kept, what is not, and what becomes of a damaged file."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from footplate import paths
from footplate.azure import index as index_module
from footplate.azure.index import Index, index_file
from footplate.workspace import Job
from footplate.workspace.model import Stage

NOW = datetime(2026, 12, 1, 12, 0, 0, 250_000, UTC)


def job(number: int, status: str = "Completed") -> Job:
    """The higher the number, the newer."""
    made = NOW - timedelta(minutes=1000 - number)
    return Job(f"job-{number}", f"run {number}", "command", status, "birds", "gpu", made)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    return Index(tmp_path / "azure" / "one.sqlite")


def names(jobs) -> list[str]:
    return [one.name for one in jobs]


def test_a_job_comes_back_whole(index):
    stages = (Stage("Queued", NOW, NOW), Stage("Running", NOW))
    whole = replace(
        job(1),
        started=NOW,
        ended=NOW + timedelta(seconds=3.5),
        parent="sweep",
        tags={"owner": "me"},
        inputs={"lr": 0.1, "data": "azureml:birds:1"},
        error="rank 1: ValueError",
        note="why",
        nodes=2,
        ranks_per_node=4,
        headline=("best_val_acc", 0.948),
        stages=stages,
        parameters={"lr": 0.01, "wide": True},
        metric=0.5,
    )
    assert {one.name for one in fields(Job) if getattr(whole, one.name) == getattr(job(1), one.name)} < {
        one.name for one in fields(Job)
    }
    index.put([whole, job(2)])
    assert index.newest(10)[0] == [job(2), whole]


def test_nothing_secret_is_kept_and_nobody_else_may_read_it(index):
    token = "eyJhbGciOiJIUzI1NiJ9." + "a" * 40 + ".bbbb"
    secret = replace(
        job(1),
        command=f"curl -H 'Authorization: Bearer {token}' --password=hush-hush",
        inputs={"data": "https://a.blob.core.windows.net/c/f?sv=1&sig=abcdef%3D", "nested": {"api_key": "k", "x": 1}},
        tags={"note": "access_token: hush-hush"},
    )
    index.put([secret])
    kept = index.file.read_bytes()
    for word in (b"hush-hush", b"abcdef", token.encode()):
        assert word not in kept
    (found,), _ = index.newest(1)
    assert found.inputs["nested"]["x"] == 1
    assert found.inputs["data"].startswith("https://a.blob.core.windows.net/c/f?")
    assert stat.S_IMODE(index.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(index.file.parent.stat().st_mode) == 0o700


def test_a_page_takes_away_what_would_have_to_stand_on_it_and_nothing_else(index):
    index.put([job(number) for number in range(1, 10)])
    index.put_page([job(9), job(7), job(5)], None, NOW)
    assert names(index.newest(20)[0]) == ["job-9", "job-7", "job-5", "job-4", "job-3", "job-2", "job-1"]
    index.put_page([job(4), job(2)], job(5).created, NOW)
    assert names(index.newest(20)[0]) == ["job-9", "job-7", "job-5", "job-4", "job-2", "job-1"]
    index.put_page([], job(2).created, NOW, last=True)
    assert names(index.newest(20)[0]) == ["job-9", "job-7", "job-5", "job-4", "job-2"]
    assert names(index.older(job(7).created, job(4).created)) == ["job-7", "job-5", "job-4"]


def test_the_age_is_that_of_the_first_page_and_old_news_is_not_written_again(index):
    index.put_page([job(2)], None, NOW)
    index.put_page([job(1)], job(2).created, NOW + timedelta(hours=1))
    assert index.newest(1)[1] == NOW
    before = index.file.stat().st_mtime_ns
    index.put_page([job(2)], None, NOW + timedelta(seconds=2))
    assert index.file.stat().st_mtime_ns == before
    index.put_page([job(2)], None, NOW + timedelta(seconds=12))
    assert index.newest(1)[1] == NOW + timedelta(seconds=12)
    index.put_page([job(2, "Failed")], None, NOW + timedelta(seconds=13))
    assert index.newest(1) == ([job(2, "Failed")], NOW + timedelta(seconds=13))


def test_only_what_has_ended_is_known_as_ended(index):
    index.put([job(1), job(2, "Running"), job(3, "Failed")])
    assert index.put_page([job(4), job(3), job(2), job(1)], None, NOW) == {"job-1", "job-3"}
    assert index.put_page([job(4), job(3), job(2), job(1)], None, NOW) == {"job-1", "job-2", "job-3", "job-4"}


def test_a_whole_look_is_remembered_until_it_is_doubted(index):
    assert index.last_pass() is None
    index.put_pass(NOW, None)
    assert index.last_pass() == index_module.Pass(NOW, None)
    index.put_pass(NOW, NOW - timedelta(days=1))
    assert index.last_pass() == index_module.Pass(NOW, NOW - timedelta(days=1))
    index.distrust()
    assert index.last_pass() is None


def test_of_very_many_jobs_the_oldest_are_let_go(index, monkeypatch):
    monkeypatch.setattr(index_module, "MOST_JOBS", 3)
    index.put([job(number) for number in range(6)])
    index.put_pass(NOW, None)
    assert names(index.newest(10)[0]) == ["job-5", "job-4", "job-3"]


def of_another_version(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 77")
        db.execute("CREATE TABLE more (a)")


def without_a_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("DROP TABLE job")


def with_a_body_that_is_none(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("""UPDATE job SET body = '["one", 2]'""")
        db.commit()


DAMAGES = [
    lambda file: file.write_bytes(b"birds\n" * 5000),
    lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    lambda file: file.write_bytes(b""),
    of_another_version,
    without_a_table,
    with_a_body_that_is_none,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=["text", "cut", "empty", "version", "table", "body"])
def test_a_damaged_index_or_one_of_another_version_is_made_anew(index, damage):
    index.put_page([job(number) for number in range(300, 0, -1)], None, NOW)
    damage(index.file)
    assert index.newest(10) == ([], None)
    index.put_page([job(1)], None, NOW)
    assert index.newest(10) == ([job(1)], NOW)
    assert not paths.console_log().exists()


def test_where_no_file_can_be_made_nothing_is_remembered_and_the_reason_is_in_the_log(tmp_path, index):
    (tmp_path / "azure").write_text("in the way")
    index.put([job(1)])
    index.put([job(2)])
    assert index.newest(10) == ([], None)
    assert paths.console_log().read_text().count("Traceback") == 1


def test_while_another_console_writes_the_index_is_left_alone(index, monkeypatch):
    monkeypatch.setattr(index_module, "_WAIT_SECONDS", 0.01)
    index.put([job(1)])
    with closing(sqlite3.connect(index.file, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        index.put([job(2)])
        assert index.newest(10) == ([], None)
        db.execute("ROLLBACK")
    index.put([job(3)])
    assert names(index.newest(10)[0]) == ["job-3", "job-1"]


def test_each_workspace_has_its_own_file_however_its_names_are_spelled(tmp_path):
    here, path = "https://management.azure.com", "/subscriptions/1/resourceGroups/RG/workspaces/Birds"
    file = index_file(tmp_path, here, path)
    assert file == index_file(tmp_path, here, path.lower())
    assert file != index_file(tmp_path, "https://management.chinacloudapi.cn", path)
    assert "irds" not in file.name
