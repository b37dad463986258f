"""A job's outputs and a model's files fetched over a socket: whole or not at all, gone on with, never outside their folder."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import pytest
from tests.wire import faults

from footplate.azure import downloads
from footplate.workspace import Conflict, Invalid, NotAllowed, NotFound, Unreachable

ROOT = "ExperimentRun/dcid.wren/outputs"


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(downloads, "_PIECE", 1000)


def put(wire, files, root=ROOT, box="azureml"):
    for path, data in files.items():
        with wire.lock:
            wire.state.put_blob(box, f"{root}/{path}", data)


def reads(wire, name):
    return [seen for seen in wire.requests if seen.method == "GET" and seen.path.endswith(name)]


def parts(folder):
    return sorted(path for path in folder.rglob("*") if path.name.endswith(".part"))


@pytest.fixture
def files(wire):
    """Files of all sizes, with odd names."""
    made = {
        "model/model.json": b"{}",
        "model/weights.bin": os.urandom(5500),
        "empty.txt": b"",
        "a b/naïve 名前 [bold] 100%.txt": b"x" * 1000,
        "exactly.bin": os.urandom(2000),
    }
    wire.seed.job("wren")
    put(wire, made)
    return made


async def test_all_files_arrive_with_their_bytes_and_progress_ends_at_the_whole(azure, files, tmp_path):
    seen = []
    assert await azure.download("wren", "default", tmp_path / "to", lambda *told: seen.append(told)) == len(files)
    for path, data in files.items():
        assert (tmp_path / "to" / path).read_bytes() == data
    assert parts(tmp_path) == []
    total = sum(map(len, files.values()))
    assert {told[1] for told in seen} == {total}
    assert seen[0][0] == 0
    assert seen[-1][0] == total
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


async def test_what_is_there_is_not_fetched_again_and_what_is_in_the_way_stays(wire, azure, files, tmp_path):
    await azure.download("wren", "default", tmp_path, None)
    (tmp_path / "model" / "model.json").unlink()
    wire.requests.clear()
    assert await azure.download("wren", "default", tmp_path, None) == len(files)
    assert not reads(wire, "weights.bin")
    assert reads(wire, "model.json")
    (tmp_path / "model" / "weights.bin").write_bytes(b"mine")
    (tmp_path / "model" / "model.json").unlink()
    with pytest.raises(Conflict, match=r"weights\.bin is in the way"):
        await azure.download("wren", "default", tmp_path, None)
    assert (tmp_path / "model" / "weights.bin").read_bytes() == b"mine"
    assert not (tmp_path / "model" / "model.json").exists()  # nothing was fetched


async def test_a_download_that_was_cut_goes_on_at_the_same_byte(wire, azure, files, tmp_path):
    wire.faults.add("GET", r"weights\.bin", faults.fail("firewall"), times=None, skip=3)
    with pytest.raises(NotAllowed, match="firewall"):
        await azure.download("wren", "default", tmp_path, None)
    assert not (tmp_path / "model" / "weights.bin").exists()
    (part,) = parts(tmp_path)
    assert part.read_bytes() == files["model/weights.bin"][:3000]
    wire.faults.clear()
    wire.requests.clear()
    assert await azure.download("wren", "default", tmp_path, None) == len(files)
    assert len(reads(wire, "weights.bin")) == 3  # of six
    assert (tmp_path / "model" / "weights.bin").read_bytes() == files["model/weights.bin"]
    assert parts(tmp_path) == []


async def test_a_file_that_is_replaced_meanwhile_is_never_mixed(wire, azure, files, tmp_path):
    new = os.urandom(5500)

    def replace(done, total):
        begun = []
        with suppress(FileNotFoundError):  # another file of the four at once is whole meanwhile
            begun = [part for part in parts(tmp_path / "model") if part.stat().st_size]
        if begun:
            put(wire, {"model/weights.bin": new})

    with pytest.raises(Conflict, match="changed while it was read"):
        await azure.download("wren", "default", tmp_path, replace)
    assert not (tmp_path / "model" / "weights.bin").exists()
    assert not parts(tmp_path / "model")
    await azure.download("wren", "default", tmp_path, None)
    assert (tmp_path / "model" / "weights.bin").read_bytes() == new


@pytest.mark.parametrize("name", ["../out.txt", "a/../../out.txt", "a//b.txt", "./out.txt", "/etc/passwd"])
async def test_a_name_that_leads_out_of_the_folder_is_refused_before_anything_is_fetched(
    wire, azure, files, tmp_path, name
):
    put(wire, {name: b"bad"})
    with pytest.raises(Invalid, match="leads out of the folder"):
        await azure.download("wren", "default", tmp_path / "to", None)
    assert list(tmp_path.rglob("out.txt")) == list((tmp_path / "to").rglob("*")) == []


async def test_a_link_in_the_folder_is_not_followed_out_of_it(azure, files, tmp_path):
    outside, to = tmp_path / "outside", tmp_path / "to"
    outside.mkdir()
    to.mkdir()
    (to / "model").symlink_to(outside)
    with pytest.raises(Conflict, match="leads out of"):
        await azure.download("wren", "default", to, None)
    (to / "model").unlink()
    (to / "exactly.bin").symlink_to(outside / "new.bin")
    with pytest.raises(Conflict, match="in the way"):
        await azure.download("wren", "default", to, None)
    assert list(outside.iterdir()) == []


async def test_a_file_in_a_folders_place_and_a_full_disk_are_sentences(wire, azure, files, tmp_path, monkeypatch):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(Conflict):
        await azure.download("wren", "default", tmp_path, None)
    put(wire, {"model": b"both"})
    with pytest.raises(Invalid, match="both a file and a folder"):
        await azure.download("wren", "default", tmp_path / "new", None)


async def test_folders_that_are_listed_as_empty_files_are_none(wire, azure, files, tmp_path):
    put(wire, {"model": b"", "a b": b"", "hollow/": b""})
    assert await azure.download("wren", "default", tmp_path, None) == len(files)
    assert (tmp_path / "model").is_dir()
    output = {one.name: one for one in await azure.outputs("wren")}["default"]
    assert (output.files, output.size) == (len(files), sum(map(len, files.values())))


async def test_named_outputs_and_single_files_are_fetched_where_they_lie(wire, azure, tmp_path):
    folder = "azureml://datastores/workspaceblobstore/paths/kept/"
    one = "azureml://datastores/workspaceblobstore/paths/lists/classes.txt"
    outputs = {
        "scores": {"uri": folder, "jobOutputType": "uri_folder"},
        "list": {"uri": one, "jobOutputType": "uri_file"},
        "later": {"jobOutputType": "uri_folder"},
    }
    wire.seed.job("wren", outputs=outputs)
    put(wire, {"a.csv": b"1,2", "b/c.csv": b"3"}, "kept", "azureml-blobstore-1")
    put(wire, {"classes.txt": b"wren\n", "classes.txt.old": b"no"}, "lists", "azureml-blobstore-1")
    assert await azure.download("wren", "scores", tmp_path / "scores", None) == 2
    assert (tmp_path / "scores" / "b" / "c.csv").read_bytes() == b"3"
    assert await azure.download("wren", "list", tmp_path / "list", None) == 1
    assert (tmp_path / "list" / "classes.txt").read_bytes() == b"wren\n"
    assert await azure.download("wren", "later", tmp_path / "later", None) == 0
    with pytest.raises(NotFound, match="has no output 'nothing'"):
        await azure.download("wren", "nothing", tmp_path, None)
    with pytest.raises(NotFound, match="'nobody'"):
        await azure.download("nobody", "default", tmp_path, None)


async def test_a_models_files_are_fetched(wire, azure, tmp_path):
    wire.seed.model("birds", "2")
    assert await azure.download_model("birds:2", tmp_path, None) == 1
    assert (tmp_path / "model.onnx").read_bytes() == b"onnx" * 256
    with pytest.raises(NotFound):
        await azure.download_model("birds:3", tmp_path, None)


async def test_old_signatures_cost_nothing_and_a_dead_server_leaves_no_half_file(wire, azure, files, tmp_path):
    await azure.outputs("wren")
    wire.expire_addresses()
    await azure.download("wren", "default", tmp_path / "first", None)
    wire.faults.add("GET", r"exactly\.bin", faults.cut(10), times=None, skip=1)
    with pytest.raises(Unreachable):
        await azure.download("wren", "default", tmp_path / "second", None)
    assert not (tmp_path / "second" / "exactly.bin").exists()


async def test_two_downloads_at_once_do_not_mix(wire, azure, files, tmp_path):
    wire.faults.add("GET", r"weights\.bin", faults.slow(0.1), times=None)
    results = await asyncio.gather(
        *(azure.download("wren", "default", tmp_path, None) for _ in range(2)), return_exceptions=True
    )
    assert results == [len(files)] * 2
    assert len(reads(wire, "weights.bin")) == 6  # by one of them
    assert (tmp_path / "model" / "weights.bin").read_bytes() == files["model/weights.bin"]


async def test_a_download_that_is_given_up_writes_no_more(wire, azure, files, tmp_path):
    wire.faults.add("GET", r"weights\.bin", faults.slow(0.1), times=None)
    begun = asyncio.Event()
    task = asyncio.create_task(azure.download("wren", "default", tmp_path, lambda done, total: begun.set()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "model" / "weights.bin").exists()


@pytest.mark.parametrize("why", ["identity", "no right to the secret"])
async def test_without_a_secret_the_sign_ins_own_data_role_opens_the_storage(wire, azure, files, tmp_path, why):
    if why == "identity":
        wire.state.datastores["workspaceartifactstore"]["properties"]["credentials"] = {"credentialsType": "None"}
    else:
        wire.faults.add("POST", "/listSecrets", faults.fail("role"), times=None)
    assert await azure.download("wren", "default", tmp_path / "to", None) == len(files)
    assert not any("sig" in seen.query for seen in wire.requests)
    wire.blobs.data_role = False
    with pytest.raises(NotAllowed, match="no data role on the storage account") as refused:
        await azure.download("wren", "default", tmp_path / "other", None)
    assert "Storage Blob Data Reader" in refused.value.next_step
