"""When a log line says that it was written: read where the line states date and time, never guessed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

_HEAD = 96
_NEAR = timedelta(days=182)

# Before it may stand a rank, a level with its logger, and the name of the field; not any words: "resumed from 2025-01-01 12:00:00"
# is no time of the line.
_BEFORE = (
    r"^\s{0,8}(?:\[(?:rank ?)?\d{1,4}\]:?\s?|r(?:ank ?)?\d{1,4}[:|]?\s)?"
    r"(?:[\[(<]?[A-Z]{4,8}[\])>]?[\s:|-]{1,3}(?:[\w.]{1,40}:)?)?"
    r"(?:\{?[\"']?@?(?:time|ts|timestamp|asctime|datetime|date)[\"']?\s?[=:]\s?)?[\[(<\"']{0,2}"
)
_CLOCK = r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d|60)(?:[.,](?P<fraction>\d{1,9}))?"
_ISO = re.compile(
    rf"{_BEFORE}(?P<year>(?:19|20)\d\d)(?P<bar>[-/])(?P<month>0[1-9]|1[0-2])(?P=bar)(?P<day>0[1-9]|[12]\d|3[01])"
    rf"(?:T|\s|_){_CLOCK}\s?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?(?![\w:])"
)
_GLOG = re.compile(
    rf"^(?:\[[^\]]{{1,24}}\]:?\s?)?[IWEF](?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])\s{_CLOCK}\s"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SYSLOG = re.compile(rf"^(?:<\d{{1,3}}>)?(?P<name>{'|'.join(_MONTHS)})\s(?P<day>[ 0-3]?\d)\s{_CLOCK}\s\S")
_EPOCH = re.compile(r"^(?:\[(?P<boxed>1\d{9}(?:\.\d{1,9})?)\]|(?P<bare>1\d{9}\.\d{3,9}))(?=[\s:,|]|$)")


def time_in(text: str, zone: tzinfo | None = UTC, near: datetime | None = None) -> datetime | None:
    """The time that a shown line states near its beginning, in UTC; None where it states none, or only a part of one.

    `zone` is where a time without one was written (None: this machine's). Formats that name no year (glog, syslog) are read only
    with `near`, a moment within half a year after it.
    """
    head = text[:_HEAD]
    if not any(char.isdigit() for char in head[:40]):
        return None
    if found := _ISO.match(head):
        return _moment(int(found["year"]), int(found["month"]), found, _zone(found["zone"], zone))
    if found := _EPOCH.match(head):
        return datetime.fromtimestamp(float(found["boxed"] or found["bare"]), UTC)
    if near is None:
        return None
    if found := _GLOG.match(head):
        return _last(int(found["month"]), found, zone, near)
    if found := _SYSLOG.match(head):
        return _last(_MONTHS.index(found["name"]) + 1, found, zone, near)
    return None


def _moment(year: int, month: int, found: re.Match[str], zone: tzinfo | None) -> datetime | None:
    second = int(found["second"])
    try:
        written = datetime(year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), min(second, 59))
        moment = written.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):  # the 30th of February is no time
        return None
    micro = int((found["fraction"] or "0")[:6].ljust(6, "0"))
    return moment + timedelta(seconds=second - min(second, 59), microseconds=micro)


def _last(month: int, found: re.Match[str], zone: tzinfo | None, near: datetime) -> datetime | None:
    # No line is from the future, but for a clock that is a little ahead.
    for year in (near.year + 1, near.year, near.year - 1):
        moment = _moment(year, month, found, zone)
        if moment is not None and moment <= near + timedelta(days=1):
            return moment if near - moment < _NEAR else None
    return None


def _zone(written: str | None, otherwise: tzinfo | None) -> tzinfo | None:
    if not written:
        return otherwise
    if written[0] not in "+-":
        return UTC
    minutes = int(written[1:3]) * 60 + int(written[-2:])
    if minutes >= 24 * 60:
        return otherwise
    return timezone(timedelta(minutes=-minutes if written[0] == "-" else minutes))
