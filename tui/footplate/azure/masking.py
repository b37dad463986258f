"""Take tokens, keys and signed addresses out of text before anybody sees it."""

from __future__ import annotations

import re

_RULES = (
    # A signed address: its whole query, whatever the order of its parts.
    (re.compile(r"(https?://[^\s\"'<>?]+)\?[^\s\"'<>]*\bsig=[^\s\"'<>]*", re.I), r"\1?…"),
    (re.compile(r"\b(sig|signature|sas_?token)=[^\s&\"'<>]+", re.I), r"\1=…"),
    (re.compile(r"\bBearer\s+[^\s\"',]+", re.I), "Bearer …"),
    (re.compile(r"\beyJ[\w-]{10,}\.[\w-]+\.[\w-]*"), "…"),
    (
        re.compile(
            r"((?:primary_?key|secondary_?key|account_?key|access_?token|refresh_?token|id_?token|client_?secret|"
            r"shared_?access_?(?:key|signature)|password|api_?key)[\\\"']*\s*[:=]\s*[\\\"']*)[^\s\\\"',;&}]+",
            re.I,
        ),
        r"\1…",
    ),
)


def mask(text: str) -> str:
    """The same text with what is secret replaced by `…`."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
