"""Copies of logs: the source's bytes whatever happens to source, disk and console; nothing twice, losses said."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from footplate.logs.exact import pause_after
from footplate.logs.index import LineIndex
from footplate.logs.spool import Kept, Spool, Spools, prune, remove
from footplate.logs.spool_state import read_state
from footplate.logs.spooled import SpooledLines
from footplate.operations.logs import spools
from footplate.workspace import LogChunk, NotAllowed, NotSignedIn, Throttled, Unreachable, WorkspaceError
from footplate.workspace.open import open_workspace

CASES = Path(__file__).parents[3] / "shared" / "cases" / "logs"
REFUSED = {
    "401": NotSignedIn("Sign in."),
    "403": NotAllowed("A firewall keeps this machine out."),
    "429": Throttled("Too many requests.", retry_after=1.0),
    "cable": Unreachable("The line is cut."),
}


class Source:
    """A log that is served, and what goes wrong with the next answers."""

    def __init__(self, data: bytes = b"", most: int = 1 << 20) -> None:
        self.data, self.most = data, most
        self.faults: list[str] = []
        self.grows: list[bytes] = []
        self.asked = 0
        self.was_asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def read_log(self, job: str, path: str, offset: int, limit: int) -> LogChunk:
        self.asked += 1
        self.was_asked.set()
        await self.go_on.wait()
        fault = self.faults.pop(0) if self.faults else ""
        if fault in REFUSED:
            raise REFUSED[fault]
        if fault == "slow" and self.grows:
            self.data += self.grows.pop(0)
        total = len(self.data)
        if offset > total:
            return LogChunk(0, self.data[:limit], total) if fault == "from 0" else LogChunk(offset, b"", total)
        data = self.data[offset : offset + min(limit, self.most)]
        if fault == "cut":
            data = data[: len(data) // 3]
        elif fault == "repeat":
            begin = offset // 2
            return LogChunk(begin, self.data[begin : begin + limit], total)
        elif fault == "repeat all":
            return LogChunk(0, self.data[: max(1, offset // 2)], total)
        elif fault == "shrink":
            return LogChunk(offset, b"", offset // 2)
        elif fault == "skip":
            return LogChunk(offset + 5, self.data[offset + 5 :], total)
        return LogChunk(offset, data, total)


class Killed(BaseException):
    """The console is killed here."""


@contextmanager
def killed_after(writes: int) -> Iterator[None]:
    """End whoever writes, in the middle of the write of that number: every way that a copy has of changing the disk counts."""
    left = writes
    pwrite, replace, touch, unlink = os.pwrite, Path.replace, Path.touch, Path.unlink

    def count() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    def writing(descriptor: int, data: bytes, offset: int) -> int:
        if count():
            pwrite(descriptor, data[: len(data) // 2], offset)
            raise Killed
        return pwrite(descriptor, data, offset)

    def before(act: Callable[..., object]) -> Callable[..., object]:
        def acting(*arguments: object, **names: object) -> object:
            if count():
                raise Killed
            return act(*arguments, **names)

        return acting

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", writing)
        patch.setattr(Path, "replace", before(replace))
        patch.setattr(Path, "touch", before(touch))
        patch.setattr(Path, "unlink", before(unlink))
        yield


def stamped(generation: int, data: bytes) -> bytes:
    """Bytes in which no stretch of eight could be another generation's: no log could tell them apart otherwise."""
    return b"".join(bytes([200 + generation]) + data[i : i + 7] for i in range(0, len(data), 7))


def copied(folder: Path) -> bytes:
    """The bytes of the log as it is now, from its copy."""
    state = read_state(folder)
    return b"".join((folder / piece.file).read_bytes() for piece in state.part) if state else b""


def scan_all(lines: SpooledLines | LineIndex) -> None:
    while lines.scan():
        pass


def shown(lines: SpooledLines | LineIndex) -> list[bytes]:
    return [lines.display(number)[0] for number in range(lines.lines)]


def spool_of(source: Source, folder: Path, kept: Kept | None = None) -> Spool:
    return Spool(source, "wren", "user_logs/std_log.txt", folder, kept)


async def until_still(spool: Spool) -> None:
    size, still = -1, 0
    while await spool.step():
        size, still = spool.size, still + 1 if spool.size == size else 0
        assert still < 100, "it asks on and on"


FAULTS = [*REFUSED, "cut", "cut", "repeat", "repeat all", "shrink", "skip", "slow", "from 0"]
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.binary(max_size=100) | st.text("ab\r\n\x1b[A", max_size=60).map(str.encode)),
        st.tuples(st.just("grow"), st.integers(1, 9).map(lambda lines: b"a line of the log\n" * lines * 8)),
        st.tuples(st.just("look"), st.lists(st.sampled_from(FAULTS), max_size=4)),
        st.tuples(st.just("look"), st.just([])),
        st.tuples(st.just("kill"), st.integers(1, 8)),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("replace"), st.binary(max_size=200)),
        st.tuples(st.just("shorten"), st.integers(0, 100)),
    ),
    max_size=14,
)


@settings(max_examples=25, deadline=None)
@given(EVENTS, st.sampled_from([40, 100, 1000, 1 << 20]))
def test_whatever_happens_the_copy_is_the_source(events, most):
    async def live() -> None:
        with tempfile.TemporaryDirectory() as place:
            folder, source, generation = Path(place) / "copy", Source(most=most), 0
            spool, watching = spool_of(source, folder), SpooledLines(folder, "log")
            for kind, what in events:
                if kind == "grow":
                    if what and b"\n" not in what:
                        what = stamped(generation, what)
                    source.data, source.grows = source.data + what, [b"more\n"]
                elif kind == "replace":
                    generation += 1
                    source.data = stamped(generation, what)
                elif kind == "shorten":
                    source.data = source.data[: max(0, len(source.data) - what)]
                elif kind == "restart":
                    spool = spool_of(source, folder)
                elif kind == "look":
                    source.faults = list(what)
                    with contextlib.suppress(WorkspaceError):
                        await spool.step()
                else:
                    source.faults = []
                    try:
                        with killed_after(what):
                            await until_still(spool)
                    except Killed:
                        spool = spool_of(source, folder)
                scan_all(watching)
            source.faults = []
            for _ in range(3):  # a log that was replaced is noticed at the next look
                await until_still(spool)
            assert copied(folder) == source.data
            assert (spool.size, spool.total, spool.fault) == (len(source.data), len(source.data), "")
            scan_all(watching)
            again, whole = SpooledLines(folder, "log"), LineIndex(folder / "whole")
            (folder / "whole").write_bytes(source.data)
            scan_all(again)
            scan_all(whole)
            assert shown(watching) == shown(again), "whoever watched sees what one sees who comes later"
            assert shown(again)[again.lines - whole.lines :] == shown(whole)
            for lines in (watching, again, whole):
                lines.close()

    asyncio.run(live())


COPYIST = """
import asyncio, sys
from pathlib import Path
from footplate.logs.spool import Spool
from footplate.operations.logs import spools
from footplate.workspace import LogChunk
class Source:
    async def read_log(self, job, path, offset, limit):
        with open(sys.argv[1], "rb") as file:
            file.seek(offset)
            data = file.read(min(limit, 5000))
        return LogChunk(offset, data, Path(sys.argv[1]).stat().st_size)
async def main():
    spool = Spool(Source(), "wren", "log", Path(sys.argv[2]))
    while await spool.step():
        print(spool.size, flush=True)
asyncio.run(main())
"""


def test_a_console_that_is_killed_for_real_is_gone_on_after(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(b"".join(b"line %07d of the log\n" % number for number in range(15_000)))
    command = [sys.executable, "-c", COPYIST, source, folder]
    sizes = [0]
    for kill_at in (50_000, 150_000, None):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
            assert console.stdout is not None
            first = int(console.stdout.readline())
            assert first >= sizes[-1], "no byte that was there is fetched again"
            for line in console.stdout:
                sizes.append(int(line))
                if kill_at is not None and sizes[-1] > kill_at:
                    console.send_signal(signal.SIGKILL)
                    break
    assert copied(folder) == source.read_bytes()
    assert len(read_state(folder).pieces) == 1


async def test_a_step_whose_caller_goes_away_is_not_taken_twice(tmp_path):
    source = Source(b"0123456789", most=4)
    spool = spool_of(source, tmp_path / "copy")
    assert await spool.step()
    source.go_on.clear()
    left = asyncio.create_task(spool.step())
    await asyncio.sleep(0)
    left.cancel()
    joined = asyncio.create_task(spool.step())
    await asyncio.sleep(0)
    source.go_on.set()
    await joined
    await until_still(spool)
    assert (copied(spool.folder), spool.total) == (b"0123456789", 10)


async def test_what_a_full_disk_took_of_a_piece_is_not_there_twice(tmp_path):
    source = Source(b"0123456789" * 1000)
    spool = spool_of(source, tmp_path / "copy")
    await spool.step()
    source.data += b"more" * 1000
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            await spool.step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot be copied" in spool.fault
    assert len(copied(spool.folder)) == 12_000
    await until_still(spool)
    assert copied(spool.folder) == source.data


async def test_a_log_that_began_anew_is_said_and_the_one_before_stays(tmp_path):
    source = Source(b"of the first\nits second line\n")
    spool = spool_of(source, tmp_path / "copy")
    lines = spool.lines()
    await until_still(spool)
    scan_all(lines)
    source.data = b"of another\n"
    await until_still(spool)
    scan_all(lines)
    texts = [text.decode() for text in shown(lines)]
    assert texts[:2] == ["of the first", "its second line"]
    assert re.fullmatch(r"── the log began anew here, \d\d:\d\d:\d\d ──", texts[2])
    assert texts[3:] == ["of another"]
    assert lines.restarts == 0, "what was seen keeps its place"
    assert [lines.raw(number) for number in range(4)] == [b"of the first", b"its second line", b"", b"of another"]
    assert list(lines.search(re.compile(b"of"), 0)) == [0, 3]
    assert list(lines.search(re.compile(b"of"), 3, -1)) == [3, 0]
    assert abs(lines.time(3) - datetime.now(UTC)) < timedelta(minutes=1), "it says no time, so when it arrived"
    assert lines.place(3) == ("user_logs/std_log.txt", 3)
    lines.close()


async def test_every_case_is_copied_to_the_byte_and_shown_as_it_is(tmp_path):
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    for case in sorted(CASES.glob("*.log")):
        source = Source(case.read_bytes(), most=max(17, case.stat().st_size // 9))
        spool = spool_of(source, tmp_path / case.name)
        lines, whole = spool.lines(), LineIndex(case)
        while await spool.step():
            scan_all(lines)
        scan_all(lines)
        scan_all(whole)
        assert copied(spool.folder) == source.data, case.name
        assert shown(lines) == shown(whole), case.name
        lines.close()
        whole.close()


async def test_one_wrong_answer_begins_nothing_anew(tmp_path):
    source = Source(b"the log\n" * 100)
    spool = spool_of(source, tmp_path / "copy")
    for fault in ("", "shrink", "repeat", "repeat all", "cut"):
        source.faults, source.data = [fault], source.data + b"more\n"
        await until_still(spool)
        await until_still(spool)
    assert len(read_state(spool.folder).pieces) == 1
    assert copied(spool.folder) == source.data


async def test_two_consoles_copy_a_log_once(tmp_path):
    source, other = Source(b"line\n" * 20_000, most=9000), Source(b"line\n" * 20_000, most=7000)
    one, two = spool_of(source, tmp_path / "copy"), spool_of(other, tmp_path / "copy")
    source.go_on.clear()
    slow = asyncio.create_task(one.step())
    await source.was_asked.wait()
    assert not await two.step()
    assert two.elsewhere
    assert not other.asked
    source.go_on.set()
    await slow
    while one.size < len(source.data) or two.size < len(source.data):
        await asyncio.gather(one.step(), two.step())
    assert copied(one.folder) == source.data
    other.data += b"more\n"
    await until_still(two)
    assert copied(one.folder) == other.data, "who waited goes on when the other does not look"


async def test_a_copy_is_bounded_and_says_what_is_not_kept(tmp_path):
    data = b"".join(b"line %06d of a long log\n" % number for number in range(40_000))
    spool = spool_of(Source(data, most=50_000), tmp_path / "logs" / "copy", Kept(one=400_000))
    lines = spool.lines()
    while await spool.step():
        scan_all(lines)
    scan_all(lines)
    held = sum(file.stat().st_size for file in spool.folder.glob("*.log"))
    assert 200_000 < held <= 400_000
    assert (spool.size, spool.total) == (len(data), len(data))
    first = lines.display(0)[0].decode()
    assert first.startswith("··· ")
    assert first.endswith("before this are no longer kept on this machine ···")
    numbers = [int(text.split()[1]) for text in shown(lines)[1:]]
    assert numbers == list(range(40_000 - len(numbers), 40_000)), "whole lines, and none missing"
    assert lines.restarts
    spool = spool_of(Source(data + b"one more\n"), spool.folder, Kept(one=400_000))
    await until_still(spool)
    scan_all(lines)
    assert lines.display(lines.lines - 1)[0] == b"one more"
    lines.close()


async def test_a_line_longer_than_a_piece_stays_whole(tmp_path):
    data = b"before\n" + b"x" * 100_000 + b"\nafter\n"
    spool = spool_of(Source(data, most=9000), tmp_path / "copy", Kept(one=8 * 64 * 1024))
    lines = spool.lines()
    while await spool.step():
        scan_all(lines)
    scan_all(lines)
    assert (b"x" * 100_000) in [lines.raw(number) for number in range(lines.lines)]
    lines.close()


async def test_all_copies_together_are_bounded_and_the_oldest_goes_first(tmp_path):
    for age, name in enumerate(("new", "old", "older")):
        copy = spool_of(Source(b"x" * 1000), tmp_path / name)
        await until_still(copy)
        os.utime(copy.folder, (1000 - age, 1000 - age))
    each = sum(file.stat().st_size for file in (tmp_path / "old").iterdir())
    prune(tmp_path, 2 * each)
    assert sorted(copy.name for copy in tmp_path.iterdir()) == ["new", "old"]


async def test_copies_outlive_their_console_and_go_with_their_job(tmp_path):
    source = Source(b"0123")
    spool = await Spools(source, tmp_path, "prod").of("wren", "user_logs/std_log.txt")
    await until_still(spool)
    assert spool.folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in spool.folder.iterdir()} == {0o600}
    assert "wren" not in spool.folder.name
    asked = source.asked
    again = await Spools(source, tmp_path, "prod").of("wren", "user_logs/std_log.txt")
    assert again.folder == spool.folder
    assert not await again.step()
    assert (again.size, source.asked) == (4, asked + 1)
    others = [await Spools(source, tmp_path, *one).of("wren", "log") for one in (("test",), ("prod",))]
    assert len({spool.folder, *(other.folder for other in others)}) == 3
    remove(tmp_path, "prod", ["finch"])
    assert spool.folder.exists()
    remove(tmp_path, "prod", ["wren"])
    assert not spool.folder.exists()
    assert not await again.step()
    assert copied(again.folder) == b"0123", "a copy that was removed is made again"


@pytest.mark.parametrize("damage", [b"", b"\0" * 8, b"other!!\n", None])
async def test_a_copy_that_the_disk_damaged_is_made_anew(tmp_path, damage):
    source = Source(b"the log\n")
    spool = spool_of(source, tmp_path / "copy")
    await until_still(spool)
    file = spool.folder / "1.log"
    file.unlink() if damage is None else file.write_bytes(damage)
    spool = spool_of(source, spool.folder)
    await until_still(spool)
    assert copied(spool.folder) == source.data


@pytest.mark.parametrize("text", ["", "{}", '{"version": 99}', "[1", '{"version": 1, "pieces": []}'])
async def test_a_state_that_cannot_be_read_is_no_state(tmp_path, text):
    source = Source(b"the log\n")
    spool = spool_of(source, tmp_path / "copy")
    await until_still(spool)
    (spool.folder / "state.json").write_text(text)
    spool = spool_of(source, spool.folder)
    await until_still(spool)
    assert copied(spool.folder) == source.data


async def test_faults_are_told_and_end_no_following(tmp_path):
    source, told = Source(b"first\n"), []
    source.faults = ["401", "", "403", "429", "cable", ""]
    spool, job_goes_on = spool_of(source, tmp_path / "copy"), True
    all_told = asyncio.Event()

    def tell() -> None:
        told.append(spool.fault)
        if source.faults:
            asyncio.get_running_loop().call_soon(hurry)
        elif spool.size < 13:
            source.data = b"first\nsecond\n"
        else:
            all_told.set()

    def hurry() -> None:
        if spool.next_look is None:
            asyncio.get_running_loop().call_soon(hurry)
        else:
            spool.look_now()

    following = asyncio.create_task(spool.follow(lambda: job_goes_on, tell, lambda: 0.01))
    await all_told.wait()
    job_goes_on = False
    await asyncio.wait_for(following, 30)
    assert told[:6] == [
        "Sign in.",
        "",
        "A firewall keeps this machine out.",
        "Too many requests.",
        "The line is cut.",
        "",
    ]
    assert copied(spool.folder) == b"first\nsecond\n"
    assert spool.checked is not None


def test_pauses_grow_and_are_as_long_as_a_service_asks():
    pauses = [pause_after(failures, REFUSED["cable"]) for failures in range(1, 13)]
    assert pauses[0] <= 2
    assert pauses[3] > pauses[0]
    assert 40 < pauses[-1] <= 60
    assert pause_after(1, Throttled("Busy.", retry_after=200.0)) == 200


async def test_a_view_reads_while_another_thread_copies(tmp_path):
    data = b"".join(b"line %06d\n" % number for number in range(60_000))
    spool = spool_of(Source(data, most=20_000), tmp_path / "copy")
    lines, stop = spool.lines(), threading.Event()
    torn: list[bytes] = []

    def look() -> None:
        while not stop.is_set():
            lines.scan()
            number = lines.lines - 2
            if number >= 0 and lines.complete(number) and lines.display(number)[0] != b"line %06d" % number:
                torn.append(lines.display(number)[0])

    viewer = threading.Thread(target=look)
    viewer.start()
    await until_still(spool)
    stop.set()
    viewer.join()
    scan_all(lines)
    assert torn == []
    assert lines.lines == 60_000
    lines.close()


def test_how_much_is_kept_is_a_setting(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("[logs]\nkeep_mb = 7\nkeep_file_mb = 3\n")
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("FOOTPLATE_LOGS_KEEP_FILE_MB", "2")
    assert spools(open_workspace("local"))._kept == Kept(one=2_000_000, all=7_000_000)
