"""The failure card on a job's overview: the cause first, and the way to its line in the logs."""

from __future__ import annotations

import os
import time

import pytest
from tests import metrics_template
from tests.screens.conditions import send, until
from tests.screens.failing import add_job, pair, rank_log, steps
from tests.screens.test_console_screens import table
from textual.widgets import Static

from footplate.app import FootplateApp
from footplate.logs.failure import Known, LogText, find
from footplate.screens.job import JobScreen
from footplate.widgets.failure_card import FailureCard, card_text

CAUSE = "ValueError: cannot decode 'data/class_b/007.png'"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    return tmp_path / "home"


def job_screen(app: FootplateApp) -> JobScreen:
    assert isinstance(app.screen, JobScreen)
    return app.screen


def chosen_line(app: FootplateApp) -> str:
    view = job_screen(app).log_pane.view
    return "" if view.cursor is None else view.text(view.cursor, view.cursor)


async def test_the_card_stands_first_and_leads_to_the_line_of_its_rank_and_among_all(home):
    pair(home, 4)
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.open_job("pair", "overview")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.query_one(FailureCard).card)
        card = app.screen.query_one(FailureCard)
        await until(pilot, lambda: card.has_focus)
        shown = str(card.render())
        assert shown.startswith(f"rank 1: {CAUSE}")
        assert "/job/train.py:30 in main" in shown
        assert "rank 1: ValueError" in str(app.screen.query_one("#facts", Static).render())
        assert "exit code" not in str(app.screen.query_one("#details", Static).render()), "it is not said twice"
        await send(pilot, "enter")
        await until(pilot, lambda: CAUSE in chosen_line(app))
        view, pane = job_screen(app).log_pane.view, job_screen(app).log_pane
        await until(pilot, lambda: view.cursor in view.visible_lines())
        assert pane.panel.lines is not None
        assert pane.panel.lines.place(view.cursor).file == rank_log(1)
        await send(pilot, "escape", "o")
        await until(pilot, lambda: card.has_focus)
        await send(pilot, "E")
        await until(
            pilot, lambda: pane.panel.lines is not None and pane.panel.lines.tag(0) and CAUSE in chosen_line(app)
        )
        assert pane.panel.lines.tag(view.cursor) == "r1"
        await send(pilot, "g", "e")
        await until(pilot, lambda: CAUSE in chosen_line(app) and view.cursor in view.visible_lines())


async def test_a_card_that_fits_no_screen_can_be_scrolled_and_text_from_logs_is_no_markup(home):
    logs = {rank_log(rank): "[bold]x[/] [@click=app.quit]y\n" * 3 for rank in range(16)}
    logs[rank_log(7)] += (
        'Traceback (most recent call last):\n  File "[/].py", line 1, in <module>\nValueError: [red]\x1b]52;c;eA==\x07no[/]\n'
    )
    add_job(home, "many", "Failed", logs, dict.fromkeys(range(16), 1), "rank 3: x (exit code 1)", ranks=16)
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.open_job("many", "overview")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.query_one(FailureCard).card)
        shown = str(app.screen.query_one(FailureCard).render())
        assert shown.startswith("rank 7: ValueError: [red]no[/]")
        assert "… and 8 ranks more" in shown
        overview = app.screen.query_one("#overview")
        await until(pilot, lambda: overview.max_scroll_y > 0)
        await send(pilot, "end")
        await until(pilot, lambda: overview.scroll_offset.y > 0)


async def test_a_cause_that_lies_deep_in_a_log_is_found_there_too(home):
    trouble = "Traceback (most recent call last):\n  File \"/job/a.py\", line 3, in f\nKeyError: 'lr'\n"
    folder = add_job(home, "deep", "Failed", {"user_logs/std_log.txt": ""}, {0: 1}, "KeyError: 'lr' (exit code 1)")
    (folder / "user_logs/std_log.txt").write_text(steps(0, 30_000) + trouble)
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        app.open_job("deep", "overview")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.query_one(FailureCard).card)
        await until(pilot, lambda: app.screen.query_one(FailureCard).has_focus)
        await send(pilot, "enter")
        await until(pilot, lambda: chosen_line(app) == "KeyError: 'lr'")
        assert job_screen(app).log_pane.view.cursor == 30_002


def test_the_card_s_lines_keep_to_the_width():
    text = "Traceback (most recent call last):\n" + f'  File "{"a" * 300}.py", line 3, in f\n' + "ValueError: x\n"
    card = find(
        [LogText(rank_log(rank), rank, text.encode()) for rank in range(3)], Known(3, 1, {0: 1, 1: 137, 2: 143})
    )
    lines = card_text(card, 60).plain.splitlines()
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("rank ")) :]
    assert any("137 SIGKILL" in line for line in table)
    assert all(len(line) <= 60 for line in lines if "aaaa" in line and not line.startswith("where"))


async def test_a_running_job_that_stands_still_says_so_on_its_screen_and_in_the_list(home):
    folder = add_job(
        home, "stuck", "Running", {rank_log(0): steps(0), rank_log(1): steps(1)}, ranks=2, age_seconds=4000
    )
    for log in folder.rglob("*.txt"):
        os.utime(log, (time.time() - 1500,) * 2)
    add_job(home, "busy", "Running", {"user_logs/std_log.txt": steps(0)}, age_seconds=4000)
    app = FootplateApp()
    async with app.run_test(size=(160, 30)) as pilot:
        await until(pilot, lambda: any("no progress for 25m" in row.cells[-1].text for row in table(app).rows))
        notes = {row.key: row.cells[-1].text for row in table(app).rows}
        assert notes["busy"] == ""
        assert len(app._notifications) == 1
        app.open_job("stuck", "logs")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None)
        assert "no progress for 25m" in str(app.screen.query_one("#facts", Static).render())
