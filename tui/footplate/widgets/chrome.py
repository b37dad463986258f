"""The first and the last line of every screen: where one is, and which keys apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        place_style = "bold $warning" if self.place == "LOCAL" else "bold $accent"
        place, clock = (clean(self.place), place_style), (f"{datetime.now():%H:%M}", "$text-muted")
        # Where there is no room, the clock goes first, then the program's name, then crumbs from the left.
        layouts = [(True, 0, (place, clock)), (True, 0, (place,))]
        layouts += [(False, dropped, (place,)) for dropped in range(len(self.crumbs))]
        for named, dropped, ends in layouts:
            left = self._left(named, dropped)
            end = Content("   ").join([Content.styled(text, style) for text, style in ends if text])
            if left.cell_length + end.cell_length + 3 <= width:
                break
        room = width - left.cell_length - end.cell_length - 5
        status = clean(self.status)
        for access in (self.access, self.access[-1:]):
            if access and cell_len(both := f"{clean(' · '.join(access))}   {status}".rstrip()) <= room:
                status = both
                break
        status = _fitting(status, room)
        gap = max(1, width - left.cell_length - cell_len(status) - end.cell_length - 3)
        return Content.assemble(left, " " * gap, (status, "$text-muted"), "   ", end)

    def _left(self, named: bool, dropped: int) -> Content:
        name: list[tuple[str, str] | str] = [("footplate", "bold $accent"), "  "] if named else []
        crumbs = [(clean(crumb), "bold" if last else "") for crumb, last in self._crumbs()[dropped:]]
        return Content.assemble(*name, "… ▸ " if dropped else "", *_join(crumbs))

    def _crumbs(self) -> list[tuple[str, bool]]:
        return [(crumb, i == len(self.crumbs) - 1) for i, crumb in enumerate(self.crumbs)]


class KeyLine(Widget):
    """The keys that apply here; the rightmost give way where there is no room, help and those that are to be kept never do.

    What the workspace cannot do is greyed, and pressed it says why.
    """

    DEFAULT_CSS = """
    KeyLine { height: 1; width: 1fr; background: $panel; color: $text-muted; padding: 0 1; dock: bottom; }
    """

    def __init__(self, actions: Sequence[Action], help_key: str = "?") -> None:
        super().__init__()
        self._actions = list(actions)
        self._help_key = help_key
        self._refused: frozenset[str] = frozenset()
        self._off: frozenset[str] = frozenset()
        self._briefs: Mapping[str, str] = {}

    def refuse(self, needs: frozenset[str]) -> None:
        """Grey the actions that need what the workspace cannot do."""
        if needs != self._refused:
            self._refused = needs
            self.refresh()

    def show_actions(self, shown: Sequence[Action]) -> None:
        """Show the keys of these actions, as of another part of the screen."""
        if list(shown) != self._actions:
            self._actions = list(shown)
            self.refresh()

    def rename(self, briefs: Mapping[str, str]) -> None:
        """Call actions, by their ids, as what is shown now calls what they lead to."""
        if briefs != self._briefs:
            self._briefs = dict(briefs)
            self.refresh()

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
        parts = [(a, self._part(a)) for a in self._actions if a.brief and a.id not in self._off]
        room -= sum(part.cell_length for action, part in parts if action.keep)
        shown: list[Content] = []
        full = False
        for action, part in parts:
            full = full or (not action.keep and part.cell_length > room)
            if action.keep:
                shown.append(part)
            elif not full:
                room -= part.cell_length
                shown.append(part)
        return Content.assemble(*shown, " " * max(0, room), help_part)

    def _part(self, action: Action) -> Content:
        key_style, style = ("$text-muted dim",) * 2 if action.needs in self._refused else ("bold $accent", "")
        return Content.assemble(
            (action.key_label, key_style), (f" {self._briefs.get(action.id) or action.brief}  ", style)
        )


def _fitting(status: str, room: int) -> str:
    """As many of the parts as there is room for, the last of them gone first: half a figure would be another figure."""
    while status and cell_len(status) > room:
        status = status.rpartition(" · ")[0]
    return status


def _join(parts: list[tuple[str, str]]) -> list[Content | tuple[str, str]]:
    joined: list[Content | tuple[str, str]] = []
    for i, part in enumerate(parts):
        if i:
            joined.append((" ▸ ", "$text-muted"))
        joined.append(part if part[1] else Content(part[0]))
    return joined
