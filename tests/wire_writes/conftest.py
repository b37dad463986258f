"""A server that speaks Azure ML's wire format, and footplate's workspace on it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.commands import Footplate
from tests.wire import WireServer, running_server

from footplate import settings
from footplate.azure.workspace import AzureWorkspace
from footplate.workspace.open import open_workspace

SIZE = "Standard_NC4as_T4_v3"
"""What models are deployed on."""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wire() -> Iterator[WireServer]:
    """A server in a thread of its own, whose clock runs a hundred times as fast; one for the tests of a file."""
    with running_server(speed=100.0) as server:
        server.seed.cluster("cpu")
        server.seed.data("birds")
        yield server


@pytest.fixture(scope="module")
def folder(wire: WireServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with copies of the templates and their code, and the settings of workspace `wire`."""
    place = tmp_path_factory.mktemp("writes")
    for name in ("jobs", "trainer"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "config.toml").write_text(f'workspace = "wire"\n\n{wire.settings("wire")}\ndeployment_size = "{SIZE}"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOOTPLATE_CONFIG", str(place / "config.toml"))
        patch.setenv("FOOTPLATE_HOME", str(place / "home"))
        patch.setenv("FOOTPLATE_WIRE_TOKEN", wire.token)
        patch.delenv("FOOTPLATE_WORKSPACE", raising=False)
        yield place


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def azure(folder: Path) -> AsyncIterator[AzureWorkspace]:
    """The workspace, as the console opens it; one for the tests of a file, for its process takes seconds to start."""
    workspace = open_workspace("wire", settings.load(folder / "config.toml"))
    assert isinstance(workspace, AzureWorkspace)
    yield workspace
    await workspace.close()


@pytest.fixture
def footplate(folder: Path) -> Footplate:
    """The commands as processes."""
    return Footplate(folder)
