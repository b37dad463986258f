"""The commands on an Azure workspace, as processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.commands import Footplate
from tests.wire import faults
from tests.wire.directory import CLIENT_SECRET
from tests.wire.workspaces import TENANT

from footplate.operations import pictures

BIRDS = {
    "label": "wren",
    "probability": 0.75,
    "scores": [{"label": "wren", "probability": 0.75}, {"label": "robin", "probability": 0.25}],
}


@pytest.fixture
def footplate(config, wire, tmp_path):
    wire.seed.demo()
    wire.state.scorer = lambda call: (200, BIRDS)
    command = Footplate(tmp_path)
    command.environment |= {"FOOTPLATE_WIRE_TOKEN": wire.token}
    return command


def test_jobs_job_and_metrics(footplate, wire):
    jobs = footplate.json("jobs", "--workspace", "wire", "--limit", "3")
    assert [job["name"] for job in jobs] == ["sweep_now", "train_now", "seed_00040"] or len(jobs) == 3
    assert "seed_00040" in footplate("jobs").stdout  # the settings' own choice
    failed = footplate.json("jobs", "--filter", "status:failed", "--limit", "2")
    assert {job["status"] for job in failed} == {"Failed"}
    job = footplate.json("job", failed[0]["name"])
    assert "CUDA out of memory" in job["error"]
    assert job["duration_s"] > 0
    assert footplate.json("job", "sweep_now")["primary_metric"] == "best_val_acc"
    metrics = footplate.json("metrics", "seed_00039")
    assert [point["step"] for point in metrics["val_acc"]] == list(range(15))


def test_logs_are_printed_and_followed_to_the_end(footplate, wire):
    assert footplate("logs", "seed_00039").stdout == "".join(f"epoch {epoch}\n" for epoch in range(15))
    wire.expire_addresses()
    wire.advance(30)
    process = subprocess.Popen(
        [sys.executable, "-m", "footplate", "logs", "train_now", "--follow"],
        stdout=subprocess.PIPE,
        env=footplate.environment,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    wire.expire_addresses()
    wire.faults.add("GET", "/details", faults.fail("token"))
    wire.advance(300)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(30) == 0
    (blob,) = [
        blob for (_, path), blob in wire.state.blobs.items() if path.endswith("dcid.train_now/user_logs/std_log.txt")
    ]
    assert first + rest == bytes(blob.data)


def test_clusters_models_endpoints_data(footplate):
    assert {cluster["name"]: cluster["type"] for cluster in footplate.json("clusters")} == {
        "cpu": "AmlCompute",
        "gpu": "AmlCompute",
        "k8s": "Kubernetes",
        "notebook": "ComputeInstance",
    }
    assert {f"{model['name']}:{model['version']}" for model in footplate.json("models")} == {"birds:1", "birds:2"}
    assert footplate.json("model", "show", "birds:1")["job"] == "seed_00039"
    (endpoint,) = footplate.json("endpoints")
    assert endpoint["traffic"] == {"blue": 90, "green": 10}
    assert "birds-live" in footplate("endpoint", "show", "birds-live").stdout
    assert [asset["name"] for asset in footplate.json("data")] == ["birds"]


def test_invoke_explains_the_answer(footplate, wire, tmp_path):
    from PIL import Image

    Image.new("RGB", (32, 32), "green").save(tmp_path / "bird.png")
    assert pictures.check(tmp_path / "bird.png") == "image/png"
    found = footplate.json("invoke", "birds-live", "bird.png", "--deployment", "green")
    assert (found["label"], found["probability"], found["deployment"], found["status"]) == ("wren", 0.75, "green", 200)


def test_faults_end_in_sentences_and_their_exit_codes(footplate, wire):
    missing = footplate("job", "nobody")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("footplate: There is no job 'nobody' in workspace 'ws'.")
    wire.faults.add("GET", "/jobs", faults.fail(429, retry_after=9), times=None)
    assert footplate("jobs").returncode == 3
    wire.faults.clear()
    wire.faults.add("GET", "/computes", faults.fail("role"), times=None)
    assert footplate("clusters").returncode == 4
    assert footplate("jobs", FOOTPLATE_WIRE_TOKEN="").returncode == 4
    assert "Put a new one" not in footplate("jobs").stderr
    wire.faults.clear()
    deleted = footplate("model", "delete", "birds:1")
    assert deleted.returncode == 2
    assert "archived, not deleted" in deleted.stderr


def test_a_service_principal_of_the_environment_signs_in(footplate, wire):
    lines = [line for line in footplate.settings.read_text().splitlines() if not line.startswith("token_env")]
    footplate.settings.write_text("\n".join(lines))
    principal = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": "robin", "AZURE_CLIENT_SECRET": CLIENT_SECRET}
    assert "seed_00040" in footplate("jobs", **principal).stdout
    refused = footplate("jobs", **{**principal, "AZURE_CLIENT_SECRET": "hush-hush"})
    assert refused.returncode == 4
    assert "refused the sign-in by the environment's service principal" in refused.stderr
    assert "hush-hush" not in refused.stderr
    nobody = footplate("jobs", AZURE_TOKEN_CREDENTIALS="AzureCliCredential", PATH="/nowhere")
    assert (nobody.returncode, nobody.stdout) == (4, "")
    assert "You are not signed in to Azure." in nobody.stderr
    assert "az login" in nobody.stderr
    assert "WARNING" not in nobody.stderr


def test_no_secret_reaches_any_output(footplate, wire):
    wire.faults.add("GET", "/blob/", faults.fail("firewall"), times=None)
    said = ""
    for words in (
        ("jobs",),
        ("job", "seed_00039"),
        ("logs", "seed_00039"),
        ("endpoint", "show", "birds-live"),
        ("models",),
    ):
        for more in ((), ("--json",)):
            done = footplate(*words, *more)
            said += done.stdout + done.stderr
    assert "may not be read" in said
    for secret in (wire.token, "sig=", *wire.state.keys["birds-live"].values()):
        assert secret not in said


def test_a_command_on_this_machine_loads_nothing_of_azures(footplate, tmp_path):
    script = (
        "import sys\nfrom footplate.__main__ import main\nsys.argv = ['footplate', 'jobs', '--workspace', 'local', '--json']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'azure', 'aiohttp', 'requests', 'msal'}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=footplate.environment,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == []
    assert done.stderr.strip() == "[]"
