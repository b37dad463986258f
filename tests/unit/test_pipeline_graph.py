"""The graph of a pipeline: steps, edges, levels, components beside the file, and what leads nowhere."""

from __future__ import annotations

from pathlib import Path

from footplate.jobfile.document import parse, read
from footplate.jobfile.graph import Edge, Graph, Port
from footplate.jobfile.pipeline import graph_of

PIPELINE = """\
type: pipeline
inputs:
  data: {type: uri_folder, path: azureml:birds@latest}
  epochs: 3
outputs:
  report: {type: uri_file}
settings: {default_compute: azureml:cpu}
jobs:
  evaluate:
    type: command
    command: python evaluate.py ${{inputs.model}} ${{outputs.report}}
    environment: azureml:env:1
    inputs:
      model: ${{parent.jobs.train.outputs.model}}
      data: {type: uri_folder, path: '${{parent.inputs.data}}', mode: download}
    outputs:
      report: ${{parent.outputs.report}}
  prepare:
    component: ./prepare.yml
    inputs:
      raw: ${{ parent.inputs.data }}
      kind: birds
    outputs:
      clean:
  train:
    type: command
    component: azureml:train@latest
    compute: azureml:gpu
    resources: {instance_count: 2}
    distribution: {type: pytorch, process_count_per_instance: 4}
    inputs:
      clean: ${{parent.jobs.prepare.outputs.clean}}
      epochs: ${{parent.inputs.epochs}}
    outputs:
      model: {type: custom_model}
"""
PREPARE = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
name: prepare
command: python prepare.py ${{inputs.raw}} --kind ${{inputs.kind}} --out ${{outputs.clean}}
environment: azureml:prepare:2
inputs:
  raw: {type: uri_folder}
  kind: {type: string, default: cats}
  limit: {type: integer, optional: true}
outputs:
  clean: {type: uri_folder}
  log: {type: uri_file}
resources: {instance_count: 3}
"""


def graph(text: str, base: Path = Path("/nowhere")) -> Graph:
    return graph_of(parse(text, base / "pipeline.yml", base))


def steps(names: str, more: str = "") -> str:
    """A pipeline of command steps, each of which takes the outputs of those named behind it: `b<a c`."""
    text = f"type: pipeline\n{more}jobs:\n"
    for step in names.split(","):
        name, _, before = step.strip().partition("<")
        inputs = ", ".join(f"'{source}': '${{{{parent.jobs.{source}.outputs.o}}}}'" for source in before.split())
        text += f"  {name}: {{command: echo, environment: 'azureml:e:1', inputs: {{{inputs}}}}}\n"
    return text


def test_steps_stand_in_the_files_order_and_levels_in_the_order_of_running(tmp_path: Path) -> None:
    (tmp_path / "prepare.yml").write_text(PREPARE)
    found = graph(PIPELINE, tmp_path)
    assert [step.name for step in found.steps] == ["evaluate", "prepare", "train"]
    assert found.levels == (("prepare",), ("train",), ("evaluate",))
    assert (found.stuck, found.unknown) == ((), ())


def test_edges_lead_from_inputs_through_steps_to_outputs(tmp_path: Path) -> None:
    (tmp_path / "prepare.yml").write_text(PREPARE)
    assert set(graph(PIPELINE, tmp_path).edges) == {
        Edge(Port("", "data"), Port("prepare", "raw")),
        Edge(Port("", "data"), Port("evaluate", "data")),
        Edge(Port("", "epochs"), Port("train", "epochs")),
        Edge(Port("prepare", "clean"), Port("train", "clean")),
        Edge(Port("train", "model"), Port("evaluate", "model")),
        Edge(Port("evaluate", "report"), Port("", "report")),
    }


def test_inputs_say_what_they_are_bound_to(tmp_path: Path) -> None:
    (tmp_path / "prepare.yml").write_text(PREPARE)
    found = graph(PIPELINE, tmp_path)
    assert found.inputs == {"data": "azureml:birds@latest", "epochs": "3"}
    prepare = found.step("prepare")
    assert prepare is not None
    assert [(given.name, given.kind, given.text) for given in prepare.inputs] == [
        ("raw", "bound", "${{ parent.inputs.data }}"),
        ("kind", "literal", "birds"),
    ]
    evaluate = found.step("evaluate")
    assert evaluate is not None
    assert evaluate.inputs[0].sources == (Port("train", "model"),)
    assert evaluate.inputs[1].sources == (Port("", "data"),)


def test_a_component_beside_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "prepare.yml").write_text(PREPARE)
    step = graph(PIPELINE, tmp_path).step("prepare")
    assert step is not None
    assert (step.type, step.component.form, step.component.path) == ("command", "file", tmp_path / "prepare.yml")
    assert step.command.startswith("python prepare.py")
    assert step.environment == "azureml:prepare:2"
    assert step.component.inputs["kind"].default == "cats"
    assert step.component.inputs["limit"].optional
    assert [(output.name, output.type) for output in step.outputs] == [("clean", "uri_folder"), ("log", "uri_file")]
    assert step.size == "3 × 1"


def test_a_component_is_found_beside_the_file_and_not_beside_the_reader(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "prepare.yml").write_text(PREPARE)
    (tmp_path / "pipeline.yml").write_text("type: pipeline\njobs: {a: {component: 'file:parts/prepare.yml'}}\n")
    step = graph_of(read(tmp_path / "pipeline.yml")).step("a")
    assert step is not None
    assert (step.component.name, step.component.problem) == ("prepare", "")


def test_a_step_shows_its_own_size_and_compute_before_the_pipelines(tmp_path: Path) -> None:
    found = graph(PIPELINE, tmp_path)
    train, evaluate = found.step("train"), found.step("evaluate")
    assert train is not None
    assert evaluate is not None
    assert (train.compute, train.inherited, train.size) == ("gpu", False, "2 × 4")
    assert (evaluate.compute, evaluate.inherited, evaluate.size) == ("cpu", True, "1 × 1")
    assert (train.component.form, train.component.name) == ("asset", "train")


def test_what_only_the_run_knows_is_a_question_mark() -> None:
    text = "type: pipeline\ninputs: {n: 2}\njobs:\n  a:\n    component: azureml:c:1\n"
    step = graph(f"{text}    resources: {{instance_count: '${{{{parent.inputs.n}}}}'}}\n").step("a")
    assert step is not None
    assert step.size == "? × ?"
    assert step.inputs[0].sources == (Port("", "n"),)


def test_a_registry_component_is_named() -> None:
    reference = "azureml://registries/azureml/components/train_model/versions/0.1"
    step = graph(f"type: pipeline\njobs: {{a: {{component: '{reference}'}}}}\n").step("a")
    assert step is not None
    assert (step.component.form, step.component.name, step.component.problem) == ("registry", "train_model", "")


def test_a_missing_component_survives_and_says_so() -> None:
    found = graph(PIPELINE)
    step = found.step("prepare")
    assert step is not None
    assert "prepare.yml cannot be read" in step.component.problem
    assert found.levels == (("prepare",), ("train",), ("evaluate",))


def test_a_component_that_is_no_yaml_survives(tmp_path: Path) -> None:
    (tmp_path / "prepare.yml").write_text("command: [a, b\n")
    step = graph(PIPELINE, tmp_path).step("prepare")
    assert step is not None
    assert "line" in step.component.problem


def test_steps_that_need_nothing_run_side_by_side() -> None:
    assert graph(steps("a, b, c<a b, d<a, e<c d")).levels == (("a", "b"), ("c", "d"), ("e",))


def test_a_circle_is_left_out_of_the_levels_with_what_waits_for_it() -> None:
    found = graph(steps("a, b<c, c<b, d<c, e<a"))
    assert found.levels == (("a",), ("e",))
    assert found.stuck == ("b", "c", "d")
    assert graph(steps("a<a")).stuck == ("a",)


def test_a_binding_to_nothing_is_listed() -> None:
    text = (
        "type: pipeline\ninputs: {x: 1}\njobs:\n  a:\n    command: echo\n    environment: azureml:e:1\n"
        "    inputs: {p: '${{parent.inputs.y}}', q: '${{parent.jobs.z.outputs.o}}', r: '${{inputs.x}}',"
        " s: '${{parent.inputs.x}}'}\n"
    )
    found = graph(text)
    assert [(unknown.at.name, unknown.text) for unknown in found.unknown] == [
        ("p", "${{parent.inputs.y}}"),
        ("q", "${{parent.jobs.z.outputs.o}}"),
        ("r", "${{inputs.x}}"),
    ]
    assert found.levels == (("a",),)


def test_an_output_that_a_read_component_lacks_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "prepare.yml").write_text(PREPARE)
    text = PIPELINE.replace("jobs.prepare.outputs.clean", "jobs.prepare.outputs.claen")
    assert [unknown.text for unknown in graph(text, tmp_path).unknown] == ["${{parent.jobs.prepare.outputs.claen}}"]


def test_what_the_service_fills_into_a_path_is_no_binding() -> None:
    text = "type: pipeline\njobs:\n  a:\n    component: azureml:c:1\n    inputs: {d: {path: 'azureml://datastores/d/paths/${{name}}'}}\n"
    found = graph(text)
    assert not found.unknown
    assert found.steps[0].inputs[0].kind == "data"


def test_data_of_an_automl_step_orders_it() -> None:
    text = (
        "type: pipeline\njobs:\n"
        "  learn: {type: automl, task: classification, training_data: '${{parent.jobs.prepare.outputs.table}}'}\n"
        "  prepare: {command: echo, environment: 'azureml:e:1', outputs: {table: {type: mltable}}}\n"
    )
    assert graph(text).levels == (("prepare",), ("learn",))


def test_a_pipeline_of_one_component_shows_that_components_graph(tmp_path: Path) -> None:
    (tmp_path / "inner.yml").write_text("name: inner\n" + steps("a, b<a"))
    found = graph("type: pipeline\ncomponent: ./inner.yml\n", tmp_path)
    assert found.levels == (("a",), ("b",))
    missing = graph("type: pipeline\ncomponent: ./other.yml\ninputs: {x: 1}\n", tmp_path)
    assert "other.yml" in missing.problem
    assert missing.inputs == {"x": "1"}


def test_components_within_components_end(tmp_path: Path) -> None:
    for number in range(15):
        inner = f"type: pipeline\nname: p{number}\njobs: {{s: {{type: pipeline, component: ./p{number + 1}.yml}}}}\n"
        (tmp_path / f"p{number}.yml").write_text(inner)
    found: Graph | None = graph_of(read(tmp_path / "p0.yml"))
    deep = 0
    while found is not None:
        deep += 1
        problem = found.steps[0].component.problem
        found = found.steps[0].component.graph
    assert deep == 11
    assert "more than 10 deep" in problem


def test_a_component_that_holds_itself_ends(tmp_path: Path) -> None:
    inner = "type: pipeline\nname: loop\njobs: {a: {type: pipeline, component: ./loop.yml}}\n"
    (tmp_path / "loop.yml").write_text(inner)
    found = graph("type: pipeline\njobs: {s: {type: pipeline, component: ./loop.yml}}\n", tmp_path)
    within = found.steps[0].component.graph
    assert within is not None
    assert "holds itself" in within.steps[0].component.problem


def test_each_component_file_is_read_once_for_each_depth(tmp_path: Path) -> None:
    """Ten files that each name the next ten times stand for ten thousand million steps."""
    for number in range(12):
        inner = "".join(f"  s{step}: {{type: pipeline, component: ./p{number + 1}.yml}}\n" for step in range(10))
        (tmp_path / f"p{number}.yml").write_text(f"type: pipeline\nname: p{number}\njobs:\n{inner}")
    found = graph_of(read(tmp_path / "p0.yml"))
    first = found.steps[0].component.graph
    assert first is found.steps[9].component.graph
    assert first is not None


def test_a_component_behind_a_circle_of_links_survives(tmp_path: Path) -> None:
    (tmp_path / "a.yml").symlink_to(tmp_path / "b.yml")
    (tmp_path / "b.yml").symlink_to(tmp_path / "a.yml")
    step = graph("type: pipeline\njobs: {s: {component: ./a.yml}}\n", tmp_path).step("s")
    assert step is not None
    assert step.component.problem


def test_odd_shapes_survive() -> None:
    odd = (
        "null",
        "5",
        "[1]",
        "text",
        "{}",
        "{component: 5}",
        "{component: {}}",
        "{inputs: [1], outputs: x, resources: y}",
    )
    for value in odd:
        found = graph(f"type: pipeline\njobs: {{a: {value}}}\n")
        assert [step.name for step in found.steps] == ["a"]
    for value in odd:
        assert graph(f"type: pipeline\njobs: {value}\n").stuck == ()


def test_a_long_chain_is_laid_out() -> None:
    chain = steps(", ".join(["a0", *(f"a{n}<a{n - 1}" for n in range(1, 3000))]))
    found = graph(chain)
    assert len(found.levels) == 3000
    assert not found.stuck
