"""The one line that says why a rank failed."""

from __future__ import annotations

import pytest

from footplate.local.failure import describe

CHAINED = """\
epoch 1
Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'bird'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise ValueError("no such bird")
ValueError: no such bird
more of the message
[rank1]: Traceback (most recent call last):
[rank1]:   File "a.py", line 3, in <module>
[rank1]: ValueError: no such bird
[rank1]: more of the message
[W1130 11:00:00] Warning: destroy_process_group() was not called before the end
"""

WORKER = """\
Traceback (most recent call last):
  File "loader.py", line 9, in __next__
OSError: Caught OSError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "data.py", line 2, in __getitem__
OSError: image file is truncated

"""


@pytest.mark.parametrize(
    ("log", "code", "expected"),
    [
        (CHAINED, 1, "ValueError: no such bird (exit code 1)"),
        (WORKER, 1, "OSError: image file is truncated (exit code 1)"),
        (
            "starting\nbash: line 1: trian.py: command not found\n\n",
            127,
            "bash: line 1: trian.py: command not found (exit code 127)",
        ),
        ("", 3, "it said nothing (exit code 3)"),
        ("epoch 9\n", 139, "epoch 9 (ended by SIGSEGV, exit code 139)"),
        ("epoch 9\n", 137, "epoch 9 (ended by SIGKILL, exit code 137; often the machine has run out of memory)"),
        ("epoch 9\n", 200, "epoch 9 (exit code 200)"),
        ("\x1b[31mbad\x1b[0m \x1b]0;title\x07bird\n", 1, "bad bird (exit code 1)"),
    ],
)
def test_the_cause_is_one_clean_line(tmp_path, log, code, expected):
    file = tmp_path / "std_log.txt"
    file.write_text(log)
    assert describe(file, code) == expected


def test_a_long_message_is_cut_and_a_huge_log_is_read_from_its_end(tmp_path):
    file = tmp_path / "std_log.txt"
    file.write_text("noise\n" * 200_000 + "Traceback (most recent call last):\n  x\nValueError: " + "b" * 5000)
    said = describe(file, 1)
    assert said.startswith("ValueError: bbb")
    assert said.endswith("… (exit code 1)")
    assert len(said) < 330


def test_a_log_that_is_not_there_said_nothing(tmp_path):
    assert describe(tmp_path / "none.txt", 1) == "it said nothing (exit code 1)"
