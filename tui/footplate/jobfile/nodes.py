"""YAML as PyYAML's nodes: plain values, and where each stands in the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]
"""A value's place in the document: `("inputs", "num_epochs")`."""


@dataclass(frozen=True)
class Place:
    """Where a value stands: line and column count from 1, `start` and `end` are offsets into the text.

    `style` is PyYAML's: `'`, `"`, `|`, `>`, or empty for a plain scalar and for block collections.
    """

    line: int
    column: int
    start: int
    end: int
    style: str
    kind: str  # scalar, mapping or sequence
    key_column: int  # of the first key of a block mapping; 0 for a flow mapping or anything else


class DuplicateKey(Exception):
    """A key stands twice in one mapping."""

    def __init__(self, key: str, line: int, column: int) -> None:
        super().__init__(f"the key {key!r} stands twice")
        self.key, self.line, self.column = key, line, column


def compose(text: str) -> tuple[Any, dict[Path, Place]]:
    """Values and places of one YAML document, with the scalar rules of YAML 1.1 (as Azure's SDK reads it).

    Raises yaml.YAMLError for what is not YAML, and DuplicateKey.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        places: dict[Path, Place] = {}
        if node is None:
            return None, places
        for path, child in _walk(node, ()):
            places[path] = _place(child)
        return loader.construct_document(node), places
    finally:
        loader.dispose()


def scalar(text: str) -> Any:
    """The value that a plain scalar of this text has in YAML 1.1; a ValueError when it is not one plain scalar."""
    try:
        value, places = compose(text)
    except (yaml.YAMLError, DuplicateKey) as error:
        raise ValueError(str(error)) from error
    place = places.get(())
    if place is None or place.kind != "scalar" or place.style or (place.start, place.end) != (0, len(text)):
        raise ValueError(f"{text!r} is not one plain scalar")
    return value


def _walk(node: yaml.Node, path: Path) -> Iterator[tuple[Path, yaml.Node]]:
    yield path, node
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                raise DuplicateKey(name, key.start_mark.line + 1, key.start_mark.column + 1)
            seen.add(name)
            yield from _walk(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _walk(item, (*path, index))


def _place(node: yaml.Node) -> Place:
    kind = {yaml.ScalarNode: "scalar", yaml.MappingNode: "mapping"}.get(type(node), "sequence")
    key_column = 0
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        key_column = node.value[0][0].start_mark.column + 1
    return Place(
        line=node.start_mark.line + 1,
        column=node.start_mark.column + 1,
        start=node.start_mark.index,
        end=node.end_mark.index,
        style=(getattr(node, "style", None) or "") if kind == "scalar" else "",
        kind=kind,
        key_column=key_column,
    )


def get(values: Any, path: Path) -> Any:
    """The value at a path, or None."""
    for step in path:
        if isinstance(values, Mapping):
            values = values.get(step)
        elif isinstance(values, list) and isinstance(step, int) and step < len(values):
            values = values[step]
        else:
            return None
    return values
