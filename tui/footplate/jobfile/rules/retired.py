"""VM sizes and environments that Azure has retired."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import Code, Report

CODES = (
    Code(
        "retired-size",
        "warning",
        "A VM size that Azure has retired, or has announced to retire on a date that is named.",
        "name: gpu-cluster\ntype: amlcompute\nsize: Standard_NC6  # here\nmax_instances: 2\n",
    ),
    Code(
        "retired-environment",
        "warning",
        "A curated environment that Azure no longer keeps up; what to write today is named.",
        "command: python train.py\nenvironment: azureml:AzureML-PyTorch-1.6-CPU@latest  # here\n",
    ),
)

_T4 = "Standard_NC4as_T4_v3"
_A100 = "Standard_NC24ads_A100_v4"
_A10 = "Standard_NV6ads_A10_v5"

_SIZES = (
    # Documented: virtual-machines, pages nc-series-retirement, ncv2-series-retirement and nd-series-retirement.
    ("nc6 nc12 nc24 nc24r nc6_promo nc12_promo nc24_promo nc24r_promo", "was retired in 2023", _T4),
    ("nc6s_v2 nc12s_v2 nc24s_v2 nc24rs_v2", "was retired in 2023", _T4),
    ("nd6s nd12s nd24s nd24rs", "was retired in 2023", _A100),
    # Documented: nv-series-retirement (6 September 2023).
    ("nv6 nv12 nv24 nv6_promo nv12_promo nv24_promo", "was retired in September 2023", _A10),
    # Documented: retired-sizes-list, ncv3-retirement, ncv3-nc24rs-retirement (30 September 2025).
    ("nc6s_v3 nc12s_v3 nc24s_v3 nc24rs_v3", "was retired in September 2025", _A100),
    # Documented: retired-sizes-list (announced for 30 September 2026).
    ("nv12s_v3 nv24s_v3 nv48s_v3", "has 30 September 2026 as the announced day of its retirement", _A10),
    ("nv4as_v4 nv8as_v4 nv16as_v4 nv32as_v4", "has 30 September 2026 as the announced day of its retirement", _A10),
    # Documented: av1-series-retirement (31 August 2024); Basic_A0 to A4, Standard_A0 to A11.
    ("a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11", "was retired in August 2024", "Standard_D2s_v5"),
)
"""Names in lower case without `standard_`, what became of them, and a size of the same use."""

_SIZE = {name: (fate, today) for names, fate, today in _SIZES for name in names.split()}

_REGISTRY = "azureml://registries/azureml/environments/{}/labels/latest"
_PYTORCH, _TENSORFLOW = "acpt-pytorch-2.8-cuda12.6", "tensorflow-2.16-cuda12"
_SKLEARN, _INFERENCE = "sklearn-1.5", "minimal-py312-inference"

_ENVIRONMENTS = (
    # The names of 2020 and 2021: seen missing in workspaces since (MicrosoftDocs/azure-docs#83761, #84909).
    (r"AzureML-PyTorch-1\.\d+-(CPU|GPU)", _PYTORCH),
    (r"AzureML-TensorFlow-[12]\.\d+-(CPU|GPU)", _TENSORFLOW),
    (r"AzureML-(Tutorial|Scikit-learn-.*|Minimal|Chainer-.*|Hyperdrive-.*)", _SKLEARN),
    (r"AzureML-(PySpark|Dask|VowpalWabbit)-.*", _SKLEARN),
    # Ubuntu 18.04 with Python 3.6 and 3.7, and what came with PyTorch 1 and TensorFlow up to 2.12: taken out of the curated
    # ones by Azure/azureml-assets#643, #740, #2992, #3395, #3902.
    (r"AzureML-.*-ubuntu18\.04-py3\d.*-inference", _INFERENCE),
    (r"AzureML-pytorch-1\.\d+-ubuntu.*", _PYTORCH),
    (r"(AzureML-ACPT|acpt)-pytorch-1\.\d+-.*", _PYTORCH),
    (r"(AzureML-)?tensorflow-(1\.\d+|2\.([4-9]|1[0-2]))-.*", _TENSORFLOW),
    (r"AzureML-.*-ubuntu18\.04-py3\d.*", _SKLEARN),
)
"""Patterns of curated environments' names, and the one to write today; the first that fits counts."""

_CURATED = re.compile(r"azureml:(?!//)([^:@/]+)|azureml://registries/azureml/environments/([^/]+)")


def values_of(values: object, key: str, place: nodes.Path = ()) -> Iterator[tuple[nodes.Path, str]]:
    """Every text that stands at a key, or in the list there, anywhere in a file."""
    if isinstance(values, Mapping):
        for name, item in values.items():
            here = (*place, str(name))
            if name == key:
                yield from _texts(item, here)
            yield from values_of(item, key, here)
    elif isinstance(values, list):
        for index, item in enumerate(values):
            yield from values_of(item, key, (*place, index))


def _texts(item: Any, place: nodes.Path) -> Iterator[tuple[nodes.Path, str]]:
    if isinstance(item, str):
        yield place, item
    elif isinstance(item, list):
        yield from (((*place, index), text) for index, text in enumerate(item) if isinstance(text, str))


def sizes(job_file: JobFile, report: Report) -> None:
    """VM sizes that can no longer be had."""
    given = list(values_of(job_file.values, "instance_type"))
    if job_file.kind == "compute":
        given += [(("size",), job_file.text_at("size"))]
    for place, size in given:
        fate, today = _of_size(size)
        if fate:
            report.add("retired-size", place, f"The VM size {size.strip()} {fate}.", f"Of the same use today: {today}.")


def _of_size(size: str) -> tuple[str, str]:
    first, _, name = size.strip().lower().partition("_")
    basic = first == "basic" and name in ("a0", "a1", "a2", "a3", "a4")
    return _SIZE.get(name, ("", "")) if first == "standard" or basic else ("", "")


def environments(job_file: JobFile, report: Report) -> None:
    """Curated environments that are gone or left behind."""
    for place, text in values_of(job_file.values, "environment"):
        match = _CURATED.match(text)
        name = (match[1] or match[2]) if match else ""
        today = next((today for pattern, today in _ENVIRONMENTS if re.fullmatch(pattern, name, re.IGNORECASE)), "")
        if today:
            report.add(
                "retired-environment", place, f"The curated environment {name} is one that Azure has retired.",
                f"Write {_REGISTRY.format(today)}, or make an environment of your own.",
            )  # fmt: skip


_WITH_ENVIRONMENT = ("command", "sweep", "pipeline", "component", "deployment")

RULES = ((("compute", *_WITH_ENVIRONMENT), sizes), (_WITH_ENVIRONMENT, environments))
