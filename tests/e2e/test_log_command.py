"""`footplate logs`: which lines it prints, on this machine and from Azure, followed or not."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from tests.commands import COMMAND, Inside
from tests.wire import faults, running_server

LOG = """\
2026-01-31 14:00:00,000 INFO begin
2026-01-31 14:05:00,000 INFO epoch 1
Traceback (most recent call last):
  File "train.py", line 3, in <module>
ValueError: no picture
2026-01-31 14:06:00,000 WARNING \x1b[31mgave up\x1b[0m
last, without an end"""


@pytest.fixture
def footplate(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


def test_a_command_prints_the_lines_that_are_wanted(footplate, tmp_path):
    (tmp_path / "log.txt").write_text(LOG)
    (tmp_path / "job.yml").write_text(f"command: cat '{tmp_path / 'log.txt'}'\nenvironment: azureml:env:1\n")
    footplate.json("launch", "job.yml", "--name", "one", "--follow")
    lines = LOG.split("\n")

    def printed(*options: str) -> list[str]:
        done = footplate("logs", "one", *options)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    assert footplate("logs", "one").stdout == LOG
    assert printed("--tail", "2") == lines[-2:]
    assert printed("--tail", "0") == []
    assert printed("--tail", "100") == lines
    assert printed("--grep", "epoch|gave") == [lines[1], lines[5]]
    assert printed("--grep", "EPOCH") == []
    assert printed("--grep", "last,|begin", "--context", "1") == [*lines[:2], "··· 3 lines ···", *lines[-2:]]
    assert printed("--level", "error") == lines[2:5]
    assert printed("--level", "warning", "--tail", "1") == [lines[5]]
    assert printed("--since", "2026-01-31T14:05") == lines[1:]
    assert printed("--since", "2026-01-31T14:05", "--grep", "begin") == []
    stamped = printed("--timestamps", "--grep", "epoch|File")
    assert stamped[0].endswith(f" {lines[1]}")
    assert stamped[0][10] == "T"
    assert stamped[1] == f"{'-' * 24} {lines[3]}", "nobody knows when it came"
    for option, value, words in (
        ("--grep", "[", "no regular expression"),
        ("--since", "yesterday", "neither an age nor a time"),
        ("--tail", "-1", "--tail"),
    ):
        refused = footplate("logs", "one", option, value)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr


def test_wanted_lines_are_printed_as_they_come(footplate, tmp_path):
    (tmp_path / "job.yml").write_text(
        f"command: echo first hit; while [ ! -e '{tmp_path / 'go'}' ]; do sleep 0.05; done; echo no; echo second hit\n"
        "environment: azureml:env:1\n"
    )
    footplate.json("launch", "job.yml", "--name", "two")
    with subprocess.Popen(
        [*COMMAND, "logs", "two", "--follow", "--grep", "hit"], env=footplate.environment, stdout=subprocess.PIPE
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"first hit\n"
        (tmp_path / "go").touch()
        assert following.stdout.read() == b"second hit\n"
        assert following.wait(60) == 0


def test_a_log_on_azure_is_followed_through_faults_and_kept(tmp_path):
    with running_server() as wire:
        footplate = Inside(tmp_path)
        footplate.settings.write_text(f'workspace = "wire"\n\n{wire.settings("wire")}\n')
        footplate.environment["FOOTPLATE_WIRE_TOKEN"] = wire.token
        data = b"".join(b"line %05d of it\n" % number for number in range(20_000)) + b"WARNING the end"
        wire.seed.job("wren", "Completed")
        wire.seed.log("wren", "user_logs/std_log.txt", data)
        wire.faults.add("GET", "/blob/.*std_log.txt", faults.cut(1000), skip=1)
        wire.faults.add("GET", "/blob/.*std_log.txt", faults.fail("expired"), skip=2)
        assert footplate("logs", "wren").stdout.encode() == data
        done = footplate("logs", "wren", "--tail", "2", "--follow")
        assert (done.returncode, done.stdout) == (0, "line 19999 of it\nWARNING the end\n")
        before = len(wire.requests)
        began = time.monotonic()
        assert footplate("logs", "wren", "--level", "warning").stdout == "WARNING the end\n"
        assert time.monotonic() - began < 60
        asked = [seen for seen in wire.requests[before:] if seen.path.startswith("/blob")]
        assert len(asked) == 1, "what was copied once is not fetched again"
