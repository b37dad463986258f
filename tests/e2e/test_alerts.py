"""Alerts end to end: `watch` in a script, and what a real terminal and a real tmux get from the console."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests import metrics_template
from tests.at_work import until
from tests.commands import Inside
from tests.terminal import Terminal

CONSOLE = (sys.executable, "-m", "footplate")
WAITS = "until [ -e {go} ]; do sleep 0.05; done"
RULES = """\
[[alerts.rules]]
when = ["failed", "finished"]
do = ["toast", "ring", "osc9", "osc777"]
command = ["{command}", "x y"]
"""


@pytest.fixture
def footplate(tmp_path: Path) -> Inside:
    """The commands in a home of their own."""
    commands = Inside(tmp_path)
    metrics_template.give(commands.home)
    return commands


def launch(footplate: Inside, name: str, command: str) -> None:
    (footplate.folder / f"{name}.yml").write_text(f"command: |\n  {command}\nenvironment: azureml:env:1\n")
    footplate.json("launch", f"{name}.yml", "--name", name)


def test_watch_ends_by_the_outcome_and_runs_a_command_for_each(footplate, tmp_path):
    launch(footplate, "good", "exit 0")
    launch(footplate, "bad", "echo boom; exit 3")
    script = tmp_path / "tell.sh"
    script.write_text(f'#!/bin/sh\necho "$1 $FOOTPLATE_ALERT_EVENT $FOOTPLATE_ALERT_NAME" >> {tmp_path}/told\n')
    script.chmod(0o755)
    done = footplate("watch", "good", "bad", "--run", f"{script} now")
    assert (done.returncode, done.stderr) == (1, "")
    assert "bad · " in done.stdout
    assert done.stdout.splitlines()[-2].startswith("good is Completed after ")
    assert sorted((tmp_path / "told").read_text().splitlines()) == ["now completed good", "now failed bad"]
    for condition, code, outcome in (("failed", 0, "met"), ("finished", 1, "unmet"), ("acc>0.5", 1, "unmet")):
        told = footplate.json("watch", "bad", "--for", condition, code=code)
        assert (told["outcome"], told["status"]) == (outcome, "Failed")
    both = footplate.json("watch", "bad", "good", "--for", "failed", code=1)
    assert [one["outcome"] for one in both] == ["met", "unmet"]
    told = footplate("watch", "bad", "--for", "failed", "--run", "sh -c 'echo no room >&2; exit 5'")
    assert (told.returncode, told.stderr) == (0, "The command sh of an alert ended with 5: no room\n")
    for wrong in (["--for", "unusable"], ["--for", "fialed"], ["--timeout", "soon"], ["--run", "a 'b"]):
        assert footplate("watch", "good", *wrong).returncode == 2


def test_watch_gives_up_when_the_time_is_up_and_waits_for_clusters_too(footplate, tmp_path):
    launch(footplate, "long", WAITS.format(go=tmp_path / "go"))
    told = footplate.json("watch", "long", "--timeout", "0.3", code=3)
    assert told["outcome"] == "timeout"
    told = footplate.json("watch", "long", "--for", "stalled=0.2s")
    assert (told["outcome"], told["status"]) == ("met", "Running")
    assert footplate.json("watch", "cluster:local")["outcome"] == "completed"
    footplate("rehearse", "local", "fill-quota")
    full = footplate.json("watch", "local", "--for", "unusable")
    assert (full["kind"], full["outcome"]) == ("cluster", "met")
    assert "quota is full" in full["text"]
    assert footplate("watch", "local").returncode == 1
    footplate("alerts", "--watch", "long", "--watch", "cluster:local")
    assert [(one["kind"], one["name"]) for one in footplate.json("alerts")["watched"]] == [
        ("job", "long"),
        ("cluster", "local"),
    ]
    assert [one["name"] for one in footplate.json("alerts", "--unwatch", "local")["watched"]] == ["long"]
    assert footplate("alerts", "--unwatch", "local").returncode == 2
    (tmp_path / "go").touch()
    assert footplate("watch", "long").returncode == 0
    assert footplate("alerts", "--watch", "long").returncode == 2  # it has ended


@pytest.mark.parametrize("tmux", ["", "/tmp/tmux-1/default,1,0"])
def test_a_terminal_gets_bell_and_notices_once_and_a_command_runs(footplate, tmp_path, tmux):
    script = tmp_path / "tell.sh"
    script.write_text(f'#!/bin/sh\nprintf "%s|%s|%s\\n" "$1" "$FOOTPLATE_ALERT_TEXT" "$2" >> {tmp_path}/told\n')
    script.chmod(0o755)
    footplate.settings.write_text(RULES.format(command=script))
    launch(footplate, "wren", f"{WAITS.format(go=tmp_path / 'go')}; printf 'no \\033]52;c;QQ==\\007 room\\n'; exit 3")
    environment = {**footplate.environment, "TMUX": tmux}
    with Terminal(CONSOLE, environment=environment) as terminal:
        terminal.read_until(b"Running")
        terminal.write("W")
        terminal.read_until(b"is watched")
        (tmp_path / "go").touch()
        terminal.read_until(b"]777;notify;", 60)
        until((tmp_path / "told").exists)
        terminal.write("q")
        assert terminal.wait() == 0
        seen = bytes(terminal.output)
    escape = b"\x1b\x1b" if tmux else b"\x1b"
    for notice in (b"]9;footplate: wren failed after ", b"]777;notify;footplate;wren failed after "):
        (found,) = re.findall(
            re.escape((b"\x1bPtmux;" if tmux else b"") + escape + notice) + rb"[^\x07\x1b]*\x07(?:\x1b\\)?", seen
        )
        assert found.endswith(b"\x1b\\") == bool(tmux)
        assert b"QQ==" not in found
    assert re.sub(rb"\x1b[\]P][^\x07]*\x07", b"", seen).count(b"\x07") == 1  # the bell alone
    told = tmp_path / "told"
    words, text, more = told.read_text().rstrip("\n").split("|")
    assert (words, more) == ("x y", "")
    assert text.startswith("wren failed after ")
    (listed,) = footplate.json("alerts")["told"]
    assert (listed["event"], listed["name"], listed["fault"]) == ("failed", "wren", None)
    assert "wren failed after " in footplate("alerts").stdout
    with Terminal(CONSOLE, environment=environment) as terminal:
        terminal.read_until(b"Failed")
        terminal.write("!")
        terminal.read_until(b"wren failed after ")  # the list of what was told
        terminal.write("\x11")
        terminal.wait()
        assert b"777;notify;" not in bytes(terminal.output)
    assert len(told.read_text().splitlines()) == 1


def test_what_failed_while_no_console_was_open_is_told_at_the_next_start(footplate, tmp_path):
    launch(footplate, "wren", f"{WAITS.format(go=tmp_path / 'go')}; exit 3")
    launch(footplate, "robin", WAITS.format(go=tmp_path / "go"))
    with Terminal(CONSOLE, environment=footplate.environment, columns=100) as terminal:
        terminal.read_until(lambda output: output.count(b"Running") >= 2)
        for keys in (" ", " ", "W"):
            terminal.write(keys)
        terminal.read_until(b"2 jobs are watched")
        terminal.write("q")
        assert terminal.wait() == 0
    (tmp_path / "go").touch()
    assert footplate("watch", "wren", "robin").returncode == 1
    with Terminal(CONSOLE, environment=footplate.environment, columns=100) as terminal:
        terminal.read_until(b"While you were away: 1 failed, 1 finished")
        terminal.write("q")
        terminal.wait()
    assert [told["status"] for told in json.loads(footplate("jobs", "--json").stdout)] == ["Completed", "Failed"]
