"""Sweeps on this machine, run for real: draws, metrics as they are logged, early termination, the best trial, deaths."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.at_work import DEADLINE_SECONDS, all_jobs, damage_metrics_store, ended, log, supervisor_pid, until, until_job

from footplate.jobfile import JobFile, document
from footplate.jobfile.document import parse
from footplate.local import processes, submitted
from footplate.local.data import DataAssets
from footplate.local.jobs import Jobs
from footplate.local.metrics import Metrics
from footplate.local.reconcile import MOST_RESTARTS
from footplate.local.store import Store
from footplate.local.sweep.overseer import Overseer
from footplate.settings import Settings
from footplate.workspace import Conflict, Invalid, Job, NotFound, Workspace
from footplate.workspace.open import open_workspace

TEMPLATES = Path(__file__).resolve().parents[2] / "jobs"
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"

TRIAL = '''
"""A trial by plan: logs its values as MLflow's client writes them, each once its gate is open, then ends as planned."""
import json, os, sqlite3, sys, time
from pathlib import Path

place, name = Path(sys.argv[1]), os.environ["AZUREML_RUN_ID"]
number = name.rpartition("_")[2]
with (place / "ran").open("a") as ran:
    ran.write(f"{name}\\n")
plan = json.loads((place / "plan.json").read_text())
mine = plan.get(number, plan.get("all", {}))

def gate(what):
    while mine.get("gated") and not (place / f"{what}-{number}").exists():
        time.sleep(0.02)

store = os.environ["MLFLOW_TRACKING_URI"].removeprefix("sqlite:///")
for step, value in enumerate(mine.get("values", [])):
    gate(f"value{step}")
    with sqlite3.connect(store, timeout=30) as db:
        row = (mine.get("metric", "acc"), 0.0 if value is None else value, step, value is None, os.environ["MLFLOW_RUN_ID"])
        for table in ("metrics", "latest_metrics"):
            db.execute(f"INSERT OR REPLACE INTO {table} (key, value, timestamp, step, is_nan, run_uuid) "
                       "VALUES (?, ?, ?, ?, ?, ?)", (*row[:2], int(time.time() * 1000), *row[2:]))
gate("end")
Path("outputs/values.json").write_text(json.dumps({k: v for k, v in os.environ.items() if k.startswith("AZUREML_SWEEP")}))
print(sys.argv[2:], flush=True)
if mine.get("says"):
    raise SystemExit(mine["says"])
'''

SWEEP = """
type: sweep
experiment_name: small
trial:
  code: ./src
  command: python -S trial.py "${{inputs.place}}" ${{search_space.x}} ${{search_space.bs}}
  environment: azureml:any@latest
inputs:
  place: PLACE
search_space:
  x: {type: uniform, min_value: 0.001, max_value: 0.1}
  bs: {type: choice, values: [4, 8]}
sampling_algorithm: random
objective: {goal: maximize, primary_metric: acc}
limits: {max_total_trials: 4, max_concurrent_trials: 2}
"""

BANDIT = {"type": "bandit", "slack_factor": 0.1, "evaluation_interval": 1, "delay_evaluation": 2}


class Rig:
    """A sweep's file and the plan of its trials: what each logs, and at which gates it waits."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        (folder / "src").mkdir()
        (folder / "src" / "trial.py").write_text(TRIAL)
        self.plan({})

    def plan(self, plans: Mapping[str, Any]) -> None:
        (self.folder / "plan.json").write_text(json.dumps(plans))

    def outputs(self, job: str) -> Path:
        return self.home / "jobs" / job / "outputs"

    def open(self, *gates: str) -> None:
        for gate in gates:
            (self.folder / gate).touch()

    def ran(self) -> Counter[str]:
        """How often the command of each trial was started."""
        file = self.folder / "ran"
        return Counter(file.read_text().split()) if file.exists() else Counter()

    def file(self, changes: Mapping[str, object] | None = None) -> JobFile:
        made = parse(SWEEP.replace("PLACE", str(self.folder)), self.folder / "small.yml", self.folder)
        return made.edit(changes or {})

    def case(self, name: str) -> JobFile:
        """One of the shared case files, with this rig's trials, on the cluster that is there."""
        if not CASES.is_dir():
            pytest.skip("the shared cases are not here")
        found = document.read(CASES / f"{name}.yml")
        command = f"python -S trial.py {self.folder} ${{{{search_space.lr}}}} ${{{{search_space.bs}}}}"
        changes = {"compute": "local", "trial.command": command, "trial.code": str(self.folder / "src")}
        return found.edit(changes)

    def mlflow_parameters(self, job: str) -> dict[str, str]:
        """The parameters of a job's run, as `mlflow ui` shows them."""
        with closing(sqlite3.connect(self.home / "mlflow.db")) as db:
            query = "SELECT p.key, p.value FROM params p JOIN tags t USING (run_uuid) WHERE t.key = ? AND t.value = ?"
            return dict(db.execute(query, ("mlflow.source.name", job)))


@pytest.fixture
def rig(tmp_path: Path, home: Path) -> Rig:
    return Rig(tmp_path, home)


async def trials_of(workspace: Workspace, sweep: str) -> dict[str, Job]:
    """The trials by number."""
    return {job.name.rpartition("_")[2]: job for job in await workspace.children(sweep)}


async def until_trials(workspace: Workspace, sweep: str, **statuses: str) -> dict[str, Job]:
    """Wait until each of the trials, given as `t0`, has its status."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                found = await trials_of(workspace, sweep)
            except NotFound:  # a pipeline's step, which is still to come
                found = {}
            wanted = {name.removeprefix("t"): status for name, status in statuses.items()}
            if all(number in found and found[number].status == status for number, status in wanted.items()):
                return found
            await asyncio.sleep(0.02)


def most_at_once(jobs: Sequence[Job]) -> int:
    """How many of the jobs ran at once at most."""
    moments = [(job.started, 1) for job in jobs if job.started] + [(job.ended, -1) for job in jobs if job.ended]
    most = running = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most


async def test_a_sweep_runs_its_trials_two_at_once_and_its_best_becomes_a_model(workspace, rig):
    acc = {"metric": "val_accuracy"}
    first = {"0": {"values": [0.5, 0.9, 0.6], "gated": True, **acc}, "1": {"values": [0.7, 0.85], "gated": True, **acc}}
    rig.plan({**first, "all": {"values": [0.1], **acc}})
    await workspace.submit(rig.case("y12_sweep_ok"), "s")
    assert len(await until_trials(workspace, "s", t0="Running", t1="Running")) == 2
    rig.open(*(f"{gate}-{number}" for gate in ("value0", "value1", "value2", "end") for number in (0, 1)))
    sweep = await ended(workspace, "s")
    trials = await workspace.children("s")
    assert (sweep.status, sweep.type, sweep.best_child) == ("Completed", "sweep", "s_0")
    assert (sweep.primary_metric, sweep.goal, sweep.headline) == ("val_accuracy", "maximize", ("val_accuracy", 0.9))
    assert sweep.note == "best s_0: val_accuracy 0.9, its best value, not its last; trials: 4 Completed"
    assert [trial.name for trial in trials] == ["s_0", "s_1", "s_2", "s_3"]
    assert most_at_once(trials) <= 2
    assert [trial.metric for trial in trials] == [0.9, 0.85, 0.1, 0.1]
    assert [job.name for job in await all_jobs(workspace)] == ["s"]  # trials stand under their sweep
    for trial in trials:
        x, bs = trial.parameters["lr"], trial.parameters["bs"]
        assert 0.001 <= x <= 0.1
        assert bs in (4, 8)
        assert trial.parent == "s"
        assert f"['{x}', '{bs}']" in await log(workspace, trial.name)
        variables = json.loads((rig.outputs(trial.name) / "values.json").read_text())
        assert variables == {"AZUREML_SWEEP_lr": str(x), "AZUREML_SWEEP_bs": str(bs)}
        clone = await workspace.job_file(trial.name)
        assert (clone.kind, clone.inputs["lr"].literal) == ("command", str(x))
        assert rig.mlflow_parameters(trial.name) == {"lr": str(x), "bs": str(bs)}
    assert (rig.outputs("s") / "values.json").read_text() == (rig.outputs("s_0") / "values.json").read_text()
    model = await workspace.register("best", "s")
    assert model.lineage["trial"] == "s_0"
    assert model.lineage["parameters"] == dict(trials[0].parameters)
    assert model.lineage["metric"] == {"val_accuracy": 0.9}
    story = await log(workspace, "s", "user_logs/sweep.log")
    assert "s_3 started: lr " in story
    assert "Best is s_0: val_accuracy 0.9" in story
    await workspace.delete_job("s")
    assert not rig.outputs("s_0").exists()


async def test_a_misspelt_metric_is_told_at_once_and_no_best_is_claimed(workspace, rig):
    rig.plan({"all": {"values": [0.9], "metric": "val_accuracy", "gated": True}})
    await workspace.submit(rig.case("y13_sweep_metric_misspelt"), "s")
    rig.open("value0-0")
    sweep = await until_job(workspace, "s", lambda job: "val_accuracy" in job.note)
    assert sweep.status == "Running"
    assert sweep.note.startswith("s_0 logs val_accuracy, and not the primary metric 'val_acuracy'")
    assert "clone it with primary_metric: val_accuracy" in sweep.note
    assert sweep.best_child is None
    await workspace.cancel("s")
    sweep = await ended(workspace, "s")
    assert sweep.status == "Canceled"
    assert "primary_metric: val_accuracy" in sweep.note  # it is still to be read after the end
    with pytest.raises(Conflict, match="no best trial"):
        await workspace.register("best", "s")
    assert {job.status for job in await workspace.children("s")} == {"Canceled"}


async def test_a_policy_stops_a_trial_while_it_runs_and_says_by_which_figures(workspace, rig):
    rig.plan({"0": {"values": [0.5, 0.9]}, "1": {"values": [0.5, 0.6, 0.7], "gated": True}, "all": {"values": [0.9]}})
    await workspace.submit(rig.file({"early_termination": BANDIT}), "s")
    await until_trials(workspace, "s", t0="Completed", t1="Running")
    rig.open("value0-1")
    await until_job(workspace, "s_1", lambda job: job.metric == 0.5)
    assert (await workspace.job("s_1")).status == "Running"  # before delay_evaluation nothing is stopped
    rig.open("value1-1")
    stopped = await ended(workspace, "s_1")
    assert stopped.status == "Canceled"
    assert stopped.note == (
        "stopped by bandit at value 2: best so far 0.6, below 0.818182 (s_0 had 0.9, slack_factor 0.1)"
    )
    sweep = await ended(workspace, "s")
    assert (sweep.status, sweep.best_child) == ("Completed", "s_0")  # of equals the earlier
    assert "trials: 1 Canceled, 3 Completed" in sweep.note
    assert f"s_1 {stopped.note}." in await log(workspace, "s", "user_logs/sweep.log")


async def test_a_failing_trial_does_not_end_a_sweep_and_neither_wins_nor_is_a_measure(workspace, rig):
    failing = {"values": [9.0, 9.0], "says": "ValueError: lr too high"}
    second = {"values": [0.2, 0.2], "gated": True}
    rig.plan({"0": failing, "1": second, "2": {"values": [None]}, "all": {"values": [0.2]}})
    await workspace.submit(rig.file({"early_termination": BANDIT}), "s")
    await until_trials(workspace, "s", t0="Failed")
    rig.open("value0-1", "value1-1")
    await until_job(workspace, "s_1", lambda job: job.metric == 0.2)
    rig.open("end-1")
    sweep = await ended(workspace, "s")
    assert (sweep.status, sweep.best_child, sweep.error) == ("Completed", "s_1", None)
    assert [job.status for job in await workspace.children("s")] == ["Failed", "Completed", "Completed", "Completed"]


async def test_a_sweep_whose_trials_all_fail_fails_with_the_first_cause(workspace, rig):
    rig.plan({"all": {"says": "ValueError: no pictures"}})
    await workspace.submit(rig.file(), "s")
    sweep = await ended(workspace, "s")
    assert sweep.status == "Failed"
    assert sweep.error == "no trial completed, 4 of 4 failed; s_0: ValueError: no pictures (exit code 1)"
    with pytest.raises(Conflict, match="no best trial"):
        await workspace.register("best", "s")


async def test_a_cancelled_sweep_ends_its_trials(workspace, rig):
    rig.plan({"all": {"gated": True}})
    await workspace.submit(rig.file(), "s")
    await until_trials(workspace, "s", t0="Running", t1="Running")
    await workspace.cancel("s")
    assert (await ended(workspace, "s")).status == "Canceled"
    assert [job.status for job in await workspace.children("s")] == ["Canceled", "Canceled"]
    with pytest.raises(Conflict, match=r"a job .s. already"):
        await workspace.submit(rig.file(), "s")


async def test_a_grid_ends_with_its_points(workspace, rig):
    space = {"x": {"type": "choice", "values": [1, 2, 3]}, "bs": {"type": "choice", "values": [4]}}
    await workspace.submit(rig.file({"sampling_algorithm": "grid", "search_space": space}), "s")
    sweep = await ended(workspace, "s")
    assert sweep.status == "Completed"
    assert sweep.note.startswith("s_0 has completed and logged no metric")
    assert [job.parameters for job in await workspace.children("s")] == [{"x": x, "bs": 4} for x in (1, 2, 3)]


async def test_bayesian_sampling_is_told_of_trials_that_ended(workspace, rig):
    pytest.importorskip("optuna")
    rig.plan({"all": {"values": [0.5]}})
    await workspace.submit(rig.file({"sampling_algorithm": "bayesian", "limits.max_total_trials": 3}), "s")
    assert (await ended(workspace, "s")).status == "Completed"
    with Store(rig.home).read() as db:
        points = [json.loads(row[0])["point"] for row in db.execute("SELECT work FROM job WHERE parent = 's'")]
    assert [set(point) for point in points] == [{"x", "bs"}] * 3


async def test_a_nested_choice_reaches_the_trial_as_json(workspace, rig):
    nested = {"type": "choice", "values": [{"opt": "sgd", "lr": {"type": "choice", "values": [1]}}]}
    command = "python -S trial.py ${{inputs.place}} '${{search_space.x}}'"
    changes = {"search_space": {"x": nested}, "trial.command": command, "limits": {"max_total_trials": 1}}
    await workspace.submit(rig.file(changes), "s")
    await ended(workspace, "s")
    assert json.loads(json.loads((rig.outputs("s_0") / "values.json").read_text())["AZUREML_SWEEP_x"]) == {
        "opt": "sgd",
        "lr": 1,
    }
    assert (await workspace.job("s_0")).parameters == {"x": {"opt": "sgd", "lr": 1}}


async def test_a_sweeps_time_limit_ends_its_trials_and_a_trials_ends_only_that(workspace, rig):
    rig.plan({"0": {"gated": True}, "all": {"values": [0.5]}})
    limits = {"max_total_trials": 2, "max_concurrent_trials": 1, "trial_timeout": 1}
    await workspace.submit(rig.file({"limits": limits}), "slow")
    rig.plan({"all": {"gated": True, "values": [0.5]}})
    await until_trials(workspace, "slow", t0="Failed")
    rig.open("value0-1", "end-1")
    sweep = await ended(workspace, "slow")
    assert (sweep.status, sweep.best_child) == ("Completed", "slow_1")
    assert (await workspace.job("slow_0")).error == "it ran into its time limit of 1 s (limits.trial_timeout)"
    for gate in ("value0-1", "end-1"):
        (rig.folder / gate).unlink()
    await workspace.submit(rig.file({"limits": {"max_total_trials": 2, "timeout": 1}}), "short")
    sweep = await ended(workspace, "short")
    assert (sweep.status, sweep.error) == ("Canceled", "it ran into its time limit of 1 s (limits.timeout)")
    assert {job.status for job in await workspace.children("short")} == {"Canceled"}


async def test_a_named_output_leads_to_the_best_trials_and_is_registered_once(workspace, rig):
    rig.plan({"1": {"values": [0.9]}, "all": {"values": [0.5]}})
    command = "python -S trial.py ${{inputs.place}} && cp outputs/values.json ${{outputs.made}}/"
    changes = {"trial.command": command, "outputs": {"made": {"type": "uri_folder", "name": "made"}}}
    await workspace.submit(rig.file(changes), "s")
    sweep = await ended(workspace, "s")
    assert "output made is made:1" in sweep.note
    assert [asset.version for asset in await workspace.data_assets() if asset.name == "made"] == ["1"]
    assert {output.name: output.files for output in await workspace.outputs("s")} == {"default": 1, "made": 1}
    folder = await workspace.data_folder("azureml:made:1")
    assert folder is not None
    assert (folder / "values.json").read_text() == (rig.outputs("s_1") / "values.json").read_text()


def recorded(rig: Rig, runs: Sequence[str | None]) -> Store:
    """The store with a sweep `s` of two trials, the first of which has ended, all looked after by the tests' own process."""
    store = Store(rig.home)
    store.prepare()
    columns = (
        "name, display_name, type, status, experiment, compute, created, started, nodes, ranks_per_node, command, plan, "
        "supervisor_pid, supervisor_started, parent, mlflow_run_id, ended"
    )
    me = os.getpid(), processes.start_time(os.getpid())
    with store.write() as db:
        for name, kind, parent, run, end in (
            ("s", "sweep", None, None, None), ("s_0", "command", "s", runs[0], 1.0), ("s_1", "command", "s", runs[1], None)
        ):  # fmt: skip
            status = "Completed" if end else "Running"
            row = (name, name, kind, status, "small", "local", 0, 0, 1, 1, "", "{}", *me, parent, run, end)
            db.execute(f"INSERT INTO job ({columns}) VALUES ({', '.join('?' * len(row))})", row)
            for part in ("outputs", "user_logs"):
                (rig.home / "jobs" / name / part).mkdir(parents=True)
    submitted.keep(rig.home / "jobs" / "s", rig.file({"limits.max_total_trials": 2}))
    return store


def end_trial(store: Store, status: str) -> None:
    with store.write() as db:
        db.execute("UPDATE job SET status = ?, ended = 2 WHERE name = 's_1'", (status,))


def test_what_is_handed_on_is_of_the_trial_that_its_last_value_made_the_best(rig, monkeypatch):
    """The overseer reads metrics at intervals; here the last value comes within one, and the last trial ends with it."""
    monkeypatch.setattr("footplate.local.sweep.overseer._READ_SHARE", 1e9)
    metrics = Metrics(rig.home, lambda: sys.executable)
    runs = [metrics.create_run("small", f"s_{number}", {}).run_id for number in (0, 1)]
    store = recorded(rig, runs)
    (rig.outputs("s_1") / "best.txt").write_text("s_1\n")

    def log_value(run: str, value: float) -> None:
        with closing(sqlite3.connect(metrics.file)) as db, db:
            db.execute("INSERT INTO metrics VALUES ('acc', ?, ?, ?, 0, 0)", (value, int(value * 1000), run))

    for run, value in zip(runs, (0.5, 0.4), strict=True):
        log_value(run, value)

    def last_value_comes(_seconds: float) -> None:
        log_value(runs[1], 0.9)
        end_trial(store, "Completed")

    assert Overseer(rig.home, "s", lambda: False, last_value_comes).run() == 0
    with store.read() as db:
        assert tuple(db.execute("SELECT status, best_child FROM job WHERE name = 's'").fetchone()) == (
            "Completed",
            "s_1",
        )
    assert (rig.outputs("s") / "best.txt").read_text() == "s_1\n"
    jobs = Jobs(store, Settings(), DataAssets(store))
    assert "outputs/best.txt" in [file.path for file in jobs.log_files("s")]
    assert jobs.read_log("s", "outputs/best.txt", 0, 100).data == b"s_1\n"


def test_a_sweep_whose_file_is_lost_ends_the_trials_that_a_former_process_started(rig):
    store = recorded(rig, (None, None))
    (rig.home / "jobs" / "s" / "job.yml").unlink()
    asked = []

    def trial_ends(_seconds: float) -> None:
        with store.read() as db:
            asked.append(db.execute("SELECT cancel_requested FROM job WHERE name = 's_1'").fetchone()[0])
        end_trial(store, "Canceled")

    assert Overseer(rig.home, "s", lambda: False, trial_ends).run() == 0
    assert asked == [1]
    with store.read() as db:
        status, error = db.execute("SELECT status, error FROM job WHERE name = 's'").fetchone()
    assert (status, error) == ("Failed", "The job file of 's' is no longer there. Launch it from its template.")


async def test_the_sweep_template_runs_with_all_that_its_file_says(workspace, rig):
    template = document.read(TEMPLATES / "sweep.yml")
    script = "import os, sys\nsys.argv[1:] = [os.environ['PLACE'], *sys.argv[1:]]\n" + TRIAL
    (rig.folder / "src" / "train.py").write_text(script)
    (rig.folder / "src" / "packages.py").write_text("")  # the template looks for its packages first
    (rig.folder / "pictures").mkdir()
    first = {"values": [0.9] * 10, "metric": "best_val_acc"}
    late = {"values": [*[0.8] * 9, 0.7], "metric": "best_val_acc"}  # 0.8 at the tenth is above 0.9 / 1.15
    worse = {"values": [0.7] * 11, "metric": "best_val_acc", "gated": True}  # 0.7 is below
    rig.plan({"0": first, "1": late, "2": worse})
    changes = {
        "trial.code": str(rig.folder / "src"),
        "trial.environment_variables": {"PLACE": str(rig.folder)},
        "inputs.data.path": str(rig.folder / "pictures"),
        "limits": {"max_total_trials": 3, "max_concurrent_trials": 2},
    }
    await workspace.submit(template.edit(changes), "birds")
    await until_trials(workspace, "birds", t0="Completed", t1="Completed", t2="Running")
    rig.open(*(f"value{step}-2" for step in range(10)))
    sweep = await ended(workspace, "birds")
    assert (sweep.status, sweep.best_child, sweep.headline) == ("Completed", "birds_0", ("best_val_acc", 0.9))
    assert "stopped by bandit at value 10" in (await workspace.job("birds_2")).note
    values = (await workspace.job("birds_1")).parameters
    assert 0.0005 <= values["learning_rate"] <= 0.005
    assert 0.9 <= values["momentum"] <= 0.99
    command = await log(workspace, "birds_1")
    assert f"'--learning_rate', '{values['learning_rate']}', '--momentum', '{values['momentum']}'" in command


PIPELINE = """
type: pipeline
jobs:
  hunt:
    type: sweep
    trial:
      code: ./src
      command: python -S trial.py PLACE ${{search_space.x}} && cp outputs/values.json ${{outputs.made}}/
      environment: azureml:any@latest
    search_space: {x: {type: choice, values: [1, 2]}}
    sampling_algorithm: grid
    objective: {goal: maximize, primary_metric: acc}
    limits: {max_total_trials: 2, max_concurrent_trials: 2}
    outputs: {made: {type: uri_folder}}
  use:
    command: cat ${{inputs.found}}/values.json
    environment: azureml:any@latest
    inputs: {found: "${{parent.jobs.hunt.outputs.made}}"}
"""


async def test_a_sweep_as_a_step_hands_its_best_trials_output_on_though_all_that_oversee_it_are_killed(workspace, rig):
    rig.plan({"1": {"values": [0.9]}, "all": {"values": [0.5], "gated": True}})
    await workspace.submit(parse(PIPELINE.replace("PLACE", str(rig.folder)), rig.folder / "p.yml", rig.folder), "p")
    await until_job(workspace, "p", lambda job: job.status == "Running")
    await until_trials(workspace, "p-hunt", t0="Running", t1="Completed")
    kill(rig, "p")
    kill(rig, "p-hunt")
    rig.open("value0-0", "end-0")
    assert (await ended(workspace, "p")).status == "Completed"
    assert (await workspace.job("p-hunt")).best_child == "p-hunt_1"
    assert '"AZUREML_SWEEP_x": "2"' in await log(workspace, "p-use")
    assert rig.ran() == {"p-hunt_0": 1, "p-hunt_1": 1}


async def test_what_no_sweep_can_do_is_refused_before_anything_is_written(workspace, rig):
    await workspace.submit(parse("command: 'true'\nenvironment: azureml:a@latest\n", None, rig.folder), "s_1")
    with pytest.raises(Conflict, match="'s_1' already, which a trial"):
        await workspace.submit(rig.file(), "s")
    with pytest.raises(Invalid, match="a grid over uniform"):
        await workspace.submit(rig.file({"sampling_algorithm": "grid"}), "g")
    with pytest.raises(Invalid, match=r"search_space\.y"):
        await workspace.submit(rig.file({"trial.command": "echo ${{search_space.y}}"}), "y")
    await ended(workspace, "s_1")
    assert [job.name for job in await all_jobs(workspace)] == ["s_1"]
    assert {path.name for path in (rig.home / "jobs").iterdir()} == {"s_1"}


def test_values_come_in_the_order_they_were_logged_whichever_way_they_are_read(home):
    metrics = Metrics(home, lambda: sys.executable)
    run = metrics.create_run("order", "order", {})
    with closing(sqlite3.connect(metrics.file)) as db:
        rows = [("acc", 0.5, 7), ("acc", 0.9, 1), ("acc", 0.1, 2), ("system/cpu", 1.0, 0), ("loss", 3.0, 0)]
        for moment, (key, value, step) in enumerate(rows, 1_700_000_000_000):
            for table in ("metrics", "latest_metrics"):
                db.execute(
                    f"INSERT OR REPLACE INTO {table} (key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, 0, ?)",
                    (key, value, moment, step, run.run_id),
                )
        db.commit()
    found = metrics.logged([run.run_id], "acc")[run.run_id]
    assert list(found.values) == [0.5, 0.9, 0.1]  # a script may count its steps anew
    assert list(found.names) == ["acc", "loss"]
    unknown = Metrics(home, lambda: sys.executable, known=frozenset())
    assert list(unknown.logged([run.run_id], "acc")[run.run_id].values) == [0.5, 0.9, 0.1]
    assert metrics.logged([], "acc") == {}


# Deaths


def overseer(rig: Rig, sweep: str) -> int:
    return supervisor_pid(rig.home, sweep)


def kill(rig: Rig, sweep: str) -> int:
    """Kill the process that oversees a sweep, and wait until it is gone."""
    pid = overseer(rig, sweep)
    os.kill(pid, signal.SIGKILL)
    until(lambda: processes.start_time(pid) is None)
    return pid


async def test_a_killed_overseer_is_followed_by_one_that_goes_on(workspace, rig):
    rig.plan({"all": {"values": [0.1, 0.5], "gated": True}})
    await workspace.submit(rig.file(), "s")
    before = await until_trials(workspace, "s", t0="Running", t1="Running")
    killed = kill(rig, "s")
    rig.open("value0-0", "value1-0", "end-0")
    ranks = [rank for rank in processes_of(rig, "s_0", "s_1") if processes.start_time(rank)]
    assert ranks  # its trials do not die with it
    readers = [open_workspace("local") for _ in range(6)]
    looking = threading.Barrier(len(readers) + 1)

    def read(reader: Workspace) -> None:
        looking.wait()
        asyncio.run(reader.job("s"))

    threads = [threading.Thread(target=read, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    with Store(rig.home).write():  # so that all of them have found it dead before one may write
        looking.wait()
        until(lambda: waiting_for_the_store(rig) == len(readers))
    for thread in threads:
        thread.join()
    assert overseer(rig, "s") != killed
    for number in range(4):
        rig.open(f"value0-{number}", f"value1-{number}", f"end-{number}")
    sweep = await ended(workspace, "s")
    after = await trials_of(workspace, "s")
    assert sweep.status == "Completed"
    assert overseers_started(rig, "s") == 2  # however many looked at once
    assert rig.ran() == {f"s_{number}": 1 for number in range(4)}
    assert {number: after[number].parameters for number in before} == {n: before[n].parameters for n in before}
    assert [job.metric for job in after.values()] == [0.5] * 4
    assert "another goes on in its place" in await log(workspace, "s", "user_logs/sweep.log")


async def test_a_sweep_whose_overseer_dies_again_and_again_loses_and_repeats_no_trial(workspace, rig):
    rig.plan({"all": {"values": [0.5]}})
    limits = {"max_total_trials": 8, "max_concurrent_trials": 3}
    await workspace.submit(rig.file({"limits": limits}), "s")
    for started in (1, 3, 5):  # while trials start, run and end
        await until_count(workspace, rig, started)
        kill(rig, "s")
        await workspace.job("s")
    sweep = await ended(workspace, "s")
    trials = await workspace.children("s")
    assert sweep.status == "Completed"
    assert rig.ran() == {f"s_{number}": 1 for number in range(8)}
    assert [job.status for job in trials] == ["Completed"] * 8
    assert len({str(job.parameters) for job in trials}) == 8
    assert most_at_once(trials) <= 3


async def test_a_cancel_that_was_asked_while_the_overseer_was_dead_ends_everything(workspace, rig):
    rig.plan({"all": {"gated": True}})
    await workspace.submit(rig.file(), "s")
    await until_trials(workspace, "s", t0="Running", t1="Running")
    kill(rig, "s")
    with Store(rig.home).write() as db:  # as a console does that was killed right after
        db.execute("UPDATE job SET cancel_requested = 1, status = 'CancelRequested' WHERE name = 's'")
    assert (await ended(workspace, "s")).status == "Canceled"
    assert {job.status for job in await workspace.children("s")} == {"Canceled"}
    assert rig.ran() == {"s_0": 1, "s_1": 1}


async def test_a_trial_whose_supervisor_is_killed_fails_and_the_sweep_goes_on(workspace, rig):
    rig.plan({"0": {"gated": True}, "all": {"values": [0.5]}})
    await workspace.submit(rig.file(), "s")
    await until_trials(workspace, "s", t0="Running")
    os.kill(supervisor_pid(rig.home, "s_0"), signal.SIGKILL)
    sweep = await ended(workspace, "s")
    assert (sweep.status, sweep.best_child) == ("Completed", "s_1")
    assert [job.status for job in await workspace.children("s")] == ["Failed", "Completed", "Completed", "Completed"]


async def test_a_metrics_store_that_is_damaged_stops_no_sweep(workspace, rig):
    rig.plan({"all": {"gated": True}})
    await workspace.submit(rig.file({"limits.max_total_trials": 2}), "s")
    await until_trials(workspace, "s", t0="Running", t1="Running")
    damage_metrics_store(rig.home, "text")
    rig.open("end-0", "end-1")
    sweep = await ended(workspace, "s")
    assert (sweep.status, sweep.best_child) == ("Completed", None)
    assert "The metrics cannot be read" in await log(workspace, "s", "user_logs/sweep.log")


async def test_an_overseer_that_cannot_stay_alive_is_not_started_for_ever(workspace, rig):
    rig.plan({"all": {"gated": True}})
    await workspace.submit(rig.file(), "s")
    await until_trials(workspace, "s", t0="Running")
    with Store(rig.home).write() as db:
        db.execute("UPDATE job SET work = json_set(work, '$.restarts', ?) WHERE name = 's'", (MOST_RESTARTS,))
    kill(rig, "s")
    sweep = await ended(workspace, "s")
    assert sweep.status == "Failed"
    assert "ended unexpectedly" in (sweep.error or "")
    await until_trials(workspace, "s", t0="Canceled")


async def until_count(workspace: Workspace, rig: Rig, count: int) -> None:
    """Wait until so many trials have a record."""

    def there() -> bool:
        with Store(rig.home).read() as db:
            return int(db.execute("SELECT count(*) FROM job WHERE parent = 's'").fetchone()[0]) >= count

    await asyncio.to_thread(until, there)


def processes_of(rig: Rig, *jobs: str) -> list[int]:
    """The pids of the jobs' ranks."""
    with Store(rig.home).read() as db:
        marks = ",".join("?" * len(jobs))
        return [row[0] for row in db.execute(f"SELECT pid FROM rank WHERE job IN ({marks})", jobs)]


def waiting_for_the_store(rig: Rig) -> int:
    """How many connections of this process to the store are open, besides the one that holds its lock."""
    places = [str(place.readlink()) for place in Path("/proc/self/fd").iterdir() if place.is_symlink()]
    return sum(place == str(rig.home / "footplate.db") for place in places) - 1


def overseers_started(rig: Rig, sweep: str) -> int:
    """How many processes took the sweep over, by what they write first."""
    story = (rig.home / "jobs" / sweep / "system_logs" / "supervisor.log").read_text()
    return story.count("its supervisor is pid")
