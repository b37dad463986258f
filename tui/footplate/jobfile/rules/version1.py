"""Files of Azure ML v1, with what to write today."""

from __future__ import annotations

from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.kinds import TITLES

CODES = (
    Code(
        "version-1",
        "error",
        "A file of Azure ML v1 (run configuration, ACI or AKS deployment, pipeline), which the service of today does not take.",
        "script: train.py  # here\nframework: Python\ncommunicator: None\ntarget: cpu-cluster\nnodeCount: 1\n",
    ),
)

_TODAY = {
    "v1 run": (
        "a command job",
        {
            "script": "`script` and `arguments` become `command: python {script} …`",
            "target": "`target` becomes `compute`",
            "nodeCount": "`nodeCount` becomes `resources.instance_count`",
            "communicator": "`communicator` and `framework` become `distribution.type`",
            "environment": "`environment` becomes `environment: azureml:NAME:VERSION`, or `image` with `conda_file`",
            "data": "`data` becomes `inputs`",
            "runConfig": "`runConfig` becomes `command`, `environment` and `compute`",
        },
    ),
    "v1 deployment": (
        "an online deployment (with `name`, `endpoint_name`, `model` and `instance_type`)",
        {
            "aciconfig": "`aciconfig` becomes `instance_type` and `instance_count`",
            "computeType": "`computeType` goes: a managed deployment has `instance_type`",
            "entryScript": "`entryScript` becomes `code_configuration` with `code` and `scoring_script`",
            "inferenceConfig": "`inferenceConfig` becomes `code_configuration` and `environment`",
            "containerResourceRequirements": "`containerResourceRequirements` becomes `instance_type`",
            "autoScaler": "`autoScaler` becomes `scale_settings`",
            "sourceDirectory": "`sourceDirectory` becomes `code_configuration.code`",
            "environment": "`environment` becomes `environment: azureml:NAME:VERSION`, or `image` with `conda_file`",
        },
    ),
    "v1 pipeline": (
        "a pipeline job (`type: pipeline`)",
        {"pipeline": "`pipeline.steps` becomes `jobs`, `pipeline.parameters` becomes `inputs`"},
    ),
}
"""What to write today, and what becomes of the keys; the first of them that the file has is the one that tells."""


def version1(job_file: JobFile, report: Report) -> None:
    """Say at the key that tells it what the file is and what to write in its place."""
    instead, keys = _TODAY[job_file.kind]
    there = [key for key in keys if key in job_file.values]
    telling = there[0] if there else next(iter(job_file.values), "")
    script = job_file.text_at("script") or "train.py"
    becomes = "; ".join(keys[key].replace("{script}", script) for key in there)
    report.add(
        "version-1", (str(telling),), f"This is {TITLES[job_file.kind]}, which Azure ML no longer takes.",
        f"Write {instead}{f': {becomes}' if becomes else ''}.", key=True,
    )  # fmt: skip


RULES = ((tuple(_TODAY), version1),)
