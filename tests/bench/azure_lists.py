"""One process that lists jobs from the local Azure server, by footplate or by azure-ai-ml, and prints what it cost.

`python -m tests.bench.azure_lists footplate|sdk cpu|lag COUNT SERVER`: CPU milliseconds of this process, or the milliseconds by
which a loop's ticks came late, of 100 the second slowest. SERVER is the file with what `python -m tests.wire --json` printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TICK_SECONDS = 0.002


def _server(file: Path) -> Any:
    given = json.loads(file.read_text())
    parts = given["workspace"].split("/")
    metadata = ("azure_portal", "resource_manager", "active_directory", "aml_resource_id", "storage_endpoint")
    return SimpleNamespace(
        token=given["token"],
        ca_file=given["ca_file"],
        subscription_id=parts[2],
        resource_group=parts[4],
        workspace_name=parts[8],
        port=given["resource_manager"].rpartition(":")[2],
        cloud_metadata={key: given[key] for key in (*metadata, "registry_discovery_endpoint")},
        settings=given["settings"],
    )


async def _ours(count: int) -> int:
    """The first `count` jobs as the console lists them, the local index empty and written."""
    from footplate.workspace import JobFilter
    from footplate.workspace.open import open_workspace

    found = 0
    workspace = open_workspace("wire")
    async for page in workspace.jobs(JobFilter()):
        found += len(page)
        if found >= count:
            break
    await workspace.close()
    return found


async def _warm() -> None:
    """Load what is loaded once, connect, and let the token be taken."""
    from footplate.workspace.open import open_workspace

    workspace = open_workspace("wire")
    await workspace.data_assets()
    await workspace.close()


async def _lag(work: Callable[[], Any]) -> float:
    late: list[float] = []
    done = asyncio.Event()

    async def tick() -> None:
        while not done.is_set():
            before = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            late.append((time.perf_counter() - before - TICK_SECONDS) * 1000)

    ticking = asyncio.create_task(tick())
    await work()
    done.set()
    await ticking
    return statistics.quantiles(late, n=100, method="inclusive")[98]


def _footplate(what: str, count: int) -> float:
    async def inside() -> float:
        await _warm()
        if what == "lag":
            return await _lag(lambda: _ours(count))
        before = time.process_time()
        assert await _ours(count) >= count
        return (time.process_time() - before) * 1000

    return asyncio.run(inside())


def _sdk(what: str, count: int, server: Any) -> float:
    from tests.wire.client import real_client

    with real_client(server) as ml:
        next(iter(ml.jobs.list()))

        def work() -> None:
            assert sum(1 for _ in islice(ml.jobs.list(), count)) == count

        if what == "lag":
            return asyncio.run(_lag(lambda: asyncio.to_thread(work)))
        before = time.process_time()
        work()
        return (time.process_time() - before) * 1000


def main() -> None:
    who, what, count, file = sys.argv[1:]
    server = _server(Path(file))
    folder = Path(os.environ["FOOTPLATE_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(server.settings)
    os.environ |= {"FOOTPLATE_CONFIG": str(folder / "config.toml"), "FOOTPLATE_WIRE_TOKEN": server.token}
    print(_footplate(what, int(count)) if who == "footplate" else _sdk(what, int(count), server))


if __name__ == "__main__":
    main()
