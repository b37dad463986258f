"""A file checked against what a workspace on Azure has: asked for once, and only what the file names."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.commands import Footplate
from tests.wire import faults

from footplate.jobfile import document
from footplate.operations.check import check_for_launch, gather, nodes_left
from footplate.workspace import Quota, Size

JOB = """\
command: python train.py --data ${{inputs.data}}
environment: azureml:torch-gpu:3
compute: azureml:gpu
inputs:
  data: {type: uri_folder, path: azureml://datastores/workspaceblobstore/paths/birds/}
"""
SERVERLESS = """\
command: python train.py
environment: azureml:torch-gpu@latest
resources: {instance_type: standard_nc4as_t4_v3, instance_count: 4}
"""


def parsed(text):
    return document.parse(text, None, Path("/nowhere"))


@pytest.fixture
def seeded(wire):
    wire.seed.cluster("gpu", "Standard_NC4as_T4_v3", high=2)
    wire.seed.kubernetes("k8s")
    wire.seed.environment("torch-gpu", "12")
    return wire


async def found(azure, text):
    faults_found = await check_for_launch(azure, parsed(text))
    return [(fault.code, fault.severity, fault.hint) for fault in faults_found if fault.code not in ("no-code",)]


async def test_a_file_whose_things_are_there_has_no_faults_and_older_versions_are_not_accused(seeded, azure):
    assert await found(azure, JOB) == []
    assert {seen.path.rpartition("/")[2] for seen in seeded.requests if "/workspaces/ws/" in seen.path} == {
        "computes",
        "environments",
        "datastores",
    }
    seeded.requests.clear()
    await gather(azure, parsed("command: ls\nenvironment: {image: x}\n"))
    assert {seen.path.rpartition("/")[2] for seen in seeded.requests} == {"computes"}


async def test_names_that_are_wrong_are_found_with_the_nearest(seeded, azure):
    wrong = JOB.replace("torch-gpu:3", "torch-gup:3").replace("workspaceblobstore", "workspaceblobstor")
    assert await found(azure, wrong.replace("azureml:gpu", "azureml:gpus")) == [
        ("unknown-environment", "warning", "Near: azureml:torch-gpu@latest."),
        ("unknown-cluster", "error", "Did you mean gpu?"),
        ("unknown-datastore", "error", "Did you mean workspaceblobstore?"),
    ]


async def test_nodes_are_counted_against_the_cluster_and_a_kubernetes_tells_of_none(seeded, azure):
    many = f"{JOB}resources: {{instance_count: 8}}\n"
    assert [code for code, _, _ in await found(azure, many)] == ["cluster-too-small"]
    assert await found(azure, many.replace("azureml:gpu", "azureml:k8s")) == []


async def test_a_serverless_job_is_counted_against_the_quota_of_its_tier(seeded, azure):
    assert await found(azure, SERVERLESS) == []
    family = seeded.state.quota["Standard NCASv3_T4 Family"]
    family["currentValue"] = 12  # of 24: room for 3 of 4 cores
    assert [code for code, _, _ in await found(azure, SERVERLESS)] == ["over-quota"]
    assert await found(azure, f"{SERVERLESS}queue_settings: {{job_tier: spot}}\n") == []
    family["currentValue"] = 0
    seeded.state.quota["Total Cluster Dedicated Regional vCPUs"]["currentValue"] = 290
    assert [code for code, _, _ in await found(azure, SERVERLESS)] == ["over-quota"]


async def test_what_may_not_be_listed_is_not_judged(seeded, azure):
    for path in ("/environments", "/datastores", "/computes", "/usages"):
        seeded.faults.add("GET", path, faults.fail("role"), times=None)
    assert await found(azure, JOB.replace("torch-gpu", "nothing").replace("azureml:gpu", "azureml:nowhere")) == []
    assert await found(azure, SERVERLESS.replace("4}", "400}")) == []


def test_room_is_told_by_family_however_it_is_spelled_and_not_where_no_limit_is():
    t4, odd = Size("Standard_NC4as_T4_v3", 4, 1, family="Standard NCASv3_T4 Family"), Size("Odd", 4, family="none")
    rows = [Quota("standardNCASv3_T4Family", 20, 24), Quota("none", 0, None), Quota("low", 0, 40, low_priority=True)]
    assert nodes_left([t4, odd], rows, low_priority=False) == {"standard_nc4as_t4_v3": 1}
    assert nodes_left([t4], rows, low_priority=True) == {}


def test_the_command_checks_against_the_workspace(seeded, config, tmp_path):
    footplate = Footplate(tmp_path)
    footplate.environment |= {"FOOTPLATE_WIRE_TOKEN": seeded.token}
    (tmp_path / "job.yml").write_text(JOB.replace("torch-gpu:3", "torch-gup:3").replace("azureml:gpu", "azureml:gpus"))
    answer = footplate("check", "job.yml", "--workspace", "wire")
    assert answer.returncode == 2
    assert "Workspace wire has no cluster gpus. [unknown-cluster]" in answer.stdout
    assert "Workspace wire has no environment torch-gup. [unknown-environment]" in answer.stdout
    assert footplate("check", "job.yml").returncode == 0
