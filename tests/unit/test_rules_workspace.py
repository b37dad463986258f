"""A file against the facts of a workspace, and the facts that the local workspace gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from footplate.jobfile import document
from footplate.jobfile.check import CODES, check
from footplate.jobfile.faults import Fault
from footplate.jobfile.rules.workspace import WorkspaceFacts, against, parse_asset
from footplate.operations.check import check_for_launch, gather
from footplate.workspace import Workspace
from footplate.workspace.open import open_workspace

T = TypeVar("T")

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason=f"{CASES} is not there")

FACTS = WorkspaceFacts(
    "prod",
    clusters={"cpu-cluster": 2, "gpu-cluster": 4},
    data_assets={"birds": ("2", "1")},
    models={"birds": ("3",)},
    environments={"torch-gpu": ("12", "11"), "torch-cpu": ("4",), "sklearn": (), "e": ("1",)},
    datastores=frozenset({"workspaceblobstore"}),
    endpoints={"birds": frozenset({"blue"})},
    job_names=frozenset({"train"}),
    nodes_left={"standard_nc24ads_a100_v4": 1},
)
HEAD = "command: python train.py\nenvironment: azureml:torch-cpu:4\n"


def found(text: str, facts: WorkspaceFacts = FACTS) -> list[Fault]:
    """The faults that only a workspace shows."""
    job_file = document.parse(text, None, Path("/nowhere"))
    return [fault for fault in check(job_file, {}, against(facts)) if CODES[fault.code].needs == "workspace"]


def told(text: str, facts: WorkspaceFacts = FACTS) -> list[tuple[str, str, int]]:
    return [(fault.code, fault.severity, fault.line) for fault in found(text, facts)]


@pytest.mark.parametrize(
    "code", [code for code in CODES.values() if code.needs == "workspace"], ids=lambda code: code.id
)
def test_each_example_has_its_fault_at_its_line(code):
    line = next(n for n, text in enumerate(code.example.splitlines(), 1) if text.endswith("# here"))
    label = document.parse(code.example, None, Path("/nowhere")).label
    refused = (f"{label} line {line}: this is a job that does not run here.", "") if code.id == "refused" else None
    assert told(code.example, replace(FACTS, refused=refused)) == [(code.id, code.severity, line)]


@needs_cases
def test_case_y19_eight_nodes_on_a_cluster_of_two():
    text = (CASES / "y19_instance_count_over_cluster.yml").read_text()
    (only,) = [fault for fault in found(text) if fault.code == "cluster-too-small"]
    assert (only.severity, only.line, only.column) == ("error", 11, 19)
    assert "8 nodes" in only.message
    assert "2 at most" in only.message


@needs_cases
def test_case_y22_the_environment_is_told_with_near_names_newest_first():
    text = (CASES / "y22_retired_environment.yml").read_text()
    facts = WorkspaceFacts(
        "prod", environments={"AzureML-PyTorch-2.8-GPU": ("9", "8"), "AzureML-PyTorch-2.0-CPU": ("3",), "x": ()}
    )
    (only,) = found(text, facts)
    assert (only.code, only.severity, only.line) == ("unknown-environment", "warning", 5)
    assert only.hint == "Near: azureml:AzureML-PyTorch-2.0-CPU:3, azureml:AzureML-PyTorch-2.8-GPU:9."


def test_what_cannot_be_told_is_not_judged():
    for code in CODES.values():
        if code.needs == "workspace":
            assert told(code.example, WorkspaceFacts("prod")) == [], code.id


def test_what_is_there_has_no_fault():
    assert told(f"{HEAD}compute: azureml:cpu-cluster\nresources: {{instance_count: 2}}\nname: another\n") == []
    assert told(f"{HEAD}compute: local\n") == []
    data = "inputs:\n  a: {{path: 'azureml:birds:{}', type: uri_folder}}\n"
    for version in ("1", "2"):
        assert told(HEAD + data.format(version)) == []
    assert told(HEAD + "inputs:\n  a: {path: azureml:birds@latest, type: uri_folder}\n") == []
    assert told(HEAD + data.format("7")) == [("unknown-data", "error", 4)]
    assert told(HEAD + "inputs:\n  a: {path: azureml:birds:3, type: mlflow_model}\n") == []
    assert told(HEAD + "inputs:\n  a: {path: azureml:birds:2, type: mlflow_model}\n") == [("unknown-model", "error", 4)]
    for path in (
        "azureml://datastores/workspaceblobstore/paths/a",
        "azureml://registries/r/data/d/versions/1",
        "./here",
        "https://a/b",
    ):
        assert told(HEAD + f"inputs:\n  a: {{path: '{path}', type: uri_folder}}\n") == []
    for environment in (
        "azureml:sklearn:99",
        "azureml://registries/azureml/environments/e/labels/latest",
        "{image: python}",
    ):
        assert told(f"command: echo\nenvironment: {environment}\n") == [], environment


def test_a_cluster_is_looked_for_wherever_one_is_named():
    steps = (
        "type: pipeline\nsettings: {default_compute: azureml:cpu-clutser}\ninputs: {c: cpu}\njobs:\n"
        "  a: {command: echo, environment: azureml:torch-cpu:4, compute: azureml:gpu-clutser}\n"
        "  b: {command: echo, environment: azureml:torch-cpu:4, compute: '${{parent.inputs.c}}'}\n"
        "  c: {command: echo, environment: azureml:torch-cpu:4, compute: azureml:serverless}\n"
    )
    assert told(steps) == [("unknown-cluster", "error", 2), ("unknown-cluster", "error", 5)]
    assert [fault.hint for fault in found(steps)] == ["Did you mean cpu-cluster?", "Did you mean gpu-cluster?"]


SWEEP = (
    "type: sweep\ntrial:\n  command: echo ${{search_space.lr}}\n  environment: azureml:torch-cpu:4\n"
    "  resources: {instance_count: 2}\n"
    "compute: azureml:gpu-cluster\nobjective: {goal: maximize, primary_metric: acc}\n"
    "search_space: {lr: {type: uniform, min_value: 0, max_value: 1}}\nlimits:\n  max_total_trials: 20\n"
)


def test_a_sweep_is_told_with_its_arithmetic():
    (only,) = found(f"{SWEEP}  max_concurrent_trials: 3\n")
    assert only.code == "sweep-over-cluster"
    assert only.message == "3 trials at once × 2 nodes each = 6 nodes; cluster gpu-cluster has 4 at most."
    assert only.hint == "2 run at once, the others wait."
    assert found(f"{SWEEP}  max_concurrent_trials: 2\n") == []
    assert told(SWEEP.replace("instance_count: 2", "instance_count: 5")) == [("cluster-too-small", "error", 5)]


def test_traffic_for_a_deployment_that_is_not_there():
    endpoint = "name: birds\nauth_mode: key\ntraffic:\n  blue: 40\n  bleu: 60\n"
    assert ("unknown-endpoint", "warning", 5) in told(endpoint)
    assert ("unknown-endpoint", "warning", 4) in told(endpoint.replace("birds", "fishes"))


def test_a_deployment_that_is_there_would_be_changed():
    text = (
        "name: blue\nendpoint_name: birds\ninstance_type: Standard_DS3_v2\ninstance_count: 1\nmodel: azureml:birds:3\n"
    )
    assert told(text) == [("already-there", "note", 1)]
    assert told(text.replace("blue", "green")) == []


def test_references():
    assert parse_asset("azureml:a:1") == ("a", "1")
    assert parse_asset("azureml:a@latest") == ("a", "")
    assert parse_asset("azureml:a") == ("a", "")
    for other in (
        "a:1",
        "azureml://registries/r/models/a/versions/1",
        "azureml:./a",
        "azureml:a:1:2",
        "",
        3,
        None,
        "azureml:${{parent.inputs.x}}:1",
    ):
        assert parse_asset(other) is None, other


# --- the local workspace ---------------------------------------------------------------------------


@pytest.fixture
def local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Workspace], Coroutine[Any, Any, T]]], T]:
    """Runs work on a local workspace of its own."""
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))

    def run(work: Callable[[Workspace], Coroutine[Any, Any, T]]) -> T:
        async def inside() -> T:
            workspace = open_workspace()
            try:
                return await work(workspace)
            finally:
                await workspace.close()

        return asyncio.run(inside())

    return run


def test_the_local_workspace_is_asked_only_for_what_the_file_names(local):
    plain = document.parse(HEAD, None, Path("/nowhere"))
    facts = local(lambda workspace: gather(workspace, plain))
    assert (list(facts.clusters), facts.default_cluster) == (["local"], "local")
    assert (facts.data_assets, facts.models, facts.endpoints, facts.environments) == (None, None, None, None)
    text = f"{HEAD}inputs:\n  a: {{path: azureml:birds:1, type: uri_folder}}\n  b: {{path: azureml:nets:1, type: custom_model}}\n"
    facts = local(lambda workspace: gather(workspace, document.parse(text, None, Path("/nowhere"))))
    assert (facts.data_assets, facts.models) == ({"birds": ("1",)}, {})


def test_a_launch_is_checked_against_the_workspace_and_for_its_data(local, tmp_path):
    text = (
        "command: ls ${{inputs.a}} ${{inputs.b}}\nenvironment: azureml:any:1\ncompute: gpu-cluster\n"
        "inputs:\n  a: {path: ./none, type: uri_folder}\n  b: {path: azureml:brids:1, type: uri_folder}\n"
    )
    job_file = document.parse(text, None, tmp_path)
    faults = local(lambda workspace: check_for_launch(workspace, job_file, {}))
    assert [(fault.code, fault.severity, fault.line) for fault in faults] == [
        ("unknown-cluster", "error", 3),
        ("data-missing", "error", 5),
        ("unknown-data", "error", 6),
    ]
    assert faults[0].hint == "It has local. Or make it: footplate cluster create gpu-cluster --size SIZE."
    assert faults[2].hint == "Near: azureml:birds:1."
    settled = {"data-missing": "note", "unknown-cluster": "off"}
    faults = local(lambda workspace: check_for_launch(workspace, job_file, settled))
    assert [fault.severity for fault in faults] == ["note", "error"]
    assert [fault.code for fault in check(job_file)] == ["data-missing"]


def test_more_nodes_than_the_local_cluster_has_is_told_without_a_compute_key(local):
    job_file = document.parse(f"{HEAD}resources: {{instance_count: 8}}\n", None, Path("/nowhere"))
    faults = local(lambda workspace: check_for_launch(workspace, job_file))
    assert [(fault.code, fault.line) for fault in faults] == [("cluster-too-small", 3)]
