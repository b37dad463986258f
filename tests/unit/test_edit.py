"""Edits of any job file, in any layout: the value reads back as it was typed, and nothing else moves."""

from __future__ import annotations

import copy
import difflib
import math
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from footplate.jobfile import nodes
from footplate.jobfile.document import Unreadable, parse, read
from footplate.jobfile.edit import REMOVE, Exact, Typed, splice
from footplate.workspace import Invalid

SHARED = Path(__file__).resolve().parents[3] / "shared"

STEADY = settings(
    derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck), max_examples=100
)
"""The same examples each time, however slow the machine: what fails here fails everywhere."""

# Documents in many layouts

KEYS = ["a", "bb", "lr", "$schema", '"sp ace"', "'on'", "x.y", "名", "'it''s'", "k-1"]
PLAIN = [
    *("1", "-3", "0.5", "1.0e-3", "1e-3", "007", "0x1F", "1_000", "12:30", "yes", "Off", "null", "~", ".inf", ".nan"),
    *("word", "two words", "a:b", "azureml:env@latest", "${{inputs.x}}", "a#b", "C:\\x", "2026-01-01", "ä 名", "-x"),
]
QUOTED = ["'text'", "''", "'it''s'", '"text"', '""', '"a\\nb"', '"\\u00e9\\t"', "'# no comment'", '"[1, 2]"', "'5'"]
LINES = ["one", "two  words", "  deeper", "", "# no comment", "key: value", "${{inputs.x}} \\", "tab\there"]
COMMENTS = ["", "", "", "  # why: [a, b] {c}", " #", "  #\ttab\t"]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A YAML mapping, nested up to three deep, each part written in one of the ways that YAML has."""
    indent = draw(st.sampled_from([2, 2, 3, 4]))
    anchors: list[str] = []
    merged: list[str] = []

    def comment() -> str:
        return draw(st.sampled_from(COMMENTS))

    def extra(column: int) -> list[str]:
        return draw(st.sampled_from([[], [], [], [""], [" " * column + "# above"], ["", "# at the left"]]))

    def scalar() -> str:
        return draw(st.sampled_from(PLAIN + QUOTED))

    def anchor() -> str:
        if draw(st.integers(0, 5)):
            return ""
        anchors.append(f"n{len(anchors)}")
        return f"&{anchors[-1]} "

    def alias() -> str:
        return f"*{draw(st.sampled_from(anchors))}" if anchors and not draw(st.integers(0, 3)) else ""

    def brackets(depth: int) -> str:
        if depth == 0 or draw(st.booleans()):
            found = alias()
            if found:
                return found
            name = anchor()
            text = scalar()
            return f"{name}{text}" if not set(text) & set(",[]{}#") or text[0] in "'\"" else f"{name}'{text}'"
        space, last = draw(st.sampled_from(["", " "])), draw(st.sampled_from(["", "", ","]))
        if draw(st.booleans()):
            names = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
            parts = [f"{name}: {brackets(depth - 1)} " for name in names]
            return f"{{{space}{', '.join(parts)}{last if parts else ''}{space}}}"
        parts = [f"{brackets(depth - 1)} " for _ in range(draw(st.integers(0, 3)))]
        return f"[{space}{', '.join(parts)}{last if parts else ''}{space}]"

    def block_text(column: int) -> tuple[str, list[str]]:
        head = draw(st.sampled_from(["|", ">", "|-", ">-", "|+", ">+"]))
        lines = ["first", *draw(st.lists(st.sampled_from(LINES), max_size=4))]
        return head + comment(), [" " * column + line if line else "" for line in lines]

    def spread(column: int) -> tuple[str, list[str]]:
        """Brackets over several lines."""
        pad = " " * column
        names = draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=3))
        lines = [f"{pad}{name}: {scalar()} ,{comment()}" for name in names[:-1]]
        return "{" + comment(), [*lines, f"{pad}{names[-1]}: {scalar()}{comment()}", f"{pad}}}"]

    def value(column: int, depth: int) -> tuple[str, list[str]]:
        """What stands behind the colon or dash, and the lines below."""
        kind = draw(st.sampled_from(["scalar", "scalar", "flow", "empty", "block", "spread", "map", "list", "long"]))
        found = alias()
        if found:
            return found + comment(), []
        if kind == "flow":
            return anchor() + brackets(2) + comment(), []
        if kind == "empty":
            return comment(), []
        if kind == "block":
            return block_text(column)
        if kind == "spread":
            return spread(column)
        if kind == "long":
            return "some words", [" " * column + "and more" + comment()]
        if kind == "map" and depth:
            name = anchor().strip()
            lines = mapping(column, depth - 1)
            merged.extend([name[1:]] if name else [])
            return name + comment(), lines
        if kind == "list" and depth:
            name = anchor().strip()
            return name + comment(), items(column - draw(st.sampled_from([0, indent])), depth - 1)
        return anchor() + scalar() + comment(), []

    def mapping(column: int, depth: int) -> list[str]:
        lines = []
        if merged and draw(st.booleans()):
            lines.append(f"{' ' * column}<<: *{draw(st.sampled_from(merged))}{comment()}")
        for name in draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=4)):
            behind, below = value(column + indent, depth)
            blank = " " if behind and not behind.startswith((" ", "\t")) else ""
            lines += [*extra(column), f"{' ' * column}{name}:{blank}{behind}", *below]
        return lines

    def items(column: int, depth: int) -> list[str]:
        lines = []
        for _ in range(draw(st.integers(1, 3))):
            if depth and draw(st.booleans()):
                first, *rest = [line for line in mapping(column + 2, depth - 1)]
                assume(first.strip() and not first.lstrip().startswith("#"))
                lines += [f"{' ' * column}- {first.strip()}", *rest]
            else:
                behind, below = value(column + indent, 0)
                blank = " " if behind and not behind.startswith((" ", "\t")) else ""
                lines += [f"{' ' * column}-{blank}{behind}", *below]
        return lines

    lines = [*draw(st.sampled_from([[], [], ["# head", ""], ["---"], ["%YAML 1.1", "---"]])), *mapping(0, 3)]
    lines += draw(st.sampled_from([[], [], ["# end"], ["", "# end", ""], ["..."]]))
    text = "\n".join(lines) + draw(st.sampled_from(["\n", "\n", "", "\n\n"]))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))
    text = draw(st.sampled_from(["", "", "\ufeff"])) + text
    try:
        assume(isinstance(nodes.compose(text).values, dict))
    except (yaml.YAMLError, nodes.Refused):
        assume(False)
    return text


TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "x", "no", "1e-3", "5", "a: b", "a #b", "- x", "it's", "two\nlines", "\n", "a\n\n", " lead\nx\n"]
    ),
    st.sampled_from(
        ["null", "~", "*a", "&a b", "!!int 5", "{a}", "[1, 2]", "a, b", "---", "...", "%x", "? x", "<<", "=", "\t"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    st.text("ab \n#:'\"-", max_size=20),
)
NUMBERS = st.one_of(st.integers(-(10**20), 10**20), st.floats(), st.booleans(), st.none())
COLLECTIONS = st.recursive(
    TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: isinstance(value, list | dict))
VALUES = st.one_of(TEXTS.map(Exact), NUMBERS, COLLECTIONS)


def at(values, path):
    for step in path:
        values = values[step]
    return values


def changed(values, path, value):
    """The values with one set (at the end of a list: added); written anew here, to judge the code by."""
    values = copy.deepcopy(unshared(values))
    holder = at(values, path[:-1])
    if isinstance(holder, list) and path[-1] == len(holder):
        holder.append(value)
    elif value is REMOVE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return values


def unshared(values):
    """A copy in which no two places are one object, as aliases make them."""
    if isinstance(values, dict):
        return {key: unshared(value) for key, value in values.items()}
    return [unshared(value) for value in values] if isinstance(values, list) else values


def equal(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def meant(value):
    return value.text if isinstance(value, Exact) else value


def values_of(text):
    return nodes.compose(text).values


def paths_of(text, *kinds):
    places = nodes.compose(text).places
    return [path for path, place in places.items() if path and "<<" not in path and (not kinds or place.kind in kinds)]


def lines_lost(before: str, after: str) -> list[str]:
    """The lines that do not stand as they stood, in their order."""
    diff = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line[2:] for line in diff if line.startswith("- ")]


@STEADY
@given(documents(), st.data())
def test_any_value_replaced_by_any_other_reads_back_and_nothing_else_moves(text, data):
    path = data.draw(st.sampled_from(paths_of(text)))
    value = data.draw(VALUES)
    note(f"{text}\n{path} = {value!r}")
    after = splice(text, {path: value})
    note(after)
    assert equal(values_of(after), changed(values_of(text), path, meant(value)))
    place = nodes.compose(text).places[path]
    if "&" not in text:  # an anchor that others use moves to the first of them
        block = place.kind != "scalar" and not place.flow and place.key
        assert after.startswith(text[: place.key[1] if block else place.start])
        assert after.endswith(text[place.end :])


@STEADY
@given(documents(), st.data(), TEXTS)
def test_a_string_stays_as_it_was_typed(text, data, typed):
    scalars = paths_of(text, "scalar")
    assume(scalars)
    path = data.draw(st.sampled_from(scalars))
    style = nodes.compose(text).places[path].style
    try:
        as_yaml = yaml.safe_load(f"[{typed}]")
    except (yaml.YAMLError, ValueError):
        as_yaml = None
    note(f"{text}\n{path} = {typed!r}")
    after = splice(text, {path: typed})
    note(after)
    read_back = at(values_of(after), path)
    assert equal(changed(values_of(after), path, 0), changed(values_of(text), path, 0))
    # Text, or the one value that YAML reads of it; in quotes always text.
    assert read_back == typed or (as_yaml is not None and len(as_yaml) == 1 and equal(read_back, as_yaml[0]))
    if style:
        assert read_back == typed or nodes.compose(text).places[path].alias


@STEADY
@given(documents(), st.data(), VALUES)
def test_any_key_is_added_to_any_mapping_and_any_item_to_any_list(text, data, value):
    values = unshared(values_of(text))
    holders = [(), *(path for path in paths_of(text) if isinstance(at(values, path), dict | list | None))]
    parent = data.draw(st.sampled_from(holders))
    found = at(values, parent)
    first = len(found) if isinstance(found, list) else data.draw(st.sampled_from(["new", "no: plain", "on"]))
    steps = (first, *data.draw(st.sampled_from([(), (), ("deep",), ("x", "y")])))
    assume(not isinstance(found, dict) or first not in found)
    note(f"{text}\n{parent} + {steps} = {value!r}")
    after = splice(text, {(*parent, *steps): value})
    note(after)
    wanted = meant(value)
    for step in reversed(steps[1:]):
        wanted = {step: wanted}
    expected = changed(values, parent, {}) if found is None else values
    assert equal(values_of(after), changed(expected, (*parent, first), wanted))
    if "&" not in text:
        assert len(lines_lost(text, after)) <= 1


@STEADY
@given(documents(), st.data())
def test_any_key_or_item_is_removed_and_nothing_else(text, data):
    path = data.draw(st.sampled_from(paths_of(text)))
    assume(path[:-1] or len(values_of(text)) > 1)
    note(f"{text}\n- {path}")
    try:
        after = splice(text, {path: REMOVE})
    except KeyError:
        assume("<<" not in text)  # what is merged below the key would come to light
        raise
    note(after)
    assert equal(values_of(after), changed(values_of(text), path, REMOVE))
    assert splice(after, {path: REMOVE}) == after or isinstance(path[-1], int)


# How it looks

FILE = """\
# a comment that stays
command: >-   # folded
  python train.py --data a
  --lr 3 --more b

environment:
  image: x   # an image
  conda_file: c.yml
inputs:
  # two inputs are to come
outputs:    # none yet
code: |
  one
  two
tags: {a: 1, b: 'x'}  # tags
search_space:
    lr:
        type: choice
        values: [4, 8]   # sizes
list:
- a
- b: 1
  c: 2
- - x
  - y
spread: {
  a: 1,   # one
  b: 2    # two
}
rate: &rate 0.1
again: *rate  # the same
third: *rate
base: &base
    x: 1
    y: 2
merged:
    <<: *base
    z: 3
alone, one: {w, v: 1}
"""


_ENVIRONMENT = "environment:|  image: x   # an image|  conda_file: c.yml"
_SPACE = "search_space:|    lr:|        type: choice|        values: [4, 8]   # sizes"


@pytest.mark.parametrize(
    ("path", "value", "gone", "come"),
    [
        ("command", "python train.py --data a --lr 5 --more b", "  --lr 3 --more b", "  --lr 5 --more b"),
        ("command", "x\n", "command: >-   # folded|  python train.py --data a|  --lr 3 --more b", "command: >   # folded|  x"),
        ("code", "one\nthree\ntwo\n", "", "  three"),
        ("code", "one", "code: ||  two", "code: |-"),
        ("code", " lead\n", "code: ||  one|  two", "code: |2|   lead"),
        ("code", "", "code: ||  one|  two", 'code: ""'),
        ("environment", Exact("azureml:e:1"), _ENVIRONMENT, "environment: azureml:e:1"),
        ("environment", {"image": "a:1.10"}, _ENVIRONMENT, "environment: {image: a:1.10}"),
        ("environment.conda_file", {"dependencies": ["pip"]}, "  conda_file: c.yml", "  conda_file: {dependencies: [pip]}"),
        ("environment.image", REMOVE, "  image: x   # an image", ""),
        ("inputs.lr", 1e-5, "", "  lr: 1.0e-05"),
        ("inputs.data.path", "./x", "", "  data:|    path: ./x"),
        ("outputs.model.type", "uri_folder", "", "  model:|    type: uri_folder"),
        ("outputs", [1], "outputs:    # none yet", "outputs: [1]    # none yet"),
        ("tags.a", REMOVE, "tags: {a: 1, b: 'x'}  # tags", "tags: {b: 'x'}  # tags"),
        ("tags.b", REMOVE, "tags: {a: 1, b: 'x'}  # tags", "tags: {a: 1}  # tags"),
        ("tags.b", "it's", "tags: {a: 1, b: 'x'}  # tags", 'tags: {a: 1, b: "it\'s"}  # tags'),
        ("tags.c", "a, b", "tags: {a: 1, b: 'x'}  # tags", "tags: {a: 1, b: 'x', c: \"a, b\"}  # tags"),
        ("tags", REMOVE, "tags: {a: 1, b: 'x'}  # tags", ""),
        ("search_space.lr.values", [4], "        values: [4, 8]   # sizes", "        values: [4]   # sizes"),
        ("search_space.lr.values.2", 16, "        values: [4, 8]   # sizes", "        values: [4, 8, 16]   # sizes"),
        ("search_space.lr.values.0", REMOVE, "        values: [4, 8]   # sizes", "        values: [8]   # sizes"),
        ("search_space.lr", REMOVE, _SPACE, "search_space: {}"),
        ("list.0", REMOVE, "- a", ""),
        ("list.1.b", REMOVE, "- b: 1|  c: 2", "- c: 2"),
        ("list.2.1", REMOVE, "  - y", ""),
        ("list.3.k.m", "z", "", "- k:|    m: z"),
        ("spread.c", 3, "  b: 2    # two", "  b: 2, c: 3    # two"),
        ("spread.b", REMOVE, "  b: 2    # two", ""),
        ("rate", 0.2, "rate: &rate 0.1|again: *rate  # the same", "rate: 0.2|again: &rate 0.1  # the same"),
        ("again", 0.2, "again: *rate  # the same", "again: 0.2  # the same"),
        ("base.x", 5, "base: &base|    x: 1|    <<: *base", "base:|    x: 5|    <<: &base {x: 1, y: 2}"),
        ("merged.x", 5, "", "    x: 5"),
        ("alone, one.w", 5, "alone, one: {w, v: 1}", "alone, one: {w: 5, v: 1}"),
        ("alone, one.w", REMOVE, "alone, one: {w, v: 1}", "alone, one: {v: 1}"),
        ("new", "one\ntwo", "", "new: |-|  one|  two"),
    ],
)  # fmt: skip
def test_an_edit_changes_the_lines_that_it_must_and_no_other(path, value, gone, come):
    after = splice(FILE, {path: value})
    diff = [line for line in difflib.ndiff(FILE.splitlines(), after.splitlines()) if line[0] in "+-"]
    assert "|".join(line[2:] for line in diff if line[0] == "+").replace("||", "|") == come.replace("||", "|")
    assert "|".join(line[2:] for line in diff if line[0] == "-").replace("||", "|") == gone.replace("||", "|")


def test_a_value_is_text_a_number_or_as_typed():
    text = "a: 'one'\nb: two\n"
    assert splice(text, {"a": "5", "b": "5"}) == "a: '5'\nb: 5\n"
    assert splice(text, {"a": Typed("5"), "b": Typed("1.0e-3")}) == "a: 5\nb: 1.0e-3\n"
    assert splice(text, {"a": Exact("5"), "b": Exact("no")}) == "a: '5'\nb: \"no\"\n"
    assert splice(text, {"a": Typed("null"), "b": "null"}) == 'a: null\nb: "null"\n'
    assert splice(text, {"a": [Typed("1.0e-3"), "1.0e-3", True, None]}) == 'a: [1.0e-3, "1.0e-3", true, null]\nb: two\n'


@pytest.mark.parametrize(
    ("text", "path", "value", "message"),
    [
        ("a: {b: 1}\n", "a", "x", "It holds keys or a list"),
        ("a: 1\n", "a.b", 1, "`a` holds a value, no keys"),
        ("a: [1]\n", "a.b", 1, "`a` is a list: name its items by their number"),
        ("a: [1]\n", "a.2", 1, "`a` is a list: name its items by their number"),
        ("m: &m {x: 1}\na:\n  <<: *m\n  y: 2\n", "a.x", REMOVE, "It comes from another mapping by `<<`"),
        ("? a\n: 1\nb: 2\n", "a", REMOVE, "Its key is written with `?`"),
        ("a: 1\na: 2\nb: 3\n", "a", REMOVE, "without what stands beside it"),
        ("a: 1\n", "a", {1, 2}, "a set cannot be written"),
    ],
)
def test_what_has_no_place_of_its_own_is_refused_in_a_sentence(text, path, value, message):
    with pytest.raises(Invalid, match=f"has no place for '{re.escape(path)}'.*{re.escape(message)}"):
        parse(text, None, Path()).edit({path: value})


def test_what_is_not_there_is_removed_already():
    assert splice(FILE, {"nothing": REMOVE, "tags.nothing.at.all": REMOVE, "list.7": REMOVE}) == FILE


def test_what_a_merge_brings_in_is_written_where_it_is_changed():
    text = "base: &base\n  deep: {x: 1, y: 'no'}\nhere:\n  <<: *base\n"
    assert splice(text, {"here.deep.x": "2"}) == text + '  deep: {x: 2, y: "no"}\n'
    assert splice(text, {"here.deep.x": REMOVE}) == text + '  deep: {y: "no"}\n'


def test_several_changes_are_made_one_after_the_other():
    after = splice(FILE, {"tags.a": 2, "inputs.x": 1, "inputs.y": "z", "list.0": REMOVE, "list.0.c": 3})
    values = values_of(after)
    assert values["inputs"] == {"x": 1, "y": "z"}
    assert values["list"] == [{"b": 1, "c": 3}, ["x", "y"]]


# Real files

CORPUS = SHARED / "corpus"
CASES = SHARED / "cases" / "yaml"


def real_files() -> list[Path]:
    return [path for root in (CORPUS, CASES) for path in sorted(root.rglob("*.y*ml"))]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of job files is not beside this checkout")
def test_scalars_of_real_files_change_in_their_own_characters_only():
    values = ["no", 7, Exact("1e-3"), "a: b # c", Exact("two\nlines"), None]
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for number, path in enumerate(real_files()):
        try:
            file = read(path)
        except Unreadable:
            continue
        scalars = [where for where, place in file.places.items() if place.kind == "scalar"]
        before = yaml.load(file.text, fast)
        for step, where in enumerate(scalars[number % 3 :: max(1, len(scalars) // 6)]):
            value, place = values[(number + step) % len(values)], file.places[where]
            after = file.edit({where: value}).text
            read_back = yaml.load(after.removeprefix("\ufeff"), fast)
            typed = False if value == "no" and not place.style else meant(value)
            assert equal(at(read_back, where), typed), (path, where)
            assert equal(changed(read_back, where, 0), changed(before, where, 0)), (path, where)
            assert after.startswith(file.text[: place.start]), (path, where)
            assert after.endswith(file.text[place.end :]), (path, where)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of job files is not beside this checkout")
def test_a_key_of_a_real_file_is_removed_with_its_lines_only():
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for number, path in enumerate(real_files()):
        try:
            file = read(path)
        except Unreadable:
            continue
        keys = [where for where in file.places if where]
        where = keys[number * 7 % len(keys)]
        after = file.edit({where: REMOVE}).text
        assert equal(yaml.load(after, fast), changed(yaml.load(file.text, fast), where, REMOVE)), (path, where)
        # What is new is at most one line: the rest of a list, or of a mapping that is empty now.
        assert len([line for line in after.splitlines() if line not in file.text.splitlines()]) <= 1, (path, where)
