"""What the eye meets: nothing half shown, nothing said that is not so, each key where it does something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests import metrics_template
from tests.screens.conditions import drawn, until
from tests.screens.fakes import Fake, job
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from footplate.app import FootplateApp
from footplate.screens.invoke import InvokeScreen
from footplate.screens.job import JobScreen
from footplate.screens.jobs import JobsScreen
from footplate.screens.templates import TemplatesScreen
from footplate.widgets.chart import Chart, Series
from footplate.widgets.chrome import KeyLine, TopLine
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import Job, JobFilter, Unreachable


class Listed(Fake):
    """Lists the made-up jobs, or fails with a sentence."""

    fault = ""

    async def jobs(self, wanted: JobFilter) -> AsyncIterator[Sequence[Job]]:
        if self.fault:
            raise Unreachable(self.fault)
        yield list(self.made_up.values())


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Listed:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(tmp_path)
    return Listed()


@asynccontextmanager
async def console(fake: Fake, size: tuple[int, int], view: str = "") -> AsyncIterator[tuple[FootplateApp, Pilot[None]]]:
    app = FootplateApp(view=view)
    app.workspace = fake
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def open_job(app: FootplateApp, pilot: Pilot[None], name: str, tab: str) -> None:
    app.open_job(name, tab)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None)


def said(app: FootplateApp, part: str) -> str:
    return str(app.screen.query_one(part, Static).render())


def keys(app: FootplateApp) -> str:
    return str(app.screen.query_one(KeyLine).render())


class TopApp(App[None]):
    def compose(self) -> ComposeResult:
        yield TopLine()


@pytest.mark.parametrize(
    ("width", "shown", "not_shown"),
    [
        (120, ("footplate", "12 running · 3 waiting · 1 failed today", ":"), ("…",)),
        (88, ("footplate", "12 running"), ("waiting", "failed", "…")),
        (70, ("footplate", "prod ▸ jobs ▸ train_two_nodes"), (":", "running")),
        (58, ("prod ▸ jobs ▸ train_two_nodes",), ("footplate", "running")),
        (48, ("… ▸ train_two_nodes",), ("prod", "jobs")),
    ],
)
async def test_the_top_line_gives_way_in_whole_parts_and_never_its_end(width, shown, not_shown):
    app = TopApp()
    async with app.run_test(size=(width, 5)) as pilot:
        line = app.query_one(TopLine)
        line.crumbs, line.place = ("prod", "jobs", "train_two_nodes"), "AZURE eastus2 read-only"
        line.status = "12 running · 3 waiting · 1 failed today"
        await until(pilot, lambda: "AZURE" in drawn(line)[0])
        text = drawn(line)[0]
        assert "AZURE eastus2 read-only" in text
        assert [part for part in shown if part not in text] == []
        assert [part for part in not_shown if part in text] == []


async def test_the_files_stand_beside_the_log_where_there_is_room(fake):
    fake.made_up = {"one": job("one")}
    for width, beside in ((140, True), (80, False)):
        async with console(fake, (width, 24)) as (app, pilot):
            await open_job(app, pilot, "one", "logs")
            await until(pilot, lambda app=app, beside=beside: app.screen.query_one("#files").display is beside)


async def test_a_list_that_could_not_be_read_shows_the_whole_sentence_and_never_says_it_is_empty(fake):
    fake.fault = (
        "The address management.azure.com does not answer within 30 s; a proxy or a firewall may be in between here"
    )
    async with console(fake, (80, 24)) as (app, pilot):
        await until(pilot, lambda: "does not answer" in app.screen.table.empty)
        await pilot.press("slash", "x", "enter", "f")
        await until(pilot, lambda: app.screen.expression == "x" and app.screen.only_faults)
        await pilot.pause()
        assert " ".join(app.screen.table.empty.split()).startswith(fake.fault)
        assert "open" not in keys(app)
        assert "filter" in keys(app)


async def test_jobs_are_shown_and_found_by_their_display_names(fake):
    fake.made_up = {"gentle_fig_1": job("gentle_fig_1", display_name="night run"), "calm_owl_2": job("calm_owl_2")}
    async with console(fake, (160, 30)) as (app, pilot):
        await until(pilot, lambda: len(app.screen.table.rows) == 2)
        assert any("night run" in line for line in drawn(app.screen.table))
        assert isinstance(app.screen, JobsScreen)
        app.screen.narrow("night")
        await until(pilot, lambda: [row.key for row in app.screen.table.rows] == ["gentle_fig_1"])


async def test_what_is_said_of_the_trial_under_the_cursor_stands_in_full_below_the_table(fake):
    why = (
        "stopped by bandit at value 2: its best so far, 0.41, is worse than 0.86 divided by 1.15, which is 0.7478260869"
    )
    stopped = job("sweep_0", parent="sweep", note=why, status="Canceled", metric=0.41)
    best = job("sweep_1", parent="sweep", metric=0.86)
    fake.made_up = {"sweep": job("sweep", type="sweep", goal="Maximize", primary_metric="acc"), "sweep_0": stopped}
    fake.made_up_children = {"sweep": [stopped, best]}
    async with console(fake, (140, 24)) as (app, pilot):
        await open_job(app, pilot, "sweep", "children")
        await until(pilot, lambda: "maximize acc" in said(app, "#children-said"))
        app.screen.query_one("#trials", VirtualTable).move_to("sweep_0")
        await until(pilot, lambda: why in said(app, "#strip"))
        app.screen.query_one("#trials", VirtualTable).move_to("sweep_1")
        await until(pilot, lambda: not app.screen.query_one("#strip").display)


async def test_the_key_to_the_children_is_called_what_they_are(fake):
    for kind, name in (("pipeline", "steps"), ("sweep", "trials")):
        fake.made_up = {"one": job("one", type=kind)}
        async with console(fake, (100, 24)) as (app, pilot):
            await open_job(app, pilot, "one", "overview")
            await until(pilot, lambda app=app, name=name: f"t {name}" in keys(app))


async def test_two_templates_of_one_name_are_told_apart_by_their_paths(fake, tmp_path):
    (tmp_path / "jobs").mkdir()
    text = "command: echo hello\nenvironment: azureml:any@latest\ndescription: |\n  Says hello,\n  at length.\n"
    (tmp_path / "jobs" / "train.yml").write_text(text)
    async with console(fake, (80, 24), "launch") as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, TemplatesScreen) and app.screen.query_one(VirtualTable).rows)
        app.screen.query_one(VirtualTable).move_to(str(tmp_path / "jobs" / "train.yml"))
        await until(pilot, lambda: "Says hello, at length." in said(app, "#explain"))
        assert "train.yml" in said(app, "#explain")


async def test_without_a_picture_the_keys_that_need_one_are_not_offered(fake):
    async with console(fake, (100, 24), "invoke") as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, InvokeScreen))
        await until(pilot, lambda: "pick" in keys(app))
        assert not any(key in keys(app) for key in ("send", "next", "raw"))


class ChartApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Chart(x_name="min")


async def test_a_count_that_stays_at_none_is_not_drawn_with_an_axis_below_it():
    app = ChartApp()
    async with app.run_test(size=(40, 9)) as pilot:
        chart = app.query_one(Chart)
        chart.show([Series("errors", [(0, 0.0), (5, 0.0)])])
        await until(pilot, lambda: "errors" in drawn(chart)[0])
        assert not any("-1" in line for line in drawn(chart))
