"""Read values out of JSON that may lack any of them: null, a year-1 date, another type; nothing here raises for that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from footplate.workspace.errors import Invalid

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for a date that an answer should have and has not."""
SYSTEM_TAGS = "_aml_system_"
"""Tags of this prefix are the service's own, kilobytes of them on a sweep: hidden."""

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNITS = (86400, 3600, 60, 1)


def mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A JSON list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Text; empty for null, and any other value as it prints."""
    return value if isinstance(value, str) else "" if value is None else str(value)


def count(value: Any, default: int = 0) -> int:
    """A whole number from 0; the default for null and anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def moment(value: Any) -> datetime | None:
    """A date in UTC; None for null, for what is none, and for the year 1, which means "not yet"."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        if found.year <= 1:
            return None
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # no date, or one past all that Python knows
        return None


def created(item: Mapping[str, Any]) -> datetime:
    """When a resource was created, by its `systemData`."""
    return moment(mapping(item.get("systemData")).get("createdAt")) or LONG_AGO


def tags(value: Any) -> dict[str, str]:
    """The user's tags."""
    return {name: text(tag) for name, tag in mapping(value).items() if not name.startswith(SYSTEM_TAGS)}


def last_name(identity: Any) -> str:
    """The name at the end of an ARM id; a bare name as it is, without `azureml:`."""
    return text(identity).rstrip("/").rpartition("/")[2].removeprefix("azureml:")


def asset_reference(identity: Any) -> str:
    """`name:version` of an asset's ARM id; another form, as a registry's address, as it is."""
    given = text(identity)
    parts = given.rstrip("/").split("/")
    if not given.startswith("azureml://") and len(parts) > 3 and parts[-2] == "versions":
        return f"{parts[-3]}:{parts[-1]}"
    return given if given.startswith("azureml://") else given.removeprefix("azureml:")


def seconds(value: Any) -> int:
    """Seconds of an ISO 8601 duration, as in PT1M40S; 0 for null and anything else."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return sum(int(float(part or 0) * unit) for part, unit in zip(found.groups(), _UNITS, strict=True)) if found else 0


def duration(whole_seconds: int) -> str:
    """Seconds as an ISO 8601 duration, as the SDK writes it: 100 is PT1M40S."""
    days, rest = divmod(whole_seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    time = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (left, "S")) if number)
    return f"P{days}D" + (f"T{time}" if time else "") if days else f"PT{time or '0S'}"


def parse_reference(reference: str, what: str) -> tuple[str, str | None]:
    """Name and version (None: the newest) of `name:version`, `name@latest` or a bare name. Raises Invalid for another form."""
    name, separator, version = reference.removeprefix("azureml:").partition(":")
    if separator and name and version and "/" not in reference:
        return name, version
    if not separator and "/" not in name:
        name, _, label = name.partition("@")
        if name and label in ("", "latest"):
            return name, None
    raise Invalid(f"{reference!r} names no {what}.", "Write NAME:VERSION or NAME@latest.")
