"""Waiting in tests of screens: for a condition, never for a time."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from textual.pilot import Pilot
from textual.widget import Widget


async def until(pilot: Pilot[object], condition: Callable[[], object], deadline_seconds: float = 20) -> None:
    """Let the app run until the condition holds; fail where it does not within the deadline."""
    end = monotonic() + deadline_seconds
    while not condition():
        assert monotonic() < end, "the condition did not come to hold"
        await pilot.pause(0.01)


def drawn(widget: Widget) -> list[str]:
    """Return the widget's lines as they are on screen, without trailing blanks."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]
