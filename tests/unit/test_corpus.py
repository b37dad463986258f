"""Job files that nobody here wrote: each is read, checked as Azure's client judges it, edited in place, and means the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.azure_client import CORPUS, KINDS, MANIFEST, azure_client, copy_corpus, every, needs_corpus
from tests.rest_meaning import meaning, sent_meaning

from footplate.jobfile import document
from footplate.jobfile.check import check
from footplate.jobfile.pipeline import graph_of

pytestmark = needs_corpus

REFUSED_BY_US: dict[str, str] = {}
"""Files that Azure's client loads and in which check finds an error, each with why it is one."""

_NO_ENDPOINT = "It names no endpoint, which its script gives on the command line: a warning, with how to say it."
TAKEN_BY_US = {
    entry["path"]: _NO_ENDPOINT
    for entry in MANIFEST
    if "endpoint_name" in (entry["error"] or "") and '"name"' not in entry["error"]
}
"""Files that Azure's client refuses and in which check finds no error, each with why ours is right."""

REASONS = {
    "cli/endpoints/online/custom-container/minimal/multimodel/minimal-multimodel-endpoint.yml": {"name"},
    "cli/endpoints/online/custom-container/triton/single-model/triton-cc-endpoint.yml": {"name"},
    # That the name is missing is said of the file as a whole.
    "cli/foundation-models/system/finetune/text-to-image/deploy.yaml": {""},
    "cli/jobs/nebulaml/cifar10_deepspeed/job.yml": {"environment"},
    "cli/jobs/single-step/java/iris/job-template.yml": {"code"},
}
"""Files that both refuse, and the places of the errors in them."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_corpus(tmp_path_factory.mktemp("corpus"))


@every(*KINDS.values())
def test_check_judges_as_azures_client_does(entry: dict[str, Any], corpus: Path) -> None:
    path = corpus / entry["path"]
    job_file = document.read(path)
    assert job_file.kind == KINDS[entry["kind"]]
    refusal = azure_client().refusal(job_file.kind, path)
    assert bool(refusal) != entry["loads"], refusal or "the client loads what the manifest says it refuses"
    errors = [fault for fault in check(job_file) if fault.severity == "error"]
    told = [f"line {fault.line}: {fault.code}: {fault.sentence}" for fault in errors]
    if not refusal:
        assert bool(errors) == (entry["path"] in REFUSED_BY_US), told
    elif entry["path"] in TAKEN_BY_US:
        assert not errors, told
    else:
        assert {fault.path for fault in errors} == REASONS[entry["path"]], told


def test_every_listed_difference_is_of_a_file() -> None:
    paths = {entry["path"] for entry in MANIFEST}
    assert {*REFUSED_BY_US, *TAKEN_BY_US, *REASONS} <= paths


@every("deployment")
def test_a_deployment_without_an_endpoint_is_told_so(entry: dict[str, Any]) -> None:
    job_file = document.read(CORPUS / entry["path"])
    told = [fault.severity for fault in check(job_file) if fault.code == "no-endpoint"]
    assert told == ([] if "endpoint_name" in job_file.values else ["warning"])


@every(*KINDS.values())
def test_an_unchanged_file_is_saved_byte_for_byte(entry: dict[str, Any]) -> None:
    path = CORPUS / entry["path"]
    assert document.read(path).edit({}).text.encode() == path.read_bytes()


@every("command", "sweep")
def test_a_job_means_what_azures_client_sends(entry: dict[str, Any], corpus: Path) -> None:
    if not entry["loads"]:
        pytest.skip("the client does not load it")
    path = corpus / entry["path"]
    job_file = document.read(path)
    assert meaning(job_file) == sent_meaning(azure_client().sent(job_file.kind, path))


@every("pipeline")
def test_a_pipeline_becomes_a_graph(entry: dict[str, Any], corpus: Path) -> None:
    job_file = document.read(corpus / entry["path"])
    graph = graph_of(job_file)
    steps = tuple(job_file.mapping("jobs"))
    assert tuple(step.name for step in graph.steps) == steps
    assert sorted(name for level in graph.levels for name in level) == sorted(steps)
    assert not graph.stuck
    assert not graph.unknown
    level_of = {name: number for number, level in enumerate(graph.levels) for name in level}
    for edge in graph.edges:
        if edge.source.step and edge.target.step:
            assert level_of[edge.source.step] < level_of[edge.target.step]
    assert all(not step.component.problem for step in graph.steps)


@every("pipeline")
def test_a_graph_survives_components_that_are_not_there(entry: dict[str, Any]) -> None:
    job_file = document.read(CORPUS / entry["path"])
    graph = graph_of(job_file)
    files = [step.component for step in graph.steps if step.component.form == "file"]
    assert all(component.problem and component.graph is None for component in files)
    assert sum(map(len, graph.levels)) == len(graph.steps) == len(job_file.mapping("jobs"))
