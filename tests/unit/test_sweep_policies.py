"""Early termination: decisions worked out by hand, at the boundaries too."""

import importlib.util
import math
from pathlib import Path

import pytest

from footplate.local.sweep.policies import Policy, best_of
from footplate.local.sweep.rules import RULES

NAN, INF = math.nan, math.inf
BANDIT = Policy("bandit", slack_factor=0.2)
AMOUNT = Policy("bandit", slack_amount=0.1)
MEDIAN = Policy("median_stopping")


def truncation(percentage: int) -> Policy:
    return Policy("truncation_selection", percentage=percentage)


DECISIONS = [
    # name, policy, goal, value number, values of all trials (the one that is judged is t), whether it is stopped
    ("the example of Azure's guide: .8 / 1.2 is .667", BANDIT, "maximize", 2, {"a": [0.5, 0.8], "t": [0.1, 0.66]}, True),
    ("just above .667 goes on", BANDIT, "maximize", 2, {"a": [0.5, 0.8], "t": [0.1, 0.67]}, False),
    ("just at the slack goes on", BANDIT, "maximize", 1, {"a": [1.2], "t": [1.0]}, False),
    ("the best so far counts, not the last value", BANDIT, "maximize", 3, {"a": [0.8] * 3, "t": [0.7, 0.1, 0.1]}, False),
    ("later values of others do not count", BANDIT, "maximize", 1, {"a": [0.5, 0.9], "t": [0.45]}, False),
    ("own later values do not count", BANDIT, "maximize", 1, {"a": [0.9, 0.9], "t": [0.5, 0.9]}, True),
    ("trials that logged fewer are left out", BANDIT, "maximize", 2, {"a": [0.9], "t": [0.1, 0.1]}, False),
    ("alone it goes on", BANDIT, "maximize", 1, {"t": [0.0]}, False),
    ("minimize: 0.5 * 1.2 is .6, and .61 is above", BANDIT, "minimize", 1, {"a": [0.5], "t": [0.61]}, True),
    ("minimize: just at the slack goes on", BANDIT, "minimize", 1, {"a": [0.5], "t": [0.6]}, False),
    ("a negative best: -1 - 0.2 is -1.2, and -1.3 is below", BANDIT, "maximize", 1, {"a": [-1.0], "t": [-1.3]}, True),
    ("a negative best: -1.1 goes on", BANDIT, "maximize", 1, {"a": [-1.0], "t": [-1.1]}, False),
    ("a negative best is not stopped itself", BANDIT, "maximize", 1, {"a": [-2.0], "t": [-1.0]}, False),
    ("minimize, negative: -1 + 0.2 is -0.8, and -0.7 is above", BANDIT, "minimize", 1, {"a": [-1.0], "t": [-0.7]}, True),
    ("minimize, negative: -0.9 goes on", BANDIT, "minimize", 1, {"a": [-1.0], "t": [-0.9]}, False),
    ("a best of 0 has no slack", BANDIT, "minimize", 1, {"a": [0.0], "t": [0.001]}, True),
    ("slack_amount: 0.75 - 0.1 is .65", AMOUNT, "maximize", 1, {"a": [0.75], "t": [0.64]}, True),
    ("slack_amount: just at it goes on", AMOUNT, "maximize", 1, {"a": [0.5], "t": [0.4]}, False),
    ("slack_amount to minimize", AMOUNT, "minimize", 1, {"a": [0.5], "t": [0.61]}, True),
    ("NaN is passed over", BANDIT, "maximize", 3, {"a": [0.8] * 3, "t": [NAN, 0.7, NAN]}, False),
    ("only NaN is worse than any number", BANDIT, "maximize", 2, {"a": [0.1, 0.1], "t": [NAN, NAN]}, True),
    ("only NaN everywhere stops nobody", BANDIT, "maximize", 1, {"a": [NAN], "t": [NAN]}, False),
    ("infinity is no best to be measured by", BANDIT, "maximize", 1, {"a": [INF], "b": [0.5], "t": [0.5]}, False),
    ("infinity of its own saves nobody", BANDIT, "maximize", 1, {"a": [0.5], "t": [INF]}, True),
    ("means .5, .6 and .7: the median is .6, and .59 is below", MEDIAN, "maximize", 1,
     {"a": [0.6], "b": [0.7], "t": [0.59]}, True),
    ("its own mean is among them: of .5, .7 it is .6, and .5 is below", MEDIAN, "maximize", 1, {"a": [0.7], "t": [0.5]}, True),
    ("equal to the median goes on", MEDIAN, "maximize", 1, {"a": [0.5], "b": [0.7], "t": [0.6]}, False),
    ("means run over all values so far: (.2 + .8) / 2 is .5", MEDIAN, "maximize", 2,
     {"a": [0.2, 0.8], "b": [0.2, 0.8], "t": [0.4, 0.49]}, True),
    ("its best so far counts against means: .55 is not below .5", MEDIAN, "maximize", 2,
     {"a": [0.2, 0.8], "b": [0.2, 0.8], "t": [0.55, 0.1]}, False),
    ("to minimize above the median is worse", MEDIAN, "minimize", 1, {"a": [0.5], "b": [0.6], "t": [0.61]}, True),
    ("to minimize below it goes on", MEDIAN, "minimize", 1, {"a": [0.5], "b": [0.6], "t": [0.4]}, False),
    ("a mean leaves NaN out: a has .6", MEDIAN, "maximize", 2, {"a": [NAN, 0.6], "b": [0.6, 0.6], "t": [0.5, 0.5]}, True),
    ("only NaN is worse than the median", MEDIAN, "maximize", 1, {"a": [0.1], "t": [NAN]}, True),
    ("20 % of 5 is 1: the lowest goes", truncation(20), "maximize", 1,
     {"a": [5.0], "b": [4.0], "c": [3.0], "d": [2.0], "t": [1.0]}, True),
    ("20 % of 5 is 1: the last but one goes on", truncation(20), "maximize", 1,
     {"a": [5.0], "b": [4.0], "c": [3.0], "d": [1.0], "t": [2.0]}, False),
    ("20 % of 4 is none", truncation(20), "maximize", 1, {"a": [5.0], "b": [4.0], "c": [3.0], "t": [1.0]}, False),
    ("50 % of 5 are 2, rounded down", truncation(50), "maximize", 1,
     {"a": [5.0], "b": [4.0], "t": [3.0], "c": [2.0], "d": [1.0]}, False),
    ("of equals the later goes", truncation(50), "maximize", 1, {"a": [1.0], "t": [1.0]}, True),
    ("of equals the earlier stays", truncation(50), "maximize", 1, {"t": [1.0], "a": [1.0]}, False),
    ("to minimize the highest goes", truncation(50), "minimize", 1, {"a": [1.0], "t": [2.0]}, True),
    ("what has no number is the lowest", truncation(50), "maximize", 1, {"t": [NAN], "a": [-9.0]}, True),
    ("best so far, not the last", truncation(50), "maximize", 2, {"a": [0.5, 0.5], "t": [0.9, 0.1]}, False),
    ("29 % of 100 are 29, not 28", truncation(29), "maximize", 1,
     {**{f"a{n}": [100.0 - n] for n in range(71)}, "t": [29.0], **{f"b{n}": [28.0 - n] for n in range(28)}}, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("_", "policy", "goal", "count", "values", "stopped"), DECISIONS, ids=[d[0] for d in DECISIONS]
)
def test_decisions(
    _: str, policy: Policy, goal: str, count: int, values: dict[str, list[float]], stopped: bool
) -> None:
    assert bool(policy.verdict(goal, "t", count, values)) is stopped


def test_a_reason_names_policy_figures_and_the_trial_it_was_measured_by() -> None:
    reason = BANDIT.verdict("maximize", "t", 1, {"a": [0.9], "t": [0.5]})
    assert reason == "stopped by bandit at value 1: best so far 0.5, below 0.75 (a had 0.9, slack_factor 0.2)"
    assert "no number so far, above 0.6 (a had 0.5" in BANDIT.verdict("minimize", "t", 1, {"a": [0.5], "t": [NAN]})
    assert "above 0.55 (the median of 2 trials' means)" in MEDIAN.verdict("minimize", "t", 1, {"a": [0.5], "t": [0.6]})
    assert "number 1 from the end of 2 (1 go, truncation_percentage 50)" in truncation(50).verdict(
        "maximize", "t", 1, {"a": [2.0], "t": [1.0]}
    )


@pytest.mark.parametrize(
    ("interval", "delay", "looked"),
    [
        (1, 0, [1, 2, 3, 4, 5, 6]),
        (0, 0, [1, 2, 3, 4, 5, 6]),  # 0, which Azure's client sends, counts as 1
        (2, 0, [2, 4, 6]),
        (2, 3, [4, 6]),
        (1, 4, [4, 5, 6]),
        (3, 6, [6]),
    ],
)
def test_a_policy_looks_at_multiples_of_its_interval_from_its_delay_on(
    interval: int, delay: int, looked: list[int]
) -> None:
    policy = Policy("bandit", interval, delay, 0.1)
    assert [count for count in range(7) if policy.applies(count)] == looked


def test_best_of_passes_over_what_is_no_number() -> None:
    assert best_of("maximize", [0.1, NAN, INF, 0.3, 0.2]) == 0.3
    assert best_of("minimize", [0.1, NAN, -INF, 0.3]) == 0.1
    assert best_of("maximize", [NAN]) is None


def test_every_policy_and_sampling_has_its_rule_stated_and_the_docs_have_them_all() -> None:
    assert {"bandit", "median_stopping", "truncation_selection", "random", "grid", "bayesian", "best"} <= set(RULES)
    docs = Path(__file__).parents[2] / "docs"
    made = importlib.util.spec_from_file_location("make_sweeps", docs / "make_sweeps.py")
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    assert (docs / "sweeps.md").read_text(encoding="utf-8") == module.page(), "run: python docs/make_sweeps.py"
