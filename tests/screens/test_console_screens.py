"""The console's screens on a real local workspace, driven by keys."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests import metrics_template
from tests.screens.conditions import until
from textual.widgets import Input

from footplate.app import FootplateApp
from footplate.local.store import Store, now
from footplate.screens.base import ConsoleScreen
from footplate.screens.dialogs import ConfirmDialog, TextDialog
from footplate.screens.invoke import InvokeScreen
from footplate.screens.job import JobScreen
from footplate.screens.launch import LaunchScreen
from footplate.widgets.chrome import KeyLine, TopLine
from footplate.widgets.fault_list import FaultList
from footplate.widgets.log_view import LogView
from footplate.widgets.run_preview import RunPreview
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import JobFilter

JOB = """\
command: echo ${{inputs.word}} && sleep ${{inputs.seconds}}
environment: azureml:any@latest
experiment_name: greetings
inputs:
  word: hello
  seconds: 0
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "aaa-hello.yml").write_text(JOB)
    return tmp_path / "home"


def add_jobs(home: Path, *jobs: tuple[str, str, str]) -> None:
    """Ended jobs of these names, statuses and errors, the first one the newest."""
    store = Store(home)
    store.prepare()
    with store.write() as db:
        for i, (name, status, error) in enumerate(jobs):
            db.execute(
                "INSERT INTO job (name, display_name, type, status, experiment, compute, created, started, ended, error, inputs,"
                " nodes, ranks_per_node, command, plan)"
                " VALUES (?, ?, 'command', ?, 'birds', 'local', ?, ?, ?, ?, ?, 1, 1, 'true', '{}')",
                (name, name, status, now() - i, now() - i, now(), error or None, json.dumps({"lr": "0.1"})),
            )


def table(app: FootplateApp) -> VirtualTable:
    return app.screen.query_one(VirtualTable)


def explained(app: FootplateApp) -> str:
    return str(app.screen.query_one("#explain").render())


async def test_an_empty_first_screen_says_what_to_do_next(home):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "No jobs yet" in table(app).empty)
        assert "d  run the whole line" in table(app).empty
        assert "5  launch" in table(app).empty


async def test_the_selected_job_is_explained_and_the_filter_keeps_what_matches(home):
    add_jobs(
        home,
        ("birds-3", "Completed", ""),
        ("birds-2", "Failed", "rank 1: ValueError: bad [/x]"),
        ("cats-1", "Completed", ""),
    )
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(table(app).rows) == 3)
        await pilot.press("down")
        await until(pilot, lambda: "rank 1: ValueError: bad [/x]" in explained(app))
        await pilot.press("slash", *"birds-", "enter")
        await until(pilot, lambda: [r.key for r in table(app).rows] == ["birds-3", "birds-2"])
        assert "2 of 3" in explained(app)
        await pilot.press("escape")
        await until(pilot, lambda: len(table(app).rows) == 3)
        await pilot.press("slash", *"status:failed", "enter")
        await until(pilot, lambda: [r.key for r in table(app).rows] == ["birds-2"])
        await pilot.press("escape", "f")
        await until(pilot, lambda: [r.key for r in table(app).rows] == ["birds-2"])
        await until(pilot, lambda: app.summary == "1 failed today")


async def test_the_cursor_stays_on_its_job_when_newer_ones_come(home):
    add_jobs(home, ("a", "Completed", ""), ("b", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: len(table(app).rows) == 2)
        await pilot.press("down")
        add_jobs(home, ("newest", "Completed", ""))
        await until(pilot, lambda: len(table(app).rows) == 3)
        assert table(app).cursor_key == "b"


async def test_the_launch_form_shows_what_will_run_as_it_is_typed_and_launches_it(home):
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: app.screen.query(VirtualTable) and table(app).rows)
        while Path(table(app).cursor_key).name != "aaa-hello.yml":
            await pilot.press("down")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

        def shown() -> str:
            return app.screen.query_one(RunPreview).text

        await until(pilot, lambda: "echo hello && sleep 0" in shown())
        await pilot.press("ctrl+u", *"[bold]bye")
        await until(pilot, lambda: "echo [bold]bye && sleep 0" in shown())
        field = app.screen.editor("resources", "instance_count")
        field.value = "0"
        wrong = app.screen.query_one(FaultList)
        await until(pilot, lambda: any("`instance_count` must be a whole number" in f.message for f in wrong.faults))
        assert app.screen.query_one("#launch").disabled
        field.value = "1"
        await until(pilot, lambda: not app.screen.query_one("#launch").disabled)
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        screen = app.screen
        await until(pilot, lambda: screen.job is not None and screen.job.status == "Completed")
        await until(pilot, lambda: screen.query_one(LogView).total_lines)
        assert screen.query_one(LogView).text(0, 0) == "[bold]bye"
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "jobs")


async def test_cancel_asks_and_starts_on_cancel(home):
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        from footplate.operations import launch

        job = await app.workspace.submit(launch.prepare(Path("jobs/aaa-hello.yml"), ["inputs.seconds=600"]))
        await until(pilot, lambda: table(app).rows)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert app.focused is not None
        assert app.focused.id == "cancel"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ConsoleScreen))
        assert (await app.workspace.job(job.name)).active
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "X Canceled" in str(table(app).rows[0].cells[1]))


async def test_read_only_hides_the_keys_and_refuses_in_the_core(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp(read_only=True)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: table(app).rows)
        keys = str(app.screen.query_one(KeyLine).render())
        assert "logs" in keys
        assert "register" not in keys
        assert "demo" not in keys
        await pilot.press("d")
        await pilot.press("R")
        await pilot.pause()
        assert isinstance(app.screen, ConsoleScreen)
        assert [job.name async for page in app.workspace.jobs(JobFilter()) for job in page] == ["a"]
        assert "read-only" in app.screen.query_one(TopLine).place


async def test_escape_always_goes_one_step_back(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: table(app).rows)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await pilot.press("slash", *"word", "escape")
        await until(pilot, lambda: app.focused is app.screen.query_one(LogView))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "jobs")
        await pilot.press("5")
        await until(pilot, lambda: app.screen.where == "templates")
        await until(pilot, lambda: table(app).rows)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "templates")
        await pilot.press("6")
        await until(pilot, lambda: isinstance(app.screen, InvokeScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "templates")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "jobs")


async def test_every_place_draws_at_80x24_and_help_names_its_keys(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for key, where in (
            ("1", "jobs"),
            ("2", "clusters"),
            ("3", "models"),
            ("4", "endpoints"),
            ("5", "templates"),
            ("6", "invoke"),
        ):
            await pilot.press(key)
            await until(pilot, lambda where=where: app.screen.where == where)
            await until(pilot, lambda: app.screen.query(KeyLine))
            assert app.screen.query_one(KeyLine).region.bottom == 24
            assert app.screen.query_one(TopLine).region.y == 0
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, TextDialog))
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(app.screen, ConsoleScreen))


async def test_a_picture_that_is_none_is_a_sentence_in_the_invoke_panel(home, tmp_path):
    (tmp_path / "[bold]no.jpg").write_text("text")
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("6")
        await until(pilot, lambda: isinstance(app.screen, InvokeScreen))
        screen = app.screen
        assert isinstance(screen, InvokeScreen)
        await until(pilot, lambda: "No endpoint yet" in str(screen.query_one("#target").render()))
        await pilot.press("slash")
        screen.query_one("#path", Input).value = str(tmp_path / "[bold]no.jpg")
        await pilot.press("enter")
        await until(pilot, lambda: "[bold]no.jpg" in str(screen.query_one("#said").render()))
        await pilot.press("s")
        await until(pilot, lambda: "Nothing to ask" in str(screen.query_one("#said").render()))


async def test_a_job_name_is_never_markup_or_an_action(home):
    add_jobs(home, ("a", "Completed", "[@click=app.exit]boom[/] [/x] [bold"))
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: table(app).rows)
        await until(pilot, lambda: "[@click=app.exit]boom[/]" in explained(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job)
        await until(pilot, lambda: "[@click=app.exit]boom[/]" in str(app.screen.query_one("#facts").render()))
        await asyncio.sleep(0)
        assert app.is_running
