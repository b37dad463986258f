"""Models are registered, endpoints made, models deployed and endpoints deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.wire import JobPlan, fail
from tests.wire.client import real_client

from footplate import paths
from footplate.azure.deployment_defaults import IMAGE, PACKAGES
from footplate.jobfile import read
from footplate.operations import deploy as deploying
from footplate.workspace import Conflict, Invalid, NotFound, QuotaExceeded

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours


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


async def test_of_a_sweep_the_best_trials_model_is_registered(azure, wire, folder) -> None:
    wire.plans["hunt"] = JobPlan(running=500)
    changes = {"limits.max_total_trials": 3, "limits.max_concurrent_trials": 3}
    await azure.submit(read(folder / "jobs" / "sweep.yml").edit(changes), "hunt")
    with pytest.raises(Conflict, match="has no best trial: Azure names none while it is Running"):
        await azure.register("best-birds", "hunt")
    wire.advance(3000)
    best = (await azure.job("hunt")).best_child
    made = await azure.register("best-birds", "hunt")
    assert (made.job, made.lineage["job"], made.lineage["trial"]) == (best, "hunt", best)
    uri = wire.state.models["best-birds/1"]["properties"]["modelUri"]
    assert uri == f"azureml://jobs/{best}/outputs/artifacts/paths/outputs/model"


async def test_an_endpoint_is_made_and_a_first_deployment_takes_all_traffic(azure, wire) -> None:
    deployment = await deploying.deploy(azure, "birds", "live", "blue")
    assert (deployment.state, deployment.model) == ("Succeeded", "birds:2")
    endpoint = await azure.endpoint("live")
    assert (endpoint.state, endpoint.auth_mode, endpoint.traffic) == ("Succeeded", "key", {"blue": 100})
    sent = next(one.body for one in wire.requests if one.method == "PUT" and one.path.endswith("/deployments/blue"))
    inner = sent["properties"]
    assert inner["model"].endswith("/models/birds/versions/2")
    assert inner["codeConfiguration"]["scoringScript"] == "score.py"
    assert inner["instanceType"] == azure.deployment_size == "Standard_NC4as_T4_v3"
    assert deployment.size == "Standard_NC4as_T4_v3"
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


async def test_models_endpoints_and_deployments_are_asked_for_as_the_sdk_itself_does(azure, wire, folder) -> None:
    def by_sdk() -> None:
        from azure.ai.ml import entities as ml

        with real_client(wire) as client:
            for path in (folder / "model", "azureml://jobs/trained/outputs/artifacts/paths/outputs/model"):
                model = ml.Model(name="theirs", path=str(path), type="custom_model", description="two birds")
                client.models.create_or_update(model)
            endpoint = ml.ManagedOnlineEndpoint(name="theirs", auth_mode="key")
            client.online_endpoints.begin_create_or_update(endpoint).result()
            deployment = ml.ManagedOnlineDeployment(
                name="blue",
                endpoint_name="theirs",
                model="azureml:birds:2",
                code_configuration=ml.CodeConfiguration(code=str(paths.asset("score")), scoring_script="score.py"),
                environment=ml.Environment(image=IMAGE, conda_file=dict(PACKAGES)),
                instance_type=azure.deployment_size,
                instance_count=1,
            )
            client.online_deployments.begin_create_or_update(deployment)

    def put(end: str) -> Any:
        return next(one.body for one in wire.requests if one.method == "PUT" and one.path.endswith(end))

    await azure.register("ours", folder / "model", "two birds")
    await azure.register("ours", "trained", "two birds")
    await asyncio.to_thread(by_sdk)
    for version in ("1", "2"):
        assert put(f"/models/ours/versions/{version}") == put(f"/models/theirs/versions/{version}")
    assert put("/onlineEndpoints/live") == put("/onlineEndpoints/theirs")
    assert put("/live/deployments/blue") == put("/theirs/deployments/blue")


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
    assert [one.name for one in await azure.endpoints()] == ["broken", "theirs"]
    assert not [key for key in wire.state.deployments if key.startswith("live/")]
    with pytest.raises(NotFound):
        await azure.delete_endpoint("live")


async def test_what_azure_archives_is_not_deleted(azure) -> None:
    for act in (azure.delete_model("birds:1"), azure.delete_job("trained")):
        with pytest.raises(Invalid, match="archived, not deleted"):
            await act
    assert {"delete_model", "delete_job"} <= set(azure.capabilities)
    assert not {"submit", "register", "deploy", "create_endpoint", "delete_endpoint"} & set(azure.capabilities)


async def test_a_model_of_a_registry_is_deployed_by_its_address(azure, wire) -> None:
    wire.seed.registry_model("shared", "finch", "2")
    address = "azureml://registries/shared/models/finch/versions/2"
    for given in (address, "azureml://registries/shared/models/finch/labels/latest"):
        assert (await azure.model(given)).reference == address
    for given in ("azureml://registries/shared/models/finch/versions/3", "azureml://registries/shared/models/nobody"):
        with pytest.raises(NotFound):
            await azure.model(given)
    deployment = await deploying.deploy(azure, address, "of-registry", "blue")
    assert (deployment.state, deployment.model) == ("Succeeded", address)
    assert (await azure.deploy("of-registry", "blue", address)).model == address
    with pytest.raises(NotFound):
        await deploying.deploy(azure, "azureml://registries/shared/models/wren/versions/1", "of-nothing", "blue")
    with pytest.raises(NotFound):
        await azure.endpoint("of-nothing")
