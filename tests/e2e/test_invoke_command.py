"""The commands on a served model: several pictures, faults among them, and text from outside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import served
from tests.commands import COMMAND, Footplate
from tests.terminal import Terminal

from footplate.local import layout

EVIL = "evil\x1b]52;c;c3RvbGVu\x07\x9b2J"


@pytest.fixture
def footplate(tmp_path: Path) -> Iterator[Footplate]:
    """The commands on a home whose endpoint `birds` serves `colours:1`, beside the pictures red.png and blue.png."""
    command = Footplate(tmp_path)
    with served.workspace(command.home) as (_, endpoints):
        endpoints.create("birds")
        endpoints.deploy("birds", "blue", "colours:1")
        served.wait_ready(endpoints, "birds", "blue")
        for colour in ("red", "blue"):
            (tmp_path / f"{colour}.png").write_bytes(served.picture(colour))
        yield command


def test_invoke_goes_on_after_a_fault_names_each_and_ends_with_the_highest_code(footplate, tmp_path):
    (tmp_path / "folder").mkdir()
    images = ("red.png", "missing.png", "folder", "blue.png")
    found = footplate.json("invoke", "birds", *images, code=2)
    assert [one["image"] for one in found] == list(images)
    assert [one.get("label") for one in found] == ["red", None, None, "blue"]
    assert ["error" in one for one in found] == [False, True, True, False]
    done = footplate("invoke", "birds", *images)
    assert done.returncode == 2
    assert "red.png: red," in done.stdout
    assert "blue.png: blue," in done.stdout
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["missing.png", "folder"]
    alone = footplate.json("invoke", "birds", "red.png")
    assert (alone["label"], "error" in alone) == ("red", False)

    # Without a picture that is wrong the endpoint's refusal counts: a deployment that is not there, a wrong key.
    assert footplate("invoke", "birds", "red.png", "--deployment", "green").returncode == 2
    keys = layout.endpoint_folder(footplate.home, "birds") / "keys.json"
    before = keys.stat()
    keys.write_text(json.dumps({"primaryKey": "wrong", "secondaryKey": "wrong"}))
    os.utime(keys, ns=(before.st_atime_ns, before.st_mtime_ns))  # else the gateway takes them over
    refused = footplate.json("invoke", "birds", "red.png", "missing.png", code=4)
    assert [one.get("status") for one in refused] == [401, None]
    alone = footplate.json("invoke", "birds", "red.png", code=4)
    assert "401" in alone["error"]


def test_file_names_and_server_logs_are_text_on_a_terminal(footplate, tmp_path):
    (tmp_path / f"{EVIL}.png").write_bytes(served.picture("red"))
    log = layout.endpoint_folder(footplate.home, "birds") / "blue" / "server.log"
    with log.open("a", encoding="utf-8") as file:
        file.write(f"a line {EVIL}\n")
    for arguments, seen in (
        (("invoke", "birds", f"{EVIL}.png"), b"evil.png: red,"),
        (("invoke", "birds", f"{EVIL}.png", "--json"), b'"label": "red"'),
        (("endpoint", "logs", "birds"), b"a line evil"),
        (("endpoint", "show", "birds"), b"colours:1"),
    ):
        with Terminal((*COMMAND, *arguments), environment=footplate.environment, folder=tmp_path) as terminal:
            assert terminal.wait() == 0, bytes(terminal.output)
            output = bytes(terminal.output)
        assert seen in output
        assert [bad for bad in (b"\x1b", b"\x07", b"\xc2\x9b") if bad in output] == []
    assert f"a line {EVIL}" in footplate("endpoint", "logs", "birds").stdout
    name = b"not utf-8 \xff.png"
    (tmp_path / "copy").write_bytes(served.picture("blue"))
    (tmp_path / "copy").rename(tmp_path / name.decode("utf-8", "surrogateescape"))
    path = name.decode("utf-8", "surrogateescape")
    assert footplate.json("invoke", "birds", path)["image"] == path
    assert "not utf-8 ?.png: blue," in footplate("invoke", "birds", path).stdout
