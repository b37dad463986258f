"""What job files mean that the corpus has no example of: footplate reads what Azure's client sends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.azure_client import azure_client
from tests.rest_meaning import meaning, sent_meaning

from footplate.jobfile import document
from footplate.jobfile.check import check

COMMAND = "command: python train.py\nenvironment: azureml:env:1\n"
SWEEP = """\
type: sweep
trial:
  command: python train.py --lr ${{search_space.lr}}
  environment: azureml:env:1
search_space:
  lr: {type: uniform, min_value: 0.1, max_value: 1}
objective: {goal: maximize, primary_metric: val/acc}
limits: {max_total_trials: 20, max_concurrent_trials: 4, timeout: 7200, trial_timeout: 600}
sampling_algorithm: random
"""

COMMANDS = {
    "every way to write a literal": """
inputs:
  text: hello
  quoted_number: "42"
  quoted_boolean: "true"
  empty: ""
  integer: 42
  octal: 010
  octal_of_yaml_1_2: 0o10
  hexadecimal: 0x10
  underscores: 1_000
  sexagesimal: 12:30
  binary: 0b101
  negative: -7
  real: 1.10
  whole_real: 1.0
  small: 0.00001
  small_with_dot: 1.0e-5
  small_without_dot: 1e-5
  large: 5.0e+3
  huge: 12345678901234567890
  yes_word: yes
  off_word: off
  true_word: True
  held: {value: 3}
  held_boolean: {value: no}
  folded: >-
    two
    lines
  kept: |
    two
    lines
""",
    "every type and mode of data": """
inputs:
  file: {type: uri_file, path: ./data.csv, mode: download}
  folder: {type: uri_folder, path: 'azureml:data:3', mode: ro_mount}
  table: {type: mltable, path: 'azureml:table@latest', mode: eval_mount}
  table2: {type: mltable, path: 'azureml:table@latest', mode: eval_download}
  model: {type: mlflow_model, path: 'azureml:model:1', mode: direct}
  model2: {type: custom_model, path: 'azureml://registries/r/models/m/versions/1'}
  model3: {type: triton_model, path: 'azureml:model:1'}
  bare: {path: 'https://example.org/data.csv'}
  blob: {type: uri_file, path: 'wasbs://c@a.blob.core.windows.net/data.csv'}
outputs:
  nothing:
  empty: {}
  file: {type: uri_file, mode: upload}
  model: {type: mlflow_model, mode: rw_mount, path: 'azureml://datastores/d/paths/p'}
  direct: {type: mltable, mode: direct}
  mount: {type: triton_model, mode: mount}
  named: {type: custom_model, name: asset, version: 2}
""",
    "letter case of words": """
inputs:
  file: {type: URI_FILE, path: 'azureml:data:1', mode: Download}
outputs:
  model: {type: MLflow_Model, mode: Upload}
distribution: {type: PyTorch, process_count_per_instance: 4}
identity: {type: AMLToken}
queue_settings: {job_tier: Spot, priority: High}
""",
    "pytorch": "resources: {instance_count: 2}\ndistribution: {type: pytorch, process_count_per_instance: 4}\n",
    "pytorch without a count": "distribution: {type: pytorch}\n",
    "a count in quotes": 'resources: {instance_count: "3"}\ndistribution: {type: mpi, process_count_per_instance: "2"}\n',
    "a count with a fraction": "resources: {instance_count: 2.5}\n",
    "mpi": "resources: {instance_count: 2}\ndistribution: {type: mpi, process_count_per_instance: 1}\n",
    "tensorflow": "distribution: {type: tensorflow, worker_count: 2, parameter_server_count: 1}\n",
    "ray": """
distribution:
  {type: ray, port: 6379, address: head, include_dashboard: true, dashboard_port: 8265,
   head_node_additional_args: --a, worker_node_additional_args: --b}
""",
    "all resources": """
resources:
  instance_count: 2
  instance_type: Standard_NC24ads_A100_v4
  shm_size: 8g
  docker_args: --ipc=host
  properties: {custom: {a: 1}}
""",
    "docker arguments as a list": "resources: {docker_args: [--ipc=host, --privileged]}\n",
    "all services": """
services:
  shell: {type: ssh, ssh_public_keys: ssh-ed25519 AAAA, nodes: all, port: 22}
  board: {type: tensor_board, log_dir: ./logs}
  editor: {type: vs_code}
  notebook: {type: jupyter_lab, properties: {a: b}}
""",
    "a managed identity": "identity: {type: managed, client_id: 00000000-0000-0000-0000-000000000000}\n",
    "a managed identity by its other name": "identity: {type: managed_identity}\n",
    "the user's identity": "identity: {type: user_identity}\n",
    "the job's own token": "identity: {type: aml_token}\n",
    "a queue": "queue_settings: {job_tier: premium, priority: low}\n",
    "limits": "limits: {timeout: 90061}\n",
    "limits in quotes": 'limits: {timeout: "60"}\n',
    "variables": "environment_variables: {TEXT: a, NUMBER: 1, REAL: 1.50, SWITCH: true, NOTHING: null, ZEROES: 007}\n",
    "names and tags": """
name: my-job
display_name: My job
experiment_name: tries
description: What it does.
tags: {owner: me, empty: null}
compute: azureml:gpu
""",
    "compute without a prefix": "compute: gpu\n",
    "this machine": "compute: local\n",
}

ENVIRONMENTS = {
    "an image": "environment: {image: docker.io/python}\n",
    "an image and conda packages": "environment: {image: docker.io/python, conda_file: {dependencies: [python=3.10]}}\n",
    "a build": "environment: {build: {path: ./context}}\n",
    "a label": "environment: azureml:env@latest\n",
    "a registry's": "environment: azureml://registries/azureml/environments/sklearn-1.5/labels/latest\n",
}

SPACES = {
    "choice of text": "{type: choice, values: [adam, sgd]}",
    "choice of numbers": "{type: choice, values: [1, 2.5, 1.0e-3, 1e-3]}",
    "choice of spaces": (
        "{type: choice, values: [{model: big, lr: {type: uniform, min_value: 0, max_value: 1}},"
        " {model: small, depth: {type: choice, values: [1, 2]}}]}"
    ),
    "uniform": "{type: uniform, min_value: 0.1, max_value: 1}",
    "uniform from text": '{type: uniform, min_value: "1e-5", max_value: 1e-2}',
    "quniform": "{type: quniform, min_value: 16, max_value: 128, q: 16}",
    "loguniform": "{type: loguniform, min_value: -7, max_value: -3}",
    "qloguniform": "{type: qloguniform, min_value: 0, max_value: 5, q: 2}",
    "normal": "{type: normal, mu: 0, sigma: 1.5}",
    "qnormal": "{type: qnormal, mu: 10, sigma: 3, q: 1}",
    "lognormal": "{type: lognormal, mu: -3, sigma: 1}",
    "qlognormal": "{type: qlognormal, mu: 1, sigma: 1, q: 0.5}",
    "randint": "{type: randint, upper: 10}",
    "randint in quotes": '{type: randint, upper: "10"}',
    "another letter case": "{type: LogUniform, min_value: -7, max_value: -3}",
}

SWEEPS = {
    "bayesian": ("sampling_algorithm: random", "sampling_algorithm: {type: bayesian}"),
    "sobol": (
        "sampling_algorithm: random",
        "sampling_algorithm: {type: random, rule: sobol, seed: 7, logbase: e}",
    ),
    "another base": ("sampling_algorithm: random", "sampling_algorithm: {type: random, logbase: 10}"),
    "minimise": ("goal: maximize", "goal: Minimize"),
    "bandit by a factor": (
        "sampling_algorithm: random",
        "sampling_algorithm: random\nearly_termination:"
        " {type: bandit, slack_factor: 0.1, evaluation_interval: 2, delay_evaluation: 5}",
    ),
    "bandit by an amount": (
        "sampling_algorithm: random",
        "sampling_algorithm: random\nearly_termination: {type: bandit, slack_amount: 0.2}",
    ),
    "median stopping": (
        "sampling_algorithm: random",
        "sampling_algorithm: random\nearly_termination: {type: median_stopping, delay_evaluation: 3}",
    ),
    "truncation": (
        "sampling_algorithm: random",
        "sampling_algorithm: random\nearly_termination:"
        " {type: truncation_selection, truncation_percentage: 20, evaluation_interval: 1}",
    ),
    "a distributed trial": (
        "environment: azureml:env:1",
        "environment: azureml:env:1\n  resources: {instance_count: 2, shm_size: 4g}\n"
        "  distribution: {type: pytorch, process_count_per_instance: 2}\n  environment_variables: {A: b}",
    ),
    "inputs beside the space": ("type: sweep", "type: sweep\ninputs: {epochs: 3, flag: yes}\ncompute: azureml:gpu"),
    "few limits": (
        "max_total_trials: 20, max_concurrent_trials: 4, timeout: 7200, trial_timeout: 600",
        'max_total_trials: "5"',
    ),
}


def same(tmp_path: Path, text: str) -> None:
    """The file is read as Azure's client sends it, and check finds no error in it."""
    for name in ("context", "code"):
        (tmp_path / name).mkdir()
    (tmp_path / "data.csv").write_text("1\n")
    path = tmp_path / "job.yml"
    path.write_text(text)
    job_file = document.read(path)
    assert [fault.sentence for fault in check(job_file) if fault.severity == "error"] == []
    assert meaning(job_file) == sent_meaning(azure_client().sent(job_file.kind, path))


@pytest.mark.parametrize("more", COMMANDS.values(), ids=COMMANDS)
def test_a_command_job_means_what_azures_client_sends(more: str, tmp_path: Path) -> None:
    same(tmp_path, COMMAND + more.lstrip("\n"))


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_an_environment_is_what_azures_client_sends(environment: str, tmp_path: Path) -> None:
    same(tmp_path, f"command: echo\n{environment}")


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_a_search_space_is_what_azures_client_sends(space: str, tmp_path: Path) -> None:
    same(tmp_path, SWEEP.replace("{type: uniform, min_value: 0.1, max_value: 1}", space))


def test_a_grid_is_what_azures_client_sends(tmp_path: Path) -> None:
    choice = SWEEP.replace("{type: uniform, min_value: 0.1, max_value: 1}", SPACES["choice of numbers"])
    same(tmp_path, choice.replace("sampling_algorithm: random", "sampling_algorithm: Grid"))


@pytest.mark.parametrize(("old", "new"), SWEEPS.values(), ids=SWEEPS)
def test_a_sweep_means_what_azures_client_sends(old: str, new: str, tmp_path: Path) -> None:
    assert old in SWEEP
    same(tmp_path, SWEEP.replace(old, new))
