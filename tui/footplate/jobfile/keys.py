"""Keys of a job file as people type them (`inputs.lr`, `search_space.bs.values`): to their place in the document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from footplate.jobfile import kinds, nodes, schema
from footplate.jobfile.document import JobFile
from footplate.jobfile.faults import known_names, nearest
from footplate.jobfile.shapes import By, Either, Items, Keys, Shape, Table, Text
from footplate.jobfile.writing import Exact
from footplate.workspace.errors import Invalid

_NAMED = ("inputs", "search_space", "jobs")
"""Sections whose entries a command or a step names: one that is not there is a misspelling, not a new one."""


def place_of_key(job_file: JobFile, key: str, value: object) -> tuple[nodes.Path, object]:
    """The place that a dotted key names, and the value for it; for a data input the place of its path.

    Text becomes a list or a mapping, read as YAML, where one belongs there: `[4, 8]`. Raises Invalid for a key that the
    kind of file does not have, with the nearest that it has.
    """
    steps = [step for step in key.split(".") if step]
    shape: Shape | None = schema.SHAPES.get(job_file.kind)
    place: nodes.Path = ()
    for number, step in enumerate(steps):
        shape = _inside(job_file, shape, place, step, key, steps[number:])
        place = (*place, _step(job_file, place, step))
    if not steps:
        raise Invalid(f"{key!r} names nothing in a job file.", "As in inputs.num_epochs.")
    given = job_file.get(*place)
    if isinstance(value, str) and value[:1] in ("[", "{") and _holds_more(shape, given):
        return place, _flow(key, value)
    if len(place) == 2 and place[0] == "inputs" and isinstance(given, Mapping):
        return (*place, "value" if "value" in given else "path"), value
    if isinstance(value, str) and isinstance(given, list):
        raise Invalid(f"{key} of {job_file.label} is a list.", f"Write it in brackets, as in {key}=[{value}].")
    text = shape.scalar if isinstance(shape, Either) else shape
    # Where only text may stand, `yes` and `12` are words: YAML would make them a boolean and a number.
    return place, Exact(value) if isinstance(text, Text) and isinstance(value, str) else value


def _step(job_file: JobFile, place: nodes.Path, step: str) -> str | int:
    return int(step) if step.isdecimal() and isinstance(job_file.get(*place), list) else step


def _inside(
    job_file: JobFile, shape: Shape | None, place: nodes.Path, step: str, key: str, rest: list[str]
) -> Shape | None:
    """The shape of what stands below a step; None where nothing is known of it."""
    present = job_file.mapping(*place)
    if len(place) == 1 and place[0] in _NAMED and step not in present:
        section = str(place[0])
        one = {"inputs": "input", "jobs": "step"}.get(section, "search space")
        near = nearest(step, present)
        hint = f"Did you mean {'.'.join([section, near, *rest[1:]])}?" if near else f"It has: {known_names(present)}."
        raise Invalid(f"{job_file.label} has no {one} {step!r}.", hint)
    if isinstance(shape, Either):
        shape = shape.sequence if step.isdecimal() and shape.sequence is not None else shape.mapping or shape.scalar
    if isinstance(shape, By):
        chosen = shape.shapes.get(str(present.get(shape.key, shape.default)).lower())
        shape = chosen or Keys(
            shape.title, {k: s for one in shape.shapes.values() if isinstance(one, Keys) for k, s in one.keys.items()}
        )
    if isinstance(shape, Keys):
        if step in shape.keys:
            return shape.keys[step]
        raise Invalid(*_unknown(job_file, shape, place, step, key, rest))
    if isinstance(shape, Table):
        return shape.value
    if isinstance(shape, Items) and step.isdecimal():
        return shape.item
    return None


def _unknown(
    job_file: JobFile, shape: Keys, place: nodes.Path, step: str, key: str, rest: list[str]
) -> tuple[str, str]:
    """What is wrong with a key that is not known, and what was probably meant."""
    kind = kinds.TITLES[job_file.kind]
    sentence = f"{key!r} names nothing in {kind if not place else f'{shape.title} of {kind}'}."
    if not place:
        for section in _NAMED:
            if step in job_file.mapping(section):
                return sentence, f"Did you mean {section}.{key}?"
        trial = schema.SHAPES["sweep"]
        if job_file.kind == "sweep" and isinstance(trial, Keys) and step in _keys(trial.keys.get("trial")):
            return sentence, f"Did you mean trial.{key}?"
    near = nearest(step, shape.keys) or next((known for known in shape.keys if known.startswith(step)), "")
    if near:
        return sentence, f"Did you mean {'.'.join([*map(str, place), near, *rest[1:]])}?"
    if not place and (found := nearest(key, _dotted(job_file))):
        return sentence, f"Did you mean {found}?"
    return sentence, f"Known: {known_names((known for known in shape.keys if known[0] != '$'), 30)}."


def _keys(shape: Shape | None) -> Iterable[str]:
    return shape.keys if isinstance(shape, Keys) else ()


def _dotted(job_file: JobFile) -> list[str]:
    """The inputs and search spaces with their sections."""
    return [f"{section}.{name}" for section in _NAMED for name in job_file.mapping(section)]


def _holds_more(shape: Shape | None, given: object) -> bool:
    """Whether a list or keys belong at a place."""
    if isinstance(given, list | Mapping):
        return True
    if isinstance(shape, Either):
        return shape.mapping is not None or shape.sequence is not None
    return isinstance(shape, Keys | By | Table | Items)


def _flow(key: str, text: str) -> Any:
    try:
        return nodes.compose(text).values
    except nodes.Refused as error:
        raise Invalid(f"The value of {key}: {error.fault}.", error.next_step) from error
    except yaml.YAMLError as error:
        raise Invalid(f"The value of {key} is no list: {text!r}.", "Write it as [4, 8].", str(error)) from error
