"""How grave a log line says it is, whoever wrote it; a traceback is part of the error it tells of."""

from __future__ import annotations

import re
from enum import IntEnum

from footplate.logs.lines import Lines
from footplate.logs.sanitise import parse_line

_HEAD = 160
"""Characters of a line in which its level stands, where it has one."""
_LONGEST = 500
"""Lines of a traceback after which it is not believed to be one."""


class Level(IntEnum):
    """Of a line; NONE where it says none."""

    NONE = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4


_NAMES = {
    Level.ERROR: "ERROR|CRITICAL|FATAL|SEVERE",
    Level.WARNING: "WARNING|WARN",
    Level.INFO: "INFO|NOTICE",
    Level.DEBUG: "DEBUG|TRACE|VERBOSE",
}
_OF = {name: level for level, names in _NAMES.items() for name in names.split("|")}
_ANY = "|".join(_OF)
_RANK = r"(?>(?:\[[\w.:-]{1,24}\]:? ?)?)"
# In capitals as a word of its own; in any case where brackets, a colon or a key say that it is the level.
_WORD = re.compile(
    rf"(?<![\w.=/-])(?P<word>{_ANY})(?![\w.=/-])"
    rf"|(?i:[\[(|<](?P<boxed>{_ANY})[\])|>]|^(?P<first>{_ANY}):(?=\s)"
    rf"|\b(?:level(?:name)?|lvl|severity)[\"']?\s*[=:]\s*[\"']?(?P<keyed>{_ANY})\b)"
)
_GLOG = re.compile(rf"^{_RANK}([IWEF])\d{{4}} \d\d:\d\d:\d\d")
_GLOG_LEVELS = {"I": Level.INFO, "W": Level.WARNING, "E": Level.ERROR, "F": Level.ERROR}
_RAISED = re.compile(
    rf"^{_RANK}(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?P<kind>Error|Exception|Exit|Interrupt|Fault|Warning)|KeyboardInterrupt)(?::\s|$)"
)
_WARNS = re.compile(r":\d+: (?:[A-Za-z_]\w*\.)*[A-Z]\w*Warning: ")
_HEADER = re.compile(rf"^(?:.{{0,80}}[\s\]:])?{_RANK}Traceback \(most recent call last\):")
_BODY = re.compile(rf"^{_RANK}(?:\s|$|[|+] )")
_LINKS = re.compile(rf"^{_RANK}(?:During handling of the above exception|The above exception was the direct cause)")

# Of each: the letters that words begin with, and how they go on. One set of letters: `re` is several times slower over words.
_LETTERS = {
    Level.ERROR: ("CEFKSTcefst", "RROR|rror|RITICAL|ritical|ATAL|atal|EVERE|evere|xception|raceback|eyboardI|xit|ault"),
    Level.WARNING: ("Ww", "ARN|arn"),
    Level.INFO: ("INin", "NFO|nfo|OTICE|otice"),
    Level.DEBUG: ("DTVdtv", "EBUG|ebug|RACE|race|ERBOSE|erbose"),
}


def candidates(least: Level) -> re.Pattern[bytes]:
    """What every line of this level and above matches somewhere, a traceback by its first line; so do others."""
    wanted = [_LETTERS[level] for level in Level if level >= max(least, Level.DEBUG)]
    letters, rests = ("".join(texts) for texts in zip(*((a, f"{b}|") for a, b in wanted), strict=True))
    return re.compile(rf"[{letters}](?:{rests}\d{{4}} \d\d:)".encode())


def level_of(text: str) -> Level:
    """The level that a shown line says by itself; `loss_error=0.1` and a file's name say none."""
    head = text[:_HEAD]
    if found := _WORD.search(head):
        return _OF[next(name for name in found.groups() if name).upper()]
    if glog := _GLOG.match(head):
        return _GLOG_LEVELS[glog[1]]
    if raised := _RAISED.match(head):
        return Level.WARNING if raised["kind"] == "Warning" else Level.ERROR
    if _HEADER.match(head) or _LINKS.match(head):
        return Level.ERROR
    return Level.WARNING if _WARNS.search(head) else Level.NONE


def level_at(lines: Lines, number: int) -> Level:
    """The level of a line among others: one in a traceback has the error's."""
    own = level_of(_text(lines, number))
    if own is not Level.NONE:
        return own
    for before in range(number - 1, max(-1, number - _LONGEST), -1):
        text = _text(lines, before)
        if begins_traceback(text):
            end = traceback_end(lines, before, number + 1)
            return Level.ERROR if end is None or end > number else Level.NONE
        if not _BODY.match(text):
            return Level.NONE
    return Level.NONE


def begins_traceback(text: str) -> bool:
    """Whether a shown line is the first of a Python traceback."""
    return "Traceback" in text and _HEADER.match(text[:_HEAD]) is not None


def traceback_end(lines: Lines, number: int, limit: int) -> int | None:
    """The line after the traceback that begins at `number`; None where it is not over by `limit`.

    It ends with the exception, the first line that is not indented; one that it is chained to is another traceback.
    """
    for at in range(number + 1, min(limit, number + _LONGEST)):
        text = _text(lines, at)
        if not _BODY.match(text):
            return at if begins_traceback(text) else at + 1
    return None if limit < number + _LONGEST else number + 1


def _text(lines: Lines, number: int) -> str:
    return parse_line(*lines.display(number)).text
