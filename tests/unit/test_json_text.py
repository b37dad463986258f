"""JSON that every reader accepts and every terminal may show."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.commands import not_json

from footplate.cli.json_text import dumps


def test_what_json_has_no_word_for_is_null():
    text = dumps({"a": float("nan"), "b": [float("inf"), (float("-inf"), 1.5)], "c": {"d": float("nan")}})
    assert json.loads(text, parse_constant=not_json) == {"a": None, "b": [None, [None, 1.5]], "c": {"d": None}}


def test_no_control_character_is_written_and_nothing_is_lost():
    document = {"name": "\x1b]52;c;YQ==\x07 \x9b2J \u202egpj.exe \ud800 é × 鳥 🐔 \t\n", "\x9d": 1}
    text = dumps(document)
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert all(letter in text for letter in "é×鳥🐔")
    assert json.loads(text) == document
    text.encode()  # not even half a surrogate pair


def test_other_values_are_their_text():
    assert json.loads(dumps([Path("/a"), datetime(2026, 1, 2, tzinfo=UTC)])) == ["/a", "2026-01-02 00:00:00+00:00"]
