"""The log view: opening, following, scrolling, searching, and files that change under it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.screens.conditions import drawn, until
from textual.app import App, ComposeResult
from textual.events import MouseScrollUp

from footplate.widgets.log_read import update_interval
from footplate.widgets.log_view import LogView

CASES = Path(__file__).parents[3] / "shared" / "cases" / "logs"


class LogApp(App[None]):
    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path
        self.restarted = 0

    def compose(self) -> ComposeResult:
        yield LogView(self.path)

    def on_log_view_restarted(self, message: LogView.Restarted) -> None:
        self.restarted += 1

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)


def numbered(first: int, last: int) -> str:
    return "".join(f"step {number:06}\n" for number in range(first, last))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "std_log.txt"


async def test_nothing_yet_then_lines_as_they_come(path: Path) -> None:
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: drawn(app.view)[0] == "No output yet")
        path.write_text("epoch 0\nepo")
        await until(pilot, lambda: drawn(app.view)[:3] == ["epoch 0", "epo", ""])
        with path.open("a") as file:
            file.write("ch 1\n")
        await until(pilot, lambda: drawn(app.view)[1] == "epoch 1")
        await until(pilot, lambda: (app.view.total_lines, app.view.size_bytes) == (2, 16))


async def test_an_empty_file_says_so() -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    app = LogApp(CASES / "l19_empty.log")
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()
        assert drawn(app.view)[0] == "No output yet"


async def test_it_follows_until_somebody_scrolls_up_and_again_on_demand(path: Path) -> None:
    path.write_text(numbered(0, 1000))
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: drawn(app.view)[-1] == "step 000999")
        await pilot.press("k", "pageup")
        assert not app.view.follow
        assert drawn(app.view)[-1] == "step 000989"
        with path.open("a") as file:
            file.write(numbered(1000, 1100))
        await until(pilot, lambda: app.view.total_lines == 1100)
        assert app.view.new_lines == 100
        assert drawn(app.view)[-1] == "step 000989", "what is read stays put"
        await pilot.press("j")
        assert drawn(app.view)[-1] == "step 000990"
        await pilot.press("G")
        assert (app.view.follow, app.view.new_lines) == (True, 0)
        assert drawn(app.view)[-1] == "step 001099"
        with path.open("a") as file:
            file.write(numbered(1100, 1101))
        await until(pilot, lambda: drawn(app.view)[-1] == "step 001100")
        await pilot.press("g")
        assert drawn(app.view)[0] == "step 000000"
        await pilot.press("pagedown")
        assert drawn(app.view)[0] == "step 000009"
        await pilot.press("end", "down")
        assert app.view.follow


async def test_the_wheel_ends_following_too(path: Path) -> None:
    path.write_text(numbered(0, 1000))
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: drawn(app.view)[-1] == "step 000999")
        await pilot._post_mouse_events([MouseScrollUp], widget=app.view)
        await until(pilot, lambda: not app.view.follow)
        assert drawn(app.view)[-1] < "step 000999"


async def test_a_million_lines_open_and_both_ends_are_there(path: Path) -> None:
    path.write_text(numbered(0, 1_000_000))
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 1_000_000)
        await until(pilot, lambda: drawn(app.view)[-1] == "step 999999")
        await pilot.press("home")
        assert drawn(app.view)[0] == "step 000000"


async def test_a_long_line_is_cut_with_a_count_and_its_neighbours_are_there() -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    app = LogApp(CASES / "l08_one_mb_line.log")
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 3)
        lines = drawn(app.view)
        assert (lines[0], lines[2]) == ("short before", "short after")
        assert lines[1].startswith("weights 0.123456789,")
        assert lines[1].endswith("… +1.0 MB")


async def test_sideways_shows_the_rest_of_long_lines(path: Path) -> None:
    path.write_text("short\n" + "".join(f"{number:04} " for number in range(40)) + "\n")
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 2)
        assert drawn(app.view)[1].endswith("›")
        await pilot.press("right")
        assert drawn(app.view)[1].startswith("‹")
        assert "0015" not in drawn(app.view)[1][:3]
        await pilot.press(*["right"] * 50)
        assert drawn(app.view)[1].endswith("0039")
        await pilot.press(*["left"] * 50)
        assert drawn(app.view)[0] == "short"


async def test_search_marks_goes_round_and_counts(path: Path) -> None:
    lines = [f"step {number} {'ERROR here' if number % 100 == 50 else 'fine'}" for number in range(1000)]
    path.write_text("\n".join(lines) + "\n")
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 1000)
        await pilot.press("g")
        app.view.search("error")
        await until(pilot, lambda: app.view.match_info == "1 of 10")
        assert any(line.startswith("step 50 ERROR") for line in drawn(app.view))
        marked = [segment.text for y in range(10) for segment in app.view.render_line(y) if segment.text == "ERROR"]
        assert marked == ["ERROR"], "the match is a segment of its own, with its own style"
        await pilot.press("n", "n", "n")
        await until(pilot, lambda: app.view.match_info == "4 of 10")
        await pilot.press("N")
        await until(pilot, lambda: app.view.match_info == "3 of 10")
        await pilot.press(*["N"] * 3)
        await until(pilot, lambda: app.view.match_info == "10 of 10")
        await pilot.press("n")
        await until(pilot, lambda: app.view.match_info == "1 of 10")
        app.view.search("absent")
        await until(pilot, lambda: app.view.match_info == "no match")
        app.view.search("")
        assert app.view.match_info == ""


async def test_the_only_match_is_shown_again_after_scrolling_away(path: Path) -> None:
    path.write_text(numbered(0, 1000))
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 1000)
        app.view.search("step 000500")
        await until(pilot, lambda: app.view.match_info == "1 of 1")
        await pilot.press("G")
        assert drawn(app.view)[-1] == "step 000999"
        await pilot.press("n")
        await until(pilot, lambda: "step 000500" in drawn(app.view))


async def test_search_shows_a_match_far_to_the_right(path: Path) -> None:
    path.write_text("x" * 500 + "needle\n")
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 1)
        app.view.search("needle")
        await until(pilot, lambda: "needle" in drawn(app.view)[0])


async def test_markup_is_shown_as_it_is_and_brackets_can_be_searched() -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    app = LogApp(CASES / "l13_markup_brackets.log")
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 10)
        assert drawn(app.view)[:10] == (CASES / "l13_markup_brackets.log").read_text().splitlines()
        app.view.search("[")
        await until(pilot, lambda: app.view.match_info == "1 of 10")


@pytest.mark.parametrize("width", [80, 120])
async def test_lines_with_wide_letters_end_at_the_border(width: int) -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    app = LogApp(CASES / "l11_wide_chars.log")
    async with app.run_test(size=(width, 12)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 8)
        region = app.view.scrollable_content_region
        assert {app.view.render_line(y).cell_length for y in range(12)} == {region.width}


async def test_removed_sequences_leave_a_small_sign() -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    app = LogApp(CASES / "l05_osc52.log")
    async with app.run_test(size=(80, 12)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 5)
        assert drawn(app.view)[:5] == [
            "before",
            "after osc52 bel ^[",
            "after osc52 st ^[",
            "title ^[",
            "link text end ^[",
        ]
        assert app.view.text(0, 1) == "before\nafter osc52 bel"


async def test_a_restarted_file_is_shown_from_its_beginning_and_said(path: Path) -> None:
    path.write_text(numbered(0, 500))
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: app.view.total_lines == 500)
        await pilot.press("g")
        path.write_text("attempt two\n")
        await until(pilot, lambda: app.restarted == 1)
        await until(pilot, lambda: drawn(app.view)[:2] == ["attempt two", ""])
        assert (app.view.total_lines, app.view.follow, app.view.new_lines) == (1, True, 0)


async def test_another_file_can_be_opened_and_closed(path: Path) -> None:
    path.write_text("first file\n")
    other = path.with_name("std_log_process_1.txt")
    other.write_text("second file\n")
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: drawn(app.view)[0] == "first file")
        app.view.open(other)
        await until(pilot, lambda: drawn(app.view)[0] == "second file")
        app.view.close()
        await pilot.pause()
        assert drawn(app.view) == [""] * 10
        assert app.restarted == 0


async def test_a_log_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    app = LogApp(tmp_path)
    async with app.run_test(size=(80, 10)) as pilot:
        await until(pilot, lambda: drawn(app.view)[0] == "This log cannot be read: Is a directory.")


async def test_keys_work_while_a_real_process_writes(path: Path) -> None:
    code = (
        "import sys\n"
        "with open(sys.argv[1], 'w') as file:\n"
        "    for number in range(300_000): print(f'step {number:06}', file=file)\n"
    )
    app = LogApp(path)
    async with app.run_test(size=(80, 10)) as pilot:
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path))
        try:
            await until(pilot, lambda: app.view.total_lines > 100)
            await pilot.press("g", "pagedown")
            assert drawn(app.view)[0] == "step 000009"
            await until(pilot, lambda: app.view.total_lines == 300_000)
        finally:
            await writer.wait()
        await pilot.press("G")
        await until(pilot, lambda: drawn(app.view)[-1] == "step 299999")


def test_repaints_are_fewer_over_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert update_interval() == 0.1
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.2 22")
    assert update_interval() == 0.25


async def test_an_expression_that_backtracks_for_ever_is_given_up_and_keys_go_on(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(f"epoch {'x' * 200}\n" * 3)

    class Console(App[None]):
        def compose(self) -> ComposeResult:
            yield LogView(path)

    app = Console()
    async with app.run_test() as pilot:
        view = app.query_one(LogView)
        await until(pilot, lambda: view.total_lines == 3)
        view.search(r"(x|xx)+$(?<=q)")
        await pilot.press("g")  # answered while the search is under way
        await until(pilot, lambda: not view.follow)
        await until(pilot, lambda: "takes too long" in view.match_info)
        view.search("epoch")
        await until(pilot, lambda: view.match_info == "1 of 3")
