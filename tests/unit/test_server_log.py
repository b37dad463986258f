"""The reason that a scoring server's log gives for its failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from footplate.local import server_log

INIT_RAISED = """\
2026-01-01 00:00:00,000 E [7] azmlinfsrv - Encountered Exception Traceback (most recent call last):
  File "server/user_script.py", line 119, in invoke_init
    self._user_init()
artefact.BadModel: There is no \x1b[31mmodel.json\x1b[0m here; register the job's folder.
The model folder holds:
  nothing

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "server/aml_blueprint.py", line 109, in setup
    self.user_script.invoke_init()
azureml_inference_server_http.server.user_script.UserScriptException: Caught an unhandled exception from the user script

2026-01-01 00:00:00,001 I [7] azmlinfsrv - Model Directory Contents:
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INIT_RAISED, "BadModel: There is no  [31mmodel.json [0m here; register the job's folder."),
        ("Error: unknown option\n\n", "Error: unknown option"),
        ("", ""),
        ("Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n", "KeyboardInterrupt"),
    ],
    ids=["the script's own exception", "the last line", "nothing", "an exception without a text"],
)
def test_the_reason_is_one_line_without_control_characters(tmp_path: Path, text: str, expected: str):
    log = tmp_path / "server.log"
    log.write_text(text)
    assert server_log.reason(log, 0) == expected


def test_the_reason_is_this_lifes_not_an_earlier_ones(tmp_path: Path):
    log = tmp_path / "server.log"
    log.write_text(INIT_RAISED)
    begin = log.stat().st_size
    with log.open("a") as file:
        file.write("out of memory\n")
    assert server_log.reason(log, begin) == "out of memory"
