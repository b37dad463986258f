"""What every workspace promises about models: registered, found, downloaded; on this machine and on Azure alike."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio
from tests.at_work import ended, until_job
from tests.contract.grounds import jsonable

from footplate.operations import download as operations
from footplate.workspace import Conflict, Invalid, NotFound

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours

DOCUMENT = {"format": 1, "classes": ["wren", "robin"], "metrics": {"best_val_acc": 0.75}, "input_shape": [3, 32, 32]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def folder(ground):
    """A model's files."""
    made = ground.folder / "model"
    (made / "deep").mkdir(parents=True)
    (made / "model.json").write_text(json.dumps(DOCUMENT))
    (made / "deep" / "weights.bin").write_bytes(bytes(range(256)) * 40)
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def birds(ground, folder):
    """A model of two versions."""
    first = await ground.workspace.register("birds", folder, "two birds")
    second = await ground.workspace.register("birds", folder)
    return first, second


async def test_a_folder_becomes_a_model_whose_versions_count_up(birds):
    first, second = birds
    assert (first.reference, first.description, first.job) == ("birds:1", "two birds", None)
    assert second.reference == "birds:2"
    assert first.class_names == ("wren", "robin")
    assert first.best_metric == ("best_val_acc", 0.75)
    assert first.created <= second.created
    assert jsonable(first.document())["classes"] == ["wren", "robin"]


async def test_references_find_it(ground, birds):
    workspace = ground.workspace
    for reference, version in (
        ("birds:1", "1"),
        ("azureml:birds:1", "1"),
        ("birds@latest", "2"),
        ("birds", "2"),
        ("azureml:birds@latest", "2"),
    ):
        assert (await workspace.model(reference)).reference == f"birds:{version}"
    for reference in ("birds:3", "parrots", "parrots@latest"):
        with pytest.raises(NotFound):
            await workspace.model(reference)


async def test_models_come_newest_first(ground, birds):
    listed = [model.reference for model in await ground.workspace.models() if model.name == "birds"]
    assert listed == ["birds:2", "birds:1"]


async def test_its_files_are_downloaded_as_they_were_registered(ground, birds, folder, tmp_path):
    told = []
    count = await ground.workspace.download_model("birds:1", tmp_path, lambda done, total: told.append((done, total)))
    files = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "model.json": (folder / "model.json").read_bytes(),
        "deep/weights.bin": (folder / "deep" / "weights.bin").read_bytes(),
    }
    assert count == 2
    assert told[-1][0] == sum(map(len, files.values()))
    again = await operations.model(ground.workspace, "birds", tmp_path / "latest")
    assert (again.name, again.files) == ("birds:2", 2)


async def test_a_file_in_the_way_of_a_download_stays(ground, birds, tmp_path):
    (tmp_path / "model.json").write_text("mine")
    with pytest.raises(Conflict):
        await ground.workspace.download_model("birds:1", tmp_path)
    assert (tmp_path / "model.json").read_text() == "mine"
    with pytest.raises(NotFound):
        await ground.workspace.download_model("birds:9", tmp_path / "other")


async def test_what_a_job_wrote_becomes_a_model_that_names_it(ground):
    await ground.submit("trainer", "model")
    job = await ended(ground.workspace, "trainer")
    model = await ground.workspace.register("trained", "trainer", "of a job")
    assert (model.reference, model.job, model.description) == ("trained:1", "trainer", "of a job")
    assert job.status == "Completed"
    assert model.lineage.get("job") == "trainer"
    with pytest.raises(NotFound):
        await ground.workspace.register("trained", "nobody")


async def test_any_output_of_a_job_becomes_a_model_by_its_name_or_as_the_only_one(ground, tmp_path):
    await ground.submit("keeper", "named", "outputs: {kept: {type: uri_folder}}\n")
    assert (await ended(ground.workspace, "keeper")).status == "Completed"
    for given in ({}, {"output": "kept"}):
        model = await ground.workspace.register("kept", "keeper", **given)
        assert (model.type, model.job, model.size) == ("custom_model", "keeper", 100)
    await ground.workspace.download_model(model.reference, tmp_path)
    assert [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] == [b"w" * 100]
    with pytest.raises(NotFound):
        await ground.workspace.register("kept", "keeper", output="other")
    with pytest.raises(Invalid):
        await ground.workspace.register("kept", "keeper", output="default")


async def test_a_job_that_goes_on_is_not_registered(ground):
    await ground.submit("going", "long")
    await until_job(ground.workspace, "going", lambda job: job.status == "Running")
    with pytest.raises(Conflict):
        await ground.workspace.register("going", "going")
    await ground.workspace.cancel("going")


@pytest.mark.parametrize("name", ["-birds", "../birds", ".birds", "a b", ""])
async def test_what_is_no_name_is_refused(ground, folder, name):
    with pytest.raises(Invalid):
        await ground.workspace.register(name, folder)


async def test_an_empty_folder_and_none_are_refused(ground, tmp_path):
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(Invalid):
            await ground.workspace.register("hollow", source)
    with pytest.raises(NotFound):
        await ground.workspace.model("hollow")


async def test_a_version_is_deleted_or_the_workspace_says_why_not(ground, folder):
    made = await ground.workspace.register("doomed", folder)
    if reason := ground.workspace.capabilities.get("delete_model"):
        with pytest.raises(Invalid) as refused:
            await ground.workspace.delete_model(made.reference)
        assert refused.value.sentence == reason
        return
    await ground.workspace.delete_model(made.reference)
    with pytest.raises(NotFound):
        await ground.workspace.model(made.reference)
    with pytest.raises(NotFound):
        await ground.workspace.delete_model(made.reference)
