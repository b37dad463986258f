"""The way to a workspace that nothing names: listed, narrowed, chosen, written into the settings, opened."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest
from tests.screens.conditions import until
from tests.terminal import Terminal
from tests.wire import faults
from tests.wire.workspaces import TENANT
from textual.widgets import Input, Static

from footplate import settings
from footplate.app import FootplateApp
from footplate.azure.sign_in import _left
from footplate.operations import connect
from footplate.screens.connect import ConnectApp, ConnectScreen
from footplate.screens.listing import ListScreen
from footplate.screens.sign_in import SignInDialog
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import Invalid, JobFilter
from footplate.workspace.account import open_account
from footplate.workspace.errors import Unnamed
from footplate.workspace.open import open_workspace

_NAMES = ("subscription_id", "resource_group", "workspace_name")


@pytest.fixture
def unnamed(wire, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that say which cloud, and not which workspace; three subscriptions, one of them closed."""
    monkeypatch.chdir(tmp_path)
    for variable in ("SUBSCRIPTION_ID", "AZUREML_ARM_SUBSCRIPTION"):
        monkeypatch.delenv(variable, raising=False)
    kept = [line for line in config.read_text().splitlines() if not line.startswith(_NAMES)]
    config.write_text("# mine\n" + "\n".join(kept) + "  # its token\n")
    wire.seed.workspace("second")
    wire.seed.subscription("00000000-0000-0000-0000-0000000000b2", "Research", "birds", "fields")
    wire.seed.subscription("00000000-0000-0000-0000-0000000000c3", "Payroll", closed=True)
    return config


def keys(app) -> list[str]:
    return [row.cells[0] for table in app.screen.query(VirtualTable) for row in table.rows]


def said(app) -> str:
    return "".join(str(line.render()) for line in app.screen.query("#said").results(Static))


async def listed(app, pilot, count: int = 4) -> None:
    await until(pilot, lambda: isinstance(app.screen, ConnectScreen) and len(keys(app)) == count)
    await until(pilot, lambda: "…" not in said(app))


async def test_every_workspace_of_every_subscription_is_found_and_a_closed_one_is_told(wire, unnamed):
    wire.page_size = 1  # all lists come in pages
    account = open_account("wire", settings.load())
    found = [one async for part in account.workspaces() for one in part]
    assert sorted((one.subscription, one.resource_group, one.name, one.region) for one in found) == [
        ("Pay-As-You-Go", "rg", "second", "eastus2"),
        ("Pay-As-You-Go", "rg", "ws", "eastus2"),
        ("Research", "elsewhere", "birds", "westus3"),
        ("Research", "elsewhere", "fields", "westus3"),
    ]
    assert len(account.faults) == 1
    assert "Payroll" in account.faults[0]
    assert account.signed_in_by == "the token in FOOTPLATE_WIRE_TOKEN"
    await account.close()


async def test_a_workspace_that_nothing_names_is_chosen_and_opened(wire, unnamed):
    wire.seed.job("wren", "Completed")
    with pytest.raises(Unnamed) as refused:
        open_workspace("wire")
    app = ConnectApp(refused.value.workspace)
    async with app.run_test(size=(80, 24)) as pilot:
        await listed(app, pilot)
        assert keys(app) == ["birds", "fields", "second", "ws"]
        assert "4 workspaces in 2 subscriptions. Signed in by the token in FOOTPLATE_WIRE_TOKEN." in said(app)
        assert "1 subscription did not answer" in said(app)
        await pilot.press(*"rg eastus")
        assert keys(app) == ["second", "ws"]
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.return_value is not None)
    assert app.return_value == "wire"
    text = unnamed.read_text()
    assert text.startswith("# mine\n")
    assert "  # its token\n" in text
    table = tomllib.loads(text)["workspaces"]["wire"]
    assert [table[key] for key in _NAMES] == [wire.subscription_id, "rg", "ws"]
    opened = open_workspace("wire")
    assert [job.name async for page in opened.jobs(JobFilter()) for job in page] == ["wren"]
    await opened.close()


async def test_from_the_palette_another_workspace_gets_a_table_of_its_own(wire, config):
    wire.seed.subscription("00000000-0000-0000-0000-0000000000b2", "Research", "birds lab")
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        assert "Connect to a workspace" in [command.title for command in app.get_system_commands(app.screen)]
        app.connect()
        await listed(app, pilot, 2)
        await pilot.press("enter")
        await until(pilot, lambda: app.next_workspace is not None)
    assert app.next_workspace == "birds-lab"
    table = settings.load().azure("birds-lab")
    assert (table.workspace_name, table.token_env, table.cloud) == ("birds lab", "FOOTPLATE_WIRE_TOKEN", "custom")
    assert settings.load().workspace == "wire"


async def test_one_that_the_settings_have_is_opened_under_its_name_and_nothing_is_written(wire, config):
    before = config.read_text()
    app = FootplateApp("local")
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        app.push_screen(ConnectScreen("wire", new=True), app.open_workspace)
        await listed(app, pilot, 1)
        await pilot.press("enter")
        await until(pilot, lambda: app.next_workspace == "wire")
    assert config.read_text() == before


async def test_nobody_signed_in_is_asked_for_a_code_and_stays_signed_in(wire, unnamed, monkeypatch, tmp_path):
    kept = [line for line in unnamed.read_text().splitlines() if not line.startswith("token_env")]
    unnamed.write_text("\n".join([*kept, f'tenant_id = "{TENANT}"']))
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
    monkeypatch.setenv("PATH", str(tmp_path))
    wire.seed.job("wren", "Completed")
    app = ConnectApp("wire")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, SignInDialog) and app.screen._code is not None)
        wire.directory.confirm()
        await listed(app, pilot)
        assert "Signed in by a device code." in said(app)
        await pilot.press(*"second", "enter")
        await until(pilot, lambda: app.return_value is not None)
    opened = open_workspace("wire")
    assert (await anext(opened.jobs(JobFilter())))[0].name == "wren"
    assert opened.signed_in_by == "a device code"
    assert len(wire.directory.codes) == 1
    await opened.close()
    assert wire.resource_manager not in [cloud.resource_manager for cloud, *_ in _left]


async def test_a_fault_is_a_sentence_and_looking_again_helps(wire, unnamed):
    rule = wire.faults.add("GET", r"/subscriptions\?", faults.fail("role"), times=None)
    app = ConnectApp("wire")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ConnectScreen) and "You lack the permission" in said(app))
        rule.times = 0
        await pilot.press("ctrl+r")
        await listed(app, pilot)
        await pilot.press("x", "escape")
        assert app.screen.query_one(Input).value == ""
        await pilot.press("escape")
        await until(pilot, lambda: not app.is_running or app._exit)
    assert app.return_value is None


def test_the_console_starts_with_the_choice_and_goes_on_in_the_chosen_workspace(wire, unnamed, tmp_path):
    wire.seed.job("wren-of-second", "Completed")
    command = [sys.executable, "-m", "footplate", "--workspace", "wire"]
    with Terminal(command, columns=120, rows=30, environment=dict(os.environ), folder=tmp_path) as terminal:
        terminal.read_until(b"Signed in by")
        terminal.write("second")
        terminal.read_until(b"s")
        terminal.write("\r")
        terminal.read_until(b"wren-of-second")
        terminal.write("\x10")  # the palette
        terminal.read_until(b"Search")
        terminal.write("connect to")
        terminal.read_until(b"lists those on Azure")
        terminal.write("\r")
        terminal.read_until(b"Signed in by")
        terminal.write("fields")
        terminal.read_until(b"s")
        terminal.write("\r")
        terminal.read_until(b"fields")
        terminal.read_until(b"There is no such subscription")
        terminal.write("q")
        assert terminal.wait() == 0
    written = tomllib.loads(unnamed.read_text())["workspaces"]
    assert (written["wire"]["workspace_name"], written["fields"]["workspace_name"]) == ("second", "fields")


# The settings file


def write(file: Path, name: str = "prod", **table: str) -> None:
    connect.write(file, name, {"kind": "azure", **table})


def test_comments_order_and_mode_of_the_settings_stay(tmp_path):
    file = tmp_path / "dotfiles" / "config.toml"
    file.parent.mkdir()
    before = 'workspace = "local"   # mine\n\n[local]\npython = "/usr/bin/python"\n\n[workspaces.old]\nkind = "azure"\n'
    file.write_text(before)
    file.chmod(0o640)
    (tmp_path / "link.toml").symlink_to(file)
    write(tmp_path / "link.toml", workspace_name='odd "name"\n')
    text = file.read_text()
    assert text.startswith(before)
    assert tomllib.loads(text)["workspaces"]["prod"] == {"kind": "azure", "workspace_name": 'odd "name"\n'}
    assert (tmp_path / "link.toml").is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_settings_that_are_not_there_are_made_for_the_owner_alone(tmp_path):
    write(tmp_path / "new" / "config.toml")
    assert stat.S_IMODE((tmp_path / "new" / "config.toml").stat().st_mode) == 0o600
    assert settings.load(tmp_path / "new" / "config.toml").find("prod").kind == "azure"


@pytest.mark.parametrize("text", ["workspaces = 3\n", "a = [", "[workspaces]\nprod = 1\n"])
def test_settings_that_make_no_sense_are_left_as_they_are(tmp_path, text):
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(Invalid, match="cannot be changed"):
        write(file)
    assert file.read_text() == text


def test_a_name_is_free_and_one_that_toml_and_the_command_line_take(tmp_path):
    file = tmp_path / "config.toml"
    write(file, "birds")
    loaded = settings.load(file)
    assert connect.free_name(loaded, "birds") == "birds-2"
    assert connect.free_name(loaded, "local") == "local-2"
    assert connect.free_name(loaded, "my birds (éa)") == "my-birds-a"
    assert connect.free_name(loaded, "é") == "azure"


def test_the_sign_in_that_worked_is_tried_first_the_next_time(tmp_path, monkeypatch):
    from footplate.azure import sign_in
    from footplate.azure.clouds import CLOUDS

    az = tmp_path / "az"
    az.write_text('#!/bin/sh\necho \'{"accessToken": "from-az", "expires_on": 4070908800}\'\n')
    az.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    memory = sign_in.Memory(tmp_path / "home" / "sign-in.json")
    tried: list[str] = []
    made = sign_in._make
    monkeypatch.setattr(sign_in, "_make", lambda way, *rest: tried.append(way.credential) or made(way, *rest))
    monkeypatch.setattr(sign_in, "_has_identity", lambda _: pytest.fail("the metadata service was asked"))

    def chain(environment: dict[str, str], tenant: str = "") -> sign_in.ChainSource:
        return sign_in.ChainSource(CLOUDS["AzureCloud"], tenant, environment, memory)

    assert chain({"AZURE_TOKEN_CREDENTIALS": "dev"}).token("https://x/.default", None).token == "from-az"
    assert json.loads((tmp_path / "home" / "sign-in.json").read_text()) == {
        "https://login.microsoftonline.com": "AzureCliCredential"
    }
    tried.clear()
    assert chain({}).token("https://x/.default", None).token == "from-az"
    assert tried == ["AzureCliCredential"]
    order = [way.credential for way in chain({"AZURE_CLIENT_ID": "a", "AZURE_TENANT_ID": "b"})._in_order()]
    assert order[:2] == ["EnvironmentCredential", "AzureCliCredential"]
    assert next(way.credential for way in chain({}, "another tenant")._in_order()) == "EnvironmentCredential"
    assert [way.credential for way in chain({"AZURE_TOKEN_CREDENTIALS": "prod"})._in_order()][-1].startswith("Managed")
    (tmp_path / "home" / "sign-in.json").write_text("[broken")
    assert memory.last(CLOUDS["AzureCloud"], "") == ""
    memory.keep(CLOUDS["AzureCloud"], "", "AzureCliCredential")
    assert memory.last(CLOUDS["AzureCloud"], "") == "AzureCliCredential"
