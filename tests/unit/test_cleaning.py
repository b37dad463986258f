"""Old downloads are found by when a job took them last, and removed but for those that a job is taking."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from footplate.operations import cleaning

DAY = 86400


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path))
    return tmp_path / "cache" / "downloads"


def fetched(downloads: Path, name: str, days: float, size: int = 100_000, record: str | None = None) -> Path:
    folder = downloads / name
    folder.mkdir(parents=True)
    (folder / "content").write_bytes(b"x" * size)
    (folder / "record.json").write_text(record or json.dumps({"address": f"https://example.org/{name}"}))
    (folder / ".lock").touch()
    now = (folder / "content").stat().st_mtime
    for file, age in (("content", 90), (".lock", days)):
        os.utime(folder / file, (now - age * DAY, now - age * DAY))
    return folder


def test_what_no_job_took_for_long_goes_and_its_bytes_are_told(downloads):
    fetched(downloads, "used", 3)
    old = fetched(downloads, "old", 40)
    shared = fetched(downloads, "shared", 50, record="{")
    os.link(shared / "content", downloads.parent / "of-a-job")
    taken = fetched(downloads, "taken", 60)
    found = cleaning.old_downloads(timedelta(days=30))
    assert [(one.address, one.bytes >= 100_000) for one in found] == [
        ("https://example.org/old", True),
        ("https://example.org/taken", True),
        ("shared", False),
    ]
    with (taken / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = cleaning.clean_downloads(found)
    assert [one.folder.name for one in done] == ["old", "shared"]
    assert [(folder / "content").exists() for folder in (old, shared, taken, downloads / "used")] == [
        False,
        False,
        True,
        True,
    ]
    assert (downloads.parent / "of-a-job").stat().st_size == 100_000
    assert [one.folder.name for one in cleaning.old_downloads(timedelta(days=30))] == ["taken"]
