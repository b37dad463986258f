"""What every workspace promises about jobs: their life, logs, metrics and outputs; on this machine and on Azure alike."""

from __future__ import annotations

import pytest
import pytest_asyncio
from tests.at_work import all_jobs, ended, log, until_job
from tests.contract.grounds import LINES, REASON, VALUES, Ground, jsonable

from footplate.jobfile import read
from footplate.operations.clone import clone
from footplate.workspace import Conflict, Invalid, Job, JobFilter, NotFound

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # the SDK's, beside ours

MORE = "experiment_name: aviary\ndisplay_name: the first\ntags: {owner: me, kind: test}\ninputs: {who: birds}\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trained(ground: Ground) -> Job:
    """A job that has trained."""
    return await ground.train("trained", MORE)


async def test_a_job_goes_on_and_completes(ground, trained):
    assert (trained.name, trained.display_name, trained.experiment, trained.type) == (
        "trained",
        "the first",
        "aviary",
        "command",
    )
    assert (trained.status, trained.active, trained.error) == ("Completed", False, None)
    assert trained.tags == {"owner": "me", "kind": "test"}
    assert trained.inputs == {"who": "birds"}
    assert trained.started is not None
    assert trained.ended is not None
    assert trained.created <= trained.started <= trained.ended
    assert await ground.workspace.job("trained") == trained
    assert jsonable(trained.document())["status"] == "Completed"


async def test_its_stages_are_told_in_order(trained):
    assert trained.stages
    begun = [stage.started for stage in trained.stages]
    assert begun == sorted(begun)
    assert all(stage.ended is None or stage.ended >= stage.started for stage in trained.stages)
    assert "Running" in [stage.name for stage in trained.stages]


async def test_its_log_is_read_in_pieces(ground, trained):
    whole = "".join(f"{line}\n" for line in LINES)
    assert await log(ground.workspace, "trained") == whole
    path = "user_logs/std_log.txt"
    chunk = await ground.workspace.read_log("trained", path, 2, 5)
    assert (chunk.offset, chunk.data, chunk.total) == (2, whole.encode()[2:7], len(whole))
    assert (await ground.workspace.read_log("trained", path, len(whole) - 2, 100)).data == whole.encode()[-2:]
    assert (await ground.workspace.read_log("trained", path, len(whole), 100)).data == b""
    files = [file.path for file in await ground.workspace.log_files("trained")]
    assert files[0] == path
    with pytest.raises(NotFound):
        await ground.workspace.read_log("trained", "user_logs/other.txt", 0, 10)


async def test_its_metrics_come_in_step_order(ground, trained):
    found = (await ground.workspace.metrics("trained"))["val_acc"]
    assert [(point.step, point.value) for point in found] == list(enumerate(VALUES))
    assert found[0].time <= found[1].time


async def test_its_outputs_are_listed_and_downloaded_whole(ground, trained, tmp_path):
    assert "default" in [output.name for output in await ground.workspace.outputs("trained")]
    told = []
    count = await ground.workspace.download(
        "trained", "default", tmp_path / "new", lambda done, total: told.append((done, total))
    )
    files = {path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert (count, files) == (2, {"model/model.json", "model/model.onnx"})
    assert (tmp_path / "new" / "model" / "model.onnx").read_bytes() == b"onnx" * 1000
    done = [one for one, _ in told]
    assert done == sorted(done)
    assert done[-1] >= 4000
    assert {total for _, total in told} <= {None, done[-1]}


async def test_what_is_there_with_its_content_is_not_fetched_again(ground, trained, tmp_path):
    await ground.workspace.download("trained", "default", tmp_path)
    kept = tmp_path / "model" / "model.onnx"
    before = kept.stat()
    (tmp_path / "model" / "model.json").unlink()
    await ground.workspace.download("trained", "default", tmp_path)
    assert (kept.stat().st_ino, kept.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (tmp_path / "model" / "model.json").is_file()


async def test_other_weights_of_the_same_size_are_in_the_way(ground, trained, tmp_path):
    await ground.workspace.download("trained", "default", tmp_path)
    other = tmp_path / "model" / "model.onnx"
    size = other.stat().st_size
    other.chmod(0o644)
    other.write_bytes(b"m" * size)
    with pytest.raises(Conflict):
        await ground.workspace.download("trained", "default", tmp_path)
    assert other.read_bytes() == b"m" * size


async def test_a_file_in_the_way_is_a_conflict_and_keeps_its_bytes(ground, trained, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").write_bytes(b"somebody's")
    with pytest.raises(Conflict):
        await ground.workspace.download("trained", "default", tmp_path)
    assert (tmp_path / "model" / "model.onnx").read_bytes() == b"somebody's"


async def test_an_output_that_is_not_there_is_not_found(ground, trained, tmp_path):
    with pytest.raises(NotFound):
        await ground.workspace.download("trained", "nothing", tmp_path)
    with pytest.raises(NotFound):
        await ground.workspace.download("nobody", "default", tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_failing_job_says_why(ground):
    await ground.submit("broken", "fail")
    job = await ended(ground.workspace, "broken")
    assert job.status == "Failed"
    assert REASON in (job.error or "")
    assert not job.active


async def test_a_taken_name_is_a_conflict(ground, trained):
    with pytest.raises(Conflict):
        await ground.workspace.submit(ground.file("print()"), "trained")
    assert (await ground.workspace.job("trained")).status == "Completed"


async def test_what_cannot_run_is_refused_before_anything_is_written(ground):
    file = ground.file("print()", "code: ./not-there\n")
    with pytest.raises(Invalid) as refused:
        await ground.workspace.submit(file, "refused")
    assert refused.value.sentence.endswith(".")
    with pytest.raises(NotFound):
        await ground.workspace.job("refused")


async def test_what_is_not_there_is_not_found(ground):
    workspace = ground.workspace
    for act in (
        workspace.job,
        workspace.children,
        workspace.services,
        workspace.cancel,
        workspace.archive,
        workspace.restore,
        workspace.update_job,
        workspace.log_files,
        workspace.metrics,
        workspace.outputs,
        workspace.job_file,
    ):
        with pytest.raises(NotFound):
            await act("nobody")
    with pytest.raises(NotFound):
        await workspace.read_log("nobody", "user_logs/std_log.txt", 0, 10)


async def test_jobs_come_newest_first_and_by_words_and_status(ground, trained):
    await ground.submit("wren-bad", "fail")
    await ended(ground.workspace, "wren-bad")
    await ground.submit("wren-good", "short")
    await ended(ground.workspace, "wren-good")
    names = [job.name for job in await all_jobs(ground.workspace)]
    assert names.index("wren-good") < names.index("wren-bad") < names.index("trained")
    wren = JobFilter(words=("WREN",))
    assert [job.name for job in await all_jobs(ground.workspace, wren)] == ["wren-good", "wren-bad"]
    both = JobFilter(words=("wren",), status=("failed",))
    assert [job.name for job in await all_jobs(ground.workspace, both)] == ["wren-bad"]


async def test_cancel_ends_a_running_job_and_can_be_repeated(ground):
    await ground.submit("long", "long")
    await until_job(ground.workspace, "long", lambda job: job.status == "Running")
    assert (await ground.workspace.cancel("long")).status in ("CancelRequested", "Canceled")
    await ground.workspace.cancel("long")
    assert (await ended(ground.workspace, "long")).status == "Canceled"
    assert (await ground.workspace.cancel("long")).status == "Canceled"


async def test_a_job_that_completed_cannot_be_cancelled(ground, trained):
    with pytest.raises(Conflict):
        await ground.workspace.cancel("trained")
    assert (await ground.workspace.job("trained")).status == "Completed"


async def test_an_archived_job_is_hidden_until_it_is_restored(ground):
    await ground.submit("hidden", "short")
    await ended(ground.workspace, "hidden")

    async def listed(**given: bool) -> bool:
        return "hidden" in [job.name for job in await all_jobs(ground.workspace, JobFilter(**given))]

    assert (await ground.workspace.archive("hidden")).archived
    assert (await ground.workspace.job("hidden")).archived
    assert (await listed(), await listed(archived=True)) == (False, True)
    assert (await ground.workspace.archive("hidden")).archived  # twice is no error
    assert not (await ground.workspace.restore("hidden")).archived
    assert (await listed(), await listed(archived=True)) == (True, True)
    assert (await ground.workspace.job("hidden")).status == "Completed"


async def test_tags_and_display_name_change_alone(ground):
    await ground.submit("renamed", "short", MORE)
    before = await ended(ground.workspace, "renamed")
    after = await ground.workspace.update_job("renamed", tags={"owner": None, "kind": "other", "new": "yes"})
    assert after.tags == {"kind": "other", "new": "yes"}
    assert after.display_name == "the first"
    after = await ground.workspace.update_job("renamed", display_name="the second")
    assert (after.display_name, after.tags) == ("the second", {"kind": "other", "new": "yes"})
    assert await ground.workspace.job("renamed") == after
    assert (after.status, after.inputs, after.started, after.ended) == (
        before.status,
        before.inputs,
        before.started,
        before.ended,
    )


async def test_a_command_job_has_no_children(ground, trained):
    assert list(await ground.workspace.children("trained")) == []


async def test_the_file_of_a_job_can_be_submitted_again(ground, trained):
    again = await clone(ground.workspace, "trained")
    assert (again.job_file.kind, again.job_file.experiment_name) == ("command", "aviary")
    assert again.job_file.tags == {"owner": "me", "kind": "test"}
    assert {name: given.literal for name, given in again.job_file.inputs.items()} == {"who": "birds"}
    job = await ground.workspace.submit(again.job_file, "trained-again")
    assert (job.display_name, job.inputs, job.tags) == (trained.display_name, trained.inputs, trained.tags)
    await ground.workspace.cancel("trained-again")  # it would do all of it again
    await ended(ground.workspace, "trained-again")


async def test_a_job_is_deleted_or_the_workspace_says_why_not(ground):
    if "delete_job" in ground.workspace.capabilities:
        with pytest.raises(Invalid) as refused:
            await ground.workspace.delete_job("trained")
        assert refused.value.sentence == ground.workspace.capabilities["delete_job"]
        return
    await ground.submit("doomed", "long")
    with pytest.raises(Conflict):
        await ground.workspace.delete_job("doomed")
    await ground.workspace.cancel("doomed")
    await ended(ground.workspace, "doomed")
    await ground.workspace.delete_job("doomed")
    with pytest.raises(NotFound):
        await ground.workspace.job("doomed")


async def test_what_is_no_job_is_not_submitted(ground, tmp_path):
    (tmp_path / "deployment.yml").write_text("name: blue\nendpoint_name: birds\nmodel: azureml:birds:1\n")
    with pytest.raises(Invalid):
        await ground.workspace.submit(read(tmp_path / "deployment.yml"))
