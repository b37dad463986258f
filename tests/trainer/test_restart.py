"""A training that is cut off goes on to the weights it would have had, bit for bit."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from pathlib import Path

import pytest
from tests.trainer.starts import ELASTIC, TINY, Ranks, Started

pytestmark = pytest.mark.slow
MOBILE = (*TINY, "--architecture=mobilenet_v3_small", "--batch_size=2", "--num_epochs=3", "--precision=auto")
"""Batch normalisation and dropout: both must go on as if nothing had happened. Four steps an epoch on two ranks."""
OFTEN = ("--checkpoint_minutes=0.00001", "--resume=auto")


def weights(output: Path) -> bytes:
    return (output / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(ranks: Ranks, birds: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights of two ranks that nobody disturbed."""
    output = tmp_path_factory.mktemp("undisturbed")
    ended = ranks.together(f"--data={birds}", f"--output_dir={output}", *MOBILE)
    assert [each.code for each in ended] == [0, 0], ended
    return weights(output)


def pids(started: Started, attempt: int) -> list[int]:
    """The ranks' processes of an attempt, from the table that rank 0 prints."""
    started.until(r"(?m)^  rank  node", attempt + 1)
    started.until(r"(?m)^  [01]  +0  +[01]  +\S+ +(\d+)", 2 * (attempt + 1))
    rows = re.findall(r"(?m)^  [01]  +0  +[01]  +\S+ +(\d+)", started.out)
    return [int(pid) for pid in rows[2 * attempt : 2 * attempt + 2]]


def test_ranks_killed_at_three_places_are_restarted_to_the_same_weights(
    ranks: Ranks, birds: Path, tmp_path: Path, undisturbed: bytes
) -> None:
    """In the middle of an epoch, rank 0 at an epoch's end, and before the first step after a restart."""
    places: list[tuple[str, int]] = [(r"Checkpoint \S+: epoch 2, 8 ", 1), (r"Epoch 2/3 +train", 0), ("Going on", 1)]
    started = ranks.start(
        f"--data={birds}", f"--output_dir={tmp_path}", *MOBILE, *OFTEN, script=ELASTIC, RESTARTS="3",
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
    )  # fmt: skip
    for attempt, (place, rank) in enumerate(places):
        started.until(place, 1 if attempt < 2 else 2)
        os.kill(pids(started, attempt)[rank], signal.SIGKILL)
    ended = started.end()
    assert ended.code == 0, ended
    assert ended.out.count("Going on from") == 3, ended.out
    assert weights(tmp_path) == undisturbed
    assert not (tmp_path / "checkpoints").exists()


def test_sigterm_keeps_the_training_and_a_new_start_goes_on(
    ranks: Ranks, birds: Path, tmp_path: Path, undisturbed: bytes
) -> None:
    """The two ranks stop after the same step, though only one of them was told to."""
    arguments = [f"--data={birds}", f"--output_dir={tmp_path}", *MOBILE, "--resume=auto"]
    started = ranks.start_together(*arguments)
    started[1].until("Epoch 1/3")
    started[1].send(signal.SIGTERM)
    ended = [each.end() for each in started]
    assert [each.code for each in ended] == [143, 143], ended
    kept = re.match(
        r"train.py: SIGTERM: the training is kept in (\S+) \(epoch [23], \d+ of 17 pictures into it\)", ended[0].err
    )
    assert kept
    assert Path(kept[1]).is_file()
    assert ended[0].err == ended[1].err
    again = ranks.together(*arguments)
    assert [each.code for each in again] == [0, 0], again
    assert "Going on from" in again[0].out
    assert weights(tmp_path) == undisturbed


def test_of_torn_checkpoints_the_newest_whole_one_is_taken(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    """As storage leaves them that showed a file before all of it was there; and one of another training is refused."""
    folder = tmp_path / "kept"
    arguments = [f"--data={birds}", *MOBILE, f"--checkpoint_dir={folder}", "--checkpoint_minutes=0", "--resume=auto"]
    first = ranks.alone(*arguments, f"--output_dir={tmp_path / 'first'}")
    assert first.code == 0, first
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"checkpoint-00000{steps}.{kind}" for steps in ("0016", "0024") for kind in ("json", "pt")]
    torn = folder / "checkpoint-000000024.pt"
    torn.write_bytes(torn.read_bytes()[:-100])
    again = ranks.alone(*arguments, f"--output_dir={tmp_path / 'again'}")
    assert again.code == 0, again
    assert "checkpoint-000000024.pt is not whole and was passed over" in again.out
    assert "Epoch 2/3" not in again.out
    assert weights(tmp_path / "again") == weights(tmp_path / "first")
    other = ranks.alone(*arguments, f"--output_dir={tmp_path / 'other'}", "--learning_rate=0.5")
    assert other.code == 2
    assert "learning_rate was 0.001 and is 0.5. Use --resume none, or another --checkpoint_dir." in other.err


def test_a_run_that_is_cut_off_leaves_a_whole_model(ranks: Ranks, birds: Path, tmp_path: Path) -> None:
    """What stands in the output folder is whole at any moment, as it takes its place by a rename."""
    started = ranks.start(f"--data={birds}", f"--output_dir={tmp_path}", *TINY, "--num_epochs=10000")
    started.until("Epoch 2/")
    started.send(signal.SIGKILL)
    started.end()
    manifest = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    content = (tmp_path / "model" / manifest["weights"]["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == manifest["weights"]["sha256"]
    assert manifest["onnx"] is None
