"""The copies of logs: no byte twice, another file for a log that was replaced, nothing left of consoles that died."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys

import pytest

from footplate.operations.spool import Spool, Spools
from footplate.workspace import LogChunk, Unreachable


class Held:
    """Serves a log in pieces of four bytes, each when it is let go on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.fault: Exception | None = None

    async def read_log(self, job: str, path: str, offset: int, limit: int) -> LogChunk:
        await self.go_on.wait()
        if self.fault:
            raise self.fault
        if offset > len(self.data):
            offset = 0
        return LogChunk(offset, self.data[offset : offset + 4], len(self.data))


def pid_of_one_that_ended() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


async def test_a_step_whose_caller_goes_away_is_not_taken_twice(tmp_path):
    held = Held(b"0123456789")
    spool = Spool(held, "wren", "log", tmp_path / "copies" / "a.log")
    assert await spool.step()
    held.go_on.clear()
    left = asyncio.create_task(spool.step())
    await asyncio.sleep(0)
    left.cancel()
    joined = asyncio.create_task(spool.step())
    await asyncio.sleep(0)
    held.go_on.set()
    assert await joined
    assert not await spool.step()
    assert (spool.file.read_bytes(), spool.total) == (b"0123456789", 10)


async def test_after_a_fault_it_goes_on_at_the_same_byte(tmp_path):
    held = Held(b"01234567")
    spool = Spool(held, "wren", "log", tmp_path / "a.log")
    await spool.step()
    held.fault = Unreachable("The line is cut.")
    with pytest.raises(Unreachable):
        await spool.step()
    held.fault = None
    assert not await spool.step()
    assert spool.file.read_bytes() == b"01234567"


async def test_what_a_full_disk_took_of_a_piece_is_not_there_twice(tmp_path):
    held = Held(b"01234567")
    spool = Spool(held, "wren", "log", tmp_path / "a.log")
    await spool.step()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            await spool.step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert spool.file.read_bytes() == b"012345"
    while await spool.step():
        pass
    assert spool.file.read_bytes() == b"01234567"


async def test_a_replaced_log_is_another_file_for_whoever_has_the_old_one_open(tmp_path):
    held = Held(b"01234567")
    spool = Spool(held, "wren", "log", tmp_path / "a.log")
    while await spool.step():
        pass
    with spool.file.open("rb") as old:
        held.data = b"new"
        await spool.step()
        assert old.read() == b"01234567"
        assert os.fstat(old.fileno()).st_ino != spool.file.stat().st_ino
    assert spool.file.read_bytes() == b"new"


async def test_copies_go_with_their_console_and_with_the_next_one_where_it_died(tmp_path):
    ended = pid_of_one_that_ended()
    dead = tmp_path / f"{socket.gethostname()}@{ended}-x"
    alive = tmp_path / f"{socket.gethostname()}@{os.getpid()}-x"
    elsewhere = tmp_path / f"other-host@{ended}-x"
    for folder in (dead, alive, elsewhere):
        folder.mkdir()
    spools = Spools(Held(b"0123"), tmp_path)
    spool = await spools.of("wren", "user_logs/std_log.txt")
    assert await spools.of("wren", "user_logs/std_log.txt") is spool
    assert (await spools.of("wren", "user_logs/other.txt")).file != spool.file
    await spool.step()
    assert spool.file.stat().st_mode & 0o077 == 0 or spool.file.parent.stat().st_mode & 0o077 == 0
    spools.close()
    assert sorted(tmp_path.iterdir()) == sorted([alive, elsewhere])
