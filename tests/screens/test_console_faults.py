"""Faults that the console once had, each a test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.screens.conditions import until
from tests.screens.test_console_screens import add_jobs, explained, home, table
from textual.widgets import Input

from footplate.app import FootplateApp
from footplate.operations import launch
from footplate.screens.invoke import InvokeScreen
from footplate.screens.job import JobScreen
from footplate.screens.launch import LaunchScreen
from footplate.screens.picker import PathPicker
from footplate.widgets.fault_list import FaultList
from footplate.workspace import JobFilter, Unreachable

__all__ = ["home"]


async def names(app: FootplateApp) -> list[str]:
    return [job.name async for page in app.workspace.jobs(JobFilter()) for job in page]


async def open_form(app: FootplateApp, pilot: Any) -> None:
    await pilot.press("5")
    await until(pilot, lambda: app.screen.where == "templates" and table(app).rows)
    while Path(str(table(app).cursor_key)).name != "aaa-hello.yml":
        await pilot.press("down")
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and not app.screen.query_one("#launch").disabled)


async def test_a_job_opened_over_a_list_that_is_filtered_empty_does_not_end_the_console(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: table(app).rows)
        await pilot.press("f")
        await until(pilot, lambda: not table(app).rows)
        app.open_job("a", "overview")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "jobs")
        await until(pilot, lambda: "None of 1 rows" in table(app).empty)


async def test_launch_pressed_twice_starts_one_job(home):
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await open_form(app, pilot)
        form = app.screen
        form.action_launch()
        form.action_launch()
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        assert len(await names(app)) == 1


async def test_leaving_the_form_while_it_starts_the_job_closes_nothing_else(home):
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await open_form(app, pilot)
        app.screen.action_launch()
        await app.action_go("clusters")
        await until(pilot, lambda: app.screen.where == "clusters" and table(app).rows)
        async with asyncio.timeout(20):
            while not await names(app):
                await pilot.pause(0.02)
        assert app.screen.where == "clusters"


class Gate:
    """A workspace whose lists of jobs come when the test says so, as over a slow line; counts who waits."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.open = asyncio.Event()
        self.waiting = self.most = 0
        self.fault: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def jobs(self, matching: JobFilter) -> Any:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.open.wait()
            if self.fault:
                raise self.fault
            async for page in self.inner.jobs(matching):
                yield page
        finally:
            self.waiting -= 1


async def test_a_slow_workspace_is_asked_once_at_a_time_and_shown_when_it_answers(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    gate = Gate(app.workspace)
    app.workspace = gate
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: gate.waiting)
        for _ in range(5):
            app.screen.poll()
            await pilot.pause()
        gate.open.set()
        await until(pilot, lambda: table(app).rows)
        assert gate.most == 1


async def test_a_workspace_that_stops_answering_is_said_once_in_its_line_and_the_rows_stay(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    gate = Gate(app.workspace)
    gate.open.set()
    app.workspace = gate
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: table(app).rows)
        gate.fault = Unreachable("The line is cut.", "Look again later.")
        await until(pilot, lambda: "The line is cut. Look again later." in explained(app))
        assert len(table(app).rows) == 1
        assert len(app._notifications) == 0
        gate.fault = None
        await until(pilot, lambda: "The line is cut" not in explained(app))


async def test_a_view_given_at_the_start_is_filtered_and_esc_shows_all(home):
    add_jobs(home, ("a", "Completed", ""), ("b", "Failed", "why"))
    app = FootplateApp(view="jobs status:failed")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: [row.key for row in table(app).rows] == ["b"])
        assert app.screen.query_one("#filter", Input).value == "status:failed"
        app.screen.key_escape()
        await until(pilot, lambda: len(table(app).rows) == 2)


async def test_a_folder_named_like_markup_does_not_end_the_picker(home, tmp_path):
    folder = tmp_path / "x[/b] [@click=app.exit]y"
    folder.mkdir(parents=True)
    (folder / "[bold]a.png").write_bytes(b"")
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("6")
        await until(pilot, lambda: isinstance(app.screen, InvokeScreen))
        app.screen._picture = folder / "gone" / "a.png"
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, PathPicker) and app.screen.folder == folder)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, InvokeScreen))


async def test_several_marked_jobs_are_cancelled_together_after_one_question(home):
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        job_file = launch.prepare(Path("jobs/aaa-hello.yml"), ["inputs.seconds=600"])
        for _ in range(2):
            await app.workspace.submit(job_file)
        await until(pilot, lambda: len(table(app).rows) == 2)
        await pilot.press("home", "space", "space", "x")
        await until(pilot, lambda: app.screen.query("#act"))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: all("X Canceled" in str(row.cells[1]) for row in table(app).rows), 40)


async def test_a_strange_file_among_the_templates_hides_no_other(home, tmp_path):
    for name, text in (
        ("b.yml", "d: 2024-02-30\n"),
        ("c.yml", "&a {x: *a}\n"),
        ("d.yml", "command: x\nenvironment: y\ninputs: {1: z}\n"),
    ):
        (tmp_path / "jobs" / name).write_text(text)
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("5")
        await until(pilot, lambda: app.screen.where == "templates" and len(table(app).rows) >= 4)
        shown = {Path(row.key).name: row for row in table(app).rows}
        assert "not foresee" not in str(shown["d.yml"])
        for name in ("b.yml", "c.yml", "d.yml"):
            table(app).move_to(shown[name].key)
            await pilot.press("enter")
            await pilot.pause()
        assert app.is_running


async def test_a_form_with_changed_values_asks_before_it_is_left(home):
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_form(app, pilot)
        form = app.screen
        await pilot.press("x", "escape")
        await until(pilot, lambda: app.screen.query("#act"))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is form)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.query("#act"))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: app.screen.where == "templates")


async def test_a_number_typed_as_text_is_said(home):
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_form(app, pilot)
        app.screen.editor("inputs", "seconds").value = "2abc"
        wrong = app.screen.query_one(FaultList)
        said = "seconds is integer in the file and is now text."
        await until(pilot, lambda: said in [fault.message for fault in wrong.faults])


async def test_a_job_opened_from_the_models_goes_back_to_them_and_1_is_always_the_list(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: app.screen.where == "models")
        app.open_job("a", "overview")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "models")
        app.open_job("a", "overview")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job)
        await pilot.press("1")
        await until(pilot, lambda: app.screen.where == "jobs")


async def test_the_demo_asks_first_where_there_are_jobs(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: table(app).rows)
        await pilot.press("d")
        await until(pilot, lambda: app.screen.query("#act"))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.where == "jobs")
        assert await names(app) == ["a"]


async def test_opening_a_form_changes_no_value_that_nobody_touched(home, tmp_path):
    text = (
        "command: echo '${{inputs.note}}' ${{inputs.script}}\nenvironment: azureml:x:1\n"
        "inputs:\n  note: ' '\n  script: |\n    a\n    b\n"
    )
    (tmp_path / "jobs" / "aaa-hello.yml").write_text(text)
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_form(app, pilot)
        await until(pilot, lambda: app.screen.settled)
        assert app.screen.outlook.job_file.text == text


async def test_a_home_folder_of_nobody_in_a_path_is_a_sentence(home):
    app = FootplateApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("6")
        await until(pilot, lambda: isinstance(app.screen, InvokeScreen))
        await pilot.press("slash")
        app.screen.query_one("#path", Input).value = "~nobody-of-that-name/x.png"
        await pilot.press("enter")
        await until(pilot, lambda: "not there" in str(app.screen.query_one("#said").render()))
