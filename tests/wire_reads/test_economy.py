"""Requests that are counted are spared where nobody looks, the header says so, and whoever comes back sees the present."""

from __future__ import annotations

import math
from time import monotonic

import pytest
from tests.screens.conditions import until
from textual import events

from footplate.app import FootplateApp
from footplate.azure.workspace import AzureWorkspace
from footplate.screens.listing import ListScreen
from footplate.widgets.chrome import TopLine


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(AzureWorkspace, "poll_seconds", 0.05)


def top(app: FootplateApp) -> str:
    return str(app.screen.query_one(TopLine).render())


async def listed(app: FootplateApp, pilot) -> None:
    await until(pilot, lambda: isinstance(app.screen, ListScreen) and app.screen.table.rows and app.access)


async def leave_alone(app: FootplateApp, pilot) -> None:
    """No key for a long time, in which the screen has looked once more."""
    app._touched = monotonic() - 301
    await until(pilot, lambda: app.screen._next_look > monotonic() + 30)
    await until(pilot, lambda: not app.screen._looking)


async def test_without_a_key_for_long_it_is_looked_once_a_minute_and_at_once_with_the_next_key(wire, config):
    wire.seed.job("wren", "Completed")
    app = FootplateApp()
    async with app.run_test(size=(150, 30)) as pilot:
        await listed(app, pilot)
        assert app.look_seconds == 0.05
        await leave_alone(app, pilot)
        assert app.look_seconds == 60
        assert app.screen._next_look < math.inf
        await until(pilot, lambda: "1 look a minute until a key" in top(app))
        wire.seed.job("finch", "Running", age=0)
        await pilot.press("down")
        await until(pilot, lambda: app.screen.table.rows[0].key == "finch")
        assert app.look_seconds == 0.05
        await until(pilot, lambda: "look a minute" not in top(app))


async def test_without_focus_and_a_key_it_is_not_looked_at_all_until_somebody_is_back(wire, config):
    wire.seed.job("wren", "Completed")
    app = FootplateApp()
    async with app.run_test(size=(150, 30)) as pilot:
        await listed(app, pilot)
        app.post_message(events.AppBlur())
        await until(pilot, lambda: app.poll_seconds == 0.25)
        await leave_alone(app, pilot)
        assert app.look_seconds == app.screen._next_look == math.inf
        await until(pilot, lambda: "paused until a key" in top(app))
        assert app.poll_seconds == 0.25  # a log is not counted, and goes on
        wire.seed.job("finch", "Running", age=0)
        app.post_message(events.AppFocus())
        await until(pilot, lambda: app.screen.table.rows[0].key == "finch")
        await until(pilot, lambda: "paused" not in top(app))


async def test_on_this_machine_nothing_is_counted_and_nothing_is_spared(config, monkeypatch):
    app = FootplateApp("local")
    async with app.run_test(size=(150, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        app._touched = monotonic() - 10_000
        assert app.look_seconds == app.poll_seconds == app.workspace.poll_seconds
