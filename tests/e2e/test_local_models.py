"""Models of the local workspace: the contract in its corners, on real folders."""

from __future__ import annotations

import json

import pytest
from tests.at_work import ended, job_file, until_job

from footplate.jobfile.document import parse
from footplate.local.store import Store
from footplate.workspace import Conflict, Invalid, NotFound

ARTEFACT = """mkdir outputs/model
echo weights > outputs/model/w.bin
echo log > outputs/other.txt
echo '{"classes": ["hen"]}' > outputs/model/model.json
"""


async def test_a_model_comes_from_the_model_folder_of_a_jobs_outputs(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, ARTEFACT), "trainer")
    await ended(workspace, "trainer")
    model = await workspace.register("birds", "trainer", "the first")
    assert (model.name, model.version, model.type, model.job) == ("birds", "1", "custom_model", "trainer")
    assert (model.description, model.tags, model.metadata) == ("the first", {"job": "trainer"}, {"classes": ["hen"]})
    files = {path.name for path in (home / "models" / "birds" / "1").iterdir()}
    assert files == {"w.bin", "model.json"}
    assert model.size == sum(path.stat().st_size for path in (home / "models" / "birds" / "1").iterdir())


async def test_without_a_model_folder_the_whole_outputs_are_the_model(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, "echo x > outputs/x.txt; exit 3"), "failed-late")
    await ended(workspace, "failed-late")
    model = await workspace.register("rescued", "failed-late")
    assert model.metadata == {}
    assert (home / "models" / "rescued" / "1" / "x.txt").read_text() == "x\n"


async def test_the_named_output_that_is_a_model_is_registered_where_outputs_is_empty(workspace, home, tmp_path):
    kinds = "outputs: {net: {type: mlflow_model}, other: {type: custom_model}, table: {type: uri_folder}}\n"
    wrote = "echo 1 > ${{outputs.table}}/t; echo w > ${{outputs.net}}/MLmodel; echo ${{outputs.other}}"
    await workspace.submit(job_file(tmp_path, wrote, kinds), "one")
    await ended(workspace, "one")
    model = await workspace.register("birds", "one")
    assert (model.type, model.job) == ("mlflow_model", "one")
    assert [path.name for path in (home / "models" / "birds" / "1").iterdir()] == ["MLmodel"]
    await workspace.submit(job_file(tmp_path, f"{wrote}; echo w > ${{{{outputs.other}}}}/w", kinds), "two")
    await ended(workspace, "two")
    with pytest.raises(Invalid, match="several models: net, other"):
        await workspace.register("birds", "two")
    await workspace.submit(job_file(tmp_path, wrote.partition(";")[0] + "; echo ${{outputs.net}}", kinds), "none")
    await ended(workspace, "none")
    with pytest.raises(Invalid, match="'none' has written no model"):
        await workspace.register("birds", "none")


PIPELINE = """type: pipeline
outputs: {trained: {type: custom_model}}
jobs:
  train:
    command: echo w > ${{outputs.net}}/w.bin
    environment: azureml:any@latest
    outputs: {net: "${{parent.outputs.trained}}"}
"""


async def test_a_pipelines_model_is_registered_from_the_pipeline(workspace, home, tmp_path):
    await workspace.submit(parse(PIPELINE, tmp_path / "pipeline.yml", tmp_path), "line")
    assert (await ended(workspace, "line")).status == "Completed"
    model = await workspace.register("birds", "line")
    assert (model.job, (home / "models" / "birds" / "1" / "w.bin").read_text()) == ("line", "w\n")
    assert not (home / "models" / "birds" / "1").is_symlink()


async def test_a_model_outlives_its_job(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, ARTEFACT), "trainer")
    await ended(workspace, "trainer")
    await workspace.register("birds", "trainer")
    await workspace.delete_job("trainer")
    assert (home / "models" / "birds" / "1" / "w.bin").exists()
    assert (await workspace.model("birds")).job == "trainer"


async def test_versions_count_up_and_references_find_them(workspace, tmp_path):
    for number in (1, 2):
        folder = tmp_path / f"m{number}"
        folder.mkdir()
        (folder / "model.json").write_text(json.dumps({"number": number}))
        await workspace.register("birds", folder)
    assert [(model.reference, model.metadata["number"]) for model in await workspace.models()] == [
        ("birds:2", 2),
        ("birds:1", 1),
    ]
    for reference, version in (("birds", "2"), ("birds@latest", "2"), ("azureml:birds:1", "1"), ("birds:1", "1")):
        assert (await workspace.model(reference)).version == version
    for reference in ("birds:3", "parrots"):
        with pytest.raises(NotFound):
            await workspace.model(reference)
    await workspace.delete_model("birds:1")
    assert [model.reference for model in await workspace.models()] == ["birds:2"]
    with pytest.raises(NotFound):
        await workspace.delete_model("birds:1")


async def test_what_cannot_be_registered_leaves_nothing(workspace, home, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model.json").write_text("{no json")
    listing = tmp_path / "listing"
    listing.mkdir()
    (listing / "model.json").write_text("[1]")
    await workspace.submit(job_file(tmp_path, "true"), "nothing")
    await ended(workspace, "nothing")
    for name, source, error in (
        ("birds", empty, Invalid),
        ("birds", broken, Invalid),
        ("birds", listing, Invalid),
        ("birds", tmp_path / "not-there", Invalid),
        ("../birds", listing, Invalid),
        (".birds", listing, Invalid),
        ("birds", "nobody", NotFound),
        ("birds", "nothing", Invalid),
    ):
        with pytest.raises(error):
            await workspace.register(name, source)
    assert await workspace.models() == []
    assert not (home / "models").exists()


@pytest.mark.parametrize(
    "document",
    [
        {"classes": 5, "metrics": "good", "input_shape": "3x32x32", "preprocessing": []},
        {"classes": {"a": 1}, "metrics": {"best_val_acc": "0.9"}, "input_shape": [3, "32", None], "preprocessing": 1},
        {"classes": ["hen", 3], "metrics": [1], "input_shape": [[3]], "preprocessing": None},
        {"classes": None, "metrics": {"best_val_acc": True}, "input_shape": [True, -1], "preprocessing": "x"},
        {"classes": "abc", "metrics": {"best_val_acc": float("nan")}, "input_shape": 3.5},
        {"metrics": {"best_val_acc": 10**400}, "input_shape": [0]},
        {},
    ],
)
async def test_a_model_json_of_any_shape_is_listed(workspace, tmp_path, document):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(document))
    await workspace.register("birds", folder)
    (model,) = await workspace.models()
    assert (model.class_names, model.input_shape, model.best_metric, model.preprocessing) == ((), (), None, None)
    shown = model.document()
    assert (shown["classes"], shown["metrics"]) == (None, None)
    json.dumps(shown, allow_nan=False)


async def test_what_a_model_json_says_in_the_trainers_shape_is_read(workspace, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    metrics = {"best_val_acc": 1, "val_loss": 0.25, "lost": float("inf")}
    document = {
        "classes": ["hen", "\ud800"],
        "metrics": metrics,
        "input_shape": [3, 32, 32],
        "preprocessing": {"crop": 32},
    }
    (folder / "model.json").write_text(json.dumps(document))
    model = await workspace.register("birds", folder)
    assert model.class_names == ("hen", "?")
    assert model.input_shape == (3, 32, 32)
    assert model.best_metric == ("best_val_acc", 1.0)
    assert model.preprocessing == {"crop": 32}
    shown = model.document()
    assert (shown["classes"], shown["metrics"]) == (["hen", "?"], {"best_val_acc": 1, "val_loss": 0.25})


@pytest.mark.parametrize("stored", ["[1]", '"text"', "7", "null", "{no json", "[" * 100_000])
async def test_a_row_whose_metadata_is_no_object_does_not_end_the_list(workspace, home, tmp_path, stored):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "w.bin").write_text("weights\n")
    await workspace.register("birds", folder)
    with Store(home).write() as db:
        db.execute("UPDATE model SET metadata = ?", (stored,))
    assert [(model.reference, model.metadata) for model in await workspace.models()] == [("birds:1", {})]


async def test_a_model_json_without_bottom_is_refused(workspace, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "model.json").write_text('{"a": ' * 50_000)
    with pytest.raises(Invalid, match="nested too deep"):
        await workspace.register("birds", folder)


async def test_a_job_that_goes_on_cannot_be_registered(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, f"{ARTEFACT}while true; do sleep 0.1; done"), "trainer")
    await until_job(workspace, "trainer", lambda job: job.status == "Running")
    with pytest.raises(Conflict):
        await workspace.register("birds", "trainer")


async def test_a_model_is_data_for_a_job(workspace, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "w.bin").write_text("weights\n")
    await workspace.register("birds", folder)
    more = "inputs: {m: {type: custom_model, path: 'azureml:birds@latest'}}\n"
    await workspace.submit(job_file(tmp_path, "cat ${{inputs.m}}/w.bin", more), "reader")
    assert (await ended(workspace, "reader")).status == "Completed"
    assert (await workspace.read_log("reader", "user_logs/std_log.txt", 0, 100)).data == b"weights\n"


async def test_a_model_that_a_deployment_uses_cannot_be_deleted(workspace, home, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "w.bin").write_text("weights\n")
    await workspace.register("birds", folder)
    with Store(home).write() as db:
        db.execute("INSERT INTO endpoint (name, state, created) VALUES ('aviary', 'Stopped', 0)")
        db.execute(
            "INSERT INTO deployment (endpoint, name, model, state, created) VALUES ('aviary', 'blue', 'birds:1', 'Stopped', 0)"
        )
    with pytest.raises(Conflict, match="aviary/blue"):
        await workspace.delete_model("birds")
    assert (home / "models" / "birds" / "1" / "w.bin").exists()


async def test_a_jobs_model_is_stored_once_and_cannot_be_written_over(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, ARTEFACT), "trainer")
    await ended(workspace, "trainer")
    await workspace.register("birds", "trainer")
    ours, theirs = home / "models" / "birds" / "1" / "w.bin", home / "jobs" / "trainer" / "outputs" / "model" / "w.bin"
    assert ours.samefile(theirs)
    assert ours.stat().st_mode & 0o222 == 0


async def test_what_a_jobs_outputs_link_to_stays_somebody_elses(workspace, home, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "bird.png").write_text("picture\n")
    await workspace.submit(job_file(tmp_path, f"echo weights > outputs/w.bin; ln -s {data} outputs/data"), "linker")
    await ended(workspace, "linker")
    await workspace.register("birds", "linker")
    kept = home / "models" / "birds" / "1" / "data" / "bird.png"
    assert (kept.read_text(), kept.samefile(data / "bird.png")) == ("picture\n", False)
    assert (data / "bird.png").stat().st_mode & 0o200


async def test_a_folder_of_somebody_else_is_copied(workspace, home, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "w.bin").write_text("weights\n")
    await workspace.register("birds", folder)
    (folder / "w.bin").write_text("others\n")
    assert (home / "models" / "birds" / "1" / "w.bin").read_text() == "weights\n"


async def test_a_model_says_what_it_comes_from(workspace, home, tmp_path):
    artefact = tmp_path / "m"
    artefact.mkdir()
    (artefact / "model.json").write_text('{"git_commit": "0a1b", "metrics": {"best_val_acc": 0.5}}')
    copied = f"mkdir outputs/model; cp {artefact}/model.json outputs/model; echo ${{{{inputs.lr}}}}"
    await workspace.submit(job_file(tmp_path, copied, "inputs: {lr: 0.1}\n"), "trainer")
    await ended(workspace, "trainer")
    model = await workspace.register("birds", "trainer")
    found = dict(model.lineage)
    assert (found["job"], found["metric"], found["commit"]) == ("trainer", {"best_val_acc": 0.5}, "0a1b")
    assert "lr" in found["parameters"]
    assert model.document()["lineage"] == found
    assert (await workspace.register("birds", artefact)).lineage == {"metric": {"best_val_acc": 0.5}, "commit": "0a1b"}

    with Store(home).write() as db:
        columns = "name, display_name, type, status, experiment, compute, created, nodes, ranks_per_node, command, plan"
        for name, kind, best in (("hunt", "sweep", "trainer"), ("vain", "sweep", None)):
            db.execute(
                f"INSERT INTO job ({columns}, best_child, primary_metric)"
                " VALUES (?, '', ?, 'Running', '', '', 0, 1, 1, '', '', ?, 'acc')",
                (name, kind, best),
            )
        db.execute(
            """UPDATE job SET parent = 'hunt', parameters = '{"lr": 0.3}', metric = 0.75 WHERE name = 'trainer'"""
        )
    best = await workspace.register("birds", "hunt")
    assert best.job == "trainer"
    assert best.lineage == {
        "job": "hunt", "trial": "trainer", "parameters": {"lr": 0.3}, "metric": {"acc": 0.75}, "commit": "0a1b"
    }  # fmt: skip
    with pytest.raises(Conflict, match="'vain' has no best trial: it is Running"):
        await workspace.register("birds", "vain")
    with Store(home).write() as db:
        db.execute("UPDATE job SET note = 'no best trial; trials: 3 Canceled' WHERE name = 'vain'")
    with pytest.raises(Conflict, match="'vain' has no best trial: trials: 3 Canceled"):
        await workspace.register("birds", "vain")
    with Store(home).write() as db:
        db.execute("DELETE FROM job WHERE name IN ('hunt', 'vain')")


async def test_a_models_files_are_handed_out_whole(workspace, tmp_path):
    folder = tmp_path / "m"
    (folder / "deep").mkdir(parents=True)
    (folder / "w.bin").write_bytes(b"x" * 2_000_000)
    (folder / "deep" / "notes.txt").write_text("notes\n")
    await workspace.register("birds", folder)
    told: list[tuple[int, int | None]] = []
    out = tmp_path / "out"
    assert await workspace.download_model("birds:1", out, lambda done, total: told.append((done, total))) == 2
    assert (out / "w.bin").read_bytes() == b"x" * 2_000_000
    assert (out / "deep" / "notes.txt").read_text() == "notes\n"
    assert told[-1] == (2_000_006, 2_000_006)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    before = (out / "w.bin").stat().st_ino
    (out / "deep" / "notes.txt").unlink()
    assert await workspace.download_model("birds", out) == 2
    assert (out / "w.bin").stat().st_ino == before  # what is there and the same is not copied again
    assert {path.name for path in out.rglob("*")} == {"w.bin", "deep", "notes.txt"}

    (out / "deep" / "notes.txt").unlink()
    for mine in ("mine\n", "y" * 2_000_000):  # other weights of the same size are others all the same
        (out / "w.bin").write_text(mine)
        with pytest.raises(Conflict, match=r"w\.bin is in the way"):
            await workspace.download_model("birds", out)
        assert (out / "w.bin").read_text() == mine
    assert not (out / "deep" / "notes.txt").exists()
    with pytest.raises(NotFound):
        await workspace.download_model("parrots", out)
