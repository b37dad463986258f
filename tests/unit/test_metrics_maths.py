"""Curves as numbers: no peak is lost and nothing added, whatever is drawn in whatever room; smoothing, axes, pairs."""

from __future__ import annotations

import json
import math
from array import array
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.style import Style

from footplate.operations.children import numbers_or_texts
from footplate.operations.metrics import (
    Source,
    begin_of,
    compared,
    data_wait,
    differences,
    labels,
    load,
    panels,
    series_of,
    usage_panels,
)
from footplate.operations.scales import Scale, number_text, span_text, time_ticks
from footplate.operations.series import Series, column_of, envelope, heights
from footplate.widgets.chart_canvas import GAP_SIGN, Canvas
from footplate.widgets.chart_drawing import STYLE_NAMES, Look, draw
from footplate.workspace import Job, MetricPoint
from footplate.workspace.points import Points

CASES = Path(__file__).parents[3] / "shared" / "cases" / "metrics"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)

calm = settings(deadline=None, database=None, max_examples=80)
numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)
xs = st.integers(0, 10_000)
curves = st.lists(st.tuples(xs, numbers), min_size=1, max_size=300).map(
    lambda points: sorted(points, key=lambda p: p[0])
)
short_curves = st.lists(st.tuples(xs, numbers), max_size=12)
rooms = st.tuples(st.integers(4, 60), st.integers(2, 12))


def points(*values: float, begin: float = 0.0, every: float = 10.0) -> Points:
    count = len(values)
    times = array("d", (begin + every * at for at in range(count)))
    return Points(array("q", range(count)), times, array("d", values))


def case(name: str) -> dict[str, Points]:
    path = CASES / name
    if not path.exists():
        pytest.skip(f"the case {name} is not here")
    found: dict[str, list[MetricPoint]] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        found.setdefault(entry["name"], []).append(MetricPoint(entry["step"], NOW, entry["value"]))
    return {metric: Points.of(own) for metric, own in found.items()}


def job(name: str, **more: object) -> Job:
    given = {"display_name": name, "type": "command", "status": "Completed", "experiment": "birds", "compute": "local"}
    return Job(name=name, created=NOW, **(given | more))  # type: ignore[arg-type]


@calm
@given(curves, rooms)
def test_every_finite_points_column_is_lit_and_nothing_lies_outside(drawn, room):
    series = Series("loss", drawn)
    if not series.xs:
        return
    columns, rows = room
    window = (series.xs[0], series.xs[-1])
    canvas = Canvas(columns, rows)
    slots = envelope(series, window, canvas.dots)
    scale = Scale.over(min(series.ys), max(series.ys))
    canvas.curve(slots, scale, 0)
    lines = ["".join(text for text, _ in canvas.runs(row)) for row in range(rows)]
    assert {len(line) for line in lines} == {columns}
    lit = {column for line in lines for column, char in enumerate(line) if char != " "}
    assert {column_of(x, window, canvas.dots) // 2 for x in series.xs} <= lit
    by_column = {slot.column: slot for slot in slots}
    assert set(by_column) <= set(range(canvas.dots))
    for x, y in zip(series.xs, series.ys, strict=True):  # no peak is lost, however many share a column
        near = [by_column.get(column_of(x, window, canvas.dots) + step) for step in (-1, 0, 1)]
        assert any(slot is not None and slot.low <= y <= slot.high for slot in near)


@calm
@given(curves, st.tuples(xs, xs).map(sorted), st.booleans())
def test_a_window_shows_what_is_in_it_and_stays_within_it(drawn, ends, log):
    window = (float(ends[0]), float(ends[1] + 1))
    series = Series("loss", drawn)
    series = series.above_zero() if log else series
    seen = heights(series, window)
    slots = envelope(series, window, 40)
    assert (seen is None) == (not slots)
    for slot in slots:
        assert 0 <= slot.column < 40
        assert seen is not None
        assert seen[0] <= slot.low <= slot.high <= seen[1]
    if slots and seen is not None and (not log or seen[0] > 0):
        canvas = Canvas(20, 5)
        canvas.curve(slots, Scale.over(*seen, log), 0)  # raises where a dot would lie outside


looks = st.builds(
    Look,
    log=st.booleans(),
    window=st.none() | st.tuples(st.floats(-10, 5000), st.floats(5001, 20_000)),
    cursor=st.none() | st.floats(-10, 20_000),
    title=st.sampled_from(["", "loss", "鶏" * 30]),
    signs_only=st.booleans(),
    from_zero=st.booleans(),
)


@calm
@given(st.lists(short_curves, max_size=4), looks, st.integers(1, 90), st.integers(1, 24), st.sampled_from([0.0, 0.9]))
def test_any_curves_at_any_size_are_drawn_within_it(many, look, width, height, smoothing):
    styles = dict.fromkeys((*STYLE_NAMES, "base"), Style())
    series = [Series(f"evil\x1b[2J[/x] {at}", points).smoothed(smoothing) for at, points in enumerate(many)]
    lines = draw([one.above_zero() if look.log else one for one in series], look, width, height, styles)
    assert 1 <= len(lines) <= max(height, 1)
    assert all(line.cell_length <= width for line in lines)
    assert not any("\x1b" in line.text for line in lines)


@calm
@given(curves)
def test_what_cannot_be_drawn_is_a_gap_and_nothing_is_lost(drawn):
    series = Series("loss", drawn)
    assert series.count == len(drawn)
    assert all(map(math.isfinite, series.ys))
    above = series.above_zero()
    assert above.count == series.count
    assert all(y > 0 for y in above.ys)
    quick = Series.of("loss", array("d", (x for x, _ in drawn)), array("d", (y for _, y in drawn)))
    assert (quick.xs, quick.ys, quick.gaps) == (series.xs, series.ys, series.gaps)


@calm
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.sampled_from([0.6, 0.9, 0.97]))
def test_smoothing_keeps_the_start_and_stays_within_the_values(values, weight):
    series = Series("loss", enumerate(values))
    smooth = series.smoothed(weight)
    assert len(smooth.ys) == len(values)
    assert smooth.ys[0] == pytest.approx(values[0], abs=1e-6)
    assert all(min(values) - 1e-6 <= y <= max(values) + 1e-6 for y in smooth.ys)
    assert smooth is series or smooth.raw is series
    if len(values) > 1:
        assert smooth.ys[1] == pytest.approx((weight * values[0] + values[1]) / (1 + weight), abs=1e-5)


@calm
@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 30))
def test_axis_labels_are_true(low, width, rows):
    scale = Scale.over(low, low + width)
    for row, text in scale.rows(rows).items():
        value = float(text.replace(",", ""))
        digits = 10.0 ** -len(text.partition(".")[2]) if "e" not in text else abs(value) * 0.005 + 1e-9
        place = (1 - scale.at(value)) * (rows - 1)
        assert abs(place - row) <= 0.5 + digits / (scale.high - scale.low) * rows


@calm
@given(st.floats(1e-9, 1e6), st.floats(1.0001, 1e9))
def test_a_logarithmic_axis_has_rising_labels_within_it(low, factor):
    ticks = Scale.over(low, low * factor, log=True).ticks(5)
    assert [value for value, _ in ticks] == sorted(value for value, _ in ticks)
    assert all(low * 0.99 <= value <= low * factor * 1.01 for value, _ in ticks)
    assert len(ticks) < 30


def test_times_are_ticked_at_whole_minutes_and_hours():
    assert [text for _, text in time_ticks(0, 305, 6)] == ["0s", "1m00s", "2m00s", "3m00s", "4m00s", "5m00s"]
    assert len(time_ticks(0, 40 * 86400, 6)) <= 7
    assert (span_text(0), span_text(2.5), span_text(-61), span_text(187.2)) == ("0s", "2.5s", "-1m01s", "3m07s")


def test_nan_and_infinity_are_gaps_and_the_latest_is_a_number():
    loss = series_of(Source("loss", case("m01_nan_inf.jsonl")["loss"]), "step")
    assert list(zip(loss.xs, loss.ys, strict=True)) == [(0, 1.0), (3, 0.5)]
    assert (list(loss.gaps), loss.latest) == ([1, 2], 0.5)
    x, y = loss.near(1.2) or (0, 0)
    assert x == 1
    assert math.isnan(y), "the cursor reads what was logged there"
    canvas = Canvas(20, 3)
    canvas.gaps(column_of(x, (0, 3), 40) for x in loss.gaps)
    assert "".join(text for text, _ in canvas.runs(2)).count(GAP_SIGN) == 2


def test_one_point_is_drawn_without_a_division_by_zero():
    one = series_of(Source("acc", case("m04_single_point.jsonl")["val_accuracy"]), "time")
    assert len(one.xs) == 1
    assert envelope(one, (one.xs[0], one.xs[0]), 40)[0].column == 0
    assert Scale.over(0.5, 0.5).at(0.5) == pytest.approx(0.5)
    assert one.smoothed(0.9) is one


def test_points_are_a_sequence_that_grows_in_step_order():
    given = [
        MetricPoint(step, NOW + timedelta(seconds=step), value) for step, value in ((0, 1.0), (2, math.nan), (5, 3.0))
    ]
    kept = Points.of(given)
    assert (kept[0], kept[-1], len(kept), kept[1:].steps) == (given[0], given[-1], 3, array("q", (2, 5)))
    assert [point.step for point in kept] == [0, 2, 5]
    more = kept.grown([(1, NOW.timestamp(), 7.0), (9, NOW.timestamp(), 8.0)])
    assert list(more.steps) == [0, 1, 2, 5, 9]
    assert len(kept) == 3, "what was handed out stays"
    assert kept == Points.of(given), "NaN is itself: nothing is new"
    assert kept != more
    assert Points.of([MetricPoint(2**80, NOW, 1.0)]).steps[0] == 2**63 - 1


def test_train_and_val_of_one_metric_share_a_chart_and_losses_come_first():
    names = [
        "lr",
        "val_acc",
        "train_loss",
        "best_val_acc",
        "val_loss",
        "loss/train",
        "loss/val",
        "epoch_time",
        "valley",
    ]
    metrics = {name: points(1, 2) for name in names}
    joined = [[source.name for source in panel.sources] for panel in panels(metrics)]
    assert ["train_loss", "val_loss"] in joined
    assert ["loss/train", "loss/val"] in joined
    assert ["valley"] in joined
    assert (
        [panel.key for panel in panels(metrics)].index("val_acc")
        < joined.index(["best_val_acc"])
        < joined.index(["lr"])
    )
    assert len(panels(metrics, joined=False)) == len(names)
    assert panels({"acc ": points(1)})[0].sources[0].name == '"acc "'


def test_time_is_counted_from_each_jobs_start():
    began = NOW.timestamp()
    metrics = {"loss": points(3, 2, 1, begin=began + 30)}
    assert begin_of(metrics, job("a", started=NOW)) == began
    assert begin_of(metrics) == began + 30
    series = series_of(Source("loss", metrics["loss"], began), "time")
    assert list(series.xs) == [30, 40, 50]


def test_values_that_every_rank_logged_at_one_step_are_counted():
    twice = Points(array("q", (0, 0, 1, 1)), array("d", (0, 0, 1, 1)), array("d", (1, 2, 3, 4)))
    series = series_of(Source("loss", twice), "step", 0.9, log=True)
    assert (series.shared, [slot.high for slot in envelope(series.raw or series, (0, 1), 10)]) == (2, [2, 4])


def test_jobs_are_compared_by_what_differs():
    one = job("a", inputs={"lr": "0.1", "epochs": "3"}, display_name="small", command="python x.py")
    two = job(
        "b", inputs={"lr": "0.2", "epochs": "3", "seed": 1}, display_name="small", command="python  x.py", nodes=2
    )
    found = {difference.name: difference.values for difference in differences([one, two])}
    assert found == {"lr": ("0.1", "0.2"), "seed": ("", "1"), "nodes × ranks": ("1×1", "2×1")}
    assert labels([one, two, job("c")]) == ["small (a)", "small (b)", "c"]
    made = compared([("a", {"loss": points(1, 2)}, 0.0), ("b", {"acc": points(1)}, 0.0)])
    assert [(panel.title, [len(source.points) for source in panel.sources]) for panel in made] == [
        ("loss", [2, 0]),
        ("acc", [0, 1]),
    ]


def test_the_load_is_said_in_a_few_words():
    usage = {"gpu_percent/GPU 0": points(90), "gpu_percent/GPU 1": points(96), "machine_memory_percent": points(61)}
    assert str(load(usage, {"data_wait": points(9, 0.2)})) == "GPU 93 %  mem 61 %  data wait 2 %"
    ranks = {"cpu_percent/rank 0": points(math.nan, 80), "cpu_percent/rank 1": points(100)}
    assert str(load(ranks, {})) == "CPU 180 %"
    assert str(load({}, {})) == ""
    assert data_wait({"data_wait": points(1, math.nan)}) is None
    assert data_wait({"data_wait": points(1)}) is None, "of one value nobody knows in which time"
    assert data_wait({"data_wait": points(1, 30)}) == 1
    made = usage_panels({**ranks, **usage, "cpu_utilization_percentage": points(5)})
    assert [panel.names for panel in made] == [
        ("GPU %", "GPU 0", "GPU 1"),
        ("CPU % (100 = one core)", "rank 0", "rank 1"),
        ("machine memory %",),
        ("cpu utilization percentage",),
    ]


def test_a_parameters_values_are_numbers_where_all_are():
    assert numbers_or_texts(["1e-3", 0.5, 2]) == [0.001, 0.5, 2.0]
    assert numbers_or_texts(["adam", 1]) == ["adam", "1"]
    assert numbers_or_texts(["nan", 1]) == ["nan", "1"]
    assert number_text(0.04979) == "0.04979"
