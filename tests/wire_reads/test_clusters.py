"""Clusters of Azure ML over a socket: read with nodes, sizes and quota, changed and deleted as the SDK does it."""

from __future__ import annotations

import asyncio

import pytest
from tests.wire import faults
from tests.wire.client import real_client

from footplate.workspace import Conflict, Invalid, NotAllowed, NotFound, QuotaExceeded
from footplate.workspace.read_only import read_only


def sent(wire, method, path):
    return [seen for seen in wire.requests if seen.method == method and seen.path.endswith(path)]


async def test_clusters_are_read_with_their_nodes_and_sizes(wire, azure):
    wire.seed.demo()
    found = {cluster.name: cluster for cluster in await azure.clusters()}
    assert list(found) == sorted(found)
    gpu = found["gpu"]
    assert (gpu.type, gpu.gpus_per_node, gpu.tier, gpu.max_nodes, gpu.idle_seconds) == (
        "AmlCompute",
        1,
        "LowPriority",
        2,
        120,
    )
    assert (found["k8s"].type, found["notebook"].type, found["notebook"].state) == (
        "Kubernetes",
        "ComputeInstance",
        "Running",
    )
    asked = len(wire.requests)
    await azure.clusters()
    assert len(wire.requests) == asked + 1
    assert await azure.cluster("gpu") == gpu
    assert len(wire.requests) == asked + 2
    with pytest.raises(NotFound, match="'nowhere'"):
        await azure.cluster("nowhere")


async def test_nodes_tell_their_state_and_the_job_on_each(wire, azure):
    wire.seed.cluster("gpu", "Standard_NC4as_T4_v3", high=3)
    wire.seed.submit("two", resources={"instanceCount": 2}, computeId=f"{wire.state.ws}/computes/gpu")
    assert await azure.nodes("gpu") == []
    wire.advance(14)
    assert {node.state for node in await azure.nodes("gpu")} == {"preparing"}
    wire.advance(200)
    wire.state.nodes["gpu"] += [
        {"nodeId": "bad", "nodeState": "unusable", "error": {"message": "The disk is full."}},
        {},
    ]
    nodes = await azure.nodes("gpu")
    assert len(nodes) == 3
    assert nodes[0].address == "52.0.0.1:50000"
    assert (nodes[-1].name, nodes[-1].state, nodes[-1].job, nodes[-1].error) == (
        "bad",
        "unusable",
        None,
        "The disk is full.",
    )
    wire.seed.kubernetes("k8s")
    with pytest.raises(Invalid, match="no cluster but a Kubernetes"):
        await azure.nodes("k8s")
    with pytest.raises(NotFound):
        await azure.nodes("nowhere")


async def test_a_running_job_stands_on_its_nodes(wire, azure):
    wire.seed.cluster("cpu", low=2)
    wire.seed.submit("one", computeId=f"{wire.state.ws}/computes/cpu")
    wire.advance(20)
    assert sorted((node.state, node.job) for node in await azure.nodes("cpu")) == [("idle", None), ("running", "one")]
    assert (await azure.cluster("cpu")).busy_nodes == 1


async def test_sizes_are_those_that_clusters_can_have(wire, azure):
    wire.state.sizes["Standard_E4s_v3"] = {"name": "Standard_E4s_v3", "supportedComputeTypes": ["ComputeInstance"]}
    sizes = {size.name: size for size in await azure.sizes()}
    assert "Standard_E4s_v3" not in sizes
    t4 = sizes["Standard_NC4as_T4_v3"]
    assert (t4.cores, t4.gpus, t4.memory_gb, t4.family) == (4, 1, 28.0, "Standard NCASv3_T4 Family")
    assert not sizes["Standard_ND40rs_v2"].low_priority


async def test_quota_has_low_priority_apart_and_what_is_used_first(wire, azure):
    wire.state.quota["StandardNCADSA100v4Family"] |= {"currentValue": 24}
    place = f"{wire.state.ws}/quotas/standardFSv2Family"
    wire.state.quota["of a workspace"] = {
        "id": place,
        "name": {"value": "standardFSv2Family"},
        "currentValue": 99,
        "limit": 1,
    }
    wire.state.quota["free"] = {"name": {"value": "free"}, "currentValue": 0, "limit": -1}
    found = await azure.quota()
    assert (found[0].family, found[0].used, found[0].limit, found[0].low_priority) == (
        "StandardNCADSA100v4Family",
        24,
        24,
        False,
    )
    assert [(row.family, row.limit) for row in found if row.low_priority] == [
        ("Total Cluster Low Priority Regional vCPUs", 100)
    ]
    assert sum(row.family == "standardFSv2Family" for row in found) == 1
    assert next(row for row in found if row.family == "free").limit is None


async def test_an_update_sends_what_the_sdk_sends(wire, azure):
    subnet = {"id": f"/subscriptions/{wire.subscription_id}/resourceGroups/rg/providers/x/virtualNetworks/v/subnets/s"}
    odd = {
        "plain": {},
        "vast": {"subnet": subnet, "remoteLoginPortPublicAccess": "Enabled", "enableNodePublicIp": False},
        "shell": {"userAccountCredentials": {"adminUserName": "me", "adminUserSshPublicKey": "ssh-rsa A"}},
    }
    providers = f"/subscriptions/{wire.subscription_id}/resourceGroups/rg/providers"
    account = f"{providers}/Microsoft.ManagedIdentity/userAssignedIdentities/i"
    for name, inner in odd.items():
        for who in ("ours", "theirs"):
            body = wire.seed.cluster(f"{who}-{name}", low=1, tier="LowPriority" if name == "vast" else "Dedicated")
            body["properties"]["properties"] |= inner
            if name == "vast":
                body["tags"], body["properties"]["description"] = {"team": "birds"}, "big"
                body["identity"] = {
                    "type": "UserAssigned",
                    "userAssignedIdentities": {account: {"principalId": "p", "clientId": "c"}},
                }
        changed = await azure.update_cluster(f"ours-{name}", max_nodes=7, idle_seconds=3725)
        assert (changed.min_nodes, changed.max_nodes, changed.idle_seconds, changed.state) == (1, 7, 3725, "Updating")

    def by_sdk():
        with real_client(wire) as ml:
            for name in odd:
                cluster = ml.compute.get(f"theirs-{name}")
                cluster.max_instances, cluster.idle_time_before_scale_down = 7, 3725
                ml.compute.begin_update(cluster)

    await asyncio.to_thread(by_sdk)
    for name in odd:
        (ours,), (theirs,) = (sent(wire, "PUT", f"/computes/{who}-{name}") for who in ("ours", "theirs"))
        if name == "vast":  # the SDK forgets the subnet; it cannot be changed, and is sent as it is
            assert theirs.body["properties"]["properties"]["subnet"] == {}
            theirs.body["properties"]["properties"]["subnet"] = subnet
        assert ours.body == theirs.body
        assert ours.query == theirs.query


async def test_an_update_refuses_what_cannot_be_before_it_is_sent(wire, azure):
    wire.seed.cluster("cpu", high=4)
    wire.seed.kubernetes("k8s")
    for changes in ({"min_nodes": 5}, {"max_nodes": 0}, {"min_nodes": -1}, {"idle_seconds": -1}):
        with pytest.raises(Invalid):
            await azure.update_cluster("cpu", **changes)
    with pytest.raises(Invalid, match="no cluster but a Kubernetes"):
        await azure.update_cluster("k8s", max_nodes=2)
    with pytest.raises(NotFound):
        await azure.update_cluster("nowhere", max_nodes=2)
    assert not sent(wire, "PUT", "")
    await azure.update_cluster("cpu", max_nodes=2)
    with pytest.raises(Conflict, match="Updating just now"):
        await azure.update_cluster("cpu", max_nodes=3)
    wire.advance(600)
    quota = {"error": {"code": "ClusterCoreQuotaReached", "message": "Requested 8 cores, current usage 20, limit 24."}}
    wire.faults.add("PUT", "/computes/cpu", faults.Fault(400, quota))
    with pytest.raises(QuotaExceeded, match="asked 8, used 20, limit 24"):
        await azure.update_cluster("cpu", max_nodes=3)
    assert (await azure.cluster("cpu")).max_nodes == 2


async def test_a_cluster_is_deleted_but_not_while_jobs_want_it(wire, azure):
    wire.seed.cluster("cpu", low=1)
    wire.seed.kubernetes("k8s")
    wire.seed.submit("wants", computeId=f"{wire.state.ws}/computes/cpu")
    with pytest.raises(Conflict, match="in use by wants"):
        await azure.delete_cluster("cpu")
    assert not sent(wire, "DELETE", "")
    await azure.cancel("wants")
    wire.advance(100)
    wire.state.nodes["cpu"][0]["nodeState"] = "running"
    wire.state.clusters["cpu"]["properties"]["properties"]["nodeStateCounts"]["runningNodeCount"] = 1
    with pytest.raises(Conflict, match="1 node runs a job"):
        await azure.delete_cluster("cpu")
    wire.state.clusters["cpu"]["properties"]["properties"]["nodeStateCounts"]["runningNodeCount"] = 0
    await azure.delete_cluster("cpu")
    assert (await azure.cluster("cpu")).state == "Deleting"
    await azure.delete_cluster("cpu")
    await azure.delete_cluster("k8s")
    assert [
        (seen.path.rpartition("/")[2], seen.query["underlyingResourceAction"]) for seen in sent(wire, "DELETE", "")
    ] == [
        ("cpu", "Delete"),
        ("k8s", "Detach"),
    ]
    wire.advance(600)
    for act in (azure.cluster, azure.delete_cluster):
        with pytest.raises(NotFound):
            await act("cpu")


async def test_a_read_only_azure_workspace_changes_no_cluster(wire, azure):
    wire.seed.cluster("cpu")
    guarded = read_only(azure)
    with pytest.raises(NotAllowed):
        await guarded.update_cluster("cpu", max_nodes=1)
    with pytest.raises(NotAllowed):
        await guarded.delete_cluster("cpu")
    assert not wire.requests
