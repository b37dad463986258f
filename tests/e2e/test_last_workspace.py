"""The console opens the workspace that was opened last, unless something says another, and tells which."""

from __future__ import annotations

import sys

import pytest
from tests.at_work import until
from tests.commands import Footplate
from tests.terminal import Terminal

from footplate import last_workspace

CONSOLE = (sys.executable, "-m", "footplate")
SETTINGS = '[workspaces.aviary]\nkind = "local"\n'


@pytest.fixture
def footplate(tmp_path, monkeypatch):
    made = Footplate(tmp_path)
    made.settings.write_text(SETTINGS)
    monkeypatch.setenv("FOOTPLATE_HOME", str(made.home))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(made.settings))
    monkeypatch.delenv("FOOTPLATE_WORKSPACE", raising=False)
    return made


def test_the_next_console_opens_the_same_workspace_and_says_so(footplate):
    with Terminal([*CONSOLE, "--workspace", "aviary"], environment=footplate.environment) as terminal:
        terminal.read_until(b"No jobs yet")
        until((footplate.home / "state" / "workspace").exists)
        terminal.write("q")
        assert terminal.wait() == 0
    with Terminal(CONSOLE, environment=footplate.environment, columns=110) as terminal:
        terminal.read_until(b"This is workspace aviary, as last time")
        terminal.write("q")
        assert terminal.wait() == 0


def test_what_the_settings_or_the_environment_say_goes_before_and_what_is_gone_is_forgotten(footplate, monkeypatch):
    assert last_workspace.remembered() is None
    last_workspace.remember("aviary")
    assert last_workspace.remembered() == "aviary"
    monkeypatch.setenv("FOOTPLATE_WORKSPACE", "local")
    assert last_workspace.remembered() is None
    monkeypatch.delenv("FOOTPLATE_WORKSPACE")
    footplate.settings.write_text(f'workspace = "local"\n{SETTINGS}')
    assert last_workspace.remembered() is None
    footplate.settings.write_text("")
    assert last_workspace.remembered() is None  # it is in the settings no more
    last_workspace.remember("local")
    assert last_workspace.remembered() is None  # it opens anyway


def test_a_last_workspace_that_cannot_be_opened_gives_way_to_the_usual_one(footplate):
    last_workspace.remember("aviary")
    footplate.settings.write_text('[workspaces.aviary]\nkind = "moon"\n')
    with Terminal(CONSOLE, environment=footplate.environment, columns=110) as terminal:
        terminal.read_until(b"Workspace aviary, of last time, cannot be opened")
        terminal.write("q")
        assert terminal.wait() == 0
