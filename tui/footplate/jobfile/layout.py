"""How a YAML text is laid out: where each value's content, line, key and enclosing block begin and end."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from footplate.jobfile import nodes, writing

BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
"""What YAML 1.1 takes as the end of a line."""

_PROPERTY = re.compile(r"[&!][^\s,\[\]{}]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|(?<=[ \t\r\n])#[^\r\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_COLON = re.compile(r"[ \t]*:")
_HEADER = re.compile(r"[|>][-+0-9]*")


@dataclass(frozen=True)
class Layout:
    """A text with its values and their places. Offsets count characters; columns count from 0."""

    text: str
    values: Any
    places: Mapping[nodes.Path, nodes.Place]
    refused: Sequence[tuple[nodes.Path, nodes.Refused]] = ()

    @classmethod
    def of(cls, text: str) -> Layout:
        """The layout of a text. Raises yaml.YAMLError or nodes.Refused as `nodes.compose`."""
        composed = nodes.compose(text)
        return cls(text, composed.values, composed.places, composed.refused)

    @cached_property
    def newline(self) -> str:
        """The text's own line break."""
        found = re.search(r"\r\n|\n|\r", self.text)
        return found[0] if found else "\n"

    @cached_property
    def step(self) -> int:
        """By how many blanks the text indents a mapping below its key; 2 where it has none."""
        for path, place in self.places.items():
            above = self.places.get(path[:-1])
            if path and place.key_column and above and above.key_column and place.key_column > above.key_column:
                return place.key_column - above.key_column
        return 2

    @cached_property
    def children(self) -> Mapping[nodes.Path, list[nodes.Path]]:
        """The paths right below each path, in the order of the text."""
        found: dict[nodes.Path, list[nodes.Path]] = {}
        for path in self.places:
            if path:
                found.setdefault(path[:-1], []).append(path)
        for paths in found.values():
            paths.sort(key=self.begin)
        return found

    def in_brackets(self, path: nodes.Path) -> bool:
        """Whether a mapping or list in brackets lies round the path's value."""
        return any(self.places[path[:n]].flow for n in range(len(path)) if path[:n] in self.places)

    # Lines

    def line_start(self, offset: int) -> int:
        """The start of the line that holds the offset."""
        return max((self.text.rfind(c, 0, offset) + 1 for c in "\n\r\x85\u2028\u2029"), default=0)

    def line_end(self, offset: int) -> int:
        """The end of the line that holds the offset, its break included."""
        found = BREAK.search(self.text, offset)
        return found.end() if found else len(self.text)

    def with_lines(self, offset: int, lines: str) -> str:
        """The text with whole lines put in at the start of a line; a missing final line break stays missing."""
        before = self.text[:offset]
        if len(before) > self.head and not BREAK.search(before[-1:]):
            return f"{before}{self.newline}{lines.removesuffix(self.newline)}"
        return f"{before}{lines}{self.text[offset:]}"

    @property
    def head(self) -> int:
        """Where the text begins: behind a byte-order mark."""
        return int(self.text.startswith("\ufeff"))

    @property
    def ends_with_break(self) -> bool:
        """Whether the last line has its line break."""
        return bool(BREAK.search(self.text[-1:]))

    # One value

    def begin(self, path: nodes.Path) -> int:
        """Where the entry begins: its key, or the item itself."""
        place = self.places[path]
        return place.key[0] if place.key else (place.alias or (place.head, 0))[0]

    def content(self, path: nodes.Path) -> int:
        """Where the value itself begins, behind its anchor and tag."""
        place = self.places[path]
        offset, end = place.start, max(place.start, place.end)
        while offset < end and (found := _PROPERTY.match(self.text, offset)):
            space = _BLANK.match(self.text, found.end())
            offset = min(space.end() if space else found.end(), end)
        return offset

    def anchor(self, path: nodes.Path) -> tuple[int, int] | None:
        """Where `&name` stands, with the blanks that go when it goes."""
        place = self.places[path]
        if not place.anchor or place.alias or place.shared:
            return None
        offset = place.head
        while found := _PROPERTY.match(self.text, offset):
            start, end = found.span()
            if self.text[start] == "&":
                after = _SPACE.match(self.text, end)
                last = after.end() if after else end
                if last < len(self.text) and self.text[last] not in "\r\n":
                    return start, last
                return len(self.text[:start].rstrip(" \t")), end
            space = _BLANK.match(self.text, end)
            offset = space.end() if space else end
        return None

    def kept(self, path: nodes.Path) -> str:
        """The anchor of a value, to be written before the value that takes its place."""
        span = self.anchor(path)
        return f"&{self.places[path].anchor} " if span else ""

    def end(self, path: nodes.Path) -> int:
        """Where the last character of a value ends; a block's own end, as PyYAML has it, lies beyond."""
        place = self.places[path]
        if place.alias:
            return place.alias[1]
        if place.kind == "scalar" and place.style in ("|", ">"):
            end = self.block_end(path)
            found = re.search(r"(?:\r\n|\n|\r)\Z", self.text[:end])
            return found.start() if found else end
        if place.kind == "scalar" or place.flow:
            return max(place.end, self.behind_key(path)) if place.end == place.start else place.end
        return max((self.end(child) for child in self.children.get(path, ())), default=place.end)

    def behind_key(self, path: nodes.Path) -> int:
        """Right behind the colon of a value's key, or the key where it has no colon; an item's own start."""
        place = self.places[path]
        if not place.key:
            return place.head
        colon = _COLON.match(self.text, place.key[1])
        return colon.end() if colon else place.key[1]

    def colonless(self, path: nodes.Path) -> bool:
        """Whether the key stands alone in its brackets, as `b` in `{a: 1, b}`."""
        key = self.places[path].key
        return key is not None and not _COLON.match(self.text, key[1])

    def header(self, path: nodes.Path) -> int:
        """The end of a block scalar's `|-`."""
        found = _HEADER.match(self.text, self.content(path))
        return found.end() if found else self.content(path)

    def block_end(self, path: nodes.Path) -> int:
        """The end of the last line of a block scalar; blank lines below count only where the text keeps them (`|+`)."""
        place = self.places[path]
        if "+" in self.text[self.content(path) : self.header(path)]:
            return place.end
        body = self.text[: place.end]
        return min(place.end, self.line_end(max(self.header(path), len(body.rstrip(" \t\r\n")))))

    def column(self, path: nodes.Path) -> int:
        """The column of a block's keys or dashes."""
        start = self.content(path)
        line = self.text[self.line_start(start) : start]
        return len(line.replace("\ufeff", ""))

    def written(self, path: nodes.Path) -> str:
        """A value on one line, for use in another place: scalars as they stand in the text where they may."""
        return self._written(path, nodes.get(self.values, path))

    def _written(self, path: nodes.Path, value: Any) -> str:
        if isinstance(value, Mapping):
            inner = (f"{writing.key(str(k))}: {self._written((*path, k), v)}" for k, v in value.items())
            return f"{{{', '.join(inner)}}}"
        if isinstance(value, list):
            return f"[{', '.join(self._written((*path, n), v) for n, v in enumerate(value))}]"
        place = self.places.get(path)
        if place is not None and place.kind == "scalar" and place.style not in ("|", ">"):
            source = self.text[place.start : place.end]
            try:
                if not place.style and same(writing.plain(source, True), value):
                    return source
            except ValueError:
                pass  # it cannot stand in brackets as it is
        return writing.collection(value)


def same(one: Any, other: Any) -> bool:
    """Whether two documents have the same values: 1, 1.0 and True differ, and not-a-number is itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)
