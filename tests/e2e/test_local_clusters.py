"""Clusters of this machine: made, changed, deleted; jobs that wait for their nodes in line, and nodes that come and go."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest
from tests.at_work import ended, job_file, log, ranks, supervisor_pid, until_job

from footplate.local import machine, nodes
from footplate.local.store import Store, now
from footplate.workspace import ClusterSpec, Conflict, Invalid, NotFound, QuotaExceeded

UNTIL_TOLD = "until [ -e ../../../go-on ]; do sleep 0.05; done"
"""A command that goes on until there is a file `go-on` in the home."""

SPEC = ClusterSpec("birds", "cores-1", 0, 2, 1000)


def on(cluster, count=1):
    return f"compute: azureml:{cluster}\nresources: {{instance_count: {count}}}\n"


async def running(workspace, name):
    return await until_job(workspace, name, lambda job: job.status == "Running")


async def queued(workspace, name):
    return await until_job(workspace, name, lambda job: job.status == "Queued" and job.note)


async def test_a_cluster_is_made_changed_and_deleted(workspace):
    made = await workspace.create_cluster(replace(SPEC, tier="low_priority"))
    assert (made.name, made.size, made.cores_per_node, made.tier) == ("birds", "cores-1", 1, "LowPriority")
    assert (made.min_nodes, made.max_nodes, made.busy_nodes, made.queued_jobs, made.idle_seconds) == (0, 2, 0, 0, 1000)
    assert [cluster.name for cluster in await workspace.clusters()] == ["local", "birds"]
    changed = await workspace.update_cluster("birds", max_nodes=3)
    assert (changed.min_nodes, changed.max_nodes, changed.idle_seconds) == (0, 3, 1000)
    changed = await workspace.update_cluster("birds", min_nodes=1, idle_seconds=5)
    assert await workspace.cluster("birds") == changed
    assert (changed.min_nodes, changed.max_nodes, changed.idle_seconds) == (1, 3, 5)
    assert [(node.name, node.state) for node in await workspace.nodes("birds")] == [("birds-0", "idle")]
    await workspace.delete_cluster("birds")
    with pytest.raises(NotFound):
        await workspace.cluster("birds")
    for act in (workspace.delete_cluster, workspace.update_cluster, workspace.nodes):
        with pytest.raises(NotFound):
            await act("birds")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"name": "my cluster"}, Invalid, "cannot be the name"),
        ({"name": "1st"}, Invalid, "cannot be the name"),
        ({"name": "x"}, Invalid, "cannot be the name"),
        ({"name": "x" * 33}, Invalid, "cannot be the name"),
        ({"name": "birds\n"}, Invalid, "cannot be the name"),
        ({"name": "local"}, Conflict, "already"),
        ({"name": "LOCAL"}, Conflict, "already"),
        ({"size": "core-1"}, Invalid, "Did you mean cores-1"),
        ({"size": "Standard_NC6s_v3"}, Invalid, "Known: cores-1"),
        ({"size": "cores-100000"}, QuotaExceeded, "largest size"),
        ({"min_nodes": 3}, Invalid, "3 to 2 nodes"),
        ({"min_nodes": -1}, Invalid, "-1 to 2 nodes"),
        ({"max_nodes": 101}, Invalid, "0 to 101 nodes"),
        ({"idle_seconds": -1}, Invalid, "-1 s"),
        ({"tier": "spot"}, Invalid, "'spot'"),
    ],
)
async def test_a_cluster_that_cannot_be_is_refused(workspace, changes, error, words):
    with pytest.raises(error) as refused:
        await workspace.create_cluster(replace(SPEC, **changes))
    assert words in f"{refused.value.sentence} {refused.value.next_step}"
    assert len(await workspace.clusters()) == 1


async def test_local_is_neither_changed_nor_deleted(workspace):
    with pytest.raises(Invalid, match=r"setting"):
        await workspace.update_cluster("local", max_nodes=9)
    with pytest.raises(Invalid):
        await workspace.delete_cluster("local")


async def test_sizes_reach_up_to_this_machine(workspace):
    sizes = await workspace.sizes()
    cores = len(os.sched_getaffinity(0))
    assert [size.name for size in sizes if not size.gpus] == [f"cores-{n}" for n in range(1, cores + 1)]
    assert all(size.memory_gb for size in sizes)
    (quota, *_) = await workspace.quota()
    assert (quota.used, quota.limit) == (0, cores)


async def test_jobs_get_nodes_in_the_order_they_came_and_say_what_they_wait_for(workspace, home, tmp_path):
    await workspace.create_cluster(SPEC)
    with pytest.raises(QuotaExceeded, match="wants 3 nodes; cluster 'birds' can have 2"):
        await workspace.submit(job_file(tmp_path, "true", on("birds", 3)), "giant")
    await workspace.submit(job_file(tmp_path, UNTIL_TOLD, on("birds")), "first")
    await running(workspace, "first")
    assert [(node.name, node.state, node.job) for node in await workspace.nodes("birds")] == [
        ("birds-0", "running", "first")
    ]
    assert (await workspace.quota())[0].used == 1
    await workspace.submit(job_file(tmp_path, "sleep 0.3", on("birds", 2)), "both")
    await queued(workspace, "both")
    await workspace.submit(job_file(tmp_path, "true", on("birds")), "small")
    small = await queued(workspace, "small")
    both = await workspace.job("both")
    assert both.note == "1 of 2 nodes are free, the job wants 2; ahead: first"
    assert (
        small.note == "1 of 2 nodes are free, the job wants 1; ahead: first, both"
    )  # a node is free, and not its turn
    assert (await workspace.cluster("birds")).queued_jobs == 2
    with pytest.raises(Conflict, match="'both' waits for 2 nodes"):
        await workspace.update_cluster("birds", max_nodes=1)
    with pytest.raises(Conflict, match="in use by first, both, small"):
        await workspace.delete_cluster("birds")
    (home / "go-on").touch()
    done = [await ended(workspace, name) for name in ("first", "both", "small")]
    assert [job.status for job in done] == ["Completed"] * 3
    assert done[0].ended <= done[1].started <= done[1].ended <= done[2].started
    assert [(node.name, node.state) for node in await workspace.nodes("birds")] == [
        ("birds-0", "idle"),
        ("birds-1", "idle"),
    ]


async def test_idle_nodes_scale_down_to_the_least_number(workspace, tmp_path):
    await workspace.create_cluster(replace(SPEC, idle_seconds=0))
    await workspace.submit(job_file(tmp_path, "true", on("birds", 2)), "both")
    await ended(workspace, "both")
    assert await workspace.nodes("birds") == []
    await workspace.update_cluster("birds", idle_seconds=1000)
    assert len(await workspace.nodes("birds")) == 2
    await workspace.update_cluster("birds", idle_seconds=0, min_nodes=1)
    assert [node.name for node in await workspace.nodes("birds")] == ["birds-0"]


async def test_the_nodes_of_local_are_a_setting_and_its_jobs_run_at_once(home, workspace, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0))
    (local,) = await workspace.clusters()
    assert (local.max_nodes, local.cores_per_node) == (4, cores)
    say = f"echo $OMP_NUM_THREADS; {UNTIL_TOLD}"
    await workspace.submit(job_file(tmp_path, say), "alone")
    await running(workspace, "alone")
    await workspace.submit(job_file(tmp_path, say), "beside")
    await running(workspace, "beside")
    await workspace.submit(job_file(tmp_path, say, "environment_variables: {OMP_NUM_THREADS: 7}\n"), "own")
    await running(workspace, "own")
    (home / "go-on").touch()
    for name in ("alone", "beside", "own"):
        await ended(workspace, name)
    assert await log(workspace, "alone") == f"{cores}\n"
    assert await log(workspace, "beside") == f"{max(1, cores // 2)}\n"  # two jobs share the machine
    assert await log(workspace, "own") == "7\n"


async def test_ranks_share_the_cores_of_their_own_node(workspace, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0))
    await workspace.create_cluster(replace(SPEC, size=f"cores-{cores}"))
    await workspace.submit(job_file(tmp_path, "echo $OMP_NUM_THREADS", ranks(2) + on("birds", 2)), "four")
    await ended(workspace, "four")
    for rank in range(4):
        assert await log(workspace, "four", f"user_logs/std_log_process_{rank}.txt") == f"{max(1, cores // 2)}\n"


async def test_a_clock_that_was_set_back_lets_nobody_overtake(one_node, workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, UNTIL_TOLD), "holder")
    await running(workspace, "holder")
    await workspace.submit(job_file(tmp_path, "sleep 0.2"), "early")
    await queued(workspace, "early")
    with Store(home).write() as db:
        db.execute("UPDATE job SET created = ? WHERE name = 'early'", (now() + 10_000,))  # the clock was ahead then
    await workspace.submit(job_file(tmp_path, "true"), "late")
    await queued(workspace, "late")
    (home / "go-on").touch()
    early, late = await ended(workspace, "early"), await ended(workspace, "late")
    assert early.ended <= late.started


async def test_a_job_killed_in_line_holds_up_nobody(one_node, workspace, home, tmp_path):
    """Nobody reads meanwhile: those behind the dead one set it right by themselves."""
    await workspace.submit(job_file(tmp_path, UNTIL_TOLD), "holder")
    await running(workspace, "holder")
    for name in ("dead", "next"):
        await workspace.submit(job_file(tmp_path, "true"), name)
        await queued(workspace, name)
    os.kill(supervisor_pid(home, "dead"), 9)
    (home / "go-on").touch()
    store = Store(home)
    deadline = asyncio.get_running_loop().time() + 30
    while True:
        with store.read() as db:
            statuses = dict(db.execute("SELECT name, status FROM job").fetchall())
        if statuses == {"holder": "Completed", "dead": "Failed", "next": "Completed"}:
            break
        assert asyncio.get_running_loop().time() < deadline, statuses
        await asyncio.sleep(0.05)


def test_claims_go_by_the_line_and_no_node_is_given_twice(home):
    store = Store(home)
    store.prepare()
    with store.write() as db:
        db.execute("INSERT INTO cluster VALUES ('birds', 1, 0, 0, 2, 0, 'Dedicated', 0)")
        for name in ("a", "b", "c"):
            db.execute(
                "INSERT INTO job (name, display_name, type, status, experiment, compute, created, nodes, ranks_per_node, "
                "command, plan) VALUES (?, ?, 'command', 'Queued', 'x', 'birds', 0, 1, 1, '', '')",
                (name, name),
            )
    with store.read() as db:
        waits = nodes.Line.read(db, "birds").reasons()  # it is a's turn: nothing keeps it
    assert {name: why.partition("; ")[2] for name, why in waits.items()} == {"b": "ahead: a", "c": "ahead: a, b"}
    given = []
    for name in ("b", "a", "c", "b", "c"):
        with store.write() as db:
            given.append(nodes.claim(db, name, "birds"))
    assert given == [False, True, False, True, False]
    with store.read() as db:
        assert dict(db.execute("SELECT node, job FROM slot").fetchall()) == {0: "a", 1: "b"}


@pytest.mark.parametrize(
    ("gpus", "there", "expected"),
    [(1, 2, ("0", "1")), (2, 4, ("0,1", "2,3")), (1, 1, ("0", "0")), (0, 2, ("", "")), (1, 0, ())],
)
def test_nodes_take_the_gpus_of_this_machine_in_turn(home, monkeypatch, gpus, there, expected):
    monkeypatch.setattr(machine, "gpus", lambda: there)
    store = Store(home)
    store.prepare()
    with store.write() as db:
        db.execute("INSERT INTO cluster VALUES ('birds', 1, ?, 0, 2, 0, 'Dedicated', 0)", (gpus,))
        db.execute(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, nodes, ranks_per_node, "
            "command, plan) VALUES ('a', 'a', 'command', 'Queued', 'x', 'birds', 0, 2, 1, '', '')"
        )
        assert nodes.claim(db, "a", "birds")
        assert nodes.devices(db, db.execute("SELECT * FROM job").fetchone()) == expected


def test_a_trial_leaves_room_for_those_that_run_beside_it(home):
    """The first trial does not take all cores because it came first: it counts with as many as run at once."""
    store = Store(home)
    store.prepare()
    columns = "name, display_name, type, status, experiment, compute, created, nodes, ranks_per_node, command, plan, parent, work"
    rows = [
        ("sweep", "sweep", "sweep", "Running", "x", "local", 0, 1, 1, "", "", None, '{"at_once": 4}'),
        ("sweep_0", "", "command", "Queued", "x", "local", 0, 1, 1, "", "", "sweep", "{}"),
        ("alone", "", "command", "Queued", "x", "local", 0, 2, 1, "", "", None, "{}"),
    ]
    with store.write() as db:
        db.execute("INSERT INTO cluster VALUES ('local', 16, 0, 4, 4, 0, 'Dedicated', 0)")
        db.executemany(f"INSERT INTO job ({columns}) VALUES ({', '.join('?' * 13)})", rows)
        assert nodes.claim(db, "sweep_0", "local")
        trial, alone = (db.execute("SELECT * FROM job WHERE name = ?", (n,)).fetchone() for n in ("sweep_0", "alone"))
        assert [nodes.threads(db, trial, ranks) for ranks in (1, 2, 100)] == [4, 2, 1]
        assert nodes.claim(db, "alone", "local")
        assert nodes.threads(db, alone, 1) == 5  # three nodes are held now
