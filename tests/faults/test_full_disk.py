"""A disk that is full, told by a limit on how large files may grow: nothing half-written stays, and what waits goes on later."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests import served
from tests.at_work import ended, supervisor_pid, until_job

from footplate.jobfile.document import parse
from footplate.local import layout
from footplate.local.models import Models
from footplate.local.store import _SCHEMAS, Store
from footplate.workspace import NotFound, Unexpected

UNTIL = "until test -e {}; do sleep 0.05; done"

SWEEP = """
type: sweep
trial: {{command: '{wait}; echo $AZUREML_RUN_ID >> {ran} # ${{{{search_space.x}}}}', environment: 'azureml:e:1'}}
search_space: {{x: {{type: choice, values: [1, 2]}}}}
sampling_algorithm: grid
objective: {{goal: maximize, primary_metric: acc}}
limits: {{max_total_trials: 2, max_concurrent_trials: 1}}
"""

PIPELINE = """
type: pipeline
jobs:
  one: {{command: '{wait}; echo $AZUREML_RUN_ID >> {ran}', environment: 'azureml:e:1', outputs: {{o: }}}}
  two: {{command: 'echo $AZUREML_RUN_ID >> {ran}', environment: 'azureml:e:1',
         inputs: {{d: '${{{{parent.jobs.one.outputs.o}}}}'}}}}
"""


@contextmanager
def full(most: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))  # as root, permissions would not bind
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("text", "first", "second"), [(SWEEP, "p_0", "p_1"), (PIPELINE, "p-one", "p-two")])
async def test_a_parent_on_a_full_disk_waits_for_room_and_goes_on(workspace, home, tmp_path, text, first, second):
    ran, go = tmp_path / "ran", tmp_path / "go"
    file = parse(text.format(wait=UNTIL.format(go), ran=ran), tmp_path / "parent.yml", tmp_path)
    await workspace.submit(file, "p")
    await until_job(workspace, "p", lambda job: "1 active" in job.note or "now: one" in job.note)
    overseer = supervisor_pid(home, "p")
    limits = resource.prlimit(overseer, resource.RLIMIT_FSIZE)
    resource.prlimit(overseer, resource.RLIMIT_FSIZE, (0, limits[1]))
    go.touch()
    assert (await ended(workspace, first)).status == "Completed"
    looks = Path(f"/proc/{overseer}/io")
    before = looks.read_text()
    await until_job(workspace, "p", lambda _: looks.read_text() != before)  # it looked again
    with pytest.raises(NotFound):
        await workspace.job(second)
    assert (await workspace.job("p")).status == "Running"
    resource.prlimit(overseer, resource.RLIMIT_FSIZE, limits)
    assert (await ended(workspace, "p")).status == "Completed"
    assert supervisor_pid(home, "p") == overseer
    assert ran.read_text().split() == [first, second]


def test_a_model_that_finds_no_room_is_not_registered_and_leaves_nothing(tmp_path):
    with served.workspace(tmp_path / "home") as (store, _):
        (tmp_path / "big").mkdir()
        (tmp_path / "big" / "weights").write_bytes(b"x" * 2_000_000)
        with full(1_000_000), pytest.raises(Unexpected, match="could not be kept"):
            Models(store).register("big", tmp_path / "big")
        assert {model.name for model in Models(store).list()} == {"colours"}
        assert {folder.name for folder in (store.home / "models").iterdir()} == {"colours"}
        assert Models(store).register("big", tmp_path / "big").version == "1"


def test_a_deployment_that_finds_no_room_is_not_there_and_the_others_serve_on(tmp_path):
    with served.workspace(tmp_path / "home") as (store, endpoints):
        endpoints.create("birds")
        endpoints.deploy("birds", "blue", "colours:1")
        served.wait_ready(endpoints, "birds", "blue")
        with full(0), pytest.raises(Unexpected) as told:
            endpoints.deploy("birds", "green", "colours:2")
        assert told.value.next_step
        assert [one.name for one in endpoints.endpoint("birds").deployments] == ["blue"]
        assert served.deployment_state(endpoints, "birds", "blue") == "Succeeded"
        folder = layout.endpoint_folder(store.home, "birds")
        assert not (folder / "green" / "code").exists()
        with full(0), pytest.raises(Unexpected):
            endpoints.create("cats")
        assert [one.name for one in endpoints.list()] == ["birds"]
        keys = endpoints.keys("birds")
        with full(0), pytest.raises(Unexpected, match="the old keys hold"):
            endpoints.regenerate_key("birds", "primary")
        assert endpoints.keys("birds") == keys
        endpoints.deploy("birds", "green", "colours:2")
        served.wait_ready(endpoints, "birds", "green")


def test_an_upgrade_of_the_store_that_finds_no_room_changes_nothing(tmp_path):
    with closing(sqlite3.connect(tmp_path / "footplate.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in _SCHEMAS[0].split(";\n"):
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
    for most in (0, 40_000):  # no room for the copy; none for the change
        with full(most), pytest.raises(Unexpected, match="cannot be used"):
            Store(tmp_path).prepare()
        with closing(sqlite3.connect(tmp_path / "footplate.db")) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (1,)
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    Store(tmp_path).prepare()
