"""What a job takes along of its code folder, whatever lies in it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from footplate.jobfile.upload import upload_files
from footplate.workspace import Invalid


@pytest.mark.parametrize("line", ["!", "\\", "foo\\", "[z-a]"])
def test_a_line_that_is_no_pattern_is_passed_over_as_git_does(tmp_path: Path, line: str):
    (tmp_path / ".gitignore").write_text(f"*.log\n{line}\n*.tmp\n")
    for name in ("train.py", "a.log", "b.tmp"):
        (tmp_path / name).write_text("x")
    found = upload_files(tmp_path)
    assert [str(file) for file in found.files] == [".gitignore", "train.py"]
    assert found.ignored_by == ".gitignore"


def test_a_folder_that_may_not_be_read_is_said_unless_it_is_ignored(tmp_path: Path):
    closed = tmp_path / "closed"
    closed.mkdir()
    (tmp_path / "train.py").write_text("x")
    closed.chmod(0)
    try:
        if os.access(closed, os.R_OK):
            pytest.skip("this user may read everything")
        with pytest.raises(Invalid, match=r"closed: Permission denied.*Mend its permissions"):
            upload_files(tmp_path)
        (tmp_path / ".amlignore").write_text("closed/\n")
        assert [str(file) for file in upload_files(tmp_path).files] == [".amlignore", "train.py"]
    finally:
        closed.chmod(0o700)


def test_a_code_path_too_long_for_the_system_is_said(tmp_path: Path):
    with pytest.raises(Invalid, match="File name too long"):
        upload_files(tmp_path / ("a" * 300))


def test_links_to_nothing_and_in_a_circle_and_pipes_stay_behind(tmp_path: Path):
    (tmp_path / "train.py").write_text("x")
    (tmp_path / "nowhere").symlink_to("not-there")
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    assert [str(file) for file in upload_files(tmp_path).files] == ["train.py"]


EDITOR = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
while True:
    folder.mkdir()
    files = [folder / f"{number}.tmp" for number in range(50)]
    for file in files:
        file.write_text("x")
    for file in files:
        file.unlink()
    folder.rmdir()
"""
"""What editors and builds do: files and folders that come and go."""


def test_files_that_vanish_while_they_are_listed_are_skipped(tmp_path: Path):
    (tmp_path / "train.py").write_text("x")
    seen = set()
    editor = subprocess.Popen([sys.executable, "-c", EDITOR, str(tmp_path / "short-lived")])
    try:
        deadline = time.monotonic() + 60
        while len(seen) < 30:  # so many different moments of its coming and going
            assert time.monotonic() < deadline, f"too few moments were seen: {sorted(seen)}"
            found = upload_files(tmp_path)
            assert Path("train.py") in found.files
            seen.add(len(found.files))
    finally:
        editor.kill()
        editor.wait()


def test_a_workspaces_home_below_the_code_stays_behind(tmp_path: Path):
    (tmp_path / "train.py").write_text("x")
    for home in ("mine", "other"):
        (tmp_path / home / "jobs").mkdir(parents=True)
        (tmp_path / home / "jobs" / "job.yml").write_text("x")
    (tmp_path / "other" / "footplate.db").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert upload_files(tmp_path, leave_out=tmp_path / "mine").files == (Path("train.py"),)


def test_code_that_is_a_workspaces_home_itself_is_refused(tmp_path: Path):
    with pytest.raises(Invalid, match="home of a local workspace"):
        upload_files(tmp_path, leave_out=tmp_path)
    (tmp_path / "footplate.db").write_text("x")
    with pytest.raises(Invalid, match="home of a local workspace"):
        upload_files(tmp_path)
