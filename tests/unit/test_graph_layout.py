"""The layout of a pipeline's graph: layers, boxes, lines, tree."""

from __future__ import annotations

import random

import pytest

from footplate.widgets.graph_layout import (
    BOX_HEIGHT,
    DOWN,
    LEFT,
    RIGHT,
    UP,
    Drawing,
    Node,
    character,
    draw,
    layers_of,
    tree,
)

CHAIN = [Node("a", "a"), Node("b", "b", "", ("a",)), Node("c", "c", "", ("b", "a"))]


def keys(layers: list[list[Node]]) -> list[list[str]]:
    return [[node.key for node in layer] for layer in layers]


def ends(drawing: Drawing, edge: tuple[str, str]) -> bool:
    """Whether a line leads from the one box to the other, cell by cell."""
    boxes = {box.node.key: box for box in drawing.boxes}
    source, target = boxes[edge[0]], boxes[edge[1]]
    at, came = (source.x + source.width, source.port), LEFT
    for _ in range(10_000):
        if at == (target.x, target.port):
            return True
        sides = drawing.cells.get(at, {}).get(edge, 0)
        if not sides & came:
            return False
        onward = sides & ~came
        # At a branch of one edge's own line there is none: each edge has one way.
        x, y = at
        at, came = {
            RIGHT: ((x + 1, y), LEFT),
            UP: ((x, y - 1), DOWN),
            DOWN: ((x, y + 1), UP),
        }[onward]
    return False


def test_a_step_stands_after_all_it_waits_for():
    assert keys(layers_of(CHAIN)) == [["a"], ["b"], ["c"]]


def test_a_circle_is_cut_and_what_is_not_there_is_not_waited_for():
    nodes = [Node("a", "a", "", ("b",)), Node("b", "b", "", ("a", "gone")), Node("c", "c", "", ("c",))]
    assert sorted(key for layer in layers_of(nodes) for key in (node.key for node in layer)) == ["a", "b", "c"]


def test_a_thousand_steps_in_a_row_are_a_thousand_layers():
    nodes = [Node(str(n), "s", "", (str(n - 1),)) for n in range(3_000)]
    assert len(layers_of(nodes)) == 3_000
    assert len(tree(nodes)) == 3_000
    assert draw(nodes, 200) is None


def test_the_tree_names_the_others_that_a_step_waits_for():
    lines = tree(CHAIN)
    assert [(line.node.key, line.lead, line.also) for line in lines] == [
        ("a", "", ()),
        ("b", "╰─▶ ", ()),
        ("c", "    ╰─▶ ", ("a",)),
    ]


def test_boxes_that_do_not_fit_are_not_drawn():
    assert draw(CHAIN, 30) is None
    assert draw([], 100) is None
    drawn = draw(CHAIN, 60)
    assert drawn is not None
    assert drawn.width <= 60


def test_long_texts_give_way_before_the_boxes_do():
    nodes = [Node(n.key, n.title, "x" * 60, n.after) for n in CHAIN]
    wide, narrow = draw(nodes, 200), draw(nodes, 80)
    assert wide is not None
    assert narrow is not None
    assert narrow.boxes[0].width < wide.boxes[0].width


@pytest.mark.parametrize("seed", range(40))
def test_every_edge_leads_from_its_box_to_its_box_and_no_boxes_touch(seed):
    chance = random.Random(seed)
    names = [f"s{n}" for n in range(chance.randint(1, 14))]
    nodes = [
        Node(name, name, "", tuple(chance.sample(names[:n], min(n, chance.randint(0, 3)))))
        for n, name in enumerate(names)
    ]
    drawing = draw(nodes, 400)
    assert drawing is not None
    for node in nodes:
        for before in node.after:
            assert ends(drawing, (before, node.key)), f"{before} → {node.key}"
    taken = set()
    for box in drawing.boxes:
        cells = {(x, y) for x in range(box.x, box.x + box.width) for y in range(box.y, box.y + BOX_HEIGHT)}
        assert not cells & taken
        assert not cells & set(drawing.cells)
        taken |= cells


@pytest.mark.parametrize("seed", range(40))
def test_lines_of_different_steps_join_only_on_the_way_to_one_target(seed):
    chance = random.Random(seed)
    names = [f"s{n}" for n in range(9)]
    nodes = [
        Node(name, name, "", tuple(chance.sample(names[:n], min(n, chance.randint(0, 2)))))
        for n, name in enumerate(names)
    ]
    drawing = draw(nodes, 400)
    assert drawing is not None
    for masks in drawing.cells.values():
        upright = {edge[0] for edge, sides in masks.items() if sides == UP | DOWN}
        targets = {edge[1] for edge in masks}
        if len(upright) > 1:
            assert len(targets) == 1


def test_lines_that_cross_are_not_joined():
    assert character({("a", "b"): LEFT | RIGHT, ("c", "d"): UP | DOWN}) == "│"
    assert character({("a", "b"): LEFT | DOWN, ("a", "c"): LEFT | RIGHT}) == "┬"
    assert character({("a", "c"): UP | RIGHT, ("b", "c"): LEFT | RIGHT}) == "┴"
