"""Change values of a job file by splicing its text, so that comments, order and quoting stay byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from footplate.jobfile import nodes

_STEP = re.compile(r"[^.]+")


def splice(text: str, changes: Mapping[str, object]) -> str:
    """The text with the values at the dotted paths replaced; a missing last key is added to its mapping.

    A string is taken as it would be typed: it stays a plain scalar where YAML reads it back whole, else it is quoted.
    Raises KeyError with the path when its parent is not a mapping of the file.
    """
    for dotted, value in changes.items():
        text = _replace(text, tuple(_STEP.findall(dotted)), value)
    return text


def _replace(text: str, path: nodes.Path, value: object) -> str:
    values, places = nodes.compose(text)
    place = places.get(path)
    if place is None:
        return _add(text, values, places, path, value)
    if place.kind != "scalar":
        raise KeyError(".".join(map(str, path)), "It holds keys or a list: name one of its keys, as in tags.owner=me.")
    written = _written(value, place.style)
    if place.style in ("|", ">"):
        # A block scalar ends with its line break, which the quoted form must give back.
        tail = text[place.start : place.end]
        newline = "\r\n" if "\r\n" in tail else "\n"
        return text[: place.start] + written + newline * tail.endswith("\n") + text[place.end :]
    return text[: place.start] + _spaced(text, place.start, written) + text[place.end :]


def _add(text: str, values: object, places: Mapping[nodes.Path, nodes.Place], path: nodes.Path, value: object) -> str:
    parent = places.get(path[:-1])
    if parent is None and len(path) > 1:
        # The parent is missing too: write it as a flow mapping, which nests without knowing the indentation.
        inner = f"{{{_key(path[-1])}: {_written(value, '')}}}"
        return _add_raw(text, places, path[:-1], inner)
    if parent is None or parent.kind != "mapping":
        raise KeyError(".".join(map(str, path)))
    return _add_raw(text, places, path, _written(value, ""))


def _add_raw(text: str, places: Mapping[nodes.Path, nodes.Place], path: nodes.Path, written: str) -> str:
    parent = places.get(path[:-1])
    if parent is None or parent.kind != "mapping":
        raise KeyError(".".join(map(str, path)))
    if not parent.key_column:
        inside = text[parent.start + 1 : parent.end - 1].rstrip()
        comma = ", " if inside.strip() and not inside.endswith(",") else ""
        return text[: parent.start + 1] + inside + f"{comma}{_key(path[-1])}: {written}" + text[parent.end - 1 :]
    # After the last line that holds a value of the parent; what follows (comments, blank lines) stays where it is.
    last = max(_content_end(text, p) for q, p in places.items() if q[: len(path) - 1] == path[:-1] and q != path[:-1])
    newline = "\r\n" if "\r\n" in text else "\n"
    end = text.find("\n", last)
    line = f"{' ' * (parent.key_column - 1)}{_key(path[-1])}: {written}"
    if end == -1:
        return f"{text}{newline}{line}{newline}"
    return f"{text[: end + 1]}{line}{newline}{text[end + 1 :]}"


def _content_end(text: str, place: nodes.Place) -> int:
    """Offset of the last character that belongs to a value; a block scalar's and a block mapping's end lies beyond."""
    return place.start + max(0, len(text[place.start : place.end].rstrip()) - 1)


def _key(name: str | int) -> str:
    """A key as it is written: plain where it is one word, else quoted."""
    return str(name) if re.fullmatch(r"[A-Za-z_$][\w$-]*", str(name)) else json.dumps(str(name), ensure_ascii=False)


def _spaced(text: str, start: int, written: str) -> str:
    """An empty value (`key:`) has no blank before it; a written one needs it."""
    return written if start == 0 or text[start - 1] in " \t\n[{," else f" {written}"


def _written(value: object, style: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    string = str(value)
    if style == "'" and "'" not in string and string.isprintable():
        return f"'{string}'"
    if not style or style in "|>":
        try:
            if string and not {",", "[", "]", "{", "}"} & set(string) and nodes.scalar(string) is not None:
                return string
        except ValueError:
            return json.dumps(string, ensure_ascii=False)
    return json.dumps(string, ensure_ascii=False)
