"""Cloning a past job into the form, driven by keys, on the real local workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.screens.conditions import send, until
from tests.screens.test_console_screens import home, table

from footplate.app import FootplateApp
from footplate.operations.clone import clone, free_name
from footplate.operations.launch import prepare
from footplate.screens.job import JobScreen
from footplate.screens.launch import LaunchScreen
from footplate.widgets.run_preview import RunPreview

__all__ = ["home"]

FIXED = """\
name: my-run  # fixed
command: echo ${{inputs.word}} && cat note.txt
code: ./src
environment: azureml:any@latest
experiment_name: greetings
inputs:
  word: hello
"""


@pytest.fixture
def fixed(home, tmp_path) -> Path:
    """A job file with a name of its own and a code folder."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "note.txt").write_text("from the code folder\n")
    (tmp_path / "jobs" / "fixed.yml").write_text(FIXED.replace("./src", "../src"))
    return tmp_path / "jobs" / "fixed.yml"


async def run(app: FootplateApp, pilot, path: Path, changes: list[str] | None = None) -> str:
    """Launch a file and wait for its end; the job's name."""
    job = await app.workspace.submit(prepare(path, changes or []))
    while (await app.workspace.job(job.name)).active:
        await pilot.pause(0.05)
    return job.name


def preview(app: FootplateApp) -> str:
    return app.screen.query_one(RunPreview).text


def ready(app: FootplateApp) -> bool:
    return isinstance(app.screen, LaunchScreen) and not app.screen.query_one("#launch").disabled


async def test_c_on_the_list_opens_the_jobs_own_values_and_launches_them_again(home, tmp_path):
    app = FootplateApp()
    async with app.run_test(size=(160, 45)) as pilot:
        name = await run(app, pilot, tmp_path / "jobs" / "aaa-hello.yml", ["inputs.word=birds"])
        await until(pilot, lambda: table(app).cursor_key == name)
        await pilot.press("c")
        await until(pilot, lambda: ready(app))
        assert app.screen.editor("inputs", "word").value == "birds"
        app.screen.editor("inputs", "word").value = "owls"
        await until(pilot, lambda: "Differences" in preview(app))
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name != name)
        again = await app.workspace.job(app.screen.job_name)
        assert again.inputs["word"] == "owls"
        assert (await app.workspace.job(name)).inputs["word"] == "birds"


async def test_c_on_the_job_goes_back_to_it_on_esc(home, tmp_path):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        name = await run(app, pilot, tmp_path / "jobs" / "aaa-hello.yml")
        await until(pilot, lambda: table(app).cursor_key == name)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await pilot.press("c")
        await until(pilot, lambda: ready(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == name)


async def test_a_fixed_name_becomes_the_next_that_is_free_and_every_other_field_stays(fixed):
    app = FootplateApp()
    async with app.run_test(size=(160, 45)) as pilot:
        await run(app, pilot, fixed)
        await until(pilot, lambda: table(app).cursor_key == "my-run")
        await pilot.press("c")
        await until(pilot, lambda: ready(app))
        assert app.screen.editor("name").value == "my-run-2"
        await until(pilot, lambda: "my-run-2" in preview(app).split("As it will be submitted")[0])
        made = await clone(app.workspace, "my-run")
        assert made.job_file.text == made.past.text.replace("name: my-run ", "name: my-run-2 ")
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == "my-run-2")
        assert await free_name(app.workspace, "my-run") == "my-run-3"
        assert await free_name(app.workspace, "my-run-2") == "my-run-3"


async def test_a_code_folder_that_is_gone_is_the_kept_copy_and_that_is_said(fixed, tmp_path):
    app = FootplateApp()
    async with app.run_test(size=(160, 45)) as pilot:
        await run(app, pilot, fixed)
        (tmp_path / "src").rename(tmp_path / "elsewhere")
        await until(pilot, lambda: table(app).cursor_key == "my-run")
        await pilot.press("c")
        await until(pilot, lambda: ready(app))
        assert any("code folder of then is gone" in note.message for note in app._notifications)
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        name = app.screen.job_name
        while (await app.workspace.job(name)).active:
            await pilot.pause(0.05)
        assert (await app.workspace.job(name)).status == "Completed"


async def test_a_job_whose_file_is_gone_is_said_and_nothing_opens(home, tmp_path):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        name = await run(app, pilot, tmp_path / "jobs" / "aaa-hello.yml")
        (home / "jobs" / name / "job.yml").unlink()
        await until(pilot, lambda: table(app).cursor_key == name)
        await send(pilot, "c")  # a notice is there for seconds only
        await until(pilot, lambda: any("no longer there" in note.message for note in app._notifications))
        assert app.screen.where == "jobs"
