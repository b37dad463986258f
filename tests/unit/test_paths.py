"""Where footplate's own files lie, and the sentences for paths that cannot be told."""

from __future__ import annotations

import pytest

from footplate import paths
from footplate.local import python
from footplate.settings import LocalSettings, Settings
from footplate.workspace import Invalid

READERS = {"FOOTPLATE_HOME": paths.home, "FOOTPLATE_CONFIG": paths.config_file}


@pytest.mark.parametrize("variable", READERS)
def test_a_path_of_a_user_who_is_not_there_names_its_variable(variable, monkeypatch):
    monkeypatch.setenv(variable, "~nobody-of-this-name/birds")
    with pytest.raises(Invalid, match=f"{variable} is '~nobody-of-this-name/birds'"):
        READERS[variable]()


@pytest.mark.parametrize("variable", READERS)
def test_a_relative_path_in_a_folder_that_is_gone_names_its_variable(variable, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv(variable, "birds")
    with pytest.raises(Invalid, match=f"{variable} is 'birds'.*current folder"):
        READERS[variable]()
    monkeypatch.setenv(variable, str(tmp_path / "birds"))
    assert READERS[variable]() == tmp_path / "birds"


def test_a_python_of_a_user_who_is_not_there_names_its_variable():
    with pytest.raises(Invalid, match="FOOTPLATE_LOCAL_PYTHON"):
        python.for_jobs(Settings(local=LocalSettings(python="~nobody-of-this-name/bin/python")))


def test_a_relative_python_in_a_folder_that_is_gone_names_its_variable(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(Invalid, match="FOOTPLATE_LOCAL_PYTHON"):
        python.for_jobs(Settings(local=LocalSettings(python="./python")))
    whole = str(tmp_path / "python")
    assert python.for_jobs(Settings(local=LocalSettings(python=whole))) == whole
    monkeypatch.chdir(tmp_path)
    assert python.for_jobs(Settings(local=LocalSettings(python="./python"))) == whole
