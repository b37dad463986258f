"""The settings file: what is read when, and the sentences on what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from footplate import settings
from footplate.workspace import Invalid
from footplate.workspace.open import open_workspace

AZURE = """\
[workspaces.prod]
kind = "azure"
subscription_id = "0000"
resource_group = "birds"
workspace_name = "aviary"
cloud = "AzureCloud"
read_only = true
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("FOOTPLATE_WORKSPACE", "FOOTPLATE_LOCAL_PYTHON", "FOOTPLATE_LOCAL_NODES", "FOOTPLATE_SERVING_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "config.toml"


def test_a_workspace_of_another_kind_is_left_unread_until_it_is_opened(file):
    file.write_text(AZURE.replace('"azure"', '"moon"'))
    assert open_workspace().name == "local"
    found = settings.load().find("prod")
    assert (found.kind, found.read_only) == ("moon", True)
    with pytest.raises(Invalid, match="kind 'moon', which this version cannot open"):
        open_workspace("prod")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("colour = 'red'", "unknown key workspaces.prod.colour"),
        ("read_only = 'yes'", r"workspaces.prod.read_only must be true or false, not 'yes'"),
        ("kind = 3", r"workspaces.prod.kind must be text in quotes, not 3"),
        ("name = 'x'", "unknown key workspaces.prod.name"),
    ],
)
def test_a_faulty_workspace_names_its_key_and_hinders_no_other(file, table, words):
    file.write_text(f"[workspaces.prod]\n{table}\n")
    assert open_workspace().name == "local"
    with pytest.raises(Invalid, match=words) as refused:
        open_workspace("prod")
    assert str(file) in refused.value.sentence


def test_an_unknown_workspace_names_the_known_ones(file):
    file.write_text(AZURE)
    with pytest.raises(Invalid, match="no workspace 'test'") as refused:
        settings.load().find("test")
    assert refused.value.next_step == "Known: local, prod."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workspace = 3", "workspace must be text in quotes, not 3"),
        ("workspaces = 3", "workspaces must be a table"),
        ("[workspaces]\nprod = 3", "workspaces.prod must be a table"),
        ("[local]\npyton = 'x'", "unknown key local.pyton"),
        ("[serving]\npython = 3", "serving.python must be text in quotes"),
        ("colour = 'red'", "unknown key colour"),
        ("[local", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_key(file, text, words):
    file.write_text(text)
    with pytest.raises(Invalid, match=words) as refused:
        settings.load()
    assert str(file) in refused.value.sentence


def test_a_settings_file_that_cannot_be_read_is_a_sentence(file, tmp_path):
    with pytest.raises(Invalid, match="cannot be read: Is a directory"):
        settings.load(tmp_path)
    with pytest.raises(Invalid, match="cannot be read: Input/output error"):
        settings.load(Path("/proc/self/mem"))  # readable by nobody from its start, root or not
    file.write_bytes(b"\xff")
    with pytest.raises(Invalid, match="is not UTF-8"):
        settings.load()


def test_environment_variables_go_before_the_file(file, monkeypatch):
    file.write_text("workspace = 'a'\n[local]\npython = 'file'\n[workspaces.local]\nread_only = true\n")
    assert settings.load().workspace == "a"
    for name, value in (("WORKSPACE", "local"), ("LOCAL_PYTHON", "environment"), ("LOCAL_READ_ONLY", "no")):
        monkeypatch.setenv(f"FOOTPLATE_{name}", value)
    loaded = settings.load()
    assert (loaded.workspace, loaded.local.python, loaded.serving.python) == ("local", "environment", "")
    assert loaded.find("local").read_only


def test_without_a_file_there_is_the_local_workspace(file):
    assert settings.load().find(settings.load().workspace) == settings.WorkspaceSettings("local")


def test_severities_are_read_and_a_wrong_one_names_the_nearest(file):
    assert settings.load().check.severities == {}
    file.write_text("[check.severities]\nunused = 'off'\ndata-missing = 'error'\n")
    assert settings.load().check.severities == {"unused": "off", "data-missing": "error"}
    for text, words, step in (
        ("[check.severities]\nunusde = 'off'", "check.severities.unusde is no code", "Did you mean unused?"),
        ("[check.severities]\nzzz = 'off'", "check.severities.zzz is no code", "names the code of each fault"),
        ("[check.severities]\nunused = 'eror'", "check.severities.unused cannot be 'eror'", "Did you mean 'error'?"),
        ("[check.severities]\nunused = 3", "check.severities.unused cannot be 3", "error, warning, note, off"),
        ("[check.severities]\nunused = ['off']", "check.severities.unused cannot be ['off']", "'off'"),
        ("[check]\nseverity = 'off'", "unknown key check.severity", "Known: severities."),
        ("check = 3", "check must be a table", "[check]"),
        ("[check]\nseverities = 3", "check.severities must be a table", "[check.severities]"),
    ):
        file.write_text(text)
        with pytest.raises(Invalid) as refused:
            settings.load()
        assert words in refused.value.sentence
        assert str(file) in refused.value.sentence
        assert step in refused.value.next_step


def test_the_nodes_of_local_come_from_the_file_and_the_environment_goes_before(file, monkeypatch):
    assert settings.load().local.nodes == 0
    file.write_text("[local]\nnodes = 3\n")
    assert settings.load().local.nodes == 3
    monkeypatch.setenv("FOOTPLATE_LOCAL_NODES", "5")
    assert settings.load().local.nodes == 5


@pytest.mark.parametrize("value", ["-1", "101", "1.5", "true", "'2'"])
def test_nodes_that_are_no_number_of_nodes_are_refused(file, value):
    file.write_text(f"[local]\nnodes = {value}\n")
    with pytest.raises(Invalid, match=r"local\.nodes must be a whole number from 0 to 100"):
        settings.load()


@pytest.mark.parametrize("value", ["-1", "101", "1.5", "", "two"])
def test_nodes_of_the_environment_that_are_none_are_refused_by_the_variables_name(file, monkeypatch, value):
    monkeypatch.setenv("FOOTPLATE_LOCAL_NODES", value)
    with pytest.raises(Invalid, match="FOOTPLATE_LOCAL_NODES must be a whole number"):
        settings.load()
