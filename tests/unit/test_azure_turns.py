"""Long JSON read a little at a time: the same as whole, and other work comes between."""

from __future__ import annotations

import asyncio
import json

import pytest

from footplate.azure.turns import read_object


def page(count: int) -> dict[str, object]:
    item = {
        "name": "jøb 😀 ]},{[",
        "properties": {"tags": {"a": [1, 2.5, None, True]}, "text": '"value":[ \\"'},
    }
    return {"value": [{**item, "id": number} for number in range(count)], "nextLink": "https://x/?a=1"}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"value": []},
        {"value": None},
        {"value": "text"},
        {"value": {"value": [1]}, "b": [1, 2]},
        {"nextLink": None, "value": [[1, [2]], {}, "x", 1.5, None]},
        page(300),
    ],
)
async def test_an_object_is_read_as_if_it_were_read_whole(document, indent):
    text = json.dumps(document, indent=indent, ensure_ascii=indent is None)
    assert await read_object(text.encode(), "value") == json.loads(text)
    assert await read_object(b"\xef\xbb\xbf \n" + text.encode() + b"\r\n", "value") == json.loads(text)


@pytest.mark.parametrize("text", ["[1]", "null", '"value"', "3"])
async def test_json_that_is_no_object_is_an_empty_one(text):
    assert await read_object(text.encode(), "value") == {}


WHOLE = json.dumps({"a": 1, "value": [{"b": "c"}, 2], "d": "e"})
WRONG = [
    "",
    "<html>",
    '{"a" 1}',
    '{"a": 1,}',
    '{"value": [1,]}',
    '{"value": [1 2]}',
    "{1: 2}",
    "{} {}",
    '{"a": 1} x',
    "{,}",
]


@pytest.mark.parametrize("text", [*WRONG, *(WHOLE[:end] for end in range(1, len(WHOLE)))])
async def test_what_is_cut_or_no_json_is_refused(text):
    with pytest.raises(json.JSONDecodeError):
        await read_object(text.encode(), "value")


async def test_what_is_no_text_is_refused():
    with pytest.raises(ValueError, match="codec"):
        await read_object(b'{"value": ["\xff"]}', "value")


async def test_other_work_comes_between_the_items():
    turns = 0
    reading = asyncio.create_task(read_object(json.dumps(page(3000)).encode(), "value"))

    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert len((await reading)["value"]) == 3000
    assert turns > 5
