"""Endpoints of the local workspace: the contract, on a real gateway with real scoring servers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from tests import served

from footplate.local import layout
from footplate.local.endpoints import Endpoints
from footplate.local.store import Store
from footplate.workspace import Answer, Conflict, Invalid, NotFound, Unexpected, Unreachable

PNG = {"Content-Type": "image/png"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Endpoints]]:
    """The endpoint `birds` with `blue` (all traffic, colours:1) and `green` (none, colours:2), both ready."""
    with served.workspace(tmp_path_factory.mktemp("home")) as (store, endpoints):
        endpoints.create("birds", "which bird")
        for name, model in (("blue", "colours:1"), ("green", "colours")):
            assert endpoints.deploy("birds", name, model).state == "Creating"
        for name in ("blue", "green"):
            served.wait_ready(endpoints, "birds", name)
        yield store, endpoints


@pytest.fixture(scope="module")
def endpoints(world: tuple[Store, Endpoints]) -> Endpoints:
    return world[1]


async def ask(endpoints: Endpoints, body: bytes, deployment: str | None = None, name: str = "birds") -> Answer:
    try:
        return await endpoints.invoke(name, body, PNG, deployment)
    finally:
        await endpoints.close()


async def post(endpoints: Endpoints, body: bytes, headers: dict[str, str], path: str = "score") -> tuple[int, dict]:
    """A request past `invoke`: what a program of the operator's would send."""
    address = endpoints.endpoint("birds").scoring_uri.removesuffix("score") + path
    async with aiohttp.ClientSession() as client, client.post(address, data=body, headers=headers) as answer:
        return answer.status, await answer.json()


def message(answer: Answer) -> str:
    return str(json.loads(answer.body)["error"]["message"])


async def test_invoke_answers_with_the_prediction_and_who_gave_it(endpoints):
    answer = await ask(endpoints, served.picture("lime"))
    document = json.loads(answer.body)
    assert (answer.status, document["label"], answer.deployment) == (200, "green", "blue")
    assert document["probability"] > 0.9
    assert answer.seconds > 0


async def test_a_request_reaches_the_deployment_that_it_asks_for(endpoints):
    answer = await ask(endpoints, served.picture("red"), "green")
    assert (answer.status, answer.deployment, json.loads(answer.body)["label"]) == (200, "green", "red")


async def test_an_unknown_deployment_is_a_404_that_names_those_there(endpoints):
    answer = await ask(endpoints, served.picture("red"), "purple")
    assert answer.status == 404
    assert message(answer) == "Endpoint birds has no deployment 'purple'; there are: blue, green."


async def test_a_models_own_error_comes_as_424_with_its_status_and_reason(endpoints):
    answer = await ask(endpoints, b"this is no picture")
    assert (answer.status, answer.deployment) == (424, "blue")
    assert answer.headers["ms-azureml-model-error-statuscode"] == "400"
    assert answer.headers["ms-azureml-model-error-reason"] == "model_error"
    assert "picture" in message(answer) or "image" in message(answer)


@pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer ", "Basic x", "Bearer schlüssel"])
async def test_a_wrong_key_is_a_401_and_nothing_is_scored(endpoints, given):
    headers = {**PNG, **({"Authorization": given} if given is not None else {})}
    status, document = await post(endpoints, served.picture("red"), headers)
    assert status == 401
    assert document["error"]["code"] == "Unauthorized"
    assert "footplate endpoint keys birds" in document["error"]["message"]


async def test_both_keys_open_the_endpoint(endpoints):
    keys = endpoints.keys("birds")
    assert keys.primary != keys.secondary
    for key in (keys.primary, keys.secondary):
        status, document = await post(endpoints, served.picture("red"), {**PNG, "Authorization": f"Bearer {key}"})
        assert (status, document["label"]) == (200, "red")


async def test_a_body_over_the_limit_is_a_413_that_says_the_limit(endpoints):
    answer = await ask(endpoints, b"x" * (33 * 1024 * 1024))
    assert answer.status == 413
    assert "32 MB" in message(answer)


async def test_a_body_over_the_limit_without_a_length_is_a_413_too(endpoints):
    async def pieces():
        for _ in range(33):
            yield b"x" * (1024 * 1024)

    status, document = await post(
        endpoints, pieces(), {**PNG, "Authorization": f"Bearer {endpoints.keys('birds').secondary}"}
    )
    assert (status, document["error"]["code"]) == (413, "RequestEntityTooLarge")


async def test_a_wrong_path_is_a_404_in_json(endpoints):
    status, document = await post(endpoints, b"", {}, "scores")
    assert status == 404
    assert "POST /score" in document["error"]["message"]


async def test_health_answers_without_a_key(endpoints):
    address = endpoints.endpoint("birds").scoring_uri.replace("/score", "/health")
    async with aiohttp.ClientSession() as client, client.get(address) as answer:
        assert (answer.status, await answer.json()) == (200, {"status": "Healthy"})


async def test_traffic_is_split_by_weight(world):
    store, endpoints = world
    with store.write() as db:
        db.execute("UPDATE endpoint SET traffic = ? WHERE name = 'birds'", (json.dumps({"blue": 50, "green": 50}),))
    try:
        answered = set()
        for _ in range(200):
            answered.add((await endpoints.invoke("birds", served.picture("red"), PNG)).deployment)
            if len(answered) == 2:
                break
        assert answered == {"blue", "green"}
    finally:
        await endpoints.close()
        with store.write() as db:
            db.execute("UPDATE endpoint SET traffic = ? WHERE name = 'birds'", (json.dumps({"blue": 100}),))


async def test_an_endpoint_without_traffic_is_a_404(endpoints):
    endpoints.create("quiet")
    answer = await ask(endpoints, served.picture("red"), name="quiet")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "NoDeployment")
    endpoints.deploy("quiet", "blue", "colours:1", traffic=False)
    assert endpoints.endpoint("quiet").traffic == {}
    assert endpoints.endpoint("quiet").state == "Updating"
    endpoints.delete("quiet")


def test_lists_show_state_traffic_and_deployments(endpoints):
    found = next(one for one in endpoints.list() if one.name == "birds")
    assert (found.state, found.description, dict(found.traffic)) == ("Succeeded", "which bird", {"blue": 100})
    assert [(one.name, one.model, one.state) for one in found.deployments] == [
        ("blue", "colours:1", "Succeeded"),
        ("green", "colours:2", "Succeeded"),
    ]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/score", found.scoring_uri)


def test_deploying_the_same_again_changes_nothing(endpoints):
    before = endpoints.endpoint("birds")
    assert endpoints.deploy("birds", "blue", "colours:1") == before.deployments[0]
    assert endpoints.endpoint("birds") == before


def test_deploying_another_model_under_the_name_is_refused(endpoints):
    with pytest.raises(Conflict, match=r"already has a deployment 'blue', with model colours:1\. Delete it, or"):
        endpoints.deploy("birds", "blue", "colours:2")


def test_what_is_not_there_is_said_to_be_missing(endpoints):
    for act in (
        lambda: endpoints.endpoint("nobody"),
        lambda: endpoints.start("nobody"),
        lambda: endpoints.delete("nobody"),
        lambda: endpoints.keys("nobody"),
        lambda: endpoints.deploy("nobody", "blue", "colours:1"),
        lambda: endpoints.deploy("birds", "red", "colours:99"),
        lambda: endpoints.log("birds", "red", 10),
    ):
        with pytest.raises(NotFound):
            act()


async def test_invoking_what_is_not_there_is_said_so(endpoints):
    with pytest.raises(NotFound):
        await endpoints.invoke("nobody", b"", {})


@pytest.mark.parametrize(
    "name", ["ab", "a" * 33, "1st", "two--dashes", "end-", "a_b", "a b c", "../up", "naïve", "abc\n"]
)
def test_names_follow_azures_rule(endpoints, name):
    with pytest.raises(Invalid, match="3 to 32 characters"):
        endpoints.create(name)
    with pytest.raises(Invalid, match="3 to 32 characters"):
        endpoints.deploy("birds", name, "colours:1")


def test_an_endpoint_that_cannot_be_created_leaves_nothing_half_written(tmp_path, monkeypatch):
    with served.workspace(tmp_path / "home") as (store, endpoints):
        folder = layout.endpoint_folder(store.home, "birds")
        settings = tmp_path / "config.toml"
        settings.write_text("[local\n")
        monkeypatch.setenv("FOOTPLATE_CONFIG", str(settings))  # the gateway reads it, and ends
        with pytest.raises(Unexpected, match=r"did not start: .*config\.toml.*Nothing of it was kept"):
            endpoints.create("birds")
        assert (endpoints.list(), folder.exists()) == ([], False)

        monkeypatch.delenv("FOOTPLATE_CONFIG")
        folder.parent.rmdir()
        folder.parent.write_text("a file where the folder belongs")
        with pytest.raises(Unexpected, match=r"cannot be created: .*Nothing of it was kept"):
            endpoints.create("birds")
        assert endpoints.list() == []

        folder.parent.unlink()
        assert endpoints.create("birds").state == "Succeeded"


def test_a_lock_that_cannot_be_had_is_said(tmp_path):
    with served.workspace(tmp_path / "home") as (store, endpoints):
        (store.home / "endpoints.lock").mkdir()
        with pytest.raises(Unexpected, match=r"endpoints\.lock cannot be taken: Is a directory"):
            endpoints.create("birds")


def test_creating_an_endpoint_twice_is_refused(endpoints):
    with pytest.raises(Conflict, match="already an endpoint 'birds'"):
        endpoints.create("birds")


def test_keys_are_the_owners_alone_and_stand_nowhere_else(world):
    store, endpoints = world
    folder = layout.endpoint_folder(store.home, "birds")
    assert (folder / "keys.json").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    key = endpoints.keys("birds").primary
    assert key not in repr(endpoints.keys("birds"))
    for process in served.processes_of(store.home):
        assert key not in " ".join(process.cmdline())
        assert key not in str(process.environ())
    for log in (folder / "gateway.log", folder / "blue" / "server.log"):
        assert key not in log.read_text()


def test_everything_listens_on_loopback_only(world):
    store, _ = world
    found = [
        connection.laddr.ip
        for process in served.processes_of(store.home)
        for connection in process.net_connections("inet")
        if connection.status == "LISTEN"
    ]
    assert found
    assert set(found) == {"127.0.0.1"}


def test_no_other_user_can_go_round_the_key(world):
    """Only gateways, which ask for the key, listen where others can connect; servers' sockets lie in a closed folder."""
    store, _ = world
    folder = layout.endpoint_folder(store.home, "birds")
    sockets = set()
    for process in served.processes_of(store.home):
        if "footplate.local.gateway" in process.cmdline():
            continue
        assert [one for one in process.net_connections("inet") if one.status == "LISTEN"] == []
        here = Path(process.cwd())
        sockets |= {here / one.laddr for one in process.net_connections("unix") if one.laddr}
    assert sockets == {folder / name / "code" / "server.sock" for name in ("blue", "green")}
    assert folder.stat().st_mode & 0o077 == 0


def test_a_log_gives_its_last_lines(endpoints):
    whole = endpoints.log("birds", "blue", 10_000).split("\n")
    assert any("Serving strongest_colour with 3 classes" in line for line in whole)
    assert endpoints.log("birds", "blue", 2).split("\n") == whole[-2:]
    assert endpoints.log("birds", "blue", 0) == ""


def test_a_log_is_read_from_its_end(world, tmp_path: Path):
    from footplate.local import server_log

    huge = tmp_path / "server.log"
    with huge.open("wb") as file:
        os.truncate(file.fileno(), 5 * 1024**3)  # a hole of 5 GB
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast \xff line\n")
    assert server_log.tail(huge, 1) == "last � line"


async def test_a_stopped_endpoint_is_unreachable_with_the_next_step(world):
    store, endpoints = world
    endpoints.create("asleep")
    gateway = served.psutil.Process(served.gateway_pid(store, "asleep"))
    gateway.terminate()
    served.wait_for(lambda: not gateway.is_running(), "the gateway's end")
    assert endpoints.endpoint("asleep").state == "Stopped"
    with pytest.raises(Unreachable, match="footplate endpoint start asleep"):
        await endpoints.invoke("asleep", b"", {})
    endpoints.delete("asleep")
