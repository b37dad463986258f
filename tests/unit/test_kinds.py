"""Every kind of Azure ML file is known by its schema's address, its type or its shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from footplate.jobfile.check import check
from footplate.jobfile.document import parse
from footplate.jobfile.kinds import TITLES, kind_of

BY_SCHEMA = {
    "commandJob": "command",
    "sweepJob": "sweep",
    "pipelineJob": "pipeline",
    "autoMLJob": "automl",
    "autoMLImageObjectDetectionJob": "automl",
    "sparkJob": "spark",
    "fineTuningJob": "finetuning",
    "distillationJob": "distillation",
    "commandComponent": "component",
    "pipelineComponent": "component",
    "sparkComponent": "component",
    "parallelComponent": "component",
    "managedOnlineEndpoint": "endpoint",
    "kubernetesOnlineEndpoint": "endpoint",
    "managedOnlineDeployment": "deployment",
    "kubernetesOnlineDeployment": "deployment",
    "serverlessEndpoint": "serverless endpoint",
    "batchEndpoint": "batch endpoint",
    "batchDeployment": "batch deployment",
    "modelBatchDeployment": "batch deployment",
    "pipelineComponentBatchDeployment": "batch deployment",
    "amlCompute": "compute",
    "computeInstance": "compute",
    "kubernetesCompute": "compute",
    "vmCompute": "compute",
    "environment": "environment",
    "data": "data",
    "dataImport": "import",
    "model": "model",
    "modelPackage": "model package",
    "azureBlob": "datastore",
    "azureFile": "datastore",
    "azureDataLakeGen2": "datastore",
    "workspaceConnection": "connection",
    "workspace": "workspace",
    "registry": "registry",
    "schedule": "schedule",
    "monitorSchedule": "schedule",
    "featureSet": "feature store",
    "Flow": "flow",
    "Run": "flow",
}

BY_CONTENT = {
    "command: echo\nenvironment: azureml:e:1\n": "command",
    "type: command\ncommand: echo\n": "command",
    "type: Command\ncommand: echo\n": "command",
    "comand: echo\nenviroment: azureml:e:1\n": "command",
    "type: sweep\ntrial: {}\n": "sweep",
    "type: Sweep\ntrial: {}\n": "sweep",
    "trial: {command: echo}\nsearch_space: {}\n": "sweep",
    "type: command\ntrial: {}\n": "sweep",
    "type: pipeline\njobs: {}\n": "pipeline",
    "type: PIPELINE\njobs: {}\n": "pipeline",
    "jobs: {a: {command: echo}}\n": "pipeline",
    "component: ./pipeline.yml\ncompute: azureml:c\n": "pipeline",
    "type: pipeline\ncomponent: azureml:p:1\n": "pipeline",
    "type: automl\ntask: classification\n": "automl",
    "type: spark\nentry: {file: a.py}\n": "spark",
    "name: c1\nversion: 1\ncommand: echo\ninputs: {x: {type: number}}\n": "component",
    "name: c1\ntype: command\nis_deterministic: true\ncommand: echo\n": "component",
    "name: p1\ntype: pipeline\nversion: 1\njobs: {}\n": "component",
    "name: e\nauth_mode: key\n": "endpoint",
    "name: e\ntraffic: {blue: 100}\n": "endpoint",
    "name: blue\nendpoint_name: e\nmodel: azureml:m:1\n": "deployment",
    "name: blue\ntype: kubernetes\nendpoint_name: e\n": "deployment",
    "name: blue\ninstance_type: s\ninstance_count: 1\n": "deployment",
    "name: blue\nmodel: azureml:m:1\ninstance_type: s\n": "deployment",
    "name: c\ntype: amlcompute\n": "compute",
    "name: c\ntype: AmlCompute\n": "compute",
    "name: c\nmin_instances: 0\nmax_instances: 4\n": "compute",
    "name: k\ntype: kubernetes\nnamespace: default\n": "compute",
    "name: i\ntype: computeinstance\n": "compute",
    "name: env\nchannels: [conda-forge]\ndependencies: [python=3.10]\n": "conda",
    "name: env\nimage: docker.io/python\n": "environment",
    "name: d\ntype: uri_folder\npath: ./data\n": "data",
    "name: m\ntype: mlflow_model\npath: ./model\n": "model",
    "name: s\ncreate_job: {}\n": "schedule",
    "computeType: ACI\ncontainerResourceRequirements: {cpu: 1, memoryInGB: 1}\n": "v1 deployment",
    "computeType: AKS\nautoScaler: {minReplicas: 1}\n": "v1 deployment",
    "entryScript: score.py\nruntime: python\ncondaFile: env.yml\n": "v1 deployment",
    "script: train.py\nframework: Python\ntarget: cpu\nnodeCount: 1\n": "v1 run",
    "source_directory: .\nscript: train.py\ncompute_target: cpu\n": "v1 run",
    "script: train.py\narguments: [--lr, 0.1]\n": "v1 run",
    "max_total_runs: 20\nprimary_metric_name: acc\n": "v1 run",
    "pipeline: {name: p, steps: {}}\n": "v1 pipeline",
    "anything: goes\n": "",
}


def parsed(text: str) -> Any:
    return yaml.safe_load(text)


@pytest.mark.parametrize(("schema", "kind"), BY_SCHEMA.items(), ids=BY_SCHEMA)
def test_the_schemas_address_tells(schema: str, kind: str) -> None:
    assert kind in TITLES
    address = f"https://azuremlschemas.azureedge.net/latest/{schema}.schema.json"
    assert kind_of({"$schema": address, "name": "x"}) == kind


@pytest.mark.parametrize(("text", "kind"), BY_CONTENT.items(), ids=BY_CONTENT)
def test_type_and_shape_tell(text: str, kind: str) -> None:
    assert kind in TITLES
    assert kind_of(parsed(text)) == kind


def test_the_type_counts_before_the_address() -> None:
    """As in Azure's client, which reads no address."""
    address = "$schema: https://azuremlschemas.azureedge.net/latest/"
    assert kind_of(parsed(f"{address}commandJob.schema.json\ntype: pipeline\njobs: {{}}\n")) == "pipeline"
    assert kind_of(parsed(f"{address}environment.schema.json\ntype: command\ncommand: echo\n")) == "command"
    assert kind_of(parsed(f"{address}sweepJob.schema.json\ntype: pipeline\njobs: {{}}\n")) == "pipeline"


def test_a_left_over_address_does_not_hide_the_kind() -> None:
    address = "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
    assert kind_of(parsed(f"{address}trial: {{command: echo}}\nsearch_space: {{}}\n")) == "sweep"
    assert kind_of(parsed(f"{address}name: x\nversion: 1\ncommand: echo\n")) == "command"


@pytest.mark.parametrize(
    "text",
    [
        "name: x\ntype: Sweep\n",
        "name: x\ntype: COMMAND\n",
        "name: x\ntype: Pipeline\n",
    ],
)
def test_a_type_in_another_letter_case_is_told_at_the_type(text: str) -> None:
    faults = check(parse(text, Path("job.yml"), Path("/nowhere")))
    told = [fault for fault in faults if fault.path == "type"]
    assert [(fault.code, fault.severity, fault.line, fault.column) for fault in told] == [
        ("wrong-value", "error", 2, 7)
    ]
    assert "Did you mean" in told[0].hint


@pytest.mark.parametrize("odd", [None, 5, True, 1.5, [], ["a"], {}, {"type": "x"}])
@pytest.mark.parametrize("key", ["$schema", "type", "jobs", "pipeline", "command", "trial", "component", "namespace"])
def test_no_value_of_a_telling_key_breaks_it(key: str, odd: object) -> None:
    assert kind_of({key: odd}) in TITLES


COMMAND = "command: echo\nenvironment: azureml:e:1\n"


@pytest.mark.parametrize("schema", ["sweepJob", "pipelineJob", "commandComponent"])
def test_the_address_does_not_make_another_kind_of_a_command_job_without_a_type(schema: str) -> None:
    text = f"$schema: https://azuremlschemas.azureedge.net/latest/{schema}.schema.json\n{COMMAND}"
    job_file = parse(text, None, Path("/nowhere"))
    assert job_file.kind == "command"
    assert [(fault.code, fault.severity, fault.line) for fault in check(job_file)] == [("other-schema", "warning", 1)]


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("name: c1\n", "component"),
        ("type: command\n", "component"),
        ("inputs: {lr: {type: number}}\n", "component"),
        ("inputs: {lr: 0.1, data: {type: uri_file, path: a}}\n", "command"),
    ],
)
def test_a_components_address_counts_where_the_file_may_be_one(more: str, kind: str) -> None:
    address = "$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json\n"
    assert kind_of(parsed(address + COMMAND + more)) == kind


def test_a_sweeps_address_says_what_a_file_with_a_trial_is() -> None:
    address = "$schema: https://azuremlschemas.azureedge.net/latest/sweepJob.schema.json\n"
    assert kind_of(parsed(f"{address}trial: {{command: echo}}\ncommand: echo\n")) == "sweep"


@pytest.mark.parametrize(
    ("text", "kind", "place", "hint"),
    [
        ("type: amlcompte\nname: cpu\n", "compute", "type", "Did you mean 'amlcompute'?"),
        ("type: AmlComputes\nname: cpu\n", "compute", "type", "Did you mean 'amlcompute'?"),
        ("Command: python a.py\nEnvironment: azureml:e:1\n", "command", "Command", "Did you mean `command`?"),
        ("Type: amlcompute\nname: cpu\n", "compute", "Type", "Did you mean `type`?"),
        ("Jobs: {}\n", "pipeline", "Jobs", "Did you mean `jobs`?"),
        ("trail: {}\nlimits: {}\n", "sweep", "trail", "Did you mean `trial`?"),
    ],
)
def test_a_misspelt_type_or_key_does_not_hide_the_kind(text: str, kind: str, place: str, hint: str) -> None:
    job_file = parse(text, None, Path("/nowhere"))
    assert job_file.kind == kind
    told = [fault for fault in check(job_file) if fault.path == place]
    assert [(fault.severity, fault.hint) for fault in told] == [("error", hint)]


@pytest.mark.parametrize("text", ["job: {}\n", "type: bird\n", "comments: a\n"])
def test_what_is_only_a_little_like_a_job_is_none(text: str) -> None:
    assert kind_of(parsed(text)) == ""
