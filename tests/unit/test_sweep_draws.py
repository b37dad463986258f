"""What trials draw: every kind of space by every sampling, the same again for a seed, and what a sweep's file asks for."""

import json
import math
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from footplate.jobfile import search_space
from footplate.jobfile.document import parse
from footplate.local.sweep import draws
from footplate.local.sweep.draws import Past, Sampling
from footplate.local.sweep.spec import MOST_AT_ONCE, Spec, trial_file
from footplate.workspace import Invalid

RANDOM, GRID = Sampling("random", 7), Sampling("grid", 7)

EVERY_KIND = """
a: {type: choice, values: [sgd, adam, 3]}
b: {type: uniform, min_value: 2, max_value: 4}
c: {type: quniform, min_value: 0, max_value: 10, q: 5}
d: {type: loguniform, min_value: -7, max_value: -3}
e: {type: qloguniform, min_value: 0, max_value: 3, q: 2}
f: {type: normal, mu: 10, sigma: 1}
g: {type: qnormal, mu: 10, sigma: 1, q: 1}
h: {type: lognormal, mu: 0, sigma: 1}
i: {type: qlognormal, mu: 2, sigma: 1, q: 3}
j: {type: randint, upper: 3}
"""
NESTED = "m: {type: choice, values: [{opt: sgd, lr: {type: choice, values: [1, 2]}}, {opt: adam}]}"


def spaces(text: str) -> tuple[search_space.Space, ...]:
    return tuple(search_space.read(name, given) for name, given in yaml.safe_load(text).items())


def drawn(sampling: Sampling, text: str, count: int) -> list[dict[str, Any]]:
    found = [draws.draw(sampling, spaces(text), number) for number in range(count)]
    return [dict(one.values) for one in found if one is not None]


@pytest.mark.parametrize("sampling", [RANDOM, Sampling("random", 7, sobol=True)], ids=["random", "sobol"])
def test_every_kind_draws_what_it_means(sampling: Sampling) -> None:
    if draws.missing(sampling):
        pytest.skip("scipy is not installed")
    found = drawn(sampling, EVERY_KIND, 400 if sampling is RANDOM else 64)
    column = {name: [one[name] for one in found] for name in "abcdefghij"}
    assert set(column["a"]) == {"sgd", "adam", 3}
    assert all(2 <= value <= 4 for value in column["b"])
    assert abs(statistics.mean(column["b"]) - 3) < 0.15
    assert set(column["c"]) == {0, 5, 10}
    assert all(math.exp(-7) <= value <= math.exp(-3) for value in column["d"])
    assert abs(statistics.median(column["d"]) - math.exp(-5)) < 0.003
    assert all(value % 2 == 0 and 0 <= value <= 20 for value in column["e"])
    assert abs(statistics.mean(column["f"]) - 10) < 0.3
    assert abs(statistics.stdev(column["f"]) - 1) < 0.2
    assert all(isinstance(value, int) for value in column["g"])
    assert abs(statistics.median(column["h"]) - 1) < 0.3
    assert all(value > 0 for value in column["h"])
    assert all(value % 3 == 0 for value in column["i"])
    assert set(column["j"]) == {0, 1, 2}


def test_a_draw_depends_on_seed_and_number_alone() -> None:
    assert drawn(RANDOM, EVERY_KIND, 3) == drawn(RANDOM, EVERY_KIND, 3)
    assert draws.draw(RANDOM, spaces(EVERY_KIND), 2) == draws.draw(RANDOM, spaces(EVERY_KIND), 2)
    assert drawn(RANDOM, EVERY_KIND, 1) != drawn(Sampling("random", 8), EVERY_KIND, 1)


def test_sobol_covers_more_evenly_than_chance() -> None:
    pytest.importorskip("scipy")
    text = "x: {type: uniform, min_value: 0, max_value: 1}\ny: {type: uniform, min_value: 0, max_value: 1}"
    for name in ("x", "y"):
        cells = Counter(int(one[name] * 16) for one in drawn(Sampling("random", 3, sobol=True), text, 16))
        assert set(cells.values()) == {1}  # one in each sixteenth
    first, again = (drawn(Sampling("random", seed, sobol=True), text, 4) for seed in (3, 3))
    assert first == again
    assert first != drawn(Sampling("random", 4, sobol=True), text, 4)


def test_the_base_of_logarithms_can_be_another() -> None:
    found = drawn(Sampling("random", 1, base=10.0), "d: {type: loguniform, min_value: -4, max_value: -1}", 200)
    values = [one["d"] for one in found]
    assert all(1e-4 <= value <= 1e-1 for value in values)
    assert min(values) < 2e-4  # e to the -4 would be 0.018


def test_a_grid_goes_through_every_point_and_ends() -> None:
    text = "a: {type: choice, values: [1, 2]}\nb: {type: choice, values: [x, y, z]}"
    found = drawn(GRID, text, 10)
    assert [(one["a"], one["b"]) for one in found] == [(a, b) for a in (1, 2) for b in "xyz"]


def test_a_nested_choice_is_drawn_whole() -> None:
    every = [{"opt": "sgd", "lr": 1}, {"opt": "sgd", "lr": 2}, {"opt": "adam"}]
    assert [one["m"] for one in drawn(GRID, NESTED, 10)] == every
    for found in (drawn(RANDOM, NESTED, 40), drawn(Sampling("random", 1), NESTED, 40)):
        assert {json.dumps(one["m"]) for one in found} == {json.dumps(one) for one in every}


def test_bayesian_sampling_goes_where_the_values_are_good() -> None:
    pytest.importorskip("optuna")
    text = (
        "x: {type: uniform, min_value: 0, max_value: 1}\nq: {type: quniform, min_value: 0, max_value: 8, q: 4}\n"
        + NESTED
    )
    sampling, past, tried = Sampling("bayesian", 5), [], []
    for number in range(40):
        one = draws.draw(sampling, spaces(text), number, "minimize", past)
        assert one is not None
        assert one.values["q"] in (0, 4, 8)
        past.append(Past(json.loads(json.dumps(one.point)), (one.values["x"] - 0.3) ** 2))
        tried.append(one.values["x"])
    late = statistics.mean(abs(x - 0.3) for x in tried[25:])
    assert late < 0.5 * statistics.mean(abs(x - 0.3) for x in tried[:10])


SWEEP = """
type: sweep
trial:
  command: python train.py --lr ${{search_space.lr}}
  environment: azureml:any@latest
search_space:
  lr: {type: choice, values: [1, 2]}
sampling_algorithm: random
objective: {goal: maximize, primary_metric: acc}
limits: {max_total_trials: 4, max_concurrent_trials: 2}
"""


def spec(**changes: object) -> Spec:
    return Spec.read(parse(SWEEP, None, Path("/")).edit(changes), 11)


def test_a_files_seed_goes_before_the_drawn_one() -> None:
    assert spec().sampling.seed == 11
    assert spec(sampling_algorithm={"type": "random", "seed": 3, "rule": "random"}).sampling.seed == 3


def test_limits_that_say_nothing_have_azures_defaults() -> None:
    found = spec(limits={"max_total_trials": 900})
    assert (found.total, found.at_once) == (900, MOST_AT_ONCE)
    assert spec(limits={"max_total_trials": 2, "max_concurrent_trials": 9}).at_once == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limits.max_total_trials": 0}, "0 trials"),
        ({"limits.max_total_trials": 1001}, "1001 trials"),
        ({"limits.max_concurrent_trials": 0}, "0 trials at once"),
        ({"early_termination": {"type": "bandit", "evaluation_interval": 1}}, "without slack"),
        ({"early_termination": {"type": "truncation_selection", "truncation_percentage": 100}}, "100 %"),
        ({"search_space.lr": {"type": "randint", "upper": 0}}, "without values"),
        ({"sampling_algorithm": "grid", "search_space.lr": {"type": "randint", "upper": 4}}, "a grid over randint"),
        ({"sampling_algorithm": "bayesian", "search_space.lr": {"type": "randint", "upper": 4}}, "from randint"),
        ({"sampling_algorithm": {"type": "random", "logbase": -2}}, "to the base -2"),
    ],
)
def test_what_no_sweep_can_do_is_refused_with_its_line(changes: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        Spec.read(parse(SWEEP, None, Path("/")).edit(changes), 0)
    assert "line " in refused.value.sentence


def test_an_interval_of_0_counts_as_1() -> None:
    found = spec(early_termination={"type": "median_stopping", "evaluation_interval": 0, "delay_evaluation": 0})
    assert found.policy is not None
    assert found.policy.applies(1)


def test_without_optuna_bayesian_sampling_says_what_to_install_and_random_works() -> None:
    script = f"""
import sys
sys.modules["optuna"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "optuna" else found(name, *more)
from pathlib import Path
from footplate.jobfile.document import parse
from footplate.local.sweep import draws
from footplate.local.sweep.spec import Spec
file = parse({SWEEP!r}, None, Path("/"))
spec = Spec.read(file, 0)
print(draws.draw(spec.sampling, spec.spaces, 0).values)
try:
    Spec.read(file.edit({{"sampling_algorithm": "bayesian"}}), 0)
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "{'lr': " in done.stdout
    assert "needs the package optuna" in done.stdout
    assert "pip install 'footplate[local]'" in done.stdout


def test_submitting_and_listing_import_no_optuna_and_no_scipy() -> None:
    script = (
        "import sys, footplate.local.jobs, footplate.local.submission, footplate.local.sweep.submitting;"
        "print(sorted({'optuna', 'scipy', 'numpy', 'mlflow', 'textual'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_trial_is_a_command_job_with_its_values_as_inputs() -> None:
    file = parse(SWEEP + "name: mine\ndisplay_name: a hunt\n", None, Path("/")).edit({"limits.trial_timeout": 30})
    made = trial_file(file, {"lr": 1e-05}, "a hunt, trial 0")
    assert (made.name, made.display_name) == (None, "a hunt, trial 0")
    assert made.kind == "command"
    assert made.inputs["lr"].literal == "1e-05"
    assert "${{inputs.lr}}" in made.command
    assert made.timeout_s == 30


def test_a_trial_of_a_file_whose_text_cannot_be_moved_has_its_values_in_the_command() -> None:
    file = parse(SWEEP + "inputs: {lr: the same name}\n", None, Path("/"))
    made = trial_file(file, {"lr": 0.5})
    assert made.kind == "command"
    assert made.command == "python train.py --lr 0.5"
    assert made.inputs["lr"].literal == "the same name"
