"""A job's file as it was kept in its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from footplate.jobfile.document import parse
from footplate.local import submitted
from footplate.workspace import NotFound, Unexpected

TEXT = "command: python a.py  # é\r\ncode: ./src\r\nenvironment: azureml:e:1\r\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "jobs" / "past" / "code").mkdir(parents=True)
    return tmp_path / "jobs" / "past"


def test_text_path_and_base_are_kept(folder, tmp_path):
    (tmp_path / "src").mkdir()
    submitted.keep(folder, parse(TEXT, tmp_path / "train.yml", tmp_path))
    again = submitted.read(folder)
    assert again.text == TEXT
    assert (again.path, again.base, again.code) == (tmp_path / "train.yml", tmp_path, tmp_path / "src")


def test_a_relative_place_means_the_folder_of_then(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    submitted.keep(folder, parse(TEXT, Path("train.yml"), Path()))
    monkeypatch.chdir("/")
    assert submitted.read(folder).base == tmp_path


def test_a_folder_whose_name_is_no_utf8_is_found_again(folder, tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/latin-\xe9"))
    (odd / "src").mkdir(parents=True)
    submitted.keep(folder, parse(TEXT, None, odd))
    assert submitted.read(folder).code == odd / "src"


def test_code_that_is_gone_is_the_kept_copy_and_nothing_else_changes(folder, tmp_path):
    submitted.keep(folder, parse(TEXT, tmp_path / "train.yml", tmp_path))
    again = submitted.read(folder)
    assert again.code == folder / "code"
    assert again.text == TEXT.replace("./src", str(folder / "code"))


def test_a_sweeps_code_is_its_trials(folder, tmp_path):
    text = "type: sweep\ntrial:\n  command: python a.py\n  code: ./src\n  environment: azureml:e:1\n"
    submitted.keep(folder, parse(text, None, tmp_path))
    assert submitted.read(folder).code == folder / "code"


def test_of_an_older_job_the_kept_copy_is_the_code(folder):
    (folder / "job.yml").write_bytes(TEXT.encode())
    again = submitted.read(folder)
    assert (again.path, again.base, again.code) == (None, folder, folder / "code")


@pytest.mark.parametrize("source", ["[]", "{}", '{"base": 3, "path": []}'])
def test_an_odd_record_of_the_source_counts_as_none(folder, source):
    (folder / "job.yml").write_bytes(TEXT.encode())
    (folder / "source.json").write_text(source)
    assert submitted.read(folder).base == folder


def test_what_cannot_be_read_is_a_sentence(folder):
    with pytest.raises(NotFound):
        submitted.read(folder)
    (folder / "job.yml").write_bytes(b"\xff")
    with pytest.raises(Unexpected):
        submitted.read(folder)
    (folder / "job.yml").write_bytes(TEXT.encode())
    (folder / "source.json").write_text("{")
    with pytest.raises(Unexpected):
        submitted.read(folder)
