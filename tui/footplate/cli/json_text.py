"""JSON that every reader accepts and every terminal may show."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_NOT_ASCII = re.compile(r"[^\x20-\x7e\n]")


def dumps(document: Any) -> str:
    """A document as JSON: NaN and infinities, which JSON does not have, as null.

    Printable characters of all languages stand as they are. Anything else is a `\\u` escape: no control character
    reaches a terminal, and a name that is not UTF-8 does not end the command.
    """
    text = json.dumps(_finite(document), ensure_ascii=False, allow_nan=False, indent=2, default=str)
    return _NOT_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
