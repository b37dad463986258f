"""Traffic, mirroring, instances, keys and figures of Azure's endpoints over a socket, against the state that was shown."""

from __future__ import annotations

import asyncio
import copy
import time

import pytest
from tests.wire import faults

from footplate.azure.permissions import allows
from footplate.workspace import Conflict, Invalid, NotAllowed, NotFound, QuotaExceeded, Unexpected


def sent(wire, method):
    """The bodies of the requests of a method, with the version asked for."""
    return [(seen.query["api-version"], seen.body) for seen in wire.requests if seen.method == method]


async def until(condition, seconds=15):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def test_traffic_is_changed_by_one_patch_that_leaves_all_else_as_it_is(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0})
    record = wire.state.endpoints["birds"]
    record["tags"] = {"team": "birds"}
    record["identity"] = {"type": "UserAssigned", "userAssignedIdentities": {"id": {}}}
    record["properties"] |= {"description": "kept", "somethingNew": {"a": 1}}
    before = copy.deepcopy(record)
    found = await azure.set_traffic("birds", {"blue": 90, "green": 10}, {"blue": 100})
    assert (found.state, found.traffic) == ("Succeeded", {"blue": 90, "green": 10})
    assert sent(wire, "PATCH") == [("2022-02-01-preview", {"properties": {"traffic": {"blue": 90, "green": 10}}})]
    after = wire.state.endpoints["birds"]
    assert {key: after[key] for key in ("tags", "identity", "location", "kind")} == {
        key: before[key] for key in ("tags", "identity", "location", "kind")
    }
    for member in ("description", "somethingNew", "scoringUri", "authMode", "mirrorTraffic"):
        assert after["properties"][member] == before["properties"][member]
    assert (await azure.set_traffic("birds", {"green": 100})).traffic == {"blue": 0, "green": 100}
    asked = len(sent(wire, "PATCH"))
    assert (await azure.set_traffic("birds", {"green": 100, "blue": 0})).traffic == {"blue": 0, "green": 100}
    assert len(sent(wire, "PATCH")) == asked  # it is so already
    assert not any((await azure.set_traffic("birds", {"blue": 0})).traffic.values())


async def test_traffic_that_was_changed_meanwhile_is_told_and_left(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0})
    shown = (await azure.endpoint("birds")).traffic
    wire.state.endpoints["birds"]["properties"]["traffic"] = {"blue": 50, "green": 50}
    with pytest.raises(Conflict, match=r"it was blue 100 %, and is now blue 50 %, green 50 %"):
        await azure.set_traffic("birds", {"blue": 90, "green": 10}, shown)
    wire.state.endpoints["birds"]["properties"]["provisioningState"] = "Updating"
    with pytest.raises(Conflict, match="being changed: it is Updating"):
        await azure.set_traffic("birds", {"green": 100})
    assert sent(wire, "PATCH") == []


@pytest.mark.parametrize(
    ("traffic", "why"),
    [
        ({"blue": 90}, "sum to 90 %"),
        ({"blue": 60, "green": 60}, "sum to 120 %"),
        ({"blue": 50.5, "green": 49.5}, "50.5 is no share"),
        ({"blue": True, "green": 99}, "True is no share"),
        ({"blue": -1, "green": 101}, "-1 is no share"),
        ({"bleu": 100}, "no deployment 'bleu'"),
        ({"red": 100}, "'red' has failed"),
        ({"shadow": 100}, "'shadow' has mirrored requests"),
    ],
)
async def test_traffic_that_cannot_be_is_refused_before_anything_is_sent(wire, azure, traffic, why):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0, "red": 0, "shadow": 0})
    wire.state.endpoints["birds"]["properties"]["mirrorTraffic"] = {"shadow": 5}
    wire.state.deployments["birds/red"]["properties"]["provisioningState"] = "Failed"
    with pytest.raises(Invalid, match=why) as refused:
        await azure.set_traffic("birds", traffic)
    assert refused.value.next_step
    assert sent(wire, "PATCH") == []


async def test_a_change_that_fails_at_azure_is_told_with_its_cause(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0})
    start = wire.operations.start
    failure = {"code": "UserError", "message": "the front is away"}
    wire.operations.start = lambda *given, **more: start(*given, **{**more, "error": failure})
    with pytest.raises(Unexpected, match="Endpoint 'birds' failed: the front is away"):
        await azure.set_traffic("birds", {"green": 100})


async def test_a_change_that_somebody_else_undoes_is_not_called_done(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0})
    start = wire.operations.start

    def undone(kind, seconds, finish, **more):
        def end():
            finish()
            wire.state.endpoints["birds"]["properties"]["traffic"] = {"blue": 100}

        return start(kind, seconds, end, **more)

    wire.operations.start = undone
    with pytest.raises(Conflict, match=r"is blue 100 %, and not green 100 %"):
        await azure.set_traffic("birds", {"green": 100})


async def test_a_wait_that_is_left_leaves_the_change_going_on_for_whoever_looks_next(wire, azure):
    wire.operations._wire.operation_polls = None  # operations end by the clock, which stands
    wire.seed.endpoint("birds", {"blue": 100, "green": 0})
    task = asyncio.create_task(azure.set_traffic("birds", {"green": 100}))
    await until(lambda: sent(wire, "PATCH"))
    task.cancel()
    assert (await azure.endpoint("birds")).state == "Updating"
    wire.advance(60)
    assert (await azure.endpoint("birds")).traffic == {"blue": 0, "green": 100}


async def test_a_change_is_followed_through_throttling_and_short_outages(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0})
    wire.faults.add("GET", "mfeOperationsStatus", faults.fail(429, retry_after=1))
    wire.faults.add("GET", "mfeOperationsStatus", faults.cut(-1), times=5)
    assert (await azure.set_traffic("birds", {"green": 100})).traffic == {"blue": 0, "green": 100}
    assert [rule.hits for rule in wire.faults.rules] == [1, 5]


async def test_requests_are_mirrored_to_one_deployment_and_no_longer(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0, "red": 0})
    assert (await azure.set_mirror("birds", {"green": 10})).mirror == {"green": 10}
    assert sent(wire, "PATCH")[-1][1] == {"properties": {"mirrorTraffic": {"green": 10}}}
    for mirror, why in (
        ({"blue": 10}, "100 % of the live traffic"),
        ({"green": 51}, "51 is no share"),
        ({"green": 10, "red": 10}, "to one deployment at most, not to 2: green, red"),
        ({"gren": 10}, "no deployment 'gren'"),
    ):
        with pytest.raises(Invalid, match=why):
            await azure.set_mirror("birds", mirror)
    assert (await azure.set_mirror("birds", {"red": 50})).mirror == {"red": 50}
    assert (await azure.set_mirror("birds", {})).mirror == {}
    asked = len(sent(wire, "PATCH"))
    assert (await azure.set_mirror("birds", {})).mirror == {}
    assert len(sent(wire, "PATCH")) == asked
    assert (await azure.endpoint("birds")).traffic == {"blue": 100, "green": 0, "red": 0}


async def test_a_key_is_made_anew_and_the_old_one_is_refused(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.seed.endpoint("tokens", {"blue": 100}, auth="AMLToken")
    assert (await azure.invoke("birds", b"x", {})).status == 200
    before = await azure.keys("birds")
    after = await azure.regenerate_key("birds", "primary")
    assert after.primary != before.primary
    assert after.secondary == before.secondary
    assert after == await azure.keys("birds")
    assert (await azure.invoke("birds", b"x", {})).status == 200
    with pytest.raises(Invalid, match="no 'third' key"):
        await azure.regenerate_key("birds", "third")
    with pytest.raises(Invalid, match="takes tokens"):
        await azure.regenerate_key("tokens", "primary")
    with pytest.raises(NotFound):
        await azure.regenerate_key("nobody", "primary")
    # The key never goes along with the request for another.
    assert not any(key in str(seen.body) for seen in wire.requests for key in (before.primary, after.primary))


async def test_a_key_that_azure_leaves_as_it_is_is_not_called_new(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.operations.start = _doing_nothing(wire)
    with pytest.raises(Unexpected, match="the same as before"):
        await azure.regenerate_key("birds", "secondary")


def _doing_nothing(wire):
    start = wire.operations.start
    return lambda kind, seconds, finish, **more: start(kind, seconds, lambda: None, **more)


@pytest.mark.parametrize("kind", ["Managed", "Kubernetes"])
async def test_a_deployment_is_scaled_and_only_that(wire, azure, kind):
    wire.seed.endpoint("birds", {"blue": 100})
    record = wire.state.deployments["birds/blue"]
    record["properties"]["endpointComputeType"] = kind
    before = copy.deepcopy(record["properties"])
    found = await azure.scale("birds", "blue", 3)
    assert (found.instances, found.state) == (3, "Updating")
    assert sent(wire, "PATCH") == [("2023-04-01-preview", {"sku": {"name": "Default", "capacity": 3}})]
    with pytest.raises(Conflict):
        await azure.scale("birds", "blue", 4)
    wire.advance(600)
    (blue,) = (await azure.endpoint("birds")).deployments
    assert (blue.instances, blue.state) == (3, "Succeeded")
    after = {name: record["properties"][name] for name in before if name != "properties"}
    assert after == {name: value for name, value in before.items() if name != "properties"}
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(Invalid, match="no number of instances"):
            await azure.scale("birds", "blue", wrong)
    with pytest.raises(NotFound, match="deployment 'red'"):
        await azure.scale("birds", "red", 2)


async def test_one_that_scales_itself_is_not_scaled_and_a_quota_is_told(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.faults.add("PATCH", "/deployments/blue", faults.fail(400, message="Not enough quota: requested 80, limit 24."))
    with pytest.raises(QuotaExceeded, match="asked 80, limit 24"):
        await azure.scale("birds", "blue", 20)
    scaling = {"scaleType": "TargetUtilization", "minInstances": 2, "maxInstances": 9}
    wire.state.deployments["birds/blue"]["properties"]["scaleSettings"] = scaling
    with pytest.raises(Invalid, match="scales itself, from 2 to 9 instances"):
        await azure.scale("birds", "blue", 3)


async def test_a_deployment_is_deleted_once_it_has_no_traffic(wire, azure):
    wire.seed.endpoint("birds", {"blue": 90, "green": 10, "red": 0})
    wire.state.endpoints["birds"]["properties"]["mirrorTraffic"] = {"red": 5}
    with pytest.raises(Conflict, match="has 10 % of the traffic"):
        await azure.delete_deployment("birds", "green")
    with pytest.raises(Conflict, match="5 % of the requests are mirrored to deployment 'red'"):
        await azure.delete_deployment("birds", "red")
    assert sent(wire, "DELETE") == []
    await azure.set_traffic("birds", {"blue": 100})
    wire.state.endpoints["birds"]["properties"]["traffic"] = {"blue": 100}
    await azure.endpoints()
    await azure.delete_deployment("birds", "green")
    assert [one.name for one in (await azure.endpoint("birds")).deployments] == ["blue", "red"]
    assert [one.name for one in (await azure.endpoints())[0].deployments] == ["blue", "red"]
    for endpoint, name in (("birds", "green"), ("nobody", "blue")):
        with pytest.raises(NotFound):
            await azure.delete_deployment(endpoint, name)


async def test_why_a_deployment_failed_and_how_a_change_goes_is_read_from_its_operation(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.state.deployments["birds/blue"]["sku"]["capacity"] = 2
    wire.operations._wire.operation_polls = None
    wire.deployment_errors["birds/blue"] = {
        "code": "UserError",
        "message": "the container does not start, see https://a.example/log?sig=abc",
    }
    await azure.scale("birds", "blue", 3)
    (blue,) = (await azure.endpoint("birds")).deployments
    assert (blue.state, blue.error) == ("Updating", "")
    assert blue.note.startswith("Azure says Updating")
    wire.advance(100)
    wire.state.deployments["birds/blue"]["properties"]["provisioningState"] = "Failed"
    wire.requests.clear()
    for _ in range(3):
        (blue,) = (await azure.endpoint("birds")).deployments
    assert (blue.state, blue.note) == ("Failed", "")
    assert blue.error.startswith("the container does not start")
    assert "sig=" not in blue.error
    # What has ended is asked for once.
    assert len([seen for seen in wire.requests if "OperationsStatus" in seen.path]) == 1


async def test_figures_come_minutes_late_and_errors_are_counted_by_code(wire, azure):
    wire.seed.endpoint("birds", {"blue": 90, "green": 10})
    wire.requests.clear()
    blue, green = await azure.monitor("birds")
    assert (blue.deployment, green.deployment) == ("blue", "green")
    last = {name: points[-1][1] for name, points in blue.series.items()}
    assert last == {
        "requests_per_minute": 60.0,
        "errors_per_minute": 3.0,
        "latency_ms_p50": 30.0,
        "latency_ms_p90": 38.0,
        "latency_ms_p95": 40.0,
        "latency_ms_p99": 90.0,
        "cpu_percent": 35.0,
        "memory_percent": 50.0,
    }  # no GPU is told of
    assert 3 * 60 <= (wire.now - blue.until).total_seconds() < 4 * 60
    assert all(points == sorted(points) for points in blue.series.values())
    asked = [seen for seen in wire.requests if seen.path.endswith("/metrics")]
    assert len(asked) == 4  # two a deployment
    await azure.monitor("birds")
    assert len([seen for seen in wire.requests if seen.path.endswith("/metrics")]) == 4  # nothing new for a minute
    wire.seed.endpoint("bare")
    assert await azure.monitor("bare") == []
    with pytest.raises(NotFound):
        await azure.monitor("nobody")


async def test_what_a_role_may_not_do_is_known_with_the_role_that_may(wire, azure):
    static = dict(azure.capabilities)
    await azure.learn_capabilities()
    assert azure.capabilities == static  # a contributor may do all
    wire.role = "AzureML Data Scientist"
    await azure.learn_capabilities()
    lacking = {name: why for name, why in azure.capabilities.items() if name not in static}
    assert set(lacking) == {"create_cluster", "update_cluster", "delete_cluster"}
    assert "workspaces/computes/write" in lacking["create_cluster"]
    assert "AzureML Compute Operator" in lacking["create_cluster"]
    wire.role = "Reader"
    await azure.learn_capabilities()
    assert {"submit", "set_traffic", "keys", "deploy"} <= set(azure.capabilities)
    assert "AzureML Data Scientist" in azure.capabilities["submit"]
    wire.seed.endpoint("birds", {"blue": 100})
    with pytest.raises(NotAllowed, match="onlineEndpoints/listKeys/action"):
        await azure.keys("birds")
    # One who may not even ask is told nothing, and nothing is held against them.
    wire.faults.add("GET", "/permissions", faults.fail("role"))
    with pytest.raises(NotAllowed):
        await azure.learn_capabilities()


def test_a_star_of_a_permission_may_be_nothing_between_slashes():
    role = [{"actions": ["A/w/*/write"], "notActions": ["A/w/c/*/write"]}]
    assert allows(role, "A/w/jobs/write")
    assert allows(role, "a/W/jobs/x/write")
    assert not allows(role, "A/w/c/write")
    assert not allows(role, "A/w/jobs/delete")
    assert allows([*role, {"actions": ["*"]}], "A/w/c/write")  # roles add up
    assert not allows([{"actions": None}, None, "x"], "A/w/read")
