"""Clusters on screen, on a real local workspace: made, looked into, changed, deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests import metrics_template
from tests.at_work import ended
from tests.screens.conditions import until
from textual.pilot import Pilot
from textual.widgets import Button, Input, Static

from footplate.app import FootplateApp
from footplate.jobfile.document import parse
from footplate.screens.choose import ChooseScreen, cluster_row
from footplate.screens.cluster import ClusterScreen
from footplate.screens.cluster_acts import costs, judge
from footplate.screens.clusters import ClustersScreen
from footplate.screens.dialogs import ConfirmDialog, FieldsDialog
from footplate.screens.job import JobScreen
from footplate.screens.jobs import JobsScreen
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import Cluster, ClusterSpec, Size

WAITS = "command: while true; do sleep 0.1; done\nenvironment: azureml:any@latest\ncompute: azureml:pair\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    return tmp_path


@asynccontextmanager
async def on_clusters(size: tuple[int, int] = (120, 30)) -> AsyncIterator[tuple[FootplateApp, Pilot[None]]]:
    app = FootplateApp(view="clusters")
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ClustersScreen) and "local" in names(app))
        yield app, pilot


def names(app: FootplateApp) -> list[str]:
    return [row.key for row in app.screen.query_one(VirtualTable).rows]


def field(app: FootplateApp, name: str) -> Input:
    return app.screen.query_one(f"#field-{name}", Input)


def said(app: FootplateApp, part: str = "#verdict") -> str:
    return str(app.screen.query_one(part, Static).render())


async def test_a_cluster_is_made_with_what_it_comes_to_said_before(home):
    async with on_clusters((80, 24)) as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.query(Input))
        dialog, act = app.screen, app.screen.query_one("#act", Button)
        await until(pilot, lambda: act.disabled)
        assert act.region.bottom <= 24
        field(app, "name").value = "pair"
        await until(pilot, lambda: said(app).startswith("At most 1 × "))
        field(app, "size").focus()
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, ChooseScreen) and app.screen.query_one(VirtualTable).rows)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is dialog)
        field(app, "least").value, field(app, "most").value = "3", "2"
        await until(pilot, lambda: said(app) == "The least cannot be more than the most.")
        assert act.disabled
        field(app, "least").value = "0"
        await until(pilot, lambda: "nothing is billed" in said(app))
        field(app, "idle").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ClustersScreen) and "pair" in names(app))
        made = await app.workspace.cluster("pair")
        assert (made.min_nodes, made.max_nodes, made.idle_seconds) == (0, 2, 120)


async def test_what_the_workspace_refuses_leaves_what_was_typed_in_the_form(home):
    async with on_clusters() as (app, pilot):
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.query(Input))
        first = app.screen
        field(app, "name").value, field(app, "idle").value = "local", "77"
        field(app, "idle").focus()
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not first and isinstance(app.screen, FieldsDialog))
        await until(pilot, lambda: app.screen.query(Input))
        assert (field(app, "name").value, field(app, "idle").value) == ("local", "77")
        assert any("local" in notice.message for notice in app._notifications)


async def test_a_cluster_shows_its_nodes_and_enter_opens_the_job_on_one(home):
    async with on_clusters() as (app, pilot):
        size = (await app.workspace.sizes())[0].name
        await app.workspace.create_cluster(ClusterSpec("pair", size, 0, 1))
        job = await app.workspace.submit(parse(WAITS, None, Path.cwd()))
        try:
            await until(pilot, lambda: "pair" in names(app))
            app.screen.table.move_to("pair")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, ClusterScreen))
            cluster = app.screen
            nodes = cluster.table("nodes")
            await until(pilot, lambda: [row.cells[2] for row in nodes.rows] == [job.name])
            assert "0 of 1 nodes free" in said(app, "#facts")
            await pilot.press("x")
            await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.query("#typed"))
            text = "\n".join(str(part.render()) for part in app.screen.query(Static))
            assert "Delete cluster pair?" in text
            assert f"{job.name} is " in text
            assert "Workspace local" in text
            assert app.screen.query_one("#act", Button).disabled
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is cluster)
            await pilot.press("z")
            await until(pilot, lambda: size in [row.key for row in cluster.table("sizes").rows])
            await pilot.press("u")
            await until(pilot, lambda: cluster.table("quota").rows or "No quota" in cluster.table("quota").empty)
            await pilot.press("J")
            await until(pilot, lambda: isinstance(app.screen, JobsScreen) and names(app) == [job.name])
            await pilot.press("2")
            await until(pilot, lambda: isinstance(app.screen, ClustersScreen))
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, ClusterScreen) and app.screen.table("nodes").rows)
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == job.name)
        finally:
            await app.workspace.cancel(job.name)
            await ended(app.workspace, job.name)


async def test_nodes_and_idle_time_are_changed_and_a_cluster_goes_when_its_name_is_typed(home):
    async with on_clusters() as (app, pilot):
        size = (await app.workspace.sizes())[0].name
        await app.workspace.create_cluster(ClusterSpec("pair", size, 0, 1))
        await until(pilot, lambda: "pair" in names(app))
        app.screen.table.move_to("pair")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and len(app.screen.query(Input)) == 3)
        await until(pilot, lambda: said(app).startswith("Nothing is changed yet."))
        field(app, "most").value = "2"
        await until(pilot, lambda: said(app).startswith("most 1 → 2"))
        field(app, "idle").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ClustersScreen))
        await until(pilot, lambda: _cells(app, "pair")[4] == "0–2")
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.query("#typed"))
        await until(pilot, lambda: app.focused is not None)
        assert app.focused.id == "cancel"  # enter at once deletes nothing, what is typed goes into the line
        await pilot.press(*"pair", "enter")
        await until(pilot, lambda: isinstance(app.screen, ClustersScreen) and "pair" not in names(app))


def _cells(app: FootplateApp, key: str) -> list[str]:
    row = next(row for row in app.screen.query_one(VirtualTable).rows if row.key == key)
    return [cell if isinstance(cell, str) else cell.text for cell in row.cells]


@pytest.mark.parametrize(("queued", "text"), [(None, "–"), (0, "none"), (1, "1 job"), (3, "3 jobs")])
def test_how_many_jobs_wait_is_a_dash_where_it_is_not_told(queued, text):
    row = cluster_row(Cluster("gpu", "AmlCompute", "NC6", "Steady", 0, 4, 1, 6, 1, 120, queued))
    assert row.cells[2].text == text


def test_what_nodes_cost_names_size_and_number():
    size = Size("Standard_NC24ads_A100_v4", 24, 1)
    said = costs(1, 4, size, here=False)
    assert "At most 4 × Standard_NC24ads_A100_v4 = 96 cores, 4 GPUs." in said
    assert "1 × Standard_NC24ads_A100_v4 are billed by the hour even while nothing runs" in said
    assert "rest is free" in costs(0, 4, size, here=False)


@pytest.mark.parametrize("least", ["", "-1", "1.5", "٣", "x"])
def test_what_is_no_number_of_nodes_is_said(least):
    said, can = judge({"name": "a", "size": "", "least": least, "most": "1", "idle": "120"}, {}, True)
    assert said == "Nodes at least: a whole number is needed."
    assert not can
