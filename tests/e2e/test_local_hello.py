"""Jobs as the public examples have them, unchanged by where they run: variables, inputs, outputs, several nodes and processes."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from tests.at_work import all_jobs, ended, job_file, log, ranks

from footplate.jobfile.document import read
from footplate.workspace import Invalid

NODES = "resources: {instance_count: 2}\n"


def of_ranks(count):
    return [f"user_logs/std_log_process_{rank}.txt" for rank in range(count)]


async def every_log(workspace, name, count):
    return [await log(workspace, name, path) for path in of_ranks(count)]


async def test_environment_variables_come_as_text(workspace, tmp_path):
    more = "environment_variables: {GREETING: hello, COUNT: 3, YES: true, RATE: 1.0e-5, NOTHING: null, ON: 'on'}\n"
    await workspace.submit(job_file(tmp_path, "echo $GREETING $COUNT $YES $RATE [$NOTHING] $ON", more), "hello")
    assert (await ended(workspace, "hello")).status == "Completed"
    assert await log(workspace, "hello") == "hello 3 True 1e-05 [] on\n"


async def test_a_job_file_runs_as_it_lies_there(workspace, tmp_path):
    """Code, literals, a file, a folder, an output that nobody makes before, ./outputs and ./logs: from a file on the disk."""
    (tmp_path / "src").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "wren.csv").write_text("name,grams\nwren,9\n")
    (tmp_path / "src" / "main.py").write_text(
        "import argparse, os, pathlib\n"
        "arguments = argparse.ArgumentParser()\n"
        "for name in ('csv', 'folder', 'rate', 'flag', 'out'):\n"
        "    arguments.add_argument(f'--{name}')\n"
        "given = arguments.parse_args()\n"
        "print(pathlib.Path(given.csv).read_text().splitlines()[1], os.listdir(given.folder), given.rate, given.flag)\n"
        "pathlib.Path(given.out, 'model.txt').write_text('weights')\n"
        "pathlib.Path('outputs/own.txt').write_text('own')\n"
        "pathlib.Path('logs/story.log').write_text('story')\n"
        "print(os.environ['AZUREML_RUN_ID'], os.environ['AZURE_ML_OUTPUT_model'] == given.out)\n"
    )
    file = tmp_path / "hello.yml"
    file.write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
        "code: src\n"
        "command: >-\n"
        "  python main.py\n"
        "  --csv ${{inputs.csv}} --folder ${{ inputs.folder }}\n"
        "  --rate ${{inputs.rate}} --flag ${{inputs.flag}} --out ${{outputs.model}}\n"
        "inputs:\n"
        "  csv: {type: uri_file, path: data/wren.csv}\n"
        "  folder: {type: uri_folder, path: ./data}\n"
        "  rate: 1.0e-4\n"
        "  flag: true\n"
        "outputs:\n"
        "  model:\n"
        "environment: azureml://registries/azureml/environments/sklearn-1.5/labels/latest\n"
        "display_name: hello\n"
        "experiment_name: hello-birds\n"
        "description: says hello\n"
    )
    submitted = await workspace.submit(read(file))
    job = await ended(workspace, submitted.name)
    assert (job.status, job.display_name, job.experiment, job.compute) == ("Completed", "hello", "hello-birds", "local")
    assert await log(workspace, job.name) == f"wren,9 ['wren.csv'] 0.0001 True\n{job.name} True\n"
    assert await log(workspace, job.name, "logs/story.log") == "story"
    assert {output.name: output.files for output in await workspace.outputs(job.name)} == {"default": 1, "model": 1}


async def test_two_nodes_with_two_processes_each_are_four_ranks(workspace, tmp_path):
    say = "echo RANK $RANK of $WORLD_SIZE, $LOCAL_RANK on node $NODE_RANK $AZUREML_CR_NODE_RANK, $MASTER_ADDR; pwd"
    await workspace.submit(job_file(tmp_path, say, ranks(2) + NODES), "echo")
    job = await ended(workspace, "echo")
    assert (job.status, job.nodes, job.world_size) == ("Completed", 2, 4)
    logs = await every_log(workspace, "echo", 4)
    told = [text.splitlines()[0] for text in logs]
    assert told == [f"RANK {r} of 4, {r % 2} on node {r // 2} {r // 2}, 127.0.0.1" for r in range(4)]
    assert [Path(text.splitlines()[1]).name for text in logs] == ["node-0", "node-0", "node-1", "node-1"]


async def test_tensorflow_processes_meet_at_free_ports_of_their_own(workspace, tmp_path):
    """Each process listens where the others look for it, and hears from all of them."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "meet.py").write_text(
        "import json, os, socket, time\n"
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "task, cluster = config['task'], config['cluster']\n"
        "everyone = cluster['worker'] + cluster.get('ps', [])\n"
        "own = cluster[task['type']][task['index']]\n"
        "server = socket.create_server((own.split(':')[0], int(own.split(':')[1])))\n"
        "server.settimeout(30)\n"
        "for other in everyone:\n"
        "    deadline = time.monotonic() + 30\n"
        "    while True:\n"
        "        try:\n"
        "            socket.create_connection((other.split(':')[0], int(other.split(':')[1]))).close()\n"
        "            break\n"
        "        except ConnectionRefusedError:\n"
        "            assert time.monotonic() < deadline\n"
        "for _ in everyone:\n"
        "    server.accept()\n"
        "print(task['type'], task['index'], len(cluster['worker']), len(cluster.get('ps', [])), os.path.basename(os.getcwd()))\n"
    )
    more = "code: src\ndistribution: {type: tensorflow, worker_count: 3, parameter_server_count: 1}\n" + NODES
    await workspace.submit(job_file(tmp_path, "python meet.py", more), "meet")
    assert (await ended(workspace, "meet")).status == "Completed"
    assert await every_log(workspace, "meet", 4) == [
        "worker 0 3 1 node-0\n",
        "worker 1 3 1 node-0\n",
        "worker 2 3 1 node-1\n",
        "ps 0 3 1 node-0\n",
    ]


MPI = "distribution: {type: mpi, process_count_per_instance: 2}\n" + NODES
MPI_SAY = (
    "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, $OMPI_COMM_WORLD_LOCAL_RANK on node $AZUREML_CR_NODE_RANK in "
    "$(basename $PWD) under ${PMIX_RANK:+mpirun}"
)


def without_mpirun(monkeypatch):
    """A PATH on which there is no mpirun."""
    kept = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "mpirun").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(kept))


async def test_mpi_ranks_know_their_place_without_mpirun_too(workspace, tmp_path, monkeypatch):
    without_mpirun(monkeypatch)
    await workspace.submit(job_file(tmp_path, MPI_SAY, MPI), "places")
    assert (await ended(workspace, "places")).status == "Completed"
    assert await every_log(workspace, "places", 4) == [
        f"{rank} of 4, {rank % 2} on node {rank // 2} in node-{rank // 2} under\n" for rank in range(4)
    ]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun on PATH")
async def test_mpi_ranks_are_started_by_mpirun_where_there_is_one(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, MPI_SAY, MPI), "places")
    assert (await ended(workspace, "places")).status == "Completed"
    told = await every_log(workspace, "places", 4)
    assert [text.partition(" under")[0] for text in told] == [
        f"{rank} of 4, {rank % 2} on node {rank // 2} in node-{rank // 2}" for rank in range(4)
    ]
    assert all("mpirun" in text for text in told)
    await workspace.submit(
        job_file(tmp_path, "[ $OMPI_COMM_WORLD_RANK != 2 ] || { echo no wren; exit 7; }", MPI), "bad"
    )
    job = await ended(workspace, "bad")
    assert (job.status, job.error) == ("Failed", "rank 2: no wren (exit code 7)")


async def test_a_distribution_that_needs_more_than_processes_is_refused_in_a_sentence(workspace, tmp_path):
    with pytest.raises(Invalid, match=r"distribution 'ray', which the local workspace does not run"):
        await workspace.submit(job_file(tmp_path, "true", "distribution: {type: ray}\n"), "x")
    assert await all_jobs(workspace) == []


async def test_what_the_python_lacks_of_the_conda_file_is_said_and_stays(workspace, tmp_path):
    (tmp_path / "conda.yml").write_text(
        "dependencies:\n  - python=3.10\n  - pip\n  - conda-forge::birds-of-conda=2\n"
        "  - pip: [pytest, 'PyYAML>=5', 'no_such-package[extra]==1.0', '--extra-index-url x']\n"
    )
    file = job_file(tmp_path, "true")
    file = file.edit({"environment": {"image": "python:3.11", "conda_file": "./conda.yml"}})
    await workspace.submit(file, "poor")
    job = await ended(workspace, "poor")
    assert job.status == "Completed"
    assert job.note == "its Python lacks birds-of-conda, no_such-package, which its conda file asks for"


async def test_a_job_is_archived_renamed_and_tagged(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "true", "tags: {a: '1', b: '2'}\n"), "old")
    await ended(workspace, "old")
    assert (await workspace.archive("old")).archived
    assert await all_jobs(workspace) == []
    assert not (await workspace.restore("old")).archived
    changed = await workspace.update_job("old", display_name="wren", tags={"a": None, "c": "3"})
    assert (changed.display_name, changed.tags) == ("wren", {"b": "2", "c": "3"})
    assert (await workspace.update_job("old")).tags == {"b": "2", "c": "3"}
    assert [job.name for job in await all_jobs(workspace)] == ["old"]


def test_ports_are_free_and_all_different():
    from footplate.local.launcher import _free_ports

    ports = _free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
