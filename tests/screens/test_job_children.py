"""A sweep's trials and a pipeline's steps on screen, and the overview of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests import metrics_template
from tests.screens.conditions import drawn, until
from tests.screens.fakes import NOW, Fake, job
from textual.pilot import Pilot
from textual.widgets import Input, Static

from footplate.app import FootplateApp
from footplate.jobfile.document import parse
from footplate.screens.dialogs import ConfirmDialog, FieldsDialog
from footplate.screens.job import JobScreen
from footplate.screens.job_children import ChildrenPane
from footplate.widgets.chart import Chart
from footplate.widgets.graph import GraphView
from footplate.widgets.scatter import Scatter
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import MetricPoint, Service, Stage

SWEEP = """\
type: sweep
trial:
  command: python train.py --lr ${{search_space.lr}}
  environment: azureml:any@latest
compute: local
search_space:
  lr: {type: uniform, min_value: 0.1, max_value: 0.9}
sampling_algorithm: random
objective: {goal: minimize, primary_metric: val_loss}
limits: {max_total_trials: 20, max_concurrent_trials: 4}
early_termination: {type: bandit, slack_factor: 0.1, evaluation_interval: 1}
"""
PIPELINE = """\
type: pipeline
jobs:
  prepare:
    type: command
    command: "true"
    environment: azureml:any@latest
    outputs: {made: {type: uri_folder}}
  train:
    type: command
    command: ls ${{inputs.data}}
    environment: azureml:any@latest
    inputs: {data: "${{parent.jobs.prepare.outputs.made}}"}
"""


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Fake:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    return Fake()


@asynccontextmanager
async def on_job(
    fake: Fake, name: str, tab: str, size: tuple[int, int] = (140, 40)
) -> AsyncIterator[tuple[FootplateApp, Pilot[None]]]:
    app = FootplateApp()
    app.workspace = fake
    async with app.run_test(size=size) as pilot:
        app.open_job(name, tab)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None)
        yield app, pilot


def trial(number: int, metric: float | None, **more) -> object:
    given = {"parent": "sweep", "parameters": {"lr": 0.1234567 * (number + 1)}, "metric": metric} | more
    return replace(job(f"sweep_{number}", **given), created=NOW + timedelta(seconds=number))


def with_sweep(fake: Fake, *trials, **more) -> None:
    given = {"type": "sweep", "status": "Running", "primary_metric": "val_loss", "goal": "minimize"} | more
    fake.made_up = {"sweep": job("sweep", **given), **{one.name: one for one in trials}}
    fake.made_up_children = {"sweep": list(trials)}
    fake.file = parse(SWEEP, None, Path.cwd())


def said(app: FootplateApp) -> str:
    return str(app.screen.query_one("#children-said", Static).render())


def trials(app: FootplateApp) -> VirtualTable:
    return app.screen.query_one("#trials", VirtualTable)


async def test_trials_are_a_table_with_the_best_first_and_marked_by_more_than_colour(fake):
    with_sweep(
        fake,
        trial(0, 0.5),
        trial(1, 0.2),
        trial(2, None, status="Running"),
        trial(3, float("nan"), error="[/x] diverged", status="Failed"),
        best_child="sweep_1",
    )
    async with on_job(fake, "sweep", "children") as (app, pilot):
        await until(pilot, lambda: "4 of 20 trials" in said(app))
        assert [row.key for row in trials(app).rows] == ["sweep_1", "sweep_0", "sweep_2", "sweep_3"]
        assert [column.title for column in trials(app).columns][2:4] == ["val_loss", "lr"]
        assert trials(app).rows[0].cells[2].text == "★ 0.200"
        assert trials(app).rows[2].cells[2].text == "–"
        assert trials(app).rows[0].cells[3] == "0.247"
        for part in (
            "1 running",
            "4 at once",
            "random",
            "bandit may stop",
            "minimize val_loss",
            "best ★ sweep_1 0.200",
        ):
            assert part in said(app)
        await until(pilot, lambda: app.screen.query_one("#plots").display)
        await until(pilot, lambda: "best so far" in drawn(app.screen.query_one(Chart))[0])
        fake.made_up_children["sweep"][0] = trial(0, 0.1)
        fake.made_up["sweep"] = replace(fake.made_up["sweep"], best_child="sweep_0")
        await until(pilot, lambda: trials(app).rows[0].key == "sweep_0")
        assert trials(app).cursor_key == "sweep_1"  # the cursor stays on its trial
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job_name == "sweep_1")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.job_name == "sweep")


async def test_the_note_of_a_sweep_says_in_its_own_line_that_the_metric_is_missing(fake):
    note = "No trial logs val_loss; they log val_los. Cancel, then clone with that name."
    with_sweep(fake, trial(0, None, status="Running"), note=note)
    async with on_job(fake, "sweep", "children", (80, 24)) as (app, pilot):
        await until(pilot, lambda: note in said(app).splitlines())
        assert not app.screen.query_one("#plots").display
        await pilot.press("R")
        await until(pilot, lambda: any("has logged val_loss" in notice.message for notice in app._notifications))
        assert isinstance(app.screen, JobScreen)


async def test_a_parameter_is_plotted_against_the_metric_and_the_trial_under_the_cursor_pointed_out(fake):
    with_sweep(
        fake,
        trial(0, 0.5, parameters={"lr": 0.001, "optimizer": "adam"}, started=NOW),
        trial(1, 0.2, parameters={"lr": 0.01, "optimizer": "sgd"}, started=NOW),
        trial(2, float("nan"), parameters={"lr": 0.1, "optimizer": "sgd"}, status="Failed"),
        best_child="sweep_1",
    )
    fake.file = parse(
        SWEEP.replace("uniform, min_value: 0.1, max_value: 0.9", "loguniform, min_value: -7, max_value: 0"),
        None,
        Path.cwd(),
    )
    curves = {"sweep_0": [0.9, 0.5], "sweep_1": [0.8, 0.4, 0.2]}

    async def metrics(name):
        values = curves.get(name, [])
        return {"val_loss": [MetricPoint(at, NOW, value) for at, value in enumerate(values)]}

    fake.metrics = metrics
    async with on_job(fake, "sweep", "children", (140, 40)) as (app, pilot):
        scatter = app.screen.query_one(Scatter)
        await until(pilot, lambda: scatter.display and "val_loss over lr (log)" in drawn(scatter)[0])
        assert "by its best value, not its last" in said(app)
        lines = drawn(scatter)
        assert "★ 0.01 → 0.2" in lines[0], "the best is under the cursor"
        plot = "".join(lines[1:])
        assert (plot.count("•"), plot.count("★"), plot.count("×")) == (1, 1, 1)
        columns = {sign: next(line.index(sign) for line in lines[1:] if sign in line) for sign in "•★×"}
        assert columns["★"] - columns["•"] == pytest.approx(columns["×"] - columns["★"], abs=1), "even on a log axis"
        await until(pilot, lambda: trials(app).rows[0].cells[5].text == "█▃▁", 30)
        await pilot.press("down")
        await until(pilot, lambda: "◆ 0.001 → 0.5" in drawn(scatter)[0])
        await pilot.press("p", "p")
        await until(pilot, lambda: "val_loss over optimizer" in drawn(scatter)[0])
        assert drawn(scatter)[-1].split() == ["adam", "sgd"]
        assert "(log)" not in drawn(scatter)[0]


async def test_plots_come_on_a_low_screen_when_they_are_asked_for(fake):
    with_sweep(fake, trial(0, 0.5), trial(1, 0.2))
    async with on_job(fake, "sweep", "children", (80, 24)) as (app, pilot):
        await until(pilot, lambda: len(trials(app).rows) == 2)
        seen = []
        for _ in range(4):
            pane = app.screen.query_one(ChildrenPane)
            shown = pane.has_class("plotted")
            seen.append(
                (shown and app.screen.query_one(Chart).display, shown and app.screen.query_one(Scatter).display)
            )
            await pilot.press("p")
        assert seen == [(False, False), (True, False), (False, True), (False, False)]


async def test_a_trial_is_cancelled_from_the_table(fake):
    with_sweep(fake, trial(0, 0.5), trial(1, None, status="Running"), trial(2, None, status="Queued"))
    asked = []

    async def cancel(name):
        asked.append(name)
        return replace(fake.made_up[name], status="CancelRequested")

    fake.cancel = cancel
    async with on_job(fake, "sweep", "children") as (app, pilot):
        await until(pilot, lambda: len(trials(app).rows) == 3)
        await pilot.press("X")
        await until(pilot, lambda: any("sweep_0 has ended" in notice.message for notice in app._notifications))
        trials(app).move_to("sweep_1")
        await pilot.press("space", "space", "X")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        assert "Cancel 2 jobs?" in "\n".join(str(part.render()) for part in app.screen.query(Static))
        await pilot.press("escape")
        assert asked == []
        await pilot.press("X")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: asked == ["sweep_1", "sweep_2"])


async def test_a_sweep_registers_the_model_of_its_best_trial_and_says_which(fake):
    with_sweep(fake, trial(0, 0.5), trial(1, 0.2), best_child="sweep_1", status="Completed")
    asked = []

    async def register(name, source, description="", output=None):
        asked.append((name, source))

    fake.register = register
    async with on_job(fake, "sweep", "children") as (app, pilot):
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.query(Input))
        text = "\n".join(str(part.render()) for part in app.screen.query(Static))
        assert "From the best trial, sweep_1, val_loss 0.200, lr 0.247." in text
        await pilot.press("enter")
        await until(pilot, lambda: asked == [("birds", "sweep")])


async def test_the_steps_of_a_pipeline_are_its_graph_with_live_statuses(fake):
    prepare = job("line_prepare", display_name="prepare", parent="line", started=NOW, ended=NOW + timedelta(seconds=7))
    fake.made_up = {"line": job("line", type="pipeline", status="Running"), prepare.name: prepare}
    fake.made_up_children = {"line": [prepare]}
    fake.file = parse(PIPELINE, None, Path.cwd())
    async with on_job(fake, "line", "children") as (app, pilot):
        graph = app.screen.query_one(GraphView)
        await until(pilot, lambda: graph.display and graph.has_focus)
        await until(pilot, lambda: any("C Completed 7s" in line for line in drawn(graph)))
        lines = drawn(graph)
        at = {word: next(line.index(word) for line in lines if word in line) for word in ("prepare", "train", "waits")}
        assert at["prepare"] < at["train"]
        assert "1 of 2 steps completed" in said(app)
        await pilot.press("right", "enter")
        await until(pilot, lambda: any("train has not begun" in notice.message for notice in app._notifications))
        train = job("line_2", display_name="train", parent="line", status="Failed", error="no")
        fake.made_up["line_2"] = train
        fake.made_up_children["line"].append(train)
        await until(pilot, lambda: any("F Failed" in line for line in drawn(graph)))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.job_name == "line_2")


async def test_without_its_file_a_pipelines_steps_are_a_table(fake):
    step = job("x1", display_name="prepare", parent="line")
    fake.made_up = {"line": job("line", type="pipeline"), "x1": step}
    fake.made_up_children = {"line": [step]}
    fake.refused = {"job_file": "No."}
    async with on_job(fake, "line", "children", (80, 24)) as (app, pilot):
        await until(pilot, lambda: [row.cells[0] for row in trials(app).rows] == ["prepare  x1"])
        assert not app.screen.query_one(ChildrenPane).has_class("graph")


async def test_the_overview_begins_with_the_stages_and_why_it_waits(fake):
    stages = (
        Stage("Queued", NOW, NOW + timedelta(seconds=41)),
        Stage("Preparing", NOW + timedelta(seconds=41), NOW + timedelta(seconds=171)),
    )
    fake.made_up = {
        "one": job(
            "one",
            status="Preparing",
            stages=stages,
            note="2 of 4 nodes are free, it wants 3.",
            studio_url="https://studio/one",
        )
    }
    fake.made_up["one"] = replace(fake.made_up["one"], compute="", tags={"owner": "[me]"})
    fake.served = (
        Service("jupyter", "JupyterLab", "Running", "https://jupyter/one"),
        Service("ssh", "SSH", "Failed", "", "no key"),
    )
    async with on_job(fake, "one", "overview") as (app, pilot):
        details = app.screen.query_one("#details", Static)
        await until(pilot, lambda: "https://jupyter/one" in str(details.render()))
        lines = str(details.render()).splitlines()
        assert lines[0] == "queued 41s · preparing 2m10s"
        assert lines[1] == "2 of 4 nodes are free, it wants 3."
        text = "\n".join(lines)
        assert "serverless" in text
        assert "https://studio/one" in text
        assert "[me]" in text
        assert "no key" in text
        await pilot.press("y")
        assert app.clipboard == "https://studio/one"
