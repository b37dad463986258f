"""A console killed at every single step of an act: what was acknowledged is there, nothing runs twice, nothing is left over."""

from __future__ import annotations

import pytest
from tests.at_work import all_jobs, ended, job_file, until
from tests.faults.killing import killed_at_each_step, processes_of_home

pytestmark = pytest.mark.long

SUBMIT = """
from footplate.jobfile import read
from footplate.local import submission
from footplate.local.data import DataAssets
from footplate.local.jobs import Jobs
from footplate.local.store import Store
from footplate.settings import load

store = Store(Path(sys.argv[1]))
store.prepare()
file = read(Path(sys.argv[2]))
submission._check(store, load(), DataAssets(store), file, "warm", None)  # so that no fork has to import what it takes

def act(step):
    return Jobs(store, load(), DataAssets(store)).submit(file, f"{sys.argv[3]}{step}").name
"""

COMMAND = """
command: echo $AZUREML_RUN_ID >> {ran}
code: src
environment: azureml:e:1
inputs: {{d: {{type: uri_folder, path: src, mode: download}}}}
outputs: {{o: {{}}}}
"""

SWEEP = """
type: sweep
trial: {{command: 'echo $AZUREML_RUN_ID >> {ran} # ${{{{search_space.x}}}}', code: src, environment: 'azureml:e:1'}}
search_space: {{x: {{type: choice, values: [1]}}}}
sampling_algorithm: grid
objective: {{goal: maximize, primary_metric: acc}}
limits: {{max_total_trials: 1, max_concurrent_trials: 1}}
"""

PIPELINE = """
type: pipeline
jobs:
  one: {{command: 'echo $AZUREML_RUN_ID >> {ran}', code: src, environment: 'azureml:e:1'}}
"""


@pytest.mark.parametrize(
    ("text", "runs_as"),
    [(COMMAND, "{}"), (SWEEP, "{}_0"), (PIPELINE, "{}-one")],
    ids=["command", "sweep", "pipeline"],
)
async def test_a_submitter_killed_at_any_step_leaves_a_whole_job_or_none(workspace, home, tmp_path, text, runs_as):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    file, ran = tmp_path / "job.yml", tmp_path / "ran"
    file.write_text(text.format(ran=ran))
    told = killed_at_each_step(SUBMIT, str(home), str(file), "j")
    assert len(told) > 10
    there = {job.name for job in await all_jobs(workspace)}
    assert {one["said"] for one in told if one["said"]} <= there
    for name in there:
        assert (await ended(workspace, name)).status == "Completed"
    until(lambda: not processes_of_home(home))  # those that found no record
    assert sorted(ran.read_text().split()) == sorted(runs_as.format(name) for name in there)
    # What is killed leaves nothing for ever: the next submit takes it away.
    await workspace.submit(job_file(tmp_path, "true"), "next")
    await ended(workspace, "next")
    names = there | {"next"} | {child.name for name in there for child in await workspace.children(name)}
    assert {folder.name for folder in (home / "jobs").iterdir()} == names
