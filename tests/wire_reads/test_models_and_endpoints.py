"""Metrics, models, outputs, data and endpoints of Azure ML over a socket, and scoring."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta

import pytest
from tests.wire import faults
from tests.wire.state import Point

from footplate.workspace import Conflict, Invalid, NotAllowed, NotFound, Unreachable

PNG = {"Content-Type": "image/png"}


def paths(wire, method="GET"):
    return [seen.path.rpartition("/workspaces/ws")[2] for seen in wire.requests if seen.method == method]


async def test_metrics_come_in_step_order_and_unchanged_curves_are_not_asked_for_again(wire, azure):
    wire.seed.job("wren", "Running")
    moment = wire.now
    wire.state.metrics["wren"] = {
        "val_acc": [Point(0.75, 2, moment), Point(0.5, 1, moment)],
        "odd": [Point(math.nan, 0, moment), Point(math.inf, 1, moment)],
    }
    found = await azure.metrics("wren")
    assert [(point.step, point.value) for point in found["val_acc"]] == [(1, 0.5), (2, 0.75)]
    assert math.isnan(found["odd"][0].value)
    assert found["odd"][1].value == math.inf
    assert all(abs((point.time - moment).total_seconds()) < 0.01 for point in found["val_acc"])
    wire.requests.clear()
    assert list(await azure.metrics("wren")) == list(found)
    assert [path.rpartition("/")[2] for path in paths(wire)] == ["get"]
    wire.state.metrics["wren"]["val_acc"].append(Point(0.8, 3, moment))
    assert len((await azure.metrics("wren"))["val_acc"]) == 3
    assert [path.rpartition("/")[2] for path in paths(wire)] == ["get", "get", "get-history"]


async def test_a_job_without_metrics_has_none(wire, azure):
    wire.seed.job("silent")
    assert await azure.metrics("silent") == {}


async def test_models_come_newest_first_in_one_request_for_each_name(wire, azure):
    wire.seed.job("wren")
    wire.seed.model("birds", "1", job="wren")
    wire.now = wire.now.replace(microsecond=0)
    wire.advance(60)
    wire.seed.model("birds", "2")
    wire.advance(60)
    wire.seed.model("fish", "1")
    assert [(model.reference, model.job) for model in await azure.models()] == [
        ("fish:1", None),
        ("birds:2", None),
        ("birds:1", "wren"),
    ]
    assert paths(wire) == ["/models", "/models/birds/versions", "/models/fish/versions"]
    await azure.models()
    assert paths(wire)[3:] == ["/models"]
    wire.advance(60)
    wire.seed.model("fish", "2")
    assert (await azure.models())[0].reference == "fish:2"
    assert paths(wire)[4:] == ["/models", "/models/fish/versions"]


async def test_one_model_is_found_by_version_label_or_name_with_what_its_files_say(wire, azure):
    for version in ("1", "2"):
        wire.advance(60)
        wire.seed.model("birds", version)
    metadata = {"classes": ["wren", "robin"], "input_shape": [3, 224, 224]}
    wire.state.put_blob("azureml-blobstore-1", "LocalUpload/birds-2/model/model.json", json.dumps(metadata).encode())
    for reference in ("birds:2", "azureml:birds:2", "birds@latest", "birds"):
        model = await azure.model(reference)
        assert (model.reference, model.class_names, model.input_shape) == ("birds:2", ("wren", "robin"), (3, 224, 224))
        assert model.size == 1024 + len(json.dumps(metadata))
    assert (await azure.model("birds:1")).metadata == {}
    for reference in ("birds:9", "cats", "cats@latest", "azureml://registries/azureml/models/x/versions/1"):
        with pytest.raises(NotFound):
            await azure.model(reference)
    with pytest.raises(Invalid):
        await azure.model("birds@oldest")


async def test_a_model_says_which_job_trial_values_and_commit_it_comes_from(wire, azure):
    wire.seed.sweep("hunt", trials=2, at_once=2)
    wire.advance(4000)
    trial = wire.state.children["hunt"][0]
    wire.seed.model("birds", "1", job=trial)
    metadata = {"metrics": {"best_val_acc": 0.75}, "git_commit": "abc123"}
    files = f"ExperimentRun/dcid.{trial}/outputs/model/model.json"
    wire.state.put_blob("azureml", files, json.dumps(metadata).encode())
    found = (await azure.model("birds:1")).lineage
    assert (found["job"], found["trial"]) == ("hunt", trial)
    assert set(found["parameters"]) == {"learning_rate", "batch_size"}
    assert (found["metric"], found["commit"]) == ({"best_val_acc": 0.75}, "abc123")
    wire.seed.job("alone")
    wire.seed.model("fish", "1", job="alone")
    assert (await azure.model("fish:1")).lineage["job"] == "alone"
    assert (await azure.model("fish:1")).lineage["parameters"]["num_epochs"] == "15"
    wire.seed.model("lost", "1", job="nobody")
    assert (await azure.model("lost:1")).lineage == {"job": "nobody"}
    wire.seed.model("made", "1")
    wire.requests.clear()
    assert (await azure.model("made:1")).lineage == {}
    await azure.model("fish:1")  # its job is known by now
    assert not [path for path in paths(wire) if path.startswith("/jobs/") or "/runs/" in path]


async def test_a_model_is_told_of_though_its_files_are_out_of_reach(wire, azure):
    wire.seed.model("birds")
    wire.faults.add("GET", "/blob/", faults.fail("firewall"), times=None)
    assert (await azure.model("birds")).reference == "birds:1"


async def test_outputs_are_counted_and_a_firewall_is_named(wire, azure):
    wire.seed.job("wren")
    root = "ExperimentRun/dcid.wren"
    for path, data in (("outputs/a.bin", b"12345"), ("outputs/deep/b.bin", b"123"), ("user_logs/std_log.txt", b"x")):
        wire.state.put_blob("azureml", f"{root}/{path}", data)
    (output,) = await azure.outputs("wren")
    assert (output.name, output.files, output.size) == ("default", 2, 8)
    wire.expire_addresses()
    assert (await azure.outputs("wren"))[0].files == 2
    wire.faults.add("GET", "/blob/", faults.fail("firewall"), times=None)
    with pytest.raises(NotAllowed, match="firewall"):
        await azure.outputs("wren")
    assert not any("sig=" in str(seen.body) for seen in wire.requests)


async def test_data_environments_and_datastores_are_listed(wire, azure):
    wire.seed.data("birds", "1")
    wire.seed.data("birds", "2")
    (asset,) = await azure.data_assets()
    assert (asset.name, asset.version, asset.path, asset.type) == ("birds", "2", "azureml:birds:2", "uri_folder")
    assert await azure.data_folder("azureml:birds:1") is None
    assert await azure.data_folder("birds@latest") is None
    with pytest.raises(NotFound):
        await azure.data_folder("fish")
    assert "AzureML-acpt-pytorch-2.8-cuda12.6" in {found.name for found in await azure.environments()}
    assert {store.name for store in await azure.datastores()} == {"workspaceblobstore", "workspaceartifactstore"}


async def test_endpoints_have_their_deployments_traffic_and_state(wire, azure):
    wire.seed.endpoint("birds", {"blue": 90, "green": 10})
    wire.seed.endpoint("empty")
    birds, empty = await azure.endpoints()
    assert (birds.name, birds.state, birds.traffic, birds.auth_mode) == (
        "birds",
        "Succeeded",
        {"blue": 90, "green": 10},
        "key",
    )
    assert [(one.name, one.model, one.state, one.instances) for one in birds.deployments] == [
        ("blue", "birds:1", "Succeeded", 1),
        ("green", "birds:1", "Succeeded", 1),
    ]
    assert empty.deployments == ()
    asked = len(wire.requests)
    assert asked == 3
    await azure.endpoints()
    assert len(wire.requests) == asked + 1  # what stands still is not asked for again at once
    assert await azure.endpoint("birds") == birds
    with pytest.raises(NotFound, match="no endpoint 'nobody'"):
        await azure.endpoint("nobody")


async def test_keys_stay_out_of_sight_and_are_not_there_where_tokens_are(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.seed.endpoint("tokens", {"blue": 100}, auth="AMLToken")
    keys = await azure.keys("birds")
    assert {keys.primary, keys.secondary} == set(wire.state.keys["birds"].values())
    assert keys.primary not in repr(keys)
    assert keys.expires is None
    token = await azure.keys("tokens")
    assert (wire.tokens.why_not(f"Bearer {token.primary}"), token.secondary) == ("", "")
    assert timedelta(hours=5) < token.expires - datetime.now(UTC) < timedelta(hours=13)
    assert token.primary not in repr(token)
    wire.seed.endpoint("directory", {"blue": 100}, auth="AADToken")
    with pytest.raises(Invalid, match="tokens of the directory"):
        await azure.keys("directory")


@pytest.mark.parametrize("auth", ["Key", "AMLToken", "AADToken"])
async def test_invoke_posts_to_the_scoring_address_and_is_not_sticky(wire, azure, auth):
    wire.seed.endpoint("birds", {"blue": 100, "green": 0}, auth=auth)
    wire.state.scorer = lambda call: (200, {"label": "wren", "deployment": call.deployment, "bytes": len(call.body)})
    answer = await azure.invoke("birds", b"picture", PNG, "green")
    assert (answer.status, answer.deployment) == (200, "green")
    assert json.loads(answer.body) == {"label": "wren", "deployment": "green", "bytes": 7}
    answer = await azure.invoke("birds", b"picture", PNG)
    assert answer.deployment == "blue"
    assert 0 < answer.seconds < 30
    wire.requests.clear()
    await azure.invoke("birds", b"x" * 3_000_000, PNG)
    assert [seen.path for seen in wire.requests] == ["/score/birds/score"]


async def test_a_regenerated_key_is_read_again(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.state.scorer = lambda call: (200, {})
    await azure.invoke("birds", b"x", PNG)
    wire.state.keys["birds"] = {"primaryKey": "new-one", "secondaryKey": "new-two"}
    assert (await azure.invoke("birds", b"x", PNG)).status == 200


async def test_a_models_own_error_and_an_unknown_deployment_are_answers(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.state.scorer = lambda call: (500, b"no birds here")
    answer = await azure.invoke("birds", b"x", PNG)
    assert (answer.status, answer.body) == (424, b"no birds here")
    assert answer.headers["ms-azureml-model-error-statuscode"] == "500"
    assert (await azure.invoke("birds", b"x", PNG, "purple")).status == 404
    wire.faults.add("POST", "/score/", faults.cut(-1), times=None)
    with pytest.raises(Unreachable):
        await azure.invoke("birds", b"x", PNG)
    with pytest.raises(NotFound):
        await azure.invoke("nobody", b"x", PNG)


async def test_an_endpoint_that_is_being_made_has_no_address_yet(wire, azure):
    wire.seed.endpoint("birds")
    wire.state.endpoints["birds"]["properties"] |= {"scoringUri": None, "provisioningState": "Creating"}
    assert (await azure.endpoint("birds")).scoring_uri == ""
    with pytest.raises(Conflict, match="no address yet: it is Creating"):
        await azure.invoke("birds", b"x", PNG)


async def test_a_deployments_log_is_its_last_lines(wire, azure):
    wire.seed.endpoint("birds", {"blue": 100})
    wire.state.deployment_logs["birds/blue"] = {
        "InferenceServer": "one\ntwo\nthree\n",
        "StorageInitializer": "downloading\ndone\n",
    }
    assert await azure.deployment_log("birds", "blue", 2) == "two\nthree\n"
    assert await azure.deployment_log("birds", "blue", 9, "storage-initializer") == "downloading\ndone\n"
    with pytest.raises(Invalid, match="no container 'sidecar'"):
        await azure.deployment_log("birds", "blue", 9, "sidecar")
    assert await azure.deployment_log("birds", "blue", 0) == ""
    with pytest.raises(NotFound, match="deployment 'red' of endpoint 'birds'"):
        await azure.deployment_log("birds", "red", 10)


async def test_a_model_is_deployed_on_the_smallest_size_that_is_recommended(azure):
    assert azure.deployment_size == "Standard_DS3_v2"
