"""A log on Azure, read as it grows, through everything that can happen to it: the bytes are those that were served."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from tests.wire import faults

from footplate.workspace import NotAllowed, NotFound

LOG = "user_logs/std_log.txt"
BLOB = "/blob/.*std_log.txt"


async def follow(workspace, job: str, path: str = LOG, *, piece: int = 1 << 16, until: int) -> bytes:
    """What a follower has at the end: a chunk with offset 0 begins another file."""
    held = bytearray()
    while len(held) < until:
        chunk = await workspace.read_log(job, path, len(held), piece)
        if chunk.offset != len(held):
            held = held[: chunk.offset]
        held += chunk.data
        await asyncio.sleep(0)
    return bytes(held)


def lines(count: int, word: bytes = b"epoch") -> bytes:
    return b"".join(b"%s %07d loss 0.1234\r\n" % (word, number) for number in range(count))


async def test_a_log_is_followed_through_all_that_can_happen(wire, azure, monkeypatch):
    data = lines(40_000)
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, data)
    wire.faults.add("GET", BLOB, faults.cut(1000), skip=2)
    wire.faults.add("GET", BLOB, faults.fail(500), skip=4)
    wire.faults.add("GET", BLOB, faults.fail("expired"), skip=5)
    wire.faults.add("GET", "/details", faults.fail("token"), skip=1)
    assert await follow(azure, "wren", until=len(data)) == data
    wire.expire_addresses()
    grown = data + lines(100, b"more")
    wire.seed.log("wren", LOG, grown)
    chunk = await azure.read_log("wren", LOG, len(data), 1 << 20)
    assert data + chunk.data == grown
    assert all(rule.hits == 1 for rule in wire.faults.rules)


async def test_a_hundred_megabytes_are_equal_to_those_served(wire, azure):
    data = lines(3_750_000)
    assert len(data) > 100_000_000
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, data)
    wire.faults.add("GET", BLOB, faults.cut(100_000), skip=3)
    wire.faults.add("GET", BLOB, faults.fail("expired"), skip=8)
    got = await follow(azure, "wren", piece=4 << 20, until=len(data))
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("count", [10, 500, 5000])
async def test_a_replaced_file_is_read_from_its_first_byte(wire, azure, count):
    """Shorter, of the same length, or longer than the one before."""
    old, new = lines(500, b"first"), lines(count, b"other")
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, old)
    held = await follow(azure, "wren", until=len(old))
    wire.replace_log("wren", LOG, new)
    chunk = await azure.read_log("wren", LOG, len(held), 1 << 20)
    assert (chunk.offset, chunk.data, chunk.total) == (0, new, len(new))


async def test_nothing_new_is_no_bytes_and_the_same_total(wire, azure):
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, b"0123456789")
    wire.seed.log("wren", "user_logs/empty.txt", b"")
    for offset, limit, data in ((0, 4, b"0123"), (4, 100, b"456789"), (10, 100, b""), (10, 100, b""), (3, 4, b"3456")):
        chunk = await azure.read_log("wren", LOG, offset, limit)
        assert (chunk.offset, chunk.data, chunk.total) == (offset, data, 10)
    for _ in range(2):
        chunk = await azure.read_log("wren", "user_logs/empty.txt", 0, 10)
        assert (chunk.offset, chunk.data, chunk.total) == (0, b"", 0)


async def test_a_look_at_a_log_is_one_request_to_storage_without_a_token(wire, azure):
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, lines(10))
    await azure.read_log("wren", LOG, 0, 100)
    wire.requests.clear()
    await azure.read_log("wren", LOG, 100, 100)
    assert [seen.path.partition("/ExperimentRun")[0] for seen in wire.requests] == ["/blob/azureml"]


async def test_a_look_at_a_job_and_at_its_files_is_one_request_to_run_history(wire, azure):
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, b"x")
    await azure.job("wren")
    await azure.log_files("wren")
    assert len([seen for seen in wire.requests if seen.path.endswith("/details")]) == 1


async def test_a_firewall_and_a_missing_role_stop_and_name_the_role(wire, azure):
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, b"x")
    wire.faults.add("GET", BLOB, faults.fail("firewall"), times=None)
    with pytest.raises(NotAllowed, match="firewall or private link") as refused:
        await azure.read_log("wren", LOG, 0, 10)
    assert "Storage Blob Data Reader" in refused.value.next_step
    assert "sig" not in f"{refused.value} {refused.value.raw}"
    assert len([seen for seen in wire.requests if seen.path.startswith("/blob")]) == 1


async def test_an_address_that_is_always_old_ends_in_a_sentence(wire, azure):
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, b"x")
    wire.faults.add("GET", BLOB, faults.fail("expired"), times=None)
    with pytest.raises(Exception, match="clock"):
        await azure.read_log("wren", LOG, 0, 10)


async def test_log_files_come_user_logs_first_and_ranks_in_order(wire, azure):
    wire.seed.job("many", "Running")
    ranks = [f"user_logs/std_log_process_{rank:02d}.txt" for rank in range(11)]
    rest = ["logs/extra.log", "azureml-logs/20_image_build_log.txt", "system_logs/lifecycler/lifecycler.log"]
    for path in [*rest, *reversed(ranks)]:
        wire.seed.log("many", path, b"x")
    assert [file.path for file in await azure.log_files("many")] == ranks + rest
    wire.seed.job("early", "Preparing")
    for path in (ranks[0], rest[1]):
        wire.seed.log("early", path, b"x")
    assert (await azure.log_files("early"))[0].path == "azureml-logs/20_image_build_log.txt"
    with pytest.raises(NotFound, match="no log file 'user_logs/other"):
        await azure.read_log("many", "user_logs/other.txt", 0, 10)


async def test_a_log_that_comes_later_is_found(wire, azure):
    wire.seed.job("wren", "Running")
    with pytest.raises(NotFound):
        await azure.read_log("wren", LOG, 0, 10)
    wire.seed.log("wren", LOG, b"hello")
    assert (await azure.read_log("wren", LOG, 0, 10)).data == b"hello"
