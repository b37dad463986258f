"""Jobs that fail for real: the card names the rank, its exception and the line of its code, not a bystander."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.at_work import ended, job_file, log, ranks
from tests.commands import Inside

from footplate.operations.failure import HEAD, failure

TRAIN = """\
import os, sys
import torch.distributed as dist

def load(path):
    raise ValueError(f"cannot decode {path!r}")

def main():
    dist.init_process_group("gloo")
    print("epoch 1/3 step 10 loss 0.5", flush=True)
    dist.barrier()
    if dist.get_rank() == 1:
        load("data/class_b/007.png")
    dist.barrier()

main()
"""


async def test_a_two_process_training_that_fails_on_rank_1_shows_rank_1_s_exception(workspace, home, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    await workspace.submit(job_file(tmp_path, "python train.py", f"{ranks(2)}code: train.py\n"), "pair")
    job = await ended(workspace, "pair")
    assert job.error == "rank 1: ValueError: cannot decode 'data/class_b/007.png' (exit code 1)"
    card = (await failure(workspace, "pair")).card
    assert card.headline == "rank 1: ValueError: cannot decode 'data/class_b/007.png'"
    assert (card.rank, card.node, card.file) == (1, 0, "user_logs/std_log_process_1.txt")
    assert card.origin is not None
    assert (card.origin.file.rpartition("/")[2], card.origin.line, card.origin.function) == ("train.py", 5, "load")
    lines = (await log(workspace, "pair", card.file)).splitlines()
    assert card.line is not None
    assert lines[card.line - 1].endswith("ValueError: cannot decode 'data/class_b/007.png'")
    assert [one.progress.told for one in card.ranks] == ["epoch 1/3, step 10"] * 2
    assert card.ranks[1].exit_code == 1
    # On a machine that is at its limits rank 0 is ended before it has noticed.
    assert card.ranks[0].exit_code == 143 or "peer" in card.ranks[0].said.lower()
    commands = Inside(tmp_path)
    commands.environment["FOOTPLATE_HOME"] = str(home)
    told = (await asyncio.to_thread(commands, "failure", "pair")).stdout
    assert told.splitlines()[0] == card.headline
    document = json.loads((await asyncio.to_thread(commands, "failure", "pair", "--json")).stdout)
    assert (document["rank"], document["exception"], document["kind"]) == (1, "ValueError", "exception")
    assert document["traceback"].startswith("Traceback")
    assert document["ranks"][1]["last_step"] == 10
    assert (await asyncio.to_thread(commands, "failure", "nobody")).returncode == 2


@pytest.mark.long
async def test_torchrun_within_one_process_is_seen_through(workspace, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    command = "python -m torch.distributed.run --standalone --nproc-per-node 2 train.py"
    await workspace.submit(job_file(tmp_path, command, "code: train.py\n"), "launched")
    job = await ended(workspace, "launched")
    assert str(job.error).startswith("rank 1: ValueError: cannot decode 'data/class_b/007.png'"), await log(
        workspace, "launched"
    )
    card = (await failure(workspace, "launched")).card
    assert (card.rank, card.exception, len(card.ranks)) == (1, "ValueError", 2)
    assert card.ranks[1].exit_code == 1


async def test_a_rank_that_was_killed_is_blamed_and_not_the_one_that_lost_it(workspace, tmp_path):
    lost = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:41221"
    command = f'echo "step 7 loss 0.5"; if test $RANK = 1; then kill -9 $$; fi; sleep 0.5; echo "{lost}"; exit 1'
    await workspace.submit(job_file(tmp_path, command, ranks(2)), "killed")
    job = await ended(workspace, "killed")
    assert str(job.error).startswith("rank 1: step 7 loss 0.5 (ended by SIGKILL")
    card = (await failure(workspace, "killed")).card
    assert (card.rank, card.kind, card.ranks[1].signal, card.ranks[1].progress.step) == (1, "killed", "SIGKILL", 7)
    assert "likely" in card.sentence


async def test_a_huge_log_is_read_by_its_ends_and_the_line_is_right_all_the_same(workspace, tmp_path, monkeypatch):
    (tmp_path / "long.py").write_text(
        "print('some words of the loader, of no use to anybody\\n' * 400_000)\nraise KeyError('lr')\n"
    )
    await workspace.submit(job_file(tmp_path, "python long.py", "code: long.py\n"), "long")
    assert (await ended(workspace, "long")).status == "Failed"
    asked: list[int] = []
    read_log = workspace.read_log

    async def counted(name, path, offset, limit):
        asked.append(limit)
        return await read_log(name, path, offset, limit)

    monkeypatch.setattr(workspace, "read_log", counted)
    card = (await failure(workspace, "long")).card
    assert (card.exception, card.message) == ("KeyError", "'lr'")
    assert card.line == 400_000 + 5
    assert sum(asked) < 20 * HEAD


async def test_a_job_whose_command_never_began_says_what_went_before(workspace, tmp_path):
    more = "inputs: {data: {type: uri_file, path: http://127.0.0.1:9/none}}\n"
    await workspace.submit(job_file(tmp_path, "echo ${{inputs.data}}", more), "early")
    job = await ended(workspace, "early")
    assert job.status == "Failed"
    card = (await failure(workspace, "early")).card
    assert card.message == job.error
    assert card.next_step


async def test_a_job_that_completed_has_no_card(workspace, home, tmp_path):
    await workspace.submit(job_file(tmp_path, "echo sung"), "wren")
    assert (await ended(workspace, "wren")).status == "Completed"
    commands = Inside(tmp_path)
    commands.environment["FOOTPLATE_HOME"] = str(home)
    refused = await asyncio.to_thread(commands, "failure", "wren")
    assert refused.returncode == 2
    assert "has not failed" in refused.stderr
