"""`footplate metrics` on jobs whose values are put into the store: tables, JSON, CSV, and pictures that say what is so."""

from __future__ import annotations

import csv
import io
import json
import math
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests import metrics_template
from tests.commands import Inside

from footplate.local import usage
from footplate.local.layout import job_folder
from footplate.local.metrics import Metrics
from footplate.local.store import Store, now

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def footplate(tmp_path: Path) -> Inside:
    commands = Inside(tmp_path)
    metrics_template.give(commands.home)
    return commands


def put(home: Path, name: str, values: Mapping[str, Sequence[float]], **inputs: str) -> None:
    """An ended job that has logged these values."""
    metrics = Metrics(home, lambda: sys.executable)
    run = metrics.create_run("birds", name, {})
    with closing(sqlite3.connect(metrics.file)) as db, db:
        for metric, own in values.items():
            for step, value in enumerate(own):
                stand_in = 0.0 if math.isnan(value) else math.copysign(sys.float_info.max, value)
                stored = value if math.isfinite(value) else stand_in
                row = (metric, stored, int((now() + step) * 1000), step, math.isnan(value), run.run_id)
                db.execute(
                    'INSERT INTO metrics ("key", value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, ?, ?)',
                    row,
                )
    store = Store(home)
    store.prepare()
    with store.write() as db:
        db.execute(
            "INSERT INTO job (name, display_name, type, status, experiment, compute, created, started, ended, inputs, nodes,"
            " ranks_per_node, command, plan, mlflow_run_id)"
            " VALUES (?, ?, 'command', 'Completed', 'birds', 'local', ?, ?, ?, ?, 1, 1, 'true', '{}', ?)",
            (name, name, now(), now(), now(), json.dumps(inputs), run.run_id),
        )


def test_values_are_a_table_and_nan_is_told(footplate):
    put(footplate.home, "one", {"loss": (1.0, math.nan, math.inf, 0.5), "val_accuracy": (0.5,)})
    done = footplate("metrics", "one")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["METRIC", "LATEST", "STEP", "POINTS", "NOTE"],
        ["loss", "0.500", "3", "4", "2", "NaN/inf"],
        ["val_accuracy", "0.500", "0", "1"],
    ]
    found = footplate.json("metrics", "one", "--metric", "LOSS")
    assert [point["value"] for point in found["loss"]] == [1.0, None, None, 0.5]
    assert list(found) == ["loss"]
    rows = list(csv.reader(io.StringIO(footplate("metrics", "one", "--csv").stdout)))
    assert rows[0] == ["job", "metric", "step", "time", "value"]
    assert [row[4] for row in rows[1:5]] == ["1.0", "nan", "inf", "0.5"]
    wrong = footplate("metrics", "one", "--metric", "accuracy_val")
    assert (wrong.returncode, "val_accuracy" in wrong.stderr) == (2, True)
    assert "is no regular expression" in footplate("metrics", "one", "--metric", "(").stderr


def test_jobs_side_by_side_begin_with_what_differs(footplate):
    put(footplate.home, "one", {"loss": (1.0, 0.5)}, lr="0.1", epochs="3")
    put(footplate.home, "two", {"loss": (1.0, 0.7), "acc": (0.1,)}, lr="0.2", epochs="3")
    lines = footplate("metrics", "one", "two").stdout.splitlines()
    assert [line.split() for line in lines[:2]] == [["DIFFERS", "one", "two"], ["lr", "0.1", "0.2"]]
    assert [line.split()[:3] for line in lines[4:]] == [
        ["one", "loss", "0.500"],
        ["two", "loss", "0.700"],
        ["two", "acc", "0.100"],
    ]
    both = footplate.json("metrics", "one", "two")
    assert [(one["name"], one["inputs"]["lr"], list(one["metrics"])) for one in both] == [
        ("one", "0.1", ["loss"]),
        ("two", "0.2", ["loss", "acc"]),
    ]
    assert footplate("metrics", "one", "two", "--metric", "loss", "--svg", "both.svg").returncode == 0
    picture = ElementTree.parse(footplate.folder / "both.svg").getroot()
    said = [text.text for text in picture.iter(f"{SVG}text")]
    assert said[0] == "loss of 2 jobs"
    assert {"one  0.5", "two  0.7"} <= set(said)
    strokes = {line.get("stroke") for line in picture.iter(f"{SVG}polyline") if line.get("stroke-width") == "2"}
    assert len(strokes) == 2


def test_a_picture_is_drawn_or_the_reason_is_said(footplate):
    pillow = pytest.importorskip("PIL.Image")
    put(
        footplate.home,
        "one",
        {
            "loss": [2.0 / (1 + step) for step in range(5000)],
            "x<y>&": (1.0,),
            "nan": (math.nan, math.inf),
            **{f"m{at}": (1.0, 2.0) for at in range(12)},
        },
    )
    put(footplate.home, "none", {})
    for extra in ((), ("--dark", "--log", "--smooth", "0.9", "--axis", "time")):
        done = footplate("metrics", "one", "--metric", "^loss", "--png", "a.png", "--svg", "a.svg", *extra)
        assert done.returncode == 0, done.stderr
        with pillow.open(footplate.folder / "a.png") as picture:
            assert picture.size == (900, 480)
            ground = picture.getpixel((2, 2))
            assert (max(ground) < 40) == bool(extra)
            colours = picture.convert("RGB").getcolors(1_000_000)
            assert colours is not None
            assert len(colours) > 20, "curves and text, not a plain ground"
        lines = list(ElementTree.parse(footplate.folder / "a.svg").getroot().iter(f"{SVG}polyline"))
        assert max(len((line.get("points") or "").split()) for line in lines) < 4000 * 2, "as many as there are pixels"
        for line in lines:
            for pair in (line.get("points") or "").split():
                x, y = map(float, pair.split(","))
                assert -1 <= x <= 901
                assert -1 <= y <= 481
    footplate("metrics", "one", "--metric", "x<y", "--svg", "one.svg")
    one = ElementTree.parse(footplate.folder / "one.svg").getroot()
    assert len(list(one.iter(f"{SVG}circle"))) == 1, "one value is a dot"
    assert "x<y>&  1" in [text.text for text in one.iter(f"{SVG}text")]
    footplate("metrics", "one", "--metric", "^nan$", "--svg", "nan.svg")
    said = [text.text for text in ElementTree.parse(footplate.folder / "nan.svg").getroot().iter(f"{SVG}text")]
    assert "all 2 values are NaN or infinite" in said
    for arguments, words in (
        (("one", "--svg", "all.svg"), "15 curves are too many"),
        (("none", "--svg", "all.svg"), "nothing to draw"),
        (("one", "--log"), "about a picture"),
        (("one", "--json", "--csv"), "three answers"),
        (("one", "--metric", "loss", "--svg", "gone/all.svg"), "could not be written"),
    ):
        done = footplate("metrics", *arguments)
        assert words in done.stderr
        assert done.returncode in (1, 2)
    assert not (footplate.folder / "all.svg").exists()
    assert footplate("metrics", "none").stdout == "none has logged no metrics.\n"


def test_usage_is_read_from_samples_and_a_torn_line_is_passed_over(footplate):
    put(footplate.home, "one", {"system/gpu_0_utilization_percentage": (50.0,), "loss": (1.0,)})
    folder = job_folder(footplate.home, "one")
    folder.mkdir(parents=True)
    usage.file_of(folder).write_text(
        '{"t": 1.0, "cpu_percent": 50}\n{"note": "GPUs are not sampled: why."}\n[1]\n{"t": 6.0, "cpu_percent": 70}\n{"t": 7'
    )
    done = footplate("metrics", "one", "--usage")
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["cpu_percent", "70", "1", "2"],
        ["gpu_0_utilization_percentage", "50", "0", "1"],
    ]
    assert "GPUs are not sampled: why." in done.stderr


class Rank:
    def __init__(self, number: int) -> None:
        import os

        from footplate.local import groups

        self.number = number
        self.group = groups.Group(os.getpgid(0), 0.0)


def test_samples_are_thinned_so_that_the_file_stays_bounded(tmp_path, monkeypatch):
    pytest.importorskip("psutil", reason="psutil is not installed: nothing is sampled")
    monkeypatch.setattr(usage, "MOST_SAMPLES", 8)
    said: list[str] = []
    sampler = usage.Sampler(tmp_path, said.append)
    clock = iter(range(0, 10_000_000, 1000))
    monkeypatch.setattr(usage.time, "monotonic", lambda: float(next(clock)))
    for _ in range(40):
        sampler.look([Rank(0)])
    lines = usage.file_of(tmp_path).read_text().splitlines()
    assert 4 <= len(lines) < 8
    assert not said
    found = usage.Readings().read(tmp_path)
    assert {"memory_gb", "cpu_percent", "machine_memory_percent"} <= set(found.series)
    assert found.series["memory_gb"][-1].value > 0.01
    assert sampler._every > usage.EVERY_SECONDS
    sampler.close()


def test_without_psutil_it_is_said_and_the_job_goes_on(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    said: list[str] = []
    sampler = usage.Sampler(tmp_path, said.append)
    for _ in range(3):
        sampler.look([Rank(0)])
    assert len(said) == 1
    found = usage.Readings().read(tmp_path)
    assert "psutil is not installed" in found.note
    assert {name.partition("/")[0] for name in found.series} == {"memory_gb"}, "of the ranks all the same"
    full = tmp_path / "gone"
    usage.Sampler(full, said.append).look([Rank(0)])  # a folder that is away, as with a full disk, ends no job
