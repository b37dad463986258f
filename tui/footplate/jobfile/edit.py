"""Change values of a job file by splicing its text, so that comments, order and quoting stay byte for byte.

Each change is proved before it is taken: the new text is read, and must hold the value that was typed and every other
value as before. A way of writing that fails is dropped for the next; where none is left the change is refused.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from footplate.jobfile import blocks, nodes, writing
from footplate.jobfile.layout import Layout, same
from footplate.jobfile.writing import Exact, Typed

__all__ = ["REMOVE", "Exact", "Typed", "splice", "spliced"]

_STEP = re.compile(r"[^.]+")


class _Remove(enum.Enum):
    REMOVE = "remove"


REMOVE = _Remove.REMOVE
"""As a value: take the key, or the item of a list, out of the file."""


def splice(text: str, changes: Mapping[str | nodes.Path, object]) -> str:
    """The text with the values at the paths changed; what is missing on a path is added below its nearest mapping.

    A path is dotted (`inputs.lr`, `choice.values.0`) or a tuple. A value is a string as one types it (it stays plain
    where YAML reads it back whole, and keeps the quotes or the block that stood there), `Exact` text, a `Typed` scalar, a
    boolean, a number, None, a list or mapping (written in brackets), or `REMOVE`.

    Raises KeyError with the path and a next step where the file has no place for it, yaml.YAMLError or nodes.Refused where
    the text is not YAML, or would not be.
    """
    return spliced(Layout.of(text), changes).text


def spliced(layout: Layout, changes: Mapping[str | nodes.Path, object]) -> Layout:
    """As `splice`, of a text that was read already; what is returned need not be read again."""
    for where, value in changes.items():
        layout = _changed(layout, _resolved(layout, where), value)
    return layout


def _resolved(layout: Layout, where: str | nodes.Path) -> nodes.Path:
    """A dotted path's steps; one that names an item of a list is its position."""
    if isinstance(where, tuple):
        return where
    path: nodes.Path = ()
    for step in _STEP.findall(where):
        listed = isinstance(nodes.get(layout.values, path), list) and str(step).isdecimal()
        path = (*path, int(step) if listed else step)
    return path


def _changed(layout: Layout, path: nodes.Path, value: object) -> Layout:
    if not path:
        raise _no_place(path, "Name a key of the file.")
    if value is REMOVE and not _has(layout.values, path):
        return layout
    if value is not REMOVE:
        _require_room(layout, path, value)
    layout = _alone(layout, path)
    step = _merged(layout, path)
    if step is not None:
        # What `<<` brings in stands elsewhere, for others too: the whole of it is written here, changed.
        means = value if value is REMOVE else writing.meaning(value)
        return _changed(layout, step, nodes.get(_expected(layout.values, path, means), step))
    place = layout.places.get(path)
    style, flow = (place.style if place and not place.alias else ""), layout.in_brackets(path)
    means = value if value is REMOVE else writing.meaning(value, style, flow)
    wanted = _expected(layout.values, path, means)
    if value is REMOVE:
        candidates = _removals(layout, path)
    elif place is None:
        candidates = _additions(layout, path, value)
    else:
        candidates = _replacements(layout, path, place, value, means)
    return _first(layout, path, candidates, wanted)


def _first(layout: Layout, path: nodes.Path, candidates: Iterator[str], wanted: Any) -> Layout:
    """The first text that reads back as wanted."""
    fault: Exception | None = None
    try:
        for text in candidates:
            try:
                after = Layout.of(text)
            except (yaml.YAMLError, nodes.Refused) as error:
                fault = error
                continue
            if same(after.values, wanted):
                return after
            fault = None
    except ValueError as error:
        raise _no_place(path, f"It cannot be written: {error}.") from error
    if isinstance(fault, nodes.Refused) and fault.code in ("bad-scalar", "too-large"):
        raise fault  # the value's own fault, not its place's
    raise _no_place(path, _why_not(layout, path)) from fault


def _no_place(path: nodes.Path, *hint: str) -> KeyError:
    return KeyError(".".join(map(str, path)), *hint)


def _why_not(layout: Layout, path: nodes.Path) -> str:
    if path not in layout.places and _has(layout.values, path):
        return "It comes from another mapping by `<<`: change it there."
    key = layout.places[path].key if path in layout.places else None
    if key and layout.text[layout.line_start(key[0]) : key[0]].strip(" -").startswith("?"):
        return "Its key is written with `?`: change it in an editor."
    return "It cannot be changed without what stands beside it: change it in an editor."


def _has(values: Any, path: nodes.Path) -> bool:
    holder = nodes.get(values, path[:-1])
    if isinstance(holder, list):
        return isinstance(path[-1], int) and 0 <= path[-1] < len(holder)
    return isinstance(holder, Mapping) and path[-1] in holder


def _require_room(layout: Layout, path: nodes.Path, value: object) -> None:
    """Refuse a path through a value that holds no keys, and a plain string where keys stand: that is a slip."""
    for depth in range(len(path)):
        holder, step = nodes.get(layout.values, path[:depth]), path[depth]
        if isinstance(holder, list):
            if not isinstance(step, int) or not 0 <= step <= len(holder):
                raise _no_place(path, f"`{_dotted(path[:depth])}` is a list: name its items by their number, from 0.")
        elif isinstance(holder, Mapping):
            if not isinstance(step, str):
                raise _no_place(path)
        elif holder is not None:
            raise _no_place(path, f"`{_dotted(path[:depth])}` holds a value, no keys.")
        elif not all(isinstance(rest, str) for rest in path[depth:]):
            raise _no_place(path)
    if isinstance(value, str) and isinstance(nodes.get(layout.values, path), Mapping | list):
        raise _no_place(path, "It holds keys or a list: name one of its keys, as in tags.owner=me.")


def _dotted(path: nodes.Path) -> str:
    return ".".join(map(str, path))


def _expected(values: Any, path: nodes.Path, means: Any) -> Any:
    """The values with one changed; what it shares with others is copied on the way."""
    if not path:
        return means
    step, rest = path[0], path[1:]
    if isinstance(values, list):
        copy: Any = list(values)
        if not rest and means is REMOVE:
            del copy[step]
        elif isinstance(step, int) and step == len(copy):
            copy.append(_expected(None, rest, means))
        else:
            copy[step] = _expected(copy[step], rest, means)
        return copy
    copy = dict(values or {})
    if not rest and means is REMOVE:
        copy.pop(step, None)
    else:
        copy[step] = _expected(copy.get(step), rest, means)
    return copy


# Anchors and aliases


def _alone(layout: Layout, path: nodes.Path) -> Layout:
    """The text changed so that what stands at the path is no other path's too: every value stays as it is.

    An alias on the way becomes what it stands for. Where the path has or lies below an anchor, the anchor moves to the
    first alias that uses it, which then holds the old value.
    """
    for _ in range(len(layout.places)):
        above = next((path[:n] for n in range(1, len(path)) if (p := layout.places.get(path[:n])) and p.alias), None)
        if above is not None:
            layout = _written_out(layout, above)
            continue
        moved = _moved_anchor(layout, path)
        if moved is None:
            return layout
        layout = moved
    return layout


def _written_out(layout: Layout, path: nodes.Path) -> Layout:
    start, end = layout.places[path].alias or (0, 0)
    text = layout.text[:start] + layout.written(path) + layout.text[end:]
    return _first(layout, path, iter([text]), layout.values)


def _moved_anchor(layout: Layout, path: nodes.Path) -> Layout | None:
    """The anchors on the path, or below it, that others use: one of them moved to its first user."""
    own = {
        place.anchor: where
        for where, place in layout.places.items()
        if place.anchor and not place.alias and not place.shared
        if where[: len(path)] == path or path[: len(where)] == where
    }
    # Within what is replaced an alias needs no value of its own; one that stands before the others still comes first.
    users = [(place.alias[0], where) for where, place in layout.places.items() if place.alias and not place.shared]
    users = sorted((at, where) for at, where in users if layout.places[where].anchor in own)
    if all(where[: len(path)] == path for _, where in users):
        return None
    user = users[0][1]
    name = layout.places[user].anchor
    start, end = layout.places[user].alias or (0, 0)
    text = f"{layout.text[:start]}&{name} {layout.written(own[name])}{layout.text[end:]}"
    first, last = layout.anchor(own[name]) or (0, 0)
    return _first(layout, path, iter([text[:first] + text[last:]]), layout.values)


def _merged(layout: Layout, path: nodes.Path) -> nodes.Path | None:
    """The part of a path whose value comes from a merge (`<<`), where more steps follow it."""
    for depth in range(1, len(path)):
        if path[:depth] not in layout.places and _has(layout.values, path[:depth]):
            return path[:depth]
    return None


# Ways to write


def _replacements(layout: Layout, path: nodes.Path, place: nodes.Place, value: object, means: Any) -> Iterator[str]:
    flow = layout.in_brackets(path)
    if place.alias:
        for written in writing.forms(value, "", flow):
            yield layout.text[: place.alias[0]] + written + layout.text[place.alias[1] :]
    elif place.kind != "scalar" and not place.flow:
        for written in writing.forms(value, "", flow):
            yield from _put_for_block(layout, path, written)
    else:
        if isinstance(means, str) and not flow:
            yield from blocks.changed(layout, path, means)
        for written in writing.forms(value, place.style, flow):
            yield _put(layout, path, written)


def _put(layout: Layout, path: nodes.Path, written: str) -> str:
    """One line in place of a scalar, or of brackets."""
    text, place = layout.text, layout.places[path]
    if layout.colonless(path):
        behind = layout.behind_key(path)
        return f"{text[:behind]}: {written}{text[behind:]}"
    after = text[place.end :]
    if place.style in ("|", ">"):
        header = layout.header(path)
        after = text[header : layout.line_end(header)] + text[layout.block_end(path) :]
    before = text[: place.head]
    blank = "" if before[-1:] in (*" \t\r\n[{,", "") else " "
    return f"{before}{blank}{layout.kept(path)}{written}{after}"


def _put_for_block(layout: Layout, path: nodes.Path, written: str) -> Iterator[str]:
    """One line in place of a block of keys or items: behind its key, where the block begins on a line below."""
    text, place = layout.text, layout.places[path]
    end, line = layout.end(path), layout.line_start(layout.content(path))
    behind = layout.behind_key(path)
    if place.key and behind <= line:
        anchor = layout.anchor(path)
        behind = anchor[1] if anchor else behind
        upper, rest = text[behind:line], text[layout.line_end(end) :]
        if not rest and not layout.ends_with_break:
            upper = upper.rstrip("\r\n")
        yield f"{text[:behind]} {written}{upper}{rest}"
    yield text[: place.head] + layout.kept(path) + written + text[end:]


def _additions(layout: Layout, path: nodes.Path, value: object) -> Iterator[str]:
    depth = next((n for n in range(len(path) - 1, -1, -1) if path[:n] in layout.places), None)
    if depth is None:
        return
    parent, missing = path[:depth], path[depth:]
    place, flow = layout.places[parent], layout.in_brackets(parent)
    if place.kind != "scalar" and not place.flow:
        for closed in (layout, blocks.closed(layout)):
            for entry in _entries(layout, missing, value, layout.column(parent)):
                yield closed.with_lines(closed.line_end(closed.end(parent)), entry)
        return
    if place.kind == "scalar" and not flow and place.key:
        column = place.name[1] - 1 + layout.step
        for entry in _entries(layout, missing, value, column):
            behind = layout.behind_key(parent) if place.head == place.end else place.head
            bare = Layout(layout.text[:behind].rstrip(" ") + layout.text[place.end :], None, {})
            cut = len(layout.text[:behind].rstrip(" "))
            yield bare.with_lines(bare.line_end(cut), entry)
    for written in writing.forms(value, "", True):
        if place.flow:
            yield _in_brackets(layout, parent, _nested(missing, written))
        else:
            yield _put(layout, parent, f"{{{_nested(missing, written)}}}")


def _nested(missing: nodes.Path, written: str) -> str:
    """The entry of a mapping or list in brackets, with braces for each further key."""
    for step in reversed(missing[1:]):
        written = f"{{{writing.key(str(step))}: {written}}}"
    return written if isinstance(missing[0], int) else f"{writing.key(missing[0])}: {written}"


def _entries(layout: Layout, missing: nodes.Path, value: object, column: int) -> Iterator[str]:
    """The lines of a new entry of a block, one for each missing key; the value in each way it can be written."""
    head, lead = "", " " * column
    for step in missing[:-1]:
        head += f"{lead}- " if isinstance(step, int) else f"{lead}{writing.key(step)}:{layout.newline}"
        column += 2 if isinstance(step, int) else layout.step
        lead = "" if isinstance(step, int) else " " * column
    last = missing[-1]
    head += f"{lead}- " if isinstance(last, int) else f"{lead}{writing.key(last)}: "
    means = writing.meaning(value)
    if isinstance(means, str) and "\n" in means.rstrip("\n"):
        yield f"{head}{blocks.new(means, column + layout.step, layout.newline)}{layout.newline}"
    for written in writing.forms(value):
        yield f"{head}{written}{layout.newline}"


def _in_brackets(layout: Layout, parent: nodes.Path, entry: str) -> str:
    """A new entry behind the last one, before what follows it (a comma, a comment, a line break)."""
    text = layout.text
    children = layout.children.get(parent, [])
    if not children:
        at = layout.content(parent) + 1
        return text[:at] + entry + text[at:]
    at = layout.end(children[-1])
    comma = _COMMA.match(text, at)
    if comma:
        return f"{text[: comma.end()]} {entry}{text[comma.end() :]}"
    return f"{text[:at]}, {entry}{text[at:]}"


_COMMA = re.compile(r"(?:[ \t\r\n]|(?<=[ \t\r\n])#[^\r\n]*(?=[\r\n]))*,")


# Ways to remove

_BLANK_LINES = re.compile(r"\A(?:[ \t]*(?:\r\n|\n|\r))+")


def _removals(layout: Layout, path: nodes.Path) -> Iterator[str]:
    parent = path[:-1]
    place = layout.places.get(path)
    if place is None:
        return
    siblings = layout.children[parent]
    at = siblings.index(path)
    following = siblings[at + 1] if at + 1 < len(siblings) else None
    begin, end = layout.begin(path), layout.end(path)
    if not place.key and not layout.places[parent].flow:
        begin = layout.text.rfind("-", 0, max(begin, 1))
        following_begin = None if following is None else layout.text.rfind("-", 0, layout.begin(following))
    else:
        following_begin = None if following is None else layout.begin(following)
    if len(siblings) == 1 and parent:
        yield from _emptied(layout, parent)
        return
    yield from _lines_taken(layout, begin, end, brackets=layout.places[parent].flow)
    if following_begin is not None:
        yield layout.text[:begin] + layout.text[following_begin:]
    elif at and layout.places[parent].flow:
        yield layout.text[: layout.end(siblings[at - 1])] + layout.text[end:]


def _emptied(layout: Layout, parent: nodes.Path) -> Iterator[str]:
    place = layout.places[parent]
    empty = "{}" if place.kind == "mapping" else "[]"
    if place.flow:
        yield _put(layout, parent, empty)
    else:
        yield from _put_for_block(layout, parent, empty)


def _lines_taken(layout: Layout, begin: int, end: int, *, brackets: bool) -> Iterator[str]:
    """The text without the lines of an entry, its own comment among them, where no other entry stands on them."""
    text = layout.text
    line, after = layout.line_start(begin), layout.line_end(end)
    rest = text[end:after].strip()
    if brackets:
        rest = rest.removeprefix(",").strip()
    if text[line:begin].strip(" \t\ufeff") or (rest and not rest.startswith("#")):
        return
    kept = text[:line] + "\ufeff" * text[line:begin].count("\ufeff")
    if after == len(text) and not layout.ends_with_break:
        yield kept.removesuffix("\n").removesuffix("\r")
    yield kept + text[after:]
    # Blank lines below would belong to a block above that keeps them.
    yield kept + _BLANK_LINES.sub("", text[after:], count=1)
