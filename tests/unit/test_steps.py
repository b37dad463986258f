"""What each step of a pipeline will run."""

from __future__ import annotations

from pathlib import Path

import pytest

from footplate.jobfile import read
from footplate.jobfile.limits import MOST_RANKS
from footplate.jobfile.steps import step_plans
from footplate.operations import launch
from footplate.workspace import Invalid

PIPELINE = """\
type: pipeline
inputs:
  epochs: 3
  nodes: 2
  data: {type: uri_folder, path: 'azureml:birds@latest'}
  lr: 0.5
settings: {default_compute: azureml:cpu}
jobs:
  train:
    type: command
    component: ./train.yml
    inputs:
      data: ${{parent.inputs.data}}
      epochs: ${{ parent.inputs.epochs }}
      lr: ${{parent.inputs.lr}}
    environment_variables: {B: step}
    resources: {instance_count: '${{parent.inputs.nodes}}'}
  score:
    command: python score.py ${{inputs.model}} ${{outputs.scores}} ${{inputs.kept}}
    environment: azureml:e:1
    code: ./code
    inputs:
      model: ${{parent.jobs.train.outputs.model}}
      kept: {type: uri_file, path: ./kept.csv}
    outputs: {scores: }
  shared:
    component: azureml:evaluate:1
  many:
    type: parallel
    component: ./train.yml
"""
TRAIN = """\
name: train
type: command
inputs:
  data: {type: uri_folder}
  epochs: {type: integer}
  lr: {type: number, default: 0.1}
  seed: {type: integer, default: 7}
  tag: {type: string, optional: true}
  note: {type: string, optional: true}
outputs:
  model: {type: uri_folder}
command: >-
  python train.py --data ${{inputs.data}} --epochs ${{inputs.epochs}} --lr ${{inputs.lr}}
  $[[--tag ${{inputs.tag}}]] $[[--seed ${{inputs.seed}}]] --out ${{outputs.model}}
environment: azureml:e:1
environment_variables: {A: component, B: component}
distribution: {type: pytorch, process_count_per_instance: 2}
code: ./src
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    for folder in ("src", "code"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.py").write_text("x")
    (tmp_path / "train.yml").write_text(TRAIN)
    path = tmp_path / "pipeline.yml"
    path.write_text(PIPELINE)
    return path


def test_a_components_command_gets_the_pipelines_values(pipeline):
    train = step_plans(read(pipeline))[0]
    assert train.plan is not None
    assert train.plan.command.split() == [
        "python", "train.py", "--data", "<data:", "azureml:birds@latest>", "--epochs", "3", "--lr", "0.5",
        "--seed", "7", "--out", "<output", "model", "of", "train>",
    ]  # fmt: skip
    assert (train.plan.nodes, train.plan.ranks_per_node, train.plan.distribution) == (2, 2, "pytorch")
    assert train.plan.environment_variables == {"A": "component", "B": "step"}
    assert train.code == pipeline.parent / "src"


def test_an_inline_step_is_its_own_component(pipeline):
    score = step_plans(read(pipeline))[1]
    assert score.plan is not None
    assert score.plan.command == "python score.py <output model of train> <output scores of score> <kept: ./kept.csv>"
    assert score.code == pipeline.parent / "code"


def test_steps_whose_command_is_elsewhere_say_why(pipeline):
    shared, many = step_plans(read(pipeline))[2:]
    assert (shared.plan, many.plan) == (None, None)
    assert "azureml:evaluate:1" in shared.why
    assert "parallel" in many.why


def test_a_step_that_cannot_be_resolved_leaves_the_others(pipeline):
    text = PIPELINE.replace("parent.inputs.epochs", "parent.inputs.epoch")
    pipeline.write_text(text)
    steps = step_plans(read(pipeline))
    assert steps[0].plan is None
    assert "`epoch`" in steps[0].why
    assert steps[1].plan is not None
    (pipeline.parent / "train.yml").unlink()
    assert "cannot be read" in step_plans(read(pipeline))[0].why


def test_a_sweep_in_a_pipeline_keeps_its_swept_values(pipeline):
    pipeline.write_text("""\
type: pipeline
jobs:
  tune:
    type: sweep
    trial: ./train.yml
    inputs: {data: {type: uri_folder, path: ./d}, epochs: 2}
    search_space: {lr: {type: uniform, min_value: 0.1, max_value: 1}}
    objective: {goal: maximize, primary_metric: acc}
    limits: {max_total_trials: 2}
""")
    (tune,) = step_plans(read(pipeline))
    assert tune.plan is not None
    assert "--lr ${{search_space.lr}}" in tune.plan.command


def test_pipelines_in_a_pipeline_are_walked_and_end_where_they_hold_themselves(pipeline):
    (pipeline.parent / "inner.yml").write_text("""\
type: pipeline
inputs: {n: {type: integer, default: 4}}
jobs:
  leaf:
    command: echo ${{inputs.n}}
    environment: azureml:e:1
    inputs: {n: '${{parent.inputs.n}}'}
  again: {type: pipeline, component: ./inner.yml}
""")
    pipeline.write_text("""\
type: pipeline
jobs:
  default: {type: pipeline, component: ./inner.yml}
  given: {type: pipeline, component: ./inner.yml, inputs: {n: 9}}
""")
    found = {step.step: step for step in step_plans(read(pipeline))}
    assert [found[name].plan.command for name in ("default.leaf", "given.leaf")] == ["echo 4", "echo 9"]
    assert "holds itself" in found["default.again"].why


def test_a_tree_of_pipelines_that_explodes_is_refused_in_bounded_time(pipeline):
    for deep in range(9):
        steps = "".join(f"  s{n}: {{type: pipeline, component: ./p{deep + 1}.yml}}\n" for n in range(50))
        (pipeline.parent / f"p{deep}.yml").write_text(f"type: pipeline\njobs:\n{steps}")
    (pipeline.parent / "p9.yml").write_text("type: pipeline\njobs: {}\n")
    with pytest.raises(Invalid, match=f"more than {MOST_RANKS} steps"):
        step_plans(read(pipeline.parent / "p0.yml"))


def test_a_dry_run_of_a_pipeline_names_the_step_of_every_command(pipeline):
    document = launch.dry_run(read(pipeline))
    assert [(c["step"], c["rank"]) for c in document["commands"]] == [
        ("train", 0), ("train", 1), ("train", 2), ("train", 3), ("score", 0),
    ]  # fmt: skip
    assert [step["step"] for step in document["steps"]] == ["train", "score", "shared", "many"]
    assert document["upload"]["files"] == 2
    assert {one["path"] for one in document["upload"]["largest"]} == {"src.py", "code.py"}


def test_another_kind_of_file_is_refused(pipeline):
    pipeline.write_text("command: echo\nenvironment: azureml:e:1\n")
    with pytest.raises(Invalid, match="a pipeline job"):
        step_plans(read(pipeline))


def test_a_steps_single_braces_are_plain_text_and_paths_of_its_inputs_are_filled_in(tmp_path):
    text = (
        "type: pipeline\njobs:\n  a:\n    command: cat {inputs.d} ${{inputs.d.path}}\n    environment: azureml:e:1\n"
        "    inputs: {d: {type: uri_file, path: 'azureml:d:1'}}\n"
    )
    (tmp_path / "pipeline.yml").write_text(text)
    (only,) = step_plans(read(tmp_path / "pipeline.yml"))
    assert only.plan is not None
    assert only.plan.command == "cat {inputs.d} <d: azureml:d:1>"


def test_optional_brackets_that_are_never_closed_take_no_longer_than_their_length(tmp_path):
    opened = "$[[" * 300_000
    text = f"type: pipeline\njobs:\n  a:\n    command: 'echo $[[x]] {opened}'\n    environment: azureml:e:1\n"
    (tmp_path / "pipeline.yml").write_text(text)
    (only,) = step_plans(read(tmp_path / "pipeline.yml"))
    assert only.plan is not None
    assert only.plan.command == f"echo x {opened}"
