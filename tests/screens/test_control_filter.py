"""The filter over everything that is drawn."""

from __future__ import annotations

from rich.segment import ControlType, Segment
from rich.style import Style
from textual.color import Color

from footplate.widgets.control_filter import ControlFilter

GROUND = Color.parse("black")


def filtered(*segments: Segment) -> list[Segment]:
    return ControlFilter().apply(list(segments), GROUND)


def test_controls_of_every_kind_are_dropped_and_styles_kept() -> None:
    style = Style(bold=True)
    every = "".join(map(chr, range(0x100))) + "\u202a\u202e\u2066\u2069\u200f\u061c"
    (segment,) = filtered(Segment(f"<{every}>", style))
    printable = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x100)]))
    assert segment == Segment(f"<{printable}>", style)


def test_the_width_of_a_line_stays() -> None:
    segments = [Segment("学習\x1b]52;c;QQ\x07 "), Segment("é\u202e")]
    assert sum(s.cell_length for s in filtered(*segments)) == sum(s.cell_length for s in segments)


def test_what_cannot_be_encoded_is_replaced() -> None:
    (segment,) = filtered(Segment("name\udcff.png"))
    assert segment.text == "name\ufffd.png"


def test_textuals_own_controls_pass_and_clean_lines_are_not_copied() -> None:
    move = Segment("\x1b[2;3H", None, [(ControlType.CURSOR_MOVE_TO, 3, 2)])
    assert filtered(move, Segment("é\x07")) == [move, Segment("é")]
    clean = [Segment("plain"), Segment(" text")]
    assert ControlFilter().apply(clean, GROUND) is clean
