"""The console on an Azure workspace, driven by keys against the local server."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.screens.conditions import until
from tests.wire import JobPlan, faults
from tests.wire.workspaces import TENANT
from textual import events
from textual.widgets import Static

from footplate.app import FootplateApp
from footplate.azure.workspace import AzureWorkspace
from footplate.screens.job import JobScreen
from footplate.screens.job_metrics import MetricsPane
from footplate.screens.listing import ListScreen
from footplate.screens.sign_in import SignInDialog
from footplate.widgets.chrome import KeyLine, TopLine
from footplate.widgets.log_view import LogView
from footplate.widgets.virtual_table import VirtualTable

LOG = "user_logs/std_log.txt"


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    """No wait between two looks, and no other sign-in than the server's."""
    monkeypatch.setattr(AzureWorkspace, "poll_seconds", 0.05)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
    monkeypatch.setenv("PATH", str(tmp_path))


def lines(first: int, last: int) -> bytes:
    return b"".join(b"epoch %04d loss 0.1\n" % number for number in range(first, last))


def state(app: FootplateApp) -> str:
    return str(app.screen.query_one("#log-state", Static).render())


def log(app: FootplateApp) -> LogView:
    return app.screen.query_one(LogView)


def blob_requests(wire) -> int:
    return sum("std_log" in seen.path and seen.path.startswith("/blob/") for seen in wire.requests)


async def open_log(app: FootplateApp, pilot, job: str = "wren") -> None:
    app.open_job(job, "logs")
    await until(pilot, lambda: isinstance(app.screen, JobScreen))
    await until(pilot, lambda: log(app).total_lines)


async def test_a_log_appears_grows_and_survives_an_old_address_and_a_replaced_file(wire, config):
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, lines(0, 300))
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await open_log(app, pilot)
        await until(pilot, lambda: log(app).total_lines == 300)
        assert log(app).text(299, 299) == "epoch 0299 loss 0.1"
        wire.expire_addresses()
        wire.faults.add("GET", "/details", faults.fail("token"))
        wire.seed.log("wren", LOG, lines(0, 350))
        await until(pilot, lambda: log(app).total_lines == 350)
        assert whole(log(app)) == lines(0, 350)
        assert "350 lines" in state(app)
        wire.replace_log("wren", LOG, lines(500, 600))
        await until(pilot, lambda: log(app).total_lines == 451)
        assert "began anew" in log(app).text(350, 350)
        assert log(app).text(351, 351) == "epoch 0500 loss 0.1"


def whole(view: LogView) -> bytes:
    """All that is shown, byte for byte."""
    assert view.lines is not None
    return b"".join(view.lines.raw(number) + b"\n" for number in range(view.total_lines))


async def test_a_log_is_read_only_while_it_is_in_sight_and_can_grow(wire, config):
    wire.seed.job("wren", "Running")
    wire.seed.log("wren", LOG, lines(0, 10))
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await open_log(app, pilot)
        await until(pilot, lambda: blob_requests(wire) > 3)  # again and again
        await pilot.press("o")
        await until(pilot, lambda: not busy(app))
        seen = blob_requests(wire)
        wire.seed.log("wren", LOG, lines(0, 20))
        look = wire.requests[-1]
        await until(pilot, lambda: wire.requests[-1] is not look)  # the job itself is looked at all the same
        assert blob_requests(wire) == seen
        await pilot.press("l")
        await until(pilot, lambda: log(app).total_lines == 20)
        wire.state.jobs["wren"]["properties"]["status"] = wire.state.runs["wren"]["status"] = "Completed"
        wire.seed.log("wren", LOG, lines(0, 30))
        await until(pilot, lambda: not busy(app))
        await until(pilot, lambda: log(app).total_lines == 30)


def busy(app: FootplateApp) -> bool:
    """Whether the log is still being copied."""
    return any(worker.group == "log" and worker.is_running for worker in app.screen.workers)


async def test_a_log_behind_a_firewall_says_so_in_its_line(wire, config):
    wire.seed.job("wren", "Completed")
    wire.seed.log("wren", LOG, lines(0, 10))
    wire.faults.add("GET", "/blob/.*", faults.fail("firewall"), times=None)
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        app.open_job("wren", "logs")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and "firewall" in state(app))
        await until(pilot, lambda: not busy(app))
        assert blob_requests(wire) == 1


async def test_the_log_of_each_rank_is_a_copy_of_its_own(wire, config):
    wire.seed.job("many", "Completed")
    for rank in range(2):
        wire.seed.log("many", f"user_logs/std_log_process_{rank}.txt", b"rank %d\n" % rank)
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await open_log(app, pilot, "many")
        assert log(app).text(0, 0) == "rank 0"
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: log(app).text(0, 0) == "rank 1")
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: log(app).text(0, 0) == "rank 0")


async def test_the_header_says_where_by_what_and_how_many_reads_are_left(wire, config):
    wire.seed.job("wren", "Completed")
    app = FootplateApp()
    async with app.run_test(size=(140, 30)) as pilot:
        await until(pilot, lambda: app.access)
        top = str(app.screen.query_one(TopLine).render())
        assert "by the token in FOOTPLATE_WIRE_TOKEN" in top
        assert "reads left" in top
        assert "AZURE" in top
        app.open_job("wren", "overview")
        await until(pilot, lambda: app.place == "AZURE eastus2")


async def test_a_terminal_without_focus_is_kept_up_to_date_less_often_and_at_once_when_it_has_it_again(wire, config):
    wire.seed.job("wren", "Completed")
    app = FootplateApp()
    async with app.run_test(size=(140, 30)) as pilot:
        await until(pilot, lambda: app.access)
        assert app.poll_seconds == 0.05
        app.post_message(events.AppBlur())
        await until(pilot, lambda: app.poll_seconds == 0.25)
        await until(pilot, lambda: not app.screen._looking)
        app.screen._next_look = float("inf")
        before = len(wire.requests)
        app.post_message(events.AppFocus())
        await until(pilot, lambda: len(wire.requests) > before)


async def test_what_the_workspace_cannot_do_is_greyed_and_says_why_before_anything_is_asked(wire, config):
    wire.seed.model("birds")
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        reason = app.workspace.capabilities["delete_model"]
        await pilot.press("3")
        await until(pilot, lambda: isinstance(app.screen, ListScreen) and app.screen.table.cursor_key == "birds:1")
        spans = app.screen.query_one(KeyLine).render().spans
        assert any("dim" in str(span.style) for span in spans)
        await pilot.press("x")
        await until(pilot, lambda: any(notice.message == reason for notice in app._notifications))
        assert isinstance(app.screen, ListScreen)


async def test_of_many_jobs_the_newest_are_asked_for_and_a_filter_says_so(wire, config):
    wire.seed.jobs(1250)
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen) and len(app.screen.table.rows) == 1000)
        app.screen.narrow("status:failed")
        await until(pilot, lambda: "of 1,000 newest" in str(app.screen.query_one("#explain", Static).render()))
        further = [seen for seen in wire.requests if any("skip" in key.lower() for key in seen.query)]
        assert len(further) == 9


async def test_figures_that_are_not_told_are_dashes(wire, config):
    wire.seed.model("birds")
    wire.seed.cluster("cpu")
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        for key, row, column in (("3", "birds:1", "size"), ("2", "cpu", "queued")):
            await pilot.press(key)
            await until(
                pilot, lambda row=row: isinstance(app.screen, ListScreen) and app.screen.table.cursor_key == row
            )
            at = next(i for i, one in enumerate(app.screen.columns) if one.key == column)
            cell = app.screen.table.rows[0].cells[at]
            assert getattr(cell, "text", cell) == "–"


async def test_a_sweep_opens_on_its_trials_and_a_trial_on_its_log(wire, config):
    wire.default_plan = JobPlan(lines_per_second=10)
    wire.seed.sweep("sweep", trials=3, at_once=2)
    wire.advance(30)
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen) and app.screen.table.cursor_key == "sweep")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and len(app.screen.children_shown) == 2)
        sweep = app.screen
        assert "trials 2" in str(sweep.query_one("#tabs", Static).render())
        trials = sweep.query_one("#trials", VirtualTable)
        at = next(n for n, column in enumerate(trials.columns) if column.title == "learning_rate")
        assert str(trials.rows[0].cells[at]).startswith("0.0")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not sweep and isinstance(app.screen, JobScreen))
        await until(pilot, lambda: log(app).total_lines)
        assert app.screen.job_name in ("sweep_0", "sweep_1")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is sweep)


async def test_while_the_image_is_built_its_log_is_shown_and_then_that_of_the_command(wire, config):
    wire.default_plan = JobPlan(image_build=30, running=600, lines_per_second=10)
    wire.seed.submit("built")
    wire.advance(10)
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await open_log(app, pilot, "built")
        assert "20_image_build_log.txt" in state(app)
        assert "RUN conda install" in log(app).text(0, 0)
        wire.advance(60)
        await until(pilot, lambda: LOG in state(app) and log(app).text(0, 0).startswith("epoch 0"))


# Signing in


@pytest.fixture
def signed_out(config: Path) -> Path:
    """The settings without a token."""
    kept = [line for line in config.read_text().splitlines() if not line.startswith("token_env")]
    config.write_text("\n".join([*kept, f'tenant_id = "{TENANT}"']))
    return config


def dialog_text(app: FootplateApp) -> str:
    return "\n".join(str(part.render()) for part in app.screen.query(Static))


def sign_in_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sign-in"]


async def code_shown(app: FootplateApp, pilot) -> str:
    await until(pilot, lambda: isinstance(app.screen, SignInDialog) and "Waiting until" in dialog_text(app))
    return app.screen._code.code


async def test_the_console_signs_in_by_a_code(wire, signed_out):
    wire.seed.job("wren", "Completed")
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        code = await code_shown(app, pilot)
        text = dialog_text(app)
        assert code in text
        assert "https://microsoft.com/devicelogin" in text
        assert "You are not signed in to Azure" in text
        await pilot.press("y")
        assert app.clipboard == code
        wire.directory.confirm(code)
        await until(pilot, lambda: isinstance(app.screen, ListScreen) and app.screen.table.cursor_key == "wren")
        await until(pilot, lambda: app.access[:1] == ("by a device code",))


async def test_a_sign_in_that_is_left_comes_back_only_when_asked_for(wire, signed_out):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        first = await code_shown(app, pilot)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        await until(pilot, lambda: not app.screen._looking)
        assert isinstance(app.screen, ListScreen)
        assert "You are not signed in" in str(app.screen.query_one("#explain", Static).render())
        await pilot.press("r")
        assert await code_shown(app, pilot) != first
        await until(pilot, lambda: len(sign_in_threads()) == 1)  # the one that was left asks no more
    await until_threads_end()


async def until_threads_end() -> None:
    for thread in sign_in_threads():
        thread.join(10)
    assert sign_in_threads() == []


async def test_a_sign_in_that_fails_says_so_and_another_code_can_be_had(wire, signed_out):
    wire.faults.add("POST", "/devicecode", faults.fail(400), times=1)
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, SignInDialog) and "did not end well" in dialog_text(app))
        await pilot.press("r")
        assert await code_shown(app, pilot)
    await until_threads_end()


async def test_a_running_job_is_followed_to_its_end(wire, config):
    wire.clock.speed = 20.0
    wire.default_plan = JobPlan(starting=1, preparing=1, running=30, finalizing=1, lines_per_second=10)
    wire.seed.submit("now")
    app = FootplateApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await open_log(app, pilot, "now")
        await until(pilot, lambda: app.screen.job.status == "Completed" and not busy(app))
        (blob,) = [blob for (_, path), blob in wire.state.blobs.items() if path.endswith("dcid.now/" + LOG)]
        await until(pilot, lambda: whole(log(app)) == bytes(blob.data))
        assert app.screen.query_one(MetricsPane).metrics
