"""The commands that start and end jobs on Azure, as processes, and what of the SDK reaches a terminal: nothing."""

from __future__ import annotations

import re
import sys

from tests.terminal import Terminal
from tests.wire import JobPlan

NOISE = (b"experimental", b"Uploading", b"Warning", b"azure.ai", b"Traceback", b"MBs", b"\x1b[39m", b"mysql")


def test_launch_follows_a_job_and_nothing_of_the_sdk_is_on_the_terminal(footplate, wire, folder) -> None:
    command = (sys.executable, "-m", "footplate", "launch", "jobs/train.yml", "--workspace", "wire", "--name", "seen")
    with Terminal([*command, "--follow"], environment=footplate.environment, folder=folder, columns=200) as terminal:
        assert terminal.wait(60) == 0, terminal.output
        output = bytes(terminal.output)
    # The server's clock runs a hundred times as fast as this machine may be busy: the job may be past its start.
    said = re.search(rb"seen is \w+ on serverless: 1 rank", output)
    assert said, output
    upload = output[: said.start()]
    assert re.fullmatch(rb"(\r(uploading [\w .]+|[ ]+))*\r?", upload), upload  # a line that is written over, then gone
    assert output.rstrip().splitlines()[-1].startswith(b"seen is Completed")
    (log,) = [blob for (_, path), blob in wire.state.blobs.items() if path.endswith("dcid.seen/user_logs/std_log.txt")]
    assert bytes(log.data).replace(b"\n", b"\r\n") in output
    for word in (*NOISE, wire.token.encode()):
        assert word not in output
    log_file = footplate.home / "console.log"
    assert "experimental" in log_file.read_text()  # what the SDK said lies there
    assert wire.token not in log_file.read_text()
    assert "sig=" not in log_file.read_text()


def test_a_job_is_launched_and_cancelled(footplate, wire) -> None:
    wire.plans["long"] = JobPlan(running=100_000)
    job = footplate.json("launch", "sweep.yml", "--workspace", "wire", "--name", "long", "--set", "inputs.num_epochs=2")
    assert (job["name"], job["type"], job["status"]) == ("long", "sweep", "Running")
    assert job["inputs"]["num_epochs"] == "2"
    cancelled = footplate("cancel", "long", "--workspace", "wire")
    assert cancelled.returncode == 0, cancelled.stderr
    wire.advance(60)
    assert wire.state.jobs["long"]["properties"]["status"] == "Canceled"
