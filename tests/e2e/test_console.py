"""The console end to end: in tmux from the launch form to the prediction, killed and come back, and what its pty gets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import metrics_template
from tests.at_work import until
from tests.terminal import Terminal
from tests.tmux import Tmux, console_pid, needs_tmux

CONSOLE = (sys.executable, "-m", "footplate")
TRAINING_SECONDS = 240


@pytest.fixture
def environment(tmp_path):
    metrics_template.give(tmp_path / "home")
    variables = {
        "FOOTPLATE_HOME": str(tmp_path / "home"),
        "FOOTPLATE_CONFIG": str(tmp_path / "none.toml"),
        "COLORTERM": "truecolor",
    }
    yield variables
    # Whatever a failed test left behind: the home's own jobs and endpoints, by the commands an operator has.
    for job in footplate(variables, "jobs", "--json"):
        if job["ended"] is None:
            subprocess.run(
                [*CONSOLE, "cancel", job["name"]], env={**os.environ, **variables}, capture_output=True, check=False
            )
    for endpoint in footplate(variables, "endpoints", "--json"):
        footplate(variables, "endpoint", "delete", endpoint["name"], "--json")


def footplate(environment, *arguments):
    done = subprocess.run(
        [*CONSOLE, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.long
@needs_tmux
def test_from_the_launch_form_to_the_prediction(environment):
    with Tmux(CONSOLE, environment) as tmux:
        tmux.wait("No jobs yet.")
        tmux.keys("5")
        tmux.wait("train-distributed.yml")
        while "▸ train-distributed.yml" not in tmux.screen():
            tmux.press_until_drawn("Down")
        tmux.keys("Enter")
        tmux.wait("2 ranks")
        tmux.press_until_drawn("Tab")
        tmux.press_until_drawn("Tab")
        tmux.press_until_drawn("C-u")
        tmux.type("2")
        tmux.wait("--num_epochs 2 ")
        tmux.keys("F5")
        tmux.wait("following")
        tmux.wait(re.compile(r"Epoch +2").search, TRAINING_SECONDS)
        tmux.wait("C Completed", TRAINING_SECONDS)
        tmux.keys("m")
        tmux.wait("best_val_acc")
        tmux.keys("R")
        tmux.wait("Register the model of")
        tmux.keys("Enter")
        tmux.wait("birds:1")
        tmux.keys("d")
        tmux.wait("Deploy birds:1")
        tmux.press_until_drawn("Enter")  # the second field has the focus
        tmux.type("green")
        tmux.wait("green")
        tmux.keys("Enter")
        tmux.wait("Succeeded", 60)
        tmux.keys("Enter")
        tmux.wait(lambda screen: "what the model sees" in screen and "cropped to" in screen)
        tmux.keys("s")
        screen = tmux.wait("answered by green")
        assert re.search(r"(chicken|turkey) +[█▏▎▍▌▋▊▉]+.* %", screen)
        tmux.keys("r")
        tmux.wait('"probability"')
        tmux.press_until_drawn("Escape")  # an escape followed at once by a digit is another key
        tmux.keys("1")
        tmux.wait("C Completed")
        tmux.keys("q")
        tmux.wait("left 0")


@needs_tmux
def test_a_killed_console_leaves_the_job_running_and_the_next_one_shows_its_whole_log(environment, tmp_path):
    job = tmp_path / "counting.yml"
    go_on = tmp_path / "go on"
    job.write_text(
        "command: >-\n"
        f"  for i in $(seq 1 500); do echo line $i; done; until [ -e '{go_on}' ]; do sleep 0.05; done; echo the last line\n"
        "environment: azureml:any@latest\n"
    )
    name = footplate(environment, "launch", str(job), "--json")["name"]
    with Tmux(CONSOLE, environment) as tmux:
        tmux.wait("R Running")
        tmux.keys("Enter")
        tmux.wait("line 500")
        os.kill(console_pid(tmux), signal.SIGKILL)
        tmux.wait("left 137")
    assert footplate(environment, "job", name, "--json")["status"] == "Running"
    with Tmux(CONSOLE, environment) as tmux:
        tmux.wait("R Running")
        tmux.keys("l")
        tmux.wait("line 500")
        tmux.keys("g")
        tmux.wait("line 1\n")
        tmux.wait("paused")
        go_on.touch()
        tmux.wait("C Completed")
        tmux.keys("G")
        tmux.wait("the last line")


EVIL = b"\x1b]52;c;c3RvbGVu\x07\x1b]0;stolen title\x07\x1b[77;999H\x1b[2J\x9b3;3H\x1b[1;31mred\x1b[0m visible end\n"


def test_no_escape_sequence_of_a_log_line_or_a_name_reaches_the_terminal(environment, tmp_path):
    (tmp_path / "evil.bin").write_bytes(EVIL * 3)
    job = tmp_path / "evil.yml"
    job.write_text(
        f"command: cat '{tmp_path / 'evil.bin'}'\n"
        "environment: azureml:any@latest\n"
        'display_name: "[@click=app.exit]click[/] \\e]52;c;bmFtZQ==\\a [/x]"\n'
        'tags: {owner: "\\e]0;tag title\\a"}\n'
    )
    name = footplate(environment, "launch", str(job), "--follow", "--json")["name"]
    with Terminal(CONSOLE, columns=120, rows=40, environment=environment) as terminal:
        terminal.read_until(b"[@click=app.exit]click[/]")
        terminal.write("l")
        terminal.read_until(b"visible end")
        terminal.write("o")
        terminal.read_until(name.encode())
        terminal.write("\x1b")
        terminal.read_until(b"faults")  # the list's own key line: an escape followed at once by a letter is another key
        terminal.write("q")
        assert terminal.wait() == 0
        output = bytes(terminal.output)
    assert b"]52;" not in output
    assert b"c3RvbGVu" not in output
    assert b"bmFtZQ" not in output
    assert b"stolen title" not in output
    assert b"77;999H" not in output
    assert b"\x9b3;3H" not in output


@needs_tmux
def test_a_console_whose_terminal_is_gone_ends(environment):
    with Tmux(CONSOLE, environment) as tmux:
        tmux.wait("No jobs yet.")
        console = console_pid(tmux)
        tmux.hang_up()
        until(lambda: not Path(f"/proc/{console}").exists())


def test_a_sigterm_leaves_the_terminal_as_it_was(environment):
    with Terminal(CONSOLE, environment=environment) as terminal:
        terminal.read_until(b"No jobs yet.")
        terminal.process.terminate()
        terminal.wait()
        assert b"\x1b[?1049l" in terminal.output
        assert b"\x1b[?1000l" in terminal.output


def test_a_fault_of_the_console_itself_is_a_sentence_and_a_traceback_in_the_log(environment, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys\n"
        "from footplate import console\n"
        "from footplate.screens.jobs import JobsScreen\n"
        "def explode(self): raise RuntimeError('unforeseen \\x1b]0;title\\x07')\n"
        "JobsScreen.action_faults = explode\n"
        "sys.exit(console.open_console())\n"
    )
    with Terminal((sys.executable, broken), environment=environment) as terminal:
        terminal.read_until(b"No jobs yet.")
        terminal.write("f")
        assert terminal.wait() == 1
        output = bytes(terminal.output)
    assert b"Traceback" not in output
    assert b"did not foresee" in output
    assert b"\x1b]0;title" not in output
    assert "RuntimeError" in (Path(environment["FOOTPLATE_HOME"]) / "console.log").read_text()
