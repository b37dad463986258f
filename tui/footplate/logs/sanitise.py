"""Make text from outside safe to show: controls, escape sequences and bidirectional overrides go, colours may stay.

Nothing that leaves this module holds a C0 or C1 control, an escape sequence or a bidirectional override. Zero-width
emoji joiners, variation selectors and skin tones are dropped as well: terminals disagree about the width of what they
join, and a table's columns or a pane's border would no longer be straight. The files themselves are never changed.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace

DISPLAY_LIMIT = 8 * 1024
"""Bytes of a line that are ever decoded, parsed and drawn."""

TAB_STOP = 8

Colour = int | tuple[int, int, int] | None
"""None is the default colour, an int one of the 256 palette colours, a triple true colour."""

_SEQUENCE = (
    r"(?:\x1b\[|\x9b)(?P<params>[0-?]*)(?P<intermediate>[ -/]*)(?P<final>[@-~]?)"  # CSI
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC: ended by BEL, ST or the line
    r"|(?:\x1b[PX^_k]|[\x90\x98\x9e\x9f])[^\x1b\x9c\r\n]*(?:\x1b\\|\x9c)?"  # DCS, SOS, PM, APC, screen's title
    r"|\x1b[ -/]+[0-~]?|\x1b[0-~]?"  # charset choices, single-character functions, a lone ESC
)
_BREAK = r"[\t\n\x0b\x0c\r\x85\u2028\u2029]+"
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
_UNSTEADY = re.compile(
    r"[\ufe0e\ufe0f]"
    r"|(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d"
    r"|(?<=[\u261d-\u270d\U0001f300-\U0001faff])[\U0001f3fb-\U0001f3ff]"
)
_UNSAFE = re.compile(f"{_SEQUENCE}|(?P<break>{_BREAK})|{_CONTROL}")
_TOKEN = re.compile(f"{_SEQUENCE}|(?P<tab>\\t)|{_CONTROL}")


@dataclass(frozen=True, slots=True)
class Style:
    """How a stretch of a log line is drawn."""

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False


PLAIN = Style()
_ERASE = b"\x1b[2K"


@dataclass(frozen=True, slots=True)
class Line:
    """A log line ready to draw: (text, style) spans, whether anything but colour was removed, and bytes left out."""

    spans: tuple[tuple[str, Style], ...]
    removed: bool = False
    cut: int = 0

    @property
    def text(self) -> str:
        """The line without its styles."""
        return "".join(text for text, _ in self.spans)


def clean(text: str) -> str:
    """Return `text` as one line of plain, printable text; line breaks and tabs become a space."""
    if text.isascii() and text.isprintable():
        return text
    return steady(_UNSAFE.sub(_harmless, text.rstrip("\r\n")))


def steady(text: str) -> str:
    """Drop the marks that make one emoji of several or recolour it, whose width differs between terminals."""
    return text if text.isascii() else _UNSTEADY.sub("", text)


def parse_line(raw: bytes, cut: int = 0) -> Line:
    """Parse one raw log line (with or without its line end) into what a terminal would be left showing.

    Of a line that was overwritten (carriage returns, erasing: progress bars) the last state counts. Invalid UTF-8
    becomes U+FFFD. Of escape sequences only colours and text attributes (SGR) are kept. At most 8 KiB are parsed; `cut` is
    what the caller left out already, in bytes, and `Line.cut` what is missing in all.
    """
    if b"\0" in raw and 2 * len(raw) < 5 * raw.count(0) <= 3 * len(raw):
        # UTF-16, as Windows writes it: of plain letters every other byte.
        raw = raw.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    raw = last_state(raw.rstrip(b"\r\n"))
    if len(raw) > DISPLAY_LIMIT:
        cut += len(raw) - DISPLAY_LIMIT
        raw = raw[:DISPLAY_LIMIT]
    # A character that the cut went through is left out, not shown as damage.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw, final=cut == 0)
    if text.isascii() and text.isprintable():
        return Line(((text, PLAIN),) if text else (), False, cut)
    return _parse_text(text, cut)


def last_state(raw: bytes) -> bytes:
    """Return what a line that overwrote itself was left with."""
    begin = max(raw.rfind(b"\r"), raw.rfind(b"\n")) + 1
    erased = raw.rfind(_ERASE, begin)
    return raw[begin:] if erased < 0 else raw[erased + len(_ERASE) :]


def size_text(count: int) -> str:
    """Return a number of bytes as a short text: `612 B`, `14 kB`, `1.2 MB`."""
    if count < 1000:
        return f"{count} B"
    size = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.5 or unit == "TB":
            return f"{size:.1f} {unit}" if size < 9.95 else f"{size:.0f} {unit}"
    raise AssertionError("unreachable")


def _harmless(match: re.Match[str]) -> str:
    if match["break"]:
        return " "
    return "\ufffd" if "\ud800" <= match[0] <= "\udfff" else ""


def _parse_text(text: str, cut: int) -> Line:
    spans: list[tuple[str, Style]] = []
    style, removed, position, column = PLAIN, False, 0, 0

    def add(piece: str) -> int:
        if piece:
            if spans and spans[-1][1] == style:
                spans[-1] = (spans[-1][0] + piece, style)
            else:
                spans.append((piece, style))
        return len(piece)

    for match in _TOKEN.finditer(text):
        column += add(steady(text[position : match.start()]))
        position = match.end()
        if match["tab"]:
            column += add(" " * (TAB_STOP - column % TAB_STOP))
        elif match["final"] == "m" and not match["intermediate"] and match["params"][:1] not in tuple("<=>?"):
            style = _apply_sgr(style, match["params"])
        elif match["final"] == "K" and not match["intermediate"]:
            pass  # a progress bar erased what stood behind it: nothing, once it is the last state
        else:
            removed = True
    add(steady(text[position:]))
    return Line(tuple(spans), removed, cut)


_ATTRIBUTES: dict[int, dict[str, bool]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
}


def _apply_sgr(style: Style, params: str) -> Style:
    """Return `style` changed by the parameters of one SGR sequence (ECMA-48; colours as xterm has them)."""
    fields = params.split(";")
    position = 0
    while position < len(fields):
        field = fields[position]
        position += 1
        code, *sub = [_number(part) for part in field.split(":")]
        if code == 0:
            style = PLAIN
        elif code in _ATTRIBUTES:
            on = _ATTRIBUTES[code] if not (code == 4 and sub == [0]) else {"underline": False}
            style = replace(style, **on)
        elif code in (38, 48):
            if not sub:
                sub = [_number(part) for part in fields[position : position + 4]]
                position += {5: 2, 2: 4}.get(sub[0] if sub else 0, 0)
            elif sub[0] == 2 and len(sub) > 4:
                del sub[1]  # 38:2:<colour space>:r:g:b
            style = _with_colour(style, code == 38, _extended(sub))
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style = _with_colour(style, True, code - 30 if code < 40 else code - 82)
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style = _with_colour(style, False, code - 40 if code < 50 else code - 92)
        elif code in (39, 49):
            style = _with_colour(style, code == 39, None)
    return style


def _with_colour(style: Style, foreground: bool, colour: Colour) -> Style:
    return replace(style, foreground=colour) if foreground else replace(style, background=colour)


def _extended(fields: list[int]) -> Colour:
    if fields[:1] == [5] and len(fields) > 1:
        return min(fields[1], 255)
    if fields[:1] == [2] and len(fields) > 3:
        return min(fields[1], 255), min(fields[2], 255), min(fields[3], 255)
    return None


def _number(text: str) -> int:
    # The digits are capped: a number of a thousand digits is an attack, not a colour.
    return int(text[:4]) if text.isdecimal() else 0
