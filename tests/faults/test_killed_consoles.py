"""A console killed at every step of what it does to endpoints, models and jobs: whole or not at all, and it can be done again."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from tests import served
from tests.at_work import all_jobs, ended, job_file
from tests.faults.killing import in_threads, killed_at_each_step, processes_of_home, supervisors_die

from footplate.local import layout
from footplate.local.endpoints import Endpoints
from footplate.local.models import Models
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace import Conflict, NotFound, Unexpected

ENDPOINTS = """
from pathlib import Path
import footplate.jobfile.upload, footplate.local.deployment_folders
from footplate.local.endpoints import Endpoints
from footplate.local.models import Models
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace import NotFound

store = Store(Path(sys.argv[1]))
endpoints = Endpoints(store, Settings())

def act(step):
"""


@pytest.fixture
def world(tmp_path: Path):
    with served.workspace(tmp_path / "home") as found:
        yield found


def test_an_endpoint_whose_creator_is_killed_at_any_step_is_there_or_not_and_can_always_be_had(world):
    store, endpoints = world
    act = "    return endpoints.create('birds' if len(endpoints.list()) == 0 else f'birds-{step}').name"
    told = killed_at_each_step(ENDPOINTS + act, str(store.home))
    names = {one.name for one in endpoints.list()}
    assert told[-1]["said"] in names
    for name in sorted(names):  # those that were cut short are no use to nobody
        started = endpoints.start(name)
        assert (started.state, endpoints.keys(name).primary != "") == ("Succeeded", True)
    with pytest.raises(Conflict):
        endpoints.create(str(told[-1]["said"]))
    for name in names:
        endpoints.delete(name)
    served.wait_for(lambda: not processes_of_home(store.home), "the end of every process")
    endpoints.create("birds")
    assert {one.name for one in endpoints.list()} == {"birds"}


async def test_a_deployment_whose_deployer_is_killed_at_any_step_is_made_by_doing_it_again(world):
    store, endpoints = world
    endpoints.create("birds")
    act = "    return endpoints.deploy('birds', 'blue', 'colours:1').name"
    told = killed_at_each_step(ENDPOINTS + act, str(store.home))
    assert len(told) > 10
    served.wait_ready(endpoints, "birds", "blue")
    assert endpoints.endpoint("birds").traffic == {"blue": 100}
    answer = await endpoints.invoke("birds", served.picture("red"), {"Content-Type": "image/png"})
    await endpoints.close()
    assert (answer.status, json.loads(answer.body)["label"]) == (200, "red")


def test_keys_traffic_and_a_deletion_that_are_cut_short_anywhere_are_as_before_or_done(world):
    store, endpoints = world
    endpoints.create("birds")
    keys = endpoints.keys("birds")
    told = killed_at_each_step(
        ENDPOINTS + "    return endpoints.regenerate_key('birds', 'secondary').secondary", str(store.home)
    )
    found = endpoints.keys("birds")
    assert (found.primary, found.secondary) == (keys.primary, told[-1]["said"])
    os.kill(served.gateway_pid(store, "birds"), signal.SIGKILL)  # else it would serve what only stands in the store
    with store.write() as db:
        insert = "INSERT INTO deployment (endpoint, name, model, state, created) VALUES ('birds', ?, 'colours:1', 'Succeeded', 0)"
        db.executemany(insert, [("blue",), ("green",)])
    act = """
    share = step % 100
    before = endpoints.endpoint("birds").traffic
    assert sum(before.values()) in (0, 100), before
    return dict(endpoints.set_traffic("birds", {"blue": share, "green": 100 - share}, before).traffic)
"""
    told = killed_at_each_step(ENDPOINTS + act, str(store.home))
    assert endpoints.endpoint("birds").traffic == told[-1]["said"]
    with store.write() as db:
        db.execute("DELETE FROM deployment")
    endpoints.start("birds")
    act = """
    try:
        endpoints.delete("birds")
    except NotFound:
        return "gone before"
    return "gone"
"""
    killed_at_each_step(ENDPOINTS + act, str(store.home))
    assert endpoints.list() == []
    assert not layout.endpoint_folder(store.home, "birds").exists()
    served.wait_for(lambda: not processes_of_home(store.home), "the gateway's end")


def test_a_model_whose_registration_is_killed_at_any_step_is_whole_or_not_there(world, tmp_path):
    store, _ = world
    served.write_model(tmp_path / "mine")
    act = "    return Models(store).register('mine', Path(sys.argv[2])).reference"
    told = killed_at_each_step(ENDPOINTS + act, str(store.home), str(tmp_path / "mine"))
    assert len(told) > 5
    there = [model for model in Models(store).list() if model.name == "mine"]
    assert told[-1]["said"] in {model.reference for model in there}
    expected = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    for model in there:
        folder = layout.model_folder(store.home, "mine", int(model.version))
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == expected
    folders = {path.name for path in (store.home / "models" / "mine").iterdir()}
    assert folders == {model.version for model in there}
    assert {path.name for path in (store.home / "models").iterdir()} == {
        "colours",
        "mine",
    }  # the last swept the others'


async def test_jobs_whose_deletion_is_killed_at_any_step_are_gone_when_it_is_done_again(workspace, home, tmp_path):
    for number in range(4):
        await workspace.submit(job_file(tmp_path, "echo 1 > outputs/x"), f"j{number}")
        await ended(workspace, f"j{number}")
    act = """
from footplate.local.data import DataAssets
from footplate.local.jobs import Jobs
from footplate.workspace import JobFilter

def act(step):
    jobs = Jobs(store, Settings(), DataAssets(store))
    for job in jobs.page(JobFilter(), None, 100)[0]:
        jobs.delete(job.name)
    return "gone"
"""
    killed_at_each_step(ENDPOINTS + "    pass\n" + act, str(home))
    assert await all_jobs(workspace) == []
    await workspace.submit(job_file(tmp_path, "true"), "next")  # what was cut short is swept away now
    assert (await ended(workspace, "next")).status == "Completed"
    assert {folder.name for folder in (home / "jobs").iterdir()} == {"next"}
    with pytest.raises(NotFound):
        await workspace.job("j0")


def test_two_consoles_at_once_make_one_endpoint_one_deployment_and_lose_no_model(tmp_path):
    with served.workspace(tmp_path / "home") as (store, endpoints):
        served.write_model(tmp_path / "mine")
        both = [Endpoints(Store(store.home), Settings()) for _ in range(2)]
        made = in_threads(*(lambda console=console: console.create("birds") for console in both))
        assert sorted(type(one).__name__ for one in made) == ["Conflict", "Endpoint"]
        found = in_threads(*(lambda console=console: console.deploy("birds", "blue", "colours:1") for console in both))
        assert [type(one).__name__ for one in found] == ["Deployment", "Deployment"]
        assert [one.name for one in endpoints.endpoint("birds").deployments] == ["blue"]
        models = in_threads(*(lambda: Models(Store(store.home)).register("mine", tmp_path / "mine") for _ in range(4)))
        assert sorted(model.version for model in models) == ["1", "2", "3", "4"]
        gone = in_threads(*(lambda console=console: console.delete("birds") for console in both))
        assert {type(one).__name__ for one in gone} <= {"NoneType", "NotFound"}
        assert endpoints.list() == []


async def test_a_gateway_that_dies_at_any_step_is_started_again_and_serves(world, tmp_path, monkeypatch):
    _, endpoints = world
    steps = {f"birds{step}": step for step in (4, 14)}
    claims = supervisors_die(tmp_path, steps, monkeypatch.setenv)
    for name, step in steps.items():
        with suppress(Unexpected):  # where it dies before it is ready, or with the deployment in the making
            endpoints.create(name)
            endpoints.deploy(name, "blue", "colours:1")
        died = claims / f"{name}-{step}"
        served.wait_for(died.exists, f"the death of the gateway of {name}")
        served.wait_for(lambda name=name: state(endpoints, name) in ("Stopped", "gone"), "what its death leads to")
    for name in steps:
        if state(endpoints, name) == "gone":
            endpoints.create(name)
        endpoints.deploy(name, "blue", "colours:1")
        served.wait_ready(endpoints, name, "blue")
        answer = await endpoints.invoke(name, served.picture("red"), {"Content-Type": "image/png"})
        assert json.loads(answer.body)["label"] == "red"
    await endpoints.close()


def state(endpoints: Endpoints, name: str) -> str:
    """An endpoint's state, "gone" where there is none."""
    try:
        return endpoints.endpoint(name).state
    except NotFound:
        return "gone"
