"""Shapes that several kinds of file share: inputs, outputs, resources, distribution, services, identity."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from footplate.jobfile import nodes
from footplate.jobfile.faults import Code, Report
from footplate.jobfile.shapes import (
    Anything,
    By,
    Either,
    Flag,
    Items,
    Keys,
    Scalar,
    Shape,
    Table,
    Text,
    Whole,
    is_bound,
    shortened,
)

CODES = (
    Code(
        "component-syntax",
        "error",
        "A job's input written as components declare theirs (`optional`, `default`, `min`, `max`, `enum`).",
        "command: echo ${{inputs.lr}}\nenvironment: azureml:e:1\ninputs:\n  lr: {type: number, default: 0.1}  # here\n",
    ),
    Code(
        "image-or-build",
        "error",
        "An environment's keys with neither an image nor a build, or with both: Azure's client sends none such. "
        "A warning where it tells so only as it makes the environment: in a sweep, a pipeline and a deployment.",
        "command: python train.py\nenvironment:  # here\n  conda_file: {dependencies: [python]}\n",
    ),
    Code(
        "shm-size",
        "error",
        "A size of shared memory that is no number with b, k, m or g after it. A warning for forms that not every service takes.",
        "command: python train.py\nenvironment: azureml:e:1\nresources:\n  shm_size: 2 gigs  # here\n",
    ),
)

MOST_WHOLE = 2**31 - 1
"""What Azure's client can send as a whole number."""

TABLE_MODES = ("ro_mount", "download", "direct", "eval_mount", "eval_download")
DATA_MODES = ("ro_mount", "download", "direct")
"""How files, folders and models are given to a job; only an mltable can be evaluated."""

INPUT_TYPES = ("uri_file", "uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model")
OUTPUT_MODES = ("mount", "rw_mount", "upload", "direct")

HEAD: dict[str, Shape] = {"$schema": Scalar(), "name": Text(), "description": Text()}
"""What every kind of file may start with."""

TAGS = Table(Text("text (quote numbers and booleans)", null=True))
"""Tags and properties of a job."""

ASSET_TAGS = Table(Scalar(null=True))
"""Tags and properties of an asset, an endpoint or a deployment: Azure's client makes text of them."""


@dataclass(frozen=True)
class VariableShape(Shape):
    """An environment variable's value: a scalar, or a date, which is sent as the text of one."""

    wanted: str = "text, a number, true or false"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if not isinstance(value, datetime.date):
            Scalar(self.wanted, null=True).check(value, place, report)


VARIABLES = Table(VariableShape())
JOB_READ_ONLY = ("id", "creation_context", "status", "log_files")
ASSET_READ_ONLY = ("creation_context", "latest_version")


def _data(modes: tuple[str, ...]) -> Keys:
    return Keys(
        "a data input",
        {
            "type": Text("a type of data", INPUT_TYPES),
            "path": Text("a path, an address or an asset"),
            "mode": Text("a mode", modes),
            "path_on_compute": Text(),
            "datastore": Text(),
        },
        required=("path",),
    )


_DATA = _data(DATA_MODES)
_TABLE = _data(TABLE_MODES)
_LITERAL = Keys(
    "a literal input",
    {"value": Scalar()},
    required=("value",),
    advice={"type": "A value's type is told by how it is written: remove this line."},
)


_COMPONENT_ONLY = frozenset({"optional", "default", "min", "max", "enum"})


@dataclass(frozen=True)
class InputShape(Shape):
    """A literal, `{value: literal}` or data; not what components declare."""

    wanted: str = "a value, or type and path"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`; of a component's declaration one sentence, not one for each of its keys."""
        if not isinstance(value, Mapping):
            if not isinstance(value, str | int | float):
                hint = "Quote it to have it as text." if value is not None and not isinstance(value, list) else ""
                self._wrong(value, place, report, hint)
            elif isinstance(value, float) and not math.isfinite(value):
                report.add(
                    "wrong-type",
                    place,
                    f"`{place[-1]}` is {value}, which no job's input can be.",
                    "Quote it to have it as text.",
                )
            return
        if component := sorted(_COMPONENT_ONLY & set(map(str, value))):
            keys = ", ".join(f"`{key}`" for key in component)
            report.add(
                "component-syntax",
                place,
                f"Input `{place[-1]}` is declared as components declare them ({keys}).",
                "A job's input takes a value, as in `lr: 0.01`, or type and path.",
                key=True,
            )
        elif "value" in value:
            _LITERAL.check(value, place, report)
        elif str(value.get("type") or "mltable").lower() == "mltable":
            _TABLE.check(value, place, report)
        else:
            _DATA.check(value, place, report)


INPUTS = Table(InputShape())

OUTPUT_KEYS: dict[str, Shape] = {
    "type": Text("a type of data", INPUT_TYPES),
    "path": Text(),
    "mode": Text("a mode", OUTPUT_MODES),
    "name": Text(),
    "version": Scalar(),
}
_OUTPUT = Keys("an output", OUTPUT_KEYS, null=True)


@dataclass(frozen=True)
class OutputShape(Shape):
    """A job's output: empty for a folder, or type, path and mode, and the asset that it becomes."""

    wanted: str = "nothing, or type, path and mode"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        _OUTPUT.check(value, place, report)
        if isinstance(value, Mapping) and value.get("version") is not None and not value.get("name"):
            report.add(
                "missing-key",
                place,
                f"Output `{place[-1]}` has a version and no `name` to go with it.",
                "Add the name.",
                key=True,
            )


OUTPUT = OutputShape()


@dataclass(frozen=True)
class MemorySize(Shape):
    """The size of a container's shared memory. Source: reference-yaml-job-command, which has `<number><unit>`."""

    wanted: str = "a size, as 8g"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if self._empty(value, place, report) or is_bound(value, place):
            return
        if not isinstance(value, str):
            self._wrong(value, place, report, f"Write {value}g." if type(value) is int else "")
            return
        size = re.fullmatch(r"(?P<number>\d+(?P<part>\.\d+)?)\s*(?P<unit>[bkmg])?(?P<more>i?b)?", value, re.IGNORECASE)
        unit = (size["unit"] or "").lower() if size else ""
        if size is None or not unit or float(size["number"]) == 0:
            # Of `2 gigs` the number and the unit's first letter are plain.
            near = re.match(r"\s*([1-9]\d*)\s*([bkmg])?", value, re.IGNORECASE)
            hint = f"Write {near[1]}{(near[2] or 'g').lower()}." if near else "Write it as 8g or 512m."
            report.add("shm-size", place, f"{shortened(value)} is no size of shared memory.", hint)
        elif size["part"] or size["more"] or " " in value:
            fault = f"Azure has sizes of shared memory as a whole number and one letter, not as {shortened(value)}."
            hint = "Write it as 8g or 512m." if size["part"] else f"Write {size['number']}{unit}."
            report.add("shm-size", place, fault, hint, severity="warning")


_RESOURCES: dict[str, Shape] = {
    "instance_count": Whole(1, MOST_WHOLE),
    "max_instance_count": Whole(1, MOST_WHOLE),
    "instance_type": Text("a VM size"),
    "properties": Table(Anything()),
    "locations": Items(Text("a region")),
    "shm_size": MemorySize(),
    "docker_args": Either(Text(), None, Items(Text()), wanted="text or a list"),
}
RESOURCES = Keys("resources", _RESOURCES)
COMPONENT_RESOURCES = Keys("a component's resources", _RESOURCES, unknown="warning")


def _distribution(unknown: Literal["error", "warning"]) -> By:
    return By(
        "type",
        {
            "pytorch": Keys(
                "a pytorch distribution",
                {"type": Text(), "process_count_per_instance": Whole(1, MOST_WHOLE)},
                unknown=unknown,
            ),
            "mpi": Keys(
                "an mpi distribution",
                {"type": Text(), "process_count_per_instance": Whole(1, MOST_WHOLE)},
                unknown=unknown,
            ),
            "tensorflow": Keys(
                "a tensorflow distribution",
                {"type": Text(), "worker_count": Whole(1, MOST_WHOLE), "parameter_server_count": Whole(0, MOST_WHOLE)},
                unknown=unknown,
            ),
            "ray": Keys(
                "a ray distribution",
                {
                    "type": Text(),
                    "port": Whole(1, 65535),
                    "address": Text(),
                    "include_dashboard": Flag(),
                    "dashboard_port": Whole(1, 65535),
                    "head_node_additional_args": Text(),
                    "worker_node_additional_args": Text(),
                },
                unknown=unknown,
            ),
        },
        "a distribution",
    )


DISTRIBUTION = _distribution("error")
COMPONENT_DISTRIBUTION = _distribution("warning")
"""That of a component, of which Azure's client reads only the keys that it knows."""

_SERVICE: dict[str, Shape] = {
    "type": Text(),
    "port": Whole(1, 65535),
    "nodes": Text("`all`", ("all",), exact=True),
    "properties": Table(Anything()),
}
_SERVICE_READ_ONLY = ("endpoint", "status", "error_message")


def _service(title: str, **more: Shape) -> Keys:
    advice = {"job_service_type": "The key is `type`."}
    return Keys(title, {**_SERVICE, **more}, read_only=_SERVICE_READ_ONLY, advice=advice)


SERVICES = Table(
    By(
        "type",
        {
            "ssh": _service("an ssh service", ssh_public_keys=Text()),
            "tensor_board": _service("a tensor_board service", log_dir=Text()),
            "vs_code": _service("a vs_code service"),
            "jupyter_lab": _service("a jupyter_lab service"),
        },
        "a service",
        other=_service("a service"),
        absent=_service("a service", ssh_public_keys=Text(), log_dir=Text()),
    )
)

_IDENTITY = {
    "type": Text(),
    "client_id": Text(),
    "object_id": Text(),
}
_IDENTITY_ADVICE = {
    "msi_resource_id": "Azure's client fails on this key of its own reference: give `client_id` or `object_id`."
}
IDENTITY = By(
    "type",
    {
        "managed": Keys("a managed identity", _IDENTITY, advice=_IDENTITY_ADVICE),
        "managed_identity": Keys("a managed identity", _IDENTITY, advice=_IDENTITY_ADVICE),
        "aml_token": Keys("an aml_token identity", {"type": Text()}),
        "user_identity": Keys("a user identity", {"type": Text()}),
    },
    "an identity",
    camel=True,
)

QUEUE_SETTINGS = Keys(
    "queue settings",
    {
        "job_tier": Text("a job tier", ("spot", "basic", "standard", "premium", "null")),
        "priority": Text("a priority", ("low", "medium", "high")),
    },
)
