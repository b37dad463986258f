"""Supervisors killed at every second step of what they do: jobs end, nothing runs twice, no node is held, no process left."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.at_work import all_jobs, ended, job_file, until
from tests.faults.killing import processes_of_home, supervisors_die

from footplate.jobfile.document import parse
from footplate.local import registering
from footplate.local.store import Store

pytestmark = pytest.mark.long

SWEEP = """
type: sweep
trial: {{command: 'echo $AZUREML_RUN_ID >> {ran} # ${{{{search_space.x}}}}', environment: 'azureml:e:1'}}
search_space: {{x: {{type: choice, values: [1, 2]}}}}
sampling_algorithm: grid
objective: {{goal: maximize, primary_metric: acc}}
limits: {{max_total_trials: 2, max_concurrent_trials: 1}}
"""

PIPELINE = """
type: pipeline
jobs:
  one: {{command: 'echo $AZUREML_RUN_ID >> {ran}; touch ${{{{outputs.o}}}}/x', environment: 'azureml:e:1', outputs: {{o: }}}}
  two: {{command: 'echo $AZUREML_RUN_ID >> {ran}', environment: 'azureml:e:1',
         inputs: {{d: '${{{{parent.jobs.one.outputs.o}}}}'}}}}
"""


async def test_a_command_job_whose_supervisor_dies_at_any_step_ends_and_runs_at_most_once(
    workspace, home, tmp_path, monkeypatch
):
    steps = {f"c{step}": step for step in range(1, 36, 2)}
    claims = supervisors_die(tmp_path, steps, monkeypatch.setenv)
    ran = tmp_path / "ran"
    for name in steps:
        await workspace.submit(job_file(tmp_path, f"echo $AZUREML_RUN_ID >> {ran}"), name)
    for name in steps:
        job = await ended(workspace, name)
        died = any(claim.name.startswith(f"{name}-") for claim in claims.iterdir())
        if not died:
            assert job.status == "Completed"
        elif job.status == "Failed":
            assert "its supervisor (pid" in (job.error or "")
        else:
            assert job.status == "Completed"  # it died after it had written that down
    assert len(list(claims.iterdir())) > 10
    names = ran.read_text().split()
    assert len(names) == len(set(names))
    completed = {job.name for job in await all_jobs(workspace) if job.status == "Completed"}
    assert completed <= set(names)
    assert (await workspace.cluster("local")).busy_nodes == 0
    with Store(home).read() as db:
        assert db.execute("SELECT count(*) FROM slot").fetchone()[0] == 0
    until(lambda: not processes_of_home(home))


@pytest.mark.parametrize(
    ("text", "children"), [(SWEEP, ("_0", "_1")), (PIPELINE, ("-one", "-two"))], ids=["sweep", "pipeline"]
)
async def test_a_parent_whose_process_dies_at_any_step_completes_and_runs_each_child_once(
    workspace, home, tmp_path, monkeypatch, text, children
):
    steps = {f"p{step}": step for step in range(1, 91, 18)}
    claims = supervisors_die(tmp_path, steps, monkeypatch.setenv)
    ran = tmp_path / "ran"
    file = parse(text.format(ran=ran), tmp_path / "parent.yml", tmp_path)
    for name in steps:
        await workspace.submit(file, name)
    jobs = await asyncio.gather(*(ended(workspace, name) for name in steps))
    assert {(job.name, job.status, job.error) for job in jobs} == {(name, "Completed", None) for name in steps}
    assert len(list(claims.iterdir())) > 2
    assert sorted(ran.read_text().split()) == sorted(name + child for name in steps for child in children)
    assert (await workspace.cluster("local")).busy_nodes == 0
    until(lambda: not processes_of_home(home))


async def test_outputs_are_registered_once_though_their_supervisor_is_killed_right_after(workspace, home, tmp_path):
    """The end of a sweep stands for it: what was registered is written down in one place, that it was in another."""
    more = (
        "outputs: {m: {type: custom_model, name: kept}, n: {type: custom_model, name: kept}, "
        "d: {type: uri_folder, name: facts}}\n"
    )
    write = "for o in ${{outputs.m}} ${{outputs.n}} ${{outputs.d}}; do echo 1 > $o/x; done"
    await workspace.submit(job_file(tmp_path, write, more), "j")
    job = await ended(workspace, "j")
    assert job.status == "Completed"
    store = Store(home)
    with store.read() as db:
        wanted = json.loads(db.execute("SELECT plan FROM job WHERE name = 'j'").fetchone()[0])["register"]
    assert registering.register(store, "j", wanted) == [
        "output m is kept:1",
        "output n is kept:2",
        "output d is facts:1",
    ]
    assert sorted(model.version for model in await workspace.models() if model.name == "kept") == ["1", "2"]
    assert [asset.version for asset in await workspace.data_assets() if asset.name == "facts"] == ["1"]
