"""Changed characters of a text, and changed values of a job file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from footplate.jobfile.changes import Difference, differences, marked
from footplate.jobfile.document import parse


def job(text: str):
    return parse(text, None, Path("/"))


def test_only_the_changed_value_of_a_line_is_marked():
    old = "a: 1\nlr: {min: 0.001, max: 0.1}  # wide\nb: 2\n"
    new = "a: 1\nlr: {min: 0.002, max: 0.1}  # wide\nb: 2\n"
    lines = marked(old, new)
    assert [line.state for line in lines] == ["same", "changed", "same"]
    changed = lines[1]
    assert (changed.number, changed.before) == (2, ("lr: {min: 0.001, max: 0.1}  # wide",))
    assert [changed.text[a:b] for a, b in changed.spans] == ["0.002"]


def test_several_values_of_a_line_are_marked_each():
    (line,) = marked("x: [1, 2, 3]\n", "x: [9, 2, 8]\n")
    assert [line.text[a:b] for a, b in line.spans] == ["9", "8"]


def test_added_and_removed_lines_are_told_apart():
    assert [(line.text, line.state) for line in marked("a: 1\nc: 3\n", "a: 1\nb: 2\nc: 3\n")] == [
        ("a: 1", "same"), ("b: 2", "added"), ("c: 3", "same"),
    ]  # fmt: skip
    gone = marked("a: 1\nb: 2\nc: 3\n", "a: 1\nc: 3\n")
    assert [(line.text, line.state, line.before) for line in gone] == [
        ("a: 1", "same", ()), ("", "removed", ("b: 2",)), ("c: 3", "same", ()),
    ]  # fmt: skip


def test_a_block_that_becomes_one_line_names_all_that_it_replaces():
    old, new = "command: |\n  one\n  two\nx: 1\n", 'command: "one two"\nx: 1\n'
    first = marked(old, new)[0]
    assert first.state == "changed"
    assert first.before == ("command: |", "  one", "  two")


def test_line_ends_of_windows_are_no_part_of_a_line():
    assert [line.state for line in marked("a: 1\r\nb: 2\r\n", "a: 1\r\nb: 3\r\n")] == ["same", "changed"]
    assert marked("a: 1\r\n", "a: 2\r\n")[0].text == "a: 2"


TEXTS = st.lists(st.text("ab:1 ", max_size=4), max_size=12).map("\n".join)


@given(TEXTS, TEXTS)
def test_the_new_text_comes_back_line_by_line_and_what_is_not_marked_was_there(old: str, new: str):
    lines = marked(old, new)
    kept = [line for line in lines if line.state != "removed"]
    assert [line.number for line in kept] == list(range(1, len(kept) + 1))
    text = "\n".join(line.text for line in kept)
    assert new in (text, f"{text}\n") or (not kept and new == "")
    old_lines = old.split("\n")
    before = [line.text for line in lines if line.state == "same"]
    gone = [one for line in lines for one in line.before]
    assert sorted(before + gone) == sorted(old_lines[:-1] if old_lines[-1] == "" else old_lines)


def test_values_that_differ_are_named_by_their_path():
    a = job("command: a\ninputs: {lr: 0.1, n: 1, flag: true}\ntags: {x: y}\n# only a comment\n")
    b = job('inputs: {lr: 0.2, n: "1", flag: true, [new]: 3}\n'.replace("[new]", "more") + "command: a\n")
    assert differences(a, b) == (
        Difference("inputs.lr", "0.1", "0.2"),
        Difference("inputs.n", "1", '"1"'),
        Difference("tags.x", "y", None),
        Difference("inputs.more", None, "3"),
    )
    assert differences(a, a) == ()


def test_items_of_lists_and_not_a_number_are_compared_one_by_one():
    a = job("command: a\nx: [1, .nan, {k: 1}]\n")
    b = job("command: a\nx: [1, .nan, {k: 2}, 4]\n")
    assert differences(a, b) == (Difference("x.2.k", "1", "2"), Difference("x.3", None, "4"))
