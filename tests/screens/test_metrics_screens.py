"""Charts in pages, compared jobs, usage: driven by keys."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from xml.etree import ElementTree

import pytest
from tests import metrics_template
from tests.screens.conditions import drawn, send, until
from tests.screens.fakes import NOW, Fake, job
from textual.pilot import Pilot
from textual.widgets import Input, Static

from footplate.app import FootplateApp
from footplate.screens.compare import CompareScreen
from footplate.screens.job import JobScreen
from footplate.screens.job_metrics import MetricsPane
from footplate.screens.jobs import JobsScreen
from footplate.widgets.chart_grid import ChartGrid, shape_of
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import Job, JobFilter, Usage
from footplate.workspace.points import Points


def points(*values: float, begin: float = 0.0, every: float = 10.0) -> Points:
    count = len(values)
    times = array("d", (NOW.timestamp() + begin + every * at for at in range(count)))
    return Points(array("q", range(count)), times, array("d", values))


class Logged(Fake):
    """Jobs with made-up metrics and usage."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, dict[str, Points]] = {}
        self.used: dict[str, Usage] = {}

    async def jobs(self, wanted: JobFilter) -> AsyncIterator[Sequence[Job]]:
        yield list(self.made_up.values())

    async def metrics(self, name: str) -> Mapping[str, Points]:
        return dict(self.logged.get(name, {}))

    async def usage(self, name: str) -> Usage:
        return self.used.get(name, Usage())


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Logged:
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.chdir(tmp_path)
    return Logged()


@asynccontextmanager
async def console(fake: Fake, size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[FootplateApp, Pilot[None]]]:
    app = FootplateApp()
    app.workspace = fake
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def open_metrics(app: FootplateApp, pilot: Pilot[None], name: str) -> ChartGrid:
    app.open_job(name, "metrics")
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job is not None)
    grid = app.screen.query_one(MetricsPane).grid
    await until(pilot, lambda: grid.has_focus)
    return grid


def page(grid: ChartGrid) -> str:
    return "\n".join(drawn(grid))


def state(app: FootplateApp) -> str:
    return str(app.screen.query_one("#chart-state", Static).render())


async def test_charts_are_paged_read_across_zoomed_and_shown_alone(fake):
    fake.made_up = {"one": job("one", status="Running", started=NOW)}
    fake.logged["one"] = {f"m{at:02}": points(*(at + step / 10 for step in range(40))) for at in range(20)}
    async with console(fake, (100, 30)) as (app, pilot):
        grid = await open_metrics(app, pilot, "one")
        await until(pilot, lambda: "m00 3.9" in page(grid))
        count = grid.shape.count
        assert 2 <= count < 20
        assert f"1–{count} of 20" in state(app)
        await pilot.press("right", "shift+right", "right")
        await until(pilot, lambda: "at step 11" in state(app))
        await until(pilot, lambda: "m00 1.1" in page(grid) and "m01 2.1" in page(grid))
        await pilot.press("plus", "plus")
        await until(pilot, lambda: grid.window is not None and "to" in state(app))
        left, right = grid.window
        assert left <= 11 <= right
        assert right - left == pytest.approx(39 / 4)
        for _ in range(3):
            await pilot.press("shift+right")
        assert grid.window[0] <= grid.cursor <= grid.window[1], "the window goes with the cursor"
        await pilot.press("pagedown")
        await until(pilot, lambda: f"m{count:02}" in page(grid))
        await pilot.press("enter")
        await until(pilot, lambda: f"{count + 1} of 20" in state(app))
        assert page(grid).count("┤") > 2
        assert f"m{count + 1:02}" not in page(grid)
        for gone in ("cursor", "window", "full"):
            await pilot.press("escape")
            assert not getattr(grid, gone)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen))


async def test_log_scale_smoothing_time_and_pairs_say_so(fake):
    fake.made_up = {"one": job("one", status="Running", started=NOW)}
    fake.logged["one"] = {
        "train_loss": points(*(math.exp(-step / 5) for step in range(40))),
        "val_loss": points(*(2 * math.exp(-step / 5) for step in range(40))),
        "odd": points(1.0, math.nan, math.inf, -1.0, 0.5),
        "dead": points(math.nan, math.nan),
        "once": points(0.5),
    }
    async with console(fake) as (app, pilot):
        grid = await open_metrics(app, pilot, "one")
        await until(pilot, lambda: "train_loss" in page(grid) and "val_loss" in page(grid))
        assert len(grid.panels) == 4
        assert "all 2 values so far are NaN/inf" in page(grid)
        assert "one value, at step 0" in page(grid)
        assert "odd 0.5 (2 NaN/inf)" in page(grid)
        await pilot.press("L", "s")
        await until(pilot, lambda: "log scale" in state(app) and "smoothed 0.6" in state(app))
        await until(pilot, lambda: "(3 NaN/inf or ≤ 0)" in page(grid))
        assert "~" in page(grid), "the smoothed value beside the logged one"
        await pilot.press("i")
        await until(pilot, lambda: "over time since the start" in state(app) and "time 6m30s" in page(grid))
        await pilot.press("p")
        await until(pilot, lambda: len(grid.panels) == 5)
        await send(pilot, "slash")
        app.screen.query_one("#chart-filter", Input).value = "^val"
        await until(pilot, lambda: len(grid.panels) == 1)
        app.screen.query_one("#chart-filter", Input).value = "("
        await until(pilot, lambda: "is no regular expression" in state(app))
        app.screen.query_one("#chart-filter", Input).value = "nothing"
        await until(pilot, lambda: "None of 5 charts matches 'nothing'" in page(grid))
        await pilot.press("escape")
        await until(pilot, lambda: len(grid.panels) == 5 and grid.has_focus)


async def test_usage_is_a_group_of_its_own_and_stands_in_the_strip(fake):
    fake.made_up = {"one": job("one", status="Running", started=NOW), "none": job("none")}
    fake.logged["one"] = {"loss": points(2.0, 1.0), "data_wait": points(0.3, 0.2)}
    fake.used["one"] = Usage(
        {"gpu_percent": points(90, 93), "machine_memory_percent": points(61), "cpu_percent/rank 0": points(50, 60)}
    )
    fake.used["none"] = Usage(note="Usage is not sampled: psutil is not installed.")
    async with console(fake) as (app, pilot):
        grid = await open_metrics(app, pilot, "one")
        await until(pilot, lambda: "usage 3" in state(app))
        await pilot.press("u")
        await until(pilot, lambda: "GPU % 93" in page(grid) and "rank 0 60" in page(grid))
        assert "over time" in state(app)
        await pilot.press("l")
        strip = app.screen.query_one("#strip", Static)
        await until(pilot, lambda: "GPU 93 %  mem 61 %  data wait 2 %   loss 1" in str(strip.render()))
        await pilot.press("escape")
        grid = await open_metrics(app, pilot, "none")
        await until(pilot, lambda: "It has logged no metrics" in page(grid))
        await pilot.press("u")
        await until(pilot, lambda: "psutil is not installed" in page(grid))
        await pilot.press("E")
        await until(pilot, lambda: any("no chart to save" in notice.message for notice in app._notifications))


async def test_marked_jobs_are_compared_and_the_chart_is_saved(fake, tmp_path):
    fake.made_up = {
        name: job(name, display_name=f"run [{name}]", inputs={"lr": lr, "epochs": "3"}, started=NOW)
        for name, lr in (("one", "0.1"), ("two", "0.2"))
    }
    fake.logged = {"one": {"loss": points(3, 2, 1)}, "two": {"loss": points(3, 1, 0.5), "acc": points(0.1, 0.2)}}
    async with console(fake, (100, 30)) as (app, pilot):
        await until(pilot, lambda: len(app.screen.query_one(VirtualTable).rows) == 2)
        await pilot.press("v")
        await until(pilot, lambda: any("Mark two jobs" in notice.message for notice in app._notifications))
        await pilot.press("space", "space", "v")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen) and len(app.screen.jobs) == 2)
        grid = app.screen.query_one(ChartGrid)
        await until(pilot, lambda: "loss" in page(grid))
        assert [row.cells for row in app.screen.query_one(VirtualTable).rows] == [("lr", "0.1", "0.2")]
        legend = str(app.screen.query_one("#legend", Static).render())
        assert "● run [one] C Completed   ▲ run [two]" in legend
        assert "loss   ● 1   ▲ 0.5" in page(grid)
        assert "▲ 0.2" in page(grid)
        await pilot.press("E")
        await until(pilot, lambda: list(tmp_path.glob("*.svg")))
        saved = tmp_path / "compared-loss.svg"
        await until(pilot, lambda: any("compared-loss.svg" in notice.message for notice in app._notifications))
        said = "".join(ElementTree.parse(saved).getroot().itertext())
        assert "run [two]  0.5" in said
        await pilot.press("E")
        await until(pilot, lambda: (tmp_path / "compared-loss-2.svg").exists())
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen))


async def test_keys_do_not_wait_for_a_drawing_and_the_newest_wish_is_drawn(fake, monkeypatch):
    fake.made_up = {"one": job("one", status="Running", started=NOW)}
    fake.logged["one"] = {f"m{at:03}": points(*(float(step % 7) for step in range(60))) for at in range(300)}
    async with console(fake, (80, 24)) as (app, pilot):
        grid = await open_metrics(app, pilot, "one")
        await until(pilot, lambda: "m000" in page(grid))
        gate, begun, inner = threading.Event(), threading.Event(), grid._in_thread
        drawings = []

        def slow(request):
            begun.set()
            gate.wait(60)
            drawings.append(request.look.cursor)
            return inner(request)

        monkeypatch.setattr(grid, "_in_thread", slow)
        try:
            await send(pilot, "right")
            await until(pilot, begun.is_set)
            await send(pilot, *["right"] * 20, "pagedown")
            assert grid.selected > 0, "keys are done while a drawing is under way"
            assert drawings == []
        finally:
            gate.set()
        await until(pilot, lambda: f"m{grid.selected:03}" in page(grid))
        assert len(drawings) == 2, "the one under way, and one for all that was wished meanwhile"


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 7, 12, 40, 300])
@pytest.mark.parametrize("size", [(78, 15), (158, 36), (40, 10), (20, 5), (250, 70)])
def test_charts_share_the_room_legibly(count, size):
    shape = shape_of(count, *size)
    assert shape.across * 36 <= max(36, size[0])
    assert shape.down * 8 <= max(8, size[1])
    if count <= max(1, size[0] // 36) * max(1, size[1] // 8):
        assert shape.count >= count, "all on one page where that is legible"
    else:
        assert shape.count >= max(1, size[0] // 36) * max(1, size[1] // 8) / 2


async def test_a_live_chart_grows_and_keeps_its_cursor(fake):
    fake.made_up = {"one": job("one", status="Running", started=NOW)}
    fake.logged["one"] = {"loss": points(3.0, 2.0)}
    async with console(fake) as (app, pilot):
        grid = await open_metrics(app, pilot, "one")
        await until(pilot, lambda: "loss 2" in page(grid))
        fake.logged["one"] = {"loss": points(3.0, 2.0, 1.5), "acc": points(0.1, 0.2)}
        await until(pilot, lambda: "loss 1.5" in page(grid) and "acc 0.2" in page(grid))
        await pilot.press("home")
        await until(pilot, lambda: "loss 3" in page(grid))
        fake.logged["one"] = {"loss": points(3.0, 2.0, 1.5, 1.0)}
        await until(pilot, lambda: len(grid.panels) == 1)
        await until(pilot, lambda: "loss 3" in page(grid))
        assert grid.cursor == 0
