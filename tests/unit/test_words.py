"""Figures as the console and the commands write them."""

from __future__ import annotations

import pytest

from footplate import words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3.0, "3"),
        (0.98765, "0.988"),
        (0.00012345, "0.000123"),
        (123456, "123456"),
        (1234567, "1.23e+06"),
        (-1e308, "-1e+308"),
        (10**400, "1.00e+400"),
        (-(10**4000), "-1.00e+4000"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_of_any_size(value, text):
    assert words.number(value) == text
