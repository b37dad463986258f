"""Archive, restore, name and tags of jobs, from the list and from a job, on a real local workspace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import metrics_template
from tests.screens.conditions import until
from tests.screens.fakes import NOW, Fake, job
from tests.screens.test_console_screens import add_jobs, explained, table
from textual.widgets import Button, Input, Static

from footplate.app import FootplateApp
from footplate.screens import job_acts, model_acts
from footplate.screens.base import ConsoleScreen
from footplate.screens.dialogs import ConfirmDialog, FieldsDialog
from footplate.screens.job import JobScreen
from footplate.screens.job_acts import read_tags, tags_text
from footplate.widgets.chrome import TopLine
from footplate.workspace import Invalid, Job, JobFilter, Model, Output


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    return tmp_path / "home"


def keys(app: FootplateApp) -> list[str]:
    return [row.key for row in table(app).rows]


async def test_marked_jobs_are_archived_shown_among_the_others_and_brought_back(home):
    add_jobs(home, ("a", "Completed", ""), ("b", "Failed", "no"), ("c", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(160, 30)) as pilot:
        await until(pilot, lambda: keys(app) == ["a", "b", "c"])
        await pilot.press("space", "space", "a")  # a and b
        await until(pilot, lambda: keys(app) == ["c"])
        assert not table(app).marks
        await pilot.press("A")
        await until(pilot, lambda: keys(app) == ["a", "b", "c"])
        notes = [row.cells[-1].text for row in table(app).rows]
        assert notes == ["archived", "archived · no", ""]
        await pilot.press("home", "a")
        await until(pilot, lambda: table(app).rows[0].cells[-1].text == "")
        await pilot.press("A")
        await until(pilot, lambda: keys(app) == ["a", "c"])
        assert [job.name async for page in app.workspace.jobs(JobFilter()) for job in page] == ["a", "c"]


async def test_name_and_tags_are_changed_and_nothing_else(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: keys(app) == ["a"])
        await app.workspace.update_job("a", tags={"owner": "me", "old": "1"})
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None)
        await until(pilot, lambda: app.screen.job.tags)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and len(app.screen.query(Input)) == 2)
        name, tags = app.screen.query(Input)
        assert tags.value == "owner=me old=1"
        tags.value = "owner='me"
        await until(pilot, lambda: app.screen.query_one("#act", Button).disabled)
        name.value, tags.value = "[bold]best", "owner=me 'note=two words'"
        await until(pilot, lambda: not app.screen.query_one("#act", Button).disabled)
        tags.focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await until(pilot, lambda: app.screen.job.display_name == "[bold]best")
        changed = await app.workspace.job("a")
        assert changed.tags == {"owner": "me", "note": "two words"}
        await until(pilot, lambda: "two words" in str(app.screen.query_one("#details", Static).render()))


@pytest.mark.parametrize("tags", [{}, {"a": "b"}, {"a": "", "b c": "d=e 'f'"}, {"x": '"'}])
def test_tags_are_read_as_they_are_written(tags):
    assert read_tags(tags_text(tags)) == tags


@pytest.mark.parametrize("text", ["word", "=value", "a=b 'c", "a=b word"])
def test_what_is_no_tag_is_a_sentence(text):
    with pytest.raises(Invalid):
        read_tags(text)


async def test_more_than_five_jobs_need_their_number_typed(home):
    app = FootplateApp()
    app.workspace = fake = Fake()
    jobs = [job(f"job-{number}", status="Running") for number in range(7)]
    cancelled: list[str] = []

    async def cancel(name: str) -> Job:
        cancelled.append(name)
        return jobs[0]

    fake.cancel = cancel
    async with app.run_test(size=(120, 30)) as pilot:
        app.act(job_acts.cancel(app, jobs))
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.query("#typed"))
        text = "\n".join(str(part.render()) for part in app.screen.query(Static))
        assert "job-0: 1 rank on cluster local stops." in text
        assert "… and 1 more" in text
        assert app.screen.query_one("#act", Button).disabled
        await pilot.press("6", "enter")
        assert isinstance(app.screen, ConfirmDialog)
        await pilot.press("backspace", "7", "enter")
        await until(pilot, lambda: cancelled == [job.name for job in jobs])


async def test_y_copies_the_name_under_the_cursor(home):
    add_jobs(home, ("a", "Completed", ""))
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: keys(app) == ["a"] and explained(app))
        await pilot.press("y")
        assert app.clipboard == "a"
        assert isinstance(app.screen, ConsoleScreen)


async def test_what_a_job_wrote_is_downloaded_with_how_far_it_is_in_the_top_line(home, tmp_path):
    app = FootplateApp()
    app.workspace = fake = Fake()
    go_on = asyncio.Event()
    asked: list[tuple[str, str, Path]] = []

    async def outputs(name: str) -> list[Output]:
        return [Output("default", "uri_folder", 3, 2_000_000), Output("model", "uri_folder", 1, 500)]

    async def download(name: str, output: str, folder: Path, progress=None) -> int:
        asked.append((name, output, folder))
        progress(1_000_000, 2_000_000)
        await go_on.wait()
        return 3

    fake.outputs, fake.download = outputs, download
    async with app.run_test(size=(120, 30)) as pilot:
        app.act(job_acts.download(app, job("wren")))
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.query(Input))
        text = "\n".join(str(part.render()) for part in app.screen.query(Static))
        assert "default: 3 files, 2.0 MB" in text
        await pilot.press("right")  # the first of the outputs in place of all
        app.screen.query_one(Input).value = str(tmp_path / "here")
        app.screen.query_one(Input).focus()
        await pilot.press("enter")
        await until(pilot, lambda: "downloading 1.0 MB of 2.0 MB" in str(app.screen.query_one(TopLine).render()))
        assert asked == [("wren", "default", tmp_path / "here" / "default")]
        go_on.set()
        await until(pilot, lambda: any("3 files of wren" in notice.message for notice in app._notifications))
        await until(pilot, lambda: "downloading" not in str(app.screen.query_one(TopLine).render()))


async def test_deploying_says_what_differs_on_azure_and_what_a_size_costs(home):
    app = FootplateApp()
    app.workspace = fake = Fake()
    async with app.run_test(size=(80, 24)) as pilot:
        app.act(model_acts.deploy(app, Model("birds", "1", "custom_model", NOW)))
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.query(Input))
        text = "\n".join(str(part.render()) for part in app.screen.query(Static))
        assert "On Azure this would differ:" in text
        assert "billed" not in text
        assert app.screen.query_one("#act", Button).region.bottom <= 24
        await pilot.press("escape")
        fake.__class__ = type("Sized", (Fake,), {"deployment_size": "Standard_DS3_v2"})
        app.act(model_acts.deploy(app, Model("birds", "1", "custom_model", NOW)))
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.query(Input))
        text = "\n".join(str(part.render()) for part in app.screen.query(Static))
        assert "1 × Standard_DS3_v2, which is billed by the hour" in text
