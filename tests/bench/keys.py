"""From a key written to a pty until the bytes that show its effect arrive, in small apps."""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.terminal import Terminal

ROUNDS = 5
KEYS = 40

HEAD = '''
import sys
from pathlib import Path
from textual.app import App
from textual.widgets import Static

class Told(App):
    """Shows `<number>` on its last line."""
    CSS = "#told { dock: bottom; height: 1; }"
    ENABLE_COMMAND_PALETTE = False

    def tell(self, number):
        self.query_one("#told").update(f"<{number}>")
'''

HELLO = (
    HEAD
    + """
class Hello(Told):
    BINDINGS = [("down", "down")]
    number = 0
    def compose(self):
        yield Static("hello-world")
        yield Static("<0>", id="told")
    def action_down(self):
        self.number += 1
        self.tell(self.number)
Hello().run()
"""
)


def open_app(code: str, *arguments: str | Path) -> Terminal:
    """Start one of the small apps at 160×45."""
    return Terminal([sys.executable, "-c", code, *arguments], columns=160, rows=45)


def latencies(terminal: Terminal, effect: Callable[[int], str] = "<{}>".format, count: int = KEYS) -> list[float]:
    """Press down `count` times from place 0 on, each when the one before has shown; return the times in ms.

    `effect` gives the regular expression of what coming to a place writes, and nothing else does.
    """
    times = []
    for number in range(1, count + 1):
        pattern = re.compile(effect(number).encode())
        began = time.perf_counter()
        terminal.write("\x1b[B")
        terminal.read_until(pattern.search)
        times.append((time.perf_counter() - began) * 1000)
        pause = time.perf_counter() + 0.017
        while (left := pause - time.perf_counter()) > 0:
            terminal.read(left)
    return times


def percentile(times: Sequence[float], share: int) -> float:
    """Return the time that so many per cent of the keys were no slower than."""
    return statistics.quantiles(times, n=100, method="inclusive")[share - 1]
