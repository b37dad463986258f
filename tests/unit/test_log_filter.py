"""The lines that a filter leaves: by text, level, time and context, as the log grows; and what lines say of themselves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footplate.logs.filtered import Filtered, Wanted
from footplate.logs.index import LineIndex
from footplate.logs.levels import Level, level_at, level_of
from footplate.logs.search import compile_search
from footplate.logs.times import time_in

CASES = Path(__file__).parents[3] / "shared" / "cases" / "logs"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "std_log.txt"


@pytest.fixture
def base(path: Path) -> Iterator[LineIndex]:
    index = LineIndex(path, "user_logs/std_log.txt", zone=UTC)
    yield index
    index.close()


def shown(lines: Filtered) -> list[str]:
    return [lines.display(number)[0].decode(errors="replace") for number in range(lines.lines)]


def look(lines: Filtered) -> list[str]:
    while lines.scan():
        pass
    return shown(lines)


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_context_stands_round_each_hit_and_gaps_are_marked(path, base):
    add(path, "".join(f"line {number}{' hit' if number in (2, 5, 20) else ''}\n" for number in range(30)))
    lines = Filtered(base, Wanted(compile_search("hit"), before=1, after=2))
    assert look(lines) == [
        *("line 1", "line 2 hit", "line 3", "line 4", "line 5 hit", "line 6", "line 7"),
        *("··· 11 lines ···", "line 19", "line 20 hit", "line 21", "line 22"),
    ]
    assert [lines.place(number).line for number in (0, 7, 8)] == [1, 19, 19]
    assert (lines.nearest(20), lines.nearest(10), lines.raw(7), lines.base_number(9)) == (9, 7, b"", 20)
    assert list(lines.search(re.compile(b"hit"), 0)) == [1, 4, 9]
    assert list(lines.search(re.compile(b"hit"), 8, -1)) == [4, 1]
    assert look(Filtered(base, Wanted(compile_search("hit")))) == ["line 2 hit", "line 5 hit", "line 20 hit"]
    assert len(look(Filtered(base, Wanted(compile_search("hit"), inverse=True)))) == 27


TEXTS = st.lists(st.sampled_from(["hit", "plain", "ERROR bad", "hit WARNING", "", "\x1b[31mhit\x1b[0m"]), max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    TEXTS,
    st.integers(1, 30),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(list(Level)),
    st.booleans(),
)
def test_a_filter_of_a_growing_log_is_that_of_the_whole(texts, piece, before, after, inverse, least, ends):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        data = "\n".join(texts) + ("\n" if ends else "")
        base = LineIndex(path)
        lines = Filtered(base, Wanted(compile_search("hit"), inverse, before, after, least))
        for begin in range(0, len(data), piece):
            add(path, data[begin : begin + piece])
            look(lines)
        whole = data.split("\n")
        if whole[-1] == "":
            whole.pop()
        plain = [re.sub(r"\x1b\[\d*m", "", text) for text in whole]
        hits = [n for n, t in enumerate(plain) if ("hit" in t) != inverse and level_of(t) >= least]
        kept = sorted({n for hit in hits for n in range(hit - before, hit + after + 1) if 0 <= n < len(whole)})
        expected: list[str] = []
        for last, number in itertools.pairwise([None, *kept]):
            assert number is not None
            if last is not None and number > last + 1 and (before or after):
                left_out = number - last - 1
                expected.append(f"··· {left_out} {'line' if left_out == 1 else 'lines'} ···")
            expected.append(whole[number])
        assert shown(lines) == expected
        base.close()


TRACEBACK = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 3, in <module>
[rank1]:     load()
[rank1]: OSError: no such file

[rank1]: The above exception was the direct cause of the following exception:

[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 9, in <module>
[rank1]: botocore.errorfactory.NoSuchKey: gone
"""


def test_a_traceback_is_part_of_the_error_as_it_comes(path, base):
    lines = Filtered(base, Wanted(least=Level.ERROR))
    data = f"INFO begin\n{TRACEBACK}INFO end\nWARNING later\nE1201 11:00:00.1 7 nccl.cc:3] Failed\nDEBUG x\n"
    for line in data.splitlines(keepends=True):
        add(path, line)
        look(lines)
    assert shown(lines) == [*(line for line in TRACEBACK.splitlines() if line), "E1201 11:00:00.1 7 nccl.cc:3] Failed"]
    assert look(Filtered(base, Wanted(least=Level.ERROR))) == shown(lines), "at once, or line by line"
    assert [level_at(base, number).name for number in (0, 1, 3, 9, 10, 11, 12, 14)] == [
        *("INFO", "ERROR", "ERROR", "ERROR", "ERROR", "INFO", "WARNING", "DEBUG")
    ]
    both = Filtered(base, Wanted(compile_search("train.py"), least=Level.ERROR))
    assert len(look(both)) == 2


def test_a_traceback_that_a_log_ends_with_is_shown(path, base):
    lines = Filtered(base, Wanted(least=Level.ERROR))
    add(path, "step 1\nTraceback (most recent call last):\n  File x\nValueError: bad")
    assert look(lines) == ["Traceback (most recent call last):", "  File x", "ValueError: bad"]
    assert not lines.complete(2)
    add(path, " thing\nstep 2\n")
    assert look(lines)[-1] == "ValueError: bad thing"
    assert lines.complete(2)


def test_a_stretch_of_time_goes_by_what_the_lines_say(path, base):
    for minute in range(60):
        add(path, f"2026-12-01 11:{minute:02}:00,5 INFO step {minute}\n  more of step {minute}\n")
    last = Filtered(base, Wanted(since=NOW - timedelta(minutes=5)))
    assert look(last)[0].startswith("2026-12-01 11:55:00,5")
    assert len(shown(last)) == 10
    between = Filtered(base, Wanted(since=NOW - timedelta(minutes=50), until=NOW - timedelta(minutes=49)))
    assert look(between) == ["2026-12-01 11:10:00,5 INFO step 10", "  more of step 10"]
    add(path, "2026-12-01 12:00:30 INFO step 60\n")
    assert look(last)[-1].endswith("step 60")
    assert len(look(between)) == 2
    errors = Filtered(base, Wanted(least=Level.WARNING, since=NOW - timedelta(minutes=5)))
    assert look(errors) == []


def test_lines_without_a_time_have_that_of_their_arrival(path, base):
    assert not base.scan()
    add(path, "came while it was watched\n")
    while base.scan():
        pass
    assert abs(base.time(0) - datetime.now(UTC)) < timedelta(minutes=1)
    later = LineIndex(path)
    while later.scan():
        pass
    assert later.time(0) is None, "nobody knows when it came"
    add(path, "and one more\n")
    while later.scan():
        pass
    assert later.time(0) is None
    assert later.time(1) is not None
    young = Filtered(later, Wanted(since=datetime.now(UTC) - timedelta(minutes=1)))
    assert look(young) == ["and one more"]
    later.close()


def test_a_log_that_turned_out_to_be_another_is_filtered_anew(path, base):
    add(path, "hit one\nhit two\n")
    lines = Filtered(base, Wanted(compile_search("hit")))
    assert look(lines) == ["hit one", "hit two"]
    path.write_text("hit three\n")
    assert look(lines) == ["hit three"]
    assert lines.restarts == 1
    lines.close()
    add(path, "hit four\n")
    assert look(lines) == ["hit three"]


def test_an_expression_that_takes_too_long_is_said(path, base):
    add(path, "a" * 60 + "!\n")
    lines = Filtered(base, Wanted(compile_search("(a|a|aa)+$")))
    look(lines)
    assert "too long" in lines.fault


def test_every_case_can_be_filtered_and_loses_no_line_to_no_filter():
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    for case in sorted(CASES.glob("*.log")):
        base = LineIndex(case)
        look(Filtered(base, Wanted(compile_search("e"), before=1)))
        assert Filtered(base, Wanted()).lines == 0
        everything = Filtered(base, Wanted())
        look(everything)
        assert [everything.raw(n) for n in range(everything.lines)] == [base.raw(n) for n in range(base.lines)], (
            case.name
        )
        if case.name.startswith("l16"):
            errors = look(Filtered(base, Wanted(least=Level.ERROR)))
            assert any("ValueError" in text for text in errors)
        base.close()


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-01-01 12:00:00 INFO step 1", Level.INFO),
        ("[ERROR] disk", Level.ERROR),
        ("error: bad option", Level.ERROR),
        ("WARNING:root:careful", Level.WARNING),
        ("time=… level=warn msg=x", Level.WARNING),
        ('{"level": "error", "msg": "x"}', Level.ERROR),
        ("I1201 10:00:00.1 7 a.cc:3] fine", Level.INFO),
        ("train.py:12: UserWarning: lr is large", Level.WARNING),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", Level.ERROR),
        ("KeyboardInterrupt", Level.ERROR),
        ("DEBUG x", Level.DEBUG),
        ("val_error 0.3 error=0.1", Level.NONE),
        ("saved to logs/ERROR.txt", Level.NONE),
        ("an Error: in the middle is prose", Level.NONE),
        ("  5%|▌ | 1/20", Level.NONE),
        ("", Level.NONE),
    ],
)
def test_the_level_that_a_line_says(text, level):
    assert level_of(text) is level


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T14:00:00.25Z x", datetime(2026, 1, 31, 14, 0, 0, 250000, UTC)),
        ("[2026-01-31 14:00:00,250] x", datetime(2026, 1, 31, 13, 0, 0, 250000, UTC)),
        ("2026-01-31 14:00:00+05:30 x", datetime(2026, 1, 31, 8, 30, tzinfo=UTC)),
        ("INFO:root:2026-01-31 14:00:00 x", datetime(2026, 1, 31, 13, tzinfo=UTC)),
        ("[rank3]: 2026/01/31 14:00:00 x", datetime(2026, 1, 31, 13, tzinfo=UTC)),
        ('{"time": "2026-01-31T14:00:00Z"}', datetime(2026, 1, 31, 14, tzinfo=UTC)),
        ("W1130 10:00:00.5 7 a.cc:3] x", datetime(2026, 11, 30, 9, 0, 0, 500000, UTC)),
        ("Nov  2 10:00:00 node kernel: x", datetime(2026, 11, 2, 9, tzinfo=UTC)),
        ("1769868000.125 x", datetime(2026, 1, 31, 14, 0, 0, 125000, UTC)),
        ("[1769868000] x", datetime(2026, 1, 31, 14, tzinfo=UTC)),
        ("1769868000 images", None),
        ("2026-02-30 14:00:00 x", None),
        ("14:00:00 x", None),
        ("resumed from 2025-01-31 14:00:00", None),
        ("model-2026-01-31 saved", None),
        ("May  2 10:00:00 of this year or another", None),
    ],
)
def test_the_time_that_a_line_says(text, time):
    at_one = timezone(timedelta(hours=1))
    assert time_in(text, at_one, NOW) == time
    if text.startswith(("W", "Nov")):
        assert time_in(text, at_one) is None, "no year is guessed"
