"""Ending a job's process groups where some of it is not ours to end, and where the watchdog is gone before us."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.at_work import until

from footplate.local import groups, processes, watchdog
from footplate.local.guard import Guard


@pytest.fixture
def group() -> Iterator[groups.Group]:
    """The group of a process with the mark `of tests`, which goes on until it is ended."""
    with subprocess.Popen(["sleep", "600"], process_group=0, env={**os.environ, groups.MARK: "of tests"}) as process:
        yield groups.Group.of(process.pid)
        process.kill()


@pytest.fixture
def not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals are refused, as to what `sudo` started."""

    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "killpg", refuse)
    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)


@pytest.mark.usefixtures("not_permitted")
def test_another_users_process_is_left_behind_without_a_fault(group):
    groups.end([group], 0.0)
    groups.kill_leftovers([group], "of tests")
    assert not watchdog.signal_groups({group.pid: group.started}, 0)
    assert processes.alive(group.pid, group.started)


def test_processes_that_the_system_hides_are_passed_over(group, monkeypatch):
    read = Path.read_text

    def hiding(path: Path, *args: Any, **more: Any) -> str:
        if str(path).startswith("/proc/") and str(path) != f"/proc/{group.pid}/stat":
            raise PermissionError(1, "Operation not permitted", str(path))
        return read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", hiding)
    assert groups.members([group]) == {group.pid: group.pid}
    assert processes.start_time(os.getpid()) is None
    assert not processes.stopped(os.getpid())


def test_a_watchdog_that_was_killed_keeps_no_job_from_its_end(group, capsys):
    with Guard() as guard:
        (pid,) = [pid for pid in groups.children() if b"watchdog" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(pid, signal.SIGKILL)
        until(lambda: processes.start_time(pid) is None)
        guard.add(group)
        guard.clear()
    assert "The watchdog is gone" in capsys.readouterr().out
