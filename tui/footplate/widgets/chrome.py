"""The first and the last line of every screen: where one is, and which keys apply."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from footplate.actions import Action
from footplate.logs.sanitise import clean


class TopLine(Widget):
    """`footplate  local ▸ jobs        LOCAL  1 running  12:41`: crumbs on the left, what is going on on the right."""

    DEFAULT_CSS = """
    TopLine { height: 1; width: 1fr; background: $panel; color: $foreground; padding: 0 1; }
    """

    crumbs: reactive[tuple[str, ...]] = reactive(())
    status: reactive[str] = reactive("")
    place: reactive[str] = reactive("")
    access: reactive[tuple[str, ...]] = reactive(())
    """How the workspace is reached; the last part of it, else none, where there is no room to spare."""

    def on_mount(self) -> None:
        """The clock shows minutes; looking every ten seconds is enough."""
        self.set_interval(10, self.refresh)

    def render(self) -> Content:
        """Draw the line; the status gives way first where there is no room."""
        width = self.size.width
        left = Content.assemble(
            ("footplate", "bold $accent"),
            "  ",
            *_join([(clean(crumb), "bold" if last else "") for crumb, last in self._crumbs()]),
        )
        clock = f"{datetime.now():%H:%M}"
        place_style = "bold $warning" if self.place == "LOCAL" else "bold $accent"
        ends = [(clean(self.place), place_style), (clock, "$text-muted")]
        end = Content("   ").join([Content.styled(text, style) for text, style in ends if text])
        room = width - left.cell_length - end.cell_length - 4
        status = clean(self.status)
        for access in (self.access, self.access[-1:]):
            if access and cell_len(both := f"{clean(' · '.join(access))}   {status}".rstrip()) <= room:
                status = both
                break
        if cell_len(status) > room:
            status = f"{status[: max(0, room - 1)]}…" if room > 20 else ""
        gap = max(1, width - left.cell_length - cell_len(status) - end.cell_length - 3)
        return Content.assemble(left, " " * gap, (status, "$text-muted"), "   ", end)

    def _crumbs(self) -> list[tuple[str, bool]]:
        return [(crumb, i == len(self.crumbs) - 1) for i, crumb in enumerate(self.crumbs)]


class KeyLine(Widget):
    """The keys that apply here; the rightmost give way where there is no room, help never does.

    `refused` are actions that this workspace cannot do: greyed, and pressed they say why.
    """

    DEFAULT_CSS = """
    KeyLine { height: 1; width: 1fr; background: $panel; color: $text-muted; padding: 0 1; dock: bottom; }
    """

    def __init__(self, actions: Sequence[Action], help_key: str = "?", refused: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._actions = list(actions)
        self._help_key = help_key
        self._refused = refused
        self._off: frozenset[str] = frozenset()

    def turn_off(self, ids: frozenset[str]) -> None:
        """Leave out the actions that do not apply to what is under the cursor now."""
        if ids != self._off:
            self._off = ids
            self.refresh()

    def render(self) -> Content:
        """Draw as many keys as there is room for."""
        help_part = Content.assemble((self._help_key, "bold $accent"), " help")
        if self._help_key == "?":  # in a form a digit is a character too
            help_part = Content.assemble(("1-6", "bold $accent"), " go  ", help_part)
        room = self.size.width - help_part.cell_length
        parts: list[Content] = []
        for action in self._actions:
            if not action.brief or action.id in self._off:
                continue
            key_style, style = ("$text-muted dim",) * 2 if action.id in self._refused else ("bold $accent", "")
            part = Content.assemble((action.key_label, key_style), (f" {action.brief}  ", style))
            if part.cell_length > room:
                break
            room -= part.cell_length
            parts.append(part)
        return Content.assemble(*parts, " " * max(0, room), help_part)


def _join(parts: list[tuple[str, str]]) -> list[Content | tuple[str, str]]:
    joined: list[Content | tuple[str, str]] = []
    for i, part in enumerate(parts):
        if i:
            joined.append((" ▸ ", "$text-muted"))
        joined.append(part if part[1] else Content(part[0]))
    return joined
