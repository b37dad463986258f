"""What was changed: the characters of a text that differ from the one before, and the values of a file that differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from footplate.jobfile import nodes
from footplate.jobfile.document import JobFile

Span = tuple[int, int]
"""First character of a line that changed, and the one after the last, counted from 0."""

_UNIT = re.compile(r"[^\s,:\[\]{}\"'=]+|\s+|.")
"""What a line is compared by: a value or a word is marked whole, for single letters of two numbers mean nothing."""

_MOST_COMPARED = 4_000_000
"""Pairs of lines that are compared at most; beyond them lines are paired by their order."""


@dataclass(frozen=True)
class MarkedLine:
    """One line of the new text (number from 1, text without its break) and what became of it.

    `spans` are the characters that changed; `before` the lines of the original that stood in its place. A line of state
    `removed` is no line of the new text: it stands where lines of the original are gone, and its text is empty.
    """

    number: int
    text: str
    state: Literal["same", "changed", "added", "removed"] = "same"
    spans: tuple[Span, ...] = ()
    before: tuple[str, ...] = ()


def marked(original: str, new: str) -> tuple[MarkedLine, ...]:
    """Every line of the new text, with the characters marked that differ from the original."""
    old_lines, new_lines = _lines(original), _lines(new)
    found: list[MarkedLine] = []
    for old_from, old_to, new_from, new_to in _blocks(old_lines, new_lines):
        if old_lines[old_from:old_to] == new_lines[new_from:new_to]:
            found += [MarkedLine(n + 1, new_lines[n]) for n in range(new_from, new_to)]
            continue
        before = old_lines[old_from:old_to]
        for offset, number in enumerate(range(new_from, new_to)):
            last = number == new_to - 1
            gone = tuple(before[offset:] if last else before[offset : offset + 1])
            found.append(_compared(number + 1, new_lines[number], gone))
        if new_from == new_to:
            found.append(MarkedLine(new_from + 1, "", "removed", (), tuple(before)))
    return tuple(found)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of lines, equal and different in turn; what begins and ends alike is not compared again."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if head:
        yield 0, head, 0, head
    old_to, new_to = len(old) - tail, len(new) - tail
    if (old_to - head) * (new_to - head) <= _MOST_COMPARED:
        matcher = SequenceMatcher(None, old[head:old_to], new[head:new_to])
        for _, a, b, c, d in matcher.get_opcodes():
            yield head + a, head + b, head + c, head + d
    elif old_to > head or new_to > head:
        yield head, old_to, head, new_to
    if tail:
        yield old_to, len(old), new_to, len(new)


def _compared(number: int, text: str, before: tuple[str, ...]) -> MarkedLine:
    if not before:
        return MarkedLine(number, text, "added", ((0, len(text)),) if text else ())
    if before == (text,):
        return MarkedLine(number, text)
    old, new = _UNIT.findall(before[0]), _UNIT.findall(text)
    starts = [0]
    for unit in new:
        starts.append(starts[-1] + len(unit))
    if len(old) * len(new) > _MOST_COMPARED:
        return MarkedLine(number, text, "changed", ((0, len(text)),), before)
    spans = []
    for tag, _, _, c, d in SequenceMatcher(None, old, new).get_opcodes():
        if tag == "delete":  # nothing of it is left to be marked: what stands before the gap is, or what follows it
            c, d = (c - 1, d) if c else (c, min(d + 1, len(new)))
        if tag != "equal" and d > c:
            spans.append((starts[c], starts[d]))
    return MarkedLine(number, text, "changed", tuple(spans), before)


@dataclass(frozen=True)
class Difference:
    """One value that differs: its dotted path, and what stands there in either file; None where there is none."""

    path: str
    before: str | None
    after: str | None


def differences(a: JobFile, b: JobFile) -> tuple[Difference, ...]:
    """The values that differ between two files, in the order of `a`, then what only `b` has. Comments and order do not count."""
    before, after = dict(_leaves(a.values, ())), dict(_leaves(b.values, ()))
    found = []
    for path in dict.fromkeys((*before, *after)):
        one, two = path in before, path in after
        if one and two and _same(before[path], after[path]):
            continue
        texts = (str(before[path]) if one else None, str(after[path]) if two else None)
        if texts[0] == texts[1]:  # the number 1 and the text "1"
            texts = (_as_json(before[path]), _as_json(after[path]))
        found.append(Difference(".".join(map(str, path)), *texts))
    return tuple(found)


def _leaves(value: Any, path: nodes.Path) -> Iterator[tuple[nodes.Path, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _same(one: Any, two: Any) -> bool:
    """Equal and of one type: true is no 1, and 1.0 is sent as other text than 1. NaN is the same as itself."""
    return type(one) is type(two) and (one == two or (one != one and two != two))


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
