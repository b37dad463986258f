"""The filter expression of lists and commands."""

from __future__ import annotations

import pytest

from footplate.operations.filters import Filter

TEXT = "birds-abc Failed Birds local rank 1: ValueError: no such bird"


@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        ("", True),
        ("birds", True),
        ("BIRDS valueerror", True),
        ("birds fish", False),
        ("!fish", True),
        ("!Birds", False),
        ("status:failed", True),
        ("status:fail", True),
        ("Status:FAILED", True),
        ("state:failed", True),
        ("status:ailed", False),
        ("status:running,failed", True),
        ("status:running", False),
        ("status:failed status:running", False),
        ("!status:failed", False),
        ("!status:running,canceled", True),
        ("status:failed !abc", False),
        ("birds:1", False),
        ("1:", True),
    ],
)
def test_all_terms_must_hold(expression, passes):
    parsed = Filter.parse(expression)
    assert parsed.error == ""
    assert parsed.passes(TEXT, "Failed") is passes


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("status:", "'status:' names no status"),
        ("state:,", "'state:,' names no status"),
        ("!status:", "'!status:' names no status"),
        ("!", "stands before the word"),
        ("! status:", "stands before the word"),
    ],
)
def test_a_term_that_says_nothing_is_named_and_passed_over(expression, words):
    parsed = Filter.parse(f"{expression} birds")
    assert words in parsed.error
    assert parsed.passes(TEXT, "Failed")
    assert not parsed.passes("fish", "Failed")


def test_something_without_a_status_passes_no_status_term():
    assert not Filter.parse("status:failed").passes("a model", "")
    assert Filter.parse("!status:failed").passes("a model", "")
