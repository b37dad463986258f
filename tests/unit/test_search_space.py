"""Search spaces: their range, sample draws, and the form in which Azure's client sends them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from footplate.jobfile import document, search_space

SWEEP = """\
type: sweep
trial:
  command: echo ${{search_space.x}}
  environment: azureml:e:1
search_space:
  x: %s
sampling_algorithm: random
objective: {goal: maximize, primary_metric: a}
limits: {max_total_trials: 4}
"""

SPACES = [
    "{type: choice, values: [4, 8]}",
    '{type: Choice, values: [1, 2.5, "3", adam, 1e-3, 1.0]}',
    "{type: choice, values: [{lr: {type: uniform, min_value: '1', max_value: 2}, name: sgd, n: 3, f: 2.5, s: '4'},"
    " {opt: adam, z: {type: Choice, values: [1, x]}}]}",
    "{type: uniform, min_value: 0.1, max_value: 1}",
    "{type: Uniform, min_value: '1e-5', max_value: 1e-3}",
    '{type: quniform, min_value: 1, max_value: "9", q: 2}',
    "{type: loguniform, min_value: -7, max_value: -3}",
    "{type: qloguniform, min_value: 0, max_value: 4, q: 0.5}",
    "{type: normal, mu: 0, sigma: 1.0}",
    "{type: qnormal, mu: 10, sigma: 2, q: 1}",
    "{type: lognormal, mu: -6, sigma: 0.5}",
    "{type: qlognormal, mu: 0, sigma: '1', q: 0.5}",
    "{type: randint, upper: 5}",
    '{type: randint, upper: "5"}',
    "{type: randint, upper: 5.7}",
    "{type: uniform, min_value: 1_000, max_value: '1_000'}",
]


# Azure's client warns of its own dependencies.
of_azures_client = pytest.mark.filterwarnings("ignore::Warning")


def space(text: str) -> search_space.Space:
    return search_space.read("x", yaml.safe_load(text))


@of_azures_client
@pytest.mark.parametrize("text", SPACES)
def test_the_form_sent_is_that_of_azures_client(text: str, tmp_path: Path) -> None:
    load_job = pytest.importorskip("azure.ai.ml").load_job
    path = tmp_path / "sweep.yml"
    path.write_text(SWEEP % text)
    sent: Any = load_job(path)._to_rest_object().as_dict()["properties"]["searchSpace"]["x"]
    ours = search_space.rest_form(yaml.safe_load(text))
    assert ours == sent
    assert repr(ours) == repr(sent), "1 and 1.0 are different texts in the command"


@of_azures_client
@pytest.mark.parametrize(
    "text",
    [
        "{type: choice, values: [true]}",
        "{type: choice, values: [~]}",
        "{type: choice, values: [.inf]}",
        "{type: choice, values: [[1, 2]]}",
        "{type: choice, values: 5}",
        "{type: choice, values: [{a: ~}]}",
        "{type: choice, values: [{a: {b: 1}}]}",
        "{type: uniform, min_value: .nan, max_value: 1}",
        "{type: uniform, min_value: true, max_value: 1}",
        "{type: uniform, min_value: '0x10', max_value: 1}",
        "{type: uniform, max_value: 1}",
        "{type: choise, values: [1]}",
        "{values: [1]}",
        "{type: [choice], values: [1]}",
        "[1, 2]",
        "~",
    ],
)
def test_what_azures_client_refuses_is_no_space(text: str, tmp_path: Path) -> None:
    load_job = pytest.importorskip("azure.ai.ml").load_job
    path = tmp_path / "sweep.yml"
    path.write_text(SWEEP % text)
    with pytest.raises(ValueError, match=r"'[xa]'"):
        space(text)
    with pytest.raises(Exception, match=r"search_space|Invalid|None"):
        load_job(path)._to_rest_object()


def test_spaces_of_a_file_leave_out_what_cannot_be_read() -> None:
    text = SWEEP % "{type: uniform, min_value: 1, max_value: 2}\n  y: {type: choise}\n  z: {type: randint, upper: 3}"
    found = search_space.spaces_of(document.parse(text, None, Path()))
    assert [(item.name, item.kind) for item in found] == [("x", "uniform"), ("z", "randint")]
    assert search_space.spaces_of(document.parse("command: echo\n", None, Path())) == ()


@pytest.mark.parametrize(
    ("text", "least", "most", "count", "shown"),
    [
        ("{type: uniform, min_value: 0.001, max_value: 0.1}", 0.001, 0.1, None, "0.001 to 0.1"),
        ("{type: loguniform, min_value: -7, max_value: -3}", math.exp(-7), math.exp(-3), None, "0.0009119 to 0.04979"),
        ("{type: quniform, min_value: 1, max_value: 9, q: 4}", 0, 8, 3, "0 to 8, 3 values"),
        ("{type: qloguniform, min_value: 0, max_value: 2, q: 1}", 1, 7, 7, "1 to 7, 7 values"),
        ("{type: normal, mu: 1, sigma: 2}", -5, 7, None, "-5 to 7, and rarely beyond (no bounds)"),
        ("{type: qnormal, mu: 1, sigma: 2, q: 2}", -4, 8, None, "-4 to 8, and rarely beyond (no bounds)"),
        ("{type: lognormal, mu: 0, sigma: 1}", math.exp(-3), math.exp(3), None,
         "0.04979 to 20.09, and rarely beyond (no bounds)"),
        ("{type: qlognormal, mu: 0, sigma: 1, q: 1}", 0, 20, None, "0 to 20, and rarely beyond (no bounds)"),
        ("{type: randint, upper: 5}", 0, 4, 5, "0 to 4, 5 values"),
        ("{type: choice, values: [8, 4, 8]}", 4, 8, 2, "4 to 8, 2 values"),
        ("{type: choice, values: [adam]}", None, None, 1, "1 value"),
        ("{type: choice, values: [1, {a: 2}]}", None, None, 2, "2 values"),
    ],
)  # fmt: skip
def test_real_range(text: str, least: float | None, most: float | None, count: int | None, shown: str) -> None:
    found = search_space.real_range(space(text))
    assert found is not None
    assert (found.least, found.most, found.count, found.text) == (least, most, count, shown)


@pytest.mark.parametrize(
    "text",
    [
        "{type: choice, values: []}",
        "{type: randint, upper: 0}",
        "{type: quniform, min_value: 1, max_value: 9, q: 0}",
    ],
)
def test_a_space_without_values_has_no_range_and_no_draws(text: str) -> None:
    assert search_space.real_range(space(text)) is None
    assert search_space.draws(space(text), 3) == ()


@pytest.mark.parametrize("text", SPACES)
def test_draws_lie_in_the_range_and_repeat_for_a_seed(text: str) -> None:
    drawn = search_space.draws(space(text), 200, seed=7)
    assert drawn == search_space.draws(space(text), 200, seed=7)
    found = search_space.real_range(space(text))
    assert found is not None
    assert len(set(drawn)) > 1 or found.least == found.most
    if found.least is not None and found.most is not None and found.bounded:
        assert all(found.least <= float(value) <= found.most for value in drawn)
        assert found.count is None or len(set(drawn)) <= found.count


def test_draws_follow_the_documented_meaning() -> None:
    thousand = [
        float(value) for value in search_space.draws(space("{type: loguniform, min_value: -7, max_value: -3}"), 1000)
    ]
    assert sum(value < math.exp(-5) for value in thousand) == pytest.approx(500, abs=60), (
        "half lie below the middle log"
    )
    whole = search_space.draws(space("{type: quniform, min_value: 16, max_value: 64, q: 16}"), 100)
    assert set(whole) == {"16", "32", "48", "64"}
    normal = [float(value) for value in search_space.draws(space("{type: normal, mu: 5, sigma: 2}"), 1000)]
    assert sum(abs(value - 5) < 2 for value in normal) == pytest.approx(683, abs=60)


def test_another_seed_and_another_name_draw_otherwise() -> None:
    one = search_space.read("a", {"type": "uniform", "min_value": 0, "max_value": 1})
    other = search_space.read("b", {"type": "uniform", "min_value": 0, "max_value": 1})
    assert len({search_space.draws(one, 5), search_space.draws(one, 5, seed=1), search_space.draws(other, 5)}) == 3


def test_nested_choices_are_drawn_whole() -> None:
    nested = space("{type: choice, values: [{opt: sgd, lr: {type: choice, values: [1, 2]}}, {opt: adam}]}")
    drawn = set(search_space.draws(nested, 50))
    assert drawn == {'{"opt": "sgd", "lr": 1}', '{"opt": "sgd", "lr": 2}', '{"opt": "adam"}'}


@pytest.mark.parametrize(
    ("texts", "points"),
    [
        (["{type: choice, values: [4, 8]}", "{type: choice, values: [a, b, c]}"], 6),
        (["{type: choice, values: [4, 8]}", "{type: uniform, min_value: 0, max_value: 1}"], None),
        (["{type: choice, values: [{a: {type: choice, values: [1, 2, 3]}}, x]}"], 4),
        (["{type: choice, values: [{a: {type: normal, mu: 0, sigma: 1}}]}"], None),
        (["{type: choice, values: []}"], 0),
        ([], 1),
    ],
)
def test_grid_points(texts: list[str], points: int | None) -> None:
    assert search_space.count(map(space, texts)) == points


@pytest.mark.parametrize(
    "text",
    [
        "{type: loguniform, min_value: 1, max_value: 5000}",
        "{type: qloguniform, min_value: 1, max_value: 5000, q: 2}",
        "{type: uniform, min_value: -1e308, max_value: 1e308}",
        "{type: quniform, min_value: -1e308, max_value: 1e308, q: 1e-300}",
        "{type: normal, mu: 1e308, sigma: 1e308}",
        "{type: randint, upper: 1" + "0" * 200 + "}",
    ],
)
def test_enormous_numbers_are_shown_and_drawn(text: str) -> None:
    found = search_space.real_range(space(text))
    assert found is not None
    assert found.text
    assert len(search_space.draws(space(text), 5)) == 5


def test_a_number_past_all_floats_is_no_number() -> None:
    with pytest.raises(ValueError, match="upper of 'x' must be a number"):
        space("{type: randint, upper: 1" + "0" * 400 + "}")


def test_a_bound_that_is_an_expression_is_no_space():
    """Azure's client refuses it too, unless its process has loaded a pipeline before."""
    with pytest.raises(ValueError, match="'x'"):
        space("{type: uniform, min_value: '${{inputs.lo}}', max_value: 1}")
