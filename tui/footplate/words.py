"""Figures and moments as the console and the commands write them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path


def span(seconds: float | None) -> str:
    """A length of time in at most five characters: `42s`, `3m07s`, `5h12m`, `9d`; `–` for none."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d"


def age(moment: datetime, now: datetime | None = None) -> str:
    """How long ago in one figure: `42s`, `3m`, `5h`, `9d`."""
    seconds = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def size(count: float | None) -> str:
    """Bytes in a figure of three digits: `812 B`, `14.2 KB`, `1.7 MB`; `–` where they are not told."""
    if count is None:
        return "–"
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.0f} B"


def transfer(what: str, done: int, total: int | None) -> str:
    """How far something is that is sent or fetched; `total` is 0 or None before it is known."""
    return f"{what} {size(done)} of {size(total)}" if total else f"{what}, {size(done)} so far"


def count(known: int | None) -> str:
    """A number of things; `–` where it is not told."""
    return "–" if known is None else f"{known:,}"


def number(value: float) -> str:
    """A metric's value in at most six characters where that loses nothing an operator looks at."""
    try:
        value = float(value)
    except OverflowError:  # a whole number beyond what a float holds
        from decimal import Decimal  # seldom needed, and not free at start-up

        return f"{Decimal(value):.3g}"
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3f}" if 0.01 <= abs(value) < 1000 else f"{value:.3g}"


def metric(value: float) -> str:
    """A metric's value in a column: small ones with three decimals, so that they stand below each other."""
    return f"{value:.3f}" if abs(value) < 10 else number(value)


def value(given: object) -> str:
    """A value of a search space or an input: a long number in few digits, anything else as its text."""
    text = str(given)
    try:
        return number(float(text)) if len(text) > 6 else text
    except ValueError:
        return text


def percent(share: float) -> str:
    """A share of one as per cent with one decimal."""
    return f"{share * 100:.1f} %"


def ranks(nodes: int, each: int) -> str:
    """`2 × 4 = 8 ranks`, or `1 rank`."""
    total = nodes * each
    return "1 rank" if total == 1 else f"{nodes} × {each} = {total} ranks"


def path(given: Path) -> str:
    """A path as a shell writes it: the user's home folder as `~`."""
    try:
        return f"~/{given.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(given)
