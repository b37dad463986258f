"""Values as YAML text: what a value that was typed means, and the ways to write it, the plainest first."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from footplate.jobfile import nodes


@dataclass(frozen=True)
class Exact:
    """Text that must read back as this very text, whatever YAML would make of it: `Exact("1e3")`, `Exact("no")`."""

    text: str


@dataclass(frozen=True)
class Typed:
    """A scalar as one types it into a YAML file, read by YAML 1.1's rules whatever quotes stood there: `Typed("1.0e-3")`."""

    text: str


_BRACKETS = frozenset(",[]{}")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def plain(text: str, flow: bool = False) -> Any:
    """The value of a plain scalar; a ValueError where the text cannot stand as one (inside brackets with `flow`)."""
    if text.startswith(("---", "...")) or (flow and (_BRACKETS & set(text) or text[:1] in "?:")):
        raise ValueError(f"{text!r} is not one plain scalar")
    return nodes.scalar(text)


def meaning(value: object, style: str = "", flow: bool = False) -> Any:
    """The value that is read back once `value` was written in a place of that style.

    A string stands as typed: text where quotes or a block stand, else what YAML reads, but never null. Inside a mapping
    or list it is that very text.
    """
    if isinstance(value, Exact):
        return value.text
    if isinstance(value, Typed) or (isinstance(value, str) and not style):
        text = value if isinstance(value, str) else value.text
        try:
            found = plain(text, flow)
        except ValueError:
            return text
        return text if found is None and isinstance(value, str) else found
    if isinstance(value, Mapping):
        return {str(key): meaning(_inner(item), "", True) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [meaning(_inner(item), "", True) for item in value]
    return value


def _inner(value: object) -> object:
    return Exact(value) if isinstance(value, str) else value


def forms(value: object, style: str = "", flow: bool = False) -> Iterator[str]:
    """The ways to write a value on one line, in the place's own style first."""
    means = meaning(value, style, flow)
    if not isinstance(means, str):
        text = value.text if isinstance(value, Typed) else value if isinstance(value, str) else collection(value)
        yield text
        return
    if style == "'" and "'" not in means and means.isprintable():
        yield f"'{means}'"
    if not style or style in "|>":
        try:
            if plain(means, flow) == means:
                yield means
        except ValueError:
            pass  # it is quoted then
    yield quoted(means)


def collection(value: object) -> str:
    """A value that is no text typed by hand, on one line; mappings and lists in brackets.

    Raises ValueError for what a job file cannot hold, as a set.
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key(str(name))}: {collection(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(collection, value))}]"
    if isinstance(value, str | Exact | Typed):
        return next(forms(_inner(value), "", True))
    return _atom(value)


def _atom(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, datetime.date):
        return value.isoformat() if type(value) is datetime.date else str(value)
    raise ValueError(f"a {type(value).__name__} cannot be written into a job file")


def _number(value: float) -> str:
    """A float so that YAML 1.1 reads it as one: with a dot, and a sign before the exponent."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    digits, e, exponent = repr(value).partition("e")
    return f"{digits if '.' in digits else f'{digits}.0'}{e}{exponent}"


def key(name: str) -> str:
    """A key as it is written: plain where it is one word and read as text, else quoted."""
    if not _WORD.fullmatch(name) or not name.isascii():
        return quoted(name)
    return name if isinstance(nodes.scalar(name), str) else quoted(name)


def quoted(text: str) -> str:
    """Text in double quotes, with what YAML does not read back (control characters, its own line breaks) escaped."""
    return f'"{"".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(ord(c))) for c in text)}"'


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
