"""Where the steps of a graph are drawn: as boxes from left to right with lines between them, or as a tree of lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len

Edge = tuple[str, str]
NodeStyle = Literal["plain", "warn", "error"]

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LINES: Mapping[int, str] = {
    LEFT | RIGHT: "─",
    UP | DOWN: "│",
    DOWN | RIGHT: "╭",
    DOWN | LEFT: "╮",
    UP | RIGHT: "╰",
    UP | LEFT: "╯",
    UP | DOWN | RIGHT: "├",
    UP | DOWN | LEFT: "┤",
    DOWN | LEFT | RIGHT: "┬",
    UP | LEFT | RIGHT: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
    UP: "│",
    DOWN: "│",
    LEFT: "─",
    RIGHT: "─",
}
"""The character for the sides to which a line goes on."""

BOX_HEIGHT = 4
_NARROWEST_BOX = 12
_WIDEST_BOXES = (34, 28, 22, 18)
"""Boxes are as wide as their texts, up to the first of these with which all fit."""
_MOST_BOXES = 200
_SWEEPS = 4


@dataclass(frozen=True)
class Node:
    """One step: its key, what is written in it, and the keys of the steps it waits for."""

    key: str
    title: str
    detail: str = ""
    after: tuple[str, ...] = ()
    style: NodeStyle = "plain"


@dataclass(frozen=True)
class Box:
    """A step's box: its left upper corner and its size in cells."""

    node: Node
    layer: int
    x: int
    y: int
    width: int

    @property
    def port(self) -> int:
        """The line on which its edges end."""
        return self.y + 1


@dataclass(frozen=True)
class Drawing:
    """Boxes, and for every cell of the lines between them what each edge does there; `heads` are the arrows' points."""

    boxes: tuple[Box, ...]
    cells: Mapping[tuple[int, int], Mapping[Edge, int]]
    heads: Mapping[tuple[int, int], tuple[Edge, ...]]
    width: int
    height: int


@dataclass(frozen=True)
class TreeLine:
    """A step below the one of those it waits for that comes last; `also` are the others."""

    node: Node
    lead: str
    also: tuple[str, ...]


def layers_of(nodes: Sequence[Node]) -> list[list[Node]]:
    """The steps by how many others come one after the other before them; a circle is cut where it closes."""
    waits = _without_circles(nodes)
    depth: dict[str, int] = {}
    for key in _in_order(nodes, waits):
        depth[key] = max((depth[before] + 1 for before in waits[key]), default=0)
    layers: list[list[Node]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node.key]].append(node)
    return layers


def tree(nodes: Sequence[Node]) -> list[TreeLine]:
    """The steps as lines of a tree, each once."""
    waits = _without_circles(nodes)
    layers = layers_of(nodes)
    depth = {node.key: n for n, layer in enumerate(layers) for node in layer}
    below: dict[str | None, list[Node]] = {}
    for node in nodes:
        parent = max(waits[node.key], key=lambda key: depth[key], default=None)
        below.setdefault(parent, []).append(node)
    found: list[TreeLine] = []
    pending = [(node, "", "") for node in reversed(below.get(None, []))]
    while pending:
        node, lead, deeper = pending.pop()
        parent = max(waits[node.key], key=lambda key: depth[key], default=None)
        found.append(TreeLine(node, lead, tuple(key for key in node.after if key != parent)))
        under = below.get(node.key, [])
        for position, child in reversed(list(enumerate(under))):
            last = position == len(under) - 1
            pending.append((child, f"{deeper}{'╰' if last else '├'}─▶ ", f"{deeper}{' ' if last else '│'}   "))
    return found


def draw(nodes: Sequence[Node], width: int) -> Drawing | None:
    """Lay the steps out as boxes in `width` cells; None where they do not fit."""
    layers = layers_of(nodes)
    if not nodes or len(nodes) > _MOST_BOXES or len(layers) * (_NARROWEST_BOX + 4) > width + 4:
        return None
    laid = _Layout(nodes, layers)
    return laid.drawing() if any(laid.fits(width, widest) for widest in _WIDEST_BOXES) else None


@dataclass
class _Item:
    """What has a place in a layer: a step, or the line of a step that passes through to a later layer."""

    key: str
    layer: int
    node: Node | None
    y: int = 0
    order: float = 0.0
    before: list[_Item] = field(default_factory=list)
    edges: dict[Edge, _Item] = field(default_factory=dict)
    """The edges that go on from here, with the item in the next layer."""

    @property
    def height(self) -> int:
        return 1 if self.node is None else BOX_HEIGHT

    @property
    def port(self) -> int:
        return self.y if self.node is None else self.y + 1


class _Layout:
    """Items in their layers, in an order with few crossings, then their places."""

    def __init__(self, nodes: Sequence[Node], layers: list[list[Node]]) -> None:
        self._items: list[list[_Item]] = [
            [_Item(node.key, n, node) for node in layer] for n, layer in enumerate(layers)
        ]
        self._by_key = {item.key: item for layer in self._items for item in layer}
        self._passing: dict[Edge | tuple[str, int], _Item] = {}
        waits = _without_circles(nodes)
        for node in nodes:
            for before in waits[node.key]:
                self._connect(self._by_key[before], self._by_key[node.key])
        self._sort()
        self._place()
        self._gaps = [len(self._tracks(layer)) + 4 for layer in self._items[:-1]] + [0]
        self._widths: list[int] = []
        self.width = 0

    def fits(self, width: int, widest: int) -> bool:
        """Give every layer the width of its texts, `widest` at most; whether all have room then."""
        self._widths = [self._width_of(layer, widest) for layer in self._items]
        self.width = sum(self._widths) + sum(self._gaps)
        return self.width <= width

    def _connect(self, source: _Item, target: _Item) -> None:
        edge = (source.key, target.key)
        here = source
        for layer in range(source.layer + 1, target.layer):
            passing = self._passing.get((source.key, layer))
            if passing is None:
                passing = self._passing[(source.key, layer)] = _Item(source.key, layer, None)
                self._items[layer].append(passing)
                passing.before.append(here)
            here.edges[edge] = passing
            here = passing
        here.edges[edge] = target
        target.before.append(here)

    def _sort(self) -> None:
        """Put each item near the middle of those it hangs on, forwards and backwards in turn."""
        self._number()
        for sweep in range(_SWEEPS):
            for layer in self._items[1:] if sweep % 2 == 0 else reversed(self._items[:-1]):
                for item in layer:
                    near = item.before if sweep % 2 == 0 else list(item.edges.values())
                    if near:
                        item.order = sum(other.order for other in near) / len(near)
                layer.sort(key=lambda item: item.order)
                self._number()

    def _number(self) -> None:
        for layer in self._items:
            for position, item in enumerate(layer):
                item.order = position - (len(layer) - 1) / 2

    def _place(self) -> None:
        for layer in self._items:
            free = 0
            for item in layer:
                wanted = free
                if item.before:
                    ports = sorted(other.port for other in item.before)
                    wanted = ports[(len(ports) - 1) // 2] - (item.port - item.y)
                item.y = max(free, wanted)
                free = item.y + item.height + 1

    @staticmethod
    def _width_of(layer: list[_Item], widest: int) -> int:
        texts = [text for item in layer if item.node for text in (item.node.title, item.node.detail)]
        return max(_NARROWEST_BOX, min(widest, max((cell_len(text) for text in texts), default=0) + 4))

    @staticmethod
    def _tracks(layer: list[_Item]) -> list[list[_Item]]:
        """The items whose lines bend behind this layer, by the track on which they do; what goes to one target alone shares it.

        What goes down turns the later, the higher it starts. Who starts on the line on which another's ends turns before
        that one comes, or the two would look like one.
        """
        bending = [item for item in layer if any(target.port != item.port for target in item.edges.values())]
        up = [item for item in bending if min(target.port for target in item.edges.values()) < item.port]
        shared: dict[object, list[_Item]] = {}
        for item in (*up, *reversed([item for item in bending if item not in up])):
            targets = {id(target) for target in item.edges.values()}
            shared.setdefault(targets.pop() if len(targets) == 1 else item.key, []).append(item)
        waiting = list(shared.values())
        ends = [{target.port for item in track for target in item.edges.values()} for track in waiting]
        starts = [{item.port for item in track} for track in waiting]
        left, tracks = list(range(len(waiting))), []
        while left:
            free = (n for n in left if not any(starts[other] & ends[n] for other in left if other != n))
            chosen = next(free, left[0])
            left.remove(chosen)
            tracks.append(waiting[chosen])
        return tracks

    def drawing(self) -> Drawing:
        """Boxes and lines."""
        boxes: list[Box] = []
        cells: dict[tuple[int, int], dict[Edge, int]] = {}
        heads: dict[tuple[int, int], tuple[Edge, ...]] = {}
        x = 0
        for layer, width, gap in zip(self._items, self._widths, self._gaps, strict=True):
            turns = {id(item): x + width + 1 + n for n, track in enumerate(self._tracks(layer)) for item in track}
            for item in layer:
                if item.node is not None:
                    boxes.append(Box(item.node, item.layer, x, item.y, width))
                for edge, target in item.edges.items():
                    start = x if item.node is None else x + width
                    end = x + width + gap
                    for cell, sides in _way(start, item.port, turns.get(id(item)), end, target.port):
                        masks = cells.setdefault(cell, {})
                        masks[edge] = masks.get(edge, 0) | sides
                    if target.node is not None:
                        head = (end - 1, target.port)
                        heads[head] = (*heads.get(head, ()), edge)
            x += width + gap
        height = max(item.y + item.height for layer in self._items for item in layer)
        return Drawing(tuple(boxes), cells, heads, self.width, height)


def character(masks: Mapping[Edge, int]) -> str:
    """What is drawn where edges meet: one line where they run together, the upright one where they only cross."""
    sides = set(masks.values())
    if sides == {LEFT | RIGHT, UP | DOWN}:
        return LINES[UP | DOWN]
    together = 0
    for mask in sides:
        together |= mask
    return LINES[together]


def _way(start: int, from_y: int, turn: int | None, end: int, to_y: int) -> Iterator[tuple[tuple[int, int], int]]:
    """The cells of a line from one port to another, which bends at column `turn`, and the sides it goes on to."""
    if turn is None or from_y == to_y:
        for x in range(start, end):
            yield (x, from_y), LEFT | RIGHT
        return
    for x in range(start, turn):
        yield (x, from_y), LEFT | RIGHT
    onward, back = (DOWN, UP) if to_y > from_y else (UP, DOWN)
    yield (turn, from_y), LEFT | onward
    for y in range(min(from_y, to_y) + 1, max(from_y, to_y)):
        yield (turn, y), UP | DOWN
    yield (turn, to_y), back | RIGHT
    for x in range(turn + 1, end):
        yield (x, to_y), LEFT | RIGHT


def _without_circles(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """What each step waits for, less what is not there and what would close a circle."""
    known = {node.key: node for node in nodes}
    waits = {key: tuple(dict.fromkeys(b for b in node.after if b in known and b != key)) for key, node in known.items()}
    done: set[str] = set()
    for start in waits:
        if start in done:
            continue
        path = {start: iter(waits[start])}
        while path:
            key = next(reversed(path))
            before = next(path[key], None)
            if before is None:
                done.add(key)
                del path[key]
            elif before in path:
                waits[key] = tuple(b for b in waits[key] if b != before)
            elif before not in done:
                path[before] = iter(waits[before])
    return waits


def _in_order(nodes: Sequence[Node], waits: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The keys, each after those it waits for."""
    given: set[str] = set()
    for start in nodes:
        pending = [(start.key, False)]
        while pending:
            key, ready = pending.pop()
            if key in given:
                continue
            if ready:
                given.add(key)
                yield key
            else:
                pending.append((key, True))
                pending += [(before, False) for before in waits[key] if before not in given]
