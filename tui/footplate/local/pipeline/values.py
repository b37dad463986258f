"""The values of a pipeline's step: bindings filled in, and inputs, outputs and body of what step and component say together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from footplate.jobfile import JobFile, nodes
from footplate.jobfile.document import BODY, as_input, is_remote, real_path
from footplate.jobfile.expressions import BINDING, EXPRESSION
from footplate.jobfile.steps import without_optional
from footplate.workspace import Invalid

MARK = re.compile("\0([^\0]*)\0([^\0]*)\0")
"""Stands for the place of a step's output until all steps are known; a NUL is in no YAML file."""


def bound_to(item: Any) -> tuple[str, str]:
    """What an output is bound to, as in (`outputs`, `trained`); empty for nothing."""
    said = item if isinstance(item, str) else nodes.mapping(item).get("path")
    found = BINDING.fullmatch(str(said or "").strip())
    return (found[1], found[2]) if found else ("", "")


def with_defaults(given: Mapping[str, Any], component: JobFile) -> dict[str, Any]:
    """A pipeline component's inputs: its defaults, and what the step gives."""
    defaults = {
        name: nodes.mapping(item)["default"]
        for name, item in component.mapping("inputs").items()
        if nodes.mapping(item).get("default") is not None
    }
    return {**defaults, **given}


def absolute(value: Any, base: Path) -> Any:
    """An input whose path of this machine is absolute: the step that takes it may lie in another folder."""
    path = nodes.mapping(value).get("path")
    if not isinstance(path, str) or not path or is_remote(path) or "\0" in path or "${{" in path:
        return value
    return {**value, "path": str(real_path(base, path))}


def filled(value: Any, inputs: Mapping[str, Any], prefix: str, step: str) -> Any:
    """A step's value with `${{parent.…}}` filled in: the value itself where nothing else stands beside it, else its text.

    Raises Invalid for an input that the pipeline does not have.
    """
    if isinstance(value, Mapping):
        return {str(key): filled(item, inputs, prefix, step) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, inputs, prefix, step) for item in value]
    if not isinstance(value, str):
        return value

    def bound(match: re.Match[str]) -> Any:
        where, name = match[1], match[2]
        if where == "jobs":
            source, _, output = name.partition(".outputs.")
            return {"path": f"\0{prefix}{source}\0{output.removesuffix('.path')}\0"}
        if where == "outputs":
            return None
        found: Any = inputs
        for part in name.removesuffix(".path").split("."):  # a group of inputs is named as `group.x`
            if not isinstance(found, Mapping) or part not in found:
                raise Invalid(f"Step {step} takes `{name}`, and its pipeline has no such input.", "Mend the binding.")
            found = found[part]
        return found

    whole = BINDING.fullmatch(value.strip())
    if whole:
        return bound(whole)
    return BINDING.sub(lambda match: _text(bound(match)), value)


def _text(value: Any) -> str:
    """What a value becomes within a text: a literal as Azure's client sends it, else the place of the data."""
    given = as_input("", value)
    return given.literal if given.literal is not None else given.path or ""


def inputs_of(component: Mapping[str, Any], given: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """A step's inputs as a job's: what the step gives, else the component's default; typed as the component declares."""
    found: dict[str, Any] = {}
    declared = nodes.mapping(component.get("inputs"))
    for name, item in declared.items():
        default = nodes.mapping(item).get("default")
        if default is not None:
            found[name] = default
    for name, value in given.items():
        if value is None:
            continue
        item = nodes.mapping(value)
        if isinstance(
            item.get("path"), Mapping
        ):  # `path: ${{parent.…}}`: what it is bound to, in the step's own type and mode
            inner = item["path"]
            value = {**inner, **{key: part for key, part in item.items() if key != "path"}}
        elif "value" in item and isinstance(item["value"], Mapping):
            value = item["value"]
        if nodes.mapping(value).get("path") is not None:
            kind = nodes.mapping(declared.get(name)).get("type")
            value = {**({"type": str(kind)} if kind else {}), **absolute(value, base)}
        found[name] = value
    return found


def outputs_of(
    component: Mapping[str, Any], step: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A step's outputs as a job's; one that is the pipeline's own has the type and is registered as the pipeline says."""
    found: dict[str, Any] = {}
    declared, given = nodes.mapping(component.get("outputs")), nodes.mapping(step.get("outputs"))
    for name in (*declared, *(name for name in given if name not in declared)):
        holders = [nodes.mapping(holder.get(name)) for holder in (declared, given, own)]
        said = {key: str(item[key]) for item in holders for key in ("type", "name", "version") if item.get(key)}
        found[name] = {"type": "uri_folder", **said}
    return found


def body_of(component: Mapping[str, Any], step: Mapping[str, Any], known: set[str], swept: set[str]) -> dict[str, Any]:
    """What a step runs: what it says itself goes before what its component says; the variables of both are set."""
    body = {part: holder[part] for holder in (component, step) for part in BODY if part in holder}
    variables = [nodes.mapping(holder.get("environment_variables")) for holder in (component, step)]
    if any(variables):
        body["environment_variables"] = {**variables[0], **variables[1]}
    command = without_optional(str(body.get("command") or ""), known)
    if swept:  # a sweep's trial takes a swept value as an input of its component
        command = EXPRESSION.sub(lambda match: _swept(match, swept), command)
    body["command"] = command
    return body


def _swept(match: re.Match[str], swept: set[str]) -> str:
    space, _, name = match[1].partition(".")
    return f"${{{{search_space.{name}}}}}" if space == "inputs" and name in swept else match[0]
