"""Where somebody wants to go in a log, as it is typed: a line, a part of the whole, a time, or so long ago."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

_LINE = re.compile(r"\d{1,3}(?:[,_ ]\d{3})+|\d+")
_PART = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%")
_AGO = re.compile(r"-? ?(\d{1,6}) ?(s|m|min|h|d)", re.IGNORECASE)
_TIME = re.compile(r"(?:(\d{4})-(\d\d?)-(\d\d?)[T ]?)?(?:(\d\d?):(\d\d)(?::(\d\d))?)?(Z)?", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


class Goal(NamedTuple):
    """One of the three: a line counted from 0, a part of the lines, or a time."""

    line: int | None = None
    part: float | None = None
    time: datetime | None = None


def read_goal(typed: str, last: datetime) -> Goal:
    """Read what was typed; a time of day is of the day that `last`, the log's last line, was written. Raises ValueError."""
    text = typed.strip()
    if _LINE.fullmatch(text):
        return Goal(line=max(0, int(re.sub("[,_ ]", "", text)) - 1))
    if part := _PART.fullmatch(text):
        return Goal(part=min(1.0, float(part[1]) / 100))
    if ago := _AGO.fullmatch(text):
        return Goal(time=last - timedelta(seconds=int(ago[1]) * _UNITS[ago[2].lower()]))
    found = _TIME.fullmatch(text)
    if found and (found[1] or found[4]):
        day = last.astimezone().date()
        try:
            if found[1]:
                day = date(int(found[1]), int(found[2]), int(found[3]))
            hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
            time = datetime(day.year, day.month, day.day, hour, minute, second)
            return Goal(time=datetime.fromisoformat(f"{time.isoformat()}+00:00") if found[7] else time.astimezone())
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{text} is no time: {error}.") from error
    raise ValueError(
        "A line (1200), a part (50%), a time (14:02, 2026-12-01 14:02:11), or how long before the end (-5m)."
    )
