"""Jobs on this machine, through real supervisors and ranks: what runs, what waits, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.at_work import (
    PIDS_OF_A_FAMILY,
    WAIT,
    ended,
    family,
    gone,
    job_file,
    log,
    ranks,
    run_statuses,
    until_job,
)

from footplate.local.store import Store
from footplate.workspace.open import open_workspace


async def test_two_ranks_get_azures_environment(workspace, home, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "show.py").write_text(
        "import json, os, sys\n"
        "with open(f'outputs/{os.environ[\"RANK\"]}.json', 'w') as file:\n"
        "    json.dump(dict(os.environ, PREFIX=sys.prefix), file)\n"
    )
    more = (
        f"{ranks(2)}experiment_name: aviary\ncode: src\n"
        "environment_variables: {BIRD: wren, OMP_NUM_THREADS: '3'}\n"
        "inputs: {data: {type: uri_folder, path: .}, lr: 1e-3}\n"
        "outputs: {table: {type: uri_folder}}\n"
    )
    file = job_file(tmp_path, "python show.py", more)
    await workspace.submit(file, "pair")
    job = await ended(workspace, "pair")
    assert job.status == "Completed", await log(workspace, "pair", "user_logs/std_log_process_0.txt")
    seen = [json.loads((home / "jobs" / "pair" / "outputs" / f"{rank}.json").read_text()) for rank in (0, 1)]
    for rank, environment in enumerate(seen):
        expected = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "NODE_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "AZUREML_RUN_ID": "pair",
            "AZUREML_ARM_PROJECT_NAME": "aviary",
            "AZUREML_CR_NODE_RANK": "0",
            "AZURE_ML_INPUT_data": str(tmp_path),
            "AZURE_ML_OUTPUT_table": str(home / "jobs" / "pair" / "named" / "table"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
            "PYTHONUNBUFFERED": "1",
            "BIRD": "wren",
            "OMP_NUM_THREADS": "3",
            "PREFIX": sys.prefix,
        }
        assert {name: environment.get(name) for name in expected} == expected
    assert seen[0]["MASTER_PORT"] == seen[1]["MASTER_PORT"]
    assert seen[0]["MLFLOW_RUN_ID"] == seen[1]["MLFLOW_RUN_ID"]
    assert "AZURE_ML_INPUT_lr" not in seen[0]


async def test_ranks_share_the_cores_and_inherit_no_other_jobs_rank(workspace, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("MLFLOW_RUN_ID", "of another job")
    await workspace.submit(job_file(tmp_path, "echo $OMP_NUM_THREADS ${RANK:-none} ${#MLFLOW_RUN_ID}"), "alone")
    await ended(workspace, "alone")
    assert await log(workspace, "alone") == f"{len(os.sched_getaffinity(0))} none 32\n"


async def test_jobs_queue_in_order_and_say_for_whom_they_wait(one_node, workspace, tmp_path):
    names = ["first", "second", "third"]
    for name in names:
        await workspace.submit(job_file(tmp_path, WAIT), name)
        await until_job(workspace, name, lambda job: job.status == "Running" or job.note)
    second, third = await workspace.job("second"), await workspace.job("third")
    assert (second.status, second.note) == ("Queued", "0 of 1 nodes are free, the job wants 1; ahead: first")
    assert (third.status, third.note) == ("Queued", "0 of 1 nodes are free, the job wants 1; ahead: first, second")
    await workspace.cancel("first")
    await until_job(workspace, "second", lambda job: job.status == "Running")
    assert (await workspace.job("third")).status == "Queued"
    await workspace.cancel("third")
    await ended(workspace, "third")
    assert (await workspace.job("second")).status == "Running"


async def test_cancel_ends_every_rank_and_their_children(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, PIDS_OF_A_FAMILY, ranks(2)), "family")
    pids = family(home, "family", 2)
    await workspace.cancel("family")
    assert (await ended(workspace, "family")).status == "Canceled"
    assert gone(pids)


async def test_cancel_ends_ranks_that_ignore_a_polite_request(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, f"trap '' TERM\n{PIDS_OF_A_FAMILY}", ranks(1)), "stubborn")
    pids = family(home, "stubborn", 1)
    await workspace.cancel("stubborn")
    assert (await ended(workspace, "stubborn")).status == "Canceled"
    assert gone(pids)


async def test_the_first_failing_rank_is_named_and_ends_the_others(workspace, tmp_path):
    command = "if test $RANK = 1; then python -c 'raise ValueError(\"bad bird\")'; else " + WAIT + "; fi"
    await workspace.submit(job_file(tmp_path, command, ranks(3)), "one-bad")
    job = await ended(workspace, "one-bad")
    assert (job.status, job.error) == ("Failed", "rank 1: ValueError: bad bird (exit code 1)")
    supervisor = await log(workspace, "one-bad", "system_logs/supervisor.log")
    assert "Rank 1 ended with exit code 1." in supervisor
    assert "Rank 0 ended with exit code 143." in supervisor


async def test_the_other_ranks_can_still_print_their_own_errors(workspace, tmp_path):
    command = "test $RANK = 1 && exit 3; sleep 0.7; echo connection to rank 1 lost; exit 4"
    await workspace.submit(job_file(tmp_path, command, ranks(2)), "echoes")
    job = await ended(workspace, "echoes")
    assert job.error == "rank 1: it said nothing (exit code 3)"
    assert await log(workspace, "echoes", "user_logs/std_log_process_0.txt") == "connection to rank 1 lost\n"


async def test_a_job_past_its_time_limit_fails_and_says_so(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, PIDS_OF_A_FAMILY, ranks(1) + "limits: {timeout: 1}\n"), "slow")
    pids = family(home, "slow", 1)
    job = await ended(workspace, "slow")
    assert (job.status, job.error) == ("Failed", "it ran into its time limit of 1 s (limits.timeout)")
    assert gone(pids)


async def test_what_a_finished_job_left_running_is_ended(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, "sleep 600 & echo $! > outputs/left.pid"), "untidy")
    assert (await ended(workspace, "untidy")).status == "Completed"
    assert gone([int((home / "jobs" / "untidy" / "outputs" / "left.pid").read_text())])


async def test_ranks_start_once_more_when_their_port_was_taken(workspace, home, tmp_path):
    command = """if test $RANK = 0 && ! test -e tried; then
        touch tried
        echo "RuntimeError: port: $MASTER_PORT, name: EADDRINUSE, message: address already in use"
        exit 1
    fi
    echo ready"""
    await workspace.submit(job_file(tmp_path, command, ranks(2)), "unlucky")
    assert (await ended(workspace, "unlucky")).status == "Completed"
    assert (await log(workspace, "unlucky", "user_logs/std_log_process_0.txt")).endswith("ready\n")
    assert "all ranks start once more" in await log(workspace, "unlucky", "system_logs/supervisor.log")


async def test_an_outputs_folder_in_the_code_belongs_to_the_run(workspace, home, tmp_path):
    (tmp_path / "src" / "outputs").mkdir(parents=True)
    (tmp_path / "src" / "outputs" / "kept.txt").write_text("kept")
    await workspace.submit(
        job_file(tmp_path, "echo new > outputs/new.txt; cat outputs/kept.txt", "code: src\n"), "both"
    )
    assert (await ended(workspace, "both")).status == "Completed"
    assert {path.name for path in (home / "jobs" / "both" / "outputs").iterdir()} == {"kept.txt", "new.txt"}


def python_without_mlflow() -> str:
    python = "/usr/bin/python3"
    if (
        not Path(python).exists()
        or subprocess.run([python, "-c", "import mlflow"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    ):
        pytest.skip(f"there is no Python without mlflow at {python}")
    return python


async def test_a_python_without_mlflow_runs_the_job_without_metrics(home, tmp_path, monkeypatch):
    python = python_without_mlflow()
    (home / "mlflow.db").unlink()
    monkeypatch.setenv("FOOTPLATE_LOCAL_PYTHON", python)
    other = open_workspace("local")
    command = "python -c 'import sys; print(sys.executable)'; until test -e outputs/go; do sleep 0.05; done"
    await other.submit(job_file(tmp_path, command), "plain")
    job = await until_job(other, "plain", lambda job: job.status == "Running")
    assert job.note == f"no metrics: mlflow is not installed for {python}"
    (home / "jobs" / "plain" / "outputs" / "go").touch()
    assert (await ended(other, "plain")).status == "Completed"
    assert await other.metrics("plain") == {}
    assert await log(other, "plain") == f"{python}\n"
    assert f"The job runs with {python}" in await log(other, "plain", "system_logs/supervisor.log")


async def test_mlflow_runs_end_as_the_job_ended_whatever_the_script_said(workspace, home, tmp_path):
    for name, command in (
        ("good", "true"),
        ("bad", "python -c 'import mlflow; mlflow.log_metric(\"a\", 1); raise SystemExit(3)'"),
    ):
        await workspace.submit(job_file(tmp_path, command), name)
        await ended(workspace, name)
    await workspace.submit(job_file(tmp_path, WAIT), "ugly")
    await until_job(workspace, "ugly", lambda job: job.status == "Running")
    await workspace.cancel("ugly")
    await ended(workspace, "ugly")
    with Store(home).read() as db:
        runs = dict(db.execute("SELECT name, mlflow_run_id FROM job").fetchall())
    statuses = run_statuses(home)
    assert {name: statuses[run] for name, run in runs.items()} == {
        "good": "FINISHED",
        "bad": "FAILED",
        "ugly": "KILLED",
    }
