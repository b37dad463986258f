"""Several ranks' logs as one: every line once, each rank's in their order, whatever arrives when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from footplate.logs.index import LineIndex
from footplate.logs.lines import Place
from footplate.logs.merged import BY_ARRIVAL, BY_TIME, IN_SEQUENCE, Merged
from footplate.logs.times import time_in


class Told:
    """Lines that arrive when a test says so: `arrive` gives bytes, which `scan` takes in a piece at a time."""

    def __init__(self, *texts: str, piece: int = 10_000) -> None:
        self.restarts = self.redraws = 0
        self.known: list[str] = []
        self.coming: list[str] = list(texts)
        self.piece = piece

    size = property(lambda self: sum(map(len, self.known)))
    lines = property(lambda self: len(self.known))

    def arrive(self, *texts: str) -> None:
        self.coming += texts

    def complete(self, number: int) -> bool:
        return number < len(self.known)

    def scan(self) -> bool:
        taken, self.coming = self.coming[: self.piece], self.coming[self.piece :]
        self.known += taken
        return bool(taken)

    def display(self, number: int) -> tuple[bytes, int]:
        return self.known[number].encode(), 0

    def raw(self, number: int) -> bytes:
        return self.known[number].encode()

    def search(self, pattern: re.Pattern[bytes], start: int, direction: int = 1) -> Iterator[int]:
        numbers = range(start, len(self.known)) if direction > 0 else range(min(start, len(self.known) - 1), -1, -1)
        return (number for number in numbers if pattern.search(self.known[number].encode()))

    def place(self, number: int) -> Place:
        return Place("", number)

    def tag(self, number: int) -> str:
        return ""

    def time(self, number: int) -> datetime | None:
        return time_in(self.known[number])

    def close(self) -> None:
        self.known = []


def drain(merged: Merged) -> None:
    while merged.scan():
        pass


def shown(merged: Merged) -> list[str]:
    return [f"{merged.tag(n)} {merged.raw(n).decode()}" for n in range(merged.lines)]


def stamp(second: float) -> str:
    return datetime.fromtimestamp(1_790_000_000 + second, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")


def test_an_ended_job_s_lines_stand_by_their_own_times_and_those_without_one_with_the_line_before():
    merged = Merged(
        [("r0", Told(f"{stamp(1)} a", "  more of a", f"{stamp(4)} b")), ("r1", Told(f"{stamp(2)} c", f"{stamp(3)} d"))]
    )
    drain(merged)
    assert [line.split()[0] + line[-1] for line in shown(merged)] == ["r0a", "r0a", "r1c", "r1d", "r0b"]
    assert merged.order == BY_TIME


def test_where_nothing_says_when_lines_were_written_they_stand_file_after_file_and_later_ones_as_they_arrive():
    first, second = Told("a", "b", piece=1), Told("c", "d")
    merged = Merged([("r0", first), ("r1", second)])
    drain(merged)
    assert shown(merged) == ["r0 a", "r0 b", "r1 c", "r1 d"]
    assert merged.order == IN_SEQUENCE
    second.arrive("e")
    drain(merged)
    first.arrive("f")
    drain(merged)
    assert shown(merged)[4:] == ["r1 e", "r0 f"]


def test_a_job_watched_from_its_start_is_by_arrival():
    ranks = [Told(), Told()]
    merged = Merged([("r0", ranks[0]), ("r1", ranks[1])])
    drain(merged)
    for turn in range(3):
        ranks[1 - turn % 2].arrive(f"{turn}")
        drain(merged)
    assert shown(merged) == ["r1 0", "r0 1", "r1 2"]
    assert merged.order == BY_ARRIVAL


def test_a_muted_rank_is_left_out_and_comes_back_in_its_place():
    ranks = [Told(*(f"{stamp(i * 3 + rank)} {i}" for i in range(50)), piece=7) for rank in range(3)]
    merged = Merged([(f"r{rank}", lines) for rank, lines in enumerate(ranks)])
    drain(merged)
    everything, restarts = shown(merged), merged.restarts
    assert len(everything) == 150
    merged.mute({"r1"})
    drain(merged)
    assert shown(merged) == [line for line in everything if not line.startswith("r1")]
    assert merged.restarts > restarts
    ranks[2].arrive("late 2")
    ranks[1].arrive("late 1")
    drain(merged)
    assert shown(merged)[-1] == "r2 late 2"
    assert merged.number("r1", 0) is None
    merged.mute(set())
    drain(merged)
    assert shown(merged)[:150] == everything
    assert set(shown(merged)[150:]) == {"r1 late 1", "r2 late 2"}
    assert merged.number("r1", 3) == everything.index(f"r1 {ranks[1].known[3]}")


def test_a_source_that_began_anew_starts_the_whole_anew():
    one = Told("a", "b")
    merged = Merged([("r0", one), ("r1", Told("c"))])
    drain(merged)
    one.known, one.coming, one.restarts = [], ["x"], 1
    drain(merged)
    assert merged.restarts == 1
    assert sorted(shown(merged)) == ["r0 x", "r1 c"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=12), min_size=1, max_size=5),
    st.booleans(),
    st.integers(1, 4),
    st.sets(st.integers(0, 4)),
)
def test_every_line_has_one_place_and_search_finds_it_in_that_order(ranks, timed, piece, muted):
    sources = [
        Told(
            *(f"{stamp(second) if timed else 'x'} {rank}.{i}" for i, second in enumerate(sorted(seconds))), piece=piece
        )
        for rank, seconds in enumerate(ranks)
    ]
    merged = Merged([(f"r{rank}", lines) for rank, lines in enumerate(sources)], {f"r{rank}" for rank in muted})
    drain(merged)
    lines = shown(merged)
    for rank, source in enumerate(sources):
        own = [line.partition(" ")[2] for line in lines if line.startswith(f"r{rank} ")]
        assert own == ([] if rank in muted else source.known)
    if timed:
        assert [line.split()[1:3] for line in lines] == sorted(line.split()[1:3] for line in lines)
    pattern = re.compile(rb"\.[02468]")
    wanted = [i for i, line in enumerate(lines) if pattern.search(line.encode().rpartition(b" ")[2])]
    for start in range(-1, len(lines) + 2):
        assert list(merged.search(pattern, start)) == [i for i in wanted if i >= start]
        assert list(merged.search(pattern, start, -1)) == [i for i in reversed(wanted) if i <= max(0, start)]
    for number in range(len(lines)):
        assert merged.number(merged.tag(number), merged.place(number).line) == number


def test_files_that_grow_while_they_are_merged_lose_nothing(tmp_path):
    files = [tmp_path / f"std_log_process_{rank}.txt" for rank in range(4)]
    for file in files:
        file.touch()
    merged = Merged([(f"r{rank}", LineIndex(file)) for rank, file in enumerate(files)])
    drain(merged)
    for turn in range(40):
        for rank, file in enumerate(files):
            if turn % (rank + 1) == 0:
                with file.open("ab") as log:
                    log.write(f"turn {turn}\n".encode() * 50 + (b"begun " if turn % 3 else b""))
        drain(merged)
    for rank, file in enumerate(files):
        own = [merged.raw(n) for n in range(merged.lines) if merged.tag(n) == f"r{rank}"]
        assert b"\n".join(own) + (b"\n" if file.read_bytes().endswith(b"\n") else b"") == file.read_bytes()
    merged.close()
