"""A command job becomes a sweep and a trial a command job, as text; saved elsewhere a file means the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from footplate.jobfile.check import check
from footplate.jobfile.convert import relocate, to_command, to_sweep
from footplate.jobfile.document import Unreadable, parse, read
from footplate.workspace import Invalid

SHARED = Path(__file__).resolve().parents[3] / "shared"

JOB = """\
# Trains a classifier.
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
# what runs
command: >-   # folded
  python train.py --lr ${{inputs.lr}} --momentum ${{ inputs.momentum }}
  --data ${{inputs.data}} --out ${{outputs.model}}
code: src   # the trainer

# where it runs

environment: azureml:env:1
environment_variables:
  RATE: "${{inputs.lr}}"
compute: azureml:gpu   # four nodes
display_name: trains
tags: {owner: me}
inputs:
  lr: 0.1   # learning rate
  momentum: 0.9
  data:   # pictures
    type: uri_file
    path: https://example.org/data.csv
outputs:
  model: {type: uri_folder}
distribution:
  type: pytorch  # one process a card
  process_count_per_instance: 2
resources: {instance_count: 2}
limits: {timeout: 900}  # seconds
"""

SPACES = {
    "lr": {"type": "uniform", "min_value": 0.0001, "max_value": 0.1},
    "momentum": {"type": "choice", "values": [0.5, 0.9]},
}
OBJECTIVE = {"goal": "maximize", "primary_metric": "acc"}
LIMITS = {"max_total_trials": 4, "max_concurrent_trials": 2, "timeout": 7200}
POLICY = {"type": "bandit", "slack_factor": 0.1, "evaluation_interval": 1, "delay_evaluation": 2}


def job(text: str = JOB, base: Path = Path("/somewhere/jobs")):
    return parse(text, base / "job.yml", base)


def errors(job_file) -> list[str]:
    """What stops a launch, but for folders that this test did not make."""
    return [
        f"line {fault.line}: {fault.sentence}"
        for fault in check(job_file)
        if fault.severity == "error" and not ("code" in fault.path and "not there" in fault.message)
    ]


def swept(text: str = JOB, **more):
    return to_sweep(job(text), **{"spaces": SPACES, "objective": OBJECTIVE, "limits": LIMITS, "policy": POLICY, **more})


def test_a_command_job_becomes_a_sweep_with_its_comments():
    text = swept().text
    assert text.startswith("# Trains a classifier.\n$schema: ")
    assert (
        "sweepJob.schema.json\ntype: sweep\ntrial:\n  # what runs\n  command: >-   # folded\n    python train.py"
        in text
    )
    assert "  code: src   # the trainer\n" in text
    assert "    type: pytorch  # one process a card\n" in text
    assert "# where it runs\n" in text
    assert "compute: azureml:gpu   # four nodes\n" in text
    assert "  data:   # pictures\n    type: uri_file\n" in text
    assert "limits: {trial_timeout: 900, max_total_trials: 4," in text
    assert "search_space:\n  lr:\n    type: uniform\n    min_value: 0.0001\n" in text


def test_the_chosen_inputs_are_search_spaces_wherever_the_trial_names_them():
    sweep = swept()
    assert sweep.kind == "sweep"
    assert sweep.command == (
        "python train.py --lr ${{search_space.lr}} --momentum ${{search_space.momentum}} "
        "--data ${{inputs.data}} --out ${{outputs.model}}"
    )
    assert sweep.get("trial", "environment_variables") == {"RATE": "${{search_space.lr}}"}
    assert list(sweep.inputs) == ["data"]
    assert sweep.get("limits") == {"trial_timeout": 900, **LIMITS}
    assert sweep.get("early_termination") == POLICY
    assert sweep.get("trial", "resources") == {"instance_count": 2}
    assert errors(sweep) == []


def test_a_job_without_other_inputs_or_limits_gets_them_and_keeps_its_line_ends():
    text = "\ufeffcommand: |\n  a ${{inputs.x}}\n  b\nenvironment: azureml:e:1\ninputs: {x: 1}".replace("\n", "\r\n")
    sweep = swept(
        text, spaces={"x": {"type": "randint", "upper": 3}}, policy=None, sampling={"type": "random", "seed": 7}
    )
    assert sweep.text.startswith(
        "\ufefftype: sweep\r\ntrial:\r\n  command: |\r\n    a ${{search_space.x}}\r\n    b\r\n"
    )
    assert sweep.text.count("\n") == sweep.text.count("\r\n")
    assert "inputs" not in sweep.values
    assert sweep.command == "a ${{search_space.x}}\nb\n"
    assert sweep.get("sampling_algorithm") == {"type": "random", "seed": 7}
    assert errors(sweep) == []


@pytest.mark.parametrize(
    "text",
    [
        "{command: 'a ${{inputs.x}}', environment: 'azureml:e:1', inputs: {x: 1, y: z}}\n",
        "inputs:\n  x: &one 1\n  y: *one\nenvironment: azureml:e:1\ncommand: a ${{inputs.x}}\n",
        "tags: &tags {a: b}\nenvironment_variables: *tags\ncommand: a ${{inputs.x}}\nenvironment: azureml:e:1\ninputs: {x: 1}\n",
        "environment_variables: &v {a: b}\ntags: *v\ncommand: a ${{inputs.x}}\nenvironment: azureml:e:1\ninputs: {x: 1}\n",
        'command: "a ${{inputs\\x2ex}}"\nenvironment: azureml:e:1\ninputs: {x: 1}\n',
        "command: a ${{inputs.x\n  }}\nenvironment: azureml:e:1\ninputs: {x: 1}\n",
        "---\ncommand: a ${{inputs.x}}\nenvironment: azureml:e:1\ninputs:\n  x: 1\n...\n",
    ],
    ids=["flow", "alias among inputs", "alias moves", "anchor moves", "escaped", "broken", "markers"],
)
def test_any_layout_becomes_a_sweep_and_a_trial_of_it_a_command_job_again(text):
    sweep = swept(text, spaces={"x": {"type": "choice", "values": [1, 2]}})
    assert sweep.command == "a ${{search_space.x}}"
    assert errors(sweep) == []
    back = to_command(sweep, {"x": 1})
    assert errors(back) == []
    before = job(text)
    assert back.command.split() == ["a", "${{inputs.x}}"]
    assert back.inputs == before.inputs
    assert (back.environment_variables, back.tags) == (before.environment_variables, before.tags)


def test_a_trial_becomes_the_command_job_that_it_ran():
    again = to_command(swept(), {"lr": 0.01, "momentum": 0.5, "not of the space": 3})
    assert again.kind == "command"
    assert again.command == job().command.replace("${{ inputs.momentum }}", "${{inputs.momentum}}")
    assert {name: given.literal for name, given in again.inputs.items()} == {
        "data": None,
        "lr": "0.01",
        "momentum": "0.5",
    }
    assert again.get("limits") == {"timeout": 900}
    assert again.environment_variables == {"RATE": "${{inputs.lr}}"}
    assert "# one process a card" in again.text
    assert not {"search_space", "sampling_algorithm", "objective", "early_termination", "trial"} & set(again.values)
    assert errors(again) == []


def test_what_a_sweep_says_above_its_trial_too_is_put_together():
    text = swept().text.replace("resources: {instance_count: 2}", "resources: {instance_count: 2, shm_size: 8g}")
    again = to_command(job(f"{text}resources: {{instance_count: 1, instance_type: big}}\n"), {"lr": 1, "momentum": 1})
    assert again.get("resources") == {"instance_count": 2, "shm_size": "8g", "instance_type": "big"}


def test_what_cannot_be_converted_is_refused_in_a_sentence():
    with pytest.raises(Invalid, match=r"has no input 'rate'\. Its inputs: lr, momentum, data\."):
        swept(spaces={"rate": SPACES["lr"]})
    with pytest.raises(Invalid, match="Choose at least one"):
        swept(spaces={})
    with pytest.raises(Invalid, match="is a sweep job"):
        to_sweep(swept(), SPACES, OBJECTIVE, LIMITS)
    with pytest.raises(Invalid, match="is a command job"):
        to_command(job(), {})
    with pytest.raises(Invalid, match="has no value for 'momentum'"):
        to_command(swept(), {"lr": 1})


@pytest.mark.parametrize(
    "text",
    [
        "type: command\ninputs: {x: 1}\n",
        "command: a\nlimits: 5\ninputs: {x: 1}\n",
        "command: a\nlimits: [5]\ninputs: {x: 1}\n",
        "command: [a]\ninputs: {x: 1}\ncommand: b\n",
        "command: a\nenvironment_variables: 5\ninputs: {x: 1}\n<<: {limits: {timeout: 3}}\n",
        "? command\n: a\ninputs: {x: 1}\n",
    ],
)
def test_a_faulty_command_job_is_a_sweep_or_a_sentence(text):
    try:
        made = swept(text, spaces={"x": {"type": "choice", "values": [1]}})
    except Invalid as error:
        assert error.next_step  # noqa: PT017
    else:
        assert made.kind == "sweep"
        assert made.get("trial", "command") == job(text).get("command")


@pytest.mark.parametrize(
    "text",
    [
        "type: sweep\n",
        "type: sweep\ntrial:\n",
        "type: sweep\ntrial: x\nsearch_space: [1]\n",
        "type: sweep\ntrial: {command: a, resources: 5}\nresources: {instance_count: 2}\n",
        "type: sweep\ntrial: {command: a, resources: }\nresources: [2]\nlimits: 4\n",
        "type: sweep\ntrial: &t {command: a}\nlimits: {trial_timeout: x}\ninputs: 3\nsearch_space: {y: {}}\n",
        "type: sweep\nx: &t {command: a}\ntrial: *t\n",
    ],
)
def test_a_faulty_sweep_is_a_command_job_or_a_sentence(text):
    try:
        made = to_command(job(text), {"y": 1})
    except Invalid as error:
        assert error.next_step  # noqa: PT017
    else:
        assert made.kind == "command"
        assert made.get("command") == "a"


@pytest.fixture
def on_disk(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")

    def write(job_file, name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(job_file.text.encode())
        return path

    return write


def rest(entity) -> dict:
    found = entity._to_job()._to_rest_object() if hasattr(entity, "_to_job") else entity._to_rest_object()
    return found.as_dict()["properties"]


@pytest.mark.filterwarnings("ignore")
def test_the_sweep_means_what_azures_own_conversion_means(on_disk):
    azure = pytest.importorskip("azure.ai.ml")
    from azure.ai.ml import sweep as spaces

    text = JOB.replace(
        "${{ inputs.momentum }}", "${{inputs.momentum}}"
    )  # the SDK leaves the spelling with blanks alone
    command = azure.load_job(on_disk(job(text), "job.yml"))
    theirs = command(lr=spaces.Uniform(0.0001, 0.1), momentum=spaces.Choice([0.5, 0.9])).sweep(
        primary_metric="acc",
        goal="maximize",
        sampling_algorithm="random",
        early_termination_policy=spaces.BanditPolicy(slack_factor=0.1, evaluation_interval=1, delay_evaluation=2),
    )
    theirs.set_limits(max_total_trials=4, max_concurrent_trials=2, timeout=7200, trial_timeout=900)
    expected, found = rest(theirs), rest(azure.load_job(on_disk(swept(text), "sweep.yml")))
    for key in ("searchSpace", "samplingAlgorithm", "objective", "limits", "earlyTermination", "inputs", "outputs"):
        # A file's policy is sent with the amount 0 that an object leaves out.
        assert {k: v for k, v in found[key].items() if k != "slackAmount"} == expected[key], key
    for key in ("command", "environmentId", "environmentVariables", "distribution"):
        wanted = expected["trial"][key]
        if key == "environmentVariables":
            wanted = {"RATE": "${{search_space.lr}}"}  # the SDK leaves ${{inputs.lr}}, which then has no value
        assert found["trial"][key] == wanted, key
    assert found["trial"]["resources"]["instanceCount"] == 2  # the SDK's conversion drops the two nodes


@pytest.mark.filterwarnings("ignore")
def test_a_trial_made_a_command_job_means_what_the_job_meant(on_disk):
    azure = pytest.importorskip("azure.ai.ml")
    text = JOB.replace("${{ inputs.momentum }}", "${{inputs.momentum}}")
    before = rest(azure.load_job(on_disk(job(text), "job.yml")))
    after = rest(azure.load_job(on_disk(to_command(swept(text), {"lr": 0.1, "momentum": 0.9}), "again.yml")))
    assert after == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["train.yml", "train-distributed.yml"])
def test_each_template_becomes_a_sweep_that_azures_client_loads_from_another_folder(name, tmp_path):
    azure = pytest.importorskip("azure.ai.ml")
    template = read(Path(__file__).resolve().parents[2] / "jobs" / name)
    chosen = next(given for given in template.inputs.values() if given.type == "number")
    spaces = {chosen.name: {"type": "uniform", "min_value": 0.001, "max_value": 0.1}}
    sweep = to_sweep(template, spaces, OBJECTIVE, LIMITS)
    assert errors(sweep) == []
    path = tmp_path / "sweep.yml"
    path.write_text(relocate(sweep, tmp_path).text, encoding="utf-8")
    loaded = azure.load_job(path)
    assert read(path).code == template.code
    assert loaded.type == "sweep"
    assert list(loaded.search_space) == [chosen.name]


def test_a_file_saved_into_another_folder_names_the_same_places(tmp_path):
    text = """\
code: src   # kept
command: python train.py --data ${{inputs.data}}
environment:
  image: x
  conda_file: ../envs/conda.yml
  build: {path: ./docker/}
inputs:
  data: {type: uri_file, path: "data/a b.csv"}
  far: {type: uri_file, path: https://example.org/a}
  asset: {type: uri_file, path: azureml:a:1}
  text: ./no-path
outputs:
  model: {path: azureml://datastores/x/paths/y}
"""
    base, other = tmp_path / "jobs", tmp_path / "saved" / "templates"
    moved = relocate(job(text, base), other)
    assert moved.base == other
    assert moved.text == (
        text.replace("code: src", "code: ../../jobs/src")
        .replace("../envs/conda.yml", "../../envs/conda.yml")
        .replace("./docker/", "../../jobs/docker/")
        .replace("data/a b.csv", "../../jobs/data/a b.csv")
    )
    assert moved.code == base / "src"
    assert relocate(job(text, base), base).text == text
    home = relocate(moved, base)
    assert home.code == base / "src"
    assert home.get("inputs", "data", "path") == "./data/a b.csv"


def test_components_of_a_pipeline_and_shared_values_move_too(tmp_path):
    text = """\
type: pipeline
jobs:
  one: &one
    component: file:./train.yml
    inputs: {x: {type: uri_folder, path: ./data}}
  two:
    <<: *one
    compute: c
  three: {command: x, code: ./src, environment: "file:env.yml"}
"""
    moved = relocate(job(text, tmp_path / "a"), tmp_path / "b")
    assert moved.get("jobs", "two", "component") == "file:../a/train.yml"
    assert moved.get("jobs", "two", "inputs", "x", "path") == "../a/data"
    assert moved.get("jobs", "three", "code") == "../a/src"
    assert moved.get("jobs", "three", "environment") == "file:../a/env.yml"


@pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="the corpus of job files is not beside this checkout")
def test_every_real_command_job_becomes_a_sweep_and_a_command_job_again():
    done = 0
    for path in sorted((SHARED / "corpus").rglob("*.y*ml")):
        try:
            before = read(path)
        except Unreadable:
            continue
        literals = {name: given for name, given in before.inputs.items() if given.literal is not None}
        if before.kind != "command" or not literals or before.get("environment") is None:
            continue
        spaces = {name: {"type": "choice", "values": [before.get("inputs", name)]} for name in literals}
        sweep = to_sweep(before, spaces, OBJECTIVE, {"max_total_trials": 1})
        assert not errors(sweep) or errors(before), path
        again = to_command(sweep, {name: before.get("inputs", name) for name in literals})
        assert again.inputs == before.inputs, path
        assert again.command.replace(" ", "") == before.command.replace(" ", ""), path
        comments = {line.strip() for line in before.text.splitlines() if line.strip().startswith("#")}
        assert comments <= {line.strip() for line in again.text.splitlines()}, path
        moved = relocate(before, path.parent.parent)
        assert moved.code == before.code, path
        done += 1
    assert done > 3


def test_single_braces_of_a_command_move_with_their_input():
    text = (
        "command: python train.py {inputs.lr} ${{inputs.lr}}\nenvironment: azureml:env:1\n"
        "environment_variables: {RATE: 'a {inputs.lr}'}\ninputs: {lr: 0.1}\n"
    )
    swept = to_sweep(job(text), {"lr": SPACES["lr"]}, OBJECTIVE, LIMITS)
    assert swept.get("trial", "command") == "python train.py ${{search_space.lr}} ${{search_space.lr}}"
    assert swept.get("trial", "environment_variables") == {"RATE": "a {inputs.lr}"}  # no client fills it in there
    again = to_command(swept, {"lr": 0.2})
    assert again.command == "python train.py ${{inputs.lr}} ${{inputs.lr}}"
