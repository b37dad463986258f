"""The log with all that is done to it: filters, levels, windows, goals, copies, files, marks, and what is said above it."""

from __future__ import annotations

import asyncio
import base64
import shlex
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from tests.screens.conditions import drawn, until
from textual import events
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input, Static

from footplate import clipboard
from footplate.actions import actions
from footplate.base_app import BaseApp
from footplate.logs.index import LineIndex
from footplate.logs.lines import Place
from footplate.screens.log_line import LineDialog
from footplate.widgets import log_find
from footplate.widgets.log_panel import LogPanel
from footplate.widgets.log_state import SourceState
from footplate.widgets.log_view import LogView

CASES = Path(__file__).parents[3] / "shared" / "cases" / "logs"
SECRET = "AccountKey=Zm9vdHBsYXRlIHNlY3JldCBrZXk=="


class PanelApp(BaseApp[None]):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("above")
        yield LogPanel()
        yield Static("below")

    def copy_to_clipboard(self, text: str) -> None:
        self.sent.append(text)

    @property
    def panel(self) -> LogPanel:
        return self.query_one(LogPanel)

    @property
    def view(self) -> LogView:
        return self.panel.view

    @property
    def said(self) -> str:
        return str(self.query_one("#log-state", Static).render())

    @property
    def remark(self) -> str:
        return str(self.query_one("#remark", Static).render())

    @property
    def notices(self) -> list[str]:
        return [notice.message for notice in self._notifications]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "std_log.txt"


@asynccontextmanager
async def showing(
    path: Path, size: tuple[int, int] = (80, 14), marks: str = ""
) -> AsyncIterator[tuple[PanelApp, Pilot[None]]]:
    app = PanelApp()
    async with app.run_test(size=size) as pilot:
        app.panel.show(LineIndex(path), "user_logs/std_log.txt", marks)
        app.view.focus()
        yield app, pilot


async def type_in(pilot: Pilot[None], key: str, text: str) -> None:
    """Open a line by its key, type, and send it off."""
    await pilot.press(key)
    pilot.app.query_one(Input).value = text
    await pilot.press("enter")


def training(lines: int) -> str:
    """A log that goes on for a second a line, with a warning each 50 lines and an error each 100."""
    begin = datetime(2026, 12, 1, 10, tzinfo=UTC)
    levels = ("ERROR", "INFO", "WARNING", "INFO")
    return "".join(
        f"{begin + timedelta(seconds=n):%Y-%m-%dT%H:%M:%SZ} {levels[n % 100 // 25] if n % 25 == 0 else 'INFO'} step {n:05}\n"
        for n in range(lines)
    )


async def test_which_log_how_much_of_it_and_when_it_was_looked_is_always_said_at_80_columns(path: Path) -> None:
    path.write_text(training(1000))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 1000)
        app.panel.state = SourceState(total=200_000, checked=monotonic())
        await until(pilot, lambda: "KB of 200 KB" in app.said)
        assert app.said.startswith("● following  user_logs/std_log.txt  ")
        assert app.said.endswith("checked just now")
        await pilot.press("k", "w")
        with path.open("a") as file:
            file.write(training(7))
        await until(pilot, lambda: "paused, 7 new  G follows" in app.said)
        assert app.said.splitlines()[1] == "wrapped"
        app.panel.state = SourceState(total=200_000, checked=monotonic() - 95, fault="The service asks to wait 30 s.")
        await until(pilot, lambda: "The service asks to wait 30 s." in app.said)
        first, fault, force = app.said.splitlines()
        assert (fault, force) == ("The service asks to wait 30 s.", "wrapped")
        assert first.endswith("1m35s ago")
        assert len(first) <= 78
        assert "step 00990" in "".join(drawn(app.view)), "the log stays"
        app.panel.state = SourceState(active=False)
        await pilot.press("G")
        await until(pilot, lambda: app.said.startswith("at the end  user_logs/std_log.txt  all 37.3 KB"))


async def test_no_output_yet_says_when_it_was_looked_and_after_a_minute_that_python_may_hold_it_back(
    path: Path,
) -> None:
    path.touch()
    async with showing(path) as (app, pilot):
        app.panel.state = SourceState(checked=monotonic() - 5, note="It waits for a node.")
        await until(pilot, lambda: drawn(app.view)[0].startswith("No output yet, last checked "))
        assert drawn(app.view)[0].endswith("s ago. It waits for a node.")
        assert "python -u" not in "".join(drawn(app.view))
        app.panel.state = SourceState(checked=monotonic(), since=datetime.now(UTC) - timedelta(minutes=3))
        await until(pilot, lambda: "PYTHONUNBUFFERED=1" in " ".join(drawn(app.view)))
        app.panel.state = SourceState(active=False)
        await until(pilot, lambda: drawn(app.view)[0] == "This log is empty.")


async def test_a_filter_with_context_levels_and_a_window_and_back_at_the_same_line(path: Path) -> None:
    path.write_text(training(4000))
    async with showing(path) as (app, pilot):
        app.panel.state = SourceState(active=False)
        await until(pilot, lambda: app.view.total_lines == 4000)
        await type_in(pilot, "ctrl+g", "2001")
        await until(pilot, lambda: app.view.cursor == 2000)
        await type_in(pilot, "ampersand", "ERROR")
        await until(pilot, lambda: app.view.total_lines == 40)
        assert "step 02000" in "\n".join(drawn(app.view)), "what was read stays in sight"
        assert "& ERROR · of 4,000 lines" in app.said
        await pilot.press("plus")
        await until(
            pilot, lambda: app.view.total_lines == 40 * 3 - 1 + 39
        )  # the first has no line before; 39 marks between
        assert any("··· 97 lines ···" in line for line in drawn(app.view))
        await pilot.press("minus")
        await until(pilot, lambda: app.view.total_lines == 40)
        await type_in(pilot, "ampersand", "!INFO")
        await until(pilot, lambda: app.view.total_lines == 80)
        await type_in(pilot, "ampersand", "")
        await until(pilot, lambda: app.view.total_lines == 4000)
        assert "step 02000" in "\n".join(drawn(app.view))
        await pilot.press("L", "L")
        await until(pilot, lambda: app.view.total_lines == 80)
        assert "level warning up" in app.said
        await pilot.press("L", "I")  # errors of the last minute before the log's end
        await until(pilot, lambda: "No line is left" in drawn(app.view)[0])
        await pilot.press("I")
        await until(pilot, lambda: app.view.total_lines == 3)
        assert "(5 min)" in app.said
        await pilot.press("escape")
        await until(pilot, lambda: app.view.total_lines == 4000)


async def test_a_filter_goes_on_with_the_log(path: Path) -> None:
    path.write_text(training(200))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 200)
        await type_in(pilot, "ampersand", "ERROR")
        await until(pilot, lambda: app.view.total_lines == 2)
        with path.open("a") as file:
            file.write("ERROR at last\n")
        await until(pilot, lambda: drawn(app.view)[2] == "ERROR at last")


async def test_search_counts_through_all_says_a_bad_expression_and_is_kept_while_the_log_grows(path: Path) -> None:
    path.write_text(training(3000))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 3000)
        await pilot.press("g")
        await type_in(pilot, "slash", r"step \d+50$")
        await until(pilot, lambda: r"/step \d+50$/ 1 of 30" in app.said)
        await pilot.press("n", "n")
        await until(pilot, lambda: "3 of 30" in app.said)
        with path.open("a") as file:
            file.write("step 9950\n")
        await until(pilot, lambda: "3 of 31" in app.said)
        await pilot.press("N", "N", "N")
        await until(pilot, lambda: "31 of 31" in app.said)
        assert drawn(app.view)[-1] == "step 9950"
        await type_in(pilot, "slash", "step (")
        await until(pilot, lambda: any("is no regular expression (missing )" in said for said in app.notices))
        await until(pilot, lambda: "no match" in app.said)
        await pilot.press("escape")
        await until(pilot, lambda: "no match" not in app.said)


@pytest.mark.parametrize(
    ("goal", "line"),
    [
        ("1,200", 1199),
        ("50%", 1000),
        ("2026-12-01 10:10:00Z", 600),
        ("-5m", 1700),
        ("2026-12-01T10:00:00.5Z", None),
        ("tea time", None),
        ("5000", None),
    ],
)
async def test_a_line_a_part_or_a_time_can_be_gone_to(path: Path, goal: str, line: int | None) -> None:
    path.write_text(training(2001))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 2001)
        await type_in(pilot, "ctrl+g", goal)
        if line is None:
            await until(pilot, lambda: app.remark.startswith(("A line (1200)", "There are 2,001 lines")))
            await pilot.press("escape")
            assert app.focused is app.view
        else:
            await until(pilot, lambda: app.view.cursor == line)
            assert line in app.view.visible_lines()
            assert not app.view.follow


async def test_a_line_a_selection_and_everything_are_copied_with_secrets_masked_and_it_is_said_how(
    home: Path, path: Path
) -> None:
    path.write_text("".join(f"line {n}\n" for n in range(50)) + f"{SECRET} sig=0.93\n" + f"{'x' * 300} end\n")
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 52)
        assert "Zm9v" not in "\n".join(drawn(app.view))
        await pilot.press("g", "v", "y")
        await until(pilot, lambda: app.sent == ["line 0\n"])
        assert app.view.cursor is None
        await pilot.press("v", "j", "v", "j", "j")
        await until(pilot, lambda: "3 selected" in app.said)
        await pilot.press("y")
        await until(pilot, lambda: app.sent[1:] == ["line 1\nline 2\nline 3\n"])
        await pilot.press("G", "Y")
        await until(pilot, lambda: len(app.sent) == 3)
        assert app.sent[2].splitlines()[50:] == ["AccountKey=*** sig=0.93", f"{'x' * 300} end"]
        file = home / "state" / "copied.txt"
        assert file.read_text() == app.sent[2]
        assert file.stat().st_mode & 0o777 == 0o600
        assert app.notices[-1].endswith(f"and into {file}. Secrets in 1 line are masked.")
        await pilot.press("V", "Y")
        await until(pilot, lambda: len(app.sent) == 4)
        assert SECRET in app.sent[3]
        assert "Raw: secrets are not masked." in app.notices[-1]


async def test_what_is_too_large_for_the_terminal_is_kept_in_the_file_alone_and_whole(
    home: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOOTPLATE_CLIPBOARD_MAX_KB", "1")
    path.write_text("w" * 1_048_576 + "\nshort after\n")
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 2)
        await pilot.press("g", "v", "y")
        await until(pilot, lambda: any("went into" in said for said in app.notices))
        assert app.sent == []
        assert (home / "state" / "copied.txt").read_text() == "w" * 1_048_576 + "\n"
        assert "The terminal's clipboard gets at most 1.0 kB" in app.notices[-1]


async def test_saving_is_exact_and_never_overwrites_unasked(tmp_path: Path, path: Path) -> None:
    data = b"ok\r\n\x1b]0;t\x07 caf\xe9 \xff\x00 " + SECRET.encode() + b"\nno newline at the end"
    path.write_bytes(data)
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 3)
        await type_in(pilot, "S", "copy.log")
        await until(pilot, lambda: (tmp_path / "copy.log").exists() and app.focused is app.view)
        assert (tmp_path / "copy.log").read_bytes() == data
        assert "every byte, secrets too" in app.notices[-1]
        taken = tmp_path / "taken.log"
        taken.write_text("mine")
        await type_in(pilot, "S", "taken.log")
        await until(pilot, lambda: app.remark.startswith("That file is there"))
        assert taken.read_text() == "mine"
        await pilot.press("enter")
        await until(pilot, lambda: taken.read_bytes() == data)
        await type_in(pilot, "ampersand", "newline")
        await until(pilot, lambda: app.view.total_lines == 1)
        await type_in(pilot, "S", "part.log")
        await until(pilot, lambda: (tmp_path / "part.log").exists())
        assert (tmp_path / "part.log").read_bytes() == b"no newline at the end"
        await type_in(pilot, "S", "none/there.log")
        await until(pilot, lambda: app.remark == "It cannot be written: No such file or directory.")
        assert sorted(one.name for one in tmp_path.glob(".*")) == []


async def test_marks_are_kept_with_the_job_also_under_a_filter(path: Path) -> None:
    path.write_text(training(300))
    async with showing(path, marks="local/birds") as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 300)
        for goal in ("101", "201"):
            await type_in(pilot, "ctrl+g", goal)
            await until(pilot, lambda goal=goal: app.view.cursor == int(goal) - 1)
            await pilot.press("b")
            await until(pilot, lambda goal=goal: f"{1 if goal == '101' else 2} marked" in app.said)
        await pilot.press("escape")
        await until(pilot, lambda: any(line.startswith("● 2026") for line in drawn(app.view)))
    async with showing(path, marks="local/birds") as (app, pilot):
        await until(pilot, lambda: "2 marked" in app.said and app.view.total_lines == 300)
        await pilot.press("g", "apostrophe")
        await until(pilot, lambda: app.view.cursor == 100)
        await pilot.press("escape")
        await type_in(pilot, "ampersand", "ERROR")
        await until(pilot, lambda: app.view.total_lines == 3)
        await pilot.press("g", "apostrophe", "apostrophe")
        await until(pilot, lambda: app.view.cursor == 2)
        await pilot.press("b")
        await until(pilot, lambda: "1 marked" in app.said)
    async with showing(path, marks="local/other") as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 300)
        assert "marked" not in app.said


async def test_a_line_that_is_cut_opens_whole_in_a_window_of_its_own() -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    async with showing(CASES / "l08_one_mb_line.log") as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 3)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LineDialog))
        view = app.screen.query_one(LogView)
        await until(pilot, lambda: view.total_lines and drawn(view)[0].startswith("weights 0.123456789"))
        width = view.scrollable_content_region.width
        await pilot.press("G")
        await until(pilot, lambda: view.max_scroll_y and view.scroll_offset.y > 0)
        whole = (CASES / "l08_one_mb_line.log").read_text().splitlines()[1]
        assert drawn(view)[-1].strip() == whole[-(len(whole) % (width * 50) % width or width) :].strip()
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.query(LogPanel))


async def test_wrapped_lines_scroll_by_rows_and_end_at_the_last_row(path: Path) -> None:
    text = "".join(f"{n:04}" for n in range(100))
    path.write_text("first\n" + text + "\n" + "漢字" * 60 + "x\nlast\n")
    async with showing(path, (60, 9)) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 4)
        await pilot.press("w")
        await until(pilot, lambda: "wrapped" in app.said and drawn(app.view)[-1] == "last")
        height, width = app.view.scrollable_content_region.height, app.view.scrollable_content_region.width
        await pilot.press("g")
        await until(pilot, lambda: drawn(app.view)[:2] == ["first", text[:width]])
        seen = drawn(app.view)
        for _ in range(40):
            await pilot.press("j")
            seen.append(drawn(app.view)[-1])
            if seen[-1] == "last":
                break
        else:
            pytest.fail("the end was not reached")
        rows = [text[at : at + width] for at in range(0, 400, width)]
        assert seen[: 1 + len(rows)] == ["first", *rows]
        wide = "".join(seen[1 + len(rows) : -1])
        assert wide == "漢字" * 60 + "x", "no wide letter is cut or lost"
        await pilot.press("k", "k")
        assert drawn(app.view)[0] == seen[len(seen) - height - 2]
        assert not app.view.follow
        await pilot.press("G")
        assert drawn(app.view)[-1] == "last"
        with path.open("a") as file:
            file.write("y" * 200 + "\n")
        await until(pilot, lambda: drawn(app.view)[-1] == "y" * (200 % width))


async def test_wrapping_lays_out_only_what_is_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(("z" * 300 + "\n") * 200_000)
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 200_000)
        painted: list[int] = []
        paint = app.view._painter._paint
        monkeypatch.setattr(app.view._painter, "_paint", lambda number: painted.append(number) or paint(number))
        await pilot.press("w", "g", "pagedown", "G")
        await until(pilot, lambda: app.view.follow and app.view.visible_lines().stop == 200_000)
        assert len(painted) < 200


async def test_the_raw_view_shows_each_byte_and_says_that_secrets_are_shown(path: Path) -> None:
    path.write_bytes(b"\x1b[31mred\x1b[0m \xff\x07 " + SECRET.encode() + b"\r 50%\r100%\n")
    async with showing(path, (120, 10)) as (app, pilot):
        await until(pilot, lambda: drawn(app.view)[0].startswith("100%"))
        await pilot.press("V")
        await until(pilot, lambda: drawn(app.view)[0].startswith("\\e[31mred"))
        assert drawn(app.view)[0] == f"\\e[31mred\\e[0m \\xff\\x07 {SECRET}\\r 50%\\r100%"
        assert "raw: secrets are shown" in app.said


async def test_times_stand_before_the_lines_and_levels_are_coloured(path: Path) -> None:
    today = datetime.now().astimezone().replace(hour=9, minute=30, second=5, microsecond=0)
    path.write_text(f"{today.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} ERROR it broke\nWARNING: no time of its own\nplain\n")
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 3)
        styles = [next(iter(app.view.render_line(y))).style for y in range(3)]
        assert len({style.color for style in styles if style}) == 3, "error, warning and the rest"
        await pilot.press("T")
        await until(pilot, lambda: drawn(app.view)[0].startswith("09:30:05    20"))


async def test_the_log_takes_the_whole_screen_and_escape_goes_one_step_back_each(path: Path) -> None:
    path.write_text(training(300))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 300)
        height = app.panel.size.height
        await pilot.press("z")
        await until(pilot, lambda: app.panel.size.height == height + 2)
        await type_in(pilot, "ampersand", "INFO")
        await type_in(pilot, "slash", "step")
        await until(pilot, lambda: "of 294" in app.said)
        await pilot.press("v", "escape")
        assert app.view.cursor is None
        await pilot.press("escape")
        await until(pilot, lambda: app.panel.size.height == height)
        await pilot.press("escape")
        assert app.view.match_info == ""
        await pilot.press("escape")
        await until(pilot, lambda: app.view.total_lines == 300)
        assert app.panel.check_action("step_back", ()) is False, "the next one is the screen's"


async def test_keys_that_come_together_with_the_one_that_opens_the_line_are_typed_into_it(path: Path) -> None:
    path.write_text(training(300))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 300)
        for key in ("slash", *"wyRn"):  # all of them keys of the log too
            app.post_message(events.Key(key, "/" if key == "slash" else key))
        await until(pilot, lambda: app.query_one(Input).value == "wyRn")
        assert (app.view.wrap, app.view.raw, app.sent) == (False, False, [])


async def test_matches_beyond_any_use_are_counted_no_further_and_still_gone_through(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_find, "MOST_COUNTED", 1000)
    path.write_text(training(3000))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 3000)
        await pilot.press("g")
        await type_in(pilot, "slash", "step")
        await until(pilot, lambda: "1 of more than 1,000" in app.said)
        await pilot.press("N")
        await until(pilot, lambda: "line 3,000" in app.said and "step 02999" in drawn(app.view)[-1])


async def test_a_log_that_began_anew_says_so_and_is_shown_from_there(path: Path) -> None:
    path.write_text(training(300))
    async with showing(path) as (app, pilot):
        await until(pilot, lambda: app.view.total_lines == 300)
        path.write_text("attempt two\n")
        await until(pilot, lambda: drawn(app.view)[0] == "attempt two")
        assert app.notices == ["This log began anew: it is shown from its new beginning."]


async def test_a_place_is_gone_to_as_soon_as_it_is_there(path: Path) -> None:
    path.write_text(training(50))
    app = PanelApp()
    async with app.run_test(size=(80, 14)) as pilot:
        lines = LineIndex(path)
        app.panel.show(lines, "std_log.txt")
        app.panel.go_to(Place(lines.place(0).file, 59))
        await until(pilot, lambda: app.view.total_lines == 50)
        assert app.view.cursor is None
        with path.open("a") as file:
            file.write(training(100)[: 27 * 40])
        await until(pilot, lambda: app.view.cursor == 59)


async def test_keys_answer_while_a_filter_and_a_search_look_through_a_growing_log(path: Path) -> None:
    path.write_text("x" * 60 + "\n")
    stop = threading.Event()

    def write() -> None:
        with path.open("a") as file:
            while not stop.wait(0.005):
                file.write(("INFO step " + "x" * 60 + "\n") * 500)
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        async with showing(path) as (app, pilot):
            await type_in(pilot, "ampersand", "!(a+)+$")
            await type_in(pilot, "slash", "step")
            await until(pilot, lambda: app.view.total_lines > 20_000)
            await pilot.press("g", "pagedown")
            assert app.view.scroll_offset.y == app.view.scrollable_content_region.height - 1
            assert not app.view.follow
    finally:
        stop.set()
        await asyncio.to_thread(writer.join)


def test_no_key_of_the_log_means_two_things_or_is_one_of_the_job_screen() -> None:
    keys = [key for action in actions("log") for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
    taken = {
        "o",
        "l",
        "m",
        "t",
        "c",
        "x",
        "q",
        "left_square_bracket",
        "right_square_bracket",
        "a",
        "s",
        "e",
        "M",
        *"123456",
    }
    assert not taken & set(keys)


def test_what_reaches_a_terminal_gets_through_tmux_and_screen(tmp_path: Path) -> None:
    coded = base64.b64encode("é\n".encode()).decode()
    plain = f"\x1b]52;c;{coded}\x07"
    assert clipboard.sequence("é\n", {"TERM": "xterm-256color"}) == plain
    doubled = plain.replace("\x1b", "\x1b\x1b")
    for environ in ({"TMUX": "/tmp/x,1,0", "TERM": "screen"}, {"TERM": "tmux-256color"}):
        assert clipboard.sequence("é\n", environ) == f"{plain}\x1bPtmux;{doubled}\x1b\\"
    through = clipboard.sequence("x" * 2000, {"STY": "1.pts", "TERM": "screen"})
    pieces = through.split("\x1b\\")
    assert all(piece.startswith("\x1bP") and len(piece) < 256 for piece in pieces[:-1])
    joined = "".join(piece.removeprefix("\x1bP") for piece in pieces)
    assert base64.b64decode(joined.removeprefix("\x1b]52;c;").removesuffix("\x07")) == b"x" * 2000


def test_a_folder_that_cannot_be_written_still_lets_the_terminal_have_the_text(home: Path) -> None:
    home.write_text("a file where the folder should be")
    copied = clipboard.keep(["one\n", "two\n"])
    assert (copied.text, copied.file) == ("one\ntwo\n", None)
    assert "into no file. No file could be written: " in clipboard.said(copied, "2 lines", {})


def test_pager_is_opened_at_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from footplate.widgets import log_files
    from footplate.workspace.errors import Invalid

    monkeypatch.setenv("PAGER", shlex.join([sys.executable, "-X", "a b"]))
    assert log_files.pager() == [sys.executable, "-X", "a b"]
    monkeypatch.setenv("PAGER", "less '")
    with pytest.raises(Invalid, match="is no command"):
        log_files.pager()
