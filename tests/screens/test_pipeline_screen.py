"""A pipeline's screen: the graph, the chosen step, the form of its inputs; driven by keys on the local workspace."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests import metrics_template
from tests.at_work import ended
from tests.screens.conditions import drawn, until
from textual.app import App, ComposeResult
from textual.widgets import Static

from footplate.app import FootplateApp
from footplate.jobfile import read
from footplate.jobfile.check import check
from footplate.jobfile.pipeline import graph_of
from footplate.screens.dialogs import ConfirmDialog, TextDialog
from footplate.screens.job import JobScreen
from footplate.screens.pipeline import PipelineScreen
from footplate.widgets.graph import GraphView, Node
from footplate.widgets.graph_layout import draw, tree
from footplate.widgets.step_panel import StepPanel, nodes_of, step_text

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

PIPELINE = """\
type: pipeline
display_name: birds
experiment_name: birds
settings: {default_compute: azureml:local}
inputs:
  rate: 0.1  # of learning
  pictures: {type: uri_folder, path: ./birds}
outputs:
  model: {type: custom_model}
jobs:
  prepare:
    command: python prepare.py --from ${{inputs.raw}} --to ${{outputs.ready}}
    environment: azureml:e:1
    inputs: {raw: '${{parent.inputs.pictures}}'}
    outputs: {ready: {}}
  train:
    component: ./train.yml
    inputs:
      data: ${{parent.jobs.prepare.outputs.ready}}
      rate: ${{parent.inputs.rate}}
    outputs:
      model: ${{parent.outputs.model}}
  "[bold]odd[/bold]":
    command: echo ${{inputs.x}}
    environment: azureml:e:1
    compute: azureml:far
    inputs: {x: '${{parent.inputs.nothing}}'}
"""

TRAIN = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: train
version: 1
inputs:
  data: {type: uri_folder}
  rate: {type: number}
  epochs: {type: integer, default: 3}
outputs:
  model: {type: custom_model}
command: >-
  python train.py --data ${{inputs.data}} --rate ${{inputs.rate}} --epochs ${{inputs.epochs}} --out ${{outputs.model}}
environment: azureml:e:1
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 4}
"""


@pytest.fixture
def pipeline(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / "birds").mkdir()
    (tmp_path / "train.yml").write_text(TRAIN)
    (tmp_path / "pipeline.yml").write_text(PIPELINE)
    return tmp_path / "pipeline.yml"


@asynccontextmanager
async def opened(path: Path, size: tuple[int, int]):
    """The screen of a file, with everything worked out."""
    app = FootplateApp()
    async with app.run_test(size=size) as pilot:
        screen = PipelineScreen(read(path))
        app.push_screen(screen)
        await until(pilot, lambda: screen.query(StepPanel) and said(screen) != "reading …")
        await until(pilot, lambda: screen.settled)
        yield screen, pilot


def said(screen: PipelineScreen) -> str:
    return str(screen.query_one(StepPanel).query_one(Static).render())


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_the_chosen_step_says_what_it_runs_and_what_flows(pipeline, size):
    async with opened(pipeline, size) as (screen, pilot):
        assert screen.focused is screen.graph
        assert screen.graph.chosen == "prepare"
        assert "← the pipeline's pictures = ./birds" in said(screen)
        assert "→ train.data" in said(screen)
        assert "python prepare.py --from <raw: ./birds> --to <output ready>" in said(screen)
        screen.graph.choose("train")
        await until(pilot, lambda: "train.yml" in said(screen))
        for part in (
            "← prepare.ready",
            "← the pipeline's rate = 0.1",
            "3  the component's default",
            "→ the pipeline's model",
            "local   the pipeline's default",
            "2 × 4",
            "--data <prepare.ready> --rate 0.1 --epochs 3 --out <output model>",
        ):
            assert part in said(screen), part


async def test_faults_stand_at_their_step_and_f8_goes_there(pipeline):
    async with opened(pipeline, (160, 45)) as (screen, pilot):
        shown = "\n".join(drawn(screen.graph))
        assert "[bold]odd[/bold]" in shown
        while "has no input nothing" not in said(screen):
            await pilot.press("f8")
            await until(pilot, lambda: screen.graph.chosen is not None)
        assert screen.graph.chosen == "[bold]odd[/bold]"
        assert "✗ line" in said(screen)
        assert "far   the step's own" in said(screen)


async def test_a_typed_input_is_in_the_step_at_once_and_nothing_else_of_the_file_moves(pipeline):
    async with opened(pipeline, (80, 24)) as (screen, pilot):
        await pilot.press("f4")
        await until(pilot, lambda: screen.focused is screen.editor("inputs", "rate"))
        screen.focused.value = "0.5"
        await until(pilot, lambda: screen.outlook.job_file.get("inputs", "rate") == 0.5)
        assert screen.outlook.job_file.text == PIPELINE.replace("0.1", "0.5")
        await pilot.press("f4")
        assert screen.focused is screen.graph
        screen.graph.choose("train")
        await until(pilot, lambda: "--rate 0.5" in said(screen))


async def test_a_launch_opens_the_running_pipeline_at_its_graph(pipeline):
    text = PIPELINE[: PIPELINE.index('  "[bold]')]
    pipeline.write_text(text.replace("python prepare.py --from", "false"))
    async with opened(pipeline, (160, 45)) as (screen, pilot):
        app = screen.app
        await until(pilot, lambda: not screen.query_one("#launch").disabled)
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.tab == "children")
        await until(pilot, lambda: app.screen.job is not None and app.screen.query_one("#steps", GraphView).display)
        graph = app.screen.query_one("#steps", GraphView)
        await until(pilot, lambda: any("train" in line for line in drawn(graph)))
        await until(pilot, lambda: any("F Failed" in line for line in drawn(graph)))
        await ended(app.workspace, app.screen.job_name)


async def test_a_launch_that_cannot_be_goes_to_the_faulty_step(pipeline):
    async with opened(pipeline, (160, 45)) as (screen, pilot):
        assert screen.graph.chosen == "prepare"
        await pilot.press("f5")
        await until(pilot, lambda: screen.graph.chosen == "[bold]odd[/bold]")
        assert screen.focused is screen.graph


async def test_a_launch_that_is_mended_first_goes_to_the_faulty_step(pipeline):
    pipeline.write_text(PIPELINE.replace('"[bold]odd[/bold]"', "odd"))
    async with opened(pipeline, (160, 45)) as (screen, pilot):
        assert screen.graph.chosen == "prepare"
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(screen.app.screen, ConfirmDialog) and screen.app.screen.focused)
        await pilot.press("enter")  # it starts on the harmless answer
        await until(pilot, lambda: screen.app.screen is screen and screen.graph.chosen == "odd")
        assert screen.focused is screen.graph


async def test_a_pipeline_within_the_pipeline_says_its_own_steps(pipeline, tmp_path):
    inner = "type: pipeline\nname: inner\nversion: 1\njobs:\n  one: {component: ./train.yml}\n  two: {component: ./train.yml}\n"
    (tmp_path / "inner.yml").write_text(inner)
    pipeline.write_text("type: pipeline\njobs:\n  outer: {type: pipeline, component: ./inner.yml}\n")
    async with opened(pipeline, (80, 24)) as (screen, _):
        assert "2 steps" in said(screen)
        assert "two   train.yml" in said(screen)


async def test_a_pipeline_without_steps_says_so(pipeline):
    pipeline.write_text("type: pipeline\njobs: {}\n")
    async with opened(pipeline, (80, 24)) as (screen, _):
        assert "no steps" in said(screen)


async def test_enter_shows_the_step_whole_and_esc_steps_back_through_the_views(pipeline):
    async with opened(pipeline, (80, 24)) as (screen, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(screen.app.screen, TextDialog))
        await pilot.press("escape", "f3")
        assert screen.has_class("plan")
        await pilot.press("escape")
        assert not screen.has_class("plan")
        await pilot.press("f4", "escape")
        await until(pilot, lambda: screen.focused is screen.graph)
        await pilot.press("escape")
        await until(pilot, lambda: screen.app.screen is not screen)


def corpus_pipelines() -> list[Path]:
    found = sorted(CORPUS.rglob("*.y*ml")) if CORPUS.is_dir() else []
    return [path for path in found if "\njobs:" in path.read_text("utf-8", "replace")]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the corpus is not at {CORPUS}")
def test_every_real_pipeline_is_laid_out_and_each_of_its_steps_said_in_words():
    seen = 0
    for job_file in map(read, corpus_pipelines()):
        if job_file.kind != "pipeline":
            continue
        seen += 1
        graph, faults = graph_of(job_file), check(job_file)
        nodes = nodes_of(graph, faults)
        names = set(job_file.mapping("jobs"))
        assert {line.node.key for line in tree(nodes)} == names, job_file.path
        drawing = draw(nodes, 400)
        assert drawing is not None, job_file.path
        assert {box.node.key for box in drawing.boxes} == names
        for step in graph.steps:
            text = str(step_text(graph, step, faults))
            assert text.startswith(step.name)
            assert all(given.name in text for given in step.inputs), (job_file.path, step.name)
    assert seen > 30


# The graph alone


class Alone(App[None]):
    """A graph in a window of its own."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__()
        self.nodes = nodes
        self.heard: list[str | None] = []

    def compose(self) -> ComposeResult:
        yield GraphView(self.nodes)

    def on_graph_view_highlighted(self, event: GraphView.Highlighted) -> None:
        self.heard.append(event.key)


FAN = [
    Node("a", "split"),
    *(Node(f"m{n}", f"map-{n}", "map.yml", ("a",)) for n in range(3)),
    Node("r", "雀 [b]join", "", ("m0", "m1", "m2", "a"), "error"),
]


async def test_boxes_where_there_is_room_and_arrows_follow_the_lines():
    app = Alone(FAN)
    async with app.run_test(size=(100, 20)) as pilot:
        graph = app.query_one(GraphView)
        graph.focus()
        assert graph.as_boxes
        shown = drawn(graph)
        assert any("│ split" in line or "│▸split" in line for line in shown)
        assert all(len(line) <= 100 for line in shown)
        await pilot.press("right", "right")
        assert graph.chosen == "r"
        await pilot.press("left", "down")
        assert graph.chosen in ("m1", "m2")
        await pilot.press("home", "end")
        assert graph.chosen == "r"
        assert app.heard[-1] == "r"


async def test_a_tree_where_there_is_none_and_every_step_is_reached():
    app = Alone(FAN)
    async with app.run_test(size=(40, 4)) as pilot:
        graph = app.query_one(GraphView)
        graph.focus()
        assert not graph.as_boxes
        assert "╰─▶" in "\n".join(drawn(graph)) or "├─▶" in "\n".join(drawn(graph))
        seen = {graph.chosen}
        for _ in FAN:
            await pilot.press("down")
            seen.add(graph.chosen)
        assert seen == {node.key for node in FAN}
        assert any("▸" in line for line in drawn(graph))  # what is chosen was scrolled into sight


async def test_a_click_chooses_the_box():
    app = Alone(FAN)
    async with app.run_test(size=(100, 20)) as pilot:
        graph = app.query_one(GraphView)
        box = next(box for box in graph._drawing.boxes if box.node.key == "m2")
        await pilot.click(GraphView, offset=(box.x + 2, box.y + 1))
        assert graph.chosen == "m2"


async def test_a_step_that_goes_takes_the_choice_to_the_first():
    app = Alone(FAN)
    async with app.run_test(size=(100, 20)) as pilot:
        graph = app.query_one(GraphView)
        graph.choose("r")
        graph.show(FAN[:2])
        await pilot.pause()
        assert graph.chosen == "a"
        graph.show([])
        await pilot.pause()
        assert graph.chosen is None
