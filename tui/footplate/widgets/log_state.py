"""What is always said above a log: which, how much of it is here, whether it is followed, and what is left out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from textual.content import Content

from footplate import words
from footplate.logs.sanitise import clean

_FAULT_ROWS = 3
"""A fault takes so many rows at most: what to do next stands at its end."""
JUST_NOW = 3.0
"""Seconds within which a look counts as just now: so much a log's copying takes between two looks."""


@dataclass(frozen=True)
class SourceState:
    """What the owner of a log knows of where it comes from.

    `total` are the bytes that are there, `checked` when that was asked (`monotonic`), `fault` why it could not be, in a sentence;
    `active` whether more may come; `note` what to say as long as there is nothing; `since` since when something could have come.
    """

    total: int | None = None
    checked: float | None = None
    fault: str = ""
    active: bool = True
    note: str = ""
    since: datetime | None = None


@dataclass(frozen=True)
class Shown:
    """What the view is at. `size` are the bytes here, `in_force` what is searched for, left out or shown otherwise."""

    title: str
    size: int
    lines: int
    follow: bool
    new: int
    found: str = ""
    in_force: tuple[str, ...] = field(default=())


def state_lines(shown: Shown, source: SourceState, width: int) -> list[Content]:
    """Return rows of `width` cells: which log, unless it has no title, and how it is followed; a fault; what is in force."""
    rows = [_first(shown, source, width)] if shown.title else []
    if source.fault:
        rows.append(Content.styled(_fitting(clean(source.fault), _FAULT_ROWS * width - 12), "$text-error"))
    if shown.found or shown.in_force:
        found = [Content.styled(clean(shown.found), "$text-accent")] if shown.found else []
        rows += _filled([*found, *(Content(clean(part)) for part in shown.in_force)], width)
    return rows


def _first(shown: Shown, source: SourceState, width: int) -> Content:
    if not shown.follow:
        new = f", {shown.new:,} new" if shown.new else ""
        how = Content.styled(f"paused{new}  G follows", "$text-warning")
    else:
        how = Content.styled("● following", "$text-success") if source.active else Content("at the end")
    total = max(source.total or 0, shown.size)
    size = f"all {words.size(total)}" if total == shown.size else f"{words.size(shown.size)} of {words.size(total)}"
    rest = [size, f"{shown.lines:,} {'line' if shown.lines == 1 else 'lines'}", *_checked(source)]
    title = clean(shown.title)
    room = width - how.cell_length - 2
    for parts in (
        rest,
        [size, *_checked(source)],
        [size, *(part.removeprefix("checked ") for part in _checked(source))],
    ):
        right = "  ".join(parts)
        if len(right) + min(Content(title).cell_length, 24) + 2 <= room:
            break
    title = _shortened(title, room - len(right) - 2)
    return Content.assemble(how, "  ", (title, "bold"), "  " if title else "", right)


def _checked(source: SourceState) -> list[str]:
    """When it was last looked; nothing where the log is at its end for good."""
    if source.checked is None or not source.active:
        return []
    ago = monotonic() - source.checked
    return ["checked just now" if ago < JUST_NOW else f"checked {words.span(ago)} ago"]


def empty_text(source: SourceState, left_out: bool, now: datetime) -> str:
    """What stands where there are no lines: why, since when it was looked, and what may be wrong."""
    if left_out:
        return "No line is left by the filter, the level or the time window."
    if not source.active:
        return source.note or "This log is empty."
    waited = (now - source.since).total_seconds() if source.since is not None else 0.0
    checked = ""
    if source.checked is not None:
        ago = monotonic() - source.checked
        checked = f", last checked {'just now' if ago < JUST_NOW else f'{words.span(ago)} ago'}"
    text = f"No output yet{checked}. {source.note}".rstrip()
    if waited > BUFFERED_AFTER:
        text += (
            f"\n\nNothing for {words.span(waited)}: Python holds back what it prints into a file. Run it as python -u, or set "
            "PYTHONUNBUFFERED=1 in the job's environment variables, and each line comes at once."
        )
    return text


BUFFERED_AFTER = 60.0
"""Seconds without any output of a running job after which it may be that its output is held back."""


def _filled(parts: list[Content], width: int) -> list[Content]:
    """Rows of the parts, none of them broken unless it is longer than a row."""
    rows: list[list[Content]] = [[]]
    for part in parts:
        if rows[-1] and Content(" · ").join([*rows[-1], part]).cell_length > width:
            rows.append([])
        rows[-1].append(part)
    return [Content(" · ").join(row) for row in rows]


def _shortened(title: str, room: int) -> str:
    """A path without its beginning, anything else without its end, where there is no room for all of it."""
    if Content(title).cell_length <= room:
        return title
    if "/" not in title or " " in title:
        return _fitting(title, room) if room > 1 else ""
    while "/" in title and Content(title).cell_length + 2 > room:
        title = title.partition("/")[2]
    if Content(title).cell_length + 2 <= room:
        return f"…/{title}"
    while title and Content(title).cell_length + 1 > room:
        title = title[1:]
    return f"…{title}" if title else ""


def _fitting(text: str, width: int) -> str:
    return Content(text).truncate(max(1, width), ellipsis=True).plain
