"""Blue and green on this machine: shares, roll-back, mirrors, instances, limits and keys, on real servers under real requests."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from tests import rollout, served

from footplate.jobfile import JobFile, read
from footplate.local import layout
from footplate.local.endpoints import Endpoints
from footplate.local.models import Models
from footplate.local.store import Store
from footplate.workspace import Conflict, Deployment, Invalid, NotFound, QuotaExceeded

EVERY = 0.03
"""Seconds between two requests of a stream, of which each takes a few milliseconds."""

INIT_RAISES = """\
import os

def init():
    path = os.path.join(os.environ['AZUREML_MODEL_DIR'], 'model', 'model.pt')
    open(path, 'rb').close()

def run(raw):
    return []
"""
RETURNS_AN_OBJECT = """\
class Arr:
    pass

def init():
    pass

def run(raw):
    return Arr()
"""
DUMPS_TWICE = """\
import json, os

def init():
    global text
    text = open(os.path.join(os.environ['AZUREML_MODEL_DIR'], 'model', 'weights.txt')).read()

def run(raw):
    return json.dumps({'label': text})
"""
BROKEN = "def init():\n    raise OSError('no such weights')\n\ndef run(raw):\n    pass\n"
SLOW = "import time\n\ndef init():\n    time.sleep(60)\n\ndef run(raw):\n    pass\n"
LIMITED = """\
request_settings:
  request_timeout_ms: 700
  max_concurrent_requests_per_instance: 1
  max_queue_wait_ms: 300
"""
SINGLE = "request_settings: {max_concurrent_requests_per_instance: 1}\n"
PROBED = "liveness_probe: {initial_delay: 1, period: 1, timeout: 1, failure_threshold: 2}\n"

World = tuple[Store, Endpoints]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with rollout.workspace(tmp_path / "home") as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The endpoint `birds` with `blue`, which has all traffic, `green`, and others for what their names say."""
    folder = tmp_path_factory.mktemp("shared")
    slow_start = rollout.SCORE.replace(
        "def init():", "def init():\n    time.sleep(6.5)"
    )  # longer than gunicorn lets a request take
    scripts = {"broken": INIT_RAISES, "object": RETURNS_AN_OBJECT, "twice": DUMPS_TWICE, "limited": slow_start}
    more = {"limited": LIMITED, "single": SINGLE, "probed": PROBED}
    with rollout.workspace(folder / "home") as (store, endpoints):
        for name in dict.fromkeys(("limited", "blue", "green", *scripts, *more)):
            rollout.deploy(endpoints, folder / name, name, more.get(name, ""), script=scripts.get(name, rollout.SCORE))
        for name in ("blue", "green", "object", "twice", *more):
            served.wait_ready(endpoints, "birds", name)
        served.wait_for(lambda: deployment(endpoints, "broken").state == "Failed", "the failure")
        endpoints.set_traffic("birds", {"limited": 0, "blue": 100}, None)
        yield store, endpoints


@pytest.fixture
def pair(shared: World) -> World:
    """The endpoint that tests share, with all traffic at `blue`."""
    shared[1].set_mirror("birds", {})
    shared[1].set_traffic("birds", {"blue": 100, "green": 0}, None)
    return shared


def ready(endpoints: Endpoints, folder: Path, *names: str, more: str = "") -> None:
    """Deploy the names from files, and wait until they serve; the first has all traffic."""
    for name in names:
        rollout.deploy(endpoints, folder, name, more)
    for name in names:
        served.wait_ready(endpoints, "birds", name)


def deployment(endpoints: Endpoints, name: str = "blue") -> Deployment:
    return next(one for one in endpoints.endpoint("birds").deployments if one.name == name)


def names(endpoints: Endpoints) -> set[str]:
    return {one.name for one in endpoints.endpoint("birds").deployments}


@asynccontextmanager
async def client(endpoints: Endpoints, key: str | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    """A client with the endpoint's address and key."""
    address = endpoints.endpoint("birds").scoring_uri.removesuffix("/score")
    headers = {"Authorization": f"Bearer {key or endpoints.keys('birds').primary}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(address, headers=headers) as session:
        yield session


async def ask(session: aiohttp.ClientSession, asked: dict[str, Any], to: str | None = None) -> tuple[int, Any]:
    headers = {"azureml-model-deployment": to} if to else {}
    async with session.post("/score", data=json.dumps(asked), headers=headers) as answer:
        return answer.status, await answer.json()


async def wait(condition: Any, what: str) -> None:
    """Wait while a stream goes on."""
    await asyncio.to_thread(served.wait_for, condition, what)


def within(share: float, hits: int, count: int) -> bool:
    """Whether so many hits can be this share: within four standard deviations, missed once in 16,000 runs."""
    return abs(hits - share * count) <= 4 * math.sqrt(count * share * (1 - share)) + 1


def kill_gateway(store: Store) -> None:
    """End the gateway as a crash does, and wait until its servers are gone too."""
    psutil.Process(served.gateway_pid(store, "birds")).kill()
    served.wait_for(lambda: not served.processes_of(store.home), "the end of every process")


async def test_a_stream_sees_no_failure_through_shift_roll_back_and_deletion(pair, tmp_path):
    _, endpoints = pair

    async def shift(blue: int, green: int) -> None:
        await asyncio.to_thread(endpoints.set_traffic, "birds", {"blue": blue, "green": green}, None)

    async with rollout.stream(endpoints, EVERY) as answers:
        assert set(await answers.more(30)) == {"blue"}
        await shift(50, 50)
        half = await answers.more(300)
        await shift(0, 100)
        assert set(await answers.more(50)) == {"green"}
        await shift(100, 0)
        assert set(await answers.more(30)) == {"blue"}
        await asyncio.to_thread(endpoints.delete_deployment, "birds", "green")
        await answers.more(30)
        assert "green" not in names(endpoints)
        await asyncio.to_thread(ready, endpoints, tmp_path, "green")
    assert answers.failures == []
    assert within(0.5, half["green"], half.total()), half


async def test_a_killed_server_fails_the_requests_on_it_and_no_other(pair):
    store, endpoints = pair
    async with rollout.stream(endpoints, EVERY) as answers:
        await answers.more(20)
        guard = psutil.Process(served.server_pid(store, "birds", "blue"))
        for process in guard.children(recursive=True):
            process.kill()
        await wait(lambda: served.server_pid(store, "birds", "blue") not in (None, guard.pid), "another server")
        await answers.more(50)
    assert len(answers.failures) <= 1, answers.failures  # its one worker has one request at a time
    served.wait_for(lambda: deployment(endpoints).state == "Succeeded", "the state")
    assert deployment(endpoints).note == (
        "Deployment 'blue' of tiny:1: the server died, killed by SIGKILL. It was started again."
    )


async def test_a_header_reaches_what_has_no_traffic_and_no_traffic_at_all_is_a_404(pair):
    _, endpoints = pair
    async with client(endpoints) as session:
        assert (await ask(session, {}, "green"))[1]["who"] == "green"
        endpoints.set_traffic("birds", {"blue": 0, "green": 0}, None)
        said = {"error": {"code": "NoDeployment", "message": "no deployment has traffic"}}
        assert await ask(session, {}) == (404, said)
        assert (await ask(session, {}, "blue"))[0] == 200
        async with session.get("/") as root:
            assert (root.status, await root.text()) == (503, "Unhealthy")


def test_traffic_that_breaks_the_rules_changes_nothing(pair):
    _, endpoints = pair
    for shares, said in (
        ({"blue": 60, "green": 50}, "110"),
        ({"blue": 50}, "50"),
        ({"bleu": 100}, "Did you mean 'blue'"),
        ({"blue": 50.0, "green": 50}, "whole number"),
        ({"blue": 90, "broken": 10}, "'broken' has failed"),
        ({"blue": -10, "green": 110}, "from 0 to 100"),
    ):
        with pytest.raises(Invalid, match=said):
            endpoints.set_traffic("birds", shares, None)
    with pytest.raises(Conflict, match=r"it was blue 50 %, green 50 %, and is now blue 100 %"):
        endpoints.set_traffic("birds", {"blue": 0}, {"blue": 50, "green": 50})
    with pytest.raises(NotFound):
        endpoints.set_traffic("nobody", {}, None)
    assert endpoints.endpoint("birds").traffic == {"blue": 100, "green": 0}
    assert endpoints.set_traffic("birds", {"blue": 0}, {"blue": 100}).traffic == {"blue": 0}


def test_a_deployment_that_is_being_created_gets_no_traffic_yet(pair, tmp_path):
    _, endpoints = pair
    rollout.deploy(endpoints, tmp_path, "slow", script=SLOW)
    with pytest.raises(Conflict, match="'slow' is still being created"):
        endpoints.set_traffic("birds", {"blue": 50, "slow": 50}, None)
    endpoints.delete_deployment("birds", "slow")
    assert "slow" not in names(endpoints)


async def test_mirrored_requests_reach_the_other_deployment_and_change_no_answer(pair, tmp_path):
    _, endpoints = pair
    copies = tmp_path / "copies"
    script = (
        "def init():\n    pass\n\ndef run(raw):\n"
        f"    with open({str(copies)!r}, 'a') as file:\n        file.write(raw + '\\n')\n    raise ValueError('unseen')\n"
    )
    rollout.deploy(endpoints, tmp_path, "shadow", script=script)
    served.wait_ready(endpoints, "birds", "shadow")
    for shares, said in (
        ({"shadow": 51}, "50"),
        ({"blue": 10}, "has 100 % of the live"),
        ({"red": 10}, "no deployment"),
    ):
        with pytest.raises(Invalid, match=said):
            endpoints.set_mirror("birds", shares)
    assert endpoints.set_mirror("birds", {"shadow": 50}).mirror == {"shadow": 50}

    def counted(figure: str) -> float:
        (shadow,) = [one for one in endpoints.monitor("birds") if one.deployment == "shadow"]
        return sum(value for _, value in shadow.series.get(figure, ()))

    async with client(endpoints) as session:
        for number in range(120):
            status, answer = await ask(session, {"number": number})
            assert (status, answer["who"]) == (200, "blue")
        endpoints.set_mirror("birds", {})

        def all_counted() -> bool:  # a copy that finds no room is left out, and counted all the same
            received = len(copies.read_text().splitlines())
            return 0 < received <= counted("requests_per_minute") and within(
                0.5, int(counted("requests_per_minute")), 120
            )

        served.wait_for(all_counted, "the copies")
        received = len(copies.read_text().splitlines())
        for _ in range(20):
            await ask(session, {})
    assert len(copies.read_text().splitlines()) == received
    assert counted("errors_per_minute") == counted("requests_per_minute")
    endpoints.set_mirror("birds", {"shadow": 10})
    with pytest.raises(Invalid, match="mirrored"):
        endpoints.set_traffic("birds", {"blue": 50, "shadow": 50}, None)
    endpoints.delete_deployment("birds", "shadow")
    assert endpoints.endpoint("birds").mirror == {}


async def test_an_old_key_is_refused_from_the_moment_it_is_made_anew(pair):
    store, endpoints = pair
    before = endpoints.keys("birds")
    async with client(endpoints, before.primary) as first, client(endpoints, before.secondary) as second:
        assert [(await ask(one, {}))[0] for one in (first, second)] == [200, 200]
        after = endpoints.regenerate_key("birds", "primary")
        assert (after.primary != before.primary, after.secondary) == (True, before.secondary)
        assert [(await ask(one, {}))[0] for one in (first, second)] == [401, 200]
    async with client(endpoints, after.primary) as third:
        assert (await ask(third, {}))[0] == 200
    with pytest.raises(Invalid, match="primary and secondary"):
        endpoints.regenerate_key("birds", "third")
    assert (layout.endpoint_folder(store.home, "birds") / "keys.json").stat().st_mode & 0o777 == 0o600


async def test_standard_addresses_answer_as_azures_server_does(pair):
    _, endpoints = pair
    async with client(endpoints) as session:
        async with session.get("/") as root:
            assert (root.status, await root.text()) == (200, "Healthy")
        async with session.get("/swagger.json") as swagger:
            document = await swagger.json()
            assert (swagger.status, document["swagger"], "/score" in document["paths"]) == (200, "2.0", True)
        async with session.get("/swagger.json?version=3") as swagger:
            assert (await swagger.json())["openapi"].startswith("3")
        async with session.get("/score?sleep=0") as got:
            assert (got.status, (await got.json())["asked"]) == (200, {"sleep": 0})
        async with session.get("/swagger.json", headers={"Authorization": "Bearer no"}) as refused:
            assert refused.status == 401


def test_a_model_is_stored_once_and_its_storage_initializer_says_so(pair):
    store, endpoints = pair
    assert {one.model for one in endpoints.endpoint("birds").deployments} == {"tiny:1"}
    kept = layout.model_folder(store.home, "tiny", 1) / "weights.txt"
    assert kept.stat().st_nlink == 1 + len(names(endpoints))
    log = endpoints.log("birds", "twice", 20, "storage-initializer")
    assert "tiny:1: 1 files, 1 linked and 0 copied, 8 bytes" in log
    assert log.endswith("  model/\n    weights.txt  8 bytes")
    with pytest.raises(Invalid, match="inference-server and storage-initializer"):
        endpoints.log("birds", "blue", 20, "sidecar")


async def test_scripts_with_odd_answers_serve_and_say_so(pair):
    _, endpoints = pair
    async with client(endpoints) as session:
        assert (await ask(session, {}, "twice"))[1] == json.dumps({"label": "weights\n"})
        headers = {"azureml-model-deployment": "object"}
        async with session.post("/score", data=b"{}", headers=headers) as answer:
            assert (answer.status, answer.headers["ms-azureml-model-error-statuscode"]) == (424, "500")
    assert "not JSON serializable" in endpoints.log("birds", "object", 60)


def test_an_init_that_raises_is_the_failure_with_its_traceback_and_the_models_tree(pair):
    sentence, *below = deployment(pair[1], "broken").error.split("\n")
    assert "FileNotFoundError: [Errno 2] No such file or directory: " in sentence
    assert below[0] == "Traceback (most recent call last):"
    assert below[1].endswith('score.py", line 5, in init')
    assert below[-2:] == ["  model/", "    weights.txt  8 bytes"]


async def test_instances_share_the_requests_and_grow_and_shrink_without_a_failure(world, tmp_path):
    store, endpoints = world
    leftover = layout.endpoint_folder(store.home, "birds") / "blue" / "model" / "of-a-console-that-was-killed"
    leftover.mkdir(parents=True)
    ready(endpoints, tmp_path, "blue")
    async with rollout.stream(endpoints, EVERY) as answers:
        await answers.more(10)
        grown = await asyncio.to_thread(endpoints.scale, "birds", "blue", 2)
        assert (grown.instances, grown.state) == (2, "Updating")
        await asyncio.to_thread(served.wait_ready, endpoints, "birds", "blue")
        async with client(endpoints) as session:
            both = await asyncio.gather(*(ask(session, {"sleep": 0.2}) for _ in range(4)))
        assert len({answer["instance"] for _, answer in both}) == 2
        await asyncio.to_thread(endpoints.scale, "birds", "blue", 1)
        await answers.more(50)
    assert answers.failures == []
    assert not leftover.exists()
    served.wait_for(lambda: deployment(endpoints).state == "Succeeded", "one instance again")
    for count, error in ((0, Invalid), (-1, Invalid), (True, Invalid), (1000, QuotaExceeded)):
        with pytest.raises(error):
            endpoints.scale("birds", "blue", count)
    with pytest.raises(NotFound):
        endpoints.scale("birds", "green", 2)


async def test_a_changed_file_takes_the_place_when_it_serves_and_one_that_fails_does_not(world, tmp_path):
    store, endpoints = world
    ready(endpoints, tmp_path, "blue")
    before = deployment(endpoints)
    rollout.deploy(endpoints, tmp_path, "blue")
    assert deployment(endpoints) == before  # the same file again
    async with rollout.stream(endpoints, EVERY) as answers:
        await answers.more(10)
        await asyncio.to_thread(rollout.deploy, endpoints, tmp_path, "blue", who="blue-2")
        assert deployment(endpoints).state == "Updating"
        await asyncio.to_thread(served.wait_ready, endpoints, "birds", "blue")
        assert set(await answers.more(20)) == {"blue-2"}
        await asyncio.to_thread(rollout.deploy, endpoints, tmp_path, "blue", script=BROKEN)
        await wait(lambda: deployment(endpoints).state == "Failed", "the failure of the change")
        assert set(await answers.more(20)) == {"blue-2"}
    assert answers.failures == []
    failed = deployment(endpoints)
    assert "OSError: no such weights. tiny:1 serves on." in failed.error.split("\n")[0]
    assert "Traceback (most recent call last):" in failed.error
    folder = layout.endpoint_folder(store.home, "birds") / "blue"
    served.wait_for(lambda: [one.name for one in folder.glob("code*")] == ["code-2"], "the other revisions' end")
    with pytest.raises(Conflict, match="birds/blue"):
        Models(store).delete("tiny:1")


async def test_limits_of_the_file_are_kept_as_on_azure(pair):
    _, endpoints = pair
    async with client(endpoints) as session:
        status, answer = await ask(session, {"sleep": 1.5}, "limited")
        assert status == 408
        assert "within 0.7 seconds" in answer["error"]["message"]
        while (await ask(session, {}, "limited"))[0] != 200:  # the worker is with the former request for a while
            pass
        found = await asyncio.gather(*(ask(session, {"sleep": 0.5}, "limited") for _ in range(4)))
        assert sorted(status for status, _ in found) == [
            200,
            429,
            429,
            429,
        ]  # one runs, one waits too long, two are too many


async def test_a_request_that_is_one_too_many_is_told_when_to_come_again(pair):
    _, endpoints = pair
    sent = {"data": b'{"sleep": 0.3}', "headers": {"azureml-model-deployment": "single"}}
    async with client(endpoints) as session:
        answers = await asyncio.gather(*(session.post("/score", **sent) for _ in range(5)))
        assert sorted(answer.status for answer in answers) == [200, 200, 429, 429, 429]
        assert {answer.headers.get("Retry-After") for answer in answers if answer.status == 429} == {"1"}
        for answer in answers:
            answer.release()


async def test_a_hung_server_is_ended_by_its_liveness_probe_and_started_again(pair):
    store, endpoints = pair
    guard = served.server_pid(store, "birds", "probed")
    for process in psutil.Process(guard).children(recursive=True):
        process.suspend()
    served.wait_for(lambda: served.server_pid(store, "birds", "probed") not in (None, guard), "another server")
    assert "its liveness probe failed 2 times in a row" in deployment(endpoints, "probed").note
    async with client(endpoints) as session:
        assert (await ask(session, {}, "probed"))[0] == 200


async def test_figures_count_requests_errors_and_time_and_outlive_the_gateway(world, tmp_path):
    store, endpoints = world
    ready(endpoints, tmp_path, "blue", "green")
    async with client(endpoints) as session:
        for _ in range(20):
            await ask(session, {})
        async with session.post("/score", data=b"no json") as failed:
            assert failed.status == 424

    def total(name: str) -> float:
        blue = endpoints.monitor("birds")[0]
        return sum(value for _, value in blue.series.get(name, ()))

    served.wait_for(lambda: total("requests_per_minute") == 21 and total("cpu_percent"), "the figures")
    assert total("errors_per_minute") == 1
    for name in ("latency_ms_p50", "latency_ms_p95", "memory_percent", "instances"):
        assert total(name) > 0, name
    kill_gateway(store)
    assert total("requests_per_minute") == 21
    with store.write() as db:  # a deletion that was cut short
        db.execute("UPDATE deployment SET state = 'Deleting' WHERE name = 'green'")
    endpoints.start("birds")
    served.wait_ready(endpoints, "birds", "blue")
    assert names(endpoints) == {"blue"}
    assert not (layout.endpoint_folder(store.home, "birds") / "green").exists()
    async with client(endpoints) as session:
        await ask(session, {})
    served.wait_for(lambda: total("requests_per_minute") == 22, "the figures after a death")


def test_deleting_a_deployment_is_refused_while_it_has_traffic_and_works_while_the_endpoint_is_stopped(world, tmp_path):
    store, endpoints = world
    ready(endpoints, tmp_path, "blue")
    with pytest.raises(Conflict, match="has 100 % of the traffic"):
        endpoints.delete_deployment("birds", "blue")
    kill_gateway(store)
    endpoints.set_traffic("birds", {"blue": 0}, None)
    endpoints.delete_deployment("birds", "blue")
    assert names(endpoints) == set()
    assert not (layout.endpoint_folder(store.home, "birds") / "blue").exists()
    with pytest.raises(NotFound):
        endpoints.delete_deployment("birds", "blue")


def endpoint_file(folder: Path, text: str) -> JobFile:
    (folder / "endpoint.yml").write_text(
        f"$schema: https://azuremlschemas.azureedge.net/latest/managedOnlineEndpoint.schema.json\n{text}"
    )
    return read(folder / "endpoint.yml")


def test_an_endpoints_file_makes_it_and_changes_what_it_says(pair, tmp_path):
    _, endpoints = pair
    text = "name: finches\nauth_mode: key\ndescription: small ones\ntags: {owner: me}\n"
    made = endpoints.create_from(endpoint_file(tmp_path, text), None)
    assert (made.name, made.description, made.tags) == ("finches", "small ones", {"owner": "me"})
    changed = endpoints.create_from(endpoint_file(tmp_path, "name: finches\ntags: {owner: you}\n"), None)
    assert (changed.description, changed.tags) == ("small ones", {"owner": "you"})
    for text, said in (
        ("name: terns\nauth_mode: aml_token\n", "takes keys, not aml_token"),
        ("name: terns\ntraffic: {blue: 100}\n", "no deployment 'blue'"),
        ("name: terns\ntraffic: {blue: 60, green: 50}\n", "60 [+] 50 = 110"),
    ):
        with pytest.raises(Invalid, match=said):
            endpoints.create_from(endpoint_file(tmp_path, text), None)
    assert [one.name for one in endpoints.list()] == ["birds", "finches"]
    endpoints.delete("finches")
    shifted = endpoints.create_from(endpoint_file(tmp_path, "name: birds\ntraffic: {blue: 90, green: 10}\n"), None)
    assert shifted.traffic == {"blue": 90, "green": 10}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("model:\n  name: tiny\n  path: ./model\n", "model: azureml:nobody:1\n"), "no model"),
        (
            ("model:\n  name: tiny\n  path: ./model\n", "model: azureml://registries/r/models/m/versions/1\n"),
            "not lie on",
        ),
        (("code_configuration:\n  code: ./src\n  scoring_script: score.py\n", ""), "has no code_configuration"),
        (("scoring_script: score.py", "scoring_script: scroe.py"), "score.py"),
        (("instance_type: Standard_DS3_v2\n", ""), "instance_type"),
        (("name: blue", "name: b"), "'b' cannot be the name"),
        (("request", "reqest"), "reqest_settings"),
    ],
)
def test_a_file_that_cannot_be_deployed_is_refused_before_anything_is_made(pair, tmp_path, change, said):
    store, endpoints = pair
    before = names(endpoints)
    file = rollout.deployment_file(tmp_path, "blue", "request_settings: {request_timeout_ms: 100}\n")
    path = tmp_path / "blue.yml"
    path.write_text(file.text.replace(*change, 1))
    with pytest.raises((Invalid, NotFound), match=said):
        endpoints.deploy_from(read(path), None, None if "cannot be" in said else "fresh", True)
    assert names(endpoints) == before
    assert not (layout.endpoint_folder(store.home, "birds") / "fresh").exists()
