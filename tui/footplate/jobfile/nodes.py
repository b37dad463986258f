"""YAML as PyYAML's nodes: plain values, and where each stands in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]
"""A value's place in the document: `("inputs", "num_epochs")`."""


@dataclass(frozen=True)
class Place:
    """Where a value stands, behind its anchor: line and column count from 1, `start` and `end` are offsets into the text.

    `style` is PyYAML's: `'`, `"`, `|`, `>`, or empty for a plain scalar and for block collections.
    """

    line: int
    column: int
    start: int
    end: int
    style: str
    kind: str  # scalar, mapping or sequence
    key_column: int  # of the first key of a block mapping; 0 for a flow mapping or anything else
    name: tuple[int, int]  # line and column of the value's own key; the value's own place where it has none
    tag: str  # how YAML 1.1 reads it: str, int, float, bool, null, timestamp, map, seq …
    flow: bool = False  # a mapping or list in brackets
    key: tuple[int, int] | None = None  # offsets of the value's own key; an item of a list has none
    anchor: str = ""  # the name that `&name` gives it
    head: int = 0  # offset of its anchor, or of itself
    alias: tuple[int, int] | None = None  # offsets of the `*name` that stands here; start and end are then the anchor's
    shared: bool = False  # below an alias: its characters are another path's


MOST_DEEP = 100
MOST_VALUES = 20_000
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
    """YAML that no job file can hold: its line and column (from 1), what is wrong there, and the next step."""

    def __init__(self, at: tuple[int, int], fault: str, next_step: str, code: str = "not-yaml") -> None:
        super().__init__(f"line {at[0]}: {fault}")
        self.line, self.column = at
        self.fault, self.next_step, self.code = fault, next_step, code


@dataclass(frozen=True)
class Composed:
    """A document's values, where each stands, and what YAML allows and a job file does not."""

    values: Any
    places: Mapping[Path, Place]
    refused: Sequence[tuple[Path, Refused]] = ()


class _Loader(yaml.SafeLoader):
    """Remembers what PyYAML forgets as it composes: which node has an anchor, and where an alias stands."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.count = 0
        self.names: dict[int, str] = {}
        self.aliases: dict[tuple[int, int], tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """As PyYAML's; `index` is the key's node in a mapping, the position in a list."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            mark: Any = event
            self.aliases[_child(parent, index)] = (mark.start_mark.index, mark.end_mark.index)
            return super().compose_node(parent, index)
        self.count += 1
        if self.count > 2 * MOST_VALUES:  # keys count here too
            raise _too_many((event.start_mark.line + 1, event.start_mark.column + 1))
        node = super().compose_node(parent, index)
        if event.anchor:
            self.names[id(node)] = event.anchor
        return node


def _child(parent: yaml.Node | None, index: Any) -> tuple[int, int]:
    return id(parent), index if isinstance(index, int) else id(index)


def compose(text: str) -> Composed:
    """Values and places of one YAML document, with the scalar rules of YAML 1.1 (as Azure's SDK reads it).

    Raises yaml.YAMLError for what is not YAML, and Refused for what is and cannot be read on. What a job file may not hold
    and reading survives comes back as `refused`: of two equal keys the last one counts, a key that is no text is read as
    text, and so is a scalar that only looks like a date or a number.
    """
    loader = _Loader(text)
    try:
        node = _node(loader)
        places: dict[Path, Place] = {}
        refused: list[tuple[Path, Refused]] = []
        if node is None:
            return Composed(None, places)
        for found in _walk(_Found((), node), loader, refused):
            places[found.path] = _place(found, loader.names.get(id(found.node), ""), text)
            if len(places) > MOST_VALUES:
                raise _too_many(_at(found.node))
        return Composed(loader.construct_document(node), places, refused)
    finally:
        loader.dispose()


def _at(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _node(loader: _Loader) -> yaml.Node | None:
    try:
        node: yaml.Node | None = loader.get_single_node()
    except RecursionError as error:
        raise _too_deep((loader.line + 1, loader.column + 1)) from error
    except (ValueError, OverflowError) as error:  # an escape past Unicode's end, a version of thousands of digits
        raise Refused((loader.line + 1, loader.column + 1), f"it cannot be read: {error}", "Mend that line.") from error
    return node


def _too_deep(at: tuple[int, int]) -> Refused:
    return Refused(
        at,
        f"it is nested more than {MOST_DEEP} deep, or holds itself by an anchor",
        "Write it out, less deep.",
        "too-large",
    )


def _too_many(at: tuple[int, int]) -> Refused:
    return Refused(at, f"the file holds more than {MOST_VALUES} values", "Use fewer, and fewer anchors.", "too-large")


def scalar(text: str) -> Any:
    """The value that a plain scalar of this text has in YAML 1.1; a ValueError when it is not one plain scalar.

    An anchor, a tag and a line break are YAML's own, not part of the text that was typed.
    """
    if text[:1] in ("&", "!", "*") or not text.isprintable():
        raise ValueError(f"{text!r} is not one plain scalar")
    try:
        composed = compose(text)
    except (yaml.YAMLError, Refused) as error:
        raise ValueError(str(error)) from error
    place = composed.places.get(())
    whole = place is not None and place.kind == "scalar" and (place.start, place.end) == (0, len(text))
    if place is None or place.style or not whole or composed.refused:
        raise ValueError(f"{text!r} is not one plain scalar")
    return composed.values


@dataclass(frozen=True)
class _Found:
    """A node on the walk: its path, its key's node, and whether an alias stands here or above."""

    path: Path
    node: yaml.Node
    key: yaml.Node | None = None
    alias: tuple[int, int] | None = None
    shared: bool = False

    def child(self, step: str | int, node: yaml.Node, key: yaml.Node | None, loader: _Loader) -> _Found:
        alias = loader.aliases.get(_child(self.node, step if key is None else key))
        return _Found((*self.path, step), node, key, alias, self.shared or self.alias is not None)


def _walk(found: _Found, loader: _Loader, refused: list[tuple[Path, Refused]]) -> Iterator[_Found]:
    """Every node, those that an alias brings in too."""
    yield found
    node, path = found.node, found.path
    if len(path) > MOST_DEEP:
        raise _too_deep(_at(node))
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for name_node, value in node.value:
            name = _key(name_node, path, refused)
            if name in seen and name != "<<":
                fault = Refused(
                    _at(name_node), f"the key {name!r} stands twice", "Remove one of them.", "duplicate-key"
                )
                refused.append(((*path, name), fault))
            seen.add(name)
            yield from _walk(found.child(name, value, name_node, loader), loader, refused)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _walk(found.child(index, item, None, loader), loader, refused)
    else:
        _check_text(node)
        _check_scalar(node, path, loader, refused)


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MOST_DIGITS = 4000
"""Python writes no whole number of more than 4,300 digits as text."""
_MOST_BITS = 13_300


def _check_scalar(node: yaml.Node, path: Path, loader: _Loader, refused: list[tuple[Path, Refused]]) -> None:
    """Have a scalar as text that only looks like a date or a number: PyYAML's constructors fail on it in many ways."""
    if node.tag in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
        return
    fault = f"{str(node.value)[:60]!r} looks like a YAML {node.tag.rpartition(':')[2]} and is none"
    try:
        # What is longer is never made a number: in sixties, as `1:1:1:…`, that takes minutes.
        long = node.tag in _NUMBERS and len(node.value) > _MOST_DIGITS
        value = None if long else loader.construct_object(node)
        if long or (isinstance(value, int) and value.bit_length() > _MOST_BITS):
            fault = f"the number {str(node.value)[:20]}… has more than {_MOST_DIGITS:,} digits"
            raise ValueError(fault)
    except (ValueError, OverflowError, LookupError, AttributeError):
        hint = "Mend it, or put it in quotes to have it as text."
        refused.append((path, Refused(_at(node), fault, hint, "bad-scalar")))
        node.tag = "tag:yaml.org,2002:str"
        loader.constructed_objects.pop(node, None)
        loader.recursive_objects.pop(node, None)  # else PyYAML takes it for one that holds itself


def _key(node: yaml.Node, path: Path, refused: list[tuple[Path, Refused]]) -> str:
    """A key's text; only text (and YAML 1.1's merge) can be one: `on` would be the key True, and is read as text here."""
    if not isinstance(node, yaml.ScalarNode):
        braces = "A value that begins with {{ needs quotes; else use" if getattr(node, "flow_style", False) else "Use"
        step = f"{braces} a plain name as the key."
        raise Refused(_at(node), "a list or mapping stands where a key belongs", step, "bad-key")
    _check_text(node)
    name = str(node.value)
    kind = str(node.tag).rpartition(":")[2]
    if kind not in ("str", "merge"):
        fault = Refused(
            _at(node),
            f"the key {name!r} is not text: YAML 1.1 reads it as {_READ_AS.get(kind, kind)}",
            f"Put it in quotes: '{name}', or use another name.",
            "bad-key",
        )
        refused.append(((*path, name), fault))
        node.tag = "tag:yaml.org,2002:str"
    return name


def _check_text(node: yaml.Node) -> None:
    """Refuse what no path, command, variable or file can hold: NUL, and halves of surrogate pairs."""
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in str(node.value)):
        raise Refused(
            _at(node),
            f"the text {str(node.value)[:60]!r} holds a character that no command or path can hold",
            "Remove that character.",
            "bad-scalar",
        )


_AFTER_ANCHOR = re.compile(r"&[^\s,\[\]{}]*(?:[ \t\r\n]|(?<=[ \t\r\n])#[^\r\n]*)*")
_BREAK = re.compile(r"\r\n|[\n\r]")


def _last_break(text: str) -> int:
    return max(text.rfind("\n"), text.rfind("\r")) + 1


def _place(found: _Found, anchor: str, text: str) -> Place:
    node, key = found.node, found.key
    (line, column), head, end = _at(node), node.start_mark.index, node.end_mark.index
    start = head
    if anchor and text[head] == "&" and (after := _AFTER_ANCHOR.match(text, head)):
        start = min(after.end(), end)
        if start > head:
            before = text[head:start]
            breaks = len(_BREAK.findall(before))
            line += breaks
            column = column + start - head if not breaks else start - _last_break(before) - head + 1
    kind = {yaml.ScalarNode: "scalar", yaml.MappingNode: "mapping"}.get(type(node), "sequence")
    flow = kind != "scalar" and bool(getattr(node, "flow_style", False))
    key_column = 0
    if isinstance(node, yaml.MappingNode) and not flow and node.value:
        key_column = node.value[0][0].start_mark.column + 1
    return Place(
        line=line,
        column=column,
        start=start,
        end=end,
        style=(getattr(node, "style", None) or "") if kind == "scalar" else "",
        kind=kind,
        key_column=key_column,
        name=_at(key or node),
        tag=str(node.tag).rpartition(":")[2],
        flow=flow,
        key=None if key is None else (key.start_mark.index, key.end_mark.index),
        anchor=anchor,
        head=head,
        alias=found.alias,
        shared=found.shared,
    )


def mapping(value: object) -> dict[str, Any]:
    """A mapping with its keys as text; empty for anything else."""
    return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}


def texts(value: object, path: Path, *, but: str = "") -> Iterator[tuple[Path, str]]:
    """Every text at or below a path, in the file's order; what stands at keys of the name `but` is left out."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key != but:
                yield from texts(item, (*path, str(key)), but=but)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, (*path, index), but=but)


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
