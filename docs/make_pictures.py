"""Make the README's pictures from the running console: jobs, launch form, live job, invoke panel.

Runs a demo in a home of its own, then drives the console through its screens by keys and exports each as SVG: those of
the README into docs/pictures, the others, to be looked at, into build/pictures.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

ROOT = Path(__file__).resolve().parents[1]
SIZES = ((160, 45), (80, 24))
SPACE = ("search_space", "learning_rate", "max_value")
README = {"jobs-160x45", "launch-160x45", "job-log-160x45", "job-metrics-160x45", "invoke-160x45"}


async def until(pilot: Pilot[Any], condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait for a condition on what the console shows."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"The console did not come to what was waited for: {pilot.app.screen}")
        await pilot.pause(0.05)


def save(pilot: Pilot[Any], name: str) -> None:
    """Export what is on screen."""
    size = pilot.app.size
    full = f"{name}-{size.width}x{size.height}"
    file = ROOT / ("docs/pictures" if full in README else "build/pictures") / f"{full}.svg"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(pilot.app.export_screenshot(title="footplate"), encoding="utf-8")
    print(file.relative_to(ROOT))


async def open_template(pilot: Pilot[Any], name: str) -> None:
    """Open the form of a template of the current folder from the list, and wait until all of it is shown."""
    from footplate.screens.launch import LaunchScreen
    from footplate.widgets.virtual_table import VirtualTable

    table = pilot.app.screen.query_one(VirtualTable)
    await until(pilot, lambda: table.rows)
    while table.cursor_key != str(Path.cwd() / "jobs" / name):
        await pilot.press("down")
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen) and pilot.app.screen.settled)


async def tour(size: tuple[int, int]) -> None:
    """All pictures of one size."""
    from footplate.app import FootplateApp
    from footplate.screens.dialogs import ConfirmDialog
    from footplate.screens.invoke import InvokeScreen
    from footplate.screens.job import JobScreen
    from footplate.screens.launch import LaunchScreen
    from footplate.screens.templates import TemplatesScreen
    from footplate.widgets.chart_grid import ChartGrid
    from footplate.widgets.log_view import LogView
    from footplate.widgets.run_preview import RunPreview
    from footplate.widgets.virtual_table import VirtualTable

    app = FootplateApp()
    async with app.run_test(size=size) as pilot:

        def table() -> VirtualTable:
            return app.screen.query_one(VirtualTable)

        await until(pilot, lambda: table().rows)
        for key, name in (("2", "clusters"), ("3", "models"), ("4", "endpoints")):
            await pilot.press(key)
            await until(pilot, lambda: table().rows)
            await pilot.pause(0.3)
            save(pilot, name)
        await pilot.press("5")
        await until(pilot, lambda: table().rows)
        save(pilot, "templates")
        await open_template(pilot, "sweep.yml")
        form = app.screen
        assert isinstance(form, LaunchScreen)
        # The range of real values while it is typed, and a fault at its field: more trials at once than in all.
        for path, typed in ((("limits", "max_concurrent_trials"), "9"), (SPACE, "0.01")):
            form.form.go_to(path)
            await until(pilot, lambda path=path: form.focused is form.editor(*path))
            await pilot.press("end", "ctrl+u", *typed)
        await until(pilot, lambda: form.settled and "0.01" in form.query_one(RunPreview).text)
        save(pilot, "launch")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.focused)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(app.screen, TemplatesScreen))
        await open_template(pilot, "train-distributed.yml")
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await until(pilot, lambda: app.screen.query_one(LogView).total_lines > 9)
        await until(pilot, lambda: app.screen.query_one(ChartGrid).panels)
        await pilot.pause(0.5)
        save(pilot, "job-log")
        await pilot.press("m")
        await pilot.pause(12)
        save(pilot, "job-metrics")
        await pilot.press("o")
        await pilot.pause(0.3)
        save(pilot, "job-overview")
        await pilot.press("escape")
        await pilot.pause(0.5)
        save(pilot, "jobs")
        await pilot.press("home", "x")
        await pilot.pause(0.5)
        save(pilot, "cancel")
        await pilot.press("tab", "enter")
        await pilot.press("6")
        await until(pilot, lambda: isinstance(app.screen, InvokeScreen) and app.screen._picture)
        await pilot.press("s")
        screen = app.screen
        assert isinstance(screen, InvokeScreen)
        await until(pilot, lambda: screen._prediction)
        await pilot.press("n", "s")
        await until(pilot, lambda: len(screen._history) > 1)
        await pilot.pause(0.5)
        save(pilot, "invoke")
        await pilot.press("question_mark")
        await pilot.pause(0.3)
        save(pilot, "help")


def main() -> None:
    """Run the demo in a home of its own, then the tour in each size."""
    with tempfile.TemporaryDirectory() as home:
        # The console writes this home as `~`, so that no picture shows a folder of the machine it was made on.
        os.environ |= {"HOME": home, "XDG_DATA_HOME": f"{home}/.local/share", "XDG_CONFIG_HOME": f"{home}/.config"}
        os.environ.pop("FOOTPLATE_HOME", None)
        os.environ.pop("FOOTPLATE_CONFIG", None)
        # The jobs as a user's own, in this home too.
        for part in ("jobs", "trainer"):
            shutil.copytree(ROOT / part, Path(home) / "birds" / part)
        os.chdir(Path(home) / "birds")
        footplate = [sys.executable, "-m", "footplate", "demo"]
        subprocess.run(footplate, check=True)
        try:
            for size in SIZES:
                asyncio.run(tour(size))
        finally:
            subprocess.run([*footplate, "--clean"], check=True)


if __name__ == "__main__":
    main()
