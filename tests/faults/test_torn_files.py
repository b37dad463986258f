"""Files that a power cut tore, of each kind: a sentence, never a traceback; lists go on, and what can be made anew is."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing

import pytest
from tests import served
from tests.at_work import all_jobs, ended, job_file, supervisor_pid, until_job
from tests.commands import Inside
from tests.faults.killing import killed_at_each_step

from footplate.jobfile.document import parse
from footplate.local import fetching, layout
from footplate.local.models import Models
from footplate.local.store import _SCHEMAS, SCHEMA_VERSION, Store
from footplate.workspace import Invalid, Unexpected

TORN = (b"", b'{"path": "/x', b"\0" * 64, b"\xff\xfe\x00{", b"[]")


async def test_a_torn_job_file_is_a_sentence_and_its_job_stays_whole(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, "true"), "torn")
    assert (await ended(workspace, "torn")).status == "Completed"
    for file in ("job.yml", "source.json"):
        place = home / "jobs" / "torn" / file
        whole = place.read_bytes()
        for content in TORN:
            place.write_bytes(content)
            if file == "source.json" and content == b"[]":
                assert (await workspace.job_file("torn")).text  # the folder of then is lost, the file is there
                continue
            with pytest.raises(Unexpected, match=r"The job file .*'torn'") as told:
                await workspace.job_file("torn")
            assert told.value.next_step
        place.write_bytes(whole)
    (home / "jobs" / "torn" / "job.yml").write_bytes(b"")
    assert [job.name for job in await all_jobs(workspace)] == ["torn"]
    assert await workspace.log_files("torn")
    await workspace.delete_job("torn")
    assert await all_jobs(workspace) == []


async def test_a_sweep_whose_kept_file_is_torn_fails_in_a_sentence_when_it_is_taken_over(workspace, home, tmp_path):
    text = (
        "type: sweep\ntrial: {command: 'sleep 600 # ${{search_space.x}}', environment: 'azureml:e:1'}\n"
        "search_space: {x: {type: choice, values: [1]}}\nsampling_algorithm: grid\n"
        "objective: {goal: maximize, primary_metric: acc}\nlimits: {max_total_trials: 1}\n"
    )
    await workspace.submit(parse(text, tmp_path / "sweep.yml", tmp_path), "s")
    await until_job(workspace, "s", lambda job: "1 active" in job.note)
    (home / "jobs" / "s" / "job.yml").write_bytes(b"")
    os.kill(supervisor_pid(home, "s"), signal.SIGKILL)
    sweep = await ended(workspace, "s")
    assert sweep.status == "Failed"
    assert "The job file that was kept of 's' is damaged" in (sweep.error or "")
    assert (await ended(workspace, "s_0")).status == "Canceled"  # nobody would look after it


def test_torn_keys_figures_and_models_of_an_endpoint_are_told_and_the_rest_goes_on(tmp_path):
    with served.workspace(tmp_path / "home") as (store, endpoints):
        endpoints.create("birds")
        folder = layout.endpoint_folder(store.home, "birds")
        served.write_model(served.add_model(store, "torn"))
        model = layout.model_folder(store.home, "torn", 1)
        os.kill(served.gateway_pid(store, "birds"), signal.SIGKILL)
        served.wait_for(lambda: endpoints.endpoint("birds").state == "Stopped", "the gateway's end")
        for content in TORN:
            (folder / "keys.json").write_bytes(content)
            (folder / "figures.json").write_bytes(content)
            (model / "model.json").write_bytes(content)
            assert [one.name for one in endpoints.list()] == ["birds"]
            assert endpoints.monitor("birds") == []
            assert {one.name for one in Models(store).list()} == {"colours", "torn"}
            with pytest.raises(Invalid, match=r"model\.json"):
                Models(store).register("again", model)
            with pytest.raises(Unexpected, match="The keys of endpoint 'birds' cannot be read"):
                endpoints.keys("birds")
            with pytest.raises(Unexpected, match="The keys of endpoint 'birds' cannot be read"):
                endpoints.start("birds")
        endpoints.delete("birds")
        endpoints.create("birds")
        assert endpoints.keys("birds").primary


async def test_what_is_acknowledged_is_on_the_disk_before_its_record(workspace, home, tmp_path, monkeypatch):
    """A power cut cannot be had here; what the kernel was asked to write down can be seen."""
    flushed: dict[int, int] = {}
    fsync = os.fsync

    def look(descriptor: int) -> None:
        fsync(descriptor)
        with Store(home).read() as db:
            flushed[os.fstat(descriptor).st_ino] = db.execute("SELECT count(*) FROM model").fetchone()[0]

    monkeypatch.setattr(os, "fsync", look)
    with Store(home).read() as db:
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL: a commit waits for the disk
    await workspace.submit(job_file(tmp_path, "true"), "job")
    await ended(workspace, "job")
    assert {(home / "jobs" / "job" / name).stat().st_ino for name in ("job.yml", "source.json")} <= set(flushed)
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "mine" / "deep" / "weights").write_text("1")
    await workspace.register("mine", tmp_path / "mine")
    for place in ("", "deep", "deep/weights"):
        assert flushed[(home / "models" / "mine" / "1" / place).stat().st_ino] == 0
    await workspace.create_endpoint("birds")
    assert (home / "endpoints" / "birds" / "keys.json").stat().st_ino in flushed
    await workspace.delete_endpoint("birds")


def test_a_cached_download_whose_record_is_torn_is_fetched_again(tmp_path):
    folder = tmp_path
    (folder / "content").write_bytes(b"x")
    for content in TORN:
        (folder / "record.json").write_bytes(content)
        assert fetching._kept(folder / "content", folder / "record.json") is None


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 20_000])
def test_a_torn_store_is_a_sentence_at_every_command(tmp_path, size):
    footplate = Inside(tmp_path)
    Store(footplate.home).prepare()
    (footplate.home / "jobs" / "there").mkdir(parents=True)
    file = footplate.home / "footplate.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    os.truncate(file, size)
    for command in (("jobs",), ("endpoints",), ("models",), ("clusters",)):
        done = footplate(*command)
        assert done.returncode == 1, (command, done.stdout, done.stderr)
        assert "footplate.db" in done.stderr or str(footplate.home) in done.stderr
        assert "Traceback" not in done.stderr
    assert file.stat().st_size == size  # left for whoever may mend it


MIGRATE = """
import sqlite3
from footplate.local import store as module
from pathlib import Path
home = Path(sys.argv[1])
connect = sqlite3.connect

def act(step):
    class Traced(module.Store):
        def _connect(self):
            db = super()._connect()
            # A statement is a step too: an audit event by another name.
            db.set_trace_callback(lambda _: sys.audit("os.rename"))
            return db
    Traced(home).prepare()
    return step
"""


def test_an_upgrade_of_the_store_that_is_killed_at_any_step_loses_nothing(tmp_path):
    home = tmp_path
    with closing(sqlite3.connect(home / "footplate.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for statement in _SCHEMAS[0].split(";\n"):
            db.execute(statement)
        db.execute("INSERT INTO endpoint (name, state, created) VALUES ('kept', 'Stopped', 0)")
        db.execute("PRAGMA user_version = 1")
    told = killed_at_each_step(MIGRATE, str(home))
    assert len(told) > 20
    with Store(home).read() as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
        assert [row[0] for row in db.execute("SELECT name FROM endpoint")] == ["kept"]
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    with closing(sqlite3.connect(home / "footplate.db.v1")) as kept:
        assert kept.execute("SELECT name FROM endpoint").fetchall() == [("kept",)]
