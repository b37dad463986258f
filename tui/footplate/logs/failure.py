"""Why a job failed, from the logs and exit codes of all its ranks: the earliest true exception, not what bystanders say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from footplate.logs import torchrun
from footplate.logs.card import LONGEST, Card, RankStory
from footplate.logs.failure_kinds import UNKNOWN, Weight, exit_words
from footplate.logs.progress import last_progress, tells_progress
from footplate.logs.sanitise import clean
from footplate.logs.signs import (
    FIRST,
    LAST_LINES,
    SURVIVED,
    Known,
    LogText,
    Sign,
    Stream,
    of_ends,
    of_workspace,
    signs_of,
)
from footplate.logs.tracebacks import Said, by_rank, said

__all__ = ["Card", "Known", "LogText", "RankStory", "find"]

_MISSED = re.compile(r"ranks: ([\d, ]+) did not come")
_JOINED = re.compile(r"(\d+)/(\d+) clients joined|world_size=(\d+), (?:num_workers_joined|worker_count)=(\d+)")
_LATE = re.compile(r"[Rr]anks? ((?:\d+[, and]*)+) failed to pass monitoredBarrier")
_SEQUENCE = re.compile(r"SeqNum=(\d+)(?:, OpType=(\w+))?")


def find(logs: Sequence[LogText], known: Known) -> Card:
    """The card of a failed job from what was read of its logs; where nothing tells the cause, it says so."""
    streams, told = _read(logs, known)
    seen = {stream.rank for stream in streams if stream.rank is not None} | {end.rank for end in told}
    launched = bool(told) or max(seen, default=0) >= known.nodes * known.ranks_per_node
    # What the workspace knows of is torchrun itself then, and not the ranks that it started.
    ends = {end.rank: end.exit_code for end in told} if launched else dict(known.ends)
    world = max(known.nodes * known.ranks_per_node, max((*seen, *ends), default=0) + 1)
    per_node = -(-world // known.nodes)
    signs = [sign for stream in streams for sign in signs_of(stream, known)]
    signs += [*of_ends(ends, streams, known), *of_workspace(known)]
    signs = [sign for sign in signs if sign.weight < SURVIVED] or signs
    times = {end.rank: end.time for end in told if end.time is not None}
    best = min(signs, key=_order(signs, times, known), default=None)
    absent = _absent(signs, streams, world)
    late = _late(signs, world) if best is not None and best.kind.id in ("nccl_timeout", "gloo_timeout") else ()
    stories = tuple(_story(rank, rank // per_node, streams, signs, ends) for rank in range(world))
    return _card(best, streams, stories, known, per_node, absent, late)


def _read(logs: Sequence[LogText], known: Known) -> tuple[list[Stream], list[torchrun.Ended]]:
    """The lines of each rank, and what torchrun's summaries tell."""
    found: list[tuple[LogText, dict[tuple[int | None, bool], list[Said]]]] = []
    told: list[torchrun.Ended] = []
    for log in logs:
        lines = list(said(log.data.split(b"\n"), log.first, log.rank))
        ended = torchrun.summary(lines)
        told += [end for end in ended if end not in told]
        found.append((log, by_rank(lines)))
    ranks_of = {(end.local_rank): end.rank for end in told} if known.nodes == 1 else {}
    on_a_node = 1 + max((rank for _, ranks in found for rank, local in ranks if local and rank is not None), default=0)
    streams: dict[tuple[str, int | None], Stream] = {}
    for log, ranks in found:
        for (rank, local), lines in ranks.items():
            if local and rank is not None:  # torchrun's prefix has the rank on its node, and each node a file
                rank = ranks_of.get(rank, rank + (log.rank or 0) * on_a_node)
            before = streams.get((log.file, rank))
            lines = [*before.lines, *lines] if before else lines
            streams[log.file, rank] = Stream(rank, log, lines)
    return list(streams.values()), told


def _order(signs: Sequence[Sign], times: Mapping[int, datetime], known: Known) -> Any:
    """The key by which the cause comes first of all signs."""
    first = FIRST.match(known.error)
    culprit = int(first[1]) if first else None

    def moment(sign: Sign) -> datetime | None:
        own = sign.at.time if sign.at else None
        return own or (times.get(sign.rank) if sign.rank is not None else None)

    least = min(((sign.weight, sign.sure) for sign in signs), default=(0, 0))
    timed = all(moment(sign) for sign in signs if (sign.weight, sign.sure) == least)
    never = datetime.max.replace(tzinfo=UTC)

    def key(sign: Sign) -> tuple[Any, ...]:
        log = sign.stream.log if sign.stream else None
        return (
            sign.weight,
            sign.sure,
            (moment(sign) or never) if timed else never,
            culprit is not None and sign.rank != culprit,
            (log.changed if log else None) or never,
            log.file if log else "",
            sign.at.number or 0 if sign.at else 0,
            sign.begin,
            -1 if sign.rank is None else sign.rank,
        )

    return key


def _absent(signs: Sequence[Sign], streams: Sequence[Stream], world: int) -> tuple[int, ...]:
    """The ranks that never arrived at the rendezvous, where others waited for them."""
    waited = [sign for sign in signs if sign.kind.id == "rendezvous"]
    if not waited:
        return ()
    if named := [match for sign in waited if (match := _MISSED.search(sign.message))]:
        return tuple(sorted({int(number) for match in named for number in re.findall(r"\d+", match[1])}))
    counted = [match for sign in waited if (match := _JOINED.search(sign.message))]
    for match in counted:
        world = max(world, int(match[2] or match[3]))
    there = {sign.rank for sign in waited} | {
        stream.rank for stream in streams if any(tells_progress(line.text) for line in stream.lines)
    }
    return tuple(rank for rank in range(world) if rank not in there)


def _late(signs: Sequence[Sign], world: int) -> tuple[int, ...]:
    """The ranks for which the others waited in a collective operation."""
    named: set[int] = set()
    reached: dict[int, int] = {}
    for sign in signs:
        if sign.kind.id not in ("nccl_timeout", "gloo_timeout"):
            continue
        if match := _LATE.search(sign.message):
            named |= {int(number) for number in re.findall(r"\d+", match[1])}
        if sign.rank is not None:
            sequence = _SEQUENCE.search(sign.message)
            reached[sign.rank] = max(reached.get(sign.rank, -1), int(sequence[1]) if sequence else -1)
    if named:
        return tuple(sorted(named))
    silent = [rank for rank in range(world) if rank not in reached]
    if silent and len(silent) < world:
        return tuple(silent)
    least = min(reached.values(), default=-1)
    behind = sorted(rank for rank, sequence in reached.items() if sequence == least)
    return tuple(behind) if len(behind) < len(reached) else ()


def _story(
    rank: int, node: int, streams: Sequence[Stream], signs: Sequence[Sign], ends: Mapping[int, int]
) -> RankStory:
    own = [stream for stream in streams if stream.rank == rank]
    said_here = [sign for sign in signs if sign.stream in own and sign.at is not None and (sign.type or sign.message)]
    said_here.sort(key=lambda sign: (sign.weight, sign.sure, sign.begin))
    told = ""
    if said_here:
        best = said_here[0]
        told = f"{best.type}: {best.message}".removeprefix(": ").removesuffix(": ").partition("\n")[0][:LONGEST]
    lines = [line.text for stream in own for line in stream.lines]
    return RankStory(
        rank,
        node,
        ends.get(rank),
        last_progress(lines),
        next((line.strip()[:LONGEST] for line in reversed(lines) if line.strip()), ""),
        told,
        own[0].log.file if own else "",
    )


def _card(
    best: Sign | None,
    streams: Sequence[Stream],
    stories: tuple[RankStory, ...],
    known: Known,
    per_node: int,
    absent: tuple[int, ...],
    late: tuple[int, ...],
) -> Card:
    if best is None or (best.weight >= Weight.WRAPPER and not best.type):
        return _unknown(best, streams, stories, known, per_node, absent)
    rank, sentence, stream = best.rank, best.sentence or best.kind.sentence, best.stream
    if late:
        named = ", ".join(str(number) for number in late)
        sentence = f"{sentence} It waited for rank {named}."
        rank = late[0] if len(late) == 1 else rank
        told = next((sign for sign in _likely(stories, late)), "")
        sentence = f"{sentence} {told}" if told else sentence
    if absent:
        sentence = f"{sentence} Never arrived: rank {', '.join(str(number) for number in absent)}."
    alone = len(stories) == 1
    rank = 0 if rank is None and alone and stream is not None else rank
    lines = tuple(line.text for line in stream.lines[best.begin : best.end]) if stream else best.told
    if stream and not best.frames and not best.type:  # a line by itself: with those before it
        lines = tuple(line.text for line in stream.lines[max(0, best.end - LAST_LINES) : best.end])
    return Card(
        rank,
        None if rank is None else rank // per_node,
        stream.log.file if stream else "",
        best.at.number if best.at else None,
        best.kind.id,
        best.type,
        best.message,
        sentence,
        best.next_step or best.kind.next_step,
        lines,
        bool(best.frames),
        best.origin,
        best.then,
        stories,
        absent,
        best.at.text.strip() if best.at else "",
    )


def _likely(stories: Sequence[RankStory], late: Sequence[int]) -> Iterator[str]:
    """What is known of the one rank that others waited for."""
    for story in stories:
        if len(late) == 1 and story.rank == late[0] and story.progress.told:
            yield f"Its last word was {story.progress.told}."


def _unknown(
    best: Sign | None,
    streams: Sequence[Stream],
    stories: tuple[RankStory, ...],
    known: Known,
    per_node: int,
    absent: tuple[int, ...],
) -> Card:
    """The card where nothing tells the cause: the last lines of the rank that is to blame most likely."""
    first = FIRST.match(known.error)
    rank = int(first[1]) if first else best.rank if best else None
    stream = next((s for s in streams if s.rank == rank and rank is not None and _speaks(s)), None)
    stream = stream or (best.stream if best else None) or next((s for s in streams if _speaks(s)), None)
    texts = [line for line in stream.lines if line.text.strip()] if stream else []
    if rank is None and stream is not None:
        rank = stream.rank if stream.rank is not None else 0 if len(stories) == 1 else None
    code = next((story.exit_code for story in stories if story.rank == rank and story.exit_code), None)
    sentence = UNKNOWN.sentence if texts else "Nothing was written to the logs."
    if code is not None:
        sentence = f"Exit code {code}: {exit_words(code)[1]}. {sentence}"
    last = texts[-1] if texts else None
    message = "" if first else clean(known.error)
    return Card(
        rank,
        None if rank is None else rank // per_node,
        stream.log.file if stream else "",
        last.number if last else None,
        UNKNOWN.id,
        "",
        message or (last.text.strip() if last else ""),
        sentence,
        UNKNOWN.next_step,
        tuple(line.text for line in texts[-LAST_LINES:]),
        ranks=stories,
        never_arrived=absent,
        anchor=last.text.strip() if last else "",
    )


def _speaks(stream: Stream) -> bool:
    return any(line.text.strip() for line in stream.lines)
