"""The logs of a job: its files by folder and rank, all ranks interleaved, some of them muted, and what is remembered."""

from __future__ import annotations

import pytest
from tests import metrics_template
from tests.screens.conditions import send, until
from tests.screens.failing import add_job, rank_log, steps

from footplate.app import FootplateApp
from footplate.logs import names
from footplate.logs.merged import BY_TIME, Merged
from footplate.screens.job import JobScreen
from footplate.screens.job_log import LogPane
from footplate.widgets.file_tree import ALL, FileTree


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    return tmp_path / "home"


def four(home):
    logs = {rank_log(rank): steps(rank) for rank in range(4)}
    return add_job(
        home,
        "four",
        "Running",
        {**logs, "system_logs/supervisor.log": "4 ranks run.\n", "logs/mine.csv": "1\n"},
        ranks=4,
    )


def pane(app: FootplateApp) -> LogPane:
    return app.screen.query_one(LogPane)


async def opened(pilot, app: FootplateApp, lines: int = 40) -> LogPane:
    app.open_job("four", "logs")
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and pane(app).view.total_lines == lines)
    return pane(app)


def tags(view) -> set[str]:
    return {view.lines.tag(number) for number in range(view.total_lines)}


async def test_ranks_come_first_and_a_interleaves_them_by_their_times(home):
    folder = four(home)
    app = FootplateApp()
    async with app.run_test(size=(140, 40)) as pilot:
        logs = await opened(pilot, app)
        tree = app.screen.query_one(FileTree)
        assert [row.key for row in tree.rows] == [
            ALL, "#user_logs", *map(rank_log, range(4)), "#logs", "logs/mine.csv", "#system_logs", "system_logs/supervisor.log",
        ]  # fmt: skip
        assert tree.cursor_key == rank_log(0)
        await send(pilot, "a")
        await until(pilot, lambda: logs.view.total_lines == 160)
        merged = logs.panel.lines
        assert isinstance(merged, Merged)
        assert merged.order == BY_TIME
        assert [merged.tag(n) for n in range(8)] == ["r0", "r1", "r2", "r3"] * 2
        assert "by the lines' own time" in str(logs.panel._said)
        (folder / rank_log(4)).write_text(steps(4))
        await until(pilot, lambda: logs.view.total_lines == 200 and "r4" in tags(logs.view))
        assert "all 5 ranks" in str(logs.panel._said)


async def test_mute_and_solo_leave_ranks_out_keep_the_line_and_are_remembered(home):
    four(home)
    app = FootplateApp()
    async with app.run_test(size=(140, 40)) as pilot:
        logs = await opened(pilot, app)
        await send(pilot, "a")
        await until(pilot, lambda: logs.view.total_lines == 160)
        logs.view.go_to(81)  # a line of rank 1
        text = logs.view.text(81, 81)
        await send(pilot, "s")
        await until(pilot, lambda: logs.view.total_lines == 40 and tags(logs.view) == {"r1"})
        await until(
            pilot, lambda: logs.view.cursor is not None and logs.view.text(logs.view.cursor, logs.view.cursor) == text
        )
        await send(pilot, "s")
        await until(pilot, lambda: logs.view.total_lines == 160)
        await until(pilot, lambda: logs.view.cursor == 81)
        app.screen.query_one(FileTree).focus()
        app.screen.query_one(FileTree).move_to(rank_log(2))
        await until(pilot, lambda: app.screen.query_one(FileTree).has_focus)
        app.screen.query_one(FileTree).move_to(ALL)
        await send(pilot, "enter")
        logs.view.go_to(82)
        await send(pilot, "M")
        await until(pilot, lambda: tags(logs.view) == {"r0", "r1", "r3"} and logs.view.total_lines == 120)
        await until(pilot, lambda: any("muted" in row.cells[0].text for row in app.screen.query_one(FileTree).rows))
        await until(pilot, lambda: (home / "state" / "chosen-logs.json").exists())
        await until(pilot, lambda: "r2" in (home / "state" / "chosen-logs.json").read_text())
    again = FootplateApp()
    async with again.run_test(size=(140, 40)) as pilot:
        logs = await opened(pilot, again, 120)
        assert tags(logs.view) == {"r0", "r1", "r3"}


async def test_the_next_rank_is_shown_at_the_same_moment_and_the_system_log_is_one_key_away(home):
    four(home)
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        logs = await opened(pilot, app)
        logs.view.go_to(17)
        await send(pilot, "right_square_bracket")
        await until(pilot, lambda: logs.panel.lines is not None and logs.panel.lines.place(0).file == rank_log(1))
        await until(pilot, lambda: logs.view.cursor == 17)
        await send(pilot, "i")
        await until(pilot, lambda: logs.view.total_lines == 1 and "4 ranks run" in logs.view.text(0, 0))
        await send(pilot, "i")
        await until(pilot, lambda: logs.view.total_lines == 40)
        assert logs.panel.lines is not None
        assert logs.panel.lines.place(0).file == rank_log(1)
        tree = app.screen.query_one(FileTree)
        assert not tree.display
        await send(pilot, "f")
        await until(pilot, lambda: tree.display and tree.has_focus)
        await send(pilot, "down", "enter")
        await until(pilot, lambda: not tree.display and logs.panel.lines.place(0).file == rank_log(2))
        assert logs.view.has_focus
        await send(pilot, "f", "escape")
        await until(pilot, lambda: not tree.display and isinstance(app.screen, JobScreen))


def test_paths_tell_ranks_attempts_and_groups():
    assert [names.rank_of(path) for path in (
        "user_logs/std_log.txt", "user_logs/std_log_process_03.txt", "azureml-logs/70_driver_log_2.txt",
        "logs/run/attempt_1/5/stderr.log", "outputs/rank_7.log",
    )] == [None, 3, 2, 5, 7]  # fmt: skip
    paths = [
        "user_logs/retry_1/std_log_process_1.txt",
        "user_logs/retry_1/std_log_process_0.txt",
        "user_logs/std_log_process_0.txt",
    ]
    assert names.rank_files(paths) == paths[1::-1]
    assert names.attempt_of(paths[0]) == 1
    assert names.label_of("azureml-logs/20_image_build_log.txt") == "image build"
