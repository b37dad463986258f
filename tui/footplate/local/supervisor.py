"""The detached process that looks after one job: `python -m footplate.local.supervisor HOME JOB TYPE`.

Nothing in it depends on the console that started it. What it prints goes to the job's `system_logs/supervisor.log`.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from footplate.local.groups import MARK

if TYPE_CHECKING:
    from footplate.local.caretaker import Caretaker


class Signals:
    """Signals as flags: SIGTERM, SIGINT and SIGUSR1 ask for the end, SIGCHLD and SIGCONT wake a pause, SIGHUP does no more."""

    def __init__(self) -> None:
        self._asked = False
        self._woken, waking = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, self._ask)
        for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGCONT):
            signal.signal(number, self._only_wake)

    def asked_to_end(self) -> bool:
        """Whether a signal asked this process to end."""
        return self._asked

    def pause(self, seconds: float) -> None:
        """Wait, but not past the next signal."""
        if select.select([self._woken], [], [], seconds)[0]:
            os.read(self._woken, 4096)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

    def _only_wake(self, _number: int, _frame: FrameType | None) -> None:
        return


def main() -> int:
    """Look after the job named on the command line."""
    if MARK in os.environ:
        # Submitted from inside a job, whose end this job outlives: the same process again, without that job's mark.
        clean = {name: value for name, value in os.environ.items() if name != MARK}
        os.execve(sys.executable, sys.orig_argv, clean)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # a file's name may be anything
    signals = Signals()
    home, name, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    os.chdir("/")  # keeps no folder in use
    return _caretaker(kind)(home, name, signals.asked_to_end, signals.pause).run()


def _caretaker(kind: str) -> type[Caretaker]:
    """What looks after a kind of job, loaded alone: each job has a process of this."""
    if kind == "sweep":
        from footplate.local.sweep.overseer import Overseer

        return Overseer
    if kind == "pipeline":
        from footplate.local.pipeline.overseer import Overseer as PipelineOverseer

        return PipelineOverseer
    from footplate.local.command_job import CommandJob

    return CommandJob


if __name__ == "__main__":
    sys.exit(main())
