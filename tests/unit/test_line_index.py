"""The line index of files that lie still, grow, shrink and are replaced."""

from __future__ import annotations

import io
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress
from tqdm import tqdm

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
    assert (index.lines, index.size, index.display(0)[0], index.raw(0)) == (0, 0, b"", b"")
    path.write_bytes(b"first\n")
    assert index.scan()
    assert index.display(0)[0] == b"first"
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
    assert (index.lines, index.display(1)[0]) == (2, b"tw")
    assert [index.complete(number) for number in (-1, 0, 1, 2)] == [False, True, False, False]
    with path.open("ab") as file:
        file.write(b"o\n")
    assert index.scan()
    assert (index.lines, index.display(1)[0], index.complete(1)) == (2, b"two", True)


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
    assert index.display(0)[0] == b"kept"


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
    assert (index.display(0)[0], index.display(2)[0]) == (b"before", b"after")


def test_of_a_long_progress_line_the_last_state_is_read(path: Path, index: LineIndex) -> None:
    states = b"".join(b"\r%3d%%|####| %d/20000" % (number // 200, number) for number in range(20_001))
    path.write_bytes(b"start\n" + states)
    scan_all(index)
    assert index.display(1) == (b"100%|####| 20000/20000", 0)
    with path.open("ab") as file:
        file.write(b"\r\ndone\n")
    scan_all(index)
    assert index.display(1) == (b"100%|####| 20000/20000", 0)
    assert index.display(2)[0] == b"done"


def grow(path: Path, index: LineIndex, data: bytes, piece: int) -> list[str]:
    """Write a file piece by piece, each indexed before the next, and return the lines shown."""
    for begin in range(0, len(data), piece):
        with path.open("ab") as file:
            file.write(data[begin : begin + piece])
        scan_all(index)
    assert index.size == len(data)
    return shown(index)


def shown(index: LineIndex) -> list[str]:
    return [parse_line(*index.display(number)).text.rstrip() for number in range(index.lines)]


def nested_bars(leave: bool) -> bytes:
    """What tqdm itself writes for two loops."""
    file = io.StringIO()
    file.write("start\n")
    for _ in tqdm(range(3), desc="epochs", file=file, ncols=40, mininterval=0, position=0, bar_format="{desc} {n}"):
        for _ in tqdm(
            range(200), desc="b", file=file, ncols=40, mininterval=0, leave=leave, position=1, bar_format="{desc} {n}"
        ):
            pass
    file.write("done\n")
    return file.getvalue().encode()


@pytest.mark.parametrize("piece", [1, 7, 100, 1_000_000])
def test_nested_progress_bars_are_a_line_each(path: Path, index: LineIndex, piece: int) -> None:
    data = nested_bars(leave=False)
    assert grow(path, index, data, piece) == ["start", "epochs 3", "done"]
    assert index.redraws
    assert b"\n".join(all_raw(index)) + b"\n" == data


def test_half_way_both_bars_show_their_last_state(path: Path, index: LineIndex) -> None:
    data = nested_bars(leave=False)
    half = data.index(b"b 120", data.index(b"epochs 1")) + 5
    assert grow(path, index, data[:half], 50) == ["start", "epochs 1", "b 120"]
    assert index.lines == 3
    assert list(compile_search("epochs 1").lines(index, 0)) == [1], "what is shown is found where it is shown"
    assert list(compile_search("b 120").lines(index, 0)) == [2]
    assert list(compile_search("b 11").lines(index, 2, -1)) == [], "a state that was drawn over is not"


def test_bars_that_stay_are_a_line_each(path: Path, index: LineIndex) -> None:
    assert grow(path, index, nested_bars(leave=True), 64) == ["start", "b 200", "b 200", "b 200", "epochs 3", "done"]


@pytest.mark.parametrize("piece", [1, 33, 1_000_000])
def test_rich_bars_show_their_last_frame(path: Path, index: LineIndex, piece: int) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=60)
    with Progress("{task.description} {task.completed}", console=console, auto_refresh=False) as progress:
        tasks = [progress.add_task(name, total=50) for name in ("outer", "middle", "inner")]
        for step in range(50):
            for task in tasks:
                progress.advance(task)
            progress.refresh()
            if step == 20:
                progress.console.print("a line between")
    lines = grow(path, index, file.getvalue().encode(), piece)
    assert lines == ["a line between", "outer 50", "middle 50", "inner 50", ""]


def test_a_line_written_between_bars_is_not_lost(path: Path, index: LineIndex) -> None:
    data = b"\router 1\n\rinner 1\x1b[A\n\rinner 2\x1b[AERROR of another rank\n\n\rinner 3\x1b[A\router 2\n\ndone\n"
    assert "ERROR of another rank" in grow(path, index, data, 5)


def test_a_bar_that_began_as_a_plain_line_is_drawn_over(path: Path, index: LineIndex) -> None:
    data = b"outer  0%\ninner  0%\x1b[A\router 50%\n\rinner 90%\x1b[A"
    assert grow(path, index, data, 4) == ["outer 50%", "inner 90%"]


def test_a_step_up_hides_no_text_that_is_no_bar(path: Path, index: LineIndex) -> None:
    data = b"first line\nsecond line\n\x1b[2Ahidden?\nlast\n"
    assert grow(path, index, data, 9) == ["first line", "second line", "hidden?", "last"]
    assert parse_line(*index.display(2)).removed, "and it is marked"
    assert not index.redraws


def test_any_mixture_is_shown_alike_however_it_arrives(path: Path, index: LineIndex) -> None:
    chance = random.Random(5)
    parts = [
        b"\n",
        b"\x1b[A",
        b"\x1b[A\n",
        b"\r",
        b"x" * 70,
        b"text ",
        b"\x1b",
        b"[A\n",
        b"y" * 300,
        b"\x1b[2K",
        b"\x1b[3B",
    ]
    data = b"".join(chance.choices(parts, weights=[9, 2, 2, 2, 2, 9, 1, 1, 1, 1, 1], k=20_000)) + b"end\n"
    path.write_bytes(data)
    scan_all(index)
    other_path = path.with_suffix(".pieces")
    other = LineIndex(other_path)
    other_path.touch()
    with other_path.open("ab", buffering=0) as file:
        written = 0
        while written < len(data):
            written += file.write(data[written : written + chance.choice((3, 50, 1000, 100_000, 400_000))])
            scan_all(other)
    assert other.lines == index.lines
    assert shown(other) == shown(index)
    assert b"\n".join(all_raw(other)) + b"\n" == data
    search = compile_search("text")
    wanted = [number for number, text in enumerate(shown(index)) if "text" in text]
    assert list(search.lines(index, 0)) == list(search.lines(other, 0)) == wanted
    assert list(search.lines(other, other.lines - 1, -1)) == wanted[::-1]
    other.close()


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
                assert index.display(number)[0].startswith(b"step %07d " % number)
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
    assert (index.lines, index.display(0)[0]) == (0, b"")
    assert not index.scan(), "a scan that was on its way opens nothing again"
