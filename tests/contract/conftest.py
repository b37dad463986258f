"""The workspaces that the contract is held against: `ground` is each of them in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest
import pytest_asyncio
from tests.at_work import metrics_store
from tests.contract import grounds

__all__ = ["metrics_store"]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["local", "azure"])
async def ground(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[grounds.Ground]:
    """A workspace of each kind, one for the tests of a file: to start them takes seconds."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "local":
        opened: AbstractAsyncContextManager[grounds.Ground] = grounds.local(
            folder, request.getfixturevalue("metrics_store")
        )
    else:
        opened = grounds.azure(folder)
    async with opened as found:
        yield found
