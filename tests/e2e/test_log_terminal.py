"""The log on a real terminal: what its bytes do there, borders, the clipboard, and the pager on the same terminal."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.terminal import Terminal
from tests.tmux import Tmux, needs_tmux

CASES = Path(__file__).parents[3] / "shared" / "cases" / "logs"

APP = """
import sys
from pathlib import Path
from footplate.base_app import BaseApp
from footplate.logs.index import LineIndex
from footplate.widgets.log_panel import LogPanel


class LogApp(BaseApp[None]):
    CSS = "LogPanel { border-right: solid $foreground; }"
    BINDINGS = [("f4", "quit"), ("f5", "next")]
    paths = [Path(name) for name in sys.argv[1:]]

    def compose(self):
        yield LogPanel()

    def on_mount(self):
        self.query_one("LogView").focus()
        self.action_next()

    def action_next(self):
        path = self.paths.pop(0)
        self.query_one(LogPanel).show(LineIndex(path), path.name)


LogApp().run()
"""
F4, F5 = "\x1bOS", "\x1b[15~"
ALLOWED = re.compile(r"\x1b\[[0-9;:]*m")
"""Colours and attributes."""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    for name in ("TMUX", "STY", "SSH_CONNECTION", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return {"FOOTPLATE_HOME": str(tmp_path / "home"), "FOOTPLATE_CONFIG": str(tmp_path / "none.toml")}


def visible(data: bytes) -> str:
    """Return output without the sequences that Textual itself draws with."""
    return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", data.decode(errors="replace"))


CASE_ENDS = {
    "l01_crlf.log": None,
    "l02_progress_cr.log": None,
    "l04_ansi_colours.log": None,
    "l05_osc52.log": "link text end",
    "l07_invalid_utf8.log": "\ufffd",
    "l08_one_mb_line.log": "short after",
    "l10_interleaved_ranks.log": None,
    "l13_markup_brackets.log": None,
    "l16_torchrun_failure.log": None,
}
"""What is on screen of each case at last; None: the last words of the file."""


def test_no_byte_of_a_log_does_anything_to_the_terminal_and_colours_stay(
    app: Path, environment: Mapping[str, str]
) -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    names = [name for name in CASE_ENDS if (CASES / name).exists()]
    command = [sys.executable, app, *(CASES / name for name in names)]
    with Terminal(command, columns=100, rows=24, environment=environment) as terminal:
        for name in names:
            last = (CASES / name).read_text(errors="replace").split()[-1]
            wanted = CASE_ENDS[name] or re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", last)
            terminal.read_until(
                lambda seen, wanted=wanted, name=name: name in visible(seen) and wanted in visible(seen)
            )
            if name == "l04_ansi_colours.log":
                colours = bytes(terminal.output)
            if name != names[-1]:
                terminal.write(F5)
        terminal.write(F4)
        assert terminal.wait() == 0
        output = terminal.output.decode()
    pointer = re.compile(r"\x1b\]22;[a-z-]*\x07")  # the mouse pointer's shape, which Textual itself sets
    assert "\x1b]" not in pointer.sub("", output)
    for sequence in ("\x1bP", "\x1b_", "\x1bk", "\x1b[2J", "\x1b[3J", "\x1b[1J", "\x9b", "\x9d", "\x08"):
        assert sequence not in output, ascii(sequence)
    assert len({match[0] for match in ALLOWED.finditer(colours.decode())}) > 8


@pytest.mark.parametrize("columns", [80, 120])
@needs_tmux
def test_borders_stay_straight_beside_wide_letters(app: Path, environment: Mapping[str, str], columns: int) -> None:
    if not CASES.exists():
        pytest.skip("the log cases are not here")
    command = [sys.executable, str(app), str(CASES / "l11_wide_chars.log")]
    with Tmux(command, environment, columns, 20) as tmux:
        tmux.wait("l11_wide_chars.log")
        tmux.wait("8 lines")
        tmux.keys("w")
        tmux.wait("wrapped")
        rows = tmux.screen().rstrip("\n").split("\n")
        assert {cell_len(row.rstrip()) for row in rows if row.strip()} == {columns}
        assert all(row.rstrip().endswith("│") for row in rows if row.strip())


def test_what_is_copied_goes_to_the_terminal_and_nothing_else_of_the_log_does(
    app: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_text("one\n\x1b]52;c;ZXZpbA==\x07two é\nsig=aGVsbG8gd29ybGQgdGhpcyBpcyBzZWNyZXQ\n")
    with Terminal([sys.executable, app, log], environment=environment) as terminal:
        terminal.read_until(lambda seen: "two é" in visible(seen))
        terminal.write("Y")
        text = "one\ntwo é\nsig=***\n"
        terminal.read_until(b"\x1b]52;c;" + base64.b64encode(text.encode()) + b"\x07")
        terminal.read_until(lambda seen: "copied.txt" in visible(seen).replace("\n", ""))
        terminal.write(F4)
        assert terminal.wait() == 0
        assert terminal.output.count(b"\x1b]52;") == 1
    assert (tmp_path / "home" / "state" / "copied.txt").read_text() == text


@needs_tmux
def test_what_is_copied_is_in_the_buffer_of_a_tmux_that_lets_it_be_set(
    app: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_text("first\nsecond line\n")
    with Tmux([sys.executable, str(app), str(log)], environment, 100, 20) as tmux:
        tmux._tmux("set-option", "-g", "set-clipboard", "on")
        tmux.wait("second line")
        tmux.keys("v", "y")
        tmux.wait("through tmux")
        assert tmux._tmux("show-buffer") == "second line\n"


@pytest.fixture
def pager(tmp_path: Path) -> Iterator[Path]:
    """A pager by the name of less: it notes what it is given, says so, and ends at a key."""
    script = tmp_path / "bin" / "less"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/given\necho PAGER HERE\nread line\n')
    script.chmod(0o755)
    return script


def test_the_pager_opens_at_the_line_and_the_console_comes_back(
    app: Path, environment: Mapping[str, str], pager: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log.txt"
    log.write_text("".join(f"step {n:05}\n" for n in range(5000)))
    with Terminal([sys.executable, app, log], environment={**environment, "PAGER": str(pager)}) as terminal:
        terminal.read_until(lambda seen: "step 04999" in visible(seen))
        terminal.write("\x07")
        terminal.read_until(lambda seen: "go to" in visible(seen))
        terminal.write("1234\r")
        terminal.read_until(lambda seen: "step 01233" in visible(seen))
        terminal.write("|")
        terminal.read_until(b"PAGER HERE")
        assert (tmp_path / "given").read_text().splitlines() == ["-R", "+1234", str(log)]
        assert terminal.output.rindex(b"\x1b[?1049l") > terminal.output.rindex(b"\x1b[?1049h"), "on the plain screen"
        terminal.write("\r")
        terminal.read_until(lambda seen: b"\x1b[?1049h" in seen and "step 01233" in visible(seen))
        terminal.write("\x1b")
        terminal.read_until(lambda seen: "paused" in visible(seen))  # the line is chosen no more
        terminal.write("G")
        terminal.read_until(lambda seen: "step 04999" in visible(seen))
        terminal.write(F4)
        assert terminal.wait() == 0
