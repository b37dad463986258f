"""The help of a screen, made from the table of actions and from the widget that has focus."""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content

from footplate.actions import Action, actions, key_name
from footplate.screens.base import ConsoleScreen

_HEAD = "bold $text-accent"
_TWINS_FROM_WIDTH = 130
_FOCUSED = {"VirtualTable": "The list", "Input": "The field"}


def help_text(screen: ConsoleScreen) -> Content:
    """Keys of the screen, of the focused widget, and of everywhere, with the command that does the same."""
    wide = screen.size.width >= _TWINS_FROM_WIDTH
    lines = [Content.styled("This screen", _HEAD), *_rows(actions(screen.where), wide)]
    focused = screen.focused
    if type(focused).__name__ == "LogView":
        if screen.where == "job":
            lines += [Content(""), Content.styled("The logs of the ranks", _HEAD), *_rows(actions("ranks"), wide)]
        lines += [Content(""), Content.styled("The log", _HEAD), *_rows(actions("log"), wide)]
    elif type(focused).__name__ == "FailureCard":
        lines += [Content(""), Content.styled("The failure", _HEAD), *_rows(actions("failure"), wide)]
    elif type(focused).__name__ == "ChartGrid":
        table = [*actions("chart"), *actions("charts")]
        lines += [Content(""), Content.styled("The charts", _HEAD), *_rows(table, wide)]
    elif focused is not None and focused.id == "trials":
        lines += [Content(""), Content.styled("The trials", _HEAD), *_rows(actions("trials"), wide)]
    elif focused is not None:
        own = [b for b in type(focused).BINDINGS if isinstance(b, Binding)]
        if own:
            lines += [Content(""), Content.styled(_FOCUSED.get(type(focused).__name__, "What has focus"), _HEAD)]
            lines += [
                Content.assemble((f"{_keys(b.key):<13} ", "$text-accent"), b.description) for b in own if b.description
            ]
    lines += [Content(""), Content.styled("Everywhere", _HEAD), *_rows(actions("app"), wide)]
    return Content("\n").join(lines)


def _rows(table: list[Action], wide: bool) -> list[Content]:
    """A row an action; the command twin stands beside it where there is room, else below it."""
    rows = []
    for a in table:
        rows.append(
            Content.assemble(
                (f"{_keys(a.keys):<13} ", "$text-accent"), f"{a.title:<44}", (a.command * wide, "$text-muted")
            )
        )
        if a.command and not wide:
            rows.append(Content.styled(f"{'':<14}{a.command}", "$text-muted"))
    return rows


def _keys(keys: str) -> str:
    return " ".join(map(key_name, keys.split(",")))
