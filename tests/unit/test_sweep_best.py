"""Which trial is the best, with the cases that real users stumbled over."""

import json
import math
from pathlib import Path

import pytest

from footplate.local.sweep.best import Trial, best, metric_missing

CASES = Path(__file__).parents[3] / "shared" / "cases" / "trials"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the shared cases are not here")


def case(name: str) -> tuple[str, str, list[Trial], list[str]]:
    """Goal, metric, trials, and all names that were logged."""
    found = json.loads((CASES / f"{name}.json").read_text())
    metric = found["primary_metric"]
    trials = [Trial(t["name"], t["status"], t["metrics"].get(metric, ())) for t in found["trials"]]
    return found["goal"], metric, trials, [name for t in found["trials"] for name in t["metrics"]]


@needs_cases
def test_the_best_value_ever_logged_wins_not_the_last() -> None:
    goal, _, trials, _ = case("t01_best_is_not_last_value")
    assert best(goal, trials) == ("t_0", 0.9)


@needs_cases
def test_a_metric_that_nobody_logged_has_no_winner_and_the_nearest_name_is_offered() -> None:
    goal, metric, trials, names = case("t02_metric_never_logged")
    assert best(goal, trials) is None
    said = metric_missing(metric, "t_0", sorted(set(names)))
    assert said.startswith("t_0 logs val_accuracy, and not the primary metric 'val_acuracy'")
    assert "primary_metric: val_accuracy" in said


@needs_cases
def test_failed_trials_have_no_winner() -> None:
    goal, _, trials, _ = case("t06_all_failed")
    assert best(goal, trials) is None


@pytest.mark.parametrize(
    ("goal", "trials", "winner"),
    [
        ("maximize", [Trial("a", "Completed", [math.nan]), Trial("b", "Completed", [-5.0])], ("b", -5.0)),
        ("maximize", [Trial("a", "Completed", [math.inf]), Trial("b", "Completed", [1.0])], ("b", 1.0)),
        ("minimize", [Trial("a", "Completed", [-math.inf]), Trial("b", "Completed", [1.0])], ("b", 1.0)),
        ("maximize", [Trial("a", "Completed", [1.0]), Trial("b", "Completed", [1.0])], ("a", 1.0)),
        ("minimize", [Trial("a", "Running", [1.0]), Trial("b", "Completed", [1.0])], ("a", 1.0)),
        ("minimize", [Trial("a", "Completed", [2.0, 0.5, 3.0]), Trial("b", "Completed", [0.6])], ("a", 0.5)),
        ("maximize", [Trial("a", "Failed", [9.0]), Trial("b", "Completed", [1.0])], ("b", 1.0)),
        ("maximize", [Trial("a", "Canceled", [9.0]), Trial("b", "Completed", [1.0])], ("a", 9.0)),
        ("maximize", [], None),
    ],
)
def test_winners(goal: str, trials: list[Trial], winner: tuple[str, float] | None) -> None:
    assert best(goal, trials) == winner


def test_what_a_script_logged_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in metric_missing("acc", "t_0", ["\x1b]52;c;evil\x07loss"])


def test_without_a_near_name_nothing_is_offered() -> None:
    said = metric_missing("val_accuracy", "t_0", ["loss"])
    assert "Meant" not in said
    assert "until one logs it" in said


def test_a_trial_that_completed_without_a_metric_is_told_of_too() -> None:
    assert metric_missing("acc", "t_0", ()) == (
        "t_0 has completed and logged no metric: no best trial can be told until one logs 'acc', with mlflow"
    )
