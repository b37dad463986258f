"""From a pipeline's file to the job files of its steps: bindings, components, nesting, order, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from footplate.jobfile import plan
from footplate.jobfile.document import parse
from footplate.local.pipeline.steps import Step, Steps, steps_of
from footplate.workspace import Invalid

HEAD = "type: pipeline\nexperiment_name: birds\n"


def place(job: str, output: str) -> str:
    return f"/jobs/{job}/{output}"


def steps(text: str, folder: Path, name: str = "flow") -> Steps:
    return steps_of(parse(text, folder / "pipeline.yml", folder), name, place)


def command(step: Step) -> str:
    """What a step runs, with each output at its own place."""
    file = step.file
    inputs = {name: given.path or "" for name, given in file.inputs.items() if given.literal is None}
    return plan(file, inputs, {output: place(step.job, output) for output in file.outputs}).command


def test_a_step_takes_the_output_of_another_from_where_it_is_written(tmp_path):
    found = steps(
        f"""{HEAD}jobs:
  score: {{command: 'cat ${{{{inputs.model}}}}/m', environment: 'azureml:e@latest',
           inputs: {{model: '${{{{parent.jobs.train.outputs.model}}}}'}}}}
  train: {{command: 'echo > ${{{{outputs.model}}}}/m', environment: 'azureml:e@latest', outputs: {{model: }}}}
""",
        tmp_path,
    )
    score, train = found.steps
    assert (score.name, score.job, score.after) == ("score", "flow-score", ("train",))
    assert (train.job, train.after) == ("flow-train", ())
    assert command(score) == "cat /jobs/flow-train/model/m"
    assert command(train) == "echo > /jobs/flow-train/model/m"
    assert Step.from_document(score.document()) == score


@pytest.mark.parametrize(
    ("given", "text"),
    [("true", "True"), ("1.0e-5", "1e-05"), ("'no'", "no"), ("{value: 12:30}", "750"), ("007", "7"), ("'a b'", "a b")],
)
def test_a_pipelines_literal_reaches_the_command_as_azures_client_sends_it(tmp_path, given, text):
    found = steps(
        f"""{HEAD}inputs: {{x: {given}}}
jobs:
  one: {{command: 'echo ${{{{inputs.y}}}} ${{{{inputs.z}}}}', environment: 'azureml:e@latest',
         inputs: {{y: '${{{{parent.inputs.x}}}}', z: 'v-${{{{parent.inputs.x}}}}.txt'}}}}
""",
        tmp_path,
    )
    assert command(found.steps[0]) == f"echo {text} v-{text}.txt"


def test_data_of_the_pipeline_keeps_its_place_type_and_mode(tmp_path):
    found = steps(
        f"""{HEAD}inputs: {{data: {{type: uri_file, path: ./data.csv, mode: download}}}}
jobs:
  bare: {{command: 'cat ${{{{inputs.d}}}}', environment: 'azureml:e@latest', inputs: {{d: '${{{{parent.inputs.data}}}}'}}}}
  typed: {{command: 'cat ${{{{inputs.d}}}}', environment: 'azureml:e@latest',
           inputs: {{d: {{type: uri_file, path: '${{{{parent.inputs.data}}}}', mode: ro_mount}}}}}}
""",
        tmp_path,
    )
    modes = [step.file.inputs["d"] for step in found.steps]
    assert [(given.type, given.path, given.mode) for given in modes] == [
        ("uri_file", str(tmp_path / "data.csv"), "download"),
        ("uri_file", str(tmp_path / "data.csv"), "ro_mount"),
    ]


def test_a_component_files_defaults_optional_inputs_and_code_are_its_own(tmp_path):
    (tmp_path / "parts" / "src").mkdir(parents=True)
    (tmp_path / "parts" / "train.yml").write_text(
        """type: command
name: train
version: 1
inputs:
  epochs: {type: integer, default: 3}
  tag: {type: string, optional: true}
  data: {type: uri_folder}
outputs: {model: {type: custom_model}}
code: ./src
environment: azureml:e@latest
environment_variables: {A: own, B: own}
command: train.py ${{inputs.epochs}} $[[--tag ${{inputs.tag}}]] ${{inputs.data}} ${{outputs.model}}
"""
    )
    found = steps(
        f"""{HEAD}settings: {{default_compute: azureml:local}}
inputs: {{data: {{path: ./birds}}}}
outputs: {{trained: {{type: mlflow_model, name: birds-model}}}}
jobs:
  few: {{type: command, component: parts/train.yml, inputs: {{data: '${{{{parent.inputs.data}}}}'}},
         outputs: {{model: '${{{{parent.outputs.trained}}}}'}}}}
  many: {{component: 'file:parts/train.yml', inputs: {{data: '${{{{parent.inputs.data}}}}', epochs: 9, tag: x}},
          environment_variables: {{B: step}}}}
""",
        tmp_path,
    )
    few, many = found.steps
    assert command(few).split() == ["train.py", "3", str(tmp_path / "birds"), "/jobs/flow-few/model"]
    assert command(many).split()[:4] == ["train.py", "9", "--tag", "x"]
    assert many.file.environment_variables == {"A": "own", "B": "step"}
    assert few.file.code == tmp_path / "parts" / "src"
    assert few.file.compute == "local"
    assert few.file.experiment_name == "birds"
    assert few.file.outputs["model"].type == "mlflow_model"
    assert few.file.outputs["model"].asset == "birds-model"
    assert found.outputs == {"trained": ("few", "model")}


def test_a_pipeline_in_a_step_is_laid_flat(tmp_path):
    (tmp_path / "inner.yml").write_text(
        """type: pipeline
inputs: {word: {type: string, default: hello}}
outputs: {made: {type: uri_folder}}
jobs:
  say: {command: 'echo ${{inputs.w}} > ${{outputs.o}}/w', environment: 'azureml:e@latest',
        inputs: {w: '${{parent.inputs.word}}'}, outputs: {o: '${{parent.outputs.made}}'}}
"""
    )
    found = steps(
        f"""{HEAD}jobs:
  read: {{command: 'cat ${{{{inputs.d}}}}/w', environment: 'azureml:e@latest',
          inputs: {{d: '${{{{parent.jobs.inner.outputs.made}}}}'}}}}
  inner: {{type: pipeline, component: ./inner.yml, inputs: {{word: bye}}}}
""",
        tmp_path,
    )
    read, say = found.steps
    assert (say.name, say.job) == ("inner.say", "flow-inner-say")
    assert command(say) == "echo bye > /jobs/flow-inner-say/o/w"
    assert read.after == ("inner.say",)
    assert command(read) == "cat /jobs/flow-inner-say/o/w"


def test_a_sweep_steps_swept_inputs_become_its_search_space(tmp_path):
    found = steps(
        f"""{HEAD}jobs:
  tune:
    type: sweep
    trial: {{command: 'train ${{{{inputs.lr}}}} ${{{{inputs.seed}}}} ${{{{search_space.wd}}}}', environment: 'azureml:e@latest'}}
    inputs: {{seed: 1}}
    search_space: {{lr: {{type: uniform, min_value: 0, max_value: 1}}, wd: {{type: choice, values: [1, 2]}}}}
    sampling_algorithm: random
    objective: {{goal: minimize, primary_metric: loss}}
    limits: {{max_total_trials: 2}}
""",
        tmp_path,
    )
    file = found.steps[0].file
    assert file.kind == "sweep"
    assert file.command_as_written == "train ${{search_space.lr}} ${{inputs.seed}} ${{search_space.wd}}"
    assert file.mapping("limits") == {"max_total_trials": 2}


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ("a: {type: spark, entry: {file: x.py}}", "Step a of pipeline.yml is a spark step"),
        ("a: {component: 'azureml:train:1'}", "the component azureml:train:1 of step a lies in a workspace"),
        ("a: {component: ./gone.yml}", "The component of step a"),
        ("a: {command: x, environment: 'azureml:e@latest', inputs: {y: '${{parent.inputs.z}}'}}", "Step a takes `z`"),
        (
            "a: {command: x, environment: 'azureml:e@latest', inputs: {y: '${{parent.jobs.b.outputs.o}}'}}",
            "Step a takes an output of `b`",
        ),
        (
            "a: {command: x, environment: 'azureml:e@latest', outputs: {o: }, inputs: {y: '${{parent.jobs.b.outputs.o}}'}}\n"
            "  b: {command: x, environment: 'azureml:e@latest', outputs: {o: }, inputs: {y: '${{parent.jobs.a.outputs.o}}'}}",
            "These steps wait for each other: a, b.",
        ),
    ],
)
def test_what_cannot_run_is_refused_with_the_steps_name(tmp_path, jobs, said):
    with pytest.raises(Invalid) as refused:
        steps(f"{HEAD}jobs:\n  {jobs}\n", tmp_path)
    assert said in str(refused.value)


def test_names_of_steps_that_differ_only_in_what_a_job_cannot_hold_stay_apart(tmp_path):
    body = "{command: echo, environment: 'azureml:e@latest'}"
    found = steps(f"{HEAD}jobs:\n  'a.b': {body}\n  a-b: {body}\n", tmp_path)
    assert [step.job for step in found.steps] == ["flow-a-b", "flow-a-b-2"]


def test_the_first_and_the_last_step_of_the_settings_are_known(tmp_path):
    body = "{command: echo, environment: 'azureml:e@latest'}"
    found = steps(
        f"{HEAD}settings: {{on_init: open, on_finalize: close}}\njobs:\n  work: {body}\n  open: {body}\n  close: {body}\n",
        tmp_path,
    )
    assert [(step.name, step.after) for step in found.steps] == [
        ("work", ("open",)),
        ("open", ()),
        ("close", ("open",)),
    ]
    assert found.last == ("close",)
