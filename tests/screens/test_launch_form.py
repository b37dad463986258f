"""The launch form on a real local workspace, driven by keys."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from tests import at_work, metrics_template
from tests.screens.conditions import drawn, send, until
from tests.screens.fakes import Fake
from tests.tmux import Tmux, console_pid, needs_tmux
from textual import events
from textual.widgets import Button, Input

from footplate.app import FootplateApp
from footplate.jobfile import document
from footplate.screens.choose import ChooseScreen
from footplate.screens.dialogs import ConfirmDialog, FieldsDialog, TextDialog
from footplate.screens.job import JobScreen
from footplate.screens.launch import LaunchScreen
from footplate.screens.sweep_inputs import SweepInputs
from footplate.screens.templates import TemplatesScreen
from footplate.widgets.choice import Choice
from footplate.widgets.chrome import KeyLine, TopLine
from footplate.widgets.fault_list import FaultList
from footplate.widgets.flag import Flag
from footplate.widgets.run_preview import RunPreview
from footplate.widgets.space_editor import SpaceEditor
from footplate.widgets.virtual_table import VirtualTable
from footplate.workspace import Conflict, JobFilter, Uploading

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "yaml"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not beside the repository")
SECONDS = 60
"""A deadline, not a time: these tests share a machine."""

COMMAND = """\
command: echo ${{inputs.lr}} ${{inputs.steps}} '${{inputs.shuffle}}'
environment: azureml:any@latest  # stands for an image
experiment_name: greetings
inputs:
  lr: 0.01   # how fast
  steps: 3
  shuffle: true
"""

SWEEP = """\
type: sweep
trial:
  command: echo ${{search_space.lr}} ${{search_space.bs}}
  environment: azureml:any@latest
sampling_algorithm: random
search_space:
  lr: {type: uniform, min_value: 0.001, max_value: 0.1}
  bs:
    type: choice
    values: [4, 8]
objective: {goal: maximize, primary_metric: val_acc}
limits: {max_total_trials: 8, max_concurrent_trials: 3}
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FOOTPLATE_HOME", str(tmp_path / "home"))
    metrics_template.give(tmp_path / "home")
    monkeypatch.setenv("FOOTPLATE_CONFIG", str(tmp_path / "settings" / "config.toml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def wait(pilot: Any, condition: Any) -> None:
    await until(pilot, condition, SECONDS)


async def open_form(app: FootplateApp, pilot: Any, text: str | Path) -> LaunchScreen:
    """The form of a text, or of a file, when all of it is shown."""
    job_file = document.read(text) if isinstance(text, Path) else document.parse(text, Path("job.yml"), Path.cwd())
    screen = LaunchScreen(job_file)
    await app.push_screen(screen)
    await settled(pilot, screen)
    return screen


async def settled(pilot: Any, screen: LaunchScreen) -> None:
    await wait(pilot, lambda: screen.settled and screen._clusters)


def below(screen: LaunchScreen, *path: str | int) -> str:
    """What is drawn at a field: its line and those below it."""
    return "\n".join(drawn(screen.form.line_of(path)))


def shown(screen: LaunchScreen) -> str:
    """What will run, as one line a paragraph."""
    return " ".join(screen.query_one(RunPreview).text.split())


def text_of(screen: LaunchScreen) -> str:
    """The file with what was typed; empty while another one is being worked out."""
    return "" if screen.outlook is None else screen.outlook.job_file.text


async def type_over(pilot: Any, screen: LaunchScreen, typed: str, *path: str | int) -> None:
    """Type a value by keys into a field, in place of what is there."""
    screen.form.go_to(path)
    await wait(pilot, lambda: screen.focused is screen.editor(*path))
    await send(pilot, "end", "ctrl+u", *typed)


async def test_a_bad_number_is_a_fault_at_its_field_until_it_is_mended(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        nodes = ("resources", "instance_count")
        assert not screen.query_one("#launch", Button).disabled
        await type_over(pilot, screen, "0", *nodes)
        await wait(pilot, lambda: "✗ `instance_count` must be a whole number" in below(screen, *nodes))
        assert screen.query_one("#launch", Button).disabled
        assert screen.query_one(FaultList).faults[0].place == nodes
        await send(pilot, "f5")
        await wait(pilot, lambda: not screen._starting)
        assert app.screen is screen
        await type_over(pilot, screen, "1", *nodes)
        await wait(pilot, lambda: "✗" not in below(screen, *nodes))
        await wait(pilot, lambda: not screen.query_one("#launch", Button).disabled)
        assert not screen.query_one(FaultList).faults


async def test_how_a_value_is_read_is_said_while_it_is_typed(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        assert "number" in below(screen, "inputs", "lr")
        await type_over(pilot, screen, "1e-3", "inputs", "lr")
        await wait(pilot, lambda: "lr is number in the file and is now text." in below(screen, "inputs", "lr"))
        assert "• lr" in below(screen, "inputs", "lr")
        await type_over(pilot, screen, "0.01", "inputs", "lr")
        await wait(pilot, lambda: "⚠" not in below(screen, "inputs", "lr") and "•" not in below(screen, "inputs", "lr"))
        assert text_of(screen) == COMMAND


async def test_the_changed_characters_are_shown_in_the_file_as_it_will_be_submitted(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        assert "As it will be submitted unchanged" in shown(screen)
        await type_over(pilot, screen, "7", "inputs", "steps")
        await wait(pilot, lambda: "As it will be submitted 1 line changed" in shown(screen))
        assert "- steps: 3 6 + steps: 7" in shown(screen)
        assert "echo 0.01 7 'True'" in shown(screen)


async def test_a_flag_is_turned_by_a_key(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        screen.form.go_to(("inputs", "shuffle"))
        await wait(pilot, lambda: isinstance(screen.focused, Flag))
        await send(pilot, "space")
        await wait(pilot, lambda: "'False'" in shown(screen))
        assert text_of(screen) == COMMAND.replace("true", "false")
        await send(pilot, "space")
        await wait(pilot, lambda: "'True'" in shown(screen))
        assert text_of(screen) == COMMAND


async def test_a_cluster_is_chosen_from_those_of_the_workspace_with_their_room(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        assert "4 of 4 free" in below(screen, "compute")
        screen.form.go_to(("compute",))
        await wait(pilot, lambda: screen.focused is screen.editor("compute"))
        await send(pilot, "f2")
        await wait(pilot, lambda: isinstance(app.screen, ChooseScreen) and app.screen.query_one(VirtualTable).rows)
        assert "4 of 4 free" in str(app.screen.query_one(VirtualTable).rows[0].cells)
        await send(pilot, *"local", "enter")
        await wait(pilot, lambda: app.screen is screen and "compute: local" in text_of(screen))
        await settled(pilot, screen)
        assert screen.editor("compute").value == "local"
        await type_over(pilot, screen, "nowhere", "compute")
        await wait(pilot, lambda: "no cluster nowhere" in below(screen, "compute"))


async def test_a_distribution_brings_its_field_and_the_focus_stays(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        screen.form.go_to(("distribution", "type"))
        await wait(pilot, lambda: isinstance(screen.focused, Choice))
        await send(pilot, "right")
        ranks = ("distribution", "process_count_per_instance")
        await wait(pilot, lambda: any(ranks in line.editors for line in screen.form.lines))
        assert screen.focused is screen.editor("distribution", "type")
        await type_over(pilot, screen, "2", *ranks)
        await wait(pilot, lambda: "1 × 2 = 2 ranks" in shown(screen))
        assert "rank 1 RANK=1" in shown(screen)
        screen.form.go_to(("distribution", "type"))
        await wait(pilot, lambda: isinstance(screen.focused, Choice))
        await send(pilot, "left")
        await wait(pilot, lambda: text_of(screen) == COMMAND)


async def test_a_sweep_is_edited_by_kind_and_bounds_with_its_real_range(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, SWEEP)
        line = screen.form.line_of(("search_space", "lr", "type"))
        assert isinstance(line, SpaceEditor)
        assert line.look is not None
        assert line.look.text == "0.001 to 0.1"
        await type_over(pilot, screen, "0.2", "search_space", "lr", "max_value")
        await wait(pilot, lambda: line.look is not None and line.look.text == "0.001 to 0.2")
        screen.form.go_to(("search_space", "lr", "type"))
        await wait(pilot, lambda: screen.focused is screen.editor("search_space", "lr", "type"))
        await send(pilot, "right", "right")
        await wait(pilot, lambda: line.look is not None and line.look.log)
        assert line.look.text.startswith("0.001 to 0.2")
        assert screen.editor("search_space", "lr", "min_value").value.startswith("-6.9")
        assert screen.focused is screen.editor("search_space", "lr", "type")
        await type_over(pilot, screen, "4", "search_space", "bs", "values")
        await wait(pilot, lambda: "values: [4]" in text_of(screen))
        await type_over(pilot, screen, "4, {", "search_space", "bs", "values")
        await wait(pilot, lambda: "cannot be [4, {]" in below(screen, "search_space", "bs", "values"))


async def test_a_policy_says_how_many_trials_it_can_stop(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, SWEEP)
        policy = ("early_termination", "type")
        screen.form.go_to(policy)
        await wait(pilot, lambda: isinstance(screen.focused, Choice))
        await send(pilot, "right")
        await wait(pilot, lambda: "At most 5 of 8 trials can be stopped early." in below(screen, *policy))
        await type_over(pilot, screen, "8", "limits", "max_concurrent_trials")
        await wait(pilot, lambda: "At most 0 of 8 trials" in below(screen, *policy))


async def test_a_command_job_becomes_a_sweep_over_chosen_inputs_and_goes_back(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        screen.form.go_to(("sweep",))
        await wait(pilot, lambda: isinstance(screen.focused, Choice))
        await send(pilot, "enter")
        await wait(pilot, lambda: isinstance(app.screen, SweepInputs) and app.screen.focused)
        await send(pilot, "space", "enter")  # without a metric it goes to its field
        await wait(pilot, lambda: isinstance(app.screen.focused, Input))
        await send(pilot, *"val_acc", "enter")
        await wait(pilot, lambda: app.screen is screen and "type: sweep" in text_of(screen))
        await settled(pilot, screen)
        assert screen.outlook.job_file.get("search_space", "lr", "type") == "uniform"
        assert "# how fast" not in text_of(screen)
        assert screen.editor("search_space", "lr", "min_value").value == "0.005"
        assert screen.editor("objective", "primary_metric").value == "val_acc"
        assert screen.editor("inputs", "steps").value == "3"
        screen.form.go_to(("sweep",))
        await wait(pilot, lambda: screen.focused is screen.editor("sweep"))
        await send(pilot, "enter")
        await wait(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.focused)
        await send(pilot, "tab", "enter")
        await wait(pilot, lambda: app.screen is screen and text_of(screen) == COMMAND)
        await settled(pilot, screen)
        assert screen.editor("inputs", "lr").value == "0.01"


async def test_the_form_is_saved_as_a_template_with_what_was_typed(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        await type_over(pilot, screen, "9", "inputs", "steps")
        await send(pilot, "ctrl+s")
        await wait(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.focused)
        app.screen.query_one("#field-name", Input).value = "nine"
        await send(pilot, "enter", "enter")
        saved = home / "settings" / "jobs" / "nine.yml"
        await wait(pilot, saved.is_file)
        assert saved.read_text() == COMMAND.replace("steps: 3", "steps: 9")
        await wait(pilot, lambda: app.screen is screen)
        await send(pilot, "ctrl+s")
        await wait(pilot, lambda: isinstance(app.screen, FieldsDialog) and app.screen.focused)
        app.screen.query_one("#field-name", Input).value = "nine"
        await send(pilot, "enter", "enter")
        await wait(pilot, lambda: any("already" in note.message for note in app._notifications))


async def test_errors_are_named_before_a_launch_and_can_be_forced(home):
    text = COMMAND.replace("${{inputs.lr}}", "${{inputs.lr}} ${{outputs.nothing}}").replace("echo", "echo ")
    text = text.replace("${{outputs.nothing}}", "") + "compute: azureml:nowhere\n"
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, text)
        await wait(pilot, lambda: screen.query_one(FaultList).faults)
        assert str(screen.query_one("#launch", Button).label) == "Launch with 1 error …"
        await send(pilot, "f5")
        await wait(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.focused)
        assert "no cluster nowhere" in " ".join(str(w.render()) for w in app.screen.query(".text"))
        assert (
            str(screen.query_one("#launch", Button).label) == "Launch with 1 error …"
        )  # nothing is launching behind it
        await send(pilot, "enter")  # it starts on the harmless answer
        await wait(pilot, lambda: app.screen is screen)
        assert [job async for page in app.workspace.jobs(JobFilter()) for job in page] == []
        await send(pilot, "f5")
        await wait(pilot, lambda: isinstance(app.screen, ConfirmDialog) and app.screen.focused)
        await send(pilot, "tab", "enter")
        # This machine has no such cluster, whatever is forced: its own refusal is said.
        await wait(pilot, lambda: any("nowhere" in note.message for note in app._notifications))


async def test_a_shape_that_cannot_run_cannot_be_forced(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND.replace("steps: 3", "steps: [3]"))
        await wait(pilot, lambda: screen.query_one(FaultList).faults)
        screen.action_launch()
        await wait(pilot, lambda: any("`steps` must be a value" in note.message for note in app._notifications))
        assert app.screen is screen
        assert "a list" in below(screen, "inputs", "steps")


async def test_a_job_is_launched_with_what_was_typed_last(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        await type_over(pilot, screen, "44", "inputs", "steps")
        await send(pilot, "f5")  # at once: whether or not it is on screen
        await wait(pilot, lambda: isinstance(app.screen, JobScreen))
        jobs = [job async for page in app.workspace.jobs(JobFilter()) for job in page]
        assert [job.inputs["steps"] for job in jobs] == ["44"]
        with suppress(Conflict):  # it may have ended
            await app.workspace.cancel(jobs[0].name)


@pytest.mark.long
async def test_the_form_can_be_left_at_every_point_while_it_is_at_work(home):
    """Whatever is under way or open above it: nothing hangs, and nothing that comes back late finds its widgets gone."""
    (home / "jobs").mkdir()
    text = SWEEP.replace("limits:", "compute: nowhere\nlimits:")
    ways = [
        (),  # before it is drawn
        ("5",),
        ("tab", "right"),
        ("f2",),  # a list above it
        ("f2", "escape"),
        ("ctrl+s",),
        ("ctrl+d",),
        ("f5",),  # while it is checked for a launch that has errors
        ("f3", "f8"),
        ("ctrl+down", "enter", "enter"),
        ("ctrl+down", "down", "f2"),  # the path picker
        ("end", "ctrl+u", "9"),  # with a change: it asks
    ]
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        at_once = [key for way in ways for key in way]
        slowly = [("f2",), ("ctrl+s",), ("f5",), at_once]
        for waits, of in ((0, [*ways, at_once]), (4, slowly)):
            for way in of:
                screen = LaunchScreen(document.parse(text, home / "jobs" / "a.yml", home / "jobs"))
                app.push_screen(screen)
                for key in way:
                    for _ in range(waits):
                        await pilot.pause(0.01)
                    app.post_message(events.Key(key, key if len(key) == 1 else None))
                await leave(app, pilot, screen)
        assert app._exception is None
        assert app.screen.where == "jobs"


async def leave(app: FootplateApp, pilot: Any, screen: LaunchScreen) -> None:
    """Press escape until the form is gone, and answer each question by leaving."""
    end = monotonic() + SECONDS
    while screen in app.screen_stack or not screen._closed:
        assert monotonic() < end, f"{app.screen} does not let go"
        assert app._exception is None
        if isinstance(app.screen, ConfirmDialog) and app.screen.focused:
            await send(
                pilot,
                *(("tab",) if app.screen.focused.id == "cancel" and "Leave" in app.screen._title else ()),
                "enter",
            )
        elif screen in app.screen_stack:
            await send(pilot, "escape")
        await pilot.pause(0.01)
    await until(pilot, lambda: getattr(app.screen, "where", "") == "jobs", SECONDS)


async def test_a_clone_shows_how_it_differs_from_the_past_job(home):
    past = document.parse(COMMAND, None, Path.cwd())
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = LaunchScreen(document.parse(COMMAND, None, Path.cwd()), past)
        await app.push_screen(screen)
        await settled(pilot, screen)
        assert "Differences" not in shown(screen)
        await type_over(pilot, screen, "9", "inputs", "steps")
        await wait(pilot, lambda: "inputs.steps 3 → 9" in shown(screen))


async def test_parts_fold_and_a_fault_within_is_reached(home):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await open_form(app, pilot, COMMAND + "limits: {timeout: 0}\n")
        limits = screen.form.section("Limits")
        assert limits.has_class("folded")
        assert "✗ time limit, s 0" in "".join(drawn(limits.head))
        await send(pilot, "f8")
        await wait(pilot, lambda: screen.focused is screen.editor("limits", "timeout"))
        assert not limits.has_class("folded")
        await type_over(pilot, screen, "60", "limits", "timeout")
        await wait(pilot, lambda: not screen.query_one(FaultList).faults)


async def test_the_arrows_walk_through_a_form_that_is_higher_than_the_screen(home):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await open_form(app, pilot, SWEEP.replace("sampling", "inputs: {a: 1, b: 2, c: 3, d: 4}\nsampling"))
        assert screen.form.max_scroll_y > 0
        await send(pilot, "down", "down", "down", "up")
        await wait(pilot, lambda: screen.focused is screen.editor("inputs", "c"))
        await send(pilot, "ctrl+down", "down")
        await wait(pilot, lambda: screen.focused is screen.editor("compute"))


async def test_at_80x24_what_runs_takes_the_screen_by_a_key_and_esc_gives_it_back(home):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        assert screen.form.region.height > 8
        await send(pilot, "f3")
        await wait(pilot, lambda: screen.query_one(RunPreview).region.height > 15)
        await send(pilot, "escape")
        await wait(pilot, lambda: screen.form.region.height > 8)
        await send(pilot, "ctrl+d")
        await wait(pilot, lambda: isinstance(app.screen, TextDialog) and app.screen.focused)
        await send(pilot, "escape")
        await wait(pilot, lambda: app.screen is screen)


async def test_without_an_editor_or_a_terminal_it_is_said(home, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        await send(pilot, "ctrl+e")
        await wait(pilot, lambda: any("No editor is set" in note.message for note in app._notifications))
        os.environ["EDITOR"] = "true"
        await send(pilot, "ctrl+e")
        await wait(pilot, lambda: any("terminal of its own" in note.message for note in app._notifications))
        assert text_of(screen) == COMMAND
    os.environ.pop("EDITOR")


async def test_other_kinds_are_explained_and_not_opened(home):
    (home / "jobs").mkdir()
    (home / "jobs" / "aaa.yml").write_text("name: e\nauth_mode: key\n")
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await send(pilot, "5")
        await wait(pilot, lambda: isinstance(app.screen, TemplatesScreen) and app.screen.query_one(VirtualTable).rows)
        table = app.screen.query_one(VirtualTable)
        assert table.move_to(str(home / "jobs" / "aaa.yml"))
        await send(pilot, "enter")
        await wait(pilot, lambda: any("aaa.yml is an online endpoint." in n.message for n in app._notifications))
        assert isinstance(app.screen, TemplatesScreen)


async def test_what_the_form_cannot_change_is_shown_and_left_as_it_is(home):
    text = (
        "command: echo '${{inputs.script}}' '${{inputs.evil}}' '${{inputs.n}}'\n"
        "environment: azureml:any@latest\n"
        'inputs:\n  script: |\n    a\n    b\n  evil: "\\e]0;title\\a[/x]"\n  n: 1\n'
    )
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, text)
        assert screen.editor("inputs", "script").disabled
        assert screen.editor("inputs", "script").value == "a\\nb\\n"
        assert screen.editor("inputs", "evil").value == "\\x1b]0;title\\x07[/x]"
        await type_over(pilot, screen, "2", "inputs", "n")
        await wait(pilot, lambda: text_of(screen) == text.replace("n: 1", "n: 2"))
        assert not screen.query_one("#launch", Button).disabled


@needs_cases
async def test_shell_characters_are_warned_of_at_their_inputs_and_never_markup(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, CASES / "y11_shell_metacharacters.yml")
        await wait(pilot, lambda: screen.query_one(FaultList).faults)
        for name in ("title", "glob", "label"):
            assert "⚠" in below(screen, "inputs", name)
        assert screen.editor("inputs", "label").value == "it's #1 – naïve [bold] café"
        assert "--title two words; echo INJECTED && echo $HOME --glob *.py" in shown(screen)
        assert "[bold] café" in shown(screen)


@needs_cases
async def test_empty_inputs_are_shown_in_visible_quotes(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, CASES / "y06_empty_string_input.yml")
        assert 'text ""' in below(screen, "inputs", "tag")
        assert 'text " "' in below(screen, "inputs", "note")
        assert "⚠" in below(screen, "inputs", "tag")
        screen.draft.put(("inputs", "note"), " ")
        assert screen.outlook.job_file.text == screen.draft.opened.text


@needs_cases
async def test_a_sweep_with_five_faults_has_each_at_its_field(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 60)) as pilot:
        screen = await open_form(app, pilot, CASES / "y16_sweep_bad_space.yml")
        await wait(pilot, lambda: screen.query_one(FaultList).faults)
        assert "✗" in below(screen, "search_space", "lr", "type")
        assert "`q` is missing" in below(screen, "search_space", "momentum", "q")
        assert "choise" in below(screen, "search_space", "bs", "type")
        assert "`values` is an empty list" in below(screen, "search_space", "bs", "values")
        assert "maximise" in below(screen, "objective", "goal")
        # Mended by keys, one after the other.
        await type_over(pilot, screen, "0.0001", "search_space", "lr", "min_value")
        await type_over(pilot, screen, "0.1", "search_space", "momentum", "q")
        await wait(pilot, lambda: "✗" not in below(screen, "search_space", "momentum", "q"))
        for path in (("search_space", "bs", "type"), ("objective", "goal")):
            screen.form.go_to(path)
            await wait(pilot, lambda path=path: screen.focused is screen.editor(*path))
            await send(pilot, "right")
        await type_over(pilot, screen, "4, 8", "search_space", "bs", "values")
        await type_over(pilot, screen, "local", "compute")
        await wait(pilot, lambda: not [f for f in screen.query_one(FaultList).faults if f.severity == "error"])
        await settled(pilot, screen)
        assert "4 trials, each 1 rank" in shown(screen)


@needs_tmux
def test_the_editor_round_trip_on_a_terminal(home):
    """The editor gets a copy of what is in the form, has the terminal, and what it leaves is checked again."""
    (home / "jobs").mkdir()
    (home / "jobs" / "aaa.yml").write_text(COMMAND)
    script = home / "my editor"
    script.write_text(
        "#!/bin/sh\n"
        'cp "$1" seen.yml\n'
        "echo the editor has the terminal; read answer\n"
        'case "$answer" in\n'
        '  good) sed -i -e "s/steps: 44/steps: 55/" -e "s/^environment:.*/environment: azureml:any:2/" "$1";;\n'
        '  bad) printf "steps: [" > "$1";;\n'
        "esac\n"
    )
    script.chmod(0o755)
    environment = {
        "FOOTPLATE_HOME": str(home / "home"),
        "FOOTPLATE_CONFIG": str(home / "none.toml"),
        "EDITOR": f"'{script}'",
        "COLORTERM": "truecolor",
    }
    with Tmux((sys.executable, "-m", "footplate"), environment) as tmux:
        tmux.wait("No jobs yet.", SECONDS)
        tmux.keys("5")
        tmux.wait("aaa.yml", SECONDS)
        while "▸ aaa.yml" not in tmux.screen():
            tmux.press_until_drawn("Down")
        tmux.keys("Enter")
        tmux.wait("echo 0.01 3", SECONDS)
        tmux.press_until_drawn("Tab")
        tmux.press_until_drawn("C-u")
        tmux.type("44")
        tmux.wait("echo 0.01 44", SECONDS)
        tmux.keys("C-e")
        tmux.wait("the editor has the terminal", SECONDS)
        assert (home / "seen.yml").read_text() == COMMAND.replace("steps: 3", "steps: 44")
        tmux.type("bad")
        tmux.keys("Enter")
        tmux.wait("The file cannot be read", SECONDS)
        tmux.wait("line 1", SECONDS)
        tmux.keys("Enter")  # the harmless answer: edit again
        tmux.wait("the editor has the terminal", SECONDS)
        at_work.until(lambda: (home / "seen.yml").read_text() == "steps: [")
        (home / "seen.yml").unlink()
        tmux.type("nothing")
        tmux.keys("Enter")
        tmux.wait("The file cannot be read", SECONDS)
        tmux.press_until_drawn("Right")
        tmux.keys("Enter")  # drop what the editor left
        tmux.wait(lambda screen: "echo 0.01 44" in screen and "cannot be read" not in screen, SECONDS)
        tmux.keys("C-e")
        tmux.wait("the editor has the terminal", SECONDS)
        tmux.type("good")
        tmux.keys("Enter")
        tmux.wait("echo 0.01 55", SECONDS)
        tmux.wait("azureml:any:2", SECONDS)
        assert (home / "jobs" / "aaa.yml").read_text() == COMMAND
        tmux.press_until_drawn("Escape")
        tmux.wait("Leave the form?", SECONDS)
        console = console_pid(tmux)
        tmux.hang_up()
        at_work.until(lambda: not Path(f"/proc/{console}").exists())  # it had given the terminal away and got it back


# What this machine refuses, and what would be otherwise on Azure


async def test_what_the_workspace_refuses_is_said_before_it_is_launched_and_cannot_be_forced(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(
            app, pilot, f"{COMMAND}distribution: {{type: ray}}\nresources: {{instance_count: 1}}\n"
        )
        faults = app.screen.query_one(FaultList).faults
        refused = next(fault for fault in faults if "local workspace does not run" in fault.message)
        assert (refused.severity, refused.place, refused.line) == ("error", ("distribution", "type"), 8)
        assert screen.query_one("#launch", Button).disabled
        await send(pilot, "f5")
        await wait(pilot, lambda: any("cannot be launched" in notice.title for notice in app._notifications))
        assert [job async for page in app.workspace.jobs(JobFilter()) for job in page] == []


async def test_what_differs_on_azure_is_shown_beside_what_runs(home):
    app = FootplateApp()
    async with app.run_test(size=(140, 45)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        assert "On Azure this would differ" in shown(screen)
        assert "without `compute` it is serverless" in shown(screen)


async def test_the_keys_that_lead_on_stay_in_the_key_line_of_80_columns(home):
    app = FootplateApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await open_form(app, pilot, COMMAND)
        keys = str(app.screen.query_one(KeyLine).render())
        for key in ("f5 launch", "f2 pick", "f3 runs", "f8 fault", "^s save", "esc back", "f1 help"):
            assert key in keys
        assert len(keys) <= 78


async def test_an_upload_says_how_far_it_is_while_a_launch_runs(home):
    app = FootplateApp()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await open_form(app, pilot, COMMAND)
        go_on = asyncio.Event()

        class Uploads(Fake):
            upload = Uploading("code", 3_000_000, 10_000_000)

            async def submit(self, job_file, name=None):
                await go_on.wait()
                return await super().submit(job_file, name)

        app.workspace = Uploads()
        await send(pilot, "f5")
        await wait(pilot, lambda: "uploading 3.0 MB of 10.0 MB" in str(app.screen.query_one(TopLine).render()))
        await wait(pilot, lambda: "3.0 MB of 10.0 MB" in str(screen.query_one("#launch", Button).label))
        app.workspace.__class__.upload = None
        go_on.set()
        await wait(pilot, lambda: isinstance(app.screen, JobScreen))
        await wait(pilot, lambda: app.screen.job is not None and not app.screen.job.active)
        await wait(pilot, lambda: "uploading" not in str(app.screen.query_one(TopLine).render()))
