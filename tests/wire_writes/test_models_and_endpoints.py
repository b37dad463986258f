"""Models are registered, endpoints made, models deployed and endpoints deleted."""

from __future__ import annotations

import pytest
from tests.wire import JobPlan, fail

from footplate.jobfile import read
from footplate.operations import deploy as deploying
from footplate.workspace import Conflict, Invalid, NotFound, QuotaExceeded

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_model_is_registered_from_a_folder(azure, wire, folder) -> None:
    model = folder / "model"
    model.mkdir()
    with pytest.raises(Invalid, match="no folder with files"):
        await azure.register("birds", model)
    (model / "model.json").write_text('{"format": 1, "classes": ["wren", "robin"]}')
    (model / "model.onnx").write_bytes(b"o" * 1000)
    made = await azure.register("birds", model, "two birds")
    assert (made.reference, made.class_names, made.description) == ("birds:1", ("wren", "robin"), "two birds")
    assert (await azure.register("birds", model)).version == "2"
    with pytest.raises(Invalid):
        await azure.register("-birds", model)
    assert [one.reference for one in await azure.models()] == ["birds:2", "birds:1"]


async def test_a_model_is_registered_from_what_a_job_wrote(azure, wire, folder) -> None:
    wire.plans["trained"] = JobPlan(running=500)
    await azure.submit(read(folder / "jobs" / "train.yml"), "trained")
    with pytest.raises(Conflict, match="has not ended"):
        await azure.register("trained-birds", "trained")
    wire.advance(600)
    made = await azure.register("trained-birds", "trained")
    assert (made.reference, made.job) == ("trained-birds:1", "trained")
    uri = wire.state.models["trained-birds/1"]["properties"]["modelUri"]
    assert uri == "azureml://jobs/trained/outputs/artifacts/paths/outputs/model"
    with pytest.raises(NotFound):
        await azure.register("trained-birds", "nobody")


async def test_an_endpoint_is_made_and_a_first_deployment_takes_all_traffic(azure, wire) -> None:
    deployment = await deploying.deploy(azure, "birds", "live", "blue")
    assert (deployment.state, deployment.model) == ("Succeeded", "birds:2")
    endpoint = await azure.endpoint("live")
    assert (endpoint.state, endpoint.auth_mode, endpoint.traffic) == ("Succeeded", "key", {"blue": 100})
    sent = next(one.body for one in wire.requests if one.method == "PUT" and one.path.endswith("/deployments/blue"))
    inner = sent["properties"]
    assert inner["model"].endswith("/models/birds/versions/2")
    assert inner["codeConfiguration"]["scoringScript"] == "score.py"
    assert inner["instanceType"] == "Standard_DS3_v2"
    assert sent["sku"]["capacity"] == 1
    uploaded = {name for box, name in wire.state.blobs if box.startswith(wire.state.workspace_guid)}
    assert "score/score.py" in uploaded
    with pytest.raises(Conflict, match="already an endpoint 'live'"):
        await azure.create_endpoint("live")
    with pytest.raises(Invalid):
        await azure.create_endpoint("1")
    with pytest.raises(Conflict, match="already has a deployment 'blue', with model birds:2"):
        await azure.deploy("live", "blue", "birds:1")
    with pytest.raises(NotFound):
        await azure.deploy("live", "green", "nobody:1")
    puts = len([one for one in wire.requests if one.method == "PUT"])
    assert (await azure.deploy("live", "blue", "birds:2")).state == "Succeeded"
    green = await azure.deploy("live", "green", "birds:1")
    assert green.state in ("Creating", "Succeeded")
    assert (await deploying.wait(azure, "live", "green")).model == "birds:1"
    assert (await azure.endpoint("live")).traffic == {"blue": 100}
    assert puts < len([one for one in wire.requests if one.method == "PUT"])


async def test_a_deployment_that_fails_has_no_traffic(azure, wire) -> None:
    await azure.create_endpoint("broken")
    wire.deployment_errors["broken/blue"] = {"code": "UserError", "message": "the container does not start"}
    with pytest.raises(deploying.DeploymentFailed):
        await deploying.deploy(azure, "birds:1", "broken", "blue")
    assert (await azure.endpoint("broken")).traffic == {}
    wire.faults.add("PUT", "/onlineEndpoints/many", fail(400, message="Not enough quota: requested 4, limit 2."))
    with pytest.raises(QuotaExceeded, match="asked 4, limit 2"):
        await azure.create_endpoint("many")


async def test_an_endpoint_is_deleted_with_its_deployments(azure, wire) -> None:
    await azure.delete_endpoint("live")
    assert [one.name for one in await azure.endpoints()] == ["broken"]
    assert not [key for key in wire.state.deployments if key.startswith("live/")]
    with pytest.raises(NotFound):
        await azure.delete_endpoint("live")


async def test_what_azure_archives_is_not_deleted(azure) -> None:
    for act in (azure.delete_model("birds:1"), azure.delete_job("trained")):
        with pytest.raises(Invalid, match="archived, not deleted"):
            await act
    assert {"delete_model", "delete_job"} <= set(azure.capabilities)
    assert not {"submit", "register", "deploy", "create_endpoint", "delete_endpoint"} & set(azure.capabilities)
