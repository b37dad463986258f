"""The chart, sparklines and bars: what they draw of ordinary, scarce and broken values."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from tests.screens.conditions import drawn
from textual.app import App, ComposeResult

from footplate.operations.scales import Scale
from footplate.widgets.bars import Bar, Bars, bar_text, percent_text
from footplate.widgets.chart import Chart, Series, number_text, sparkline

CASES = Path(__file__).parents[3] / "shared" / "cases" / "metrics"


def case(name: str) -> list[Series]:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"the case {name} is not here")
    series: dict[str, list[tuple[float, float]]] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        series.setdefault(entry["name"], []).append((entry["step"], entry["value"]))
    return [Series(key, points) for key, points in series.items()]


class ChartApp(App[None]):
    def __init__(self, series: list[Series]) -> None:
        super().__init__()
        self.series = series

    def compose(self) -> ComposeResult:
        yield Chart(self.series)

    @property
    def lines(self) -> list[str]:
        return drawn(self.query_one(Chart))


class BarsApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Bars(empty="No prediction yet")

    @property
    def bars(self) -> Bars:
        return self.query_one(Bars)


def braille(line: str) -> list[int]:
    """Return the columns of a line that hold dots."""
    return [column for column, char in enumerate(line) if 0x2800 < ord(char) <= 0x28FF]


async def test_a_rising_curve_rises_from_corner_to_corner() -> None:
    app = ChartApp([Series("acc", [(x, x) for x in range(101)])])
    async with app.run_test(size=(60, 12)):
        lines = app.lines
        assert lines[0] == "● acc 100"
        plot = [braille(line) for line in lines[1:-1]]
        assert all(plot)
        assert plot[0][-1] == 59, "the last value reaches the right edge at the top"
        assert plot[-1][0] == lines[1].index("┤") + 1
        assert all(upper[0] >= lower[-1] - 1 for upper, lower in pairwise(plot))
        assert lines[-1].split() == ["0", "step", "100"]
        assert lines[1].strip().startswith("100 ┤")


async def test_the_newest_value_of_every_curve_is_named() -> None:
    app = ChartApp([Series("train_loss", [(0, 2.0), (1, 0.4121)]), Series("[red]val[/]", [(0, 0.5), (1, 0.871)])])
    async with app.run_test(size=(60, 12)) as pilot:
        assert app.lines[0] == "● train_loss 0.4121   ▲ [red]val[/] 0.871"
        app.query_one(Chart).show([Series("loss", [(0, 2.0), (1, 0.3)])])
        await pilot.pause()
        assert app.lines[0] == "● loss 0.3"


async def test_nan_and_infinity_are_marked_counted_and_never_the_latest() -> None:
    app = ChartApp(case("m01_nan_inf.jsonl"))
    async with app.run_test(size=(60, 12)):
        lines = app.lines
        assert lines[0] == "● loss 0.5 (2 NaN/inf)"
        assert sum(len(braille(line)) for line in lines) > 50, "a curve from 1.0 to 0.5"
        foot = lines[-2]
        assert foot.count("×") == 2
        assert foot.index("×") == pytest.approx(7 + 53 / 3, abs=2)


async def test_one_value_is_a_number() -> None:
    app = ChartApp(case("m04_single_point.jsonl"))
    async with app.run_test(size=(60, 12)):
        assert [line for line in app.lines if line] == ["● val_accuracy 0.5", "one value, at step 0"]


@pytest.mark.parametrize(
    ("series", "texts"),
    [
        ([], ["No metrics yet"]),
        ([Series("loss", [])], ["No metrics yet"]),
        (
            [Series("loss", [(0, math.nan), (1, math.inf)])],
            ["● loss – (2 NaN/inf)", "all 2 values so far are NaN/inf"],
        ),
    ],
)
async def test_no_curve_is_a_sentence(series: list[Series], texts: list[str]) -> None:
    app = ChartApp(series)
    async with app.run_test(size=(60, 12)):
        assert [line for line in app.lines if line] == texts


@pytest.mark.parametrize(
    "points",
    [
        [(0, 5.0), (1, 5.0)],
        [(0, 0.0), (1, 0.0)],
        [(3, 1.0), (3, 2.0), (3, 3.0)],
        [(0, -1e308), (1, 1e308)],
        [(0, 1e149), (1, -1e149)],
        [(0, 5e-324), (1, 0.0)],
        [(0, 1e9), (1, 1e9 + 1e-6)],
        [(1.7e9, 1e-7), (1.7e9 + 1, 2e-7)],
        [(math.nan, 1.0), (0, 1.0), (1, 2.0)],
        [(number, (-1) ** number * number) for number in range(5000)],
    ],
)
@pytest.mark.parametrize("size", [(80, 24), (20, 5), (16, 3), (5, 2), (1, 1)])
async def test_any_values_at_any_size_are_drawn_within_the_widget(
    points: list[tuple[float, float]], size: tuple[int, int]
) -> None:
    app = ChartApp([Series("loss", points)])
    async with app.run_test(size=size):
        chart = app.query_one(Chart)
        assert {chart.render_line(y).cell_length for y in range(size[1])} == {size[0]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.87134, "0.8713"),
        (12.5, "12.5"),
        (30, "30"),
        (1204000, "1,204,000"),
        (1.234e-7, "1.23e-07"),
        (123456.7, "123,457"),
        (-0.5, "-0.5"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
    ],
)
def test_number_text(value: float, text: str) -> None:
    assert number_text(value) == text


def test_axis_labels_are_round_and_alike() -> None:
    labels = Scale(0.107, 2.35).rows(17)
    assert list(labels.values()) == ["0.5", "1.0", "1.5", "2.0"]
    assert all(0 <= row < 17 for row in labels)
    assert list(Scale(0.871, 0.874).rows(10).values()) == ["0.871", "0.872", "0.873", "0.874"]


def test_sparkline() -> None:
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, 10], 8) == "▁█"
    assert sparkline([5, 5, 5], 8) == "▄▄▄"
    assert sparkline([1, math.nan, 2], 8) == "▁ █"
    assert sparkline([math.nan], 8) == " "
    assert sparkline([], 8) == sparkline([1.0], 0) == ""
    assert sparkline([0] * 99 + [1], 10) == "▁" * 9 + "█", "the newest is always seen"


async def test_bars_show_labels_as_data_and_fit() -> None:
    app = BarsApp()
    async with app.run_test(size=(60, 6)) as pilot:
        assert drawn(app.bars)[0] == "No prediction yet"
        app.bars.show([Bar("turkey", 0.991), Bar("chicken", 0.009), Bar("[red]x[/]\x1b[2J", 0.0), Bar("鶏" * 40, 0.5)])
        await pilot.pause()
        lines = drawn(app.bars)
        assert lines[0].startswith("turkey ")
        assert lines[0].endswith(" 99.1 %")
        assert lines[1].count("█") + lines[1].count("▎") == 1
        assert lines[2].startswith("[red]x[/]  ")
        assert {app.bars.render_line(y).cell_length for y in range(6)} == {60}
        first, second = app.bars.render_line(0), app.bars.render_line(1)
        assert first._segments[1].style != second._segments[1].style


async def test_many_bars_scroll() -> None:
    app = BarsApp()
    async with app.run_test(size=(60, 6)) as pilot:
        app.bars.show([Bar(f"class {number:03}", 1 / (number + 1)) for number in range(100)])
        app.bars.focus()
        await pilot.press("j", "j", "down")
        await pilot.pause()
        assert drawn(app.bars)[0].startswith("class 003")
        await pilot.press("end")
        await pilot.pause()
        assert drawn(app.bars)[-1].startswith("class 099")
        app.bars.show([Bar("only", 1.0)])
        await pilot.pause()
        assert drawn(app.bars)[0].startswith("only")


def test_percentages_do_not_claim_certainty() -> None:
    texts = [percent_text(value).strip() for value in (1.0, 0.9996, 0.991, 0.0001, 0.0, math.nan)]
    assert texts == ["100.0 %", ">99.9 %", "99.1 %", "<0.1 %", "0.0 %", "NaN"]
    assert (bar_text(0.0, 4), bar_text(1e-9, 4), bar_text(1.0, 4), bar_text(math.nan, 4)) == (
        "    ",
        "▏   ",
        "████",
        "    ",
    )
