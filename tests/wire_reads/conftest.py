"""A server that speaks Azure ML's wire format, and footplate's workspace on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.wire import WireServer, running_server

from footplate import settings
from footplate.azure.workspace import AzureWorkspace
from footplate.workspace.open import open_workspace


@pytest.fixture
def wire() -> Iterator[WireServer]:
    """A server in a thread of its own, with nothing in its workspace."""
    with running_server() as server:
        yield server


@pytest.fixture
def config(wire: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file whose workspace `wire` is the server's, and a variable that holds its token."""
    file = tmp_path / "config.toml"
    file.write_text(f'workspace = "wire"\n\n{wire.settings("wire")}\n')
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(file))
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_WIRE_TOKEN", wire.token)
    monkeypatch.delenv("FOOTPLATE_WORKSPACE", raising=False)
    return file


@pytest.fixture
async def azure(config: Path) -> AsyncIterator[AzureWorkspace]:
    """The workspace, as the console opens it."""
    workspace = open_workspace("wire", settings.load(config))
    assert isinstance(workspace, AzureWorkspace)
    yield workspace
    await workspace.close()
