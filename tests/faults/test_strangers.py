"""Pids that other programs have got since: a stranger is neither taken for the old process nor touched."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from tests import served
from tests.at_work import ended, job_file, supervisor_pid, until, until_job

from footplate.jobfile.document import parse
from footplate.local import processes
from footplate.local.store import Store
from footplate.workspace import Conflict


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A program of somebody else's, which leads a process group of its own."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


async def test_a_stranger_with_a_supervisors_and_a_ranks_pid_lives_on_and_the_job_has_failed(
    workspace, home, tmp_path, stranger
):
    await workspace.submit(job_file(tmp_path, "sleep 600"), "lost")
    await until_job(workspace, "lost", lambda job: job.status == "Running")
    with Store(home).read() as db:
        (rank,) = db.execute("SELECT pid FROM rank").fetchone()
    former = supervisor_pid(home, "lost")
    os.kill(former, signal.SIGKILL)
    until(lambda: processes.start_time(rank) is None)
    with Store(home).write() as db:  # their start times stay
        db.execute("UPDATE job SET supervisor_pid = ?", (stranger.pid,))
        db.execute("UPDATE rank SET pid = ?", (stranger.pid,))
    with pytest.raises(Conflict):
        await workspace.cancel("lost")
    with pytest.raises(Conflict):
        await workspace.rehearse("lost", "kill-rank")
    assert (await workspace.job("lost")).status == "Failed"
    assert (await workspace.cluster("local")).busy_nodes == 0
    await workspace.delete_job("lost")
    assert stranger.poll() is None
    assert not processes.stopped(stranger.pid)


@pytest.mark.parametrize("kind", ["sweep", "pipeline"])
async def test_a_stranger_with_an_overseers_pid_is_none_and_another_goes_on(workspace, home, tmp_path, stranger, kind):
    go, ran = tmp_path / "go", tmp_path / "ran"
    command = f"until test -e {go}; do sleep 0.05; done; echo x >> {ran}"
    text = {
        "sweep": f"type: sweep\ntrial: {{command: '{command} # ${{{{search_space.x}}}}', environment: 'azureml:e:1'}}\n"
        "search_space: {x: {type: choice, values: [1]}}\nsampling_algorithm: grid\n"
        "objective: {goal: maximize, primary_metric: acc}\nlimits: {max_total_trials: 1}\n",
        "pipeline": f"type: pipeline\njobs:\n  one: {{command: '{command}', environment: 'azureml:e:1'}}\n",
    }[kind]
    await workspace.submit(parse(text, tmp_path / "parent.yml", tmp_path), "p")
    await until_job(workspace, "p", lambda job: "1 active" in job.note or "now: one" in job.note)
    former = supervisor_pid(home, "p")
    os.kill(former, signal.SIGKILL)
    until(lambda: processes.start_time(former) is None)
    with Store(home).write() as db:
        db.execute("UPDATE job SET supervisor_pid = ? WHERE name = 'p'", (stranger.pid,))
    assert (await workspace.job("p")).status == "Running"
    assert supervisor_pid(home, "p") not in (former, stranger.pid)
    go.touch()
    assert (await ended(workspace, "p")).status == "Completed"
    assert ran.read_text() == "x\n"
    assert stranger.poll() is None


def test_a_stranger_with_a_gateways_and_a_servers_pid_is_left_alone(tmp_path, stranger):
    with served.workspace(tmp_path / "home") as (store, endpoints):
        endpoints.create("birds")
        former = served.gateway_pid(store, "birds")
        os.kill(former, signal.SIGKILL)
        served.wait_for(lambda: not served.processes_of(store.home), "the gateway's end")
        with store.write() as db:
            db.execute("UPDATE endpoint SET gateway_pid = ?", (stranger.pid,))
            db.execute(
                "INSERT INTO deployment (endpoint, name, model, state, created, server_pid, server_started) "
                "VALUES ('birds', 'blue', 'colours:1', 'Succeeded', 0, ?, 1)",
                (stranger.pid,),
            )
        found = endpoints.endpoint("birds")
        assert (found.state, found.deployments[0].state) == ("Stopped", "Stopped")
        endpoints.start("birds")
        assert served.gateway_pid(store, "birds") not in (former, stranger.pid)
        with store.write() as db:
            db.execute("UPDATE endpoint SET gateway_pid = ?", (stranger.pid,))
        endpoints.delete("birds")
        served.wait_for(lambda: not served.processes_of(store.home), "the end of every process")
        assert stranger.poll() is None
