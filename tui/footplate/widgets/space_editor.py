"""One entry of a search space: its kind, its numbers, and the values that it will really give, drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from footplate.jobfile.form import Field, visible
from footplate.logs.sanitise import clean
from footplate.operations.outlook import SpaceLook
from footplate.widgets.columns import fit
from footplate.widgets.fault_list import MARKS
from footplate.widgets.field_line import LABEL, FieldLine, Typed, editor_of

_BLOCKS = " ▁▂▃▄▅▆▇█"
_KIND = 18
_NARROW = 64


class SpaceEditor(FieldLine):
    """Name, kind and range on one line, the numbers on the next; samples are drawn below, then what is wrong."""

    DEFAULT_CSS = f"""
    SpaceEditor {{ layout: vertical; height: auto; width: 1fr; }}
    SpaceEditor Horizontal {{ height: 1; width: 1fr; }}
    SpaceEditor .label {{ width: {LABEL}; height: 1; }}
    SpaceEditor .range {{ width: 1fr; height: 1; padding: 0 0 0 1; }}
    SpaceEditor .editor {{ height: 1; border: none; background: $panel; width: 1fr; }}
    SpaceEditor .numbers {{ padding: 0 1 0 0; }}
    SpaceEditor Choice.editor {{ width: {_KIND}; }}
    SpaceEditor Input.editor {{ padding: 0 1; }}
    SpaceEditor Input.editor:focus {{ border: none; background: $primary-muted; background-tint: transparent; }}
    SpaceEditor Input.editor:disabled {{ background: $surface; color: $text-muted; opacity: 100%; }}
    SpaceEditor .name {{ width: auto; height: 1; color: $text-muted; padding: 0 1; }}
    SpaceEditor .name.first {{ padding: 0 1 0 0; }}
    """

    def __init__(self, fields: Sequence[Field], look: SpaceLook | None = None) -> None:
        super().__init__(fields)
        self.look = look

    def compose(self) -> Iterator[Widget]:  # type: ignore[override]
        """The kind, and below it a label and an editor a number."""
        with Horizontal():
            yield Static(self._label(), classes="label", markup=False)
            yield self.editors[self.field.path]
            yield Static(self._range(), classes="range", markup=False)
        with Horizontal(classes="numbers"):
            yield from self._numbers()

    def _numbers(self) -> Iterator[Widget]:
        yield Static("", classes="label", markup=False)
        for number, field in enumerate(self.fields[1:]):
            yield Static(Content(clean(field.label)), classes="name" if number else "name first")
            yield self.editors[field.path]

    async def set_fields(self, fields: Sequence[Field], typed: Typed, afresh: bool) -> None:
        """As of a line; another kind of space has other numbers, whose editors are made anew."""
        if [field.path for field in fields] != list(self.editors):
            numbers = self.query_one(".numbers", Horizontal)
            await numbers.remove_children()
            self.editors = {fields[0].path: self.editors[fields[0].path]} | {f.path: editor_of(f) for f in fields[1:]}
            self.fields = tuple(fields)
            await numbers.mount_all(list(self._numbers()))
        await super().set_fields(fields, typed, afresh)

    def on_resize(self) -> None:
        """Its editors share what there is."""

    def show_look(self, look: SpaceLook | None) -> None:
        """Draw another range; None where the numbers give none."""
        drawn = self._drawn
        self.look = look
        if self.is_mounted:
            for part, text in ((".label", self._label()), (".range", self._range())):
                shown = self.query_one(part, Static)
                if shown.content != text:
                    shown.update(text, layout=False)
            self.refresh(layout=drawn != self._drawn)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Kind, numbers, drawing, and what is wrong."""
        return 2 + self._drawn + len(self._below(width))

    def render(self) -> Content:
        """The drawing on the third line, and what is wrong below it."""
        width = self.size.width
        drawing = [self._drawing().truncate(width, ellipsis=True)] if self._drawn else []
        return Content("\n").join([Content(""), Content(""), *drawing, *self._below(width)])

    @property
    def _drawn(self) -> bool:
        return self.look is not None and bool(self.look.draws)

    def _label(self) -> Content:
        mark = Content.styled("• " if self.changed else "  ", "$text-accent")
        return mark + Content(fit(clean(visible(self.field.label)), LABEL - 3))

    def _range(self) -> Content:
        text = clean(self.look.text) if self.look else "no values"
        sign, style = MARKS[self.worst] if self.worst else ("", "")
        return Content.assemble(
            (text, "$text-accent" if self.look else "$text-muted"), (f" {sign}" if sign else "", style)
        )

    def _drawing(self) -> Content:
        look = self.look
        assert look is not None
        if not look.shares:
            return Content.assemble(" " * LABEL, (_samples(look.draws, self.size.width - LABEL), "$text-muted"))
        shares = look.shares
        if self.size.width < _NARROW:  # half as many parts, each of two
            shares = tuple(map(sum, zip(shares[::2], shares[1::2], strict=False)))
        most = max(shares)
        bar = "".join(_BLOCKS[max(1, round(share / most * 8)) if share else 0] for share in shares)
        axis = "  log axis" if look.log else ""
        samples = _samples(look.draws, self.size.width - LABEL - len(bar) - len(axis) - 2)
        return Content.assemble(" " * LABEL, (bar, "$accent on $panel"), (f"{axis}  {samples}", "$text-muted"))


def _samples(draws: Sequence[str], room: int) -> str:
    """As many samples as there is room for, each of them whole."""
    said = ""
    for draw in map(clean, draws):
        longer = f"{said}, {draw}" if said else f"as in {draw}"
        if cell_len(longer) > room:
            break
        said = longer
    return said
