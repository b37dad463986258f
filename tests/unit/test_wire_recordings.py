"""The wire server against the service's recorded answers: the same requests get answers of the same shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.wire import WireServer, running_server
from tests.wire.assets import version_body
from tests.wire.client import RawClient, loopback_names

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "recordings"
pytestmark = [
    pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"{RECORDINGS} is not there"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
CODE = "83eb68f5-8468-439d-89d0-626f504652e6/1"
HASH = "a4e91c079c2a271d699ffac5ca5441abc8034151356913e57bff8f483c3d3a3b"


@pytest.fixture(scope="module")
def wire() -> Iterator[WireServer]:
    with running_server() as wire, loopback_names():
        wire.seed.cluster("testCompute")
        state = wire.state
        given = {
            "codeUri": "https://acct.blob.core.windows.net/box/python",
            "properties": {"hash_sha256": HASH, "hash_version": "202208"},
        }
        state.assets["codes"][CODE] = version_body(state, "codes", *CODE.split("/"), given)
        yield wire


@pytest.fixture
def raw(wire: WireServer) -> Iterator[RawClient]:
    client = RawClient(wire)
    yield client
    client.close()


def entries(number: str) -> list[dict[str, Any]]:
    path = next(RECORDINGS.glob(f"{number}_*.json"))
    return json.loads(path.read_text())["Entries"]


def replay(raw: RawClient, wire: WireServer, entry: dict[str, Any]) -> Any:
    """Send a recorded request to our server."""
    parts = urlsplit(entry["RequestUri"])
    path = re.sub(r"^/subscriptions/.*/workspaces/00000", wire.state.ws, parts.path)
    text = json.dumps(entry["RequestBody"])
    text = re.sub(r"/subscriptions/[0-9-]+/resourceGroups/00000/[^\"]*?/workspaces/00000", wire.state.ws, text)
    body = json.loads(text)
    return raw.send(entry["RequestMethod"], f"{wire.resource_manager}{path}?{parts.query}", body)


def differences(ours: Any, theirs: Any, path: str = "", free: str = r"(?!)") -> list[str]:
    """Where two bodies differ in members, in what is null, in kinds of values; `free` is the paths that may."""
    if re.fullmatch(free, path):
        return []
    if isinstance(theirs, dict) and isinstance(ours, dict):
        found = [
            f"{path}.{key} is missing" for key in theirs.keys() - ours.keys() if not re.fullmatch(free, f"{path}.{key}")
        ]
        found += [
            f"{path}.{key} is extra" for key in ours.keys() - theirs.keys() if not re.fullmatch(free, f"{path}.{key}")
        ]
        for key in theirs.keys() & ours.keys():
            found += differences(ours[key], theirs[key], f"{path}.{key}", free)
        return found
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(ours) != len(theirs):
            return [f"{path} has {len(ours)} items, not {len(theirs)}"]
        return [
            line
            for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
            for line in differences(a, b, f"{path}[{i}]", free)
        ]
    if type(ours) is not type(theirs):
        return [f"{path} is {ours!r}, not {theirs!r}"]
    return []


@pytest.mark.parametrize("number", ["06", "09"])
def test_jobs_are_answered_as_recorded(raw: RawClient, wire: WireServer, number: str) -> None:
    told = [entry for entry in entries(number) if "/jobs/" in entry["RequestUri"]]
    for entry in told:
        response = replay(raw, wire, entry)
        assert response.status_code == entry["StatusCode"]
        if entry["RequestMethod"] == "GET" and number == "06":
            wire.advance(3)
            response = replay(raw, wire, entry)
        # The trimmed tag is a string in both; our sweeps have their children's tags later.
        assert differences(response.json(), entry["ResponseBody"]) == []
        assert response.json()["properties"]["status"] == entry["ResponseBody"]["properties"]["status"]


def test_code_is_found_by_its_hash_as_recorded(raw: RawClient, wire: WireServer) -> None:
    lookup, version = entries("09")[:2]
    lookup["RequestUri"] = lookup["RequestUri"].replace("<guid>", "0").replace("<sha256>", HASH)
    for entry in (lookup, version):
        response = replay(raw, wire, entry)
        assert differences(response.json(), entry["ResponseBody"]) == []
    assert ":443/" in response.json()["properties"]["codeUri"]


def test_a_cluster_is_answered_as_recorded(raw: RawClient, wire: WireServer) -> None:
    put, status, get, delete = entries("05")
    response = replay(raw, wire, put)
    assert response.status_code == 201
    assert differences(response.json(), put["ResponseBody"]) == []
    operation = response.headers["Azure-AsyncOperation"]
    assert len(operation) > 3000
    assert raw.send("GET", operation).json() == status["ResponseBody"]
    assert raw.send("GET", operation).json() == {"status": "Succeeded"}
    assert differences(replay(raw, wire, get).json(), get["ResponseBody"]) == []
    response = replay(raw, wire, delete)
    assert (response.status_code, response.content) == (202, b"")
    assert "Azure-AsyncOperation" in response.headers


def test_an_endpoint_is_answered_as_recorded(raw: RawClient, wire: WireServer) -> None:
    put, going, done = entries("03")
    response = replay(raw, wire, put)
    assert response.status_code == 201
    assert differences(response.json(), put["ResponseBody"]) == []
    assert response.json()["properties"]["scoringUri"] is None
    told = {
        "Azure-AsyncOperation",
        "Location",
        "x-ms-async-operation-timeout",
        "x-ms-ratelimit-remaining-subscription-writes",
    }
    assert told <= set(response.headers)
    assert "Retry-After" not in response.headers
    for entry in (going, done):
        answer = raw.send("GET", response.headers["Azure-AsyncOperation"]).json()
        assert differences(answer, entry["ResponseBody"]) == []
        assert answer["status"] == entry["ResponseBody"]["status"]
        assert answer["endTime"].startswith("0001-01-01") == entry["ResponseBody"]["endTime"].startswith("0001-01-01")


@pytest.mark.parametrize("number", ["08", "10"])
def test_refusals_are_those_recorded(raw: RawClient, wire: WireServer, number: str) -> None:
    entry = entries(number)[-1]
    if number == "08":
        wire.state.assets["environments"]["CliV2AnonymousEnvironment/6bacc0d892cc968bcd98bcbbea577d56"] = {}
        entry["RequestBody"] = json.loads(json.dumps(entry["RequestBody"]).replace("testCompute", "missing"))
        entry["ResponseBody"] = json.loads(json.dumps(entry["ResponseBody"]).replace("testCompute", "missing"))
    response = replay(raw, wire, entry)
    assert response.status_code == 400
    ours, theirs = response.json()["error"], entry["ResponseBody"]["error"]
    assert (ours["code"], ours["message"]) == (theirs["code"], theirs["message"])
    # Where in the text the member stood is not kept; MessageFormat is told of some faults only.
    strip = re.compile(r", line 1.*")
    assert [strip.sub("", one["message"]) for one in ours["details"]] == [
        strip.sub("", one["message"]) for one in theirs["details"]
    ]
    told = {one["type"] for one in theirs["additionalInfo"]} - {"MessageFormat"}
    assert {one["type"] for one in ours["additionalInfo"]} == told


@pytest.mark.parametrize("number", ["01", "12"])
def test_reads_are_answered_as_recorded(raw: RawClient, wire: WireServer, number: str) -> None:
    entry = entries(number)[0]
    if number == "12":
        wire.seed.environment("AzureML-sklearn-1.0-ubuntu20.04-py38-cpu", "1", curated=True)
        entry["ResponseBody"]["properties"]["description"] = None
    response = replay(raw, wire, entry)
    free = r"\.properties\.tags\..*"
    assert differences(response.json(), entry["ResponseBody"], free=free) == []


def test_a_datastore_and_its_secret_are_answered_as_recorded(raw: RawClient, wire: WireServer) -> None:
    get, secrets = entries("06")[:2]
    assert differences(replay(raw, wire, get).json(), get["ResponseBody"], free=r"\.systemData\..*") == []
    answer = replay(raw, wire, secrets).json()
    assert answer["secretsType"] == "Sas"
    assert answer["sasToken"].startswith("?")
