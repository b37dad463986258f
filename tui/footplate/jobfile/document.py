"""A job file: its text, its values, and what each part of it says. It is read whatever is wrong with it; `check` judges."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from footplate.jobfile import edit, kinds, nodes
from footplate.jobfile.expressions import with_double_braces
from footplate.jobfile.layout import BREAK, Layout
from footplate.jobfile.yaml_faults import in_words
from footplate.workspace.errors import Invalid

MOST_BYTES = 1 << 20
"""Real job files have a few kilobytes; a data file that was named by mistake must not be read whole."""

BODY = ("command", "code", "environment", "environment_variables", "distribution", "resources")
"""What a command job and a component have at their top, and a sweep below `trial`."""

Changes = Mapping[str | nodes.Path, object]
"""What `edit` takes: a path, dotted or as a tuple of keys, and its new value, as `edit.splice` says."""


class Unreadable(Invalid):
    """A file that is no YAML mapping: nothing of it can be used. Line and column count from 1."""

    def __init__(
        self, label: str, at: tuple[int, int], fault: str, next_step: str, raw: str = "", code: str = "not-yaml"
    ) -> None:
        where = f" line {at[0]}, column {at[1]}:" if at != (0, 0) else ""
        super().__init__(f"{label}{where} {fault}", next_step, raw)
        self.line, self.column = max(1, at[0]), max(1, at[1])
        self.fault, self.code = fault, code


@dataclass(frozen=True)
class Input:
    """One input: a literal as the text that Azure's client sends (`True`, `1e-05`), or data with type, path and mode.

    `type` is how a literal was read (integer, number, boolean, text), or the type of the data.
    """

    name: str
    literal: str | None
    type: str
    path: str | None = None
    mode: str = ""


@dataclass(frozen=True)
class OutputSpec:
    """One named output of a job file. `asset` and `version` name what it is registered as, where the file says so."""

    name: str
    type: str = "uri_folder"
    path: str | None = None
    mode: str = "rw_mount"
    asset: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class JobFile:
    """An Azure ML file of any kind. Made by `read` or `parse`; `edit` gives a changed copy.

    Each property reads what is there and gives the default where the value is missing or has a wrong shape.
    """

    text: str
    path: Path | None
    base: Path
    values: Mapping[str, Any] = field(repr=False)
    places: Mapping[nodes.Path, nodes.Place] = field(repr=False)
    refused: Sequence[tuple[nodes.Path, nodes.Refused]] = field(default=(), repr=False)
    is_step: bool = False
    """Whether it is seen as what a step of a pipeline runs, not as a job of its own."""

    @property
    def label(self) -> str:
        """What messages call the file."""
        return self.path.name if self.path else "the job file"

    @cached_property
    def kind(self) -> str:
        """`command`, `sweep`, `pipeline`, … : a key of `kinds.TITLES`, empty for a file of no known kind."""
        return kinds.kind_of(self.values)

    @property
    def body(self) -> nodes.Path:
        """Where command, code, environment, resources and distribution stand: a sweep has them in its `trial`."""
        return ("trial",) if self.kind == "sweep" else ()

    @property
    def nodes_place(self) -> nodes.Path:
        """Where the number of nodes stands, or would stand: a sweep has it in its trial or at its top."""
        place = ("resources", "instance_count")
        return (*self.body, *place) if self.get(*self.body, *place) is not None else place

    def get(self, *path: str | int) -> Any:
        """The value at a path; None where there is none."""
        return nodes.get(self.values, path)

    def mapping(self, *path: str | int) -> Mapping[str, Any]:
        """The mapping at a path; empty where there is none."""
        return nodes.mapping(self.get(*path))

    def whole(self, *path: str | int, default: int = 1) -> int:
        """The whole number at a path, as Azure's client reads it; the default where there is none."""
        found = self.get(*path)
        try:
            return default if found is None or isinstance(found, bool) else int(found)
        except (TypeError, ValueError, OverflowError):
            return default

    def text_at(self, *path: str | int) -> str:
        """The scalar at a path as text; empty where there is none."""
        found = self.get(*path)
        return "" if found is None or isinstance(found, Mapping | list) else str(found)

    @property
    def command_as_written(self) -> str:
        """The command's text, folded as YAML folds it."""
        return self.text_at(*self.body, "command")

    @cached_property
    def command(self) -> str:
        """The command as Azure's client sends it: in a job of its own `{inputs.x}` stands for `${{inputs.x}}`."""
        alone = self.kind in ("command", "sweep") and not self.is_step
        return with_double_braces(self.command_as_written) if alone else self.command_as_written

    @cached_property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs by name, in the file's order."""
        return {name: as_input(name, value) for name, value in self.mapping("inputs").items()}

    @cached_property
    def outputs(self) -> Mapping[str, OutputSpec]:
        """The named outputs, in the file's order."""
        return {name: as_output(name, value) for name, value in self.mapping("outputs").items()}

    @property
    def compute(self) -> str:
        """The cluster's bare name; empty when the file names none."""
        return self.text_at("compute").removeprefix("azureml:")

    @property
    def name(self) -> str | None:
        """The job's name, if the file gives one."""
        return self.text_at("name") or None

    @property
    def experiment_name(self) -> str:
        """The experiment; without one the name of the file's folder, as Azure's client fills it in."""
        return self.text_at("experiment_name") or self.base.name.replace(" ", "") or "Default"

    @property
    def display_name(self) -> str:
        """The name shown; empty when the file gives none."""
        return self.text_at("display_name")

    @property
    def description(self) -> str:
        """The file's own description."""
        return self.text_at("description")

    @property
    def tags(self) -> Mapping[str, str]:
        """Tags as text."""
        return {name: str(value) for name, value in self.mapping("tags").items()}

    @property
    def environment(self) -> str:
        """The environment as one line: a reference, or `image …` for an inline one."""
        return environment_text(self.get(*self.body, "environment"))

    @property
    def environment_variables(self) -> Mapping[str, str]:
        """The job's own environment variables, as text."""
        given = self.mapping(*self.body, "environment_variables")
        return {name: "" if value is None else _variable(value) for name, value in given.items()}

    @property
    def code(self) -> Path | None:
        """The code folder, absolute; relative ones lie beside the file, wherever the command was started.

        None without one, and for code that lies elsewhere than on this machine.
        """
        given = self.text_at(*self.body, "code")
        if not given or is_remote(given):
            return None
        return real_path(self.base, given)

    @property
    def resources(self) -> Mapping[str, Any]:
        """`resources`; of a sweep the trial's, and the sweep's own for what the trial's do not say."""
        return {**self.mapping("resources"), **self.mapping(*self.body, "resources")}

    @property
    def nodes(self) -> int:
        """`resources.instance_count`, 1 without it."""
        return max(1, self.whole(*self.nodes_place))

    @property
    def distribution(self) -> str:
        """The distribution's type in lower case, empty for none."""
        return self.text_at(*self.body, "distribution", "type").lower()

    @property
    def ranks_per_node(self) -> int:
        """`distribution.process_count_per_instance`, 1 without it."""
        return max(1, self.whole(*self.body, "distribution", "process_count_per_instance"))

    @property
    def timeout_s(self) -> int | None:
        """`limits.timeout` in seconds."""
        return self.whole("limits", "timeout", default=0) or None

    def edit(self, changes: Changes) -> JobFile:
        """A copy with the values at paths (dotted, or as a tuple of keys) changed in the text.

        Raises Invalid for a path that the file has no place for, and where the result is no YAML.
        """
        try:
            after = edit.spliced(Layout(self.text, self.values, self.places, self.refused), changes)
        except KeyError as error:
            raise Invalid(
                f"{self.label} has no place for {error.args[0]!r}.",
                error.args[1] if len(error.args) > 1 else "Name a key of the file, as in inputs.num_epochs=5.",
            ) from error
        except (yaml.YAMLError, nodes.Refused) as error:
            raise unreadable(self.label, error, self.text) from error
        return JobFile(after.text, self.path, self.base, after.values, after.places, after.refused)

    def line(self, *path: str | int) -> int:
        """The line (from 1) on which the value at the path stands; 1 when it is absent."""
        place = self.places.get(path)
        return place.line if place else 1


def _variable(value: object) -> str:
    """A variable as text; a moment as Azure's client sends it."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat() + "Z"
    return str(value)


def is_remote(location: str) -> bool:
    """Whether a location is an asset, an address or a repository, not a path of this machine."""
    path = as_path(location)
    return "://" in path or path.startswith(("azureml:", "git+", "git@"))


def as_path(location: str) -> str:
    """A location without what may stand before a path, as in `file:train.yml` and `azureml:./data`."""
    if location.startswith(("azureml:./", "azureml:../")):
        return location.removeprefix("azureml:")
    return location.removeprefix("file:")


def real_path(base: Path, location: str) -> Path:
    """Where a location of this machine really lies, absolute; relative ones lie in `base`."""
    # realpath, unlike Path.resolve, raises nothing for links that lead in a circle.
    return Path(os.path.realpath(base / as_path(location)))


def environment_text(given: object) -> str:
    """An environment on one line: its reference, `image …` for an inline one with an image."""
    if isinstance(given, Mapping):
        return f"image {given['image']}" if given.get("image") else "inline environment"
    return str(given or "")


def as_input(name: str, value: Any) -> Input:
    """An input from its value in the file: a literal, `{value: literal}`, or data."""
    if isinstance(value, Mapping) and "value" in value:
        value = value["value"]
    if isinstance(value, Mapping):
        return Input(
            name,
            None,
            str(value.get("type", "uri_folder")).lower(),
            str(value.get("path") or ""),
            str(value.get("mode") or "").lower(),
        )
    read_as: dict[type, str] = {bool: "boolean", int: "integer", float: "number"}
    return Input(name, "" if value is None else str(value), read_as.get(type(value), "text"))


def as_output(name: str, value: Any) -> OutputSpec:
    """An output from its value in the file; empty stands for a folder."""
    given = nodes.mapping(value)
    said = {key: str(given[key]) for key in ("path", "version") if given.get(key) is not None}
    said |= {key: str(given[key]).lower() for key in ("type", "mode") if given.get(key) is not None}
    return OutputSpec(name, **said, asset=None if given.get("name") is None else str(given["name"]))


def read(path: Path) -> JobFile:
    """Read a file. Raises Unreadable, or Invalid where it is missing, or no file: a pipe could be waited on for ever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            what = "a folder" if path.is_dir() else "a pipe or a device"
            raise Invalid(f"The job file {path} cannot be read: it is {what}.", "Name a file.")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name that holds NUL
        reason = getattr(error, "strerror", None) or error
        raise Invalid(f"The job file {path} cannot be read: {reason}.", "Check the path.") from error
    if len(raw) > MOST_BYTES:
        raise Unreadable(
            path.name, (0, 0), f"holds more than {MOST_BYTES >> 20} MB: no job file is that large.", "Check the path.",
            code="too-large",
        )  # fmt: skip
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise Unreadable(path.name, (1, 1), "is UTF-16 text, which Azure does not read.", "Save it as UTF-8.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise Unreadable(
            path.name, (line, column), f"is not UTF-8 text (byte {error.start}).", "Save it as UTF-8."
        ) from error
    return parse(text, path, path.resolve().parent)


def parse(text: str, path: Path | None, base: Path) -> JobFile:
    """A job file from its text; relative paths lie in `base`. Raises Unreadable for what is no YAML mapping."""
    label = path.name if path else "the job file"
    try:
        composed = nodes.compose(text)
    except (yaml.YAMLError, nodes.Refused) as error:
        raise unreadable(label, error, text) from error
    if not isinstance(composed.values, Mapping):
        found = (
            "is empty"
            if composed.values is None
            else f"holds {'a list' if isinstance(composed.values, list) else 'one value'}, no keys"
        )
        place = composed.places.get(())
        at = (place.line, place.column) if place and composed.values is not None else (0, 0)
        raise Unreadable(
            label, at, f"is not a job file: it {found}.", "A command job has at least `command` and `environment`.",
            code="no-mapping",
        )  # fmt: skip
    return JobFile(text, path, base, composed.values, composed.places, composed.refused)


_NO_TAG = re.compile(r"could not determine a constructor for the tag '(?:tag:yaml.org,2002:)?(.*)'")


def unreadable(label: str, error: yaml.YAMLError | nodes.Refused, text: str = "") -> Unreadable:
    """A fault of the text as a sentence with its place."""
    if isinstance(error, nodes.Refused):
        return Unreadable(label, (error.line, error.column), f"{error.fault}.", error.next_step, code=error.code)
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        at = (before.count("\n") + 1, len(before) - before.rfind("\n"))
        character = ord(text[error.position]) if error.position < len(text) else 0
        fault = f"is not YAML: it holds the character U+{character:04X}, which no text has."
        return Unreadable(label, at, fault, "Remove it, or write it in double quotes as an escape.", str(error))
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Unreadable(label, (0, 0), f"is not YAML: {error}.", "Save it as plain text.", str(error))
    if words := in_words(error, text):
        ahead = text[: words.at]
        line = len(BREAK.findall(ahead)) + 1
        column = len(ahead) - max(ahead.rfind("\n"), ahead.rfind("\r"))
        return Unreadable(label, (line, column), f"is not YAML: {words.fault}.", words.next_step, str(error))
    problem = str(getattr(error, "problem", None) or getattr(error, "context", None))
    step = "Mend that line."
    if "'\\t'" in problem:
        problem, step = "a tab stands where only blanks may: YAML does not indent with tabs", "Put blanks in its place."
    elif "unhashable" in problem:
        step = "A value that begins with {{ needs quotes; else close the bracket."
    elif found := _NO_TAG.match(problem):
        name = found[1] if found[1].startswith("!") else f"!!{found[1]}"
        problem, step = f"the tag `{name}` is none that a job file can hold", "Remove the tag."
    return Unreadable(label, (mark.line + 1, mark.column + 1), f"is not YAML: {problem}.", step, str(error))
