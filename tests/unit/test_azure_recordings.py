"""Every recorded answer of the service is read right: nulls, year-1 dates, hidden tags, the true cause of a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from footplate.azure import errors
from footplate.azure.clusters import changed_body, read_cluster, read_node, read_quota, read_sizes
from footplate.azure.data import read_asset, read_datastore, read_environment
from footplate.azure.endpoints import read_deployment, read_endpoint
from footplate.azure.job_files import write
from footplate.azure.jobs import output_addresses, read_job
from footplate.azure.masking import mask
from footplate.azure.models import read_model
from footplate.azure.operations import read_operation
from footplate.azure.place import Place
from footplate.azure.runs import read_run
from footplate.jobfile.check import check
from footplate.jobfile.document import parse
from footplate.workspace import Invalid, Size
from footplate.workspace.model import iso

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "recordings"
pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"{RECORDINGS} is not there")


def entries(number: str) -> list[dict[str, Any]]:
    (file,) = RECORDINGS.glob(f"{number}_*.json")
    return json.loads(file.read_text())["Entries"]


def body(number: str, entry: int) -> Any:
    return entries(number)[entry]["ResponseBody"]


def refusal(number: str, entry: int) -> Any:
    found = entries(number)[entry]
    return errors.from_answer(
        found["StatusCode"], found["ResponseHeaders"], json.dumps(found["ResponseBody"]).encode(), "job 'birds'"
    )


def test_an_operation_that_is_updating_goes_on_and_has_not_ended_in_the_year_1():
    for number, entry in (("02", 1), ("02", 2), ("03", 1)):
        operation = read_operation(body(number, entry))
        assert (operation.status, operation.done, operation.ended) == ("Updating", False, None)
        assert operation.started is not None
    assert read_operation(body("05", 1)).status == "InProgress"
    assert not read_operation(body("05", 1)).done
    done = read_operation(body("03", 2))
    assert (done.status, done.done, iso(done.ended)) == ("Succeeded", True, "2026-03-03T20:19:10.879Z")


def test_an_endpoint_that_is_being_made_has_no_address():
    endpoint = read_endpoint(body("03", 0), ())
    assert (endpoint.name, endpoint.state, endpoint.scoring_uri) == ("online-ept-6696557f8dec409", "Creating", "")
    assert (endpoint.auth_mode, endpoint.traffic, endpoint.description) == ("aml_token", {}, "some description")
    assert iso(endpoint.created) == "2026-03-03T20:17:59.343Z"


def test_a_new_clusters_null_counts_are_no_nodes():
    new = read_cluster(body("05", 0), ())
    assert (new.state, new.busy_nodes, new.min_nodes, new.max_nodes, new.error) == ("Creating", 0, 0, 2, "")
    steady = read_cluster(body("05", 2), (Size("STANDARD_DS2_V2", 2),))
    assert (steady.state, steady.size, steady.type) == ("Steady", "Standard_DS2_v2", "AmlCompute")
    assert (steady.cores_per_node, steady.gpus_per_node, steady.tier) == (2, 0, "Dedicated")
    assert (new.idle_seconds, steady.idle_seconds) == (100, 200)


def test_a_serverless_job_is_read_from_both_versions_of_the_interface():
    starting, preparing = read_job(body("06", 4)), read_job(body("06", 5))
    assert (starting.status, preparing.status) == ("Starting", "Preparing")
    for job in (starting, preparing):
        assert (job.type, job.compute, job.command) == ("command", "serverless", "pip freeze")
        assert (job.nodes, job.ranks_per_node, job.parent, job.started, job.active) == (1, 1, None, None, True)
        assert (job.display_name, job.experiment) == ("test_dataset_display_name1", "mfe-test1-dataset")
        assert job.inputs["testdataset"].startswith("azureml://datastores/workspaceblobstore/paths/LocalUpload/")
        assert job.studio_url.startswith("https://ml.azure.com/runs/test_334734506738")
        assert iso(job.created) == "2026-03-27T04:02:32.701Z"


def test_a_sweep_hides_the_services_own_tags_and_has_no_best_trial_yet():
    for entry in (2, 3):
        sweep = read_job(body("09", entry))
        assert (sweep.type, sweep.status, sweep.compute, sweep.tags) == ("sweep", "Running", "testCompute", {})
        assert (sweep.best_child, sweep.primary_metric, sweep.goal) == (None, "accuracy", "Maximize")
        assert sweep.command.startswith("python ./sweep_script.py")
        document = sweep.document()
        assert (document["best_child"], document["primary_metric"]) == (None, "accuracy")
    finished = json.loads(json.dumps(body("09", 3)))
    finished["properties"]["properties"]["best_child_run_id"] = "test_910316408761_1"
    assert read_job(finished).best_child == "test_910316408761_1"


def test_a_datastore_and_a_curated_environment_are_read():
    store = read_datastore(body("06", 0), "core.windows.net")
    assert (store.name, store.type, store.is_default) == ("workspaceblobstore", "AzureBlob", True)
    assert store.location.startswith("https://")
    assert ".blob.core.windows.net/" in store.location
    environment = read_environment(body("12", 0), "AzureML-sklearn-1.0-ubuntu20.04-py38-cpu")
    assert (environment.version, environment.image) == ("1", "")
    anonymous = read_environment(body("08", 0), "CliV2AnonymousEnvironment")
    assert anonymous.image == "rayproject/ray:latest"


def test_the_file_of_a_recorded_job_says_what_was_asked_for():
    place = Place("00000000-0000-0000-0000-000000000", "00000", "00000")
    command = parse(write(body("06", 5), place), None, Path())
    assert (command.kind, command.command, command.compute) == ("command", "pip freeze", "")
    assert command.inputs["testdataset"].path.startswith("azureml://datastores/workspaceblobstore/paths/LocalUpload/")
    sweep = parse(write(body("09", 3), place), None, Path())
    assert (sweep.kind, sweep.compute, sweep.get("objective", "primary_metric")) == ("sweep", "testCompute", "accuracy")
    assert sweep.tags == {}
    assert sweep.get("limits") == {"timeout": 300, "max_total_trials": 2, "max_concurrent_trials": 10}
    assert [fault.code for fault in check(command) if fault.severity == "error"] == []
    assert [fault.code for fault in check(sweep) if fault.severity == "error"] == [
        "concurrency"
    ]  # the service takes it


def test_a_400_tells_its_true_cause_and_its_correlation_id():
    unknown = refusal("08", 1)
    assert isinstance(unknown, Invalid)
    assert unknown.sentence == "Azure refuses the request for job 'birds': Unknown compute target 'testCompute'."
    assert "correlation id eacb0c19332bfca61d6eded78eca5140" in unknown.raw
    assert "UserError BadArgument UnknownTargetType" in unknown.raw
    invalid = refusal("10", 0)
    assert isinstance(invalid, Invalid)
    assert "Could not find member 'assetVersion' on object of type 'UriFolderJobOutput'" in invalid.sentence
    assert "missing fields" not in invalid.sentence
    assert "correlation id 9518a5120e841c6a36af896acafd0355" in invalid.raw


def test_the_signature_of_a_recorded_secret_is_masked():
    token = body("06", 1)["sasToken"]
    assert "sig=0000" in token
    assert "0000" not in mask(f"sasToken {token}")
    address = entries("06")[2]["RequestUri"]
    assert "sig" not in mask(f"GET {address} failed")


ODD = (None, 0, -1, True, "", "x", [], {}, [None], "9999-12-31T23:59:59.9999999-14:00", 10**400, float("nan"))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in a document, its own first."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


def test_no_odd_value_anywhere_makes_a_reader_raise():
    """Whatever stands in an answer, each reader makes something of it or nothing, and the list goes on."""
    readers = (read_job, read_run, read_operation, read_asset, read_sizes, read_quota, read_node, output_addresses)
    place = Place("s", "g", "w")
    for file in RECORDINGS.glob("*.json"):
        for entry in json.loads(file.read_text())["Entries"]:
            whole = entry["ResponseBody"]
            for path in list(places(whole)):
                at = whole
                for key in path[:-1]:
                    at = at[key]
                kept = at[path[-1]] if path else None
                for odd in ODD:
                    changed = odd
                    if path:
                        changed, at[path[-1]] = whole, odd
                    for read in readers:
                        read(changed if read is not output_addresses or isinstance(changed, dict) else {})
                    read_datastore(changed, "x")
                    changed_body(changed if isinstance(changed, dict) else {}, {})
                    # A file is made of a job alone, and slowly: not of each odd value.
                    if file.name.startswith(("06", "09")) and odd in (None, "x") and isinstance(changed, dict):
                        with suppress(Invalid):
                            write(changed, place)
                    read_cluster(changed, ()).document()
                    read_endpoint(changed, ()).document()
                    read_deployment(changed, "birds").document()
                    read_model(changed, "birds").document()
                    read_environment(changed, "birds")
                    errors.read_fault(json.dumps(changed).encode())
                if path:
                    at[path[-1]] = kept
