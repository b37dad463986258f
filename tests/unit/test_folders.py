"""Folders as they are on this machine: odd names, links, narrowing, completion."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from footplate.operations.folders import (
    Entry,
    complete,
    first_fit,
    narrow,
    nearest_folder,
    read_folder,
    target,
    unquoted,
)
from footplate.workspace import Invalid


@pytest.fixture
def odd(tmp_path):
    """A folder with one of everything."""
    for name in ("img10.png", "img2.png", "Ähre.JPG", "a\x1b[31mred.png", "[bold]x.png", ".hidden.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"12345")
    for name in ("val", "Train", ".git"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("val")
    (tmp_path / "broken.png").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    os.close(os.open(os.fsencode(tmp_path) + b"/latin-\xe9.png", os.O_CREAT))
    return tmp_path


def kinds(folder: Path) -> dict[str, str]:
    return {entry.name: entry.kind for entry in read_folder(folder).entries}


def names(entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries]


def test_folders_come_first_and_numbers_in_their_order(odd):
    found = [entry.name for entry in read_folder(odd).entries]
    assert found[:4] == [".git", "link", "Train", "val"]
    assert found.index("img2.png") < found.index("img10.png")


def test_a_link_is_what_it_leads_to_and_broken_where_that_is_nothing(odd):
    found = kinds(odd)
    assert found["link"] == "folder"
    assert found["broken.png"] == found["loop"] == "broken"
    assert found["pipe"] == "other"
    assert next(entry for entry in read_folder(odd).entries if entry.name == "link").leads_to == "val"


def test_a_name_that_is_no_utf8_leads_to_its_file(odd):
    name = next(entry.name for entry in read_folder(odd).entries if entry.name.startswith("latin"))
    assert (odd / name).exists()


def test_sizes_are_of_files_only(odd):
    sizes = {entry.name: entry.size for entry in read_folder(odd).entries}
    assert sizes["img2.png"] == 5
    assert sizes["val"] is None
    assert sizes["broken.png"] is None


def test_hidden_names_and_other_endings_wait_to_be_asked_for(odd):
    entries = read_folder(odd).entries
    pictures = frozenset({".png", ".jpg"})
    assert ".hidden.png" not in names(narrow(entries, ""))
    assert names(narrow(entries, ".h")) == [".hidden.png"]
    assert "notes.txt" not in names(narrow(entries, "", suffixes=pictures))
    assert "Ähre.JPG" in names(narrow(entries, "", suffixes=pictures))
    assert "Train" in names(narrow(entries, "", suffixes=pictures))
    assert names(narrow(entries, "notes.txt", suffixes=pictures)) == ["notes.txt"]
    assert len(narrow(entries, "", everything=True, suffixes=pictures)) == len(entries)


def test_narrowing_knows_no_case_and_no_way_of_composing(odd):
    entries = read_folder(odd).entries
    assert names(narrow(entries, "TRAIN")) == ["Train"]
    assert names(narrow(entries, "a\u0308hre")) == ["Ähre.JPG"]


def test_the_name_that_begins_so_is_meant_before_one_that_holds_it(tmp_path):
    for name in ("a_val", "val_2", "val"):
        (tmp_path / name).mkdir()
    entries = narrow(read_folder(tmp_path).entries, "val")
    assert first_fit(entries, "val").name == "val"
    assert first_fit(entries, "val_").name == "val_2"


def test_completion_goes_as_far_as_the_names_agree(odd):
    entries = narrow(read_folder(odd).entries, "i")
    assert complete(entries, "i") == "img"
    assert complete(narrow(read_folder(odd).entries, "tr"), "tr") == "Train/"
    assert complete(narrow(read_folder(odd).entries, "otes"), "otes") == "notes.txt"
    assert complete(narrow(read_folder(odd).entries, "nothing"), "nothing") == "nothing"


def test_completion_types_no_character_that_cannot_be_typed(odd):
    assert complete(narrow(read_folder(odd).entries, "red"), "red") == "red"
    assert complete(narrow(read_folder(odd).entries, "lat"), "lat") == "latin-"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("x/", "/data/x"),
        ("../", "/"),
        ("/etc//", "/etc"),
        ("//etc/", "/etc"),
        ("a/../b/", "/data/b"),
        ("~nobody-/", "/data/~nobody-"),
    ],
)
def test_typed_text_is_a_path_in_the_folder(typed, meant):
    assert target(Path("/data"), typed) == Path(meant)


def test_the_home_folder_is_meant_by_a_tilde(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert target(Path("/data"), "~/") == Path("/home/me")


@pytest.mark.parametrize("name", ["gone", "file", "a\0b", "x" * 300])
def test_what_cannot_be_listed_is_a_sentence(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(Invalid) as refused:
        read_folder(tmp_path / name)
    assert refused.value.next_step


def test_the_nearest_folder_is_above_what_is_not_there(tmp_path):
    assert nearest_folder(tmp_path / "gone" / "deeper") == tmp_path
    assert nearest_folder(tmp_path / ("x" * 300)) == tmp_path
    assert nearest_folder(None) == Path.cwd()


@pytest.mark.parametrize(
    ("pasted", "path"),
    [
        ("/a/b c.png", "/a/b c.png"),
        ("'/a/b c.png' ", "/a/b c.png"),
        ('"/a/b c.png"\n', "/a/b c.png"),
        ("/a/b\\ c.png", "/a/b c.png"),
        ("file:///a/b%20c.png", "/a/b c.png"),
        ("/a/it's", "/a/it's"),
        ("'/a' '/b'", "'/a' '/b'"),
        ("'", "'"),
        ("", ""),
    ],
)
def test_a_path_that_was_dropped_on_the_terminal_is_read_as_the_shell_would(pasted, path):
    assert unquoted(pasted) == path
