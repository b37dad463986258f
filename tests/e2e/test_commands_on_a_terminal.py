"""What a command shows of text from outside: on a terminal nothing that it would obey, to a pipe what it is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.commands import COMMAND, Footplate
from tests.terminal import Terminal

from footplate.workspace.open import open_workspace

EVIL = "seen\x1b]52;c;c3RvbGVu\x07\x1b[2J\x9b3;3H\x9d0;title\x9c\u202e end"
"""The clipboard (OSC 52), a cleared screen, and C1 controls, which stand as two bytes each in UTF-8."""
OBEYED = (b"\x1b", b"\x07", b"\xc2\x9b", b"\xc2\x9d", b"\xc2\x9c", b"\xe2\x80\xae")


@pytest.fixture
def footplate(tmp_path):
    return Footplate(tmp_path)


def on_terminal(footplate: Footplate, *command: str, code: int = 0) -> str:
    """The command's output on a terminal, after a look that nothing in it is obeyed."""
    with Terminal(command, environment=footplate.environment, folder=footplate.folder) as terminal:
        assert terminal.wait() == code, bytes(terminal.output)
        output = bytes(terminal.output)
    assert [bad for bad in OBEYED if bad in output] == []
    return output.decode().replace("\r\n", "\n")


def test_all_that_a_command_says_goes_through_one_place(footplate, tmp_path):
    script = tmp_path / "say.py"
    script.write_text(
        "import sys\n"
        "from footplate.cli.frame import Failed, Frame, fail\n"
        f"evil = {EVIL!r}\n"
        "frame = Frame(json='--json' in sys.argv)\n"
        "frame.result({'key': evil}, f'result {evil}\\nsecond line')\n"
        "if not frame.json:\n"
        "    frame.say(f'say {evil}')\n"
        "    frame.table([], ['NAME'], [[f'cell {evil}']], '')\n"
        "frame.note(f'note {evil}')\n"
        "fail(f'fail {evil}', evil, f'{evil}\\n{evil}')\n"
        "frame.results([{}], f'done {evil}', [Failed(evil, evil, 3)])\n"
    )
    shown = on_terminal(footplate, sys.executable, str(script), code=3).splitlines()
    for start in (
        "result seen",
        "second line",
        "say seen",
        "cell seen",
        "note seen",
        "footplate: fail seen",
        "done seen",
    ):
        assert any(line.startswith(start) for line in shown), shown
    document = on_terminal(footplate, sys.executable, str(script), "--json", code=3)
    assert json.loads(document[: document.index("\n}") + 2]) == {"key": EVIL}
    piped = subprocess.run([sys.executable, script], capture_output=True, check=False)
    assert f"result {EVIL}\nsecond line\nsay {EVIL}\n".encode() in piped.stdout


async def test_a_dry_run_and_a_models_classes_are_text(footplate, tmp_path, monkeypatch):
    (tmp_path / "job.yml").write_text(
        f"command: {json.dumps('true ' + EVIL)}\nenvironment: azureml:env:1\nenvironment_variables: {{BIRD: {json.dumps(EVIL)}}}\n"
    )
    assert "true seen" in on_terminal(footplate, *COMMAND, "launch", "job.yml", "--dry-run")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text(json.dumps({"classes": ["hen", EVIL]}))
    for name, value in footplate.environment.items():
        monkeypatch.setenv(name, value)
    await open_workspace("local").register("birds", tmp_path / "model")
    assert "seen" in on_terminal(footplate, *COMMAND, "model", "show", "birds:1")
    assert "hen, seen" in on_terminal(footplate, *COMMAND, "models")


def test_a_log_is_safe_on_a_terminal_with_its_last_line_and_whole_in_a_pipe(footplate, tmp_path):
    content = f"first {EVIL}\n 10%\r100%\r\n\nlast, without an end".encode()
    (tmp_path / "log.bin").write_bytes(content)
    (tmp_path / "job.yml").write_text(
        f"command: cat '{tmp_path / 'log.bin'}'\nenvironment: azureml:env:1\ndisplay_name: {json.dumps(EVIL)}\n"
    )
    followed = on_terminal(footplate, *COMMAND, "launch", "job.yml", "--name", "evil", "--follow")
    assert "\n100%\n\nlast, without an end\nevil is Completed" in followed  # the end is said after the last byte
    shown = on_terminal(footplate, *COMMAND, "logs", "evil")
    assert shown.startswith("first seen")
    assert shown.endswith("\n100%\n\nlast, without an end\n")
    assert "display name" in on_terminal(footplate, *COMMAND, "job", "evil")
    piped = subprocess.run(
        [*COMMAND, "logs", "evil"], env=footplate.environment, capture_output=True, check=True, timeout=60
    )
    assert piped.stdout == content


def test_a_fault_while_the_console_opens_is_a_sentence(footplate, tmp_path):
    (tmp_path / "broken.py").write_text(
        "import sys\n"
        "from footplate import app, console\n"
        "def explode(name): raise RuntimeError('unforeseen \\x1b]0;title\\x07')\n"
        "app.open_workspace = explode\n"
        "sys.exit(console.open_console())\n"
    )
    shown = on_terminal(footplate, sys.executable, str(tmp_path / "broken.py"), code=1)
    assert "did not foresee" in shown
    assert "Traceback" not in shown
    assert "RuntimeError" in (footplate.home / "console.log").read_text()
