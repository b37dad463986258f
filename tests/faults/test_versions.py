"""A home that a newer footplate wrote, and a package that is upgraded while its jobs run."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.at_work import ended, job_file, until_job
from tests.commands import Inside

import footplate
from footplate.jobfile.document import parse
from footplate.local.store import SCHEMA_VERSION, Store

UNTIL = "until test -e {}; do sleep 0.05; done"


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder with its hash."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_home_of_a_newer_footplate_is_refused_in_a_sentence_and_nothing_is_written(tmp_path):
    command = Inside(tmp_path)
    Store(command.home).prepare()
    with closing(sqlite3.connect(command.home / "footplate.db")) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    job_file(tmp_path, "true")
    (tmp_path / "job.yml").write_text("command: 'true'\nenvironment: azureml:e:1\n")
    before = contents(command.home)
    for words in (
        ("jobs",),
        ("launch", "job.yml"),
        ("endpoint", "create", "birds"),
        ("clean", "--yes"),
        ("cancel", "x"),
    ):
        done = command(*words)
        assert done.returncode == 1, (words, done.stderr)
        assert "was written by a newer footplate" in done.stderr
        assert "Update footplate" in done.stderr
    assert contents(command.home) == before


async def test_a_package_that_is_taken_away_while_jobs_run_does_not_end_them(workspace, tmp_path, monkeypatch):
    """As an upgrade does it: the files of the version that runs are gone. All that a job still needs, it has loaded."""
    old, go = tmp_path / "old", tmp_path / "go"
    shutil.copytree(Path(footplate.__file__).parent, old / "footplate", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(old))
    wait = UNTIL.format(go)
    outputs = "outputs: {model: {type: custom_model, name: kept}, data: {type: uri_folder, name: facts}}\n"
    write = f"{wait}; echo 1 > ${{{{outputs.model}}}}/weights; echo 2 > ${{{{outputs.data}}}}/facts"
    await workspace.submit(job_file(tmp_path, write, outputs), "command")
    sweep = (
        f"type: sweep\ntrial: {{command: '{wait}; echo 1 > ${{{{outputs.m}}}}/w # ${{{{search_space.x}}}}', "
        "environment: 'azureml:e:1'}\n"
        "search_space: {x: {type: choice, values: [1]}}\nsampling_algorithm: grid\n"
        "objective: {goal: maximize, primary_metric: acc}\nlimits: {max_total_trials: 1}\n"
        "outputs: {m: {type: custom_model, name: best}}\n"
    )
    await workspace.submit(parse(sweep, tmp_path / "sweep.yml", tmp_path), "sweep")
    flow = f"type: pipeline\njobs:\n  one: {{command: '{wait}', environment: 'azureml:e:1'}}\n"
    await workspace.submit(parse(flow, tmp_path / "flow.yml", tmp_path), "flow")
    for name in ("command", "sweep_0", "flow-one"):
        await until_job_there(workspace, name)
    shutil.rmtree(old)
    go.touch()
    for name in ("command", "sweep", "sweep_0", "flow", "flow-one"):
        job = await ended(workspace, name)
        assert (job.name, job.status, job.error) == (name, "Completed", None)
    assert (await workspace.model("kept:1")).job == "command"
    assert "facts" in {asset.name for asset in await workspace.data_assets()}


async def until_job_there(workspace, name):
    """Wait until a job that another one starts is Running."""
    import asyncio

    from footplate.workspace import NotFound

    async with asyncio.timeout(60):
        while True:
            try:
                await until_job(workspace, name, lambda job: job.status == "Running")
            except NotFound:
                await asyncio.sleep(0.02)
            else:
                return
