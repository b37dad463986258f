"""Components: what they declare, and what they run. Source: azure-ai-ml's schemas, reference-yaml-component-*.

Command and pipeline components are known whole; of the other types only what all components share is checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from footplate.jobfile import nodes
from footplate.jobfile.faults import Report
from footplate.jobfile.schema import common, jobs
from footplate.jobfile.shapes import (
    Anything,
    By,
    Flag,
    Items,
    Keys,
    Number,
    Scalar,
    Shape,
    Table,
    Text,
)

DATA_TYPES = (*common.INPUT_TYPES, "path")
"""Types of data that a component declares; `path` is of old components."""

VALUE_TYPES = ("string", "integer", "number", "boolean")
PORT_MODES = (*common.TABLE_MODES, *common.OUTPUT_MODES, "link")

_VALUE = {
    "type": Text(),
    "optional": Flag(),
    "default": Scalar(),
    "description": Text(),
}
_DECLARED_VALUE = {
    "string": Keys("a text input", {**_VALUE, "enum": Items(Text()), "min": Scalar(), "max": Scalar()}),
    "boolean": Keys("a boolean input", {**_VALUE, "enum": Items(Text()), "min": Scalar(), "max": Scalar()}),
    "integer": Keys("an integer input", {**_VALUE, "enum": Items(Text()), "min": Number(), "max": Number()}),
    "number": Keys("a number input", {**_VALUE, "enum": Items(Text()), "min": Number(), "max": Number()}),
}
_DECLARED_DATA = Keys(
    "a data input",
    {
        "type": Text(),
        "description": Text(),
        "optional": Flag(),
        "mode": Text("a mode", PORT_MODES, exact=True),
    },
    advice={"default": "Only values have defaults; make the data `optional: true` instead."},
)
DECLARED_INPUTS = Table(
    By("type", {**_DECLARED_VALUE, **dict.fromkeys(DATA_TYPES, _DECLARED_DATA)}, "an input", exact=True)
)
"""What a component takes; unlike a job's inputs these have types, defaults and limits, no values."""

_DECLARED_OUTPUT = {"type": Text(), "description": Text(), "mode": Text("a mode", PORT_MODES, exact=True)}
DECLARED_OUTPUTS = Table(
    By(
        "type",
        {
            **dict.fromkeys(VALUE_TYPES, Keys("an output", _DECLARED_OUTPUT, unknown="warning")),
            **dict.fromkeys(DATA_TYPES, Keys("an output", _DECLARED_OUTPUT)),
        },
        "an output",
        exact=True,
    )
)

_COMPONENT_HEAD: dict[str, Shape] = {
    "$schema": Scalar(),
    "name": Text(),
    "version": Scalar(),
    "type": Text(),
    "display_name": Text(),
    "description": Text(),
    "tags": Table(Text("text (quote numbers and booleans)")),
    "is_deterministic": Flag(),
    "inputs": DECLARED_INPUTS,
    "outputs": DECLARED_OUTPUTS,
    "auto_delete_setting": Anything(),
}

COMMAND_COMPONENT: dict[str, Shape] = {
    **_COMPONENT_HEAD,
    **jobs.BODY,
    "resources": common.COMPONENT_RESOURCES,
    "distribution": common.COMPONENT_DISTRIBUTION,
    "queue_settings": common.QUEUE_SETTINGS,
    "properties": Table(Anything()),
    "additional_includes": Items(Text("a path")),
}


@dataclass(frozen=True)
class ComponentName(Shape):
    """A component's name: Azure takes lower-case letters, digits and underscores, a letter first."""

    wanted: str = "text"

    def check(self, value: Any, place: nodes.Path, report: Report) -> None:
        """As `Shape.check`."""
        if not isinstance(value, str):
            self._wrong(value, place, report)
        elif not re.fullmatch(r"[a-z][a-z0-9_]{0,254}", value):
            plain = re.sub(r"[^a-z0-9_]", "_", value.lower())[:255]
            report.add(
                "wrong-value",
                place,
                f"A component cannot be called {value[:40]!r}: only lower-case letters, digits and underscores, a letter first.",
                f"Call it {plain if plain[:1].isalpha() else f'c_{plain}'}.",
            )


COMPONENT_FILE: dict[str, Shape] = {**_COMPONENT_HEAD, "name": ComponentName()}
"""What a component's own file starts with."""
