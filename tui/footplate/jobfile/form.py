"""The form of a job file: a field for each value that is changed from launch to launch, and the file with what was typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import yaml

from footplate.jobfile import form_kinds, nodes
from footplate.jobfile.document import JobFile
from footplate.jobfile.edit import Typed
from footplate.jobfile.rules.scalars import surprise
from footplate.jobfile.search_space import PARAMETERS
from footplate.workspace.errors import Invalid

Kind = Literal["whole", "number", "flag", "text", "path", "asset", "cluster", "choice", "list", "long text"]

SECTIONS = ("Inputs", "Where", "Environment", "Sweep", "Limits", "Name")
"""The parts of a form, in their order."""

OFF = "off"
"""What a choice says where the file has nothing."""


@dataclass(frozen=True)
class Field:
    """One value of a form.

    `value` is as it was typed in the file, empty where the file has none; `hint` then says what happens. `read_as` is how
    YAML reads it and `surprise` why that may not be what was meant. `fixed` says what it holds that the form cannot change.
    `group` is the search space that the field is a part of.
    """

    path: nodes.Path
    label: str
    section: str
    kind: Kind = "text"
    value: str = ""
    read_as: str = ""
    surprise: str = ""
    choices: tuple[str, ...] = ()
    hint: str = ""
    fixed: str = ""
    group: str = ""

    @property
    def literal(self) -> bool:
        """Whether an empty value is a value, as of an input, and not the absence of one."""
        return self.path[0] in ("inputs", "environment_variables") or self.path[:2] == (
            "trial",
            "environment_variables",
        )


def fields(job_file: JobFile) -> tuple[Field, ...]:
    """The fields of a command, sweep or pipeline job, in the order of `SECTIONS`; none for any other kind of file."""
    if job_file.kind not in ("command", "sweep", "pipeline"):
        return ()
    made = _Maker(job_file)
    found = made.inputs()
    if job_file.kind == "pipeline":
        where = ("settings", "default_compute")
        return (*found, made.field(where, "cluster", "Where", "cluster", hint="each step's own"), *made.names())
    found += made.where() + made.environment()
    if job_file.kind == "sweep":
        found += made.sweep()
    return (*found, *made.limits(), *made.names())


def apply(job_file: JobFile, values: Mapping[nodes.Path, str]) -> JobFile:
    """The file with what was typed into fields, by their paths; what is as it was is left alone.

    Raises Invalid for a value that cannot stand in its place, and KeyError for a path that is no field.
    """
    known = {field.path: field for field in fields(job_file)}
    for path, typed in values.items():
        job_file = put(job_file, known[path], typed)
    return job_file


def put(job_file: JobFile, field: Field, typed: str) -> JobFile:
    """The file with one field changed. Raises Invalid for a value that cannot stand there."""
    typed = typed if field.literal else typed.strip()
    if typed == field.value or (field.kind == "choice" and typed == (field.value or OFF)):
        return job_file
    if field.fixed:
        raise Invalid(f"{field.label} cannot be changed in the form ({field.fixed}).", "Change it in the editor.")
    if "\n" in typed or "\r" in typed:
        raise Invalid(f"{field.label} holds a line break.", "Type it in one line.")
    if field.kind == "choice":
        return form_kinds.choose(job_file, field.path, "" if typed == OFF else typed)
    if not typed and not field.literal:
        return form_kinds.without(job_file, field.path)
    if field.kind == "list":
        return job_file.edit({field.path: _items(field, typed)})
    if field.kind == "flag":
        return job_file.edit({field.path: typed == "true"})
    # A pipeline's cluster cannot stand as its bare name; a job's stays as it was written.
    prefixed = field.path[0] == "settings" or job_file.text_at(*field.path).startswith("azureml:")
    if field.kind == "cluster" and prefixed and typed != "serverless" and not typed.startswith("azureml:"):
        typed = f"azureml:{typed}"
    return job_file.edit({field.path: typed})


def _items(field: Field, typed: str) -> list[object]:
    """The items of a list as they were typed. Raises Invalid for what is no list of text and numbers."""
    inner = typed[1:-1] if typed.startswith("[") and typed.endswith("]") else typed
    text = f"[{inner}]"
    try:
        composed = nodes.compose(text)
    except (yaml.YAMLError, nodes.Refused) as error:
        raise _no_list(field, inner) from error
    items: list[object] = []
    for index in range(len(composed.values) if isinstance(composed.values, list) else 0):
        place = composed.places[(index,)]
        if place.kind != "scalar":
            raise _no_list(field, inner)
        items.append(composed.values[index] if place.style else Typed(text[place.start : place.end]))
    if not isinstance(composed.values, list) or composed.places[()].end != len(text):
        raise _no_list(field, inner)
    return items


def _no_list(field: Field, inner: str) -> Invalid:
    return Invalid(
        f"{field.label} of {field.group or 'it'} cannot be [{inner}].", "Write values with commas, as in 4, 8, 16."
    )


def read_as(job_file: JobFile, path: nodes.Path) -> str:
    """How YAML reads the scalar at a path: `integer`, `number 1.1`, `boolean False`, `text`, `nothing`."""
    place, value = job_file.places.get(path), job_file.get(*path)
    if place is None or place.kind != "scalar":
        return ""
    if value is None:
        return "nothing"
    name = {bool: "boolean", int: "integer", float: "number", str: "text"}.get(type(value), type(value).__name__)
    source = job_file.text[place.start : place.end]
    if isinstance(value, str):
        edged = value != value.strip() and "\n" not in value
        return f'text "{value}"' if edged or not value else "text"
    return (
        name if str(value) == source or (isinstance(value, bool) and source in ("true", "false")) else f"{name} {value}"
    )


def visible(text: str) -> str:
    """A text of one line in which control characters are written out, as `\\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _Maker:
    """Makes the fields of one file."""

    def __init__(self, job_file: JobFile) -> None:
        self._file = job_file

    def field(
        self,
        path: nodes.Path,
        label: str,
        section: str,
        kind: Kind = "text",
        *,
        choices: tuple[str, ...] = (),
        hint: str = "",
        group: str = "",
    ) -> Field:
        """The field of one scalar, which need not be there."""
        value, fixed = self._value(path)
        if kind == "choice":
            value = value.lower()
        elif kind == "cluster":
            value = value.removeprefix("azureml:")
        elif "\n" in value:
            kind, fixed = "long text", f"{len(value.splitlines())} lines"
        elif kind == "flag" and not fixed:
            value = "true" if self._file.get(*path) else "false"
        return Field(
            path,
            label,
            section,
            kind,
            value,
            read_as(self._file, path),
            self._surprise(path),
            choices,
            hint,
            fixed,
            group,
        )

    def _value(self, path: nodes.Path) -> tuple[str, str]:
        """A scalar as it was typed, and why it cannot be changed here."""
        place = self._file.places.get(path)
        value = self._file.get(*path)
        if place is None:
            parent = self._file.get(*path[:-1])
            if path[:-1] in self._file.places and not isinstance(parent, Mapping) and parent is not None:
                return "", "no place for it"
            return ("" if value is None else str(value)), ""
        if place.kind != "scalar":
            return "", f"a {'list' if place.kind == 'sequence' else 'mapping'}"
        source = self._file.text[place.start : place.end]
        text = str(value) if place.style or isinstance(value, str) else "" if value is None and not source else source
        if place.tag == "null" and text in ("~", "null", "Null", "NULL"):
            text = ""
        if not text.isprintable() and "\n" not in text:
            return text, "control characters"
        return text, ""

    def _surprise(self, path: nodes.Path) -> str:
        place = self._file.places.get(path)
        if place is None or place.kind != "scalar":
            return ""
        return surprise(self._file.text[place.start : place.end], self._file.get(*path))

    # Sections

    def inputs(self) -> tuple[Field, ...]:
        """A field an input: by the type of its literal, or a path for data."""
        return tuple(self._input(name) for name in self._file.mapping("inputs"))

    def _input(self, name: str) -> Field:
        path: nodes.Path = ("inputs", name)
        given = self._file.get(*path)
        if isinstance(given, Mapping):
            if "value" in given:
                path, given = (*path, "value"), given["value"]
            elif "path" in given or "type" in given:
                location = self._file.text_at(*path, "path")
                asset = location.startswith("azureml:") and not location.startswith("azureml://")
                made = self.field((*path, "path"), name, "Inputs", "asset" if asset else "path")
                mode = self._file.text_at(*path, "mode")
                kind = self._file.text_at(*path, "type") or "uri_folder"
                return replace(made, read_as=f"{kind}, {mode}" if mode else kind)
        kinds: dict[type, Kind] = {bool: "flag", int: "whole", float: "number"}
        return self.field(path, name, "Inputs", kinds.get(type(given), "text"))

    def where(self) -> tuple[Field, ...]:
        """Cluster or serverless, nodes and processes."""
        file, body = self._file, self._file.body
        found = [self.field(("compute",), "cluster", "Where", "cluster", hint="serverless")]
        resources = (*body, "resources") if body and file.get("resources") is None else ("resources",)
        at = (*body, "resources") if file.get(*body, "resources", "instance_count") is not None else resources
        found.append(self.field((*at, "instance_count"), "nodes", "Where", "whole", hint="1"))
        distribution = (*body, "distribution")
        found.append(
            self.field((*distribution, "type"), "distribution", "Where", "choice", choices=form_kinds.DISTRIBUTIONS)
        )
        for key in form_kinds.DISTRIBUTION_KEYS.get(file.distribution, ()):
            hint = "1" if key == "process_count_per_instance" else ""
            found.append(self.field((*distribution, key), form_kinds.LABELS[key], "Where", "whole", hint=hint))
        at = (*body, "resources") if file.get(*body, "resources", "instance_type") is not None else resources
        queue = (*body, "queue_settings") if file.get(*body, "queue_settings") is not None else ("queue_settings",)
        if not file.compute or file.get(*at, "instance_type") is not None:
            found.append(self.field((*at, "instance_type"), "instance type", "Where", hint="Azure's default size"))
        if not file.compute or file.get(*queue) is not None:
            found.append(
                self.field((*queue, "job_tier"), "job tier", "Where", "choice", choices=form_kinds.TIERS, hint=OFF)
            )
        at = (*body, "resources") if file.get(*body, "resources", "shm_size") is not None else resources
        found.append(self.field((*at, "shm_size"), "shared memory", "Where", hint="2g"))
        return tuple(found)

    def environment(self) -> tuple[Field, ...]:
        """The code, the environment's reference or the parts of an inline one, and the variables."""
        at = (*self._file.body, "environment")
        inline = self._file.mapping(*at)
        if not inline:
            found = [self.field(at, "environment", "Environment")]
        else:
            known: dict[nodes.Path, tuple[str, Kind]] = {
                ("image",): ("image", "text"),
                ("conda_file",): ("conda file", "text"),
                ("build", "path"): ("build folder", "path"),
                ("build", "dockerfile_path"): ("dockerfile", "text"),
            }
            found = [
                self.field((*at, *key), label, "Environment", kind)
                for key, (label, kind) in known.items()
                if self._file.get(*at, *key) is not None
            ]
            found = found or [self.field(at, "environment", "Environment")]
        found.insert(
            0, self.field((*self._file.body, "code"), "code", "Environment", "path", hint="nothing is uploaded")
        )
        variables = (*self._file.body, "environment_variables")
        return (
            *found,
            *(self.field((*variables, name), name, "Environment") for name in self._file.mapping(*variables)),
        )

    def sweep(self) -> tuple[Field, ...]:
        """The search space, the sampling, the objective and the policy."""
        file = self._file
        found: list[Field] = []
        for name in file.mapping("search_space"):
            found += self._space(name)
        sampling: nodes.Path = ("sampling_algorithm",)
        if file.mapping("sampling_algorithm"):
            sampling = ("sampling_algorithm", "type")
        found.append(self.field(sampling, "sampling", "Sweep", "choice", choices=form_kinds.ALGORITHMS))
        for key in ("seed", "rule", "logbase"):
            if file.get("sampling_algorithm", key) is not None:
                kind: Kind = "choice" if key == "rule" else "whole" if key == "seed" else "text"
                choices = ("random", "sobol") if key == "rule" else ()
                found.append(self.field(("sampling_algorithm", key), key, "Sweep", kind, choices=choices))
        found.append(self.field(("objective", "goal"), "goal", "Sweep", "choice", choices=("maximize", "minimize")))
        found.append(
            self.field(("objective", "primary_metric"), "metric", "Sweep", hint="the name that the script logs")
        )
        policy = file.text_at("early_termination", "type").lower()
        found.append(
            self.field(("early_termination", "type"), "stop early", "Sweep", "choice", choices=form_kinds.POLICIES)
        )
        for key in form_kinds.POLICY_KEYS.get(policy, ()):
            kind = "number" if key.startswith("slack") else "whole"
            found.append(self.field(("early_termination", key), form_kinds.LABELS[key], "Sweep", kind))
        return tuple(found)

    def _space(self, name: str) -> list[Field]:
        at: nodes.Path = ("search_space", name)
        given = self._file.mapping(*at)
        kind = self._file.text_at(*at, "type").lower()
        made = [self.field((*at, "type"), name, "Sweep", "choice", choices=tuple(PARAMETERS), group=name)]
        every = dict.fromkeys(key for keys in PARAMETERS.values() for key in keys)
        keys = (
            *PARAMETERS.get(kind, ()),
            *(key for key in every if key in given and key not in PARAMETERS.get(kind, ())),
        )
        for key in keys:
            if key == "values":
                made.append(self._list((*at, key), "values", name))
            else:
                wanted: Kind = "whole" if key == "upper" else "number"
                made.append(self.field((*at, key), form_kinds.LABELS[key], "Sweep", wanted, group=name))
        return made

    def _list(self, path: nodes.Path, label: str, group: str) -> Field:
        """A list of scalars as one line; one that holds more than scalars is left to the editor."""
        given = self._file.get(*path)
        if given is None or not isinstance(given, list):
            return self.field(path, label, "Sweep", "list", group=group)
        items, fixed = [], ""
        for index in range(len(given)):
            place = self._file.places[(*path, index)]
            source = self._file.text[place.start : place.end].strip()
            if place.kind != "scalar":
                fixed = "nested spaces"
            items.append("{…}" if place.kind != "scalar" else re.sub(r"\s+", " ", source))
        hint = "values with commas, as in 4, 8, 16"
        return Field(path, label, "Sweep", "list", ", ".join(items), "", "", (), hint, fixed, group)

    def limits(self) -> tuple[Field, ...]:
        """How long and how often."""
        keys = ("timeout",)
        if self._file.kind == "sweep":
            keys = ("max_total_trials", "max_concurrent_trials", "timeout", "trial_timeout")  # type: ignore[assignment]
        hints = {"max_concurrent_trials": "all at once", "max_total_trials": ""}
        return tuple(
            self.field(("limits", key), form_kinds.LABELS[key], "Limits", "whole", hint=hints.get(key, "no limit"))
            for key in keys
        )

    def names(self) -> tuple[Field, ...]:
        """What the job is called."""
        file = self._file
        return (
            self.field(("name",), "job name", "Name", hint="made up"),
            self.field(("display_name",), "display name", "Name", hint="as the job's name"),
            self.field(("experiment_name",), "experiment", "Name", hint=file.experiment_name),
        )
