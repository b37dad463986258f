"""The line that says how far a transfer is: on a terminal alone, written over, gone at the end."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace

import pytest

from footplate.cli import progress
from footplate.workspace.model import Uploading


class Screen(io.StringIO):
    """A terminal of one line."""

    def isatty(self) -> bool:
        return True

    def line(self) -> str:
        """What stands on the line: each writing begins at its left end."""
        shown = ""
        for text in self.getvalue().split("\r"):
            shown = text + shown[len(text) :]
        return shown.rstrip()


@pytest.fixture
def screen(monkeypatch):
    found = Screen()
    # The module's own `sys`: pytest puts its stderr in the place of any other between a fixture and its test.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    return found


def test_it_is_written_over_and_gone_at_the_end(screen):
    with progress.Transfer("downloading birds") as line:
        line(10_000_000, 20_000_000)
        assert screen.line() == "downloading birds 10.0 MB of 20.0 MB"
        line(5, None)
        assert screen.line() == "downloading birds, 5 B so far"
    assert screen.line() == ""
    assert "\n" not in screen.getvalue()


def test_a_name_from_outside_sends_no_control_character(screen):
    with progress.Transfer("downloading \x1b[31mred\x07") as line:
        line(1, 2)
    assert not set(screen.getvalue()) & {"\x1b", "\x07"}


def test_a_file_or_pipe_gets_nothing(monkeypatch):
    plain = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=plain))
    with progress.Transfer("downloading") as line:
        line(1, 2)
    assert plain.getvalue() == ""


async def test_an_upload_is_told_while_the_work_goes_on_and_its_result_and_fault_come_through(screen):
    class Workspace:
        @property
        def upload(self) -> Uploading:
            looked.set()
            return Uploading("trainer", 3_000_000, 10_000_000)

    async def work() -> str:
        await looked.wait()
        await looked_again()
        return "done"

    async def looked_again() -> None:
        looked.clear()
        await looked.wait()

    workspace, looked = Workspace(), asyncio.Event()

    async def fault() -> None:
        raise ValueError("no")

    async with asyncio.timeout(10):
        assert await progress.with_upload(workspace, work()) == "done"
    assert "uploading 3.0 MB of 10.0 MB" in screen.getvalue()
    with pytest.raises(ValueError, match="no"):
        await progress.with_upload(workspace, fault())
    assert screen.line() == ""


async def test_work_ends_with_the_command(screen):
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(progress.with_upload(SimpleNamespace(upload=None), work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await ended.wait()
