"""The commands on endpoints, run to their end: a file deployed, tested, scaled, traffic shifted, keys made anew."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.commands import Inside

from footplate.local.store import Store
from footplate.settings import Settings

SCORE = """
from azureml_inference_server_http.api.aml_request import rawhttp
def init(): pass
@rawhttp
def run(request):
    assert request.get_data().startswith((b"\\x89PNG", b"{"))
    return {"label": "wren", "probability": 0.75}
"""
BROKEN = """
def init(): pass
def run(data): raise ValueError("no birds here")
"""
DEPLOYMENT = """\
name: blue
endpoint_name: aviary
model: {path: ./weights}
code_configuration: {code: ./src, scoring_script: score.py}
environment: azureml:env:1
instance_type: Standard_DS3_v2
instance_count: 1
"""


@pytest.fixture(scope="module")
def footplate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """The commands in a home of their own, with files of an endpoint and a deployment; every endpoint goes at the end."""
    pytest.importorskip("azureml_inference_server_http", reason="the scoring server is not installed")
    folder = tmp_path_factory.mktemp("endpoints")
    for name, text in (("src", SCORE), ("broken", BROKEN)):
        (folder / name).mkdir()
        (folder / name / "score.py").write_text(text)
    (folder / "weights").mkdir()
    (folder / "weights" / "w.bin").write_bytes(b"w")
    (folder / "endpoint.yml").write_text("name: aviary\nauth_mode: key\ndescription: of a file\n")
    (folder / "blue.yml").write_text(DEPLOYMENT)
    (folder / "broken.yml").write_text(DEPLOYMENT.replace("./src", "./broken"))
    (folder / "faulty.yml").write_text(DEPLOYMENT.replace("instance_count: 1", "instance_count: many"))
    (folder / "job.yml").write_text("command: echo hello\nenvironment: azureml:env:1\n")
    commands = Inside(folder)
    yield commands
    from footplate.local.endpoints import Endpoints

    endpoints = Endpoints(Store(commands.home), Settings())
    for endpoint in endpoints.list():
        endpoints.delete(endpoint.name)


@pytest.fixture(scope="module")
def aviary(footplate: Inside) -> str:
    """The endpoint of the file, with `blue` (all traffic) and `green` (none); its name."""
    made = footplate.json("deploy", "endpoint.yml")
    assert (made["name"], made["description"], made["deployments"]) == ("aviary", "of a file", [])
    blue = footplate.json("deploy", "blue.yml")
    assert (blue["name"], blue["endpoint"], blue["state"]) == ("blue", "aviary", "Succeeded")
    said = footplate("deploy", "blue.yml", "--name", "green", "--no-traffic")
    assert said.returncode == 0, said.stderr
    assert "green serves" in said.stdout
    assert "with no traffic" in said.stdout
    return "aviary"


def traffic(footplate, name="aviary"):
    shares = footplate.json("traffic", name)["traffic"]
    return {deployment: share for deployment, share in shares.items() if share}


def test_each_deployment_is_tested_whatever_its_traffic(footplate, aviary):
    found = footplate.json("endpoint", "test", aviary)
    assert [(one["deployment"], one["status"], one["label"]) for one in found] == [
        ("blue", 200, "wren"),
        ("green", 200, "wren"),
    ]
    one = footplate.json("endpoint", "test", aviary, "--deployment", "green")
    assert one["deployment"] == "green"
    assert one["timings"]["request_ms"] > 0
    done = footplate("endpoint", "test", aviary)
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["blue", "200"], ["green", "200"]]
    assert footplate("endpoint", "test", aviary, "--deployment", "red").returncode == 2
    assert footplate("endpoint", "test", "nobody").returncode == 2
    assert "cannot be read" in footplate("endpoint", "test", aviary, "--request-file", "missing.json").stderr


def test_traffic_is_shown_shifted_and_mirrored(footplate, aviary):
    assert traffic(footplate) == {"blue": 100}
    done = footplate("traffic", aviary, "blue=90", "green=10%")
    assert (done.returncode, done.stdout) == (0, "aviary: blue 90 %, green 10 % (was blue 100 %)\n"), done.stderr
    assert traffic(footplate) == {"blue": 90, "green": 10}
    done = footplate("traffic", aviary, "blue=100", "--mirror", "green=20")
    assert done.stdout == "aviary: blue 100 % (was blue 90 %, green 10 %)\nmirrored: green 20 %\n"
    found = footplate.json("traffic", aviary)
    assert found["mirror_traffic"] == {"green": 20}
    footplate.json("traffic", aviary, "--mirror", "green=0")
    assert footplate("traffic", aviary).stdout == "aviary: blue 100 %\n"


@pytest.mark.parametrize(
    "shares",
    [
        ("blue=50",),
        ("blue=60", "green=60"),
        ("bleu=100",),
        ("blue",),
        ("blue=",),
        ("blue=1.5", "green=98.5"),
        ("blue=-10", "green=110"),
        ("blue=50", "blue=50"),
        ("--mirror", "green=60"),
        ("--mirror", "blue=10"),
        ("green=100", "--mirror", "green=10"),
    ],
)
def test_what_is_no_traffic_is_a_sentence_and_changes_nothing(footplate, aviary, shares):
    before = footplate.json("traffic", aviary)
    done = footplate("traffic", aviary, *shares)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("footplate: ")
    assert "Traceback" not in done.stderr
    assert footplate.json("traffic", aviary) == before


def test_keys_are_printed_by_their_command_alone_and_made_anew(footplate, aviary):
    before = footplate.json("endpoint", "keys", aviary)
    after = footplate.json("endpoint", "keys", aviary, "--regenerate", "primary")
    assert after["primary"] != before["primary"]
    assert after["secondary"] == before["secondary"]
    assert footplate("endpoint", "keys", aviary, "--regenerate", "third").returncode == 2
    assert footplate("endpoint", "keys", aviary, "--regenerate", "primary", "--read-only").returncode == 4
    assert footplate.json("endpoint", "keys", aviary) == after
    said = ""
    for words in (
        ("endpoints",),
        ("endpoint", "show", aviary),
        ("traffic", aviary),
        ("endpoint", "test", aviary),
        ("endpoint", "logs", aviary),
        ("endpoint", "monitor", aviary),
        ("info",),
    ):
        for more in ((), ("--json",)):
            done = footplate(*words, *more)
            assert done.returncode == 0, done.stderr
            said += done.stdout + done.stderr
    for key in (*before.values(), *after.values()):
        assert key not in said


def test_both_logs_and_figures_are_printed(footplate, aviary):
    assert footplate("endpoint", "logs", aviary, "--tail", "3").stdout.count("\n") <= 3
    storage = footplate.json("endpoint", "logs", aviary, "--container", "storage-initializer")
    assert (storage["container"], "w.bin" in storage["log"]) == ("storage-initializer", True)
    found = footplate.json("endpoint", "monitor", aviary)
    found = found if isinstance(found, list) else [found]
    assert {one["deployment"] for one in found} <= {"blue", "green"}


def test_a_deployment_is_scaled(footplate, aviary):
    assert (
        footplate.json("endpoint", "scale", aviary, "--deployment", "green", "--instances", "2")["instance_count"] == 2
    )
    assert footplate("endpoint", "scale", aviary, "--deployment", "green", "--instances", "0").returncode == 2
    assert footplate("endpoint", "scale", aviary, "--deployment", "red", "--instances", "1").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "or --model"),
        (("blue.yml", "--model", "m:1"), "not both"),
        (("--model", "m:1"), "--endpoint"),
        (("missing.yml",), "cannot be read"),
        (("job.yml",), "is not deployed"),
        (("faulty.yml",), "nothing was started"),
        (("endpoint.yml", "--name", "blue"), "--name"),
    ],
)
def test_what_is_not_deployed_is_said(footplate, aviary, arguments, words):
    done = footplate("deploy", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr
    assert len(footplate.json("endpoint", "show", aviary)["deployments"]) == 2


def test_a_model_that_fails_is_told_by_the_test_and_its_deployment_deleted(footplate, aviary):
    made = footplate.json("deploy", "broken.yml", "--name", "red")
    assert made["state"] == "Succeeded"
    (footplate.folder / "request.json").write_text('{"bird": 1}')
    done = footplate("endpoint", "test", aviary, "--deployment", "red", "--request-file", "request.json")
    assert done.returncode == 1
    assert "red: The model failed (500)" in done.stderr
    found = json.loads(footplate("endpoint", "test", aviary, "--json", "--request-file", "request.json").stdout)
    assert ["error" in one for one in found] == [False, False, True]
    refused = footplate("endpoint", "delete", aviary, "--deployment", "blue")
    assert refused.returncode == 1  # it has traffic
    assert footplate.json("endpoint", "delete", aviary, "--deployment", "red")["state"] == "Deleted"
    assert [one["name"] for one in footplate.json("endpoint", "show", aviary)["deployments"]] == ["blue", "green"]
    assert footplate("endpoint", "delete", aviary, "--deployment", "red").returncode == 2
