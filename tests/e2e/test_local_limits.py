"""Full disks, ten thousand jobs and data that is drawn once."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.at_work import (
    all_jobs,
    ended,
    job_file,
)

from footplate.local.data import DataAssets
from footplate.local.jobs import Jobs
from footplate.local.store import Store
from footplate.settings import Settings
from footplate.workspace import JobFilter, Unexpected


async def test_a_full_disk_refuses_a_job_and_keeps_nothing_of_it(workspace, home, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "big.bin").write_bytes(b"x" * 8_000_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, hard))  # as root, permissions would not bind
    try:
        with pytest.raises(Unexpected, match="could not be written"):
            await workspace.submit(job_file(tmp_path, "true", "code: src\n"), "big")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert await all_jobs(workspace) == []
    assert list((home / "jobs").iterdir()) == []


async def test_a_jobs_folder_that_cannot_be_made_is_a_sentence(workspace, home, tmp_path):
    (home / "jobs").write_text("a file in the place of the folder")
    with pytest.raises(Unexpected, match="could not be written") as refused:
        await workspace.submit(job_file(tmp_path, "true"), "nowhere")
    assert refused.value.next_step
    assert await all_jobs(workspace) == []


async def test_sample_data_that_cannot_be_drawn_fails_the_job_in_a_sentence(workspace, home, tmp_path):
    (home / "data").write_text("a file in the place of the folder")
    more = "inputs: {data: {type: uri_folder, path: 'azureml:birds@latest'}}\n"
    await workspace.submit(job_file(tmp_path, "ls ${{inputs.data}}", more), "blind")
    job = await ended(workspace, "blind")
    assert job.status == "Failed"
    assert "The sample pictures could not be drawn into" in (job.error or "")


@pytest.mark.slow
def test_the_sample_data_is_drawn_once_however_many_ask(home):
    pytest.importorskip("PIL", reason="pillow is not installed: nothing can be drawn")
    Store(home).prepare()
    script = (
        "import sys; from pathlib import Path; from footplate.local.data import DataAssets;"
        "from footplate.local.store import Store; print(DataAssets(Store(Path(sys.argv[1]))).prepare('birds'))"
    )
    started = [subprocess.Popen([sys.executable, "-c", script, str(home)], stdout=subprocess.PIPE) for _ in range(3)]
    told = [process.communicate()[0].decode().strip() for process in started]
    assert told == [str(home / "data" / "birds" / "1")] * 3
    assert len(list((home / "data" / "birds" / "1" / "train").rglob("*.jpg"))) == 240
    assert len(list((home / "data" / "birds" / "1" / "val").rglob("*.jpg"))) == 200


class CountingStore(Store):
    """A store that counts the statements that read or write rows."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.statements: list[str] = []

    def _connect(self):
        db = super()._connect()
        db.set_trace_callback(self.statements.append)
        return db


def test_ten_thousand_jobs_are_paged_with_two_queries_a_page(home):
    store = CountingStore(home)
    store.prepare()
    with store.write() as db:
        db.executemany(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, ended, nodes, ranks_per_node, "
            "command, plan) VALUES (?, ?, 'command', ?, 'x', 'local', ?, 1, 1, 1, 'true', '{}')",
            # Sixteen jobs share each moment, so that pages have to break between equal ones.
            [(f"j{i}", f"job {i}", "Failed" if i % 100 == 0 else "Completed", float(i // 16)) for i in range(10_000)],
        )
    jobs = Jobs(store, Settings(), DataAssets(store))
    store.statements.clear()
    names, before, pages = [], None, 0
    while True:
        page, before = jobs.page(JobFilter(), before, 1000)
        names += [job.name for job in page]
        pages += 1
        if before is None:
            break
    assert names == [f"j{i}" for i in reversed(range(10_000))]
    selects = [statement for statement in store.statements if "FROM job" in statement]
    assert len(selects) == 2 * pages
    store.statements.clear()
    page, before = jobs.page(JobFilter(status=("Failed",), words=("job 9900",)), None, 1000)
    assert ([job.name for job in page], before) == (["j9900"], None)
    assert len([statement for statement in store.statements if "FROM job" in statement]) == 2
