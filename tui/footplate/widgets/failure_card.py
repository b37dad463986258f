"""The card of a failed job: the cause and its rank first, then where, what to do, and how each rank fared."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from footplate.actions import actions
from footplate.logs.sanitise import clean

if TYPE_CHECKING:
    from footplate.logs.card import Card, RankStory

_MUTED, _ERROR, _KEY = "$text-muted", "$text-error", "bold $accent"
MOST_LINES = 8
"""Lines of a traceback on the card: the innermost ones."""
MOST_RANKS = 8


class FailureCard(Static, can_focus=True):
    """What is known of a failure, for an overview; enter goes to the line in the log."""

    DEFAULT_CSS = """
    FailureCard {
        height: auto; display: none; margin-bottom: 1; padding: 0 1; border-left: outer $error-darken-2;
        &:focus { border-left: outer $error; }
        &.told { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding(a.keys, a.id, a.title, show=False) for a in actions("failure")]

    class ToLine(Message):
        """The line in the log is wanted: in that of its rank, or with `all_ranks` among those of all."""

        def __init__(self, card: Card, all_ranks: bool) -> None:
            super().__init__()
            self.card = card
            self.all_ranks = all_ranks

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id, markup=False)
        self.card: Card | None = None
        self.note = self._of = ""

    def show(self, card: Card | None, note: str = "", of: str = "") -> None:
        """Show a card, or with None the `note`, as why there is none; `of` is the child whose card it is."""
        self.card, self.note, self._of = card, note, of
        self.set_class(card is not None or bool(note), "told")
        self._draw()

    def on_resize(self) -> None:
        """Fit the lines to the width."""
        self._draw()

    def _draw(self) -> None:
        width = max(30, self.content_size.width or 76)
        if self.card is None:
            self.update(Content.styled(clean(self.note), _MUTED))
        else:
            self.update(card_text(self.card, width, self._of))

    def action_to_line(self) -> None:
        """Go to the line in the log of that rank."""
        if self.card is not None and self.card.file:
            self.post_message(self.ToLine(self.card, False))

    def action_to_moment(self) -> None:
        """Go to the same moment in the logs of all ranks."""
        if self.card is not None and self.card.file:
            self.post_message(self.ToLine(self.card, True))


def card_text(card: Card, width: int, of: str = "") -> Content:
    """The card as text of that width; `of` names the child whose card it is."""
    lines = [Content.styled(clean(card.headline), f"bold {_ERROR}"), Content("")]
    if of:
        lines.append(Content.assemble(("of    ", _MUTED), f"{clean(of)}, the first that failed"))
    lines.append(Content(clean(card.sentence)))
    lines.append(Content.assemble(("next  ", _MUTED), clean(card.next_step)))
    if where := _where(card):
        lines.append(Content.assemble(("where ", _MUTED), where))
    if card.then:
        lines.append(Content.assemble(("then  ", _MUTED), clean(card.then[-1].partition("\n")[0])))
    if card.lines:
        shown = [clean(line) for line in card.lines][-MOST_LINES:]
        lines += [Content(""), *(Content.styled(line, _MUTED).truncate(width, ellipsis=True) for line in shown)]
    if len(card.ranks) > 1:
        lines += [Content(""), *_ranks(card, width)]
    if card.never_arrived:
        named = ", ".join(map(str, card.never_arrived))
        lines.append(Content.assemble(("never arrived at the rendezvous  ", _MUTED), (f"rank {named}", _ERROR)))
    if card.file:
        keys = [Content.assemble(("enter", _KEY), " into it" if of else " to the line")]
        keys += (
            [Content.assemble(("E", _KEY), " the same moment in all ranks")] if len(card.ranks) > 1 and not of else []
        )
        lines += [Content(""), Content("   ").join(keys)]
    return Content("\n").join(lines)


def _where(card: Card) -> str:
    parts = []
    if card.origin is not None:
        inside = f" in {clean(card.origin.function)}" if card.origin.function else ""
        parts.append(f"{clean(card.origin.file)}:{card.origin.line}{inside}")
    if card.node is not None and len({story.node for story in card.ranks}) > 1:
        parts.append(f"node {card.node}")
    if card.file:
        parts.append(f"{clean(card.file)}{f' line {card.line:,}' if card.line is not None else ''}")
    return " · ".join(parts)


def _ranks(card: Card, width: int) -> list[Content]:
    """How the ranks fared: the one that is to blame first, and as many others as there is room for."""
    chosen = sorted(card.ranks, key=lambda one: (one.rank != card.rank, not one.exit_code, one.rank))[:MOST_RANKS]
    several_nodes = len({one.node for one in card.ranks}) > 1
    rows = [("rank", "ended", "came to", "said last")]
    rows += [(_rank(one, several_nodes), _ended(one), one.progress.told or "–", _said(one)) for one in chosen]
    sizes = [max(len(row[i]) for row in rows) for i in range(3)]
    found = []
    for i, row in enumerate(rows):
        text = "  ".join([*(clean(cell).ljust(size) for cell, size in zip(row, sizes, strict=False)), clean(row[3])])
        blamed = i > 0 and chosen[i - 1].rank == card.rank
        style = _MUTED if i == 0 else _ERROR if blamed else ""
        found.append(Content.styled(text, style).truncate(width, ellipsis=True))
    if (left := len(card.ranks) - len(chosen)) > 0:
        found.append(Content.styled(f"… and {left} {'rank' if left == 1 else 'ranks'} more", _MUTED))
    return found


def _rank(one: RankStory, several_nodes: bool) -> str:
    return f"{one.rank} on node {one.node}" if several_nodes else str(one.rank)


def _ended(one: RankStory) -> str:
    if one.exit_code is None:
        return "not told"
    return "well" if one.exit_code == 0 else f"{one.exit_code} {one.signal}" if one.signal else str(one.exit_code)


def _said(one: RankStory) -> str:
    return one.said or one.last_line or "nothing"
