"""What goes into a job on this machine and what comes out: inputs by mode, files from the web, outputs that are registered."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.at_work import all_jobs, ended, job_file, log, until_job

from footplate.workspace import Conflict, Invalid, NotFound

BIRDS = b"wren\nrobin\n" * 200_000


class Server(ThreadingHTTPServer):
    """A web server of this machine; what it serves, and how, the test says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.etag, self.md5, self.status = BIRDS, '"1"', "", 200
        self.asked: list[str] = []
        self.cut = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/some/birds%20of%20home.csv?sig=secret"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        unchanged = self.headers.get("If-None-Match") == self.server.etag
        status = 304 if unchanged else self.server.status
        self.server.asked.append(f"{status} {self.path}")
        self.send_response(status)
        self.send_header("ETag", self.server.etag)
        if self.server.md5:
            self.send_header("Content-MD5", self.server.md5)
        body = self.server.body if status == 200 else b""
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.server.go_on.wait(30)
        self.wfile.write(body[half : len(body) - self.server.cut])


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as made:
        made.close = made.server_close  # type: ignore[attr-defined]
        thread = threading.Thread(target=made.serve_forever, args=(0.02,))
        thread.start()
        yield made
        made.go_on.set()
        made.shutdown()
        thread.join()


def web(server, mode="ro_mount"):
    return f"inputs: {{birds: {{type: uri_file, path: '{server.url}', mode: {mode}}}}}\n"


COUNT = "wc -c < ${{inputs.birds}}; basename ${{inputs.birds}}"


async def test_a_file_of_the_web_is_downloaded_once_and_told_in_the_note(workspace, tmp_path, server):
    server.go_on.clear()
    await workspace.submit(job_file(tmp_path, COUNT, web(server)), "first")
    waiting = await until_job(workspace, "first", lambda job: "downloading" in job.note)
    assert waiting.status == "Preparing"
    assert waiting.note.startswith("downloading birds%20of%20home.csv: ")
    assert waiting.note.endswith(" of 2.2 MB")
    server.go_on.set()
    assert (await ended(workspace, "first")).status == "Completed"
    assert await log(workspace, "first") == f"{len(BIRDS)}\nbirds-of-home.csv\n"
    await workspace.submit(job_file(tmp_path, COUNT, web(server, "download")), "second")
    assert (await ended(workspace, "second")).status == "Completed"
    assert [asked[:3] for asked in server.asked] == ["200", "304"]
    server.body, server.etag = b"owl", '"2"'
    await workspace.submit(job_file(tmp_path, COUNT, web(server)), "third")
    await ended(workspace, "third")
    assert (await log(workspace, "third")).startswith("3\n")
    assert (await log(workspace, "first")).startswith(str(len(BIRDS)))


async def test_the_cached_file_serves_while_the_server_is_down_unless_it_was_changed(workspace, home, tmp_path, server):
    await workspace.submit(job_file(tmp_path, COUNT, web(server)), "first")
    await ended(workspace, "first")
    server.status, server.etag = 503, '"other"'
    await workspace.submit(job_file(tmp_path, COUNT, web(server)), "second")
    job = await ended(workspace, "second")
    assert job.status == "Completed"
    assert "the server answered 503: the copy of an earlier job is used" in job.note
    assert "secret" not in job.note
    (kept,) = (home / "cache" / "downloads").glob("*/content")
    assert "secret" not in (kept.parent / "record.json").read_text()
    kept.chmod(0o644)
    kept.write_bytes(b"x" * len(BIRDS))  # the same length: the hash tells
    await workspace.submit(job_file(tmp_path, COUNT, web(server)), "third")
    assert "answered 503" in (await ended(workspace, "third")).error


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"status": 404}, "the server answered 404"),
        ({"cut": 7}, "broke off after"),
        ({"md5": base64.b64encode(hashlib.md5(b"other").digest()).decode()}, "came damaged"),
    ],
)
async def test_what_cannot_be_downloaded_whole_fails_the_job_in_a_sentence(workspace, tmp_path, server, damage, words):
    for name, value in damage.items():
        setattr(server, name, value)
    await workspace.submit(job_file(tmp_path, COUNT, web(server)), "broken")
    job = await ended(workspace, "broken")
    assert job.status == "Failed"
    assert words in job.error
    assert "secret" not in job.error
    assert job.started is None


async def test_a_job_is_cancelled_in_the_middle_of_a_download(workspace, home, tmp_path, server):
    server.go_on.clear()
    await workspace.submit(job_file(tmp_path, COUNT, web(server)), "long")
    await until_job(workspace, "long", lambda job: "downloading" in job.note)
    await workspace.cancel("long")
    assert (await ended(workspace, "long")).status == "Canceled"  # while the server says nothing
    server.go_on.set()
    assert not list((home / "cache" / "downloads").glob("*/content"))


async def test_a_download_gives_the_job_a_copy_of_its_own(workspace, tmp_path):
    (tmp_path / "birds" / "deep").mkdir(parents=True)
    (tmp_path / "birds" / "deep" / "wren.txt").write_text("wren")
    (tmp_path / "one.txt").write_text("one")
    more = (
        "inputs:\n  folder: {type: uri_folder, path: ./birds, mode: download}\n"
        "  file: {type: uri_file, path: ./one.txt, mode: download}\n"
        "  mounted: {type: uri_folder, path: ./birds}\n"
    )
    command = "echo changed | tee ${{inputs.folder}}/deep/wren.txt > ${{inputs.file}}; cat ${{inputs.mounted}}/deep/*"
    await workspace.submit(job_file(tmp_path, command, more), "own")
    assert (await ended(workspace, "own")).status == "Completed"
    assert await log(workspace, "own") == "wren"
    assert (tmp_path / "one.txt").read_text() == "one"


async def test_direct_hands_the_address_on_as_it_is_written(workspace, tmp_path):
    more = "inputs: {d: {type: uri_folder, path: 'azureml://datastores/x/paths/birds', mode: direct}}\n"
    await workspace.submit(job_file(tmp_path, "echo ${{inputs.d}}", more), "direct")
    await ended(workspace, "direct")
    assert await log(workspace, "direct") == "azureml://datastores/x/paths/birds\n"


@pytest.mark.parametrize(
    "path",
    ["wasbs://birds@account.blob.core.windows.net/data", "azureml://datastores/x/paths/birds", "abfss://x@y/z"],
)
async def test_what_lies_in_azures_storage_is_refused_with_what_to_do(workspace, tmp_path, path):
    with pytest.raises(Invalid, match=r"lies in Azure's storage.*Download it"):
        await workspace.submit(job_file(tmp_path, "ls ${{inputs.d}}", f"inputs: {{d: {{path: '{path}'}}}}\n"), "x")
    assert await all_jobs(workspace) == []


async def test_an_address_of_no_known_kind_is_not_called_azures(workspace, tmp_path):
    more = "inputs: {d: {type: uri_file, path: 'ftp://birds.example/one.csv'}}\n"
    with pytest.raises(Invalid, match=r"ftp://birds\.example/one\.csv is an address that is not read here.*https://"):
        await workspace.submit(job_file(tmp_path, "cat ${{inputs.d}}", more), "x")
    assert await all_jobs(workspace) == []


REGISTERED = """outputs:
  pairs: {type: uri_folder, name: pairs}
  list: {type: uri_file, name: bird-list, version: 7}
  net: {type: custom_model, name: bird-net}
"""
WRITE = """echo wren > ${{outputs.pairs}}/a.txt; echo robin > ${{outputs.list}}
echo '{"classes": ["a", "b"]}' > ${{outputs.net}}/model.json"""


async def test_named_outputs_are_registered_when_the_job_has_completed(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, WRITE, REGISTERED), "maker")
    job = await ended(workspace, "maker")
    assert job.status == "Completed"
    assert job.note == "output pairs is pairs:1; output list is bird-list:7; output net is bird-net:1"
    assert [stage.name for stage in job.stages] == ["Queued", "Preparing", "Running", "Finalizing"]
    found = {asset.name: asset for asset in await workspace.data_assets()}
    assert (found["pairs"].version, found["pairs"].type) == ("1", "uri_folder")
    assert (found["bird-list"].version, found["bird-list"].type) == ("7", "uri_file")
    model = await workspace.model("bird-net:1")
    assert (model.job, model.class_names, model.lineage["job"]) == ("maker", ("a", "b"), "maker")
    await workspace.delete_job("maker")
    more = "inputs:\n  p: {type: uri_folder, path: azureml:pairs@latest}\n  l: {type: uri_file, path: 'azureml:bird-list:7'}\n"
    more += "  n: {type: custom_model, path: 'azureml:bird-net:1'}\n"
    command = "cat ${{inputs.p}}/a.txt ${{inputs.l}}; ls ${{inputs.n}}"
    await workspace.submit(job_file(tmp_path, command, more), "user")
    assert (await ended(workspace, "user")).status == "Completed"
    assert await log(workspace, "user") == "wren\nrobin\nmodel.json\n"
    with pytest.raises(Conflict, match="bird-list:7, which is there already"):
        await workspace.submit(job_file(tmp_path, WRITE, REGISTERED), "again")


async def test_what_was_not_written_or_failed_is_not_registered(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "true", REGISTERED), "idle")
    job = await ended(workspace, "idle")
    assert job.status == "Completed"
    assert job.note.count("was not registered") == 3
    await workspace.submit(job_file(tmp_path, f"{WRITE}; exit 3", REGISTERED), "broken")
    assert (await ended(workspace, "broken")).status == "Failed"
    assert [asset.name for asset in await workspace.data_assets()] == ["birds"]
    assert await workspace.models() == []


@pytest.mark.parametrize(("name", "version"), [("a b", "1"), ("x", "1.0"), ("x", "0"), ("../x", "1")])
async def test_what_cannot_be_registered_is_refused_at_submit(workspace, tmp_path, name, version):
    more = f"outputs: {{o: {{type: uri_folder, name: '{name}', version: '{version}'}}}}\n"
    with pytest.raises(Invalid):
        await workspace.submit(job_file(tmp_path, "true", more), "x")


async def test_outputs_are_downloaded_whole_and_not_twice(workspace, tmp_path):
    command = (
        "mkdir outputs/deep; echo one > outputs/deep/1.txt; echo list > ${{outputs.list}}; ln -s gone outputs/dead"
    )
    await workspace.submit(job_file(tmp_path, command, "outputs: {list: {type: uri_file}, empty: {}}\n"), "maker")
    await ended(workspace, "maker")
    folder = tmp_path / "fetched"
    progress: list[tuple[int, int | None]] = []
    assert await workspace.download("maker", "default", folder, lambda done, total: progress.append((done, total))) == 1
    assert progress[-1] == (4, 4)
    assert (folder / "deep" / "1.txt").read_text() == "one\n"
    before = (folder / "deep" / "1.txt").stat()
    assert await workspace.download("maker", "default", folder) == 1
    assert (folder / "deep" / "1.txt").stat().st_mtime_ns == before.st_mtime_ns
    (folder / "deep" / "1.txt").write_text("something else")
    with pytest.raises(Conflict):
        await workspace.download("maker", "default", folder)
    assert await workspace.download("maker", "list", folder) == 1
    assert (folder / "list").read_text() == "list\n"
    assert await workspace.download("maker", "empty", folder) == 0
    with pytest.raises(NotFound, match="It has: default, list, empty"):
        await workspace.download("maker", "other", folder)
    with pytest.raises(NotFound):
        await workspace.download("nobody", "default", folder)
    assert list(folder.rglob(".*")) == []


async def test_a_job_whose_files_have_names_that_are_not_utf8_runs_and_is_recorded(workspace, tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/v\xf6gel"))
    folder.mkdir()
    (folder / "wren.txt").write_text("wren\n")
    more = "inputs: {d: {type: uri_folder, path: ., mode: download}}\n"
    started = await workspace.submit(job_file(folder, "cat '${{inputs.d}}/wren.txt'", more), "odd")
    assert "v?gel" in started.command
    job = await ended(workspace, "odd")
    assert (job.status, job.error) == ("Completed", None)
    assert await log(workspace, "odd") == "wren\n"
    with pytest.raises(Invalid, match="not UTF-8"):
        await workspace.job("v\udcf6gel")
