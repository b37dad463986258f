"""The signs of a failure: what the lines of a rank, the exit codes and the workspace itself tell of its cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from footplate.logs.failure_kinds import EXCEPTION, SERVICE, UNKNOWN, Kind, Weight, exit_words, kind_of, step_of
from footplate.logs.progress import Progress, last_progress, tells_progress
from footplate.logs.sanitise import clean
from footplate.logs.tracebacks import Frame, Said, exceptions, said

LAST_LINES = 10
"""Lines that are shown where no exception is told."""
SURVIVED = 8
"""A weight beyond all: the rank went on after it."""

_HINT = re.compile(
    r"(?i)error|exception|kill|fault|abort|no module|no such|not found|cannot|can't|out of memory|no space|quota|enospc|time|closed"
    r"|reset|refused|signal|denied|interrupt|\bnan\b|duplicate|assert|fail|exited|unavailable|ecc|xid|bus|invalid|terminate called"
)
_WARNING = re.compile(r"(?i)\bwarn(?:ing)?\b|\bretry|\bignor")
FIRST = re.compile(r"rank (\d+): ")
"""What the error of a job on this machine begins with: the rank whose process failed first, or that is to blame."""
_STATUS = re.compile(r"(?:status|exit)[ _]?code:? ?'?(-?\d{1,3})\b", re.IGNORECASE)
_OF_RANK = re.compile(r"\[?[Rr]ank (\d+)\]?")
_EXACT = frozenset({"time_limit", "supervisor"})
_END_OF_OURS = re.compile(r"it ran into its time limit|its supervisor .* ended unexpectedly")


@dataclass(frozen=True)
class LogText:
    """What was read of one log file: `first` is the number of its first line (from 1), None where that is not known."""

    file: str
    rank: int | None
    """The rank whose file it is by its name."""
    data: bytes
    first: int | None = 1
    changed: datetime | None = None


@dataclass(frozen=True)
class Known:
    """What is known of the job beside its logs."""

    nodes: int = 1
    ranks_per_node: int = 1
    ends: Mapping[int, int] = field(default_factory=dict)
    """Exit codes by rank, as far as they are told."""
    error: str = ""
    """What the workspace says of the failure."""
    shm_size: str = ""
    """The shared memory that the job was given; empty where its file says nothing."""


@dataclass(frozen=True)
class Stream:
    """The lines of one rank in one file."""

    rank: int | None
    log: LogText
    lines: Sequence[Said]


@dataclass(frozen=True)
class Sign:
    """One thing that may be the cause."""

    weight: int
    sure: int
    """0 for what is sure of its weight, more for what is less so."""
    kind: Kind
    rank: int | None
    stream: Stream | None = None
    begin: int = 0
    end: int = 0
    at: Said | None = None
    type: str = ""
    message: str = ""
    sentence: str = ""
    next_step: str = ""
    frames: tuple[Frame, ...] = ()
    origin: Frame | None = None
    then: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """Its lines, where they stand in no log."""


def signs_of(stream: Stream, known: Known) -> Iterator[Sign]:
    """What a rank's lines tell of its failure."""
    lines = stream.lines
    raised = exceptions(lines)
    inside = {i for one in raised for i in range(one.begin, one.end)}
    went_on = _last_advance([(i, line.text) for i, line in enumerate(lines) if i not in inside])
    for one in raised:
        kind, match = kind_of(one.text) or (EXCEPTION, None)
        weight = SURVIVED if went_on >= one.end or one.ignored else kind.weight
        yield Sign(
            weight,
            0 if one.frames else 2,
            kind,
            one.rank if one.rank is not None else _named(match, stream.rank),
            stream,
            one.begin,
            one.end,
            one.at,
            one.type,
            one.message,
            _fill(kind.sentence, match, known),
            _fill(kind.next_step, match, known),
            one.frames,
            one.origin,
            one.then,
        )
    for i, line in enumerate(lines):
        if i in inside or not _HINT.search(line.text) or _WARNING.search(line.text):
            continue
        if found := kind_of(line.text, bare=True):
            kind, match = found
            weight = SURVIVED if went_on > i else kind.weight
            frames = _frames_below(lines, i) if kind.id in ("segfault", "abort") else ()
            origin = next((frame for frame in frames if frame.of_user), frames[0] if frames else None)
            end = i + 1 + (len(frames) + 2 if frames else 0)
            yield Sign(
                weight,
                1 if frames else 3,
                kind,
                _named(match, stream.rank, line.text if kind.id.endswith("timeout") else ""),
                stream,
                i,
                min(end, len(lines)),
                line,
                "",
                line.text.strip(),
                _fill(kind.sentence, match, known),
                _fill(kind.next_step, match, known),
                frames,
                origin,
            )


def _last_advance(lines: Sequence[tuple[int, str]]) -> int:
    """Where the rank last came further than before: what stands above it did not end it. -1 where it never told."""
    last, at = Progress(), -1
    for i, text in lines:
        if tells_progress(text):
            now = last_progress([text])
            if at < 0 or (now.epoch or 0, now.step or 0) > (last.epoch or 0, last.step or 0):
                at = i
            last = now
    return at


def _frames_below(lines: Sequence[Said], i: int) -> tuple[Frame, ...]:
    """The places that faulthandler names below a crash, the innermost first."""
    pattern = re.compile(r'\s+File "([^"]+)", line (\d+) in (.+)')
    found = [match for line in lines[i + 1 : i + 40] if (match := pattern.match(line.text))]
    return tuple(Frame(match[1], int(match[2]), match[3].strip()) for match in found)


def _named(match: re.Match[str] | None, rank: int | None, text: str = "") -> int | None:
    """The rank that a sign itself names, else the one whose line it is."""
    groups = match.groupdict() if match else {}
    for name in ("mpi_rank", "mpich_rank", "of"):
        if groups.get(name):
            return int(groups[name])
    named = _OF_RANK.search(text) if rank is None else None
    return int(named[1]) if named else rank


def _fill(sentence: str, match: re.Match[str] | None, known: Known) -> str:
    given = {name: clean(value or "") for name, value in (match.groupdict() if match else {}).items()}
    shm = (
        f"it had {known.shm_size} (resources.shm_size)"
        if known.shm_size
        else "the job file gives no resources.shm_size"
    )
    return sentence.format(shm=shm, **given)


def of_ends(ends: Mapping[int, int], streams: Sequence[Stream], known: Known) -> Iterator[Sign]:
    """What the exit codes tell."""
    first = FIRST.match(known.error)
    culprit = int(first[1]) if first else None
    codes: dict[int | None, int] = {rank: code for rank, code in ends.items() if code}
    if not codes and (status := _STATUS.search(known.error)):
        codes = {
            (culprit if culprit is not None else 0 if known.nodes * known.ranks_per_node == 1 else None): int(status[1])
        }
    for rank, code in codes.items():
        kind, told, weight = exit_words(code)
        if kind == "killed" and culprit is not None and rank != culprit:
            weight = Weight.WRAPPER  # whoever does not heed SIGTERM when another has failed is killed
        stream = next((s for s in streams if s.rank == rank and s.log.rank == rank), None)
        stream = stream or next((s for s in streams if s.rank == rank), None)
        lines = list(stream.lines) if stream else []
        while lines and not lines[-1].text.strip():
            lines.pop()
        sentence = f"Exit code {code}: {told}."
        if kind == "killed":
            sentence += " Nothing in the log says who killed it." if lines else " It wrote no log."
        named = Kind(kind, UNKNOWN.sign, sentence, step_of(kind), weight)
        begin = max(0, len(lines) - LAST_LINES)
        yield Sign(weight, 1, named, rank, stream, begin, len(lines), lines[-1] if lines else None, sentence=sentence)


def of_workspace(known: Known) -> Iterator[Sign]:
    """What the workspace says of the end; a service may quote the script's own exception."""
    if not known.error or FIRST.match(known.error):
        return
    lines = list(said(known.error.encode("utf-8", "replace").split(b"\n"), None, None))
    for one in exceptions(lines):
        kind, match = kind_of(one.text) or (EXCEPTION, None)
        told = tuple(line.text for line in lines[one.begin : one.end])
        sentence, step = _fill(kind.sentence, match, known), _fill(kind.next_step, match, known)
        yield Sign(
            kind.weight, 6, kind, _named(match, None), None, 0, 0, None, one.type, one.message, sentence, step, one.frames,
            one.origin, one.then, told,
        )  # fmt: skip
    for kind in SERVICE:
        if kind.sign.search(known.error):
            ours = kind.id in _EXACT and _END_OF_OURS.search(known.error)
            weight = Weight.CAUSE if ours else Weight.LIKELY
            yield Sign(weight, -1 if ours else 4, kind, None, message=clean(known.error), sentence=kind.sentence)
            return
    if found := kind_of(known.error):
        kind, match = found
        sentence = _fill(kind.sentence, match, known)
        yield Sign(kind.weight, 7, kind, None, message=clean(known.error), sentence=sentence)
