"""Endpoints and deployments from their files: what reaches the server is what Azure's client sends for the same file."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.azure_client import KINDS, MANIFEST, copy_corpus, needs_corpus
from tests.wire import WireServer
from tests.wire.client import real_client

from footplate.jobfile import read
from footplate.operations import deploy as deploying
from footplate.workspace import Conflict, Invalid, NotFound, WorkspaceError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours

SCORE = "def init():\n    pass\n\n\ndef run(data):\n    return data\n"
ENDPOINT = """\
# kept as it is
name: fleet
auth_mode: key
description: two birds
tags: {team: birds}
"""
BLUE = """\
name: blue
endpoint_name: fleet
model: azureml:birds:1
code_configuration: {code: ../code, scoring_script: score.py}
environment:
  image: mcr.microsoft.com/azureml/minimal-py312-inference:latest
  conda_file: {name: score, dependencies: [python=3.12]}
environment_variables: {DEPTH: 3, QUICK: true}
instance_type: Standard_DS3_v2
instance_count: 2
request_settings: {request_timeout_ms: 3000, max_concurrent_requests_per_instance: 2, max_queue_wait_ms: 500}
liveness_probe: {initial_delay: 30, period: 10, timeout: 2, success_threshold: 1, failure_threshold: 3}
app_insights_enabled: true
tags: {colour: blue}
"""
SCHEMA = "$schema: https://azuremlschemas.azureedge.net/latest/{}OnlineEndpoint.schema.json\n"
KUBERNETES_ENDPOINT = f"{SCHEMA.format('kubernetes')}name: onprem\ncompute: azureml:k8s\nauth_mode: aml_token\n"
KUBERNETES = """\
name: green
type: kubernetes
endpoint_name: onprem
model: azureml:birds:1
code_configuration: {code: ../code, scoring_script: score.py}
environment: azureml:AzureML-acpt-pytorch-2.8-cuda12.6:3
instance_type: defaultinstancetype
instance_count: 1
resources: {requests: {cpu: "0.5", memory: 0.5Gi}, limits: {cpu: "1", memory: 1Gi, nvidia.com/gpu: "1"}}
scale_settings: {type: target_utilization, min_instances: 1, max_instances: 3, target_utilization_percentage: 60}
"""


def puts(wire: WireServer, end: str) -> list[Any]:
    """The bodies of the requests that made or changed what a path ends with."""
    return [one.body for one in wire.requests if one.method == "PUT" and one.path.endswith(end)]


@pytest.fixture(scope="module")
def files(wire: WireServer, folder: Path) -> Path:
    """A folder with the files above and their code, and what they name in the workspace."""
    wire.seed.kubernetes("k8s")
    wire.seed.model("birds", "1")
    place = folder / "endpoints"
    for name in (place, folder / "code"):
        name.mkdir()
    (folder / "code" / "score.py").write_text(SCORE)
    for name, text in (
        ("fleet.yml", ENDPOINT),
        ("blue.yml", BLUE),
        ("onprem.yml", KUBERNETES_ENDPOINT),
        ("green.yml", KUBERNETES),
    ):
        (place / name).write_text(text)
    return place


async def test_what_reaches_the_server_is_what_the_sdk_itself_sends(azure, wire, files) -> None:
    await asyncio.to_thread(importlib.import_module, "azure.ai.ml")
    fleet = await azure.create_endpoint_from(read(files / "fleet.yml"))
    assert (fleet.name, fleet.state, fleet.description) == ("fleet", "Succeeded", "two birds")
    assert (await azure.create_endpoint_from(read(files / "onprem.yml"))).auth_mode == "aml_token"
    blue = await azure.deploy_from(read(files / "blue.yml"), traffic=False)
    assert (blue.name, blue.endpoint, blue.model, blue.instances) == ("blue", "fleet", "birds:1", 2)
    await azure.deploy_from(read(files / "green.yml"), traffic=False)

    def by_sdk() -> None:
        from azure.ai.ml import load_online_deployment, load_online_endpoint

        with real_client(wire) as ml:
            for name in ("fleet", "onprem"):
                endpoint = load_online_endpoint(files / f"{name}.yml", params_override=[{"name": f"{name}-theirs"}])
                ml.online_endpoints.begin_create_or_update(endpoint).result()
            for name, endpoint in (("blue", "fleet-theirs"), ("green", "onprem-theirs")):
                changes = [{"endpoint_name": endpoint}]
                deployment = load_online_deployment(files / f"{name}.yml", params_override=changes)
                ml.online_deployments.begin_create_or_update(deployment)

    await asyncio.to_thread(by_sdk)
    for ours in ("onlineEndpoints/fleet", "onlineEndpoints/onprem"):
        assert puts(wire, ours) == puts(wire, f"{ours}-theirs")
    for endpoint, name in (("fleet", "blue"), ("onprem", "green")):
        ours = puts(wire, f"/{endpoint}/deployments/{name}")
        assert ours == puts(wire, f"/{endpoint}-theirs/deployments/{name}")
        assert ours[0]["properties"]["codeConfiguration"]["scoringScript"] == "score.py"
    sent = puts(wire, "/fleet/deployments/blue")[0]
    assert sent["properties"]["environmentVariables"] == {"DEPTH": 3, "QUICK": True}
    assert sent["sku"]["capacity"] == 2
    assert (await deploying.wait(azure, "fleet", "blue")).state == "Succeeded"
    assert (await azure.endpoint("fleet")).traffic == {}  # it was told not to


async def test_a_first_deployment_of_a_file_takes_all_traffic_and_says_so_before(azure, wire, files) -> None:
    file = read(files / "blue.yml")
    await azure.create_endpoint_from(read(files / "fleet.yml"), "first")
    blue = await azure.deploy_from(file, endpoint="first")
    assert blue.state in ("Creating", "Updating")
    assert "takes all traffic once it is up" in blue.note
    (listed,) = next(one for one in await azure.endpoints() if one.name == "first").deployments
    assert "takes all traffic once it is up" in listed.note or listed.state == "Succeeded"
    assert (await deploying.wait(azure, "first", "blue")).note == ""
    assert (await azure.endpoint("first")).traffic == {"blue": 100}
    await azure.deploy_from(file, endpoint="first", name="green")
    await deploying.wait(azure, "first", "green")
    assert (await azure.endpoint("first")).traffic == {"blue": 100}


async def test_what_a_file_does_not_say_of_what_is_there_stays(azure, wire, files) -> None:
    record = wire.state.endpoints["first"]
    record["properties"]["mirrorTraffic"] = {"green": 5}
    (files / "again.yml").write_text(
        f"{SCHEMA.format('managed')}name: first\ndescription: changed\ntags: {{more: 'yes'}}\n"
    )
    found = await azure.create_endpoint_from(read(files / "again.yml"))
    assert (found.description, found.traffic, found.mirror) == ("changed", {"blue": 100}, {"green": 5})
    assert record["tags"] == {"team": "birds", "more": "yes"}
    (files / "again.yml").write_text(f"{SCHEMA.format('kubernetes')}name: onprem\ncompute: azureml:k8s\n")
    assert (await azure.create_endpoint_from(read(files / "again.yml"))).auth_mode == "aml_token"
    scaled = await azure.scale("first", "blue", 4)
    assert scaled.instances == 4
    wire.state.deployments["first/blue"]["properties"]["provisioningState"] = "Updating"
    with pytest.raises(Conflict, match="Deployment 'blue' is being changed"):
        await azure.deploy_from(read(files / "blue.yml"), endpoint="first")
    wire.advance(600)
    wire.state.deployments["first/blue"]["properties"]["provisioningState"] = "Succeeded"
    await deploying.wait(azure, "first", "blue")
    without = read(files / "blue.yml").edit({"instance_count": None})
    assert (await azure.deploy_from(without, endpoint="first")).instances == 4
    await deploying.wait(azure, "first", "blue")
    assert (await azure.deploy_from(read(files / "blue.yml"), endpoint="first")).instances == 2


async def test_files_that_are_none_and_names_that_are_none_are_refused(azure, wire, files, folder) -> None:
    asked = len(puts(wire, ""))
    job, endpoint, blue = (read(path) for path in (folder / "jobs/train.yml", files / "fleet.yml", files / "blue.yml"))
    with pytest.raises(Invalid, match=r"train\.yml is a command job, and not an online endpoint"):
        await azure.create_endpoint_from(job)
    with pytest.raises(Invalid, match=r"fleet\.yml is an online endpoint, and not an online deployment"):
        await azure.deploy_from(endpoint)
    with pytest.raises(Invalid, match="cannot be the name of an endpoint"):
        await azure.create_endpoint_from(endpoint, "-")
    with pytest.raises(NotFound, match="no endpoint 'nobody'"):
        await azure.deploy_from(blue, endpoint="nobody")
    with pytest.raises(Invalid, match="Azure's SDK refuses deployment 'red' of endpoint 'fleet'"):
        await azure.deploy_from(blue.edit({"code_configuration.code": "../nothing"}), name="red")
    wire.state.endpoints["fleet"]["properties"]["provisioningState"] = "Updating"
    with pytest.raises(Conflict, match="being changed"):
        await azure.deploy_from(blue, name="red")
    with pytest.raises(Conflict, match="being changed"):
        await azure.create_endpoint_from(endpoint)
    wire.state.endpoints["fleet"]["properties"]["provisioningState"] = "Succeeded"
    assert len(puts(wire, "")) == asked


_MODELS = (
    *("heart-classifier-mlflow", "azureml-infschema", "basic-chat-model", "credit-default-model"),
    "sklearn-regression",
)
_ENVIRONMENTS = ("sklearn-regression-online-pkg", "sklearn-regression-env")


@needs_corpus
async def test_each_endpoint_and_deployment_of_the_corpus_is_sent_as_the_sdk_sends_it(azure, wire, folder) -> None:
    root = copy_corpus(folder / "corpus")
    entries = [one for one in MANIFEST if KINDS[one["kind"]] in ("endpoint", "deployment")]
    for name in ("ours", "theirs"):
        wire.seed.endpoint(name)
    for entry in entries:
        _make_script(root / entry["path"])
    for path in (root, *root.rglob("*")):
        if path.is_dir() and not any(path.iterdir()):
            (path / "made_up.txt").write_text("1")  # an empty folder is no model
    for name in _MODELS:
        wire.seed.model(name)
    for name in _ENVIRONMENTS:
        wire.seed.environment(name)
    refused: dict[str, str] = {}
    for number, entry in enumerate(entries):
        file = read(root / entry["path"])
        try:
            if file.kind == "endpoint":
                await azure.create_endpoint_from(file, f"ours-{number}")
            else:
                await azure.deploy_from(file, endpoint="ours", name=f"dep-{number}", traffic=False)
        except WorkspaceError as error:
            refused[entry["path"]] = str(error)

    def by_sdk() -> None:
        from azure.ai.ml import load_online_deployment, load_online_endpoint

        with real_client(wire) as ml:
            for number, entry in enumerate(entries):
                with contextlib.suppress(
                    Exception
                ):  # what it refuses never reaches the server, which is compared below
                    if KINDS[entry["kind"]] == "endpoint":
                        changes = [{"name": f"theirs-{number}"}]
                        made = load_online_endpoint(root / entry["path"], params_override=changes)
                        ml.online_endpoints.begin_create_or_update(made)
                    else:
                        changes = [{"name": f"dep-{number}"}, {"endpoint_name": "theirs"}]
                        made = load_online_deployment(root / entry["path"], params_override=changes)
                        ml.online_deployments.begin_create_or_update(made)

    await asyncio.to_thread(by_sdk)
    for number, entry in enumerate(entries):
        endpoint = KINDS[entry["kind"]] == "endpoint"
        ours = puts(wire, f"/ours-{number}" if endpoint else f"/ours/deployments/dep-{number}")
        theirs = puts(wire, f"/theirs-{number}" if endpoint else f"/theirs/deployments/dep-{number}")
        # Data that is collected is named after the endpoint.
        assert ours == json.loads(json.dumps(theirs).replace("/data/theirs-", "/data/ours-")), entry["path"]
        assert ours, entry["path"]
    # Some name a size that the server's region has not.
    assert all("is not supported in eastus2" in why for why in refused.values()), refused


def _make_script(file: Path) -> None:
    """Make the scoring script that a file of the corpus names, where it is missing."""
    values = read(file)
    code, script = values.get("code_configuration", "code"), values.get("code_configuration", "scoring_script")
    if isinstance(code, str) and isinstance(script, str) and (file.parent / code).is_dir():
        path = file.parent / code / script
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(SCORE)
