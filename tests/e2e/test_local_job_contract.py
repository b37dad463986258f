"""Jobs of the local workspace, their logs, metrics and outputs: the contract in its corners, with real processes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.at_work import all_jobs, damage_metrics_store, ended, job_file, log, ranks, until_job

from footplate.workspace import Conflict, Invalid, JobFilter, NotFound, QuotaExceeded, Unexpected, WorkspaceError

WAIT = "while true; do sleep 0.1; done"


async def test_a_job_runs_its_command_and_completes(workspace, tmp_path):
    file = job_file(
        tmp_path, "echo hello ${{inputs.who}}", "inputs: {who: birds}\nexperiment_name: aviary\ntags: {a: b}\n"
    )
    started = await workspace.submit(file, "first")
    assert (started.name, started.experiment, started.active) == ("first", "aviary", True)
    job = await ended(workspace, "first")
    assert (job.status, job.error, job.note, job.tags, job.inputs) == (
        "Completed",
        None,
        "",
        {"a": "b"},
        {"who": "birds"},
    )
    assert job.started is not None
    assert job.ended is not None
    assert job.created <= job.started <= job.ended
    assert await log(workspace, "first") == "hello birds\n"


async def test_a_name_is_made_from_the_experiment_where_none_is_given(workspace, tmp_path):
    first = await workspace.submit(job_file(tmp_path, "true", "experiment_name: my birds\n"))
    second = await workspace.submit(job_file(tmp_path, "true", "experiment_name: my birds\n"))
    assert first.name.startswith("my-birds-")
    assert first.name != second.name


@pytest.mark.parametrize(
    ("command", "more", "name", "error"),
    [
        ("echo", "compute: azureml:gpu-cluster\n", "x", NotFound),
        ("echo", "resources: {instance_count: 900}\n", "x", QuotaExceeded),
        ("echo", "", "../x", Invalid),
        ("echo", "", "-x", Invalid),
        ("echo", "code: ./not-there\n", "x", Invalid),
        ("echo", f"code: {'a' * 300}\n", "x", Invalid),
        ("echo ${{inputs.d}}", f"inputs: {{d: {{type: uri_folder, path: {'a' * 300}}}}}\n", "x", Invalid),
        ("echo ${{inputs.d}}", "inputs: {d: {type: uri_folder, path: ~nobody-of-this-name/birds}}\n", "x", Invalid),
        ("echo ${{inputs.missing}}", "", "x", Invalid),
        ("echo ${{inputs.d}}", "inputs: {d: {type: uri_folder, path: ./not-there}}\n", "x", Invalid),
        (
            "echo ${{inputs.d}}",
            "inputs: {d: {type: uri_folder, path: 'https://example.org/birds.zip'}}\n",
            "x",
            Invalid,
        ),
        ("echo ${{inputs.d}}", "inputs: {d: {type: uri_folder, path: 'azureml:parrots@latest'}}\n", "x", NotFound),
        ("echo ${{inputs.d}}", "inputs: {d: {type: custom_model, path: 'azureml:parrots:1'}}\n", "x", NotFound),
        ("echo", "outputs: {../../../evil: {type: uri_folder}}\n", "x", Invalid),
        ("echo", "outputs: {/evil: {type: uri_folder}}\n", "x", Invalid),
        ("echo", "outputs: {a/b: {type: uri_folder}}\n", "x", Invalid),
        ("echo", "outputs: {'': {type: uri_folder}}\n", "x", Invalid),
        ("echo", "outputs: {1st: {type: uri_folder}}\n", "x", Invalid),
        ("echo", "environment_variables: {A=B: c}\n", "x", Invalid),
        ("echo", "environment_variables: {'': c}\n", "x", Invalid),
        ("echo", "inputs: {a=b: 1}\n", "x", Invalid),
        ("echo", "inputs: {../../../evil: {type: uri_folder, path: ., mode: download}}\n", "x", Invalid),
        ("echo", "inputs: {../../../evil: {type: uri_file, path: 'https://example.org/birds.zip'}}\n", "x", Invalid),
    ],
)
async def test_what_cannot_run_is_refused_and_leaves_nothing(workspace, home, tmp_path, command, more, name, error):
    with pytest.raises(error) as refused:
        await workspace.submit(job_file(tmp_path, command, more), name)
    assert refused.value.sentence.endswith(".")
    assert refused.value.next_step
    assert await all_jobs(workspace) == []
    assert not (home / "jobs").exists()


async def test_a_taken_name_is_a_conflict(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "echo first"), "twin")
    with pytest.raises(Conflict):
        await workspace.submit(job_file(tmp_path, "echo second"), "twin")
    await ended(workspace, "twin")
    assert await log(workspace, "twin") == "first\n"


async def test_what_is_not_there_is_not_found(workspace):
    for act in (
        workspace.job,
        workspace.cancel,
        workspace.delete_job,
        workspace.log_files,
        workspace.metrics,
        workspace.outputs,
    ):
        with pytest.raises(NotFound):
            await act("nobody")
    with pytest.raises(NotFound):
        await workspace.read_log("nobody", "user_logs/std_log.txt", 0, 10)


async def test_jobs_come_newest_first_and_by_words_and_status(workspace, tmp_path):
    for name, command in (("alpha-good", "true"), ("beta-bad", "false"), ("gamma-good", "true")):
        await workspace.submit(job_file(tmp_path, command), name)
        await ended(workspace, name)
    assert [job.name for job in await all_jobs(workspace)] == ["gamma-good", "beta-bad", "alpha-good"]
    assert [job.name for job in await all_jobs(workspace, JobFilter(status=("failed",)))] == ["beta-bad"]
    assert [job.name for job in await all_jobs(workspace, JobFilter(words=("GOOD", "alpha")))] == ["alpha-good"]
    assert await all_jobs(workspace, JobFilter(words=("good", "beta"))) == []


async def test_cancel_ends_a_running_job_and_can_be_repeated(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, f"echo on; {WAIT}"), "long")
    await until_job(workspace, "long", lambda job: job.status == "Running")
    assert (await workspace.cancel("long")).status in ("CancelRequested", "Canceled")
    await workspace.cancel("long")
    assert (await ended(workspace, "long")).status == "Canceled"
    assert (await workspace.cancel("long")).status == "Canceled"


async def test_a_job_that_completed_cannot_be_cancelled(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "true"), "done")
    await ended(workspace, "done")
    with pytest.raises(Conflict):
        await workspace.cancel("done")


async def test_only_an_ended_job_can_be_deleted(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, WAIT), "doomed")
    with pytest.raises(Conflict):
        await workspace.delete_job("doomed")
    await workspace.cancel("doomed")
    await ended(workspace, "doomed")
    await workspace.delete_job("doomed")
    with pytest.raises(NotFound):
        await workspace.job("doomed")
    assert await all_jobs(workspace) == []


async def test_a_log_is_read_in_pieces(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "printf 0123456789"), "digits")
    await ended(workspace, "digits")
    chunk = await workspace.read_log("digits", "user_logs/std_log.txt", 3, 4)
    assert (chunk.offset, chunk.data, chunk.total) == (3, b"3456", 10)
    assert (await workspace.read_log("digits", "user_logs/std_log.txt", 8, 100)).data == b"89"
    assert (await workspace.read_log("digits", "user_logs/std_log.txt", 10, 100)).data == b""
    with pytest.raises(WorkspaceError):
        await workspace.read_log("digits", "user_logs/std_log.txt", -1, 100)


async def test_only_a_jobs_own_logs_can_be_read(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "true"), "one")
    await ended(workspace, "one")
    for path in ("user_logs/other.txt", "job.yml", "../../footplate.db", "/etc/hostname", ""):
        with pytest.raises(NotFound):
            await workspace.read_log("one", path, 0, 100)


async def test_log_files_come_user_logs_first_and_ranks_in_order(workspace, tmp_path):
    await workspace.submit(
        job_file(tmp_path, "echo from $RANK; test $RANK = 0 && echo x > logs/extra.log || true", ranks(11)), "many"
    )
    assert (await ended(workspace, "many")).status == "Completed"
    paths = [file.path for file in await workspace.log_files("many")]
    assert paths[:11] == [f"user_logs/std_log_process_{rank}.txt" for rank in range(11)]
    assert "logs/extra.log" in paths
    assert await log(workspace, "many", "user_logs/std_log_process_10.txt") == "from 10\n"


async def test_outputs_are_counted_by_name(workspace, tmp_path):
    command = """printf 12345 > outputs/a.bin
        mkdir outputs/deep
        printf 123 > outputs/deep/b.bin
        printf 1 > ${{outputs.table}}/t.csv"""
    await workspace.submit(job_file(tmp_path, command, "outputs: {table: {type: uri_folder}}\n"), "writer")
    assert (await ended(workspace, "writer")).status == "Completed"
    found = {output.name: (output.files, output.size) for output in await workspace.outputs("writer")}
    assert found == {"default": (2, 8), "table": (1, 1)}


async def test_code_and_data_are_there_and_the_code_can_be_written_beside(workspace, tmp_path):
    (tmp_path / "src" / "__pycache__").mkdir(parents=True)
    (tmp_path / "src" / "main.sh").write_text("cat $1/birds.txt; echo written > beside.txt; ls\n")
    (tmp_path / "src" / "secret.txt").write_text("stays behind\n")
    (tmp_path / "src" / ".amlignore").write_text("secret.txt\n")
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds" / "birds.txt").write_text("a wren\n")
    more = "code: src\ninputs: {data: {type: uri_folder, path: ./birds}}\n"
    await workspace.submit(job_file(tmp_path, "bash main.sh ${{inputs.data}}", more), "coded")
    assert (await ended(workspace, "coded")).status == "Completed"
    assert (await log(workspace, "coded")).split() == ["a", "wren", "beside.txt", "logs", "main.sh", "outputs"]
    assert not (tmp_path / "src" / "beside.txt").exists()


async def test_metrics_that_a_script_logs_come_back_in_step_order(workspace, tmp_path):
    script = (
        "import mlflow; [mlflow.log_metric('val_acc', v, step=s) for s, v in ((2, .75), (1, .5))];"
        "mlflow.log_metric('odd', float('nan'))"
    )
    await workspace.submit(job_file(tmp_path, f'python -c "{script}"'), "measured")
    job = await ended(workspace, "measured")
    assert job.status == "Completed", await log(workspace, "measured")
    metrics = await workspace.metrics("measured")
    assert [(point.step, point.value) for point in metrics["val_acc"]] == [(1, 0.5), (2, 0.75)]
    assert metrics["odd"][0].value != metrics["odd"][0].value
    assert all(point.time >= job.created for point in metrics["val_acc"])
    assert job.headline == ("val_acc", 0.75)
    assert [listed.headline for listed in await all_jobs(workspace)] == [("val_acc", 0.75)]


async def test_a_job_without_metrics_has_none(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "true"), "silent")
    await ended(workspace, "silent")
    assert await workspace.metrics("silent") == {}


async def test_a_failing_job_says_why(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "python -c 'raise ValueError(\"no birds here\")'"), "broken")
    job = await ended(workspace, "broken")
    assert (job.status, job.error) == ("Failed", "ValueError: no birds here (exit code 1)")


async def test_clusters_count_what_is_busy_and_what_waits(one_node, workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, WAIT), "holder")
    await until_job(workspace, "holder", lambda job: job.status == "Running")
    await workspace.submit(job_file(tmp_path, WAIT), "waiter")
    await until_job(workspace, "waiter", lambda job: job.note)
    (cluster,) = await workspace.clusters()
    assert (cluster.max_nodes, cluster.busy_nodes, cluster.queued_jobs) == (1, 1, 1)
    assert cluster.cores_per_node >= 1


async def test_the_sample_data_is_listed_before_it_is_drawn(workspace):
    assert [(asset.name, asset.version) for asset in await workspace.data_assets()] == [("birds", "1")]
    folder = await workspace.data_folder("azureml:birds@latest")
    assert folder == await workspace.data_folder("birds:1") == await workspace.data_folder("birds")
    assert not folder.exists()
    with pytest.raises(NotFound):
        await workspace.data_folder("birds:2")
    with pytest.raises(Invalid):
        await workspace.data_folder("birds@oldest")


async def test_odd_links_among_logs_and_outputs_are_passed_over(workspace, tmp_path):
    command = """echo kept | tee logs/kept.log > outputs/kept.txt
        for folder in logs outputs; do
            ln -s self $folder/self; ln -s /etc/passwd/x $folder/x; ln -s . $folder/here; ln -s /not/there $folder/gone
        done"""
    await workspace.submit(job_file(tmp_path, command), "odd")
    assert (await ended(workspace, "odd")).status == "Completed"
    found = [file.path for file in await workspace.log_files("odd")]
    assert [path for path in found if path.startswith("logs/")] == ["logs/kept.log"]
    assert await log(workspace, "odd", "logs/kept.log") == "kept\n"
    for path in ("logs/self", "logs/x", "logs/gone", "logs/here", "logs/kept.log/x", "logs/" + "a" * 300, "logs/\0"):
        with pytest.raises(NotFound):
            await workspace.read_log("odd", path, 0, 100)
    assert [(output.files, output.size) for output in await workspace.outputs("odd")] == [(1, 5)]


@pytest.mark.parametrize("damage", ["text", "empty", "truncated", "folder", "tables", "version", "values"])
async def test_a_damaged_metrics_store_hides_metrics_and_nothing_else(workspace, home, tmp_path, damage):
    await workspace.submit(job_file(tmp_path, "echo sung"), "wren")
    await ended(workspace, "wren")
    damage_metrics_store(home, damage)
    [listed] = await all_jobs(workspace)
    assert (listed.name, listed.status, listed.headline) == ("wren", "Completed", None)
    assert replace(await workspace.job("wren"), stages=()) == listed  # a list tells no stages
    assert await log(workspace, "wren") == "sung\n"
    if damage == "values":
        assert await workspace.metrics("wren") == {}
    else:
        with pytest.raises(Unexpected) as refused:
            await workspace.metrics("wren")
        assert refused.value.sentence.endswith(".")


async def test_a_home_inside_the_code_folder_is_not_copied_into_jobs(workspace, home, tmp_path):
    (tmp_path / "main.sh").write_text("ls\n")
    await workspace.submit(job_file(tmp_path, "bash main.sh", "code: .\n"), "around")
    assert (await ended(workspace, "around")).status == "Completed"
    assert home.parent == tmp_path
    assert (await log(workspace, "around")).split() == ["logs", "main.sh", "outputs"]


async def test_the_file_of_a_job_comes_back_as_it_was_submitted(workspace, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "birds").mkdir()
    more = "code: ./src\ninputs: {d: {type: uri_folder, path: ./birds}}  # drawn\n"
    file = job_file(tmp_path, "ls ${{inputs.d}}", more)
    await workspace.submit(file, "past")
    again = await workspace.job_file("past")
    assert again.text == file.text
    assert (again.path, again.base, again.code) == (file.path, file.base, tmp_path / "src")
    await ended(workspace, "past")
    await workspace.submit(again, "present")
    assert (await ended(workspace, "present")).status == "Completed"


async def test_a_file_whose_code_folder_is_gone_leads_to_the_copy_that_was_kept(workspace, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "say.sh").write_text("echo still here\n")
    await workspace.submit(job_file(tmp_path, "bash say.sh", "code: ./src\n"), "past")
    await ended(workspace, "past")
    (tmp_path / "src").rename(tmp_path / "moved")
    again = await workspace.job_file("past")
    assert again.code is not None
    assert [file.name for file in again.code.iterdir()] == ["say.sh"]
    await workspace.submit(again, "present")
    await ended(workspace, "present")
    assert await log(workspace, "present") == "still here\n"


async def test_what_a_script_writes_to_logs_and_outputs_can_be_followed(workspace, home, tmp_path):
    command = f"echo one > logs/own.log; echo two > outputs/curve.csv; echo x > outputs/weights.bin; {WAIT}"
    await workspace.submit(job_file(tmp_path, command), "writer")
    await until_job(workspace, "writer", lambda _: (home / "jobs" / "writer" / "outputs" / "weights.bin").exists())
    listed = [file.path for file in await workspace.log_files("writer")]
    assert listed == ["user_logs/std_log.txt", "logs/own.log", "outputs/curve.csv", "system_logs/supervisor.log"]
    assert await log(workspace, "writer", "logs/own.log") == "one\n"
    assert await log(workspace, "writer", "outputs/curve.csv") == "two\n"
    with (home / "jobs" / "writer" / "outputs" / "curve.csv").open("a") as file:
        file.write("three\n")
    assert (await workspace.read_log("writer", "outputs/curve.csv", 4, 100)).data == b"three\n"
    with pytest.raises(NotFound):
        await workspace.read_log("writer", "code/x", 0, 1)


async def test_no_job_has_no_file(workspace):
    with pytest.raises(NotFound):
        await workspace.job_file("nope")
