"""The server as a process: prints the settings that open it, and serves until it is interrupted.

`python -m tests.wire [--speed 10] [--jobs 5000] [--port 0] [--token-file FILE] [--settings-file FILE]`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path

from tests.wire.server import WireServer


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.wire", description="A small Azure ML on this machine.")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast as time its clock goes")
    parser.add_argument("--jobs", type=int, default=0, help="so many jobs besides the demo's")
    parser.add_argument("--empty", action="store_true", help="nothing but sizes, quota, datastores, environments")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--page-size", type=int, default=100)
    parser.add_argument("--limits", action="store_true", help="hold clients to the rate limits")
    parser.add_argument("--settings-file", type=Path, help="write the settings there as well")
    parser.add_argument("--json", action="store_true", help="print one JSON line instead of the settings")
    return parser.parse_args()


async def _serve(given: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    wire = WireServer(
        speed=given.speed,
        operation_polls=None,
        page_size=given.page_size,
        limits_enforced=given.limits,
        port=given.port,
    )
    async with wire:
        if not given.empty:
            wire.seed.demo()
        if given.jobs:
            wire.seed.jobs(given.jobs, prefix="old")
        settings = wire.settings()
        if given.settings_file:
            given.settings_file.write_text(settings + "\n")
        if given.json:
            addresses = {"token": wire.token, "ca_file": str(wire.ca_file), "settings": settings, **wire.cloud_metadata}
            print(json.dumps({"workspace": wire.state.ws, **addresses}), flush=True)
        else:
            print(f"{settings}\n\n# export FOOTPLATE_WIRE_TOKEN={wire.token}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(_arguments()))
    sys.exit(0)
