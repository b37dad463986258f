"""Text of several lines: block scalars (`|`, `>`) changed in their own style, and made where a line was."""

from __future__ import annotations

import re
from collections.abc import Iterator

from footplate.jobfile import nodes
from footplate.jobfile.layout import BREAK, Layout


def changed(layout: Layout, path: nodes.Path, means: str) -> Iterator[str]:
    """The text with a scalar's content changed to `means` as a block; nothing where no block stands or is wanted."""
    place = layout.places[path]
    if place.style in ("|", ">"):
        yield from _rewritten(layout, path, means)
    elif "\n" in means.rstrip("\n") and place.key and not layout.colonless(path):
        line_end = layout.line_end(place.end)
        if not layout.text[place.end : line_end].strip("\r\n"):
            body = layout.text[: place.head] + layout.kept(path)
            blank = "" if body[-1:] in (" ", "\t") else " "
            block = new(means, place.name[1] - 1 + layout.step, layout.newline)
            rest = layout.text[line_end:]
            yield f"{body}{blank}{block}{layout.newline * bool(rest or line_end > place.end)}{rest}"


def new(means: str, column: int, newline: str) -> str:
    """A `|` block of several lines, indented to a column; without its last line break."""
    core = means.rstrip("\n")
    lines = [" " * column + line if line else "" for line in core.split("\n")]
    return newline.join([f"|{_chomp(means)}", *lines, *[""] * (len(means) - len(core) - 1)])


def closed(layout: Layout) -> Layout:
    """The layout of the same values, in which a block that ends the file without a line break may have lines below it."""
    for path, place in layout.places.items():
        if place.style in ("|", ">") and place.end == len(layout.text) and not layout.ends_with_break:
            start, header = layout.content(path), layout.header(path)
            digit = re.sub(r"\D", "", layout.text[start:header])
            return Layout.of(f"{layout.text[:start]}{place.style}{digit}-{layout.text[header:]}")
    return layout


def _chomp(means: str) -> str:
    tail = len(means) - len(means.rstrip("\n"))
    return "-" if tail == 0 else "" if tail == 1 else "+"


def _rewritten(layout: Layout, path: nodes.Path, means: str) -> Iterator[str]:
    """The block with new content: first in its own style with the lines it has, last as a literal block."""
    text, place = layout.text, layout.places[path]
    core = means.rstrip("\n")
    if not core or re.search(r"[\r\x85\u2028\u2029]", means):
        return
    header, start = layout.header(path), layout.content(path)
    head_end = layout.line_end(header)
    old = _Body(layout, path, head_end)
    end = place.end if _chomp(means) == "+" else old.end
    digit = re.sub(r"\D", "", text[start:header])
    if not digit and core.startswith((" ", "\n")):
        digit = str(old.column - max(0, place.name[1] - 1))
    tail = [""] * max(0, len(means) - len(core) - 1)
    for style, lines in _lines(place.style, core, old.lines):
        indented = [" " * old.column + line if line else "" for line in lines] + tail
        body = layout.newline.join(indented)
        rest = text[header:head_end]
        if not BREAK.search(rest):
            rest += layout.newline
        final = text[end - 1 : end] in ("\n", "\r") and end > head_end
        for last in (layout.newline,) if final or text[end:] else ("", layout.newline):
            yield f"{text[:start]}{style}{digit}{_chomp(means)}{rest}{body}{last}{text[end:]}"


class _Body:
    """The lines of a block as they stand, without their indentation."""

    def __init__(self, layout: Layout, path: nodes.Path, start: int) -> None:
        self.end = max(start, layout.block_end(path))
        raw = BREAK.split(layout.text[start : self.end])
        while raw and not raw[-1].strip():
            raw.pop()
        value = str(nodes.get(layout.values, path))
        first = next((line for line in raw if line.strip()), "")
        inner = next((line for line in value.split("\n") if line.strip()), "")
        blanks = len(first) - len(first.lstrip(" ")) - (len(inner) - len(inner.lstrip(" ")))
        place = layout.places[path]
        self.column = blanks if blanks > 0 else max(0, place.name[1] - 1) + layout.step
        self.lines = [line[self.column :] for line in raw]


def _lines(style: str, core: str, old: list[str]) -> Iterator[tuple[str, list[str]]]:
    if style == ">":
        if "\n" not in core and all(line and line[0] not in " \t" for line in old):
            yield ">", _refolded(core, old)
        yield ">", re.sub(r"\n+", lambda breaks: breaks[0] + "\n", core).split("\n")
    yield "|", core.split("\n")


def _refolded(core: str, old: list[str]) -> list[str]:
    """A folded text's lines, broken where they were before and after the words that changed."""
    folded, joined = " ".join(old), "\n".join(old)
    most = min(len(folded), len(core))
    first = next((n for n in range(most) if folded[n] != core[n]), most)
    last = next((n for n in range(most - first) if folded[-1 - n] != core[-1 - n]), most - first)
    return (joined[:first] + core[first : len(core) - last] + joined[len(joined) - last :]).split("\n")
