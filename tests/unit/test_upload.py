"""What a job takes along of its code folder, whatever lies in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footplate.jobfile.upload import MOST_IGNORED, Ignored, Upload, upload_files
from footplate.workspace import Invalid

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"


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


def names(found: Upload) -> list[str]:
    return [file.as_posix() for file in found.files]


def made(folder: Path, *files: str) -> Path:
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return folder


@pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not there")
def test_an_ignored_environment_with_a_loop_is_never_opened():
    found = upload_files(CASES / "y33_ignore_and_links" / "src")
    assert names(found) == [".amlignore", "train.py"]
    assert found.bytes == 54  # old.ckpt's 4,096 are not among them
    assert found.ignored_by == ".amlignore"
    assert found.largest == (("train.py", 40), (".amlignore", 14))
    assert found.ignored == (
        Ignored(".venv/", ".venv/", ".amlignore:1"),
        Ignored("__pycache__/", "compiled Python", "footplate"),
        Ignored("old.ckpt", "*.ckpt", ".amlignore:2"),
    )
    assert found.links_to_nothing == ()
    assert [note for note in found.notes if note.startswith("../.gitignore has no effect")]


def test_ignored_folders_are_not_even_listed(tmp_path: Path):
    made(tmp_path, "train.py", ".venv/bin/python", "src/.venv/x", "src/model.py")
    (tmp_path / ".amlignore").write_text(".venv/\n")
    opened = []
    hook = {"on": True}

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if hook["on"] and event == "os.scandir":
            opened.append(os.path.relpath(str(arguments[0]), tmp_path))

    sys.addaudithook(watch)
    try:
        found = upload_files(tmp_path)
    finally:
        hook["on"] = False
    assert names(found) == [".amlignore", "train.py", "src/model.py"]
    assert opened == [".", "src"]


def test_links_are_followed_and_one_back_to_a_folder_above_ends(tmp_path: Path):
    code = made(tmp_path / "code", "train.py", "sub/a.py")
    made(tmp_path / "shared", "lib.py")
    for link in ("one", "two"):
        (code / link).symlink_to(tmp_path / "shared")
    (code / "sub" / "up").symlink_to("..")
    (tmp_path / "shared" / "code").symlink_to(code)
    found = upload_files(code)
    assert names(found) == ["train.py", "one/lib.py", "sub/a.py", "two/lib.py"]
    assert {one.path for one in found.ignored} == {"one/code/", "two/code/", "sub/up/"}


def test_folders_that_all_link_to_each_other_come_to_an_end(tmp_path: Path):
    folders = [tmp_path / f"{number:02}" for number in range(14)]
    for folder in folders:
        folder.mkdir()
        for other in folders:
            (folder / other.name).symlink_to(other)
    found = upload_files(tmp_path, most=None)
    assert (found.files, found.more) == ((), True)


def test_links_to_nothing_are_named_and_no_fault(tmp_path: Path):
    made(tmp_path, "train.py", "data/x.csv")
    (tmp_path / "data" / "gone.csv").symlink_to("/nonexistent/file")
    (tmp_path / "circle").symlink_to("circle")
    found = upload_files(tmp_path)
    assert names(found) == ["train.py", "data/x.csv"]
    assert found.links_to_nothing == ("circle", "data/gone.csv")


def test_the_aml_file_rules_alone_and_only_in_the_root(tmp_path: Path):
    made(tmp_path, "a.log", "b.tmp", "sub/c.log", "sub/d.tmp")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "sub" / ".amlignore").write_text("*.log\n")
    assert names(upload_files(tmp_path)) == [".gitignore", "b.tmp", "sub/.amlignore", "sub/d.tmp"]
    (tmp_path / ".amlignore").write_text("\ufeff*.tmp\n", encoding="utf-8")
    found = upload_files(tmp_path)
    assert names(found) == [".amlignore", ".gitignore", "a.log", "sub/.amlignore", "sub/c.log"]
    assert [note.partition(" has")[0] for note in found.notes] == ["sub/.amlignore", ".gitignore"]


def test_rules_above_the_code_are_named_up_to_the_repositorys_root(tmp_path: Path):
    made(tmp_path, ".gitignore", "repository/.gitignore", "repository/job/.amlignore", "repository/job/code/train.py")
    code = tmp_path / "repository" / "job" / "code"
    assert [note.partition(" has")[0] for note in upload_files(code).notes] == ["../.amlignore"]
    (tmp_path / "repository" / ".git").mkdir()
    assert [note.partition(" has")[0] for note in upload_files(code).notes] == ["../.amlignore", "../../.gitignore"]


def test_the_ten_largest_are_named_largest_first(tmp_path: Path):
    for number in range(15):
        (tmp_path / f"{number:02}.bin").write_bytes(b"x" * number * 10)
    found = upload_files(tmp_path)
    assert found.bytes == 1050
    assert found.largest == tuple((f"{number:02}.bin", number * 10) for number in range(14, 4, -1))


def test_counting_ends_at_a_bound_and_says_so(tmp_path: Path):
    for number in range(30):
        (tmp_path / f"{number:02}.bin").write_bytes(b"x")
    bounded = upload_files(tmp_path, most=20)
    assert (len(bounded.files), bounded.more) == (20, True)
    assert "leaves that out" in bounded.notes[0]
    assert (len(upload_files(tmp_path, most=None).files), upload_files(tmp_path).more) == (30, False)


def test_of_many_ignored_files_the_first_are_named_and_all_counted(tmp_path: Path):
    for number in range(MOST_IGNORED + 20):
        (tmp_path / f"{number}.log").write_bytes(b"x")
    (tmp_path / ".amlignore").write_text("# logs\n*.log\n")
    found = upload_files(tmp_path)
    assert (len(found.ignored), found.ignored_count) == (MOST_IGNORED, MOST_IGNORED + 20)
    assert {one.where for one in found.ignored} == {".amlignore:2"}


def test_more_than_azure_took_in_its_first_version_is_noted_with_the_biggest_folder(tmp_path: Path):
    made(tmp_path, "train.py", ".git/objects/pack")
    os.truncate(tmp_path / ".git" / "objects" / "pack", 301 << 20)
    (note,) = upload_files(tmp_path).notes
    assert "`/.git/`" in note


def azures_list(folder: Path) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from azure.ai.ml._utils._asset_utils import get_ignore_file, get_upload_files_from_folder

        found = get_upload_files_from_folder(folder, ignore_file=get_ignore_file(folder))
    return {remote for _, remote in found}


FOLDERS = ("", "data/", "data/raw/", "src/", "src/data/", "a.log/")
FILES = ("train.py", "keep.log", "x.log", "model.ckpt", "data", "a b.txt")
RULES = (
    "*.log", "!keep.log", "data/", "data", "/data", "/data/", "data/*", "data/**", "!data/raw", "!data/keep.log", "**/raw",
    "src/*/", "!src/data/", "!src/data/keep.log", "*.ckpt", "model.*", "/*.py", "!train.py", "[a-m]*", "a?b.txt", "a b.txt",
    "# comment", "", "\\#x", "*/", "!*/", "!/data/raw/keep.log", "src/", "*", "!*.py", "**", "x.log/", "data//raw",
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    files=st.sets(st.tuples(st.sampled_from(FOLDERS), st.sampled_from(FILES)), max_size=12),
    aml=st.none() | st.lists(st.sampled_from(RULES), max_size=5),
    git=st.none() | st.lists(st.sampled_from(RULES), max_size=5),
)
def test_the_list_is_the_one_that_azures_client_makes(files, aml, git):
    with tempfile.TemporaryDirectory() as made_folder:
        code = Path(made_folder)
        for folder, name in sorted(files):
            path = code / folder / name
            if not path.is_dir() and not any(parent.is_file() for parent in path.parents):
                made(code, f"{folder}{name}")
        for name, rules in ((".amlignore", aml), (".gitignore", git)):
            if rules is not None:
                (code / name).write_text("\n".join(rules))
        found, azures = upload_files(code), azures_list(code)
        ours = set(names(found))
        assert ours <= azures
        closed = [one.path for one in found.ignored if one.path.endswith("/")]
        # The one difference, which is said: a folder that is ignored whole stays closed to rules that hold at any depth.
        said = any("takes nothing back" in note for note in found.notes)
        assert all(said and file.startswith(tuple(closed)) for file in azures - ours)


def test_a_rule_that_leads_into_an_ignored_folder_takes_back_what_it_names(tmp_path: Path):
    made(tmp_path, "data/big.bin", "data/raw/x", "data/classes.txt", "other/classes.txt")
    (tmp_path / ".amlignore").write_text("data/\nother/\n!data/classes.txt\n")
    found = upload_files(tmp_path)
    assert names(found) == [".amlignore", "data/classes.txt"]
    assert azures_list(tmp_path) == set(names(found))
    assert {one.path for one in found.ignored} == {"data/big.bin", "data/raw/", "other/"}


def test_a_rule_at_any_depth_opens_no_ignored_folder_and_that_is_said(tmp_path: Path):
    made(tmp_path, "data/keep.log", "keep.log", "x.log")
    (tmp_path / ".amlignore").write_text("data/\n*.log\n!keep.log\n")
    found = upload_files(tmp_path)
    assert names(found) == [".amlignore", "keep.log"]
    assert any("`!keep.log` (.amlignore:3) takes nothing back" in note for note in found.notes)
