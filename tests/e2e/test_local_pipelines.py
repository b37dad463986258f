"""Pipelines on this machine for real: data from step to step, what a failure stops, cancels, and a killed process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.at_work import WAIT, all_jobs, ended, job_file, log, supervisor_pid, until_job

from footplate.jobfile import JobFile
from footplate.jobfile.document import parse
from footplate.operations.clone import clone
from footplate.workspace import Conflict, Invalid, NotFound, Workspace


def pipeline(folder: Path, jobs: str, more: str = "") -> JobFile:
    """A pipeline's file; `E` in it stands for an environment."""
    text = f"type: pipeline\nexperiment_name: flow\n{more}jobs:\n{jobs}".replace(" E,", " 'azureml:any@latest',")
    return parse(text, folder / "pipeline.yml", folder)


async def until_step(workspace: Workspace, pipeline: str, step: str, status: str) -> None:
    """Wait until a step's job is there and has a status."""
    await until_job(workspace, pipeline, lambda job: step in job.note)
    await until_job(workspace, f"{pipeline}-{step}", lambda job: job.status == status)


async def steps(workspace: Workspace, name: str) -> dict[str, str]:
    """The statuses of the steps that were started, by name."""
    return {job.display_name: job.status for job in await workspace.children(name)}


THREE = """\
  say: {command: 'cat ${{inputs.f}}', environment: E,
        inputs: {f: {type: uri_file, path: '${{parent.jobs.copy.outputs.p}}'}}}
  copy: {command: 'cp ${{inputs.d}}/w.txt ${{outputs.p}}', environment: E,
         inputs: {d: '${{parent.jobs.make.outputs.o}}'}, outputs: {p: '${{parent.outputs.copied}}'}}
  make: {command: 'echo ${{inputs.w}} > ${{outputs.o}}/w.txt', environment: E,
         inputs: {w: '${{parent.inputs.word}}'}, outputs: {o: }}
"""


async def test_three_steps_hand_on_what_they_write(workspace, tmp_path):
    started = await workspace.submit(
        pipeline(tmp_path, THREE, "inputs: {word: birds}\noutputs: {copied: {type: uri_file}}\ntags: {a: b}\n"),
        "flow",
    )
    assert (started.type, started.experiment, started.tags, started.inputs) == (
        "pipeline",
        "flow",
        {"a": "b"},
        {"word": "birds"},
    )
    job = await ended(workspace, "flow")
    assert (job.status, job.error) == ("Completed", None)
    children = await workspace.children("flow")
    assert [(child.name, child.display_name, child.status, child.parent) for child in children] == [
        ("flow-make", "make", "Completed", "flow"),
        ("flow-copy", "copy", "Completed", "flow"),
        ("flow-say", "say", "Completed", "flow"),
    ]
    assert await log(workspace, "flow-say") == "birds\n"
    assert [(output.name, output.files, output.size) for output in await workspace.outputs("flow")] == [
        ("default", 0, 0),
        ("copied", 1, len("birds\n")),
    ]
    assert [found.name for found in await all_jobs(workspace)] == ["flow"], "steps are not in the list of jobs"


async def test_a_steps_name_that_another_job_has_is_refused_at_the_start(workspace, tmp_path):
    await workspace.submit(job_file(tmp_path, "true"), "flow-two")
    jobs = "  one: {command: 'true', environment: E, }\n  two: {command: 'true', environment: E, }\n"
    with pytest.raises(
        Conflict, match=r"'flow-two' already, which a step of 'flow' would be called.*another name, as flow-2"
    ):
        await workspace.submit(pipeline(tmp_path, jobs), "flow")
    assert [job.name for job in await all_jobs(workspace)] == ["flow-two"]
    await workspace.submit(pipeline(tmp_path, jobs), "other")
    assert (await ended(workspace, "other")).status == "Completed"
    with pytest.raises(Conflict, match=r"There is a job 'other' already\. Give"):
        await workspace.submit(pipeline(tmp_path, jobs), "other")


async def test_steps_that_need_nothing_of_each_other_run_at_once(workspace, tmp_path):
    meet = "touch {me}; until [ -e {other} ]; do sleep 0.05; done"
    one, two = tmp_path / "one", tmp_path / "two"
    jobs = "".join(
        f"  {name}: {{command: '{meet.format(me=me, other=other)}', environment: E, }}\n"
        for name, me, other in (("a", one, two), ("b", two, one))
    )
    await workspace.submit(pipeline(tmp_path, jobs), "meet")
    assert (await ended(workspace, "meet")).status == "Completed"


BROKEN = (
    "  breaks: {command: 'echo no birds >&2; exit 3', environment: E, outputs: {o: }}\n"
    "  needs: {command: 'true', environment: E, inputs: {d: '${{parent.jobs.breaks.outputs.o}}'}, outputs: {o: }}\n"
    "  further: {command: 'true', environment: E, inputs: {d: '${{parent.jobs.needs.outputs.o}}'}}\n"
)


async def test_a_failed_step_stops_what_needs_it_and_nothing_else(workspace, tmp_path):
    alone = f"  alone: {{command: 'until grep -q Failed {tmp_path}/seen; do sleep 0.05; done', environment: E, }}\n"
    await workspace.submit(pipeline(tmp_path, BROKEN + alone), "part")
    await until_step(workspace, "part", "breaks", "Failed")
    (tmp_path / "seen").write_text("Failed")
    job = await ended(workspace, "part")
    assert await steps(workspace, "part") == {"breaks": "Failed", "alone": "Completed"}
    assert job.status == "Failed"
    assert job.error is not None
    assert job.error.startswith("step breaks: ")
    assert job.error.endswith("; not run: needs, further")


async def test_a_killed_rank_fails_its_step_by_name_and_the_others_go_on(workspace, tmp_path):
    two = "distribution: {type: pytorch, process_count_per_instance: 2}, "
    jobs = (
        f"  torn: {{command: '{WAIT}', environment: E, {two}outputs: {{o: }}}}\n"
        "  needs: {command: 'true', environment: E, inputs: {d: '${{parent.jobs.torn.outputs.o}}'}}\n"
        f"  alone: {{command: 'until [ -e {tmp_path}/go ]; do sleep 0.05; done', environment: E, }}\n"
    )
    await workspace.submit(pipeline(tmp_path, jobs), "flow")
    await until_step(workspace, "flow", "torn", "Running")
    await workspace.rehearse("flow-torn", "kill-rank")
    torn = await ended(workspace, "flow-torn")
    assert (torn.status, "rank 1" in (torn.error or "")) == ("Failed", True)
    assert (await workspace.job("flow")).active
    (tmp_path / "go").touch()
    flow = await ended(workspace, "flow")
    assert await steps(workspace, "flow") == {"torn": "Failed", "alone": "Completed"}
    assert (flow.status, flow.error) == ("Failed", f"step torn: {torn.error}; not run: needs")


async def test_without_continue_on_step_failure_the_others_are_cancelled(workspace, tmp_path):
    alone = f"  alone: {{command: '{WAIT}', environment: E, }}\n"
    file = pipeline(tmp_path, BROKEN + alone, "settings: {continue_on_step_failure: false}\n")
    await workspace.submit(file, "strict")
    assert (await ended(workspace, "strict")).status == "Failed"
    assert await steps(workspace, "strict") == {"breaks": "Failed", "alone": "Canceled"}
    assert "continue_on_step_failure" in (await workspace.job("strict-alone")).note


async def test_cancelling_a_pipeline_cancels_its_steps_and_starts_no_more(workspace, tmp_path):
    jobs = (
        f"  first: {{command: '{WAIT}', environment: E, outputs: {{o: }}}}\n"
        "  second: {command: 'true', environment: E, inputs: {d: '${{parent.jobs.first.outputs.o}}'}}\n"
    )
    await workspace.submit(pipeline(tmp_path, jobs), "stop")
    await until_job(workspace, "stop", lambda job: "first" in job.note)
    await workspace.cancel("stop")
    assert (await ended(workspace, "stop")).status == "Canceled"
    assert await steps(workspace, "stop") == {"first": "Canceled"}


async def test_a_killed_process_is_replaced_and_no_step_runs_twice(workspace, home, tmp_path):
    count = tmp_path / "count"
    jobs = (
        f"  first: {{command: 'echo ran >> {count}; until [ -e {tmp_path}/go ]; do sleep 0.05; done', environment: E, "
        "outputs: {o: }}\n"
        f"  second: {{command: 'echo ran >> {count}', environment: E, inputs: {{d: '${{{{parent.jobs.first.outputs.o}}}}'}}}}\n"
    )
    await workspace.submit(pipeline(tmp_path, jobs), "survives")
    await until_step(workspace, "survives", "first", "Running")
    former = supervisor_pid(home, "survives")
    os.kill(former, signal.SIGKILL)
    await until_job(workspace, "survives", lambda job: job.active and supervisor_pid(home, "survives") != former)
    (tmp_path / "go").touch()
    assert (await ended(workspace, "survives")).status == "Completed"
    assert count.read_text() == "ran\nran\n"


async def test_what_a_step_runs_is_what_was_there_when_the_pipeline_was_submitted(workspace, tmp_path):
    code = tmp_path / "src"
    code.mkdir()
    (code / "say.sh").write_text("echo as submitted")
    (tmp_path / "say.yml").write_text(
        "type: command\nname: say\ncode: ./src\nenvironment: azureml:any@latest\ncommand: bash say.sh\n"
        "inputs: {d: {type: uri_folder}}\n"
    )
    jobs = (
        f"  first: {{command: 'until [ -e {tmp_path}/go ]; do sleep 0.05; done', environment: E, outputs: {{o: }}}}\n"
        "  second: {type: command, component: ./say.yml, inputs: {d: '${{parent.jobs.first.outputs.o}}'}}\n"
    )
    await workspace.submit(pipeline(tmp_path, jobs), "kept")
    (code / "say.sh").write_text("echo changed since")
    (tmp_path / "say.yml").unlink()
    (tmp_path / "go").touch()
    assert (await ended(workspace, "kept")).status == "Completed"
    assert await log(workspace, "kept-second") == "as submitted\n"


async def test_a_pipeline_that_runs_again_takes_its_component_files_as_they_were(workspace, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "say.sh").write_text("echo says $1")
    head = "environment: azureml:any@latest\n"
    say = f"type: command\nname: say\n{head}code: ../src\ncommand: bash say.sh ${{{{inputs.w}}}}\ninputs: {{w: {{type: string}}}}\n"
    (tmp_path / "parts" / "say.yml").write_text(say)
    (tmp_path / "parts" / "inner.yml").write_text(
        "type: pipeline\njobs:\n  deep: {type: command, component: ./say.yml, inputs: {w: then}}  # as it was\n"
    )
    jobs = "  outer: {type: pipeline, component: ./parts/inner.yml}\n"
    await workspace.submit(pipeline(tmp_path, jobs), "first")
    assert (await ended(workspace, "first")).status == "Completed"
    assert (await clone(workspace, "first")).job_file.text == pipeline(tmp_path, jobs).text
    (tmp_path / "parts" / "say.yml").write_text(say.replace("bash say.sh", "echo changed"))
    again = await clone(workspace, "first")
    assert again.notes == ("Component files were changed since: the copies that first kept are used.",)
    await workspace.submit(again.job_file, "second")
    assert (await ended(workspace, "second")).status == "Completed"
    assert [await log(workspace, f"{name}-outer-deep") for name in ("first", "second")] == ["says then\n"] * 2


async def test_the_artifacts_of_a_step_are_all_that_it_wrote(workspace, tmp_path):
    jobs = (
        "  hello: {command: 'echo hello && echo world > ./outputs/world.txt', environment: E, outputs: {artifacts: }}\n"
        "  world: {command: 'cat ${{inputs.w}}/outputs/world.txt', environment: E, "
        "inputs: {w: '${{parent.jobs.hello.outputs.artifacts}}'}}\n"
    )
    await workspace.submit(pipeline(tmp_path, jobs), "basics")
    assert (await ended(workspace, "basics")).status == "Completed"
    assert await log(workspace, "basics-world") == "world\n"


async def test_the_last_step_of_the_settings_runs_whatever_happened(workspace, tmp_path):
    close = "  close: {command: 'true', environment: E, }\n"
    await workspace.submit(pipeline(tmp_path, close + BROKEN, "settings: {on_finalize: close}\n"), "closed")
    assert (await ended(workspace, "closed")).status == "Failed"
    assert await steps(workspace, "closed") == {"breaks": "Failed", "close": "Completed"}


async def test_the_last_steps_keep_their_order_and_run_to_their_end_where_a_failure_cancels_the_others(
    workspace, tmp_path
):
    jobs = (
        "  read: {command: 'cat ${{inputs.d}}/w', environment: E, inputs: {d: '${{parent.jobs.write.outputs.o}}'}}\n"
        f"  write: {{command: 'until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo birds > ${{{{outputs.o}}}}/w', "
        "environment: E, outputs: {o: }}\n"
    )
    (tmp_path / "close.yml").write_text(pipeline(tmp_path, jobs).text.replace("experiment_name: flow", "name: close"))
    jobs = f"  alone: {{command: '{WAIT}', environment: E, }}\n  close: {{type: pipeline, component: ./close.yml}}\n"
    settings = "settings: {on_finalize: close, continue_on_step_failure: false}\n"
    await workspace.submit(pipeline(tmp_path, jobs + BROKEN, settings), "strict")
    await until_job(workspace, "strict", lambda job: "close.write" in job.note)
    await until_job(workspace, "strict-close-write", lambda job: job.status == "Running")
    (tmp_path / "go").touch()
    job = await ended(workspace, "strict")
    assert await steps(workspace, "strict") == {
        "breaks": "Failed",
        "alone": "Canceled",
        "close.write": "Completed",
        "close.read": "Completed",
    }
    assert await log(workspace, "strict-close-read") == "birds\n"
    assert job.error is not None
    assert job.error.startswith("step breaks: no birds")  # not the step that was canceled for its sake
    assert "; alone canceled; not run: needs, further" in job.error


async def test_a_step_whose_name_is_taken_meanwhile_fails_the_pipeline_in_a_sentence(workspace, tmp_path):
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    jobs = (
        f"  one: {{command: '{wait}', environment: E, outputs: {{o: }}}}\n"
        "  two: {command: 'echo ${{inputs.o}}', environment: E, inputs: {o: '${{parent.jobs.one.outputs.o}}'}}\n"
    )
    await workspace.submit(pipeline(tmp_path, jobs), "flow")
    await workspace.submit(job_file(tmp_path, "true"), "flow-two")
    (tmp_path / "go").touch()
    job = await ended(workspace, "flow")
    assert job.status == "Failed"
    assert (job.error or "").startswith("step two: There is a job 'flow-two' already.")


@pytest.mark.parametrize(
    ("jobs", "error", "said"),
    [
        ("  a: {command: x, environment: E, compute: azureml:gpu}\n", NotFound, "Step a: There is no cluster 'gpu'"),
        ("  a: {command: x, environment: E, code: ./gone}\n", Invalid, "Step a: the code folder"),
        ("  a: {command: 'echo ${{inputs.x}}', environment: E, }\n", Invalid, "Step a"),
        ("  a: {command: x, environment: E, inputs: {d: {path: ./gone}}}\n", Invalid, "Step a"),
        ("  a: {type: spark, environment: E, }\n", Invalid, "Step a of pipeline.yml is a spark step"),
    ],
)
async def test_what_can_never_run_is_refused_before_anything_is_written(workspace, home, tmp_path, jobs, error, said):
    with pytest.raises(error) as refused:
        await workspace.submit(pipeline(tmp_path, jobs), "never")
    assert said in str(refused.value)
    assert await all_jobs(workspace) == []
    assert not [entry for entry in (home / "jobs").glob("*")]
