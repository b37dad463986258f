"""The one line that says why a job on this machine failed."""

from __future__ import annotations

import pytest

from footplate.local.failure import explain

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


def logs(folder, *texts):
    files = {rank: folder / f"std_log_process_{rank}.txt" for rank in range(len(texts))}
    for file, text in zip(files.values(), texts, strict=True):
        file.write_text(text)
    return files


@pytest.mark.parametrize(
    ("log", "code", "expected"),
    [
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
    assert explain(logs(tmp_path, log), {0: code}, 0) == expected


def test_the_rank_that_raised_is_blamed_and_not_the_one_that_ended_first(tmp_path):
    bystander = "Traceback (most recent call last):\n  File 'a.py'\nRuntimeError: Connection closed by peer\n"
    said = explain(logs(tmp_path, bystander, CHAINED), {0: 1, 1: 1}, 0)
    assert said == "rank 1: ValueError: no such bird (exit code 1)"
    said = explain(logs(tmp_path, bystander, "epoch 3\n"), {0: 1, 1: 137}, 1)
    assert said.startswith("rank 1: epoch 3 (ended by SIGKILL")


def test_a_launcher_within_one_rank_is_seen_through(tmp_path):
    text = "[rank0]: epoch 1\n" + "".join(f"[rank1]: {line}\n" for line in WORKER.splitlines())
    assert explain(logs(tmp_path, text), {0: 1}, 0) == "rank 1: OSError: image file is truncated (exit code 1)"


def test_a_long_message_is_cut_and_a_huge_log_is_read_from_its_end(tmp_path):
    text = "noise\n" * 200_000 + "Traceback (most recent call last):\n  x\nValueError: " + "b" * 5000
    said = explain(logs(tmp_path, text), {0: 1}, 0)
    assert said.startswith("ValueError: bbb")
    assert said.endswith("… (exit code 1)")
    assert len(said) < 330


def test_a_log_that_is_not_there_said_nothing(tmp_path):
    assert explain({0: tmp_path / "none.txt"}, {0: 1}, 0) == "it said nothing (exit code 1)"
