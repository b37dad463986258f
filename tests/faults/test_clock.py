"""A clock that was set back: what was written before lies in the future; nothing is negative, out of line or kept for ever."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests import served
from tests.at_work import all_jobs, ended, job_file, until_job
from tests.commands import Inside

from footplate.local.gateway_figures import FILE, Counters, read_figures
from footplate.local.store import Store, now
from footplate.workspace import ClusterSpec, JobFilter

DAY = 86400.0
UNTIL_GO = "until test -e outputs/go; do sleep 0.05; done"


async def test_a_job_over_whose_run_the_clock_was_set_back_ends_and_took_no_negative_time(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, UNTIL_GO, "limits: {timeout: 600}\n"), "long")
    await until_job(workspace, "long", lambda job: job.status == "Running")
    with Store(home).write() as db:  # what was written by the clock as it was
        db.execute("UPDATE job SET created = created + ?, started = started + ?", (DAY, DAY))
    await workspace.submit(job_file(tmp_path, "true"), "after")
    assert (await ended(workspace, "after")).status == "Completed"
    (home / "jobs" / "long" / "outputs" / "go").touch()
    job = await ended(workspace, "long")
    assert (job.status, job.seconds()) == ("Completed", 0.0)
    command = Inside(tmp_path)
    listed = await asyncio.to_thread(command.json, "jobs")
    assert [(one["name"], one["duration_s"] >= 0) for one in listed] == [("long", True), ("after", True)]
    for words in (("jobs",), ("job", "long")):
        assert (await asyncio.to_thread(command, *words)).returncode == 0


async def test_idle_nodes_scale_down_though_they_were_freed_in_the_future(workspace, home, tmp_path):
    await workspace.create_cluster(ClusterSpec("birds", "cores-1", 0, 2, 600))
    await workspace.submit(job_file(tmp_path, "true", "compute: birds\n"), "one")
    await ended(workspace, "one")
    assert len(await workspace.nodes("birds")) == 1
    with Store(home).write() as db:
        db.execute("UPDATE node SET freed = freed + ?", (365 * DAY,))
    assert await workspace.nodes("birds") == []


async def test_pages_hold_every_job_once_though_they_were_not_created_in_order(workspace, home):
    with Store(home).write() as db:
        db.executemany(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, ended, nodes, ranks_per_node, "
            "command, plan) VALUES (?, ?, 'command', 'Completed', 'x', 'local', ?, 1, 1, 1, 'true', '{}')",
            [(f"j{i}", f"j{i}", now() + (DAY if i % 3 else -DAY) + i % 7) for i in range(2500)],
        )
    names = [job.name for job in await all_jobs(workspace, JobFilter())]
    assert len(names) == 2500
    assert len(set(names)) == 2500


def test_an_endpoint_whose_creation_was_cut_short_is_stopped_whatever_the_clock_says(tmp_path):
    with served.workspace(tmp_path / "home") as (store, endpoints):
        with store.write() as db:
            db.execute("INSERT INTO endpoint (name, state, created) VALUES ('birds', 'Creating', ?)", (now() + DAY,))
        found = endpoints.endpoint("birds")
        assert found.state == "Stopped"
        assert "footplate endpoint start birds" in found.error


@pytest.mark.parametrize("shift", [DAY, -DAY])
def test_figures_of_a_future_hour_do_not_stay(tmp_path, shift):
    minute = int((now() + shift) // 60 * 60)
    (tmp_path / FILE).write_text(json.dumps({"blue": {minute: {"requests_per_minute": 3}}}))
    counters = Counters(tmp_path)
    counters.count("blue", 200, 0.1)
    counters.write()
    assert [figures["requests_per_minute"] for figures in read_figures(tmp_path)["blue"].values()] == [1]
