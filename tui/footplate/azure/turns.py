"""Long work on the loop in small pieces, so that a key that was pressed meanwhile comes first; long JSON read that way."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from typing import Any

_PIECE_SECONDS = 0.0005
_REST_SECONDS = 0.001
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


_rested = 0.0


async def give_way() -> None:
    """Let the loop do its other work, if this has not happened for half a millisecond; to be awaited after each small step.

    With a rest, not only a turn: who never rests is made to wait by the system when other programs are busy, and the keys with it.
    """
    global _rested
    if time.perf_counter() - _rested > _PIECE_SECONDS:
        await asyncio.sleep(_REST_SECONDS)
        _rested = time.perf_counter()


async def read_object(content: bytes, member: str) -> Mapping[str, Any]:
    """A JSON object whose `member` is a long list or object, an item at a time; an empty one for JSON of another kind.

    Raises ValueError or RecursionError for what is no JSON.
    """
    text = content.decode("utf-8-sig")
    at = _past_space(text, 0)
    if text[at : at + 1] != "{":
        json.loads(text)
        return {}
    found, at = await _read_members(text, at, member)
    if _past_space(text, at) != len(text):
        raise json.JSONDecodeError("Something follows the object", text, at)
    return found


async def _read_members(text: str, at: int, member: str | None = None) -> tuple[dict[str, Any], int]:
    """The object that begins there, and where what follows it begins."""
    found: dict[str, Any] = {}
    at = _past_space(text, at + 1)
    while text[at : at + 1] != "}":
        name, at = _DECODER.raw_decode(text, at)
        if not isinstance(name, str):
            raise json.JSONDecodeError("A member has no name", text, at)
        at = _past(text, at, ":")
        begins = text[at : at + 1] if name == member else ""
        if begins == "[":
            found[name], at = await _read_list(text, at)
        elif begins == "{":
            found[name], at = await _read_members(text, at)
        else:
            found[name], at = _DECODER.raw_decode(text, at)
        at = _to_next(text, at, "}")
        await give_way()
    return found, at + 1


async def _read_list(text: str, at: int) -> tuple[list[Any], int]:
    """The list that begins there, and where what follows it begins."""
    found: list[Any] = []
    at = _past_space(text, at + 1)
    while text[at : at + 1] != "]":
        item, at = _DECODER.raw_decode(text, at)
        found.append(item)
        at = _to_next(text, at, "]")
        await give_way()
    return found, at + 1


def _to_next(text: str, at: int, end: str) -> int:
    """Where the next item begins, or the end stands."""
    at = _past_space(text, at)
    if text[at : at + 1] == end:
        return at
    at = _past(text, at, ",")
    if text[at : at + 1] == end:
        raise json.JSONDecodeError("Nothing follows a comma", text, at)
    return at


def _past(text: str, at: int, sign: str) -> int:
    at = _past_space(text, at)
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"There is no {sign!r}", text, at)
    return _past_space(text, at + 1)


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
