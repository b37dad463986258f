"""Waiting in tests of screens: for a condition, never for a time."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from textual import events
from textual.pilot import Pilot
from textual.widget import Widget


async def until(pilot: Pilot[object], condition: Callable[[], object], deadline_seconds: float = 60) -> None:
    """Let the app run until the condition holds; fail where it does not within the deadline."""
    end = monotonic() + deadline_seconds
    while not condition():
        assert monotonic() < end, "the condition did not come to hold"
        await pilot.pause(0.01)


def drawn(widget: Widget) -> list[str]:
    """Return the widget's lines as they are on screen, without trailing blanks."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


async def send(pilot: Pilot[object], *keys: str) -> None:
    """Send keys as a terminal does, each when the one before is handled. What they come to is waited for with `until`.

    A pilot's own `press` waits after each key until the process is idle, which takes a form at work up to two seconds.
    """
    for key in keys:
        pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause(0)  # the app gives the key to a widget
        await pilot.pause(0)  # the widget acts on it
