"""The keys of one part of a screen, in a line of their own: as many as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from footplate.actions import Action

_PAIRS = {"cursor(-1)": "←→", "select(1)": "↑↓", "zoom(1)": "+-"}
"""Two keys that say one thing."""


def key_hints(actions: Sequence[Action], width: int) -> Content:
    """`s smooth  L log  …`, of the actions that say something in a key line."""
    pieces: list[tuple[str, str]] = []
    used = 0
    for action in actions:
        if not action.brief:
            continue
        key = _PAIRS.get(action.id, action.key_label)
        used += len(key) + len(action.brief) + 3
        if used > width + 2:
            break
        pieces += [(key, "bold $accent"), (f" {action.brief}  ", "$text-muted")]
    return Content.assemble(*pieces)
