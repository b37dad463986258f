"""A job's file made from what the service keeps of it: started again, it is the same job but for its name."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from tests.azure_client import KINDS, MANIFEST, copy_corpus, needs_corpus
from tests.wire import running_server
from tests.wire.client import real_client
from tests.wire_writes.corpus import submit

from footplate.azure.job_files import write
from footplate.azure.place import Place
from footplate.jobfile import document, read
from footplate.jobfile.check import check
from footplate.operations.clone import clone
from footplate.workspace import Invalid, NotFound

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours

ODD = """\
display_name: "birds: the [1st] #try"
experiment_name: birds
description: |
  Two lines,
    one indented.
tags: {owner: me, empty: "", "yes": "no", count: "3"}
command: |
  set -e
  python train.py --lr ${{inputs.lr}} \\
    --note "${{inputs.note}}"
code: ../trainer
environment: azureml:AzureML-acpt-pytorch-2.8-cuda12.6:3
environment_variables: {A: "1", EMPTY: "", TEXT: "a: b # c"}
compute: azureml:cpu
inputs:
  lr: 1.0e-05
  steps: 3
  flag: true
  octal: "010"
  none: ""
  note: "null"
  data: {type: uri_folder, path: "azureml:birds:1", mode: download}
  raw: {type: uri_file, path: "https://example.com/a.csv"}
outputs:
  model: {type: uri_folder, mode: upload}
  kept: {path: azureml://datastores/workspaceblobstore/paths/kept/}
distribution: {type: pytorch, process_count_per_instance: 2}
resources: {instance_count: 2, shm_size: 8g}
limits: {timeout: 3600}
services:
  lab: {type: jupyter_lab, nodes: all}
  shell: {type: ssh, ssh_public_keys: "ssh-rsa A"}
  board: {type: tensor_board, log_dir: outputs/tb}
queue_settings: {job_tier: standard}
identity: {type: user_identity}
"""


def body(wire, name):
    """What was asked for, with the job's own name blanked and without what the SDK says of itself."""
    properties = wire.state.jobs[name]["properties"]
    found = json.loads(json.dumps(properties).replace(name, "NAME"))
    del found["properties"], found["status"]  # the state of the git folder where it was submitted, and its own
    for part in (found, found.get("trial") or {}):
        (part.get("resources") or {}).pop("properties", None)  # null, or empty: nothing either way
    found["tags"] = {
        name: value for name, value in found["tags"].items() if not name.startswith(("_aml_system_", "NAME_"))
    }
    for step in (found.get("settings", {}), *found.get("jobs", {}).values()):
        step.pop("_source", None)  # whether it came from a file
    return found


async def test_a_job_started_again_from_its_file_is_the_same(azure, wire, folder) -> None:
    (folder / "jobs" / "odd.yml").write_text(ODD)
    for file in ("odd.yml", "train-distributed.yml", "sweep.yml"):
        stem = file.partition(".")[0]
        job_file = read(folder / "jobs" / file)
        await azure.submit(job_file, f"first-{stem}")
        made = await azure.job_file(f"first-{stem}")
        assert not made.name
        assert [fault for fault in check(made) if fault.severity == "error"] == []
        await azure.submit(made, f"again-{stem}")
        assert body(wire, f"again-{stem}") == body(wire, f"first-{stem}")
        for name in job_file.inputs:
            assert made.inputs[name].literal == job_file.inputs[name].literal
    assert len(wire.state.assets["codes"]) == 1  # nothing was uploaded again
    copy = await clone(azure, "first-odd")
    assert copy.job_file.command == read(folder / "jobs" / "odd.yml").command
    assert copy.job_file.text.startswith("# Made from job first-odd of workspace ws")
    with pytest.raises(NotFound):
        await azure.job_file("nobody")


async def test_a_trials_file_is_that_of_a_command_job_with_its_values(azure, wire, folder) -> None:
    wire.seed.sweep("swept", trials=1)
    for _ in range(200):
        if "swept_0" in wire.state.jobs:
            break
        wire.advance(1)
    made = await azure.job_file("swept_0")
    assert made.kind == "command"
    assert "${{" not in made.command.replace("${{inputs.", "")
    assert dict(made.tags) == {}


def test_another_kind_of_job_has_no_file_and_what_is_left_out_is_told() -> None:
    place = Place("s", "g", "w")
    with pytest.raises(Invalid, match="of kind automl"):
        write({"name": "x", "properties": {"jobType": "AutoML"}}, place)
    odd = {"jobType": "Command", "command": "a\x1b[31m\nb", "notificationSetting": {"emails": ["a"]}, "new": 3}
    made = write({"name": "x\ny", "properties": odd}, place)
    assert "# Not carried over: new, notificationSetting." in made.splitlines()
    assert document.parse(made, None, Path()).command == "a\x1b[31m\nb"
    assert "\x1b" not in made


@needs_corpus
@pytest.mark.slow
def test_jobs_of_the_corpus_started_again_are_the_same(tmp_path: Path) -> None:
    root = copy_corpus(tmp_path)
    for inner in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        (inner / "made_up.py").write_text("1")
    commands = [entry for entry in MANIFEST if KINDS[entry["kind"]] == "command"]
    wanted = [*commands[::3], *(entry for entry in MANIFEST if KINDS[entry["kind"]] == "sweep")]
    odd = ("hyperparameter_sweep", "hello-batch", "1a_oj_sales", "spark-pipeline-managed", "e2e-model-monitoring")
    wanted += [entry for entry in MANIFEST if "pipeline" in entry["kind"] and any(one in entry["path"] for one in odd)]
    same = 0
    with running_server() as wire, real_client(wire) as ml, contextlib.redirect_stdout(io.StringIO()):
        from azure.ai.ml import load_job

        place = Place(wire.subscription_id, wire.resource_group, wire.workspace_name)
        for number, entry in enumerate(wanted):
            try:
                job = load_job(root / entry["path"])
            except Exception:  # noqa: BLE001  the SDK does not load all of them
                continue
            job.name = f"job{number}"
            if submit(ml, wire, job):
                continue
            text = write(wire.state.jobs[job.name], place)
            assert [f for f in check(document.parse(text, None, root)) if f.severity == "error"] == [], text
            again = load_job(io.StringIO(text), relative_origin=str(root / "job.yml"))
            again.name = f"again{number}"
            assert submit(ml, wire, again) == "", text
            assert body(wire, again.name) == body(wire, job.name), text
            same += 1
    assert same >= 12
