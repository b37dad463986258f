"""The environment of a rank on this machine: Azure's variables, and what stands in for its image."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from footplate.jobfile import Plan

MASTER_ADDRESS = "127.0.0.1"

_NOT_INHERITED = re.compile(
    r"AZUREML_|AZURE_ML_|AZ_BATCH|TORCHELASTIC_|OMPI_|MLFLOW_(RUN|EXPERIMENT|TRACKING_URI)"
    r"|(RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|MASTER_ADDR|MASTER_PORT|TF_CONFIG)$"
)
"""A console started inside a job must not hand that job's place on to its own jobs."""


@dataclass(frozen=True)
class Setting:
    """What all ranks of a job share: names, the Python that runs it, where its data and outputs lie, and MLflow's variables."""

    job: str
    experiment: str
    python: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    mlflow: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1
    """What a rank's libraries should use of the node's cores."""
    devices: Sequence[str] = ()
    """CUDA_VISIBLE_DEVICES of each node, where nodes have GPUs of their own."""


def rank_environment(setting: Setting, plan: Plan, rank: int, ports: Sequence[int], shims: Path) -> dict[str, str]:
    """All variables of one rank; what the job file sets itself wins. `ports` are rank 0's and, where all listen, the others'.

    `shims` is a folder for a `python` where one is missing.
    """
    inherited = {name: value for name, value in os.environ.items() if not _NOT_INHERITED.match(name)}
    defaults = {
        "OMP_NUM_THREADS": str(setting.threads),  # spinning threads of several ranks would take each other's cores
        "MLFLOW_DISABLE_TELEMETRY": "true",  # a job on this machine reports to nobody
    }
    devices = {"CUDA_VISIBLE_DEVICES": setting.devices[plan.node(rank)]} if setting.devices else {}
    azure = {
        "AZUREML_RUN_ID": setting.job,
        "AZUREML_ARM_PROJECT_NAME": setting.experiment,
        "AZUREML_ARM_WORKSPACE_NAME": "local",
        "AZUREML_CR_NODE_RANK": str(plan.node(rank)),
        "AZ_BATCHAI_JOB_MASTER_NODE_IP": MASTER_ADDRESS,
        "AZ_BATCH_MASTER_NODE": f"{MASTER_ADDRESS}:{ports[0]}",
        **{f"AZURE_ML_INPUT_{name}": path for name, path in setting.inputs.items()},
        **{f"AZURE_ML_OUTPUT_{name}": path for name, path in setting.outputs.items()},
    }
    return {
        **defaults,
        **inherited,
        "PATH": _path(setting.python, inherited.get("PATH", os.defpath), shims),
        "PYTHONUNBUFFERED": "1",
        **devices,
        **azure,
        **setting.mlflow,
        **plan.environment(rank, MASTER_ADDRESS, ports[0], ports),
    }


def _path(python: str, path: str, shims: Path) -> str:
    """PATH on which `python` is the Python that runs jobs, and its tools come before others."""
    folder = Path(python).parent
    there = folder / "python"
    if there.exists() and there.samefile(python):
        return f"{folder}{os.pathsep}{path}"
    shims.mkdir(exist_ok=True)
    shim = shims / "python"
    # A script, for a link would hide the virtual environment that the Python belongs to.
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    return os.pathsep.join([str(shims), str(folder), path])
