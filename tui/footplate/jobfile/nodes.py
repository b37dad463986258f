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


MOST_DEEP = 100
MOST_VALUES = 100_000
"""Anchors that hold anchors can stand for more values than there is memory."""

_READ_AS = {
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "null": "nothing",
    "timestamp": "a date",
    "binary": "bytes",
    "value": "a default value",
}


class Refused(Exception):
    """YAML that no job file can hold: its line (from 1), what is wrong there, and the next step."""

    def __init__(self, line: int, fault: str, next_step: str) -> None:
        super().__init__(f"line {line}: {fault}")
        self.line, self.fault, self.next_step = line, fault, next_step


class _Loader(yaml.SafeLoader):
    """PyYAML's constructors fail in many ways on a scalar that only looks like a date or a number: each gets its line."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise Refused(
                node.start_mark.line + 1,
                f"{str(node.value)[:60]!r} looks like a YAML {kind} and is none",
                "Mend it, or put it in quotes to have it as text.",
            ) from error


def compose(text: str) -> tuple[Any, dict[Path, Place]]:
    """Values and places of one YAML document, with the scalar rules of YAML 1.1 (as Azure's SDK reads it).

    Raises yaml.YAMLError for what is not YAML, and Refused for what is and can be no job file's.
    """
    loader = _Loader(text)
    try:
        node = _node(loader)
        places: dict[Path, Place] = {}
        if node is None:
            return None, places
        for path, child in _walk(node, ()):
            places[path] = _place(child)
            if len(places) > MOST_VALUES:
                raise Refused(
                    child.start_mark.line + 1, f"the file holds more than {MOST_VALUES} values", "Use fewer anchors."
                )
        return loader.construct_document(node), places
    finally:
        loader.dispose()


def _node(loader: _Loader) -> yaml.Node | None:
    try:
        node: yaml.Node | None = loader.get_single_node()
    except RecursionError as error:
        raise _too_deep(loader.line + 1) from error
    except (ValueError, OverflowError) as error:  # an escape past Unicode's end, a version of thousands of digits
        raise Refused(loader.line + 1, f"it cannot be read: {error}", "Mend that line.") from error
    return node


def _too_deep(line: int) -> Refused:
    return Refused(
        line, f"it is nested more than {MOST_DEEP} deep, or holds itself by an anchor", "Write it out, less deep."
    )


def scalar(text: str) -> Any:
    """The value that a plain scalar of this text has in YAML 1.1; a ValueError when it is not one plain scalar.

    An anchor, a tag and a line break are YAML's own, not part of the text that was typed.
    """
    if text[:1] in ("&", "!", "*") or not text.isprintable():
        raise ValueError(f"{text!r} is not one plain scalar")
    try:
        value, places = compose(text)
    except (yaml.YAMLError, Refused) as error:
        raise ValueError(str(error)) from error
    place = places.get(())
    if place is None or place.kind != "scalar" or place.style or (place.start, place.end) != (0, len(text)):
        raise ValueError(f"{text!r} is not one plain scalar")
    return value


def _walk(node: yaml.Node, path: Path) -> Iterator[tuple[Path, yaml.Node]]:
    yield path, node
    if len(path) > MOST_DEEP:
        raise _too_deep(node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            name = _key(key)
            if name in seen and name != "<<":
                raise Refused(key.start_mark.line + 1, f"the key {name!r} stands twice", "Remove one of them.")
            seen.add(name)
            yield from _walk(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _walk(item, (*path, index))
    else:
        _check_text(node)


def _key(node: yaml.Node) -> str:
    """A key's text; only text (and YAML 1.1's merge) can be one: `on` would be the key True."""
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.ScalarNode):
        raise Refused(line, "a list or mapping stands where a key belongs", "Use a plain name as the key.")
    _check_text(node)
    name = str(node.value)
    kind = str(node.tag).rpartition(":")[2]
    if kind not in ("str", "merge"):
        raise Refused(
            line,
            f"the key {name!r} is not text: YAML 1.1 reads it as {_READ_AS.get(kind, kind)}",
            f"Put it in quotes: '{name}', or use another name.",
        )
    return name


def _check_text(node: yaml.Node) -> None:
    """Refuse what no path, command, variable or file can hold: NUL, and halves of surrogate pairs."""
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in str(node.value)):
        raise Refused(
            node.start_mark.line + 1,
            f"the text {str(node.value)[:60]!r} holds a character that no command or path can hold",
            "Remove that character.",
        )


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
