"""A job file: its text, its values, and what each part of a command job says."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from footplate.jobfile import edit, nodes
from footplate.workspace.errors import Invalid

TOP_KEYS = (
    "$schema", "type", "command", "environment", "code", "name", "display_name", "experiment_name", "description", "tags",
    "properties", "compute", "environment_variables", "inputs", "outputs", "resources", "distribution", "limits", "services",
    "identity", "queue_settings", "parent_job_name",
)  # fmt: skip
"""The keys of a command job (Azure ML CLI v2, commandJob schema)."""

MOST_RANKS = 4096
"""How many processes one job may ask for; a typing error past it would fill the machine, or the screen that shows them."""

_MOST_WHOLE = 2**31 - 1


@dataclass(frozen=True)
class Input:
    """One input: a literal as the text that Azure's client sends (`True`, `1e-05`), or data with type, path and mode."""

    name: str
    literal: str | None
    type: str
    path: str | None = None
    mode: str = ""

    @property
    def read_as(self) -> str:
        """How the value was read: integer, number, boolean, text, or the data type."""
        return self.type


@dataclass(frozen=True)
class OutputSpec:
    """One named output of a job file."""

    name: str
    type: str = "uri_folder"
    path: str | None = None
    mode: str = "rw_mount"


@dataclass(frozen=True)
class JobFile:
    """A command job's file. Made by `read` or `parse`, which check its shape; `edit` gives a changed copy."""

    text: str
    path: Path | None
    base: Path
    values: Mapping[str, Any] = field(repr=False)
    places: Mapping[nodes.Path, nodes.Place] = field(repr=False)

    @property
    def label(self) -> str:
        """What messages call the file."""
        return self.path.name if self.path else "the job file"

    @property
    def kind(self) -> str:
        """`command`, the one kind that this version reads."""
        return str(self.values.get("type", "command"))

    @property
    def command(self) -> str:
        """The command's text, folded as YAML folds it."""
        return str(self.values["command"])

    @cached_property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs by name, in the file's order."""
        return {name: self._input(name, value) for name, value in self._mapping("inputs").items()}

    @cached_property
    def outputs(self) -> Mapping[str, OutputSpec]:
        """The named outputs, in the file's order."""
        specs = {}
        for name, value in self._mapping("outputs").items():
            given = {k: str(v) for k, v in (value or {}).items() if k in ("type", "path", "mode") and v is not None}
            specs[name] = OutputSpec(name, **given)
        return specs

    @property
    def compute(self) -> str:
        """The cluster's bare name; empty when the file names none."""
        return str(self.values.get("compute") or "").removeprefix("azureml:")

    @property
    def name(self) -> str | None:
        """The job's name, if the file gives one."""
        return None if (given := self.values.get("name")) is None else str(given)

    @property
    def experiment_name(self) -> str:
        """The experiment; without one the name of the file's folder, as Azure's client fills it in."""
        return str(self.values.get("experiment_name") or self.base.name.replace(" ", "") or "Default")

    @property
    def display_name(self) -> str:
        """The name shown; empty when the file gives none."""
        return str(self.values.get("display_name") or "")

    @property
    def description(self) -> str:
        """The file's own description."""
        return str(self.values.get("description") or "")

    @property
    def tags(self) -> Mapping[str, str]:
        """Tags as text."""
        return {str(k): str(v) for k, v in self._mapping("tags").items()}

    @property
    def environment(self) -> str:
        """The environment as one line: a reference, or `image …` for an inline one."""
        given = self.values.get("environment")
        if isinstance(given, Mapping):
            return f"image {given['image']}" if "image" in given else "inline environment"
        return str(given or "")

    @property
    def environment_variables(self) -> Mapping[str, str]:
        """The job's own environment variables, as text."""
        return {str(k): "" if v is None else str(v) for k, v in self._mapping("environment_variables").items()}

    @property
    def code(self) -> Path | None:
        """The code folder, absolute; relative ones lie beside the file, wherever the command was started."""
        given = self.values.get("code")
        # realpath, unlike Path.resolve, raises nothing for links that lead in a circle: then it is no folder.
        return None if given is None else Path(os.path.realpath(self.base / str(given)))

    @property
    def nodes(self) -> int:
        """`resources.instance_count`, 1 without it."""
        return int(self._mapping("resources").get("instance_count", 1))

    @property
    def distribution(self) -> str:
        """The distribution's type in lower case, empty for none."""
        return str(self._mapping("distribution").get("type", "")).lower()

    @property
    def ranks_per_node(self) -> int:
        """`distribution.process_count_per_instance`, 1 without it."""
        return int(self._mapping("distribution").get("process_count_per_instance", 1))

    @property
    def timeout_s(self) -> int | None:
        """`limits.timeout` in seconds."""
        given = self._mapping("limits").get("timeout")
        return None if given is None else int(given)

    def edit(self, changes: Mapping[str, object]) -> JobFile:
        """A copy with the values at dotted paths changed in the text. Raises Invalid when the result is no job file."""
        try:
            with _sentences(self.label):
                text = edit.splice(self.text, changes)
        except KeyError as error:
            raise Invalid(
                f"{self.label} has no place for {error.args[0]!r}.",
                error.args[1] if len(error.args) > 1 else "Name a key of the file, as in inputs.num_epochs=5.",
            ) from error
        return parse(text, self.path, self.base)

    def line(self, *path: str | int) -> int:
        """The line (from 1) on which the value at the path stands; 1 when it is absent."""
        place = self.places.get(path)
        return place.line if place else 1

    def _mapping(self, key: str) -> Mapping[str, Any]:
        return self.values.get(key) or {}

    def _input(self, name: str, value: Any) -> Input:
        if isinstance(value, Mapping) and "value" in value:
            value = value["value"]
        if isinstance(value, Mapping):
            return Input(
                name, None, str(value.get("type", "uri_folder")), str(value.get("path", "")), str(value.get("mode", ""))
            )
        kinds: dict[type, str] = {bool: "boolean", int: "integer", float: "number"}
        return Input(name, str(value), kinds.get(type(value), "text"))


def read(path: Path) -> JobFile:
    """Read a job file. Raises Invalid with file, line and what to do when it is missing, unreadable or no command job."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise Invalid(f"The job file {path} cannot be read: {error.strerror}.", "Check the path.") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8 text (byte {error.start}).", "Save it as UTF-8.") from error
    return parse(text, path, path.resolve().parent)


def parse(text: str, path: Path | None, base: Path) -> JobFile:
    """A job file from its text; relative paths lie in `base`. Raises Invalid as `read` does."""
    label = path.name if path else "the job file"
    with _sentences(label):
        values, places = nodes.compose(text)
    if not isinstance(values, Mapping):
        raise Invalid(
            f"{label} is not a job file: it holds no keys.", "A command job has at least `command` and `environment`."
        )
    job_file = JobFile(text, path, base, values, places)
    _check_shape(job_file, label)
    return job_file


@contextmanager
def _sentences(label: str) -> Iterator[None]:
    """Faults of the text as Invalid, with their line."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise Invalid(
            f"{label} is not YAML:{where} {error.problem or error.context}.", "Mend that line.", str(error)
        ) from error
    except yaml.YAMLError as error:
        raise Invalid(f"{label} is not YAML: {error}.", "Save it as plain text.", str(error)) from error
    except nodes.Refused as error:
        raise Invalid(f"{label} line {error.line}: {error.fault}.", error.next_step) from error


def _check_shape(job_file: JobFile, label: str) -> None:
    """Refuse what the rest of the code could not read; every message has the line."""
    values = job_file.values
    if (kind := values.get("type", "command")) != "command":
        raise Invalid(f"{label} line {job_file.line('type')}: this is a {kind} job.", "This version runs command jobs.")
    for key in values:
        if key not in TOP_KEYS:
            near = difflib.get_close_matches(str(key), TOP_KEYS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else "Remove it."
            raise Invalid(f"{label} line {job_file.line(str(key))}: {key!r} is no key of a command job.", hint)
    if not isinstance(values.get("command"), str) or not values["command"].strip():
        raise Invalid(f"{label} has no `command`.", "Add the command line to run, as in `command: python train.py`.")
    if not values.get("environment"):
        raise Invalid(f"{label} has no `environment`.", "Add one; the local workspace ignores it, Azure needs it.")
    for key in ("inputs", "outputs", "resources", "distribution", "limits", "tags", "environment_variables"):
        if not isinstance(values.get(key) or {}, Mapping):
            raise Invalid(
                f"{label} line {job_file.line(key)}: `{key}` must hold keys and values.", "Indent them below it."
            )
    for name, value in (values.get("outputs") or {}).items():
        if value is not None and not isinstance(value, Mapping):
            raise Invalid(
                f"{label} line {job_file.line('outputs', name)}: output {name!r} must hold keys.",
                "As in `type: uri_folder`.",
            )
    for name, value in (values.get("inputs") or {}).items():
        line = job_file.line("inputs", name)
        literal = value.get("value") if isinstance(value, Mapping) and "value" in value else value
        if isinstance(literal, Mapping):
            if not literal.get("path"):
                raise Invalid(
                    f"{label} line {line}: input {name!r} has no `path`.",
                    "Give a folder or an asset, as in azureml:birds@latest.",
                )
            if unknown := set(literal) - {"type", "path", "mode", "path_on_compute", "datastore"}:
                raise Invalid(
                    f"{label} line {line}: input {name!r} has the unknown key {sorted(map(str, unknown))[0]!r}.",
                    "A job's input has type, path and mode (optional and default exist for components only).",
                )
        elif not isinstance(literal, str | int | float):
            raise Invalid(
                f"{label} line {line}: input {name!r} has no usable value.",
                "Give text, a number, true or false; quote dates.",
            )
    for path in (
        ("resources", "instance_count"),
        ("distribution", "process_count_per_instance"),
        ("limits", "timeout"),
    ):
        given = nodes.get(values, path)
        if given is None:
            continue
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _MOST_WHOLE:
            raise Invalid(
                f"{label} line {job_file.line(*path)}: {'.'.join(path)} must be a whole number from 1.",
                f"It is {given!r}.",
            )
    _check_ranks(job_file, label)


def _check_ranks(job_file: JobFile, label: str) -> None:
    ranks = job_file.nodes * (job_file.ranks_per_node if job_file.distribution else 1)
    if ranks > MOST_RANKS:
        one_a_node = ranks == job_file.nodes
        where = ("resources", "instance_count") if one_a_node else ("distribution", "process_count_per_instance")
        raise Invalid(
            f"{label} line {job_file.line(*where)}: instance_count × process_count_per_instance is {ranks}.",
            f"A job may have {MOST_RANKS} processes.",
        )
