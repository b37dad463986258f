"""What is wrong with text that is no YAML, in plain words: PyYAML names the rule of its grammar, and often a place far behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

_SHOWN = 40
_QUOTE = "Put the whole text in quotes."
_INDENT = "Indent it as the keys or items that it belongs to."


@dataclass(frozen=True)
class Words:
    """A fault as a clause and the next step; `at` is the offset of what has to change."""

    at: int
    fault: str
    next_step: str


@dataclass(frozen=True)
class _Fault:
    """PyYAML's fault: its text, where it was noticed, and where that began which was being read."""

    text: str
    problem: str
    context: str
    at: int
    began: int | None

    def line(self, at: int | None = None) -> str:
        """The whole line of a place."""
        at = self.at if at is None else at
        end = re.compile(r"[\r\n]|\Z").search(self.text, at)
        return self.text[self._line_start(at) : end.start() if end else None]

    def before(self) -> str:
        """What stands before the fault in its line."""
        return self.text[self._line_start(self.at) : self.at]

    def number(self, at: int) -> int:
        """The number of a place's line."""
        return len(re.findall(r"\r\n|[\r\n]", self.text[:at])) + 1

    def _line_start(self, at: int) -> int:
        return max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1


def in_words(error: yaml.YAMLError, text: str) -> Words | None:
    """What PyYAML's fault means to the reader of the file; None where its own words say it best."""
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return None
    began: Any = getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or "")
    fault = _Fault(
        text, problem, str(getattr(error, "context", None) or ""), mark.index, None if began is None else began.index
    )
    return next((words(fault) for pattern, words in _RULES if pattern.search(f"{fault.context}: {problem}")), None)


def _second_colon(fault: _Fault) -> Words:
    before = fault.before()
    key = re.match(r"\s*(?:- +)*([^:#'\"]+):(?=\s)", before)
    if key:
        return Words(
            fault.at,
            "a colon with a blank behind it stands in text without quotes, where it would make a key",
            f"{_QUOTE[:-1]}: {key[1].strip()}: '…'.",
        )
    start = fault.at - len(before.lstrip())
    above = next((line for line in reversed(fault.text[: fault.at - len(before)].splitlines()) if line.strip()), "")
    if squeezed := _no_blank(above):
        return Words(
            start, "the line above has no blank behind its colon, so it goes on here", f"Write {squeezed} there."
        )
    return Words(
        start,
        "the value above goes on in this line, as it is indented deeper, and text without quotes can hold no colon",
        "Indent it as the keys beside it, or put the whole text in quotes.",
    )


def _no_blank(line: str) -> str:
    """`b: 2` for `b:2`; empty for a line that has no such key."""
    found = re.match(r"\s*(?:- +)*([\w.$-]+):([^\s/:]\S*)", line)
    return f"{found[1]}: {found[2]}"[:_SHOWN] if found else ""


def _no_colon(fault: _Fault) -> Words:
    at = fault.at if fault.began is None else fault.began
    line = fault.line(at).strip()
    if squeezed := _no_blank(line):
        return Words(at, "no blank stands behind the colon", f"Write {squeezed}.")
    if len(line) > 1000:
        return Words(at, "a key is longer than 1,000 characters", "Use a shorter one.")
    return Words(
        at,
        f"the line {line[:_SHOWN]!r} is no `key: value`",
        "Give it a key, or indent it deeper than the key whose text it is.",
    )


def _not_here(fault: _Fault) -> Words:
    found = fault.problem.rpartition("found ")[2].strip("'")
    if found in ("<block mapping start>", "<block sequence start>"):
        return Words(fault.at, "the indentation of this line fits no line above it", _INDENT)
    if found == "-":
        return Words(
            fault.at, "an item of a list stands among keys", "Write it as `key: value`, or put it below a key."
        )
    if found in ("}", "]", ","):
        return Words(fault.at, f"the {found!r} closes nothing that was opened", f"Remove it. {_QUOTE}")
    if found == ":":
        return Words(fault.at, "no key stands before this colon", "Write a key before it.")
    ahead = fault.text[: fault.at].rstrip()
    last = ahead[-1:]
    if last in ("'", '"'):
        opening = fault.text.rfind(last, 0, len(ahead) - 1)
        if opening >= 0 and fault.number(opening) != fault.number(len(ahead) - 1):
            line = fault.number(len(ahead) - 1)
            return Words(
                opening,
                f"the quote {last} that opens here is closed by the next one, in line {line}",
                "Close it in its own line.",
            )
        return Words(
            fault.at, f"text stands behind the closing quote {last}",
            "Put the whole value in quotes of the other kind, or write it below the key after `|`.",
        )  # fmt: skip
    if last in ("}", "]"):
        return Words(fault.at, f"text stands behind the closing {last}", _QUOTE)
    return Words(fault.at, "this does not belong here", _INDENT)


def _second_document(fault: _Fault) -> Words:
    return Words(
        fault.at, "a second document begins here, and Azure reads one in a file", "Save it as a file of its own."
    )


def _behind_the_end(fault: _Fault) -> Words:
    if "<block mapping start>" in fault.problem and not re.search(r"(?m)^(?:\.\.\.|[{\[])", fault.text[: fault.at]):
        return Words(
            fault.at, "this line is indented less than the first key", "Begin all keys of the file in one column."
        )
    line = fault.line().strip()
    return Words(
        fault.at, f"more stands behind the end of the file's content: {line[:_SHOWN]!r}",
        "Remove it, or give it a key in the same form as the rest.",
    )  # fmt: skip


def _open_quote(fault: _Fault) -> Words:
    at = fault.at if fault.began is None else fault.began
    return Words(
        at, f"the quote {fault.text[at : at + 1]} that opens here is never closed", "Close it where the text ends."
    )


def _bracket(fault: _Fault) -> Words:
    wanted = re.search(r"expected ',' or '(.)'", fault.problem)
    opening = {"}": "{", "]": "["}[wanted[1]] if wanted else ""
    began = fault.at if fault.began is None else fault.began
    if fault.number(began) == fault.number(fault.at) and fault.text[fault.at : fault.at + 1] == ":":
        return Words(
            fault.at, "a colon with a blank behind it stands in text without quotes", "Put that text in quotes."
        )
    step = "A value that begins with {{ needs quotes; else close the bracket."
    if fault.number(began) == fault.number(fault.at):
        return Words(fault.at, f"a comma or the closing bracket of this {opening} is missing", step)
    return Words(
        began, f"the bracket {opening} that opens here is not closed before line {fault.number(fault.at)}", step
    )


def _no_content(fault: _Fault) -> Words:
    found = fault.problem.rpartition("found ")[2].strip("'")
    if found == "<stream end>":
        ahead = fault.text.rstrip()
        return Words(min(fault.at, len(ahead)), "the file ends inside a bracket", "Close the bracket.")
    shown = "this" if found.startswith("<") else f"the {found!r}"
    return Words(fault.at, f"{shown} stands where a value belongs", _QUOTE)


def _not_plain(fault: _Fault) -> Words:
    character = fault.text[fault.at : fault.at + 1]
    return Words(fault.at, f"text without quotes cannot begin with {character}", _QUOTE)


def _mark_of_yaml(fault: _Fault) -> Words:
    at = fault.at if fault.began is None else fault.began
    character = fault.text[at : at + 1]
    return Words(at, f"text without quotes cannot begin with {character}, which has a meaning in YAML", _QUOTE)


def _alias(fault: _Fault) -> Words:
    name = re.search(r"'(.*)'", fault.problem)
    shown = name[1] if name else ""
    step = f"Write &{shown} before it where its value stands, or put the text in quotes."
    return Words(fault.at, f"undefined alias: no anchor &{shown} stands above", step)


def _escape(fault: _Fault) -> Words:
    at = fault.text.rfind("\\", 0, fault.at + 1)
    return Words(
        at if at >= 0 else fault.at, f"{fault.text[at : at + 2]!r} is no escape, as double quotes have them",
        "Write \\\\ for a backslash, or use single quotes.",
    )  # fmt: skip


def _list_behind_key(fault: _Fault) -> Words:
    return Words(
        fault.at,
        "an item of a list stands behind its key",
        "Begin the list in the next line, or put the text in quotes.",
    )


def _block_head(fault: _Fault) -> Words:
    at = fault.at if fault.began is None else fault.began
    return Words(at, f"text stands behind {fault.text[at : at + 1]}", "Begin the text in the next line, indented.")


def _merge(fault: _Fault) -> Words:
    return Words(
        fault.at, "`<<` takes over the keys of another mapping, and this is none", "Write <<: *NAME, or keys in braces."
    )


def _anchor_twice(fault: _Fault) -> Words:
    return Words(fault.at, "the anchor stands twice", "Use another name for one of them.")


_RULES: tuple[tuple[re.Pattern[str], Callable[[_Fault], Words]], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"mapping values are not allowed", _second_colon),
        (r"could not find expected ':'", _no_colon),
        (r"expected <block end>", _not_here),
        (r"but found another document", _second_document),
        (r"expected '<document start>'", _behind_the_end),
        (r"quoted scalar: found unexpected", _open_quote),
        (r"expected ',' or '", _bracket),
        (r"expected the node content", _no_content),
        (r"found character '[^\\]' that cannot start", _not_plain),
        (r"scanning an (?:alias|anchor): expected alphabetic", _mark_of_yaml),
        (r"found undefined alias", _alias),
        (r"double-quoted scalar: (?:found unknown escape|expected escape)", _escape),
        (r"sequence entries are not allowed", _list_behind_key),
        (r"mapping keys are not allowed", _mark_of_yaml),
        (r"for merging", _merge),
        (r"scanning a block scalar: expected", _block_head),
        (r"found duplicate anchor", _anchor_twice),
        (r"parsing a tag|scanning a directive", _mark_of_yaml),
    )
)
