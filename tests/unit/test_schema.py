"""check accepts what Azure's client accepts and refuses what it refuses; where the two differ, the reason stands here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from tests.azure_client import azure_client

from footplate.jobfile.check import check
from footplate.jobfile.document import Unreadable, read

STEP = "type: command, component: ./component.yml"
SWEEP = {
    "type": "type: sweep",
    "trial": "trial: {command: 'echo ${{search_space.b}}', environment: 'azureml:e:1'}",
    "search_space": "search_space: {b: {type: uniform, min_value: 0, max_value: 1}}",
    "objective": "objective: {goal: minimize, primary_metric: m}",
    "limits": "limits: {max_total_trials: 4}",
    "sampling_algorithm": "sampling_algorithm: random",
}
SCHEMA = "$schema: https://azuremlschemas.azureedge.net/latest/"
ENDPOINT = {
    "$schema": f"{SCHEMA}managedOnlineEndpoint.schema.json",
    "name": "name: my-endpoint",
    "auth_mode": "auth_mode: key",
}
DEPLOYMENT = {
    "$schema": f"{SCHEMA}managedOnlineDeployment.schema.json",
    "name": "name: blue",
    "endpoint_name": "endpoint_name: my-endpoint",
    "model": "model: {path: ./src}",
    "code_configuration": "code_configuration: {code: ./src, scoring_script: train.py}",
    "environment": "environment: azureml:e:1",
    "instance_type": "instance_type: Standard_DS3_v2",
    "instance_count": "instance_count: 1",
}
CLUSTER = {
    "name": "name: cl1",
    "type": "type: amlcompute",
    "size": "size: Standard_DS3_v2",
    "min_instances": "min_instances: 0",
    "max_instances": "max_instances: 2",
    "idle_time_before_scale_down": "idle_time_before_scale_down: 120",
}

BASES: Mapping[str, Mapping[str, str]] = {
    "sweep": SWEEP,
    "endpoint": ENDPOINT,
    "deployment": DEPLOYMENT,
    "cluster": CLUSTER,
}
"""The files whose keys are varied one by one: each key and its line."""

FILES = {
    "src/train.py": "def init(): ...\ndef run(data): ...\n",
    "env.yml": "image: docker.io/python\n",
    "conda.yml": "name: x\ndependencies: [python]\n",
    "flow.dag.yaml": f"""\
{SCHEMA.replace("latest/", "promptflow/latest/")}Flow.schema.json
inputs:
  url: {{type: string}}
outputs:
  category: {{type: string, reference: '${{node.output}}'}}
nodes:
- name: node
  type: python
  source: {{type: code, path: src/train.py}}
""",
    "component.yml": f"""\
{SCHEMA}commandComponent.schema.json
name: c1
type: command
inputs:
  x: {{type: number, default: 1}}
  d: {{type: uri_folder, optional: true}}
outputs:
  o: {{type: uri_folder}}
command: echo ${{{{inputs.x}}}}
environment: azureml:e:1
code: ./src
""",
    "pipeline.yml": f"""\
{SCHEMA}pipelineComponent.schema.json
name: p1
type: pipeline
inputs:
  x: {{type: number, default: 1}}
outputs:
  o: {{type: uri_folder}}
jobs:
  s: {{type: command, component: ./component.yml, inputs: {{x: '${{{{parent.inputs.x}}}}'}}}}
""",
}


VARIATIONS = Path(__file__).resolve().parents[1] / "variations.txt"

_ANOTHER_KIND = "Of what kind a component's file is, is told as it is sent."
_LOOSE_STEP = "Of such a step only what all steps share is checked; the rest is told by the client, as it is sent."
LOOSER: dict[str, dict[str, str]] = {
    "command": {
        "+ inputs: {a: {type: uri_folder, path: ./src, path_on_compute: /x}}": (
            "The client looks for the path on this machine, though it is one of the cluster."
        ),
    },
    "pipeline": {
        "jobs: {a: {type: parallel, foo: 1, task: {type: run_function, code: ./src, entry_script: s.py, "
        "environment: 'azureml:e:1'}, input_data: '${{inputs.d}}', "
        "inputs: {d: {type: mltable, path: 'azureml:a:1'}}}}": _LOOSE_STEP,
        "jobs: {a: {type: automl, task: classification, foo: 1, target_column_name: y, "
        "training_data: {type: mltable, path: 'azureml:t:1'}}}": _LOOSE_STEP,
        "component: ./component.yml": _ANOTHER_KIND,
    },
    "deployment": {
        "-endpoint_name": "The endpoint may be named where it is deployed: a warning says so.",
    },
}
"""What Azure's client refuses and check takes, and why ours is right, or not needed."""

_NO_INPUT = "The component needs its input `x`."
_NO_DATA = "There is nothing to give to the job."
_NAME = "The service refuses the name."
_NO_SPACE = "The client crashes as it sends it, or the service finds nothing to draw."
_NO_NUMBER = "The service refuses the number."
_NO_SUCH = "Nothing of that name is in the pipeline."
_MISSING = "The file is not there."
_SENDS = "The client refuses to send it: an environment is made of an image, or of a build."
_NO_SIZE = "The service takes a whole number and b, k, m or g."
_VARIABLE = "A variable's and a tag's value is text."
STRICTER: dict[str, dict[str, str]] = {
    "command": {
        "+ environment_variables: {a: null, b: 1, c: true, d: [1]}": _VARIABLE,
        "+ inputs: {a: {type: uri_file}}": _NO_DATA,
        "+ inputs: {a: {}}": _NO_DATA,
        r"+ compute: azureml:c\ninputs: {a: {type: uri_file}}": _NO_DATA,
        r"+ compute: azureml:c\ninputs: {a: {}}": _NO_DATA,
        "+ inputs: {a-b: 1}": _NAME,
        "+ inputs: {1a: 1}": _NAME,
        '+ name: "a b"': _NAME,
        '+ name: ""': _NAME,
        "- environment: azureml:foo@": "It names no label.",
        '- environment: "azureml:"': "It names nothing.",
        "- environment: {build: {}}": "There is nothing to build.",
        "- environment: {}": _SENDS,
        "- environment: {conda_file: ./conda.yml}": _SENDS,
        "- environment: {image: a, build: {path: ./src}}": _SENDS,
        '+ command: ""': "There is nothing to run.",
        "+ resources: {shm_size: 2 gigs}": _NO_SIZE,
        "+ resources: {shm_size: '0g'}": _NO_SIZE,
        "+ resources: {shm_size: '8'}": _NO_SIZE,
    },
    "sweep": {
        "-search_space": _NO_SPACE,
        "search_space: {}": _NO_SPACE,
        "search_space: {b: {type: uniform, min_value: 1, max_value: 0}}": _NO_SPACE,
        "search_space: {b: {type: normal, mu: 0, sigma: -1}}": _NO_SPACE,
        "search_space: {b: {type: randint, upper: 0}}": _NO_SPACE,
        "search_space: {b: {type: choice, values: []}}": _NO_SPACE,
        "search_space: {b: {type: choice}}": _NO_SPACE,
        "early_termination: {type: bandit}": "A bandit needs a slack.",
    },
    "pipeline": {
        "jobs: {a: {type: command, "
        "component: {command: echo, environment: 'azureml:e:1', inputs: {x: {type: number}}}}}": _NO_INPUT,
        "jobs: {a: {G, inputs: {x: '${{parent.inputs.nope}}'}}}": _NO_SUCH,
        "jobs: {a: {G, inputs: {x: {type: uri_file, path: '${{parent.inputs.x}}'}}}}": _NO_SUCH,
        "jobs: {a: {G, inputs: {d: {type: uri_folder, path: 'azureml:d:1', mode: '${{parent.inputs.m}}'}}}}": _NO_SUCH,
        "jobs: {a: {G, inputs: {d: '${{parent.jobs.z.outputs.o}}'}}}": _NO_SUCH,
        "jobs: {a: {G, inputs: {d: {mode: download, path: '${{parent.jobs.z.outputs.o}}'}}}}": _NO_SUCH,
        "jobs: {a: {G, outputs: {o: '${{parent.outputs.o}}'}}}": _NO_SUCH,
        "jobs: {a: {G, outputs: {o: {path: '${{parent.outputs.o}}'}}}}": _NO_SUCH,
        "jobs: {a: {G, outputs: {o: {path: '${{parent.outputs.o}}', mode: upload}}}}": _NO_SUCH,
    },
    "endpoint": {
        "name: a": _NAME,
        "name: this-is-a-very-long-name-that-is-too-long-for-azure": _NAME,
        'traffic: {blue: "60"}': "The shares must add up to 100, or to 0.",
        "traffic: {blue: -5}": _NO_NUMBER,
        "mirror_traffic: {blue: 60}": _NO_NUMBER,
        "mirror_traffic: {blue: 10, green: 10}": "Only one deployment can be mirrored to.",
        "tags: {a: [1]}": _VARIABLE,
    },
    "deployment": {
        "environment_variables: {A: [1]}": _VARIABLE,
        "code_configuration: {code: ./src}": "It names no script to run.",
        "code_configuration: {code: ./nope, scoring_script: x.py}": _MISSING,
        "code_configuration: {code: ./src, scoring_script: nope.py}": _MISSING,
        "instance_count: 0": _NO_NUMBER,
    },
    "component": {
        r"name: c1\ntype: command\ncommand: e ${{inputs.zz}}\nenvironment: azureml:e:1\nversion: 1": (
            "The component has no such input."
        ),
    },
    "cluster": {
        "min_instances: -1": _NO_NUMBER,
        'name: "a b"': _NAME,
        "min_instances: 5": "No cluster has more nodes than it may have.",
    },
}
"""What Azure's client takes and check refuses, and why ours is right."""


def variations() -> Iterator[tuple[str, str]]:
    """The section and the text of each line of `variations.txt`."""
    section = ""
    for line in VARIATIONS.read_text().splitlines():
        if line.startswith("["):
            section = line[1 : line.index("]")]
        elif line and not line.startswith("#"):
            yield section, line


EVERY = list(variations())


def file_text(section: str, line: str) -> str:
    """The whole file of a variation."""
    text = line.replace("\\n", "\n") + "\n"
    if section == "command":
        command = "" if "command:" in line else "command: echo\n"
        return command + ("environment: azureml:e:1\n" if line[0] == "+" else "") + text[2:]
    if section == "pipeline":
        return ("" if line.startswith("type:") else "type: pipeline\n") + text.replace("{G", "{" + STEP)
    if section == "component":
        return f"{SCHEMA}commandComponent.schema.json\n" + text
    if section == "compute":
        return text
    base = BASES[section]
    if line.startswith("-"):
        return "".join(f"{said}\n" for key, said in base.items() if key != line[1:])
    given = set(yaml.safe_load(text))
    return "".join(f"{said}\n" for key, said in base.items() if key not in given) + text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the variations name."""
    root = tmp_path_factory.mktemp("schema")
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def errors(path: Path) -> list[str]:
    try:
        job_file = read(path)
    except Unreadable as error:
        return [str(error)]
    return [f"{fault.line}: {fault.code}: {fault.sentence}" for fault in check(job_file) if fault.severity == "error"]


@pytest.mark.parametrize(("section", "line"), EVERY, ids=[f"{section} {line}" for section, line in EVERY])
def test_check_and_azures_client_agree(section: str, line: str, folder: Path) -> None:
    path = folder / "file.yml"
    path.write_text(file_text(section, line))
    refusal = azure_client().refusal("compute" if section == "cluster" else section, path)
    found = errors(path)
    if line in STRICTER.get(section, {}):
        assert found
        assert not refusal, refusal
    elif line in LOOSER.get(section, {}):
        assert not found, found
        assert refusal
    elif refusal:
        assert found, refusal
    else:
        assert not found, found


def test_every_listed_difference_is_a_variation() -> None:
    listed = {(section, line) for table in (STRICTER, LOOSER) for section, lines in table.items() for line in lines}
    assert listed <= set(EVERY)


def test_an_expression_stands_for_a_number_in_a_pipeline_only(folder: Path) -> None:
    """Azure's client takes it in a stand-alone job too once it has loaded a pipeline in the same process."""
    path = folder / "file.yml"
    path.write_text(file_text("command", "+ resources: {instance_count: '${{inputs.n}}'}\\ninputs: {n: 2}"))
    assert [error.split(": ")[1] for error in errors(path)] == ["wrong-type"]
    path.write_text(
        file_text("pipeline", "jobs: {a: {G, resources: {instance_count: '${{parent.inputs.n}}'}}}\\ninputs: {n: 2}")
    )
    assert errors(path) == []


def test_a_bound_of_a_search_space_that_is_an_expression_is_told_once(folder: Path) -> None:
    path = folder / "file.yml"
    bound = "search_space: {b: {type: uniform, min_value: '${{inputs.a}}', max_value: 0}}\\ninputs: {a: 1}"
    path.write_text(file_text("sweep", bound))
    assert [error.split(": ")[1] for error in errors(path)] == ["bound-expression"]
