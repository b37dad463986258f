"""Endpoints through crashes: nothing is left behind, and what was there comes back."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest
from tests import served

from footplate.local import layout
from footplate.local.endpoints import Endpoints
from footplate.local.store import Store
from footplate.operations import deploy as deploying
from footplate.settings import ServingSettings, Settings
from footplate.workspace import Unreachable
from footplate.workspace.open import open_workspace

PNG = {"Content-Type": "image/png"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[Store, Endpoints]]:
    with served.workspace(tmp_path / "home") as found:
        yield found


async def label(endpoints: Endpoints, colour: str) -> str:
    try:
        answer = await endpoints.invoke("birds", served.picture(colour), PNG)
    finally:
        await endpoints.close()
    assert answer.status == 200, answer.body
    return str(json.loads(answer.body)["label"])


def serve(endpoints: Endpoints) -> None:
    endpoints.create("birds")
    endpoints.deploy("birds", "blue", "colours:1")
    served.wait_ready(endpoints, "birds", "blue")


async def test_a_killed_gateway_takes_its_servers_along_and_starts_again_as_it_was(world):
    store, endpoints = world
    serve(endpoints)
    before, keys = endpoints.endpoint("birds"), endpoints.keys("birds")
    assert len(served.processes_of(store.home)) >= 4  # gateway, guard, gunicorn, its worker

    psutil.Process(served.gateway_pid(store, "birds")).send_signal(signal.SIGKILL)
    served.wait_for(lambda: not served.processes_of(store.home), "the servers' end", 15)
    stopped = endpoints.endpoint("birds")
    assert (stopped.state, stopped.deployments[0].state) == ("Stopped", "Stopped")
    assert "footplate endpoint start birds" in stopped.error

    # As a footplate left it that had no specs, and no folders for models.
    shutil.rmtree(layout.endpoint_folder(store.home, "birds") / "blue" / "model")
    with store.write() as db:
        db.execute("UPDATE deployment SET spec = '{}'")
    assert endpoints.start("birds").state == "Updating"
    served.wait_ready(endpoints, "birds", "blue")
    assert endpoints.keys("birds") == keys
    assert endpoints.endpoint("birds") == before
    assert await label(endpoints, "blue") == "blue"


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Hold the store so that nobody else can even read it."""
    db = sqlite3.connect(store.file, timeout=0, isolation_level=None)

    def taken() -> bool:
        try:
            db.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:  # the gateway reads just now
            return False
        return True

    try:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        served.wait_for(taken, "the store's lock")
        yield
    finally:
        db.close()


async def test_a_locked_store_ends_neither_gateway_nor_server(world):
    store, endpoints = world
    serve(endpoints)
    gateway, server = served.gateway_pid(store, "birds"), served.server_pid(store, "birds", "blue")
    log = layout.endpoint_folder(store.home, "birds") / "gateway.log"
    address, key = endpoints.endpoint("birds").scoring_uri, endpoints.keys("birds").primary
    with locked(store):
        served.wait_for(lambda: "the store could not be read" in log.read_text(), "a poll of the locked store")
        async with aiohttp.ClientSession() as client:
            sent = client.post(address, data=served.picture("red"), headers={**PNG, "Authorization": f"Bearer {key}"})
            async with sent as answer:
                assert (answer.status, (await answer.json())["label"]) == (200, "red")
    assert (served.gateway_pid(store, "birds"), served.server_pid(store, "birds", "blue")) == (gateway, server)
    endpoints.deploy("birds", "green", "colours:2")
    served.wait_ready(endpoints, "birds", "green")
    assert psutil.pid_exists(gateway)


def test_a_state_that_a_locked_store_refused_is_written_later(world):
    store, endpoints = world
    endpoints.create("birds")
    log = layout.endpoint_folder(store.home, "birds") / "gateway.log"
    endpoints.deploy("birds", "blue", "colours:1")

    def servers() -> list[psutil.Process]:
        gateway = served.gateway_pid(store, "birds")
        return [process for process in served.processes_of(store.home) if process.pid != gateway]

    served.wait_for(servers, "a process of the server")
    held = servers()
    for process in held:
        process.suspend()
    assert served.deployment_state(endpoints, "birds", "blue") == "Creating"
    with locked(store):
        for process in held:
            process.resume()
        served.wait_for(lambda: "of deployment blue could not be written" in log.read_text(), "a write that failed")
    served.wait_ready(endpoints, "birds", "blue")


def test_a_home_with_a_long_path_serves_all_the_same(tmp_path: Path):
    with served.workspace(tmp_path / ("long" * 30) / "home") as (_, endpoints):
        serve(endpoints)


def test_a_server_whose_folder_is_gone_has_failed_with_the_reason(world):
    store, endpoints = world
    serve(endpoints)
    code = layout.endpoint_folder(store.home, "birds") / "blue" / "code"
    shutil.move(code, code.with_name("elsewhere"))
    guard = psutil.Process(served.server_pid(store, "birds", "blue"))
    guard.kill()
    served.wait_for(lambda: served.deployment_state(endpoints, "birds", "blue") == "Failed", "the failure")
    (failed,) = endpoints.endpoint("birds").deployments
    assert "cannot be started: [Errno 2] No such file or directory" in failed.error


async def test_waiting_for_a_deployment_ends_when_its_gateway_dies(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    workspace = open_workspace("local")
    store = Store(tmp_path / "home")
    served.write_model(served.add_model(store, "colours"))
    try:
        await workspace.create_endpoint("birds")
        await workspace.deploy("birds", "blue", "colours:1")
        psutil.Process(served.gateway_pid(store, "birds")).kill()
        with pytest.raises(Unreachable, match=r"stopped before its deployment 'blue' was ready.*endpoint start birds"):
            async with asyncio.timeout(30):
                await deploying.wait(workspace, "birds", "blue")

        await workspace.start_endpoint("birds")
        assert (await deploying.wait(workspace, "birds", "blue")).state == "Succeeded"
        gateway = psutil.Process(served.gateway_pid(store, "birds"))
        gateway.suspend()  # so that the deletion is not finished
        with store.write() as db:
            db.execute("UPDATE endpoint SET state = 'Deleting'")
            db.execute("UPDATE deployment SET state = 'Creating'")
        with pytest.raises(Unreachable, match="is being deleted"):
            async with asyncio.timeout(30):
                await deploying.wait(workspace, "birds", "blue")
        gateway.resume()
    finally:
        for endpoint in await workspace.endpoints():
            await workspace.delete_endpoint(endpoint.name)
        await workspace.close()


async def test_a_failed_deployment_is_mended_and_deployed_again_not_deleted(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    workspace = open_workspace("local")
    folder = served.add_model(Store(tmp_path / "home"), "hollow")
    folder.mkdir(parents=True)
    try:
        with pytest.raises(deploying.DeploymentFailed, match=r"no model\.json") as caught:
            await deploying.deploy(workspace, "hollow:1", "birds", "blue")
        assert "mend it and deploy again" in caught.value.next_step
        assert "delete" not in caught.value.next_step
        folder.rmdir()
        served.write_model(folder)
        assert (await deploying.deploy(workspace, "hollow:1", "birds", "blue")).state == "Succeeded"
    finally:
        for endpoint in await workspace.endpoints():
            await workspace.delete_endpoint(endpoint.name)
        await workspace.close()


async def test_a_port_taken_meanwhile_is_replaced(world):
    store, endpoints = world
    serve(endpoints)
    gateway = psutil.Process(served.gateway_pid(store, "birds"))
    gateway.terminate()
    served.wait_for(lambda: not gateway.is_running(), "the gateway's end")
    before = endpoints.endpoint("birds").scoring_uri
    port = int(before.rpartition(":")[2].partition("/")[0])
    with socket.create_server(("127.0.0.1", port)):
        assert endpoints.start("birds").scoring_uri != before
        served.wait_ready(endpoints, "birds", "blue")
        assert await label(endpoints, "red") == "red"


def test_starts_at_the_same_time_make_one_gateway(world):
    store, endpoints = world
    endpoints.create("birds")
    psutil.Process(served.gateway_pid(store, "birds")).kill()
    served.wait_for(lambda: not served.processes_of(store.home), "the gateway's end")
    consoles = [Endpoints(store, Settings()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda console: console.start("birds"), consoles))
    assert all(one == started[0] for one in started)
    assert [process.pid for process in served.processes_of(store.home)] == [served.gateway_pid(store, "birds")]


async def test_a_server_that_dies_is_started_again(world):
    store, endpoints = world
    serve(endpoints)
    guard = served.server_pid(store, "birds", "blue")
    psutil.Process(guard).children()[0].kill()
    served.wait_for(lambda: served.server_pid(store, "birds", "blue") not in (guard, None), "another server")
    assert served.deployment_state(endpoints, "birds", "blue") == "Succeeded"
    assert await label(endpoints, "lime") == "green"


@pytest.mark.long
def test_a_server_that_dies_again_and_again_has_failed(world):
    store, endpoints = world
    serve(endpoints)
    guards = set()
    while served.deployment_state(endpoints, "birds", "blue") != "Failed":
        served.wait_for(
            lambda: (
                served.server_pid(store, "birds", "blue") not in {None, *guards}
                or served.deployment_state(endpoints, "birds", "blue") == "Failed"
            ),
            "another server, or the end",
        )
        if (guard := served.server_pid(store, "birds", "blue")) is not None:
            guards.add(guard)
            psutil.Process(guard).kill()
    (failed,) = endpoints.endpoint("birds").deployments
    assert len(guards) == 4
    assert failed.error.endswith("It was started again 3 times.")
    assert [process.pid for process in served.processes_of(store.home)] == [served.gateway_pid(store, "birds")]


def test_delete_leaves_no_process_and_no_folder(world):
    store, endpoints = world
    serve(endpoints)
    endpoints.delete("birds")
    served.wait_for(lambda: not served.processes_of(store.home), "the end of every process", 5)
    assert not layout.endpoint_folder(store.home, "birds").exists()
    assert endpoints.list() == []
    with store.read() as db:
        assert db.execute("SELECT count(*) FROM deployment").fetchone()[0] == 0


def test_delete_works_after_gateway_and_guard_were_killed_together(world):
    store, endpoints = world
    serve(endpoints)
    gateway = psutil.Process(served.gateway_pid(store, "birds"))
    guards = gateway.children()
    gateway.suspend()  # so that it does not see its server's guard go
    for process in (*guards, gateway):
        process.kill()
    assert served.processes_of(store.home)  # gunicorn, orphaned
    endpoints.delete("birds")
    served.wait_for(lambda: not served.processes_of(store.home), "the end of every process", 5)
    assert endpoints.list() == []


@pytest.mark.long
def test_delete_works_on_a_gateway_that_does_not_listen(world):
    store, endpoints = world
    serve(endpoints)
    psutil.Process(served.gateway_pid(store, "birds")).suspend()
    endpoints.delete("birds")
    served.wait_for(lambda: not served.processes_of(store.home), "the end of every process", 10)
    assert endpoints.list() == []


def test_a_deletion_that_was_cut_short_is_finished_by_the_gateway(world):
    store, endpoints = world
    serve(endpoints)
    with store.write() as db:
        db.execute("UPDATE endpoint SET state = 'Deleting' WHERE name = 'birds'")
    served.wait_for(lambda: endpoints.list() == [] and not served.processes_of(store.home), "the end of it", 15)
    assert not layout.endpoint_folder(store.home, "birds").exists()


def test_a_model_without_model_json_fails_with_the_reason_and_can_be_tried_again(world):
    store, endpoints = world
    folder = served.add_model(store, "hollow")
    folder.mkdir(parents=True)
    endpoints.create("birds")
    endpoints.deploy("birds", "blue", "hollow:1")
    served.wait_for(lambda: served.deployment_state(endpoints, "birds", "blue") == "Failed", "the failure")
    (failed,) = endpoints.endpoint("birds").deployments
    assert failed.error.startswith("Deployment 'blue' of hollow:1: the server ended before it was ready: BadModel: ")
    assert "no model.json" in failed.error
    sentence, *below = failed.error.split("\n")
    assert "no model.json" in sentence
    assert below[0] == "Traceback (most recent call last):"
    assert below[-2].startswith("AZUREML_MODEL_DIR, ")
    assert below[-1] == "  nothing"
    assert "Traceback" in endpoints.log("birds", "blue", 60)

    folder.rmdir()
    served.write_model(folder)
    assert endpoints.deploy("birds", "blue", "hollow:1").state == "Creating"
    served.wait_ready(endpoints, "birds", "blue")


async def test_a_failed_deployment_answers_with_its_reason(world):
    store, endpoints = world
    served.add_model(store, "hollow").mkdir(parents=True)
    endpoints.create("birds")
    endpoints.deploy("birds", "blue", "hollow:1")
    served.wait_for(lambda: served.deployment_state(endpoints, "birds", "blue") == "Failed", "the failure")
    try:
        answer = await endpoints.invoke("birds", served.picture("red"), PNG)
    finally:
        await endpoints.close()
    assert answer.status == 503
    assert "no model.json" in json.loads(answer.body)["error"]["message"]


def test_a_python_without_the_scoring_server_is_named_with_what_to_install(tmp_path: Path):
    with served.workspace(tmp_path / "home") as (store, _):
        endpoints = Endpoints(store, Settings(serving=ServingSettings(python="/bin/false")))
        endpoints.create("birds")
        endpoints.deploy("birds", "blue", "colours:1")
        served.wait_for(lambda: served.deployment_state(endpoints, "birds", "blue") == "Failed", "the failure")
        (failed,) = endpoints.endpoint("birds").deployments
        assert "/bin/false" in failed.error
        assert "pip install 'footplate[local]'" in failed.error
