"""Rehearsals: a preempted node, a killed rank, a stopped heartbeat and a full quota, each as Azure would show it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.at_work import WAIT, ended, job_file, log, ranks, until_job
from tests.commands import Inside

from footplate.local.rehearsals import Rehearsals
from footplate.local.store import Store
from footplate.workspace import ClusterSpec, Conflict, Invalid, NotFound
from footplate.workspace.contract import REHEARSALS

SPEC = ClusterSpec("birds", "cores-1", 0, 2, 1000, "LowPriority")
ON_BIRDS = "compute: birds\nresources: {instance_count: 2}\n"

TRAINING = """
epoch=$(cat outputs/checkpoint-$RANK 2>/dev/null || echo 0)
[ -e scratch ] && echo scratch is still here; touch scratch
echo resumes at $epoch
while [ $epoch -lt 2 ]; do
  epoch=$((epoch + 1)); echo $epoch > outputs/new-$RANK; mv outputs/new-$RANK outputs/checkpoint-$RANK
  [ $epoch = 1 ] && while [ ! -e outputs/again ]; do sleep 0.05; done
done; echo trained
"""
"""A training that writes checkpoints into its outputs; after the first epoch it waits, the first time for ever."""


async def running(workspace, name):
    return await until_job(workspace, name, lambda job: job.status == "Running")


async def test_a_preempted_job_loses_its_folders_and_goes_on_from_its_outputs(workspace, home, tmp_path):
    await workspace.create_cluster(SPEC)
    await workspace.submit(job_file(tmp_path, TRAINING, ranks(1) + ON_BIRDS), "trained")
    outputs = home / "jobs" / "trained" / "outputs"
    await running(workspace, "trained")
    checkpoints = [outputs / f"checkpoint-{rank}" for rank in range(2)]
    await until_job(workspace, "trained", lambda _: all(file.exists() for file in checkpoints))
    said = await workspace.rehearse("trained", "preempt")
    assert "goes back into line" in said
    job = await ended(workspace, "trained")
    assert (job.status, job.error) == ("Completed", None)
    assert job.note == "a node was preempted (a rehearsal), and it ran again from its start"
    names = [stage.name for stage in job.stages]
    assert names == ["Queued", "Preparing", "Running", "Queued", "Preparing", "Running", "Finalizing"]
    for rank in range(2):
        text = await log(workspace, "trained", f"user_logs/std_log_process_{rank}.txt")
        assert "scratch is still here" not in text
        assert "[footplate] a node was preempted here" in text
        assert text.splitlines()[-1] == "trained"
    assert "resumes at 1" in await log(workspace, "trained", "user_logs/std_log_process_1.txt")


async def test_a_preempted_job_keeps_its_place_in_line(workspace, tmp_path):
    await workspace.create_cluster(SPEC)
    await workspace.submit(job_file(tmp_path, WAIT, ranks(1) + ON_BIRDS), "first")
    await running(workspace, "first")
    await workspace.submit(job_file(tmp_path, WAIT, "compute: birds\n"), "second")
    await until_job(workspace, "second", lambda job: job.note)
    await workspace.rehearse("first", "preempt")
    first = await until_job(workspace, "first", lambda job: job.status in ("Queued", "Preparing", "Running"))
    assert first.ended is None
    await running(workspace, "first")  # it came first, and keeps its place in line
    assert (await workspace.job("second")).status == "Queued"


async def test_a_killed_rank_fails_the_job_and_is_named(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, WAIT, ranks(2)), "two")
    await running(workspace, "two")
    assert await workspace.rehearse("two", "kill-rank") == "Rank 1 of job 'two' was killed (SIGKILL)."
    job = await ended(workspace, "two")
    assert job.status == "Failed"
    assert job.error.startswith("rank 1: it said nothing (ended by SIGKILL")


async def test_a_stopped_rank_shows_as_not_responding_until_it_goes_on(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, WAIT, ranks(2)), "two")
    await running(workspace, "two")
    await workspace.rehearse("two", "stop-heartbeat")
    job = await until_job(workspace, "two", lambda job: job.status == "NotResponding")
    assert job.note.startswith("no sign of life from rank 1")
    assert job.ended is None
    await workspace.rehearse("two", "resume-heartbeat")
    await running(workspace, "two")
    await workspace.rehearse("two", "stop-heartbeat")
    await until_job(workspace, "two", lambda job: job.status == "NotResponding")
    await workspace.cancel("two")
    assert (await until_job(workspace, "two", lambda job: job.ended)).status == "Canceled"


async def test_a_full_quota_holds_jobs_up_and_is_the_clusters_error(workspace, tmp_path):
    await workspace.create_cluster(replace(SPEC, max_nodes=3))
    await workspace.submit(job_file(tmp_path, WAIT, "compute: birds\n"), "holder")
    await running(workspace, "holder")
    assert "2 nodes of cluster 'birds'" in await workspace.rehearse("birds", "fill-quota")
    with pytest.raises(Conflict):
        await workspace.rehearse("holder", "fill-quota")
    await workspace.submit(job_file(tmp_path, "true", "compute: birds\n"), "next")
    waiting = await until_job(workspace, "next", lambda job: job.note)
    assert waiting.note == (
        "0 of 3 nodes are free, the job wants 1; 2 cannot be had, the quota is full (a rehearsal); ahead: holder"
    )
    assert "quota is full" in (await workspace.cluster("birds")).error
    await workspace.rehearse("holder", "free-quota")
    assert (await ended(workspace, "next")).status == "Completed"
    assert (await workspace.cluster("birds")).error == ""
    with pytest.raises(Conflict):
        await workspace.rehearse("birds", "free-quota")


async def test_what_cannot_be_rehearsed_is_refused_in_a_sentence(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "true"), "done")
    await ended(workspace, "done")
    with pytest.raises(Invalid, match="Known: preempt"):
        await workspace.rehearse("done", "explode")
    for act in ("preempt", "kill-rank", "stop-heartbeat", "resume-heartbeat"):
        with pytest.raises(Conflict, match="none of its ranks runs"):
            await workspace.rehearse("done", act)
        with pytest.raises(NotFound):
            await workspace.rehearse("nobody", act)
    with pytest.raises(NotFound):
        await workspace.rehearse("nowhere", "fill-quota")


def test_the_contract_names_every_rehearsal(home):
    store = Store(home)
    store.prepare()
    assert set(Rehearsals(store)._acts) == set(REHEARSALS)


def test_the_command_says_what_was_done_and_refuses_as_the_workspace_does(tmp_path):
    footplate = Inside(tmp_path)
    assert footplate("cluster", "create", "birds", "--size", "cores-1", "--max-instances", "2").returncode == 0
    assert footplate.json("rehearse", "birds", "fill-quota") == {
        "name": "birds",
        "act": "fill-quota",
        "message": "The quota is full: 2 nodes of cluster 'birds' cannot be had until free-quota.",
    }
    assert footplate("rehearse", "birds", "fill-quota").returncode == 1
    assert footplate("rehearse", "nobody", "preempt").returncode == 2
    assert footplate("rehearse", "birds", "explode").returncode == 2
    assert footplate("rehearse", "birds", "free-quota", "--read-only").returncode == 4
    assert footplate("rehearse", "birds", "free-quota").returncode == 0
