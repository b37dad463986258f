"""Names that Azure refuses, and fixed names."""

from __future__ import annotations

import re

from footplate.jobfile import kinds
from footplate.jobfile.document import JobFile
from footplate.jobfile.expressions import is_expression
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.shapes import shortened

_REST = "command: python train.py\nenvironment: azureml:e:1\n"

CODES = (
    Code(
        "bad-name",
        "error",
        "A job's name that Azure refuses: it takes letters, digits, - and _, at most 255, the first a letter or digit.",
        f"{_REST}name: my run / number 1  # here\n",
    ),
    Code(
        "fixed-name",
        "note",
        "A job with a fixed name can be launched once; without `name` Azure makes a new one each time.",
        f"{_REST}name: my-run  # here\n",
    ),
    Code(
        "bad-input-name",
        "error",
        "The name of an input, output or search space that Azure refuses: it takes letters, digits and _, the first no digit.",
        "command: python train.py ${{inputs.learning-rate}}\nenvironment: azureml:e:1\ninputs:\n  learning-rate: 1  # here\n",
    ),
    Code(
        "reserved-name",
        "warning",
        "An input or output named as a variable that the system sets (path, home, user, …), which Azure reserves in components.",
        "command: python train.py ${{inputs.path}}\nenvironment: azureml:e:1\ninputs:\n  path: a  # here\n",
    ),
    Code(
        "experiment-name",
        "warning",
        "An experiment's name with characters that Azure refuses: it takes letters, digits, - and _.",
        f"{_REST}experiment_name: birds / first try  # here\n",
    ),
    Code(
        "environment-name",
        "error",
        "An environment's reference that names no asset: `azureml:` without a name, or with an empty version.",
        "command: python train.py\nenvironment: 'azureml:birds:'  # here\n",
    ),
    Code(
        "no-version",
        "warning",
        "An environment without version or label.",
        "command: python train.py\nenvironment: azureml:birds  # here\n",
    ),
    Code(
        "compute-name",
        "warning",
        "A cluster's name with blanks or characters that no cluster's name has.",
        f"{_REST}compute: my cluster  # here\n",
    ),
    Code(
        "own-compute-name",
        "error",
        "A cluster's or compute instance's own name that Azure refuses: it takes letters, digits and dashes, a letter first. "
        "A warning where only its length, or an underscore, may be refused.",
        "type: amlcompute\nname: my cluster  # here\nsize: Standard_DS3_v2\n",
    ),
    Code(
        "other-schema",
        "warning",
        "`$schema` names another kind of file than this one is. Azure's client goes by `type`, without one by nothing: it "
        "reads a command job.",
        "$schema: https://azuremlschemas.azureedge.net/latest/sweepJob.schema.json  # here\n"
        "command: python train.py\nenvironment: azureml:e:1\n",
    ),
)

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
INPUT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = frozenset({"path", "ld_library_path", "user", "logname", "home", "pwd", "shell"})
"""Source: reference-yaml-component-command."""

_ASSET = re.compile(r"azureml:[^:@/\s]+(?::\S*[^\s:]|@[^\s:@]+)|azureml:/.+")


def names(job_file: JobFile, report: Report) -> None:
    """The job's own name and its experiment's."""
    name = job_file.get("name")
    if isinstance(name, str) and not is_expression(name):
        if not JOB_NAME.fullmatch(name):
            hint = "Use letters, digits, - and _, at most 255, the first a letter or digit"
            usable = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:255]
            hint += f": {usable}." if usable and len(usable) <= 40 else "."
            report.add("bad-name", ("name",), f"A job cannot be named {shortened(name)}.", hint)
        else:
            report.add(
                "fixed-name", ("name",), f"The name {shortened(name)} is fixed: a second launch of this file is refused.",
                "Remove the line to get a new name each time; display_name names it on screens.",
            )  # fmt: skip
    experiment = job_file.get("experiment_name")
    if (
        isinstance(experiment, str)
        and not is_expression(experiment)
        and not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,254}", experiment)
    ):
        report.add(
            "experiment-name",
            ("experiment_name",),
            f"Azure may refuse the experiment name {shortened(experiment)}.",
            "Use letters, digits, - and _.",
        )


def keys(job_file: JobFile, report: Report) -> None:
    """Names of inputs, outputs and search spaces."""
    for section in ("inputs", "outputs", "search_space"):
        for name in job_file.mapping(section):
            if not INPUT_NAME.fullmatch(name):
                report.add(
                    "bad-input-name", (section, name), f"Azure refuses the name {shortened(name)} in `{section}`.",
                    "Use letters, digits and _, the first no digit.", key=True,
                )  # fmt: skip
            elif name.lower() in RESERVED and section != "search_space":
                report.add(
                    "reserved-name", (section, name), f"`{name}` is the name of a variable that the system sets.",
                    "Use another name: a component with this one is refused.", key=True,
                )  # fmt: skip


def references(job_file: JobFile, report: Report) -> None:
    """The environment and the cluster, as far as the file alone says."""
    place = (*job_file.body, "environment")
    environment = job_file.get(*place)
    if isinstance(environment, str) and environment.startswith("azureml:") and not report.has(place):
        if re.fullmatch(r"azureml:[^:@/\s]+", environment):
            hint = f"Write {environment}@latest, or {environment}:VERSION."
            report.add("no-version", place, f"`{environment}` has no version.", hint)
        elif not _ASSET.fullmatch(environment):
            hint = "Write azureml:NAME:VERSION or azureml:NAME@latest."
            report.add("environment-name", place, f"{shortened(environment)} names no environment.", hint)
    compute = job_file.get("compute")
    if isinstance(compute, str) and not is_expression(compute) and re.search(r"[\s<>\[\]{}\x00-\x1f]", compute):
        report.add(
            "compute-name",
            ("compute",),
            f"No cluster can be named {shortened(compute)}.",
            "Write its name, as in `compute: azureml:cpu-cluster`.",
        )


def schema_address(job_file: JobFile, report: Report) -> None:
    """The address of the schema, by which editors check the file, names the kind that the file is."""
    named = kinds.named_by_schema(job_file.values)
    if not named or named == job_file.kind:
        return
    hint = f"End it in {job_file.kind}Job.schema.json"
    if named in kinds.JOBS and "type" not in job_file.values:
        hint += f", or add `type: {named}` if that is what it is"
    fault = f"`$schema` names {kinds.TITLES[named]}; Azure's client reads the file as {kinds.TITLES[job_file.kind]}."
    report.add("other-schema", ("$schema",), fault, f"{hint}.")


_LENGTHS = {"amlcompute": (2, 32), "computeinstance": (3, 24)}
"""Source: Azure's naming rules for machine learning computes."""


def own_compute_name(job_file: JobFile, report: Report) -> None:
    """The name that a cluster or a compute instance is made with."""
    name, what = job_file.get("name"), job_file.text_at("type").lower()
    if not isinstance(name, str) or what not in _LENGTHS:
        return
    least, most = _LENGTHS[what]
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name) and least <= len(name) <= most:
        return
    usable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:most]
    usable = f": {usable}" if usable[:1].isalpha() and len(usable) >= least else ""
    fault = f"A compute cannot be named {shortened(name)}."
    hint = f"Use {least} to {most} letters, digits and dashes, a letter first{usable}."
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    report.add("own-compute-name", ("name",), fault, hint, severity="warning" if plain else None)


RULES = (
    (("command", "sweep", "pipeline"), names),
    (("command", "sweep", "pipeline"), schema_address),
    (("compute",), own_compute_name),
    (("command", "sweep"), keys),
    (("command", "sweep"), references),
)
