"""Killed supervisors, submitters and watchdogs: no rank outlives them, no record lies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.at_work import (
    PIDS_OF_A_FAMILY,
    WAIT,
    children_of,
    ended,
    family,
    gone,
    job_file,
    log,
    ranks,
    run_statuses,
    supervisor_pid,
    until,
    until_job,
)

from footplate.local.store import Store
from footplate.workspace.open import open_workspace


async def test_ranks_die_with_a_killed_supervisor_and_the_next_reader_records_it(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, PIDS_OF_A_FAMILY, ranks(2)), "orphan")
    pids = family(home, "orphan", 2)
    pid = supervisor_pid(home, "orphan")
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pids), 10)  # by the watchdog: nobody has read the store yet
    job = await workspace.job("orphan")
    assert job.status == "Failed"
    assert f"its supervisor (pid {pid}) ended unexpectedly" in (job.error or "")
    (cluster,) = await workspace.clusters()
    assert cluster.busy_nodes == 0
    with Store(home).read() as db:
        run_id = db.execute("SELECT mlflow_run_id FROM job").fetchone()[0]
    assert run_statuses(home)[run_id] == "FAILED"


async def test_a_reader_kills_ranks_that_outlived_supervisor_and_watchdog(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, PIDS_OF_A_FAMILY, ranks(1)), "outlived")
    pids = family(home, "outlived", 1)
    supervisor = supervisor_pid(home, "outlived")
    (watchdog,) = [pid for pid in children_of(supervisor) if pid not in pids]
    os.kill(watchdog, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    assert (await until_job(workspace, "outlived", lambda job: not job.active)).status == "Failed"
    until(lambda: gone(pids), 5)


async def test_a_killed_supervisor_lets_the_next_job_in(one_node, workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, WAIT), "dies")
    await until_job(workspace, "dies", lambda job: job.status == "Running")
    await workspace.submit(job_file(tmp_path, "true"), "next")
    await until_job(workspace, "next", lambda job: "dies" in job.note)
    os.kill(supervisor_pid(home, "dies"), signal.SIGKILL)
    assert (await ended(workspace, "next")).status == "Completed"


async def test_a_supervisor_killed_in_the_queue_fails_its_job(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, WAIT), "holder")
    await until_job(workspace, "holder", lambda job: job.status == "Running")
    await workspace.submit(job_file(tmp_path, "true"), "queued")
    os.kill(supervisor_pid(home, "queued"), signal.SIGKILL)
    assert (await ended(workspace, "queued")).status == "Failed"
    assert (await workspace.job("holder")).status == "Running"


def submit_and_be_killed(job_file: Path, name: str) -> None:
    """Submit a job in a process of its own and kill that with everything in its session."""
    script = (
        "import asyncio, sys, time; from pathlib import Path; from footplate.jobfile import read;"
        "from footplate.workspace.open import open_workspace;"
        "asyncio.run(open_workspace('local').submit(read(Path(sys.argv[1])), sys.argv[2])); print('submitted', flush=True);"
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(job_file), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as submitter:
        assert submitter.stdout is not None
        assert submitter.stdout.readline() == b"submitted\n"
        os.killpg(submitter.pid, signal.SIGKILL)


async def test_a_job_outlives_its_killed_submitter(workspace, home, tmp_path):
    file = tmp_path / "survivor.yml"
    file.write_text(job_file(tmp_path, "until test -e outputs/go; do sleep 0.05; done; echo still here").text)
    submit_and_be_killed(file, "survivor")
    await until_job(workspace, "survivor", lambda job: job.status == "Running")
    (home / "jobs" / "survivor" / "outputs" / "go").touch()
    assert (await ended(workspace, "survivor")).status == "Completed"
    assert await log(workspace, "survivor") == "still here\n"


def test_a_supervisor_without_a_record_removes_the_folder_of_its_job(home):
    Store(home).prepare()
    folder = home / "jobs" / "ghost"
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "footplate.local.supervisor", str(home), "ghost", "command"], check=False
    )
    assert done.returncode == 1
    assert not folder.exists()


async def test_a_hangup_does_not_end_a_job(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, "until test -e outputs/go; do sleep 0.05; done; echo went on"), "deaf")
    await until_job(workspace, "deaf", lambda job: job.status == "Running")
    os.kill(supervisor_pid(home, "deaf"), signal.SIGHUP)
    (home / "jobs" / "deaf" / "outputs" / "go").touch()
    assert (await ended(workspace, "deaf")).status == "Completed"


async def test_a_terminated_supervisor_cancels_its_job(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, PIDS_OF_A_FAMILY, ranks(1)), "asked")
    pids = family(home, "asked", 1)
    os.kill(supervisor_pid(home, "asked"), signal.SIGTERM)
    assert (await ended(workspace, "asked")).status == "Canceled"
    assert gone(pids)


async def test_a_folder_that_a_killed_submit_left_is_no_hindrance(workspace, home, tmp_path):
    (home / "jobs" / "again").mkdir(parents=True)
    (home / "jobs" / "again" / "half.txt").touch()
    await workspace.submit(job_file(tmp_path, "true"), "again")
    assert (await ended(workspace, "again")).status == "Completed"
    assert not (home / "jobs" / "again" / "half.txt").exists()


STRAY = """
(setsid bash -c 'echo $$ > outputs/stray.new; mv outputs/stray.new outputs/stray; exec sleep 600' &)
until test -e outputs/stray; do sleep 0.05; done
"""
"""Commands that leave a process in a session of its own, whose parent has ended."""


def stray(home: Path, job: str) -> list[int]:
    """Wait for the stray process of a job to have written its pid."""
    file = home / "jobs" / job / "outputs" / "stray"
    until(file.exists)
    return [int(file.read_text())]


async def test_a_cancel_ends_what_left_the_process_group(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, f"{STRAY}\nsleep 600"), "fled")
    pids = stray(home, "fled")
    await workspace.cancel("fled")
    assert (await ended(workspace, "fled")).status == "Canceled"
    assert gone(pids)


async def test_what_hides_its_environment_is_ended_too(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, STRAY.replace("exec sleep", "exec env -i sleep") + "sleep 600"), "hidden")
    pids = stray(home, "hidden")
    await workspace.cancel("hidden")
    assert (await ended(workspace, "hidden")).status == "Canceled"
    assert gone(pids)


async def test_the_end_of_the_ranks_ends_what_left_the_process_group(workspace, home, tmp_path):
    for name, code, status in (("well", 0, "Completed"), ("ill", 3, "Failed")):
        await workspace.submit(job_file(tmp_path, f"{STRAY}\nexit {code}"), name)
        assert (await ended(workspace, name)).status == status
        assert gone(stray(home, name))


async def test_the_watchdog_ends_what_left_the_process_group(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, f"{STRAY}\nsleep 600"), "fled")
    pids = stray(home, "fled")
    await until_job(workspace, "fled", lambda job: job.status == "Running")
    os.kill(supervisor_pid(home, "fled"), signal.SIGKILL)
    until(lambda: gone(pids), 10)  # nobody has read the store yet


async def test_a_reader_ends_what_left_the_process_group(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, f"{STRAY}\necho $$ > outputs/rank; sleep 600"), "fled")
    pids = stray(home, "fled")
    until(lambda: (home / "jobs" / "fled" / "outputs" / "rank").exists())
    rank = int((home / "jobs" / "fled" / "outputs" / "rank").read_text())
    supervisor = supervisor_pid(home, "fled")
    watchdog = next(pid for pid in children_of(supervisor) if pid not in (*pids, rank))
    os.kill(watchdog, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    assert (await ended(workspace, "fled")).status == "Failed"
    until(lambda: gone(pids), 5)


def with_metrics(home, metrics_store):
    """Make a home with a metrics' store, which takes a first job seconds."""
    home.mkdir()
    shutil.copy(metrics_store, home / "mlflow.db")


async def test_a_job_of_the_same_name_in_another_home_is_left_alone(
    workspace, home, tmp_path, monkeypatch, metrics_store
):
    await workspace.submit(job_file(tmp_path, f"{STRAY}\nsleep 600"), "same")
    pids = stray(home, "same")
    other = tmp_path / "other"
    with_metrics(other, metrics_store)
    monkeypatch.setenv("FOOTPLATE_HOME", str(other))
    elsewhere = open_workspace("local")
    await elsewhere.submit(job_file(tmp_path, "true"), "same")
    assert (await ended(elsewhere, "same")).status == "Completed"
    await elsewhere.close()
    assert not gone(pids)
    assert (await workspace.job("same")).status == "Running"


async def test_a_job_submitted_from_inside_a_job_outlives_it(workspace, home, tmp_path, monkeypatch, metrics_store):
    """As a console in a job does it: with the environment of that job."""
    await workspace.submit(job_file(tmp_path, f"env -0 > outputs/new; mv outputs/new outputs/env\n{WAIT}"), "outer")
    file = home / "jobs" / "outer" / "outputs" / "env"
    until(file.exists)
    inner_home = tmp_path / "inner"
    with_metrics(inner_home, metrics_store)
    pairs = (line.partition("=") for line in file.read_text().split("\0") if line)
    for name, _, value in pairs:
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FOOTPLATE_HOME", str(inner_home))
    inside = open_workspace("local")
    await inside.submit(job_file(tmp_path, "until test -e outputs/go; do sleep 0.05; done"), "inner")
    await until_job(inside, "inner", lambda job: job.status == "Running")
    await workspace.cancel("outer")
    assert (await ended(workspace, "outer")).status == "Canceled"
    (inner_home / "jobs" / "inner" / "outputs" / "go").touch()
    assert (await ended(inside, "inner")).status == "Completed"
    await inside.close()
