"""The rules of the code that no checker off the shelf knows."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import footplate

PACKAGE = Path(footplate.__file__).parent
HEAVY = ("torch", "torchvision", "numpy", "PIL", "pydantic", "aiohttp", "azure", "mlflow", "optuna", "onnxruntime")
MARKUP_WIDGETS = {"Static", "Label", "Link", "Collapsible"}


def first_paint_modules() -> set[str]:
    """Modules loaded once the console has drawn its first list, in a process of its own."""
    code = (
        "import asyncio, sys\n"
        "from footplate.app import FootplateApp\n"
        "async def main():\n"
        "    app = FootplateApp()\n"
        "    async with app.run_test(size=(80, 24)) as pilot:\n"
        "        while not app.screen.query('#table') or 'No jobs yet' not in app.screen.table.empty:\n"
        "            await pilot.pause(0.02)\n"
        "        print('MODULES', *sys.modules)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("MODULES"))
    return set(line.split()[1:])


def test_the_first_list_is_drawn_without_any_heavy_import(monkeypatch, tmp_path):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    loaded = first_paint_modules()
    assert "footplate.screens.jobs" in loaded
    assert not [name for name in HEAVY if name in loaded]


def test_commands_do_not_load_textual():
    code = (
        "import sys; from footplate.cli import cli; [cli.get_command(None, name) for name in cli.list_commands(None)]; "
        "print(*(m for m in sys.modules if m.split('.')[0] in ('textual', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def calls(file: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_plain(call: ast.Call) -> bool:
    """Whether a widget's text cannot be markup: `markup=False`, or the text is built as Content."""
    if any(k.arg == "markup" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords):
        return True
    return (
        bool(call.args)
        and isinstance(call.args[0], ast.Call)
        and called(call.args[0]) in ("Content", "styled", "assemble", "join")
    )


def test_no_widget_and_no_notice_reads_its_text_as_markup():
    faults = []
    for file in [PACKAGE / "app.py", *PACKAGE.glob("screens/*.py"), *PACKAGE.glob("widgets/*.py")]:
        for call in calls(file):
            name = called(call)
            where = f"{file.name}:{call.lineno}"
            if name in MARKUP_WIDGETS and not is_plain(call):
                faults.append(f"{where} {name} without markup=False")
            if name == "notify" and not is_plain(call):
                faults.append(f"{where} notify without markup=False")
            owner = getattr(getattr(call.func, "value", None), "id", "")
            if name in ("from_markup", "DataTable", "RichLog", "OptionList") or (owner, name) == ("Text", "from_ansi"):
                faults.append(f"{where} {name} reads markup or lets escapes through")
    assert faults == []


def test_every_action_has_a_method_where_it_applies():
    from footplate.actions import ACTIONS
    from footplate.app import FootplateApp
    from footplate.places import MODES
    from footplate.screens.alerts import AlertsScreen
    from footplate.screens.cluster import ClusterScreen
    from footplate.screens.compare import CompareScreen
    from footplate.screens.job import JobScreen
    from footplate.screens.job_children import ChildrenPane
    from footplate.screens.job_log import LogPane
    from footplate.screens.launch import LaunchScreen
    from footplate.screens.monitor import MonitorScreen
    from footplate.screens.pipeline import PipelineScreen
    from footplate.screens.templates import TemplatesScreen
    from footplate.widgets.chart_grid import ChartGrid
    from footplate.widgets.chart_pane import ChartPane
    from footplate.widgets.failure_card import FailureCard
    from footplate.widgets.log_panel import LogPanel
    from footplate.widgets.log_view import LogView

    places = {name: type(make()) for name, make in MODES.items() if name != "launch"}
    places |= {"job": JobScreen, "launch": LaunchScreen, "pipeline": PipelineScreen}
    places |= {"templates": TemplatesScreen, "app": FootplateApp, "cluster": ClusterScreen, "monitor": MonitorScreen}
    places |= {"chart": ChartGrid, "charts": ChartPane, "trials": ChildrenPane, "compare": CompareScreen}
    places |= {"alerts": AlertsScreen, "ranks": LogPane, "failure": FailureCard}
    places["log"] = type("Log", (LogPanel, LogView), {})  # the panel and its view share the log's keys
    missing = [
        f"{where}: {action.id}"
        for action in ACTIONS
        for where in action.where
        if not hasattr(places[where], f"action_{action.id.partition('(')[0]}")
    ]
    assert missing == []


def test_no_two_actions_of_a_place_share_a_key():
    from footplate.actions import ACTIONS, actions

    for where in {place for action in ACTIONS for place in action.where}:
        keys = [key for action in actions(where) for key in action.keys.split(",")]
        assert len(keys) == len(set(keys)), where
