"""Clusters are asked for through the SDK in a process of its own: what reaches the server, and what is refused before."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.wire.client import real_client

from footplate.workspace import ClusterSpec, Conflict, Invalid, NotAllowed
from footplate.workspace.read_only import read_only

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours

SPECS = (
    ClusterSpec("small", "Standard_DS3_v2"),
    ClusterSpec("spot", "standard_nc4as_t4_v3", 0, 2, 3600, "LowPriority"),
    ClusterSpec("kept", "Standard_DS3_v2", min_nodes=1, max_nodes=3, idle_seconds=90, tier="dedicated"),
)


def put(wire, name):
    return next(one for one in wire.requests if one.method == "PUT" and one.path.endswith(f"/computes/{name}"))


async def test_what_reaches_the_server_is_what_the_sdk_itself_sends(azure, wire):
    for spec in SPECS:
        cluster = await azure.create_cluster(spec)
        assert (cluster.name, cluster.max_nodes, cluster.idle_seconds) == (spec.name, spec.max_nodes, spec.idle_seconds)

    def by_sdk():
        from azure.ai.ml.entities import AmlCompute

        with real_client(wire) as ml:
            for spec in SPECS:
                tier = "low_priority" if spec.tier == "LowPriority" else "dedicated"
                cluster = AmlCompute(
                    name=f"their-{spec.name}",
                    size=spec.size,
                    tier=tier,
                    min_instances=spec.min_nodes,
                    max_instances=spec.max_nodes,
                    idle_time_before_scale_down=spec.idle_seconds,
                )
                ml.compute.begin_create_or_update(cluster)

    await asyncio.to_thread(by_sdk)
    for spec in SPECS:
        ours, theirs = put(wire, spec.name), put(wire, f"their-{spec.name}")
        assert (ours.body, ours.query) == (theirs.body, theirs.query)
    made = {cluster.name: cluster for cluster in await azure.clusters()}
    assert {spec.name for spec in SPECS} <= set(made)
    assert made["spot"].tier == "LowPriority"


async def test_what_cannot_be_is_refused_before_anything_is_sent(azure, wire):
    asked = len([one for one in wire.requests if one.method == "PUT"])
    for spec, words in (
        (ClusterSpec("1st", "Standard_DS3_v2"), "cannot be the name"),
        (ClusterSpec("dash-", "Standard_DS3_v2"), "cannot be the name"),
        (ClusterSpec("new", "Standard_DS3_v3"), "no size 'Standard_DS3_v3'"),
        (ClusterSpec("new", "Standard_ND40rs_v2", tier="LowPriority"), "cannot be had at low priority"),
        (ClusterSpec("new", "Standard_DS3_v2", tier="Cheap"), "no tier 'Cheap'"),
        (ClusterSpec("new", "Standard_DS3_v2", min_nodes=3, max_nodes=2), "3 to 2 nodes"),
        (ClusterSpec("new", "Standard_DS3_v2", max_nodes=0), "0 to 0 nodes"),
    ):
        with pytest.raises(Invalid, match=words):
            await azure.create_cluster(spec)
    with pytest.raises(Conflict, match=r"already a target 'cpu' \(AmlCompute, Standard_DS3_v2"):
        await azure.create_cluster(ClusterSpec("cpu", "Standard_DS3_v2"))
    with pytest.raises(NotAllowed):
        await read_only(azure).create_cluster(ClusterSpec("new", "Standard_DS3_v2"))
    assert len([one for one in wire.requests if one.method == "PUT"]) == asked


async def test_a_cluster_over_the_quota_is_there_as_failed_with_the_numbers(azure, wire):
    await azure.create_cluster(ClusterSpec("vast", "Standard_NC24ads_A100_v4", max_nodes=50))
    end = time.monotonic() + 20
    while (cluster := await azure.cluster("vast")).state == "Creating":
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    assert cluster.state == "Failed"
    assert "Current Limit: 24" in cluster.error
