"""Jobs are started through the SDK in a process of its own: what reaches the server, and what becomes of that process."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.wire import WireServer, faults
from tests.wire.client import real_client

from footplate.jobfile import read
from footplate.workspace import Conflict, Invalid, NotAllowed, NotSignedIn, QuotaExceeded, Throttled, Unreachable

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours

PIPELINE = """\
type: pipeline
display_name: two steps
settings: {default_compute: azureml:cpu}
inputs:
  epochs: 3
jobs:
  train:
    type: command
    code: ../trainer
    command: python train.py --num_epochs ${{inputs.epochs}} --output_dir ${{outputs.model}}
    environment: azureml:AzureML-acpt-pytorch-2.8-cuda12.6:3
    inputs: {epochs: "${{parent.inputs.epochs}}"}
    outputs: {model: {type: uri_folder}}
  look:
    type: command
    command: ls ${{inputs.model}}
    environment: azureml:AzureML-acpt-pytorch-2.8-cuda12.6:3
    inputs: {model: "${{parent.jobs.train.outputs.model}}"}
"""
FILES = ("train.yml", "train-distributed.yml", "sweep.yml", "pipeline.yml")


def put(wire: WireServer, name: str) -> Any:
    """The body with which a job was started."""
    return next(one.body for one in wire.requests if one.method == "PUT" and one.path.endswith(f"/jobs/{name}"))


async def until(condition: Any, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_what_reaches_the_server_is_what_the_sdk_itself_sends(azure, wire, folder) -> None:
    loading = asyncio.create_task(asyncio.to_thread(importlib.import_module, "azure.ai.ml"))  # two seconds, meanwhile
    (folder / "jobs" / "pipeline.yml").write_text(PIPELINE)
    edits = {"train.yml": {"inputs.num_epochs": 3, "compute": "azureml:cpu"}}
    for file in FILES:
        job_file = read(folder / "jobs" / file).edit(edits.get(file, {}))
        (folder / "jobs" / f"edited-{file}").write_text(job_file.text)
        stem = file.partition(".")[0]
        job = await azure.submit(job_file, f"ours-{stem}")
        assert (job.name, job.type) == (f"ours-{stem}", job_file.kind)
        assert job.active

    def by_sdk() -> None:
        from azure.ai.ml import load_job

        with real_client(wire) as ml:
            for file in FILES:
                job = load_job(folder / "jobs" / f"edited-{file}")
                job.name = f"theirs-{file.partition('.')[0]}"
                ml.jobs.create_or_update(job)

    await loading
    await asyncio.to_thread(by_sdk)
    for stem in (file.partition(".")[0] for file in FILES):
        assert put(wire, f"ours-{stem}") == put(wire, f"theirs-{stem}")
    sent = put(wire, "ours-train")["properties"]
    assert (sent["inputs"]["num_epochs"]["value"], sent["experimentName"]) == ("3", "birds")
    uploaded = {name for box, name in wire.state.blobs if box.startswith(wire.state.workspace_guid)}
    assert "trainer/train.py" in uploaded
    assert len(wire.state.assets["codes"]) == 1  # ours was found by its hash: the same files


async def test_refusals_are_sentences(azure, wire, folder) -> None:
    train = read(folder / "jobs" / "train.yml")
    with pytest.raises(Conflict, match="There is a job 'ours-train' already"):
        await azure.submit(train, "ours-train")
    with pytest.raises(Invalid, match="Unknown compute target 'nowhere'") as unknown:
        await azure.submit(train.edit({"compute": "azureml:nowhere"}), "refused")
    assert "correlation id" in unknown.value.raw
    with pytest.raises(Invalid, match="names compute `local`"):
        await azure.submit(train.edit({"compute": "local"}), "refused")
    for edit, sentence in (
        ({"code": "../nothing"}, f"code: Can't find directory or file in resolved absolute path: {folder}/nothing."),
        ({"inputs.data.path": "azureml:nobirds@latest"}, "Asset nobirds does not exist in workspace ws."),
        ({"distribution": {"type": "pytorch", "process_count_per_instance": "x"}}, "Not a valid integer."),
    ):
        with pytest.raises(Invalid) as refused:
            await azure.submit(train.edit(edit), "refused")
        assert refused.value.sentence.startswith("Azure's SDK refuses job 'refused': ")
        assert refused.value.sentence.endswith(sentence)
        assert "\x1b" not in refused.value.raw
    quota = {"error": {"code": "QuotaExceeded", "message": "Requested 8 cores, current usage 20, limit 24."}}
    for fault, kind in (
        (faults.fail("role"), NotAllowed),
        (faults.fail(429, retry_after=9), Throttled),
        (faults.Fault(400, quota), QuotaExceeded),
        (faults.fail(409), Conflict),
        (faults.fail("claims"), NotSignedIn),  # which the parent has no new token for
    ):
        wire.faults.add("PUT", "/jobs/refused", fault)
        with pytest.raises(kind):
            await azure.submit(train, "refused")
    wire.faults.add("PUT", "/jobs/refused", faults.fail("token"), times=None)
    with pytest.raises(NotSignedIn):
        await azure.submit(train, "refused")
    wire.faults.clear()
    assert "refused" not in wire.state.jobs


async def test_an_upload_tells_its_bytes_and_a_barred_storage_is_told(azure, wire, folder) -> None:
    new = folder / "new"
    new.mkdir()
    (new / "big.bin").write_bytes(b"a" * 200_000)
    (new / "train.py").write_text("print()\n")
    job_file = read(folder / "jobs" / "train.yml").edit({"code": str(new)})
    wire.faults.add("PUT", r"/blob/.*big\.bin", faults.fail("firewall"), times=None)
    with pytest.raises(NotAllowed, match="storage takes no files of job 'uploaded'"):
        await azure.submit(job_file, "uploaded")
    wire.faults.clear()
    wire.faults.add("PUT", r"/blob/.*big\.bin", faults.slow(0.5))
    seen = []
    task = asyncio.create_task(azure.submit(job_file, "uploaded"))
    while not task.done():
        if azure.upload is not None and azure.upload not in seen:
            seen.append(azure.upload)
        await asyncio.sleep(0.005)
    assert (await task).name == "uploaded"
    assert {(one.what, one.total) for one in seen} == {("new", 200_008)}
    assert {one.done for one in seen} >= {0, 8}
    assert azure.upload is None


async def test_the_process_has_no_token_and_no_terminal(azure, wire) -> None:
    process = Path(f"/proc/{azure._writer.sdk.pid}")
    assert wire.token in os.environ["FOOTPLATE_WIRE_TOKEN"]
    for name in ("cmdline", "environ"):
        assert wire.token.encode() not in (process / name).read_bytes()
    assert process.joinpath("stat").read_text().rpartition(")")[2].split()[4] == "0"  # its controlling terminal
    for descriptor in ("0", "1", "2"):
        assert not str((process / "fd" / descriptor).readlink()).startswith(("/dev/tty", "/dev/pts"))


async def test_a_process_that_is_killed_fails_its_call_and_the_next_one_starts_another(azure, wire, folder) -> None:
    train = read(folder / "jobs" / "train.yml")
    first = azure._writer.sdk.pid
    wire.faults.add("PUT", "/jobs/killed", faults.slow(3))
    task = asyncio.create_task(azure.submit(train, "killed"))
    await until(lambda: wire.faults.rules[-1].hits)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(Unreachable, match="ended killed by SIGKILL, before job 'killed' was done"):
        await task
    assert not Path(f"/proc/{first}").exists()
    wire.faults.clear()
    assert (await azure.submit(train, "after")).name == "after"
    assert azure._writer.sdk.pid not in (first, None)


async def test_the_process_ends_with_its_workspace(azure) -> None:
    pid = azure._writer.sdk.pid
    await azure.close()
    assert not Path(f"/proc/{pid}").exists()
