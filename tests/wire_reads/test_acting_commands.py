"""The commands that change jobs, clusters and endpoints on an Azure workspace by plain requests, run to their end."""

from __future__ import annotations

import subprocess
from datetime import timedelta

import pytest
from tests.commands import COMMAND, Inside
from tests.wire import JobPlan

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own, in this process


@pytest.fixture
def footplate(config, wire, tmp_path):
    command = Inside(tmp_path)
    command.environment |= {"FOOTPLATE_WIRE_TOKEN": wire.token}
    return command


def test_environments_datastores_quota_and_sizes_are_listed(footplate, wire):
    wire.seed.environment("mine", "1")
    wire.seed.environment("mine", "2")
    listed = {one["name"]: one["version"] for one in footplate.json("environments")}
    assert listed["mine"] == "2"
    stores = footplate.json("datastores")
    assert {one["name"]: one["is_default"] for one in stores} == {
        "workspaceartifactstore": False,
        "workspaceblobstore": True,
    }
    assert {one["low_priority"] for one in footplate.json("quota")} == {True, False}
    assert "Standard_DS3_v2" in footplate("cluster", "sizes").stdout


def test_jobs_are_archived_restored_and_tagged(footplate, wire):
    wire.seed.submit("one")
    wire.seed.submit("two")
    done = footplate("archive", "one", "nobody", "two")
    assert (done.returncode, done.stdout) == (2, "one is archived\ntwo is archived\n")
    assert footplate.json("jobs") == []
    assert {job["name"] for job in footplate.json("jobs", "--archived")} == {"one", "two"}
    assert footplate.json("restore", "one")["name"] == "one"
    assert [job["name"] for job in footplate.json("jobs")] == ["one"]
    changed = footplate.json("update", "one", "--tag", "owner=me", "--display-name", "the first")
    assert (changed["tags"]["owner"], changed["display_name"]) == ("me", "the first")
    assert wire.state.jobs["one"]["properties"]["tags"]["owner"] == "me"


def test_a_job_is_watched_to_its_end_with_its_values(footplate, wire):
    wire.plans["birds"] = JobPlan(epochs=2, metrics=lambda epoch, epochs, skill: {"acc": (0.5, 0.75)[epoch]})
    wire.seed.submit("birds")
    process = subprocess.Popen(
        [*COMMAND, "watch", "birds"], stdout=subprocess.PIPE, text=True, env=footplate.environment
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("· ")
    wire.advance(3600)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    assert [line for line in rest.splitlines() if line.startswith("  ")] == [
        "  acc 0.500  step 0",
        "  acc 0.750  step 1",
    ]
    assert rest.splitlines()[-1].startswith("birds is Completed")


def test_a_metric_that_crosses_its_bound_ends_watching(footplate, wire):
    wire.plans["birds"] = JobPlan(epochs=2, metrics=lambda epoch, epochs, skill: {"val_acc": (0.5, 0.75)[epoch]})
    wire.seed.submit("birds")
    wire.advance(3600)
    told = footplate.json("watch", "birds", "--for", "val_.*>0.6")
    assert (told["outcome"], told["metric"], told["value"]) == ("met", "val_acc", 0.75)
    assert footplate.json("watch", "birds", "--for", "val_acc>0.9", code=1)["outcome"] == "unmet"


def test_the_trials_of_a_sweep_are_listed_with_their_values(footplate, wire):
    wire.seed.sweep("search", trials=2)
    wire.advance(3600)
    trials = footplate.json("children", "search")
    assert [trial["name"] for trial in trials] == ["search_0", "search_1"]
    assert all(0.0005 <= float(trial["parameters"]["learning_rate"]) <= 0.005 for trial in trials)
    assert all(trial["metric"] > 0 for trial in trials)
    best = footplate.json("job", "search")["best_child"]
    text = footplate("children", "search").stdout
    assert "LEARNING_RATE" in text.splitlines()[0]
    assert f"{best} (best)" in text


def test_outputs_and_models_are_downloaded(footplate, wire, tmp_path):
    wire.seed.submit("birds")
    wire.advance(3600)
    found = footplate.json("download", "birds", "--to", "there")
    assert {one["name"]: one["files"] for one in found["outputs"]} == {"default": 2}
    assert (tmp_path / "there" / "default" / "model" / "model.onnx").read_bytes() == b"onnx" * 1000
    wire.seed.model("birds", "1")
    assert footplate.json("model", "download", "birds:1")["files"] == 1
    assert (tmp_path / "birds-1" / "model.onnx").stat().st_size == 1024
    for words in (("download", "nobody"), ("model", "download", "nobody:1")):
        assert footplate(*words).returncode == 2


def test_a_cluster_is_shown_with_its_nodes_changed_and_deleted(footplate, wire):
    wire.seed.cluster("cpu", low=1)
    wire.seed.kubernetes("k8s")
    shown = footplate.json("cluster", "show", "cpu")
    assert [node["state"] for node in shown["nodes"]] == ["idle"]
    assert footplate.json("cluster", "show", "k8s")["nodes"] is None
    assert "reused as it is" in footplate("cluster", "create", "cpu", "--size", "STANDARD_DS3_V2").stdout
    assert footplate("cluster", "create", "cpu", "--size", "Standard_DS2_v2").returncode == 1
    changed = footplate.json("cluster", "update", "cpu", "--max-instances", "6", "--no-wait")
    assert changed["max_instances"] == 6
    wire.advance(60)
    assert wire.state.clusters["cpu"]["properties"]["properties"]["scaleSettings"]["maxNodeCount"] == 6
    gone = footplate.json("cluster", "delete", "cpu", "--no-wait")
    assert gone == {"name": "cpu", "state": "Deleting"}
    wire.advance(60)
    assert "cpu" not in wire.state.clusters


def test_a_cluster_that_failed_for_quota_is_said_to_and_ends_with_1(footplate, wire):
    made = wire.seed.cluster("gpu", "Standard_NC24ads_A100_v4")["properties"]
    error = {"code": "ClusterCoreQuotaReached", "message": "Approved StandardNCADSA100v4Family Cores quota is 24."}
    made |= {"provisioningState": "Failed", "provisioningErrors": [{"error": error}]}
    done = footplate("cluster", "create", "gpu", "--size", "Standard_NC24ads_A100_v4")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Cluster 'gpu' failed: Approved StandardNCADSA100v4Family Cores quota is 24." in done.stderr
    assert "gpu" in footplate("clusters").stdout


def test_traffic_keys_and_scale_of_an_endpoint(footplate, wire):
    wire.clock.speed = 100.0
    wire.seed.endpoint("birds-live", {"blue": 90, "green": 10})
    done = footplate("traffic", "birds-live", "blue=50", "green=50")
    assert (done.returncode, done.stdout) == (0, "birds-live: blue 50 %, green 50 % (was blue 90 %, green 10 %)\n")
    assert wire.state.endpoints["birds-live"]["properties"]["traffic"] == {"blue": 50, "green": 50}
    assert footplate("traffic", "birds-live", "bleu=100").returncode == 2
    before = dict(wire.state.keys["birds-live"])
    keys = footplate.json("endpoint", "keys", "birds-live", "--regenerate", "secondary")
    assert (keys["primary"] == before["primaryKey"], keys["secondary"] == before["secondaryKey"]) == (True, False)
    found = footplate.json("endpoint", "test", "birds-live")
    assert [(one["deployment"], one["status"]) for one in found] == [("blue", 200), ("green", 200)]
    figures = footplate.json("endpoint", "monitor", "birds-live")
    assert {one["deployment"] for one in figures} == {"blue", "green"}
    said = footplate("endpoint", "show", "birds-live").stdout + footplate("endpoint", "test", "birds-live").stdout
    for key in (*before.values(), *keys.values()):
        assert key not in said


def test_clean_frees_nothing_on_azure_and_says_why(footplate, wire):
    wire.now -= timedelta(days=60)
    wire.seed.submit("old")
    wire.advance(3600)
    done = footplate("clean", "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "archived, not deleted" in done.stderr
    assert "old" in wire.state.jobs


def completed(footplate: Inside, line: str) -> str:
    """What a shell gets for a line that ends where the cursor stands."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_FOOTPLATE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, timeout=60, check=True, env=footplate.environment | asked
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_tab_completes_from_what_is_kept_and_asks_nothing(footplate, wire):
    wire.seed.submit("wren-1")
    wire.seed.cluster("cpu")
    footplate.json("jobs")
    before = len(wire.requests)
    assert completed(footplate, "footplate job w") == "plain,wren-1"
    assert completed(footplate, "footplate cluster show c") == ""
    assert len(wire.requests) == before
