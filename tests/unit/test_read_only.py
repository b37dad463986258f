"""A read-only workspace: every method of the contract is a read, or refused."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from footplate.workspace import NotAllowed, NotFound, Workspace
from footplate.workspace.open import open_workspace
from footplate.workspace.read_only import FACTS, READS, read_only

METHODS = {
    name for name, member in inspect.getmembers(Workspace) if inspect.isfunction(member) and not name.startswith("_")
}
CHANGES = {
    "submit",
    "cancel",
    "delete_job",
    "rehearse",
    "register",
    "delete_model",
    "create_endpoint",
    "start_endpoint",
    "delete_endpoint",
    "deploy",
    "create_cluster",
    "update_cluster",
    "delete_cluster",
    "archive",
    "restore",
    "update_job",
    "regenerate_key",
    "set_traffic",
    "set_mirror",
    "create_endpoint_from",
    "deploy_from",
    "scale",
    "delete_deployment",
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("FOOTPLATE_WORKSPACE", raising=False)
    return tmp_path / "config.toml"


def test_every_method_of_the_contract_is_a_read_or_a_change():
    """A method that is new in the contract fails here until somebody says which it is."""
    assert not READS & CHANGES
    assert METHODS == READS | CHANGES


@pytest.mark.parametrize("name", sorted(METHODS))
async def test_a_method_is_the_workspaces_own_read_or_refused(settings, name):
    inner = open_workspace("local")
    guarded = read_only(inner)
    if name in READS:
        assert getattr(guarded, name) == getattr(inner, name)
    else:
        with pytest.raises(NotAllowed, match=name.replace("_", " ")) as refused:
            await getattr(guarded, name)("x", "y", "z")
        assert "--read-only" in refused.value.next_step
    await inner.close()


def test_a_method_that_nobody_listed_is_refused(settings, monkeypatch):
    monkeypatch.setattr(Workspace, "restart_everything", lambda self: None, raising=False)
    guarded = read_only(open_workspace("local"))
    with pytest.raises(NotAllowed):
        guarded.restart_everything().send(None)
    with pytest.raises(AttributeError):
        _ = guarded._store
    assert not hasattr(guarded, "no_such_thing")


async def test_read_only_in_the_settings_holds_for_whoever_opens_the_workspace(settings):
    settings.write_text("[workspaces.local]\nread_only = true\n[workspaces.other]\nkind = 'local'\n")
    workspace = open_workspace()
    assert workspace.read_only
    assert {fact: getattr(workspace, fact) for fact in FACTS} == {
        "name": "local",
        "kind": "local",
        "capabilities": {},
        "poll_seconds": 0.25,
        "newest_jobs": None,
        "place": "LOCAL",
        "signed_in_by": "",
        "reads_left": None,
        "upload": None,
        "deployment_size": "",
    }
    with pytest.raises(NotFound):
        await workspace.job("nope")
    with pytest.raises(NotAllowed) as refused:
        await workspace.cancel("nope")
    assert "[workspaces.local]" in refused.value.next_step
    assert read_only(workspace) is workspace
    other = open_workspace("other")
    assert not other.read_only
    with pytest.raises(NotFound):
        await other.cancel("nope")
