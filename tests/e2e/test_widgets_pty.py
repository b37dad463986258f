"""What reaches a real terminal when logs, table cells and labels hold escape sequences: their visible text alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.terminal import Terminal

SECRET = "Y2FzZS1vc2M1Mi1tdXN0LW5vdC1yZWFjaA=="
EVIL = (
    f"\x1b]52;c;{SECRET}\x07\x1b]52;c;{SECRET}\x1b\\\x9d52;c;{SECRET}\x9c"
    "\x1b]0;stolen title\x07\x1b]2;stolen title\x1b\\\x1bkstolen title\x1b\\"
    "\x1b[13;77H\x1b[99A\x1b[2J\x1b[3J\x9b13;77H\x1b[?1047h\x1b[3;20r\x1bPq#0~~\x1b\\\x1b_Gf=100;AAAA\x1b\\"
    "\x07\x08\x0e\u202e\u2066\u061c"
)

APP = """
import sys
from pathlib import Path
from textual.app import App, ComposeResult
from textual.widgets import Static
from footplate.widgets.bars import Bar, Bars
from footplate.widgets.chart import Chart, Series
from footplate.widgets.control_filter import ControlFilter
from footplate.widgets.log_view import LogView
from footplate.widgets.virtual_table import Column, Row, VirtualTable

evil = Path(sys.argv[2]).read_text()


class EvilApp(App[None]):
    CSS = "Screen > * { height: 4; }"
    FILTER = ControlFilter()
    BINDINGS = [("q", "quit")]

    def get_line_filters(self):
        return [*super().get_line_filters(), self.FILTER]

    def compose(self) -> ComposeResult:
        yield LogView(Path(sys.argv[1]))
        yield VirtualTable([Column("name", f"HEAD{evil}ER"), Column("status", "STATUS")], empty=f"empty{evil}")
        yield Bars([Bar(f"bar{evil}label", 0.5)])
        yield Chart([Series(f"chart{evil}name", [(0, 1.0), (1, 2.0)])])
        yield Static(f"static{evil}text", markup=False)

    def on_mount(self) -> None:
        self.query_one(VirtualTable).set_rows([Row("key", (f"cell{evil}text", "ok"))])


EvilApp().run()
"""

POINTER = re.compile(r"\x1b\]22;[a-z-]*\x07")
"""The pointer's shape, which Textual itself sets."""


def visible(data: bytes) -> str:
    """Return output without the sequences that Textual itself draws with."""
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", data.decode(errors="replace"))


@pytest.fixture
def terminal(tmp_path: Path):
    (tmp_path / "std_log.txt").write_text(f"log{EVIL}line\nthe line after\n")
    (tmp_path / "evil.txt").write_text(EVIL)
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, tmp_path / "app.py", tmp_path / "std_log.txt", tmp_path / "evil.txt"]
    with Terminal(command, columns=100, rows=24) as terminal:
        yield terminal


def test_escape_sequences_in_data_never_reach_the_terminal(terminal: Terminal) -> None:
    wanted = ("logline", "the line after", "HEADER", "celltext", "barlabel", "chartname", "static")
    terminal.read_until(lambda seen: all(text in visible(seen) for text in wanted))
    terminal.write("q")
    assert terminal.wait() == 0

    output = POINTER.sub("", terminal.output.decode())
    for sequence in (
        "\x1b]",
        "\x1bk",
        "\x1bP",
        "\x1b_",
        "\x1b[13;77H",
        "\x1b[99A",
        "\x1b[2J",
        "\x1b[3J",
        "\x1b[?1047h",
    ):
        assert sequence not in output, ascii(sequence)
    for control in "\x07\x08\x0e\x90\x9b\x9c\x9d\u202e\u2066\u061c":
        assert control not in output, ascii(control)


def test_the_terminal_is_left_as_it_was_found(terminal: Terminal) -> None:
    terminal.read_until(lambda seen: "logline" in visible(seen))
    terminal.write("q")
    assert terminal.wait() == 0
    output = bytes(terminal.output)
    assert output.rindex(b"\x1b[?1049l") > output.rindex(b"\x1b[?1049h")
    assert output.rindex(b"\x1b[?25h") > output.rindex(b"\x1b[?25l")
