"""Finds the exceptions in a log: whose rank's they are, what caused them, and where in whose code they arose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from footplate.logs.progress import tells_progress
from footplate.logs.sanitise import last_state, parse_line

LONGEST = 2000
"""Characters of a line that are looked at: the expressions below take time by length."""
_MOST_FRAMES = 2200
_CONTINUED = 8
"""Lines of a message after its first."""

_WHEN = re.compile(
    r"\[?(?P<day>\d{4}-\d\d-\d\d)[T _](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?\]?:?\s+"
)
_OF_RANK = re.compile(
    r"(?:\[rank(?P<rank>\d{1,6})\]:"  # torch's own, the rank of all
    r"|\[[A-Za-z_]\w*?(?P<local>\d{1,4})\]:"  # torchrun's, the rank on its node
    r"|\[\d+,(?P<mpi>\d{1,6})\]<std(?:out|err|diag)>:?)[ ]?"  # Open MPI's --tag-output
)
_INSIDE = re.compile(r"(?=\[rank\d{1,6}\]:|\[\d+,\d{1,6}\]<std(?:out|err)>:)")
_BEGIN = re.compile(r"(?P<before>.*?)Traceback \(most recent call last\):$")
_FRAME = re.compile(r'\s*\|?\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?')
_RAISED = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(?P<message>.*))?$")
_BARE = re.compile(r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)): (?P<message>\S.*)$")
_CAUSED = "The above exception was the direct cause of the following exception:"
_MEANWHILE = "During handling of the above exception, another exception occurred:"
_SPAWNED = re.compile(r"-- Process (\d+) terminated with the following error:")
_LOGGED = re.compile(r"[IWEF]\d{4} |\[[IWEF]\d{4} |\d{4}-\d\d-\d\d|\[rank\d|={10}|-{10}")
_OTHERS_CODE = re.compile(r"site-packages|dist-packages|/lib(?:64)?/python\d|<frozen |<string>|^torch/")
_SAYS_LITTLE = frozenset(
    {"KeyError", "AttributeError", "IndexError", "StopIteration", "Empty", "LookupError", "ImportError"}
    | {"ModuleNotFoundError", "queue.Empty", "_queue.Empty", "TimeoutError", "AssertionError"}
)
"""What is often caught in order to say something better: of such a pair the second is told first."""


@dataclass(frozen=True, slots=True)
class Said:
    """One line of a log: its text without colours, prefix and time, its number in the file (from 1), its rank and time.

    `number` is None where what stands before was not read; `rank` where nothing tells it.
    """

    text: str
    number: int | None
    rank: int | None
    local: bool = False
    """Whether `rank` is the one on its node only, as torchrun's prefix has it."""
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """One place in the code that a traceback names."""

    file: str
    line: int
    function: str

    @property
    def of_user(self) -> bool:
        """Whether this is code of the job's own rather than of a library."""
        return not _OTHERS_CODE.search(self.file)


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as the log tells it, that which caused it included: the innermost comes as `type` and `message`."""

    type: str
    message: str
    at: Said
    """The line with the type and message."""
    begin: int
    end: int
    """Which of the rank's lines it takes, as a range."""
    frames: tuple[Frame, ...] = ()
    then: tuple[str, ...] = ()
    """What it led to: the exceptions of the same chain that came of it."""
    rank: int | None = None
    """The rank that the text itself names, as `spawn` does."""
    ignored: bool = False
    """Whether Python says that it was ignored."""

    @property
    def text(self) -> str:
        """Type and message, as Python writes them."""
        return f"{self.type}: {self.message}" if self.message else self.type

    @property
    def origin(self) -> Frame | None:
        """The innermost place in the job's own code, else the innermost at all."""
        own = [frame for frame in self.frames if frame.of_user] or self.frames
        return own[-1] if own else None


def said(lines: Iterable[bytes], first: int | None, rank: int | None) -> Iterator[Said]:
    """The lines of a piece of a log. Where another rank wrote into the middle of a line, each part goes to its own rank."""
    number, mine, local, time = first, rank, False, None
    for raw in lines:
        parsed = parse_line(last_state(raw.rstrip(b"\r\n"))[: 4 * LONGEST]).text.rstrip()[:LONGEST]
        parts = _INSIDE.split(parsed) if "[" in parsed[1:] else [parsed]
        for i, part in enumerate(filter(None, parts) if len(parts) > 1 else parts):
            text, own, on_node, when = _without_prefix(part)
            if i == 0 or own is not None:
                mine, local = (rank, False) if own is None else (own, on_node)
            time = when or (time if text[:1].isspace() else None)
            yield Said(text, number, mine, local, time)
        number = None if number is None else number + 1


def _without_prefix(text: str) -> tuple[str, int | None, bool, datetime | None]:
    """A line without the times and rank prefixes at its front; the innermost prefix tells the rank."""
    rank: int | None = None
    local, when = False, None
    for _ in range(4):
        if found := _OF_RANK.match(text):
            if found["local"] is None:
                rank, local = int(found["rank"] or found["mpi"]), False
            elif rank is None:
                rank, local = int(found["local"]), True
        elif when is None and (found := _WHEN.match(text)):
            when = _moment(found)
        else:
            break
        text = text[found.end() :]
    return text, rank, local, when


def _moment(found: re.Match[str]) -> datetime | None:
    part = (found["part"] or "0")[:6].ljust(6, "0")
    try:
        moment = datetime.fromisoformat(f"{found['day']}T{found['time']}.{part}{found['zone'] or ''}")
    except ValueError:  # the 31st of February
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def by_rank(lines: Iterable[Said]) -> dict[tuple[int | None, bool], list[Said]]:
    """The lines of each rank by itself, in order."""
    found: dict[tuple[int | None, bool], list[Said]] = {}
    for line in lines:
        found.setdefault((line.rank, line.local), []).append(line)
    return found


def exceptions(lines: Sequence[Said]) -> list[Raised]:
    """The exceptions in one rank's lines, in order; those of one chain as one."""
    found: list[Raised] = []
    i = 0
    while i < len(lines):
        text = lines[i].text
        if text.endswith("(most recent call last):") and _BEGIN.match(text):
            chain, i = _chain(lines, i)
            found += chain
        elif bare := _BARE.match(text):
            found.append(Raised(bare["type"], bare["message"], lines[i], i, i + 1))
            i += 1
        else:
            i += 1
    return found


def _chain(lines: Sequence[Said], i: int) -> tuple[list[Raised], int]:
    """The exception whose traceback begins at a line, with those chained to it, and where what follows begins."""
    one, i = _traceback(lines, i)
    if one is None:
        return [], i
    told, others, begin = one, list[str](), one.begin
    while True:
        link, at, process = _link(lines, i)
        if not link:
            break
        another, after = _traceback(lines, at)
        if another is None:
            break
        i = after
        inner = link == "original" or (link == "meanwhile" and told.type in _SAYS_LITTLE)
        others += [told.text if inner else another.text]
        told = another if inner else told
        if process is not None:
            told = replace(told, rank=process)
    return [replace(told, begin=begin, end=i, then=tuple(others))], i


def _link(lines: Sequence[Said], i: int) -> tuple[str, int, int | None]:
    """How the next traceback hangs on the one before ("" for not at all), where it begins, and the process it is of."""
    process: int | None = None
    link = ""
    for at in range(i, min(i + _CONTINUED, len(lines))):
        text = lines[at].text.strip()
        if begin := _BEGIN.match(text):
            if begin["before"].strip() == "Original":
                link = "original"
            return link, at, process
        if text == _CAUSED:
            link = "caused"
        elif text == _MEANWHILE:
            link = "meanwhile"
        elif found := _SPAWNED.match(text):
            link, process = "original", int(found[1])
        elif link and text:
            break
    return "", i, None


def _traceback(lines: Sequence[Said], i: int) -> tuple[Raised | None, int]:
    """One traceback that begins at a line; None where its end is missing."""
    begin = i
    first = _BEGIN.match(lines[i].text)
    before = first["before"] if first else ""
    # torchrun's summary indents what it quotes.
    indent = len(before) - len(before.lstrip()) if before.strip().endswith("traceback :") else 0
    ignored = begin > 0 and lines[begin - 1].text.startswith("Exception ignored in")
    frames: list[Frame] = []
    i += 1
    while i < len(lines) and i - begin < _MOST_FRAMES:
        text = lines[i].text[indent:] if lines[i].text[:indent].isspace() or not indent else lines[i].text
        if found := _FRAME.match(text):
            frames.append(Frame(found["file"], int(found["line"]), (found["function"] or "").strip()))
        elif text and not text[0].isspace():
            break
        i += 1
    if i >= len(lines) or i - begin >= _MOST_FRAMES:
        return None, i
    raised = _RAISED.match(lines[i].text.strip())
    if raised is None:
        return None, i
    at, message = replace(lines[i], time=lines[i].time or lines[begin].time), raised["message"] or ""
    end = i + 1
    while end < len(lines) and end - i <= _CONTINUED and _goes_on(lines[end].text):
        message += ("\n" if message else "") + lines[end].text.strip()
        end += 1
    return Raised(raised["type"], message, at, begin, end, tuple(frames), ignored=ignored), end


def _goes_on(text: str) -> bool:
    """Whether a line is still of the message above it."""
    return bool(text.strip()) and not (
        _BEGIN.match(text)
        or _LOGGED.match(text)
        or tells_progress(text)
        or text.startswith(("Exception in thread", "Exception ignored"))
    )
