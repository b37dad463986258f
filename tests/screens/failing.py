"""Ended and running jobs with logs of several ranks, put into a home as a supervisor would leave them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from footplate.local.store import Store, now

RAISED = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/job/train.py", line 41, in <module>
[rank1]:     main()
[rank1]:   File "/job/train.py", line 30, in main
[rank1]:     img = load(path)
[rank1]: ValueError: cannot decode 'data/class_b/007.png'
"""
LOST = """\
Traceback (most recent call last):
  File "/job/train.py", line 44, in main
    dist.barrier()
RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:41221
"""


def steps(rank: int, count: int = 40, every: float = 1.0) -> str:
    """Lines of a training with their times, a little later for each rank."""
    lines = []
    for step in range(count):
        second = step * every + rank / 100
        lines.append(
            f"2026-12-01 10:{int(second // 60):02}:{second % 60:06.3f} epoch {step // 10 + 1}/4 step {step} loss 0.5\n".replace(
                ".", ",", 1
            )
        )
    return "".join(lines)


def add_job(
    home: Path,
    name: str,
    status: str,
    logs: Mapping[str, str],
    ends: Mapping[int, int] | None = None,
    error: str = "",
    ranks: int = 1,
    nodes: int = 1,
    age_seconds: float = 60.0,
) -> Path:
    """A job with these log files; gives its folder. One that runs seems to be looked after by another machine."""
    store = Store(home)
    store.prepare()
    ended = None if status == "Running" else now()
    with store.write() as db:
        db.execute(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, started, ended, error,"
            " nodes, ranks_per_node, command, plan, host)"
            " VALUES (?, ?, 'command', ?, 'birds', 'local', ?, ?, ?, ?, ?, ?, 'python train.py', '{}', 'elsewhere')",
            (name, name, status, now() - age_seconds, now() - age_seconds, ended, error or None, nodes, ranks),
        )
        for rank, code in (ends or {}).items():
            db.execute(
                "INSERT INTO rank (job, rank, pid, started, exit_code) VALUES (?, ?, 1, 1, ?)", (name, rank, code)
            )
    folder = home / "jobs" / name
    for path, text in logs.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def rank_log(rank: int) -> str:
    """The path of a rank's log."""
    return f"user_logs/std_log_process_{rank}.txt"


def pair(home: Path, count: int = 2) -> Path:
    """A job of so many ranks that failed on rank 1."""
    logs = {rank_log(rank): steps(rank) + (RAISED if rank == 1 else LOST) for rank in range(count)}
    logs["system_logs/supervisor.log"] = "2 ranks run, the port of rank 0 is 29500.\n"
    ends = {rank: 1 for rank in range(count)}
    error = "rank 1: ValueError: cannot decode 'data/class_b/007.png' (exit code 1)"
    return add_job(home, "pair", "Failed", logs, ends, error, ranks=count)
