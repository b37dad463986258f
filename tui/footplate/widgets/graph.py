"""The graph of a pipeline: boxes with lines between them where there is room, else a tree of lines; one step is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from footplate.logs.sanitise import clean
from footplate.widgets.columns import fit
from footplate.widgets.graph_layout import (
    BOX_HEIGHT,
    Box,
    Drawing,
    Edge,
    Node,
    NodeStyle,
    TreeLine,
    character,
    draw,
    tree,
)

__all__ = ["GraphView", "Node", "NodeStyle"]

_TITLE_SHARE = 0.55
"""How much of a tree's line the step's name may take."""

Pen = str
"""The name of a component style, as `line`; empty for the widget's own."""


class GraphView(ScrollView, can_focus=True):
    """Steps and what they wait for. Arrows choose a step; `Highlighted` says which."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "graph--line",
        "graph--lit",
        "graph--chosen",
        "graph--detail",
        "graph--warn",
        "graph--error",
    }

    DEFAULT_CSS = """
    GraphView {
        width: 1fr; height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
        & > .graph--line { color: $text-muted; }
        & > .graph--lit { color: $text-accent; text-style: bold; }
        & > .graph--chosen { background: $surface; text-style: bold; }
        &:focus > .graph--chosen { background: $primary-muted; text-style: bold; }
        & > .graph--detail { color: $text-muted; }
        & > .graph--warn { color: $text-warning; }
        & > .graph--error { color: $text-error; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Step above", show=False),
        Binding("down,j", "step(1)", "Step below", show=False),
        Binding("left,h", "layer(-1)", "Step before", show=False),
        Binding("right,l", "layer(1)", "Step after", show=False),
        Binding("home,g", "edge(0)", "First step", show=False),
        Binding("end,G", "edge(-1)", "Last step", show=False),
        Binding("enter", "select", "Open", show=False),
    ]

    class Highlighted(Message):
        """Another step was chosen; None where there is none."""

        def __init__(self, graph: GraphView, key: str | None) -> None:
            super().__init__()
            self.graph, self.key = graph, key

        @property
        def control(self) -> GraphView:
            """The graph, for `@on(…, "#id")`."""
            return self.graph

    class Selected(Message):
        """Enter was pressed on a step, or it was clicked twice."""

        def __init__(self, graph: GraphView, key: str) -> None:
            super().__init__()
            self.graph, self.key = graph, key

        @property
        def control(self) -> GraphView:
            """The graph, for `@on(…, "#id")`."""
            return self.graph

    def __init__(self, nodes: Sequence[Node] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._steps = tuple(nodes)
        self._chosen: str | None = nodes[0].key if nodes else None
        self._drawing: Drawing | None = None
        self._tree: list[TreeLine] = []
        self._order: list[str] = []
        self._laid_out_for: tuple[object, ...] = ()

    @property
    def chosen(self) -> str | None:
        """The key of the step that is chosen."""
        return self._chosen

    @property
    def as_boxes(self) -> bool:
        """Whether there is room for boxes."""
        self._lay_out()
        return self._drawing is not None

    def height_for(self, width: int, most: int) -> int:
        """The lines it needs in a width: those of the boxes where they are at most `most`, else of the tree, up to `most`."""
        drawing = draw([_cleaned(node) for node in self._steps], width)
        if drawing is not None and drawing.height <= most:
            return drawing.height
        return max(1, min(len(self._steps), most))

    def show(self, nodes: Sequence[Node]) -> None:
        """Show these steps; the chosen one stays where it is still there."""
        if tuple(nodes) != self._steps:
            self._steps = tuple(nodes)
            if self._chosen not in {node.key for node in nodes}:
                self._choose(nodes[0].key if nodes else None)
            self._lay_out()
            self.refresh()

    def choose(self, key: str) -> None:
        """Choose a step."""
        if any(node.key == key for node in self._steps):
            self._choose(key)

    # Keys and mouse

    def action_step(self, step: int) -> None:
        """The next or the last step, in the order they are drawn."""
        self._lay_out()
        if self._order:
            at = self._order.index(self._chosen) if self._chosen in self._order else 0
            self._choose(self._order[max(0, min(at + step, len(self._order) - 1))])

    def action_layer(self, step: int) -> None:
        """The nearest step of those that come after, or before."""
        self._lay_out()
        if self._drawing is None:
            self.action_step(step)
            return
        here = next((box for box in self._drawing.boxes if box.node.key == self._chosen), None)
        if here is None:
            return
        joined = {key for key in self._joined(step)}
        beside = [box for box in self._drawing.boxes if (box.layer - here.layer) * step > 0]
        beside = [box for box in beside if box.node.key in joined] or beside
        if beside:
            near = min(beside, key=lambda box: (abs(box.layer - here.layer), abs(box.y - here.y)))
            self._choose(near.node.key)

    def _joined(self, step: int) -> list[str]:
        if step > 0:
            return [node.key for node in self._steps if self._chosen in node.after]
        return [key for node in self._steps if node.key == self._chosen for key in node.after]

    def action_edge(self, position: int) -> None:
        """The first or the last step."""
        self._lay_out()
        if self._order:
            self._choose(self._order[position])

    def action_select(self) -> None:
        """Open the chosen step."""
        if self._chosen is not None:
            self.post_message(self.Selected(self, self._chosen))

    def on_click(self, event: events.Click) -> None:
        """Choose the step that was clicked; a second click opens it."""
        offset = event.get_content_offset(self)
        key = self._key_at(offset.x, offset.y + self.scroll_offset.y) if offset is not None else None
        if key is not None:
            event.stop()
            self._choose(key)
            if event.chain == 2:
                self.action_select()

    def _key_at(self, x: int, y: int) -> str | None:
        if self._drawing is None:
            return self._tree[y].node.key if 0 <= y < len(self._tree) else None
        boxes = self._drawing.boxes
        hit = (b for b in boxes if b.x <= x < b.x + b.width and b.y <= y < b.y + BOX_HEIGHT)
        return next((box.node.key for box in hit), None)

    def _choose(self, key: str | None) -> None:
        if key == self._chosen:
            return
        self._chosen = key
        self.refresh()
        self._show_chosen()
        self.post_message(self.Highlighted(self, key))

    def _show_chosen(self) -> None:
        top, bottom = self._lines_of(self._chosen)
        page, at = self.scrollable_content_region.height, self.scroll_offset.y
        if page and (top < at or bottom >= at + page):
            self.scroll_to(y=top if top < at else bottom - page + 1, animate=False, force=True)

    def _lines_of(self, key: str | None) -> tuple[int, int]:
        if self._drawing is not None:
            box = next((box for box in self._drawing.boxes if box.node.key == key), None)
            return (box.y, box.y + BOX_HEIGHT - 1) if box else (0, 0)
        line = next((n for n, line in enumerate(self._tree) if line.node.key == key), 0)
        return line, line

    # Drawing

    def on_resize(self) -> None:
        """Boxes where there is room for them now."""
        self._lay_out()
        self._show_chosen()

    def _lay_out(self) -> None:
        room = self.container_size if self.container_size else self.size
        wanted = (self._steps, room)
        if wanted == self._laid_out_for:
            return
        self._laid_out_for = wanted
        nodes = [_cleaned(node) for node in self._steps]
        drawing = draw(nodes, self.scrollable_content_region.width)
        self._drawing = drawing if drawing is not None and drawing.height <= room.height else None
        self._tree = tree(nodes) if self._drawing is None else []
        if self._drawing is None:
            self._order = [line.node.key for line in self._tree]
        else:
            self._order = [box.node.key for box in sorted(self._drawing.boxes, key=lambda box: (box.layer, box.y))]
        self.virtual_size = Size(0, self._drawing.height if self._drawing else len(self._tree))

    def render_line(self, y: int) -> Strip:
        """One line: of boxes and the lines between them, or of the tree."""
        self._lay_out()
        width = self.scrollable_content_region.width
        line = y + self.scroll_offset.y
        if self._drawing is not None:
            pieces = self._box_line(self._drawing, line, width)
        elif line < len(self._tree):
            pieces = self._tree_line(self._tree[line], width)
        else:
            pieces = [(" " * width, "")]
        return Strip([Segment(text, self._pen(pen)) for text, pen in pieces if text]).crop(0, width)

    def _pen(self, pen: Pen) -> Style:
        """A style from its names, the later over the earlier."""
        style = self.rich_style
        for name in pen.split():
            style += self.get_component_rich_style(f"graph--{name}", partial=True)
        return style

    def _tree_line(self, line: TreeLine, width: int) -> list[tuple[str, Pen]]:
        chosen = line.node.key == self._chosen
        ground = "chosen" if chosen else ""
        longest = max(cell_len(line.lead) + cell_len(line.node.title) for line in self._tree) + 2
        title_width = max(16, min(longest, int(width * _TITLE_SHARE)))
        title = fit(line.node.title, max(8, title_width - cell_len(line.lead)))
        also = f"  ← {', '.join(line.also)}" if line.also else ""
        rest = fit(f"{line.node.detail}{also}", max(0, width - 2 - cell_len(line.lead) - cell_len(title) - 1))
        style = line.node.style
        return [
            ("▸ " if chosen else "  ", ground),
            (line.lead, f"line {ground}"),
            (title, f"{'' if style == 'plain' else style} {ground}"),
            (" ", ground),
            (rest, f"detail {ground}"),
        ]

    def _box_line(self, drawing: Drawing, y: int, width: int) -> list[tuple[str, Pen]]:
        row: list[tuple[str, Pen]] = [(" ", "")] * width
        for x in range(width):
            masks = drawing.cells.get((x, y))
            if masks is not None:
                lit = any(self._chosen in edge for edge in masks)
                edges: tuple[Edge, ...] = drawing.heads.get((x, y), ())
                row[x] = ("▶" if edges else character(masks), "lit" if lit else "line")
        for box in drawing.boxes:
            if box.y <= y < box.y + BOX_HEIGHT:
                _put(row, box.x, self._box_row(box, y - box.y))
        return _joined_up(row)

    def _box_row(self, box: Box, row: int) -> list[tuple[str, Pen]]:
        chosen = box.node.key == self._chosen
        style = "" if box.node.style == "plain" else box.node.style
        frame, ground = ("lit" if chosen else style or "line"), ("chosen" if chosen else "")
        inner = box.width - 2
        if row in (0, BOX_HEIGHT - 1):
            left, right = ("╭", "╮") if row == 0 else ("╰", "╯")
            return [(left + "─" * inner + right, frame)]
        text = box.node.title if row == 1 else box.node.detail
        lead = "▸" if chosen and row == 1 else " "
        return [
            ("│", frame),
            (f"{lead}{fit(text, inner - 2)} ", f"{style if row == 1 else 'detail'} {ground}"),
            ("│", frame),
        ]


def _cleaned(node: Node) -> Node:
    return Node(node.key, clean(node.title), clean(node.detail), node.after, node.style)


def _put(row: list[tuple[str, Pen]], x: int, pieces: list[tuple[str, Pen]]) -> None:
    """Write pieces into single cells; a character of two cells leaves the second empty."""
    for text, pen in pieces:
        for one in text:
            wide = cell_len(one)
            if wide and x + wide <= len(row):
                row[x] = (one, pen)
                row[x + 1 : x + wide] = [("", pen)] * (wide - 1)
                x += wide


def _joined_up(row: list[tuple[str, Pen]]) -> list[tuple[str, Pen]]:
    """Cells of one style that stand beside each other, as one piece."""
    pieces: list[tuple[str, Pen]] = []
    for text, pen in row:
        if pieces and pieces[-1][1] == pen:
            pieces[-1] = (pieces[-1][0] + text, pen)
        else:
            pieces.append((text, pen))
    return pieces
