"""What must not be read over a shoulder or pasted into a ticket: tokens, keys and signatures in a log's text."""

from __future__ import annotations

import re

MASK = "***"

_HINTS = ("sig=", "key", "token", "bearer", "secret", "pass", "pwd", "signature", "eyj", "hf_", "gh", "@")
"""One of these, in small letters, is in every text that holds a secret we know; most lines hold none of them."""

_NAMES = (
    r"(?:run|tracking|access|refresh|auth|id|sas|bearer)[_-]?token|hf[_-]token"
    r"|(?:account|api|access|secret|primary|secondary|subscription|shared[_-]?access|encryption)[_-]?key"
    r"|shared[_-]?access[_-]?signature|client[_-]?secret|secret[_-]?access[_-]?key|password|passwd|pwd"
)
_SECRET = re.compile(
    r"\b(?:sig|signature)=(?P<sig>(?=[^\s&\"';,]*[A-Za-z%/_])[A-Za-z0-9%+/=_~-]{20,})"
    rf"|(?:{_NAMES})[\"']?\s{{0,2}}[=:]\s{{0,2}}[\"']?(?P<named>[^\s\"',;&<>(){{}}\[\]]{{8,}})"
    r"|\bbearer\s{1,2}(?P<bearer>[A-Za-z0-9._~+/=-]{20,})"
    r"|\b(?P<jwt>eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?)"
    r"|\b(?P<known>(?:hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}))"
    r"|://[^\s/:@]{1,64}:(?P<login>[^\s/@]{1,256})@",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"[-+.\d_eE%]+|true|false|none|null", re.IGNORECASE)


def secrets(text: str) -> list[tuple[int, int]]:
    """Return where a text holds secrets (first character, end), in order.

    A figure is none, whatever it is called: `sig=0.93` and `key: 12345678` are metrics and settings.
    """
    small = text.lower()
    if not any(hint in small for hint in _HINTS):
        return []
    found = []
    for match in _SECRET.finditer(text):
        name = match.lastgroup or ""
        if name != "named" or not (_FIGURE.fullmatch(match[name]) or match[name].startswith(MASK)):
            found.append(match.span(name))
    return found


def masked(text: str) -> str:
    """Return a text with each secret in it replaced by three stars."""
    spans = secrets(text)
    if not spans:
        return text
    pieces, position = [], 0
    for first, end in spans:
        pieces += [text[position:first], MASK]
        position = end
    return "".join([*pieces, text[position:]])
