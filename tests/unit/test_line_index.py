"""The line index of files that lie still, grow, shrink and are replaced."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from footplate.logs.index import READ, LineIndex
from footplate.logs.sanitise import DISPLAY_LIMIT, parse_line
from footplate.logs.search import compile_search

CASES = Path(__file__).parents[3] / "shared" / "cases" / "logs"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "std_log.txt"


@pytest.fixture
def index(path: Path) -> Iterator[LineIndex]:
    index = LineIndex(path)
    yield index
    index.close()


def scan_all(index: LineIndex) -> None:
    while index.scan():
        pass


def all_raw(index: LineIndex) -> list[bytes]:
    return [index.raw(number) for number in range(index.lines)]


def test_a_file_that_is_not_there_yet_has_no_lines(path: Path, index: LineIndex) -> None:
    assert not index.scan()
    assert (index.lines, index.size, index.line(0), index.raw(0)) == (0, 0, b"", b"")
    path.write_bytes(b"first\n")
    assert index.scan()
    assert index.line(0) == b"first"
    assert index.restarts == 0


def test_every_case_is_indexed_line_by_line() -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    for case in sorted(CASES.glob("*.log")):
        index = LineIndex(case)
        scan_all(index)
        data = case.read_bytes()
        expected = data.removesuffix(b"\n").split(b"\n") if data else []
        assert all_raw(index) == expected, case.name
        assert index.size == len(data)
        for number, raw in enumerate(expected):
            assert parse_line(*index.display(number)).text == parse_line(raw).text, (case.name, number)
        index.close()


def test_an_unfinished_last_line_is_a_line_but_not_complete(path: Path, index: LineIndex) -> None:
    path.write_bytes(b"one\ntw")
    scan_all(index)
    assert (index.lines, index.line(1)) == (2, b"tw")
    assert [index.complete(number) for number in (-1, 0, 1, 2)] == [False, True, False, False]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert index.scan()
    assert (index.lines, index.line(1), index.complete(1)) == (2, b"two", True)


def test_a_scan_reads_a_block_and_says_when_nothing_is_new(path: Path, index: LineIndex) -> None:
    path.write_bytes(b"x" * 99 + b"\n" * (3 * READ))
    scans = 0
    while index.scan():
        scans += 1
    assert scans == 4
    assert index.lines == 3 * READ
    assert not index.scan()


def test_blocks_may_end_anywhere_in_a_line(path: Path, index: LineIndex) -> None:
    lines = [b"%d " % number + b"y" * (number % 301) for number in range(20_000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    scan_all(index)
    assert all_raw(index) == lines


def test_a_truncated_file_starts_again(path: Path, index: LineIndex) -> None:
    path.write_bytes(b"old one\nold two\n")
    scan_all(index)
    path.write_bytes(b"new\n")
    scan_all(index)
    assert (index.restarts, all_raw(index)) == (1, [b"new"])


def test_a_file_truncated_and_grown_past_its_old_size_starts_again(path: Path, index: LineIndex) -> None:
    path.write_bytes(b"old one\nold two\n")
    scan_all(index)
    path.write_bytes(b"another file altogether\nwith more in it\n")
    scan_all(index)
    assert (index.restarts, all_raw(index)) == (1, [b"another file altogether", b"with more in it"])


def test_a_replaced_file_starts_again(path: Path, index: LineIndex) -> None:
    path.write_bytes(b"old one\n")
    scan_all(index)
    other = path.with_suffix(".new")
    other.write_bytes(b"old one\nand more\n")
    other.replace(path)
    scan_all(index)
    assert (index.restarts, all_raw(index)) == (1, [b"old one", b"and more"])


def test_lines_of_a_deleted_file_can_still_be_read(path: Path, index: LineIndex) -> None:
    path.write_bytes(b"kept\n")
    scan_all(index)
    path.unlink()
    assert not index.scan()
    assert index.line(0) == b"kept"


def test_a_file_that_cannot_be_read_raises(path: Path, index: LineIndex) -> None:
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        index.scan()


def test_a_long_line_is_read_in_part_and_saved_whole(path: Path, index: LineIndex) -> None:
    long = b"weights " + b"0.123," * 200_000
    path.write_bytes(b"before\n" + long + b"\nafter\n")
    scan_all(index)
    head, cut = index.display(1)
    assert (head, cut) == (long[:DISPLAY_LIMIT], len(long) + 1 - DISPLAY_LIMIT)
    assert index.raw(1) == long
    assert (index.line(0), index.line(2)) == (b"before", b"after")


def test_of_a_long_progress_line_the_last_state_is_read(path: Path, index: LineIndex) -> None:
    states = b"".join(b"\r%3d%%|####| %d/20000" % (number // 200, number) for number in range(20_001))
    path.write_bytes(b"start\n" + states)
    scan_all(index)
    assert index.display(1) == (b"100%|####| 20000/20000", 0)
    with path.open("ab") as file:
        file.write(b"\r\ndone\n")
    scan_all(index)
    assert index.display(1) == (b"100%|####| 20000/20000", 0)
    assert index.line(2) == b"done"


@pytest.mark.parametrize("piece", [1, 7, 1_000_000])
def test_nested_progress_bars_are_a_line_an_outer_step(path: Path, index: LineIndex, piece: int) -> None:
    # What tqdm writes for an inner bar at position 1 that is cleared when it is done.
    data = b"start\n\repochs: 0/3"
    for epoch in range(3):
        for batch in range(200):
            data += b"\n\rbatches: %d/200\x1b[A" % batch
        data += b"\n\r              \x1b[A\repochs: %d/3" % (epoch + 1)
    data += b"\ndone\n"
    for begin in range(0, len(data), piece):
        with path.open("ab") as file:
            file.write(data[begin : begin + piece])
        scan_all(index)
    shown = [parse_line(*index.display(number)).text for number in range(index.lines)]
    assert shown == ["start", "epochs: 0/3", "epochs: 1/3", "epochs: 2/3", "epochs: 3/3", "done"]
    assert b"\n".join(all_raw(index)) + b"\n" == data


def test_any_mixture_of_lines_is_split_alike_however_it_arrives(path: Path, index: LineIndex) -> None:
    chance = random.Random(5)
    parts = [b"\n", b"\x1b[A", b"\x1b[A\n", b"\r", b"x" * 70, b"text ", b"\x1b", b"[A\n", b"y" * 5000]
    data = b"".join(chance.choices(parts, k=40_000))
    path.touch()
    with path.open("ab", buffering=0) as file:
        written = 0
        while written < len(data):
            written += file.write(data[written : written + chance.randrange(1, 400_000)])
            scan_all(index)
    expected = re.split(rb"(?<!\x1b\[A)\n", data)
    assert index.lines == len(expected) - (expected[-1] == b"")
    assert all_raw(index) == expected[: index.lines]
    wanted = [number for number, raw in enumerate(expected[: index.lines]) if b"text" in raw]
    assert list(index.search(re.compile(b"text"), 0)) == wanted
    assert list(index.search(re.compile(b"text"), index.lines - 1, -1)) == wanted[::-1]


def test_search_goes_both_ways_and_across_blocks(path: Path, index: LineIndex) -> None:
    lines = [b"line %d %s" % (number, b"needle" if number % 7919 == 0 else b"hay") for number in range(200_000)]
    path.write_bytes(b"\n".join(lines))
    scan_all(index)
    expected = list(range(0, 200_000, 7919))
    assert list(index.search(re.compile(b"needle"), 0)) == expected
    assert list(index.search(re.compile(b"needle"), 199_999, -1)) == expected[::-1]
    assert next(index.search(re.compile(b"needle"), 7920)) == 2 * 7919
    assert next(index.search(re.compile(b"needle"), 7918, -1)) == 0
    assert list(index.search(re.compile(b"^line 5 ", re.MULTILINE), 0)) == [5]
    assert list(index.search(re.compile(b"absent"), 0)) == []


def test_search_in_lines_longer_than_a_block(path: Path, index: LineIndex) -> None:
    long = b"a" * (READ - 3) + b"needle" + b"b" * (2 * READ)
    path.write_bytes(b"needle\n" + long + b"\nneedle and needle\n" + b"c" * (3 * READ) + b"\nneedle")
    scan_all(index)
    assert list(index.search(re.compile(b"needle"), 0)) == [0, 1, 2, 4]
    assert list(index.search(re.compile(b"needle"), 4, -1)) == [4, 2, 1, 0]


def test_what_is_not_shown_is_not_found(path: Path, index: LineIndex) -> None:
    path.write_bytes(b"\x1b[31mred\x1b[0m\n10%\r100%\nplain 31\nbad [brackets\nOK\n")
    scan_all(index)
    assert list(compile_search("31").lines(index, 0)) == [2]
    assert list(compile_search("^10%").lines(index, 0)) == []
    assert list(compile_search("[").lines(index, 0)) == [3], "no valid expression, so plain text"
    assert list(compile_search("ok").lines(index, 0)) == [4]
    assert list(compile_search("Ok").lines(index, 0)) == []
    assert compile_search("red").next_line(index, 3) == 0, "starts over at the other end"
    assert compile_search("plain").next_line(index, 1, -1) == 2
    assert compile_search("absent").next_line(index, 0) is None


WRITER = """
import sys, time
with open(sys.argv[1], "wb", buffering=0) as file:
    for number in range(int(sys.argv[2])):
        line = b"step %07d " % number + b"x" * (number % 90) + b"\\n"
        file.write(line[:9])
        file.write(line[9:])
"""


def test_no_line_is_lost_or_torn_while_another_process_writes(path: Path, index: LineIndex) -> None:
    count = 60_000
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(count)])
    stop = threading.Event()

    def scan() -> None:
        while not stop.is_set():
            if not index.scan():
                stop.wait(0.001)

    scanner = threading.Thread(target=scan)
    scanner.start()
    try:
        deadline = time.monotonic() + 60
        while index.lines < count or not index.complete(count - 1):
            assert time.monotonic() < deadline
            number = index.lines - 2
            if number >= 0:
                assert index.complete(number)
                assert index.line(number).startswith(b"step %07d " % number)
    finally:
        writer.wait(60)
        stop.set()
        scanner.join(10)
    assert index.lines == count
    for number in range(0, count, 997):
        assert index.raw(number) == b"step %07d " % number + b"x" * (number % 90)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_close_lets_go_of_the_file(path: Path) -> None:
    path.write_bytes(b"text\n")
    index = LineIndex(path)
    scan_all(index)
    before = open_files()
    index.close()
    assert open_files() == before - 1
    assert (index.lines, index.line(0)) == (0, b"")
    assert not index.scan(), "a scan that was on its way opens nothing again"
