"""Ten thousand finished jobs: new ones come, die and are set right beside them, and no page loses or repeats one."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.at_work import WAIT, all_jobs, ended, job_file, supervisor_pid, until_job
from tests.commands import Inside

from footplate.local.store import Store

INSERT = (
    "INSERT INTO job (name, display_name, type, status, experiment, compute, created, ended, parent, nodes, ranks_per_node, "
    "command, plan) VALUES (?, ?, ?, ?, 'x', 'local', ?, ?, ?, 1, 1, 'true', '{}')"
)


async def test_ten_thousand_finished_jobs_lose_none_and_hide_no_fault(workspace, home, tmp_path):
    rows = []
    for number in range(10_000):
        sweep = number % 10 == 0
        name = f"old{number}"
        rows.append((name, name, "sweep" if sweep else "command", "Completed", float(number), number + 1.0, None))
        if sweep:
            rows += [(f"{name}_{t}", name, "command", "Failed", float(number), number + 1.0, name) for t in range(2)]
    with Store(home).write() as db:
        db.executemany(INSERT, rows)
    await workspace.submit(job_file(tmp_path, WAIT), "dies")
    await workspace.submit(job_file(tmp_path, "true"), "new")
    assert (await ended(workspace, "new")).status == "Completed"
    await until_job(workspace, "dies", lambda job: job.status == "Running")
    os.kill(supervisor_pid(home, "dies"), signal.SIGKILL)
    assert (await ended(workspace, "dies")).status == "Failed"
    names = [job.name for job in await all_jobs(workspace)]
    assert names[:2] == ["new", "dies"]
    assert names[2:] == [f"old{number}" for number in reversed(range(10_000))]
    assert [job.name for job in await workspace.children("old9990")] == ["old9990_0", "old9990_1"]
    listed = await asyncio.to_thread(Inside(tmp_path).json, "jobs", "--filter", "status:failed", "--limit", "5")
    assert [job["name"] for job in listed] == ["dies"]
    await workspace.delete_job("old9990")
    assert len(await all_jobs(workspace)) == 10_001
    with Store(home).read() as db:
        assert db.execute("SELECT count(*) FROM job WHERE parent = 'old9990'").fetchone()[0] == 0
