"""What every workspace promises about clusters: made, changed, filled, deleted; on this machine and on Azure alike."""

from __future__ import annotations

import pytest
from tests.at_work import ended, until_job
from tests.contract.grounds import jsonable, until

from footplate.operations import clusters as operations
from footplate.workspace import ClusterSpec, Conflict, Invalid, NotFound

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours


async def made(ground, name, **counts):
    cluster = await ground.workspace.create_cluster(ClusterSpec(name, ground.size, **counts))
    assert cluster.name == name
    return await operations.settled(ground.workspace, name)


async def test_a_cluster_is_made_as_it_was_asked_for(ground):
    cluster = await made(ground, "fresh", min_nodes=0, max_nodes=2, idle_seconds=90, tier="LowPriority")
    assert (cluster.name, cluster.size.lower()) == ("fresh", ground.size.lower())
    assert (cluster.min_nodes, cluster.max_nodes, cluster.idle_seconds, cluster.tier) == (0, 2, 90, "LowPriority")
    assert (cluster.busy_nodes, cluster.error) == (0, "")
    assert cluster.cores_per_node >= 1
    assert cluster in await ground.workspace.clusters()
    assert list(await ground.workspace.nodes("fresh")) == []
    assert jsonable(cluster.document())["max_instances"] == 2


async def test_clusters_come_by_name(ground):
    names = [cluster.name for cluster in await ground.workspace.clusters()]
    assert ground.cluster in names
    made = [name for name in names if name != "local"]  # which comes first
    assert made == sorted(made)


async def test_a_taken_name_is_a_conflict_and_changes_nothing(ground):
    before = await made(ground, "taken", max_nodes=1)
    with pytest.raises(Conflict):
        await ground.workspace.create_cluster(ClusterSpec("taken", ground.other_size, max_nodes=2))
    assert await ground.workspace.cluster("taken") == before


async def test_one_of_the_same_size_is_reused_and_of_another_refused(ground):
    before = await made(ground, "shared", max_nodes=1)
    found, new = await operations.ensure(ground.workspace, ClusterSpec("shared", ground.size.upper(), max_nodes=3))
    assert (found, new) == (before, False)
    with pytest.raises(Conflict, match="of size"):
        await operations.ensure(ground.workspace, ClusterSpec("shared", ground.other_size))
    _, new = await operations.ensure(ground.workspace, ClusterSpec("shared-2", ground.size))
    assert new
    await operations.settled(ground.workspace, "shared-2")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "1st"},
        {"name": "a" * 33},
        {"name": "../up"},
        {"name": "end-"},
        {"name": ""},
        {"size": "Standard_Nothing"},
        {"min_nodes": 3, "max_nodes": 2},
        {"max_nodes": -1, "min_nodes": -1},
        {"idle_seconds": -1},
    ],
)
async def test_what_cannot_be_a_cluster_is_refused_and_not_made(ground, change):
    before = await ground.workspace.clusters()
    spec = ClusterSpec(**{"name": "odd", "size": ground.size, **change})
    with pytest.raises(Invalid) as refused:
        await ground.workspace.create_cluster(spec)
    assert refused.value.sentence.endswith(".")
    assert await ground.workspace.clusters() == before


async def test_only_what_is_given_is_changed(ground):
    await made(ground, "growing", min_nodes=0, max_nodes=1, idle_seconds=60)
    await ground.workspace.update_cluster("growing", max_nodes=2)
    cluster = await operations.settled(ground.workspace, "growing")
    assert (cluster.min_nodes, cluster.max_nodes, cluster.idle_seconds) == (0, 2, 60)
    await ground.workspace.update_cluster("growing", idle_seconds=300)
    cluster = await operations.settled(ground.workspace, "growing")
    assert (cluster.min_nodes, cluster.max_nodes, cluster.idle_seconds) == (0, 2, 300)
    with pytest.raises(Invalid):
        await ground.workspace.update_cluster("growing", min_nodes=3)
    assert await ground.workspace.cluster("growing") == cluster


async def test_the_least_number_of_nodes_is_there_and_idle(ground):
    await made(ground, "warm", min_nodes=1, max_nodes=1)
    nodes = await until(lambda: ground.workspace.nodes("warm"), lambda found: [one.state for one in found] == ["idle"])
    assert nodes[0].name
    assert nodes[0].job is None


async def test_a_cluster_goes(ground):
    await made(ground, "doomed")
    await operations.delete(ground.workspace, "doomed")
    with pytest.raises(NotFound):
        await ground.workspace.cluster("doomed")
    assert "doomed" not in [cluster.name for cluster in await ground.workspace.clusters()]


async def test_what_is_not_there_is_not_found(ground):
    workspace = ground.workspace
    for act in (workspace.cluster, workspace.nodes, workspace.delete_cluster):
        with pytest.raises(NotFound):
            await act("nobody")
    with pytest.raises(NotFound):
        await workspace.update_cluster("nobody", max_nodes=1)


async def test_a_node_tells_its_job_and_a_cluster_with_jobs_stays(ground):
    await made(ground, "busy", max_nodes=1)
    await ground.submit("holder", "long", "compute: azureml:busy\n")
    await until_job(ground.workspace, "holder", lambda job: job.status == "Running")
    cluster = await ground.workspace.cluster("busy")
    assert cluster.busy_nodes == 1
    (node,) = await ground.workspace.nodes("busy")
    assert (node.state, node.job) == ("running", "holder")
    await ground.submit("waiter", "long", "compute: azureml:busy\n")
    waiting = await until_job(ground.workspace, "waiter", lambda job: job.status == "Queued")
    assert waiting.compute == "busy"
    with pytest.raises(Conflict):
        await ground.workspace.delete_cluster("busy")
    assert (await ground.workspace.job("holder")).status == "Running"
    for name in ("waiter", "holder"):
        await ground.workspace.cancel(name)
        assert (await ended(ground.workspace, name)).status == "Canceled"
    await until(lambda: ground.workspace.cluster("busy"), lambda found: found.busy_nodes == 0)


async def test_sizes_and_quota_are_told(ground):
    sizes = {size.name.lower(): size for size in await ground.workspace.sizes()}
    for name in (ground.size, ground.other_size):
        assert sizes[name.lower()].cores >= 1
    quota = await ground.workspace.quota()
    assert quota
    assert all(one.used >= 0 and (one.limit is None or one.limit >= one.used) for one in quota)
    used = [bool(one.used) for one in quota]
    assert used == sorted(used, reverse=True)  # those that are used first
    jsonable([one.document() for one in (*sizes.values(), *quota)])
